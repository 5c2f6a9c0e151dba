"""Interrupted and killed packs: nothing is lost, the command prints how to resume, and resuming gives the same result."""

import contextlib
import json
import os
import pty
import shutil
import signal
import subprocess
import time
import unittest

import cli_case
from cli_case import CLI


class Interrupt(cli_case.Case):
    N_FOLDERS, N_EACH = 40, 20

    def setUp(self):
        super().setUp()
        self.jpegs("one", self.N_EACH, 320, 240)
        self.links("photos", self.N_FOLDERS)

    def wait_until_written(self, process, nbytes):
        """Waits until the data set holds this many bytes, so that the pack is under way. Returns False if the pack has ended."""
        while process.poll() is None:
            written = 0
            for path in (self.dir / "a.pst").glob("**/*"):
                with contextlib.suppress(FileNotFoundError):  # renamed meanwhile
                    written += path.stat().st_size if path.is_file() else 0
            if written > nbytes:
                return True
            time.sleep(0.002)
        return False

    def start_and_signal(self, number):
        """Packs until some bytes are written, then sends the signal. Returns (status, stderr)."""
        for _ in range(5):
            process = subprocess.Popen([CLI, "pack", "photos", "a.pst", "--verify-pixels", "--workers", "1",
                                        "--commit-size", "64KiB"], cwd=self.dir, stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE)
            self.wait_until_written(process, 500_000)
            process.send_signal(number)
            _, err = process.communicate(timeout=60)
            if process.returncode != 0:
                break
            # On a busy machine the pack may end before this program checks again.
            shutil.rmtree(self.dir / "a.pst")
        return process.returncode, err.decode()

    def resume_and_compare(self, resumed_at_least):
        report = self.ok_json("pack", "photos", "a.pst", "--resume")
        self.assertEqual(report["samples"], self.N_FOLDERS * self.N_EACH)
        self.assertGreaterEqual(report["resumed"], resumed_at_least)
        self.assertLess(report["resumed"], report["samples"])
        self.ok("pack", "photos", "b.pst")
        self.assertEqual(self.ok("ls", "a.pst", "--long"), self.ok("ls", "b.pst", "--long"))
        self.assertTrue(self.ok_json("verify", "a.pst", "--decode")["ok"])

    def test_interrupt(self):
        for number in signal.SIGINT, signal.SIGTERM:
            with self.subTest(number):
                status, err = self.start_and_signal(number)
                self.assertEqual(status, 130, err)
                self.assertIn("--resume", err)
                error = self.fails(1, "info", "a.pst", says="a.pst")["error"]
                self.assertEqual(error["status"], "INCOMPLETE")
                self.fails(1, "pack", "photos", "a.pst")
                self.resume_and_compare(1)
                for name in "a.pst", "b.pst":
                    shutil.rmtree(self.dir / name)

    def test_kill(self):
        status, _ = self.start_and_signal(signal.SIGKILL)
        self.assertEqual(status, -signal.SIGKILL)
        self.assertEqual(self.fails(1, "info", "a.pst")["error"]["status"], "INCOMPLETE")
        self.resume_and_compare(1)

    def wait_for(self, path):
        end = time.monotonic() + 60
        while not path.exists():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.0005)

    def many(self, n=20000):
        """Makes a folder of many empty files."""
        folder = self.dir / "many"
        for k in range(20):
            (folder / f"c{k:02}").mkdir(parents=True)
            for i in range(n // 20):
                os.close(os.open(folder / f"c{k:02}/{i:05}.jpg", os.O_WRONLY | os.O_CREAT, 0o666))
        return folder

    def test_opening_is_shown_and_interrupted(self):
        """Another process makes the listing and is stopped: the verbs that wait for it say so, and can be interrupted."""
        env = {**os.environ, "PENSTOCK_LISTING_FILES": "1", "TERM": "xterm"}
        env.pop("PENSTOCK_DISABLE_PROGRESS_BARS", None)
        folder = self.many()
        lock = folder / ".penstock/files.pls.lock"
        maker = subprocess.Popen([CLI, "ls", "--range", "0:1", folder], env=env, stdout=subprocess.DEVNULL)
        self.wait_for(lock)
        maker.send_signal(signal.SIGSTOP)
        self.assertIsNone(maker.poll())
        try:
            for words in ["ls", folder], ["info", folder], ["verify", folder], ["pack", folder, "x.pst"]:
                with self.subTest(words[0]):
                    self.shown_and_interrupted([str(word) for word in words], env)
        finally:
            maker.send_signal(signal.SIGCONT)
        self.assertEqual(maker.wait(60), 0)
        self.assertEqual(self.ok_json("ls", folder, "--range", "0:1")["count"], 20000)

    def shown_and_interrupted(self, words, env):
        ours, its = pty.openpty()
        process = subprocess.Popen([CLI, *words], cwd=self.dir, env=env, stdout=subprocess.DEVNULL, stderr=its)
        os.close(its)
        shown, end = b"", time.monotonic() + 60
        while b"found" not in shown:
            self.assertLess(time.monotonic(), end)
            shown += os.read(ours, 4096)
        self.assertIn(f"{words[0]}: looking through the data, ".encode(), shown)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(60), 130)
        with contextlib.suppress(OSError):  # end of the terminal's output, on Linux
            while part := os.read(ours, 4096):
                shown += part
        os.close(ours)
        self.assertIn(b"cancelled", shown)

    def test_full_disk(self):
        small = self.dir / "small"
        small.mkdir()
        script = 'mount -t tmpfs -o size=2m none small && exec "$0" pack photos small/a.pst --json'
        done = subprocess.run(["unshare", "--mount", "--map-root-user", "sh", "-c", script, CLI], cwd=self.dir,
                              capture_output=True, timeout=60)
        if b"{" not in done.stdout:
            self.skipTest("no mount namespace here: " + done.stderr.decode().strip())
        self.assertEqual(done.returncode, 1)
        self.assertEqual(json.loads(done.stdout)["error"]["status"], "NO_SPACE")
        self.assertIn(b"--resume", done.stderr)

    def test_two_writers(self):
        first = subprocess.Popen([CLI, "pack", "photos", "a.pst", "--verify-pixels", "--workers", "1"], cwd=self.dir,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        # Waits for the bytes of some samples, not only for the first file, so that the pack certainly holds the lock.
        self.assertTrue(self.wait_until_written(first, 500_000))
        first.send_signal(signal.SIGSTOP)
        try:
            self.assertIsNone(first.poll())
            done = self.run_cli("pack", "photos", "a.pst", "--resume", "--json")
            self.assertEqual(done.returncode, 1)
            self.assertEqual(json.loads(done.stdout)["error"]["status"], "BUSY")
        finally:
            first.send_signal(signal.SIGCONT)
        self.assertEqual(first.wait(300), 0)
        self.assertTrue(self.ok_json("verify", "a.pst")["ok"])


if __name__ == "__main__":
    unittest.main()
