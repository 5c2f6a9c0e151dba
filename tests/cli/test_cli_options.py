"""The program's help, wrong options, terminals and pipes."""

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import termios
import unittest

import cli_case
from cli_case import CLI, PYTHON_VERBS, VERBS


class Options(cli_case.Case):
    def test_help(self):
        top = self.ok("--help").decode()
        for verb in [*VERBS, *PYTHON_VERBS]:
            self.assertRegex(top, rf"(?m)^  {verb} ")
        for verb in VERBS:
            text = self.ok(verb, "--help").decode()
            self.assertTrue(text.startswith(f"usage: penstock {verb}"), text)
            self.assertIn("examples:\n  penstock " + verb, text)
            for option in "--json", "--quiet", "--help":
                self.assertIn(option, text)
            self.assertEqual(text, self.ok(verb, "-h").decode())
        self.assertEqual(self.run_cli().returncode, 2)

    def test_help_of_a_verb(self):
        """`help VERB` prints the same as `VERB --help`, also for verbs within verbs."""
        self.assertEqual(self.ok("help"), self.ok("--help"))
        for words in [["pack"], ["cache"], ["cache", "fleet"], ["info"]]:
            self.assertEqual(self.ok("help", *words), self.ok(*words, "--help"))
        self.assertIn("did you mean \"pack\"", self.fails(2, "help", "pakc", says="did you mean")["error"]["text"])
        self.assertIn("see penstock --help", self.fails(2, "help", "banana", says="no verb")["error"]["text"])

    def test_help_is_wrapped(self):
        """Help is wrapped at 100 columns in a pipe and at a narrower terminal's width, and no word is lost."""
        for verb in VERBS:
            for word in ([verb, "--help"], ["help", verb]):
                text = self.ok(*word).decode()
                about = text.partition("\nexamples:")[0]
                self.assertLessEqual(max(map(len, about.split("\n")[1:])), 100, verb)
        wide, narrow = self.ok("pack", "--help").decode(), self.in_terminal(60, "pack", "--help")
        self.assertLessEqual(max(map(len, narrow.partition("\nexamples:")[0].split("\n")[1:])), 60)
        self.assertEqual([w for w in wide.split() if w != "\\"], [w for w in narrow.split() if w != "\\"])

    def in_terminal(self, columns, *arguments):
        """Returns what the program prints to a terminal of that width."""
        ours, its = pty.openpty()
        fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        process = subprocess.Popen([CLI, *arguments], stdout=its)
        os.close(its)
        text = b""
        try:
            while part := os.read(ours, 65536):
                text += part
        except OSError:  # end of the terminal's output, on Linux
            pass
        os.close(ours)
        self.assertEqual(process.wait(), 0)
        return text.decode().replace("\r\n", "\n")

    def test_documentation_has_every_verb(self):
        """The command's page in the docs has a section for each verb. --help shows each option with its whole text."""
        manual = os.path.join(os.path.dirname(__file__), "../../docs/cli.md")
        with open(manual, encoding="utf-8") as file:
            sections = re.findall(r"(?m)^## penstock (.+)$", file.read())
        commands = [*VERBS, "cache fleet"]
        self.assertEqual(sorted(sections), sorted([*commands, *PYTHON_VERBS]))
        tables = {verb["name"]: verb for verb in json.loads(self.ok("--describe"))["verbs"]}
        for verb in commands:
            text = self.ok(*verb.split(), "--help").decode()
            shown, said = " ".join(text.split()), tables[verb]["options"]
            self.assertEqual(re.findall(r"(?m)^  (?:-\w, |    )--([a-z-]+)", text), [option["name"] for option in said])
            self.assertGreaterEqual(len(said), 3)
            for option in said:
                default = "" if option["default"] is None else f" (default {option['default']})"
                self.assertIn(" ".join(option["help"].split()) + default, shown, verb)

    def test_version(self):
        self.assertRegex(self.ok("--version").decode(), r"^penstock \d+\.\d+\.\d+\n$")

    def test_unknown_cpu_mask(self):
        environment = dict(os.environ, PENSTOCK_CPU_MASK="sse9")
        done = subprocess.run([CLI, "env"], env=environment, capture_output=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b'PENSTOCK_CPU_MASK is "sse9": c, avx2, avx512 or neon is expected', done.stderr)

    def test_typing_errors(self):
        for arguments, says in [
                (["pakc"], 'did you mean "pack"'), (["banana"], "see penstock --help"),
                (["verfy"], 'did you mean "verify"'),  # codespell:ignore verfy
                (["--jsn"], "no option"), (["pack", "a", "b", "--resum"], "did you mean --resume"),
                (["pack", "a", "b", "--shardsize", "1"], "did you mean --shard-size"),
                (["pack", "a", "b", "--zzzzzz"], "see penstock pack --help"), (["pack", "a"], "operand is missing"),
                (["pack", "a", "b", "c"], "too many: c"), (["pack", "a", "b", "-x"], "no option -x"),
                (["pack", "a", "b", "--workers"], "wants a value"), (["pack", "a", "b", "--workers", "many"], "whole number"),
                (["pack", "a", "b", "--workers", "-1"], "whole number"), (["pack", "a", "b", "--resume=yes"], "no value"),
                (["pack", "a", "b", "--form", "rwa"], 'did you mean "raw"'), (["pack", "a", "b", "--form", "gif"], "no form"),
                (["pack", "a", "b", "--shard-size", "1XB"], "a size like"), (["pack", "a", "b", "--on-error", "x"], "stop or skip"),
                (["bench", "a", "--op", "rrc225"], "did you mean rrc224"), (["bench", "a", "--device", "gpu"], "cuda:N"),
                (["bench", "a", "--device", "cuda:x"], "cuda:N"), (["bench", "a", "--device", "cuda:"], "cuda:N"),
                (["bench", "a", "--batch-size", "0"], "--batch-size"), (["bench", "a", "--epochs", "0"], "--epochs"),
                (["cat", "a"], "operand is missing"), (["env", "x"], "too many"), (["viw"], 'did you mean "view"')]:
            with self.subTest(arguments):
                error = self.fails(2, *arguments, says=says)["error"]
                self.assertEqual(error["status"], "USAGE")
        self.assertFalse((self.dir / "b").exists())

    def test_verbs_that_need_python_say_so(self):
        """The verbs need Python: there is no interpreter, or one that cannot be started."""
        empty = {name: value for name, value in os.environ.items() if name != "PENSTOCK_PYTHON"}
        self.write("r.json", "{}")
        for environment, says in ((dict(empty, PENSTOCK_PYTHON="/nowhere/python"), "/nowhere/python cannot be started"),
                                  (dict(empty, PENSTOCK_PYTHON=""), "PENSTOCK_PYTHON")):
            for arguments in (["whatif", "r.json"], ["analyze", "."], ["view", "f", "0"]):
                done = subprocess.run([CLI, *arguments, "--json"], cwd=self.dir, env=environment, capture_output=True, check=False)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn(says, json.loads(done.stdout)["error"]["text"])

    def test_verbs_of_python_get_their_words(self):
        """Python verbs get their words unchanged; options before the verb are put behind it, and the exit status is the
        interpreter's."""
        path = self.write("python", '#!/bin/sh\nprintf "%s\\n" "$@"\nexit 7\n')
        path.chmod(0o755)
        for given, wanted in ((["view", "a b", "--", "-x"], ["view", "a b", "--", "-x"]),
                              (["--json", "plan", "a"], ["plan", "--json", "a"]), (["help", "tune"], ["tune", "--help"]),
                              (["--quiet", "--json", "whatif"], ["whatif", "--json", "--quiet"])):
            done = self.run_cli(*given, env={"PENSTOCK_PYTHON": path})
            self.assertEqual(done.returncode, 7)
            self.assertEqual(done.stdout.decode().splitlines(), ["-P", "-m", "penstock.cli.main", *wanted])

    def test_sizes(self):
        self.jpegs("f", 1)
        for i, size in enumerate(["4096", "1KiB", "1kB", "1.5MB", "2GiB", "1TB", "64K", "1M", "0.5G", "100B"]):
            self.ok("pack", "f", f"{i}.pst", "--shard-size", size)
        for size in "", "x", "1 2", "-5", "0x10", "1e30", "1ZiB", "nan":
            self.assertEqual(self.run_cli("pack", "f", "x.pst", f"--shard-size={size}").returncode, 2, size)

    def test_values_by_equals_sign_and_letters(self):
        self.jpegs("f", 3)
        self.assertEqual(self.ok("ls", "f", "--range=1:2"), self.ok("ls", "f", "-r", "1:2"))
        self.assertEqual(self.ok("ls", "f", "-r1:2"), self.ok("ls", "--range", "1:2", "--", "f"))

    def test_operands_that_begin_with_a_dash(self):
        self.jpegs("-f", 1)
        self.assertIn(b"0000.jpg", self.ok("ls", "--", "-f"))

    def test_names_of_any_utf8(self):
        name = 'ä"\\ \u20ac \U0001f600.jpg'
        self.jpegs("f", 1)
        os.rename(self.dir / "f/0000.jpg", self.dir / "f" / name)
        self.ok("pack", "f", 'd "ü.pst')
        self.assertEqual(self.ok_json("ls", 'd "ü.pst')["samples"][0]["name"], name)
        self.assertEqual(self.ok_json("info", 'd "ü.pst')["path"], os.path.realpath(self.dir / 'd "ü.pst'))
        self.assertEqual(self.fails(1, "info", 'no "such\t\u20ac')["error"]["dataset"], 'no "such\t\u20ac')
        done = self.run_cli("info", os.fsdecode(b"caf\xe9"), "--json")
        self.assertEqual(json.loads(done.stdout)["error"]["dataset"], "caf\ufffd")

    def test_closed_pipe_ends_quietly(self):
        self.jpegs("f", 1)
        lines = "file,label\n" + "".join(f"{i}.jpg,{i}\n" for i in range(4000))
        for i in range(4000):
            os.link(self.dir / "f/0000.jpg", self.dir / f"f/{i}.jpg")
        self.write("l.csv", lines)
        process = subprocess.Popen([CLI, "ls", "f", "--labels", "l.csv", "--json"], cwd=self.dir, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        process.stdout.read(10)
        process.stdout.close()
        self.assertEqual(process.stderr.read(), b"")
        process.stderr.close()
        self.assertEqual(process.wait(60), 141)

    def test_full_stdout_is_an_error(self):
        self.jpegs("f", 1)
        with open("/dev/full", "wb") as full:
            done = self.run_cli("info", "f", stdout=full)
            self.assertEqual(done.returncode, 1)
            self.assertIn(b"No space left", done.stderr)
            self.assertEqual(self.run_cli("cat", "f", "0", stdout=full).returncode, 1)

    def on_terminal(self, *arguments, env=None, stdout=None):
        """Runs the program with stderr (and stdout, unless given) on a terminal. Returns the exit status and what the terminal
        shows."""
        master, slave = pty.openpty()
        process = subprocess.Popen([CLI, *map(str, arguments)], cwd=self.dir, stdin=subprocess.DEVNULL,
                                   stdout=slave if stdout is None else stdout, stderr=slave,
                                   env={**os.environ, "TERM": "xterm", **(env or {})})
        os.close(slave)
        shown = b""
        while True:
            try:
                data = os.read(master, 4096)
            except OSError:
                break
            if not data:
                break
            shown += data
        os.close(master)
        return process.wait(60), shown

    def test_progress_only_on_terminals(self):
        self.jpegs("f", 5)
        _, shown = self.on_terminal("pack", "f", "a.pst", stdout=subprocess.DEVNULL)
        self.assertIn(b"5 of 5", shown)
        for i, (arguments, env) in enumerate([(["--quiet"], {}), ([], {"PENSTOCK_DISABLE_PROGRESS_BARS": "1"})]):
            _, shown = self.on_terminal("pack", "f", f"b{i}.pst", *arguments, env=env, stdout=subprocess.DEVNULL)
            self.assertEqual(shown, b"")
        self.assertEqual(self.run_cli("pack", "f", "c.pst").stderr, b"")

    def test_no_color(self):
        os.environ.pop("NO_COLOR", None)
        _, shown = self.on_terminal("ls", "nowhere", stdout=subprocess.DEVNULL)
        self.assertIn(b"\x1b[31m", shown)
        _, shown = self.on_terminal("ls", "nowhere", env={"NO_COLOR": "1"}, stdout=subprocess.DEVNULL)
        self.assertNotIn(b"\x1b[31m", shown)

    def test_binary_is_kept_from_terminals(self):
        self.jpegs("f", 1)
        status, shown = self.on_terminal("cat", "f", 0)
        self.assertEqual(status, 2)
        self.assertIn(b"-o", shown)
        status, shown = self.on_terminal("cat", "f", 0, "-o", "-")
        self.assertEqual(status, 0)
        self.assertIn(b"JFIF", shown)


if __name__ == "__main__":
    unittest.main()
