"""The command `cache fleet`: the memcached command that it prints, and runs."""

import os
import shutil
import signal
import socket
import subprocess
import time
import unittest

import cli_case

MIB = 1 << 20


def after(command, option):
    return command[command.index(option) + 1]


def classes(command):
    """Returns the slab classes of a memcached command, in bytes."""
    text = dict(part.split("=") for part in after(command, "-o").split(",") if "=" in part)["slab_sizes"]
    return [int(size) for size in text.split("-")]


class Fleet(cli_case.Case):
    def test_memory(self):
        for memory, megabytes in [("64MiB", 64), ("1GiB", 1024), ("1MiB", 64), ("64GiB", 65536)]:
            command = self.ok_json("cache", "fleet", "--memory", memory)["command"]
            self.assertEqual(command[:4], ["memcached", "-M", "-m", str(megabytes)])
            self.assertEqual((after(command, "-l"), after(command, "-p")), ("127.0.0.1", "11211"))
            self.assertNotIn("-I", command)
            sizes = classes(command)
            self.assertEqual(sizes, sorted(set(sizes)))
            self.assertEqual(sizes[-1], 32 << 10)
            self.assertTrue(all(size % 8 == 0 for size in sizes) and len(sizes) < 62)
        text = self.ok("cache", "fleet", "--memory", "1GiB").decode()
        self.assertEqual(text.split(), self.ok_json("cache", "fleet", "--memory", "1GiB")["command"])

    def test_data_set(self):
        photos = self.classes(count=9)
        self.ok("pack", photos, "a.pst", "--form", "raw")
        report = self.ok_json("cache", "fleet", "a.pst")
        self.assertEqual(report["memory"], 64 * MIB)  # the smallest
        for name in ("big", "bigger"):
            (self.dir / name).mkdir()
            with open(self.dir / name / "x.png", "wb") as file:
                file.truncate(100 * MIB)  # the image is never read
        report = self.ok_json("cache", "fleet", "big", "bigger", "--servers", "2")
        self.assertEqual(report["memory"], 105 * MIB)
        command = self.ok_json("cache", "fleet", "--memory", "1GiB", "--max-item", "2MiB", "--socket", "/run/a b.sock",
                               "--threads", "2", "--auth-file", "users", "--user", "nobody")["command"]
        self.assertEqual((after(command, "-I"), after(command, "-s"), after(command, "-t"), after(command, "-Y"),
                          after(command, "-u")), ("2m", "/run/a b.sock", "2", "users", "nobody"))
        self.assertNotIn("-l", command)
        self.assertIn(b"'/run/a b.sock'", self.ok("cache", "fleet", "--memory", "1GiB", "--socket", "/run/a b.sock"))

    def test_flash(self):
        report = self.ok_json("cache", "fleet", "--flash", "/ssd/items", "--flash-size", "100GiB")
        self.assertIn(f"ext_path=/ssd/items:{100 << 10}M", after(report["command"], "-o"))
        self.assertGreater(report["memory"], 256 * MIB)
        self.assertEqual(report["flash"] % (64 * MIB), 0)

    def test_wrong_use(self):
        for words in [[], ["fleet"], ["flet"], ["fleet", "--memory", "1GiB", "--port", "0"],
                      ["fleet", "--memory", "1GiB", "--max-item", "1KiB"], ["fleet", "--flash", "/a,b", "--flash-size", "1GiB"],
                      ["fleet", "--flash", "/a"], ["fleet", "--memory", "1GiB", "--servers", "0"]]:
            self.assertEqual(self.run_cli("cache", *words).returncode, 2, words)
        self.assertIn(b"fleet", self.ok("cache", "--help"))
        self.assertIn(b"--memory", self.ok("cache", "fleet", "--help"))

    @unittest.skipUnless(shutil.which("memcached"), "memcached is not installed")
    def test_run(self):
        path = self.dir / "m.sock"
        words = [cli_case.CLI, "cache", "fleet", "--run", "--memory", "64MiB", "--socket", str(path)]
        if os.geteuid() == 0:
            words += ["--user", "root"]
        process = subprocess.Popen(words)
        self.addCleanup(process.kill)
        end = time.monotonic() + 60
        answer = b""
        while not answer and time.monotonic() < end:
            with socket.socket(socket.AF_UNIX) as client:
                try:
                    client.connect(str(path))
                    client.sendall(b"add k 0 0 30000\r\n" + b"x" * 30000 + b"\r\n")
                    answer = client.recv(100)
                except OSError:
                    time.sleep(0.02)
        self.assertEqual(answer, b"STORED\r\n")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(60), 130)


if __name__ == "__main__":
    unittest.main()
