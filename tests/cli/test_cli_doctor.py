"""`penstock doctor`: its report on machines that lack something, and its exit status."""

import os
import resource
import stat
import subprocess
import sys
import time
import unittest

import cli_case

NAMES = {"penstock", "codecs", "cpu", "io_uring", "gpu", "gpu kernels", "kernel", "memory", "shared memory",
         "descriptors", "locked memory", "huge pages", "memfd", "libsndfile", "python"}
PYTHON = {"PENSTOCK_PYTHON": sys.executable}


class Doctor(cli_case.Case):
    def checks(self, status, env=None, program=cli_case.CLI, **options):
        """Returns the checks by name."""
        done = subprocess.run([program, "doctor", "--json"], capture_output=True,
                              env={**os.environ, **PYTHON, **(env or {})}, timeout=120, **options)
        self.assertEqual(done.stderr, b"")
        report = cli_case.json.loads(done.stdout)
        self.assertEqual((done.returncode, report["ok"]), (status, status == 0), report)
        for check in report["checks"]:
            self.assertIn(check["state"], ("ok", "note", "bad"))
            self.assertEqual(check["advice"] is None, check["state"] == "ok", check)
            self.assertTrue(check["text"])
        return {check["name"]: check for check in report["checks"]}

    def python(self, body):
        """Makes a program that replaces Python."""
        path = self.write("python", "#!/bin/sh\n" + body)
        path.chmod(path.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
        return {"PENSTOCK_PYTHON": str(path)}

    def answers(self, solver=None, **found):
        """Makes a Python that reports these versions. solver: shell lines that it runs in place of HiGHS."""
        found = {"python": "3.11.2", "numpy": "2.0", "torch": "2.9", "Pillow": "13.0", "penstock": self.version(), **found}
        solver = solver or """echo '{"found": "highspy 1.16.0"}'"""
        return self.python(f"""case "$*" in
"-P -m penstock.planning.solver") {solver} ;;
*) echo '{cli_case.json.dumps(found)}' ;;
esac
""")

    def version(self):
        return cli_case.json.loads(self.ok("--version", "--json"))["version"]

    def test_every_part_is_checked(self):
        checks = self.checks(0, self.answers())
        with open("/proc/cpuinfo") as file:
            flags = next((line.split() for line in file if line.startswith("flags")), None)
        self.assertEqual(set(checks), NAMES | {"package", "numpy", "torch", "pillow", "highs"} | ({"vectors"} if flags else set()))
        if flags:  # flags of an x86 processor
            self.assertEqual("avx2" in checks["vectors"]["text"].split(), "avx2" in flags)
        self.assertIn(self.version(), checks["penstock"]["text"])
        for name in "python", "package", "numpy", "torch", "pillow", "highs":
            self.assertEqual(checks[name]["state"], "ok")
        environment = cli_case.json.loads(self.ok("env"))
        self.assertEqual(checks["io_uring"]["state"] == "ok", environment["storage"] == "io_uring")
        self.assertIn(environment["codecs"]["jpeg"], checks["codecs"]["text"])

    def test_text(self):
        env = self.answers()
        done = self.run_cli("doctor", env=env)
        self.assertEqual(done.returncode, 0, done.stdout)
        lines = done.stdout.decode().splitlines()
        self.assertIn("nothing hinders", lines[-1])
        self.assertTrue(any(line.startswith("ok    kernel") for line in lines))
        quiet = self.run_cli("doctor", "--quiet", env=env).stdout.decode().splitlines()
        self.assertFalse(any(line.startswith("ok ") for line in quiet))
        self.assertEqual(quiet[-1], lines[-1])

    @unittest.skipIf(sys.version_info < (3, 11), "the package needs Python 3.11")
    def test_the_real_python_is_asked(self):
        checks = self.checks(0)
        self.assertIn(sys.version.split()[0], checks["python"]["text"])

    def test_a_package_of_another_version_hinders(self):
        checks = self.checks(1, self.answers(penstock="0.0.7"))
        self.assertEqual(checks["package"]["state"], "bad")
        self.assertIn("0.0.7", checks["package"]["text"])
        self.assertIn(self.version(), checks["package"]["advice"])

    def test_packages_that_are_missing(self):
        missing = {"penstock": "", "torch": "", "numpy": "", "Pillow": ""}
        checks = self.checks(0, self.answers("exit 1", reason="ModuleNotFoundError: no penstock", **missing))
        self.assertEqual([checks[name]["state"] for name in ("package", "torch", "numpy", "pillow")], ["note"] * 4)
        self.assertNotIn("highs", checks)  # the package itself looks for HiGHS
        self.assertIn("no penstock", checks["package"]["text"])
        self.assertIn("pip install torch", checks["torch"]["advice"])
        self.assertIn("pip install 'penstock[view]'", checks["pillow"]["advice"])
        self.assertEqual(self.checks(1, self.answers(numpy=""))["numpy"]["state"], "bad")

    def test_the_solver_of_plans_is_tried(self):
        self.assertEqual(self.checks(0, self.answers())["highs"]["text"], "highspy 1.16.0 solves plans")
        missing = self.checks(0, self.answers("""echo '{"reason": "no HiGHS", "missing": true}'"""))["highs"]
        self.assertEqual(missing["state"], "note")
        self.assertIn("pip install 'penstock[plan]'", missing["advice"])
        old = self.checks(1, self.answers("""echo '{"reason": "highspy 1.2 is too old", "missing": false}'"""))["highs"]
        self.assertEqual((old["state"], old["text"]), ("bad", "does not work"))
        self.assertIn("highspy 1.2 is too old", old["advice"])
        for ends, says in ("kill -SEGV $$", "status 139"), ("echo no json", "status 0"), ("exit 3", "status 3"):
            with self.subTest(ends):
                failed = self.checks(1, self.answers(ends))["highs"]
                self.assertEqual(failed["state"], "bad")
                self.assertIn(says, failed["text"])
                self.assertIn("force-reinstall highspy", failed["advice"])

    def test_kernels_of_a_wheel_are_a_wheel(self):
        kernels = self.checks(0, {**self.answers(), "PENSTOCK_CUDA_KERNELS": "/nonexistent"})["gpu kernels"]
        self.assertIn("pip install penstock-cuda==" + self.version(), kernels["advice"])

    def test_a_wheel_advises_what_its_user_can_do(self):
        """The program of a wheel advises to use pip, and apt for libraries that can be added. It names nothing that only a
        source checkout has."""
        wheel = os.environ["PENSTOCK_CLI_OF_WHEEL"]
        missing = {"penstock": "", "torch": "", "numpy": "", "Pillow": ""}
        no_kernels = {"PENSTOCK_CUDA_KERNELS": "/nonexistent", "PENSTOCK_SNDFILE": "/nonexistent"}
        for status, solver, found in (
            (1, "exit 1", {"reason": "ModuleNotFoundError: no penstock", **missing}),
            (0, """echo '{"reason": "no HiGHS", "missing": true}'""", {"torch": "", "Pillow": ""}),
        ):
            checks = self.checks(status, {**self.answers(solver, **found), **no_kernels}, wheel)
            for check in checks.values():
                for word in ("make ", "cmake", "nvcc", "-DPST", "./python", "from source", "checkout"):
                    self.assertNotIn(word, f"{check['advice']} {check['text']}", check)
            self.assertTrue(checks["gpu kernels"]["advice"].endswith("pip install penstock-cuda==" + self.version()))
            if status:
                self.assertIn("pip install --force-reinstall penstock==" + self.version(), checks["package"]["advice"])
        self.assertIn("nvcc", self.checks(0, {**self.answers(), **no_kernels})["gpu kernels"]["advice"])

    def test_a_python_that_does_not_work(self):
        for body in "exit 3\n", "echo no json\n", "echo '{'\n":
            with self.subTest(body):
                self.assertEqual(self.checks(1, self.python(body))["python"]["state"], "bad")
        self.assertIn("cannot be run", self.checks(1, {"PENSTOCK_PYTHON": "/nowhere"})["python"]["text"])

    def test_a_python_that_hangs_is_ended(self):
        start = time.monotonic()
        checks = self.checks(1, self.python("sleep 1000 & echo $! > %s\nwait\n" % (self.dir / "pid")))
        self.assertIn("did not answer", checks["python"]["text"])
        self.assertLess(time.monotonic() - start, 100)
        child = int((self.dir / "pid").read_text())
        for _ in range(500):  # the child of the process ends with it
            try:
                with open(f"/proc/{child}/stat") as file:
                    gone = file.read().rpartition(")")[2].split()[0] == "Z"
            except FileNotFoundError:
                gone = True
            if gone:
                return
            time.sleep(0.02)
        self.fail("the child of the Python that hung is still there")

    def test_few_descriptors_hinder(self):
        def limit(soft, hard):
            return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        checks = self.checks(1, self.answers(), preexec_fn=limit(64, 1000))
        self.assertEqual(checks["descriptors"]["state"], "bad")
        self.assertIn("ulimit -n 1000", checks["descriptors"]["advice"])
        checks = self.checks(0, self.answers(), preexec_fn=limit(1000, 1000))
        self.assertEqual(checks["descriptors"]["state"], "note")
        self.assertIn("hard limit", checks["descriptors"]["advice"])

    def test_a_lowered_level_is_noted(self):
        checks = self.checks(0, {**self.answers(), "PENSTOCK_CPU_MASK": "c"})
        self.assertEqual(checks["cpu"]["state"], "note")

    def test_wrong_use(self):
        self.fails(2, "doctor", "me", says="one operand too many")
        self.fails(2, "doctor", "--al", says="no option")


if __name__ == "__main__":
    unittest.main()
