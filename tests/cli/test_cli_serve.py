"""The host service through the command line: serve, serve status, serve stop, cache, top."""

import configparser
import functools
import json
import os
import re
import resource
import select
import shutil
import signal
import socket
import subprocess
import time
import unittest
from pathlib import Path

import cli_case
from cli_case import CLI


class Serve(cli_case.Case):
    def start(self, *options, preexec_fn=None, **environment):
        """Starts a service and waits until it reports that it serves."""
        self.socket = str(self.dir / "host.sock")
        service = subprocess.Popen([CLI, "serve", "--socket", self.socket, *options], stderr=subprocess.PIPE, text=True,
                                   env={**os.environ, **environment}, preexec_fn=preexec_fn)
        self.addCleanup(service.stderr.close)
        self.addCleanup(service.wait)
        self.addCleanup(service.kill)
        line = ""
        while not line.startswith("penstock: serving at") and "serving at" not in line:
            line = service.stderr.readline()
            self.assertTrue(line, "the service ended")
        self.assertIn(self.socket, line)
        return service

    def test_a_service_is_shown_and_ended(self):
        service = self.start("--memory", "32MiB", "--threads", "3", "--keep")
        shown = json.loads(self.ok("serve", "status", "--socket", self.socket, "--json"))
        self.assertEqual((shown["pid"], shown["threads"], shown["limit"]), (service.pid, 3, 32 << 20))
        self.assertTrue(shown["keep"])
        self.assertEqual((shown["sets"], shown["items"], shown["reads"]), ([], 0, 0))
        self.assertEqual([s["kind"] for s in shown["sessions"]], ["control"])
        text = self.ok("serve", "status", "--socket", self.socket).decode()
        self.assertIn("of 32.0 MiB", text)
        self.assertIn("it stays until it is ended", text)
        self.assertIn("0 items", self.ok("cache", "status", "--socket", self.socket).decode())
        self.assertIn("data sets: 0", self.ok("top", "--once", "--socket", self.socket).decode())
        self.assertEqual(json.loads(self.ok("top", "--once", "--json", "--socket", self.socket))["pid"], service.pid)
        self.ok("serve", "stop", "--socket", self.socket)
        self.assertEqual(service.wait(60), 0)
        self.assertEqual(os.listdir(self.dir), [])

    def test_a_signal_ends_it_cleanly(self):
        for number in signal.SIGTERM, signal.SIGINT, signal.SIGHUP:
            service = self.start()
            service.send_signal(number)
            self.assertEqual(service.wait(60), 0)
            self.assertEqual(os.listdir(self.dir), [])

    def test_a_killed_one_is_replaced(self):
        service = self.start()
        service.kill()
        service.wait()
        result = self.run_cli("serve", "status", "--socket", self.socket)
        self.assertEqual(result.returncode, 1)
        self.assertIn(b"no host service runs here", result.stderr)
        self.start()
        self.ok("serve", "status", "--socket", self.socket)
        second = self.run_cli("serve", "--socket", self.socket)
        self.assertEqual(second.returncode, 1)
        self.assertIn(b"runs here already", second.stderr)

    def test_it_ends_without_clients(self):
        self.assertEqual(self.start("--linger", "1").wait(60), 0)

    def test_systemd_is_told(self):
        notified = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(notified.close)
        notified.bind(str(self.dir / "notify"))
        notified.settimeout(60)
        service = self.start(NOTIFY_SOCKET=str(self.dir / "notify"))
        self.assertEqual(notified.recv(64), b"READY=1")
        service.terminate()
        self.assertEqual(notified.recv(64), b"STOPPING=1")

    def test_the_unit_of_systemd_is_good(self):
        unit = self.dir / "penstock.service"
        unit.write_text(Path(os.environ["PENSTOCK_UNIT"]).read_text().replace("@PST_UNIT_BINDIR@", str(Path(CLI).parent)))
        keys = configparser.ConfigParser(interpolation=None)
        keys.optionxform = str
        keys.read(unit)
        self.assertEqual(set(keys["Service"]), {"Type", "Environment", "ExecStart", "Restart", "RestartSec"})
        self.assertEqual(keys["Service"]["Type"], "notify")  # test_systemd_is_told
        self.assertEqual(keys["Install"]["WantedBy"], "default.target")
        words = keys["Service"]["ExecStart"].split()
        self.assertEqual(words[:2], [CLI, "serve"])
        self.assertEqual(words.pop(), "$" + keys["Service"]["Environment"].partition("=")[0])
        known = re.findall(r"--[a-z-]+", self.ok("serve", "--help").decode())
        self.assertTrue(set(words[2:]) <= set(known), words)
        if shutil.which("systemd-analyze"):
            verified = subprocess.run(["systemd-analyze", "--user", "verify", str(unit)], capture_output=True, text=True,
                                      env={**os.environ, "XDG_RUNTIME_DIR": str(self.dir)})
            if "Failed to initialize manager" not in verified.stderr:
                self.assertEqual((verified.returncode, verified.stderr), (0, ""))

    def test_files_and_clearing(self):
        self.start()
        saved = json.loads(self.ok("cache", "save", str(self.dir / "warm"), "--socket", self.socket, "--json"))
        self.assertEqual((saved["items"], saved["datasets"]), (0, 0))
        loaded = self.ok("cache", "load", str(self.dir / "warm"), "--socket", self.socket).decode()
        self.assertIn("loaded 0 items", loaded)
        self.assertEqual(json.loads(self.ok("cache", "clear", "--socket", self.socket, "--json")), {"freed": 0})
        missing = self.run_cli("cache", "load", str(self.dir / "none"), "--socket", self.socket)
        self.assertEqual(missing.returncode, 1)
        self.assertIn(b"cannot open the saved cache", missing.stderr)

    def test_a_detached_one_outlives_its_starter(self):
        path = str(self.dir / "host.sock")
        started = self.run_cli("serve", "--detach", "--linger", "60", "--socket", path)
        self.assertEqual(started.returncode, 0, started.stderr)
        shown = json.loads(self.ok("serve", "status", "--socket", path, "--json"))
        self.assertNotEqual(os.getsid(shown["pid"]), os.getsid(0))
        self.assertEqual(self.run_cli("serve", "--detach", "--socket", path).returncode, 1)
        self.ok("serve", "stop", "--socket", path)

    def test_a_detached_one_keeps_nothing_of_its_starter(self):
        self.socket = str(self.dir / "host.sock")
        reader, writer = os.pipe()
        self.addCleanup(os.close, reader)
        subprocess.run([CLI, "serve", "--detach", "--socket", self.socket], check=True, pass_fds=[writer], cwd=self.dir)
        os.close(writer)
        self.addCleanup(subprocess.run, [CLI, "serve", "stop", "--socket", self.socket], capture_output=True)
        self.assertEqual(select.select([reader], [], [], 60)[0], [reader])  # the pipe has no writer any more
        pid = json.loads(self.ok("serve", "status", "--socket", self.socket, "--json"))["pid"]
        self.assertEqual(os.readlink(f"/proc/{pid}/cwd"), "/")

    def test_the_limit_of_files_is_raised(self):
        def lower():
            resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))

        service = self.start(preexec_fn=lower)
        soft, hard = next(line for line in Path(f"/proc/{service.pid}/limits").read_text().splitlines()
                          if line.startswith("Max open files")).split()[3:5]
        self.assertEqual(int(soft), min(65536, int(hard)))

    def test_clients_that_say_nothing_are_dropped(self):
        self.start(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)))
        silent = []
        for _ in range(100):
            silent.append(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
            silent[-1].connect(self.socket)
        self.fails(1, "serve", "status", "--socket", self.socket, says="descriptors")
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and self.run_cli("serve", "status", "--socket", self.socket).returncode:
            time.sleep(0.5)
        self.ok("serve", "status", "--socket", self.socket)
        for one in silent:
            self.assertLessEqual(len(one.recv(65536)), 4096)  # the service refuses the client at once, or closes later
            one.close()

    def test_places_that_will_not_do(self):
        (self.dir / "plain").write_text("mine")
        bus = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.addCleanup(bus.close)
        bus.bind(str(self.dir / "bus"))
        bus.listen()
        for place, status, words in (("plain", 1, "this is no socket"), ("bus", 1, "another program listens"),
                                     ("none/host.sock", 1, "the directory for the socket does not exist"),
                                     ("x" * 200, 1, "1 to 107 bytes")):
            result = self.run_cli("serve", "--socket", str(self.dir / place))
            self.assertEqual(result.returncode, status, place)
            self.assertIn(words, result.stderr.decode())
        self.assertEqual((self.dir / "plain").read_text(), "mine")
        client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.addCleanup(client.close)
        client.connect(str(self.dir / "bus"))  # the service left this socket alone
        result = self.run_cli("serve", "status", "--socket", str(self.dir / "bus"))
        self.assertEqual(result.returncode, 1)
        self.assertIn(b"another program", result.stderr)

    def test_a_relative_path_is_that_of_the_starter(self):
        def run(*arguments):
            return subprocess.run([CLI, *arguments, "--socket", "host.sock"], cwd=self.dir, capture_output=True, timeout=60)

        started = run("serve", "--detach", "--linger", "60")
        self.assertEqual(started.returncode, 0, started.stderr)
        self.assertEqual(run("serve", "status").returncode, 0)
        self.assertEqual(run("serve", "stop").returncode, 0)

    def test_a_limit_on_files_does_not_end_it(self):
        self.socket = str(self.dir / "host.sock")
        # ThreadSanitizer's start-up writes a file, so only there the limit is set later.
        at_start = b"__tsan_init" not in Path(CLI).read_bytes()
        limit = functools.partial(resource.setrlimit, resource.RLIMIT_FSIZE, (0, 0)) if at_start else None
        service = subprocess.Popen([CLI, "serve", "--socket", self.socket, "--memory", "8MiB"], stderr=subprocess.PIPE,
                                   preexec_fn=limit)
        self.addCleanup(service.stderr.close)
        self.addCleanup(service.wait)
        self.addCleanup(service.kill)
        self.assertIn(b"serving at", service.stderr.readline())
        resource.prlimit(service.pid, resource.RLIMIT_FSIZE, (0, 0))
        asked = self.run_cli("serve", "status", "--socket", self.socket)  # the service answers in shared memory
        self.assertEqual(asked.returncode, 1)
        self.assertIn(b"File too large", asked.stderr)
        self.ok("serve", "stop", "--socket", self.socket)
        self.assertEqual(service.wait(60), 0)

    def test_wrong_use(self):
        for arguments in (["cache"], ["cache", "burn"], ["cache", "save"], ["cache", "clear", "x"], ["serve", "twice"],
                          ["serve", "--threads", "5000"], ["serve", "--numa", "gpu"], ["serve", "--linger", "-1"]):
            self.assertEqual(self.run_cli(*arguments).returncode, 2, arguments)
        for arguments in ["cache", "status"], ["cache", "clear"], ["top", "--once"], ["serve", "stop"]:
            result = self.run_cli(*arguments, "--socket", str(self.dir / "none.sock"))
            self.assertEqual(result.returncode, 1, arguments)
            self.assertIn(b"penstock serve starts one", result.stderr)

    def test_top_goes_on_until_it_is_interrupted(self):
        self.start()
        top = subprocess.Popen([CLI, "top", "--json", "--socket", self.socket], stdout=subprocess.PIPE)
        self.addCleanup(top.stdout.close)
        self.addCleanup(top.wait)
        self.addCleanup(top.kill)
        n_seen = 0
        while n_seen < 2:  # two objects
            line = top.stdout.readline()
            self.assertTrue(line)
            n_seen += b'"uptime_seconds"' in line
        top.send_signal(signal.SIGINT)
        self.assertEqual(top.wait(60), 0)


if __name__ == "__main__":
    unittest.main()
