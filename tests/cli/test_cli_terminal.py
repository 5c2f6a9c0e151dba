"""The program on terminals of any width: help, progress, questions; and completion in bash."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
import unittest

import cli_case
from cli_case import CLI, VERBS

SHELLS = ("bash", "zsh", "fish")


def set_width(fd, columns):
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))


class Terminal(cli_case.Case):
    def terminal(self, columns, *arguments, stdout=None, env=None, answer=None):
        """Runs the program on a terminal of this width; 0: a terminal that does not report a width. Returns the exit status and
        what it shows."""
        ours, its = pty.openpty()
        set_width(its, columns)
        surroundings = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
        source = its if answer is not None else subprocess.DEVNULL
        process = subprocess.Popen([CLI, *map(str, arguments)], cwd=self.dir, stdin=source,
                                   stdout=its if stdout is None else stdout, stderr=its,
                                   env={**surroundings, "TERM": "xterm", **(env or {})}, start_new_session=True)
        os.close(its)
        shown, asked = b"", False
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # end of the terminal's output, on Linux
                break
            if not part:
                break
            shown += part
            if answer is not None and b"[y/N]" in shown and not asked:
                asked = True
                os.write(ours, answer)
        os.close(ours)
        return process.wait(120), shown.decode().replace("\r\n", "\n")

    def bars(self, shown):
        """Returns the progress lines, which were drawn over each other."""
        self.assertIn("\r\x1b[K", shown)
        return [line for line in shown.split("\n")[0].split("\r\x1b[K") if line]


class Help(Terminal):
    def test_any_width(self):
        """No line of the help on options is wider than the terminal, and no word is lost."""
        wide = {verb: self.ok(verb, "--help").decode() for verb in VERBS}
        for columns in (200, 100, 80, 60, 59, 40):
            for verb in VERBS:
                status, text = self.terminal(columns, verb, "--help")
                self.assertEqual(status, 0)
                longest = max(text.split("\n"), key=len)
                self.assertLessEqual(len(longest), min(columns, 100), f"{verb} at {columns}: {longest}")
                words = [word for word in text.split() if word != "\\"]
                self.assertEqual(words, [word for word in wide[verb].split() if word != "\\"], f"{verb} at {columns}")
        self.assertEqual(self.terminal(10, "pack", "--help")[0], 0)  # a width of 10 gets the best possible help

    def test_columns_of_the_environment(self):
        """COLUMNS counts if there is no terminal. Invalid values are ignored, and a terminal's own width takes precedence."""
        plain = self.ok("pack", "--help").decode()
        self.assertGreater(max(map(len, plain.split("\n"))), 90)
        narrow = self.run_cli("pack", "--help", env={"COLUMNS": "60"}).stdout.decode()
        self.assertLessEqual(max(map(len, narrow.split("\n"))), 60)
        for wrong in "", "0", "-5", "many", "99999999999999999999", "1e2":
            self.assertEqual(self.run_cli("pack", "--help", env={"COLUMNS": wrong}).stdout.decode(), plain, wrong)
        self.assertEqual(self.terminal(60, "pack", "--help", env={"COLUMNS": "90"})[1], narrow)

    def test_groups_and_examples(self):
        for verb in [*VERBS, "cache fleet"]:
            text = self.ok(*verb.split(), "--help").decode()
            self.assertIn("\noptions of every verb:\n", text)
            examples = text.partition("\nexamples:\n")[2]
            self.assertGreaterEqual(len(re.findall(rf"(?m)^  penstock {verb}\b", examples)), 2, verb)
            for heading in re.findall(r"(?m)^(?!usage)(\w[^\n]*):\n(.*)", text):
                self.assertRegex(heading[1], r"^  ", f"{verb}: a heading without options")
        self.assertIn("\nplain folders:\n", self.ok("pack", "--help").decode())
        self.assertNotIn("\nplain folders:\n", self.ok("repack", "--help").decode())
        self.assertNotIn("annotations of others", self.ok("append", "--help").decode())

    def test_a_broken_example_is_a_command(self):
        """A shell reads the wrapped lines of an example as the same words as an unwrapped one."""
        def words(text):
            command = text.partition("\nexamples:\n")[2].replace("penstock ", "printf '%s|' ")
            return subprocess.run(["sh", "-c", command], capture_output=True, check=True).stdout
        self.assertIn("\\\n", self.terminal(40, "pack", "--help")[1].partition("examples:")[2])
        for verb in ("pack", "index", "cat"):
            self.assertEqual(words(self.terminal(40, verb, "--help")[1]), words(self.ok(verb, "--help").decode()))

    def test_headings_are_no_options(self):
        self.jpegs("f", 1)
        for arguments in (["pack", "f", "a.pst", "--="], ["pack", "f", "a.pst", "--=x"], ["ls", "f", "-"]):
            self.fails(2, *arguments)


class Progress(Terminal):
    def test_any_width(self):
        """A progress line never reaches the last column. What does not fit is left out, and the width of the bar does not
        change."""
        self.jpegs("f", 30)
        for i, columns in enumerate((200, 80, 60, 40, 20, 10, 5, 4, 1)):
            status, shown = self.terminal(columns, "pack", "f", f"{i}.pst", stdout=subprocess.DEVNULL)
            self.assertEqual(status, 0)
            drawn = self.bars(shown) if columns > 4 else re.findall(r"[^\r\n]+", shown.replace("\x1b[K", ""))
            longest = max((line for line in drawn if not line.startswith("note")), key=len, default="")
            self.assertLess(len(longest), max(columns, 2), longest)
            widths = {len(re.search(r"\[[#.]*\]", line)[0]) for line in drawn if "[" in line}
            self.assertLessEqual(len(widths), 1, drawn)
            if columns >= 40:
                self.assertTrue(widths and min(widths) >= 12, drawn)
            if columns >= 80:
                self.assertTrue(any("30 of 30" in line for line in drawn), drawn)
            if columns >= 5:
                self.assertTrue(any("100%" in line for line in drawn), drawn)

    def test_a_terminal_that_does_not_tell(self):
        """If the terminal reports no width, COLUMNS counts, or 80 columns if COLUMNS is invalid."""
        self.jpegs("f", 10)
        for i, (value, most) in enumerate((("50", 49), ("", 79), ("x", 79), ("0", 79), ("-1", 79))):
            _, shown = self.terminal(0, "pack", "f", f"{i}.pst", stdout=subprocess.DEVNULL, env={"COLUMNS": value})
            longest = max(map(len, self.bars(shown)))
            self.assertLessEqual(longest, most)
            self.assertGreater(longest, most - 25)
        _, shown = self.terminal(40, "pack", "f", "b.pst", stdout=subprocess.DEVNULL, env={"COLUMNS": "300"})
        self.assertLess(max(map(len, self.bars(shown))), 40)  # the terminal's own width takes precedence

    def test_a_window_that_is_resized(self):
        self.links_of_many("f")
        ours, its = pty.openpty()
        set_width(its, 120)
        process = subprocess.Popen([CLI, "verify", "f"], cwd=self.dir, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=its,
                                   env={**os.environ, "TERM": "xterm"})
        shown, narrow_from, until = b"", None, time.monotonic() + 100
        while process.poll() is None and time.monotonic() < until:
            if select.select([ours], [], [], 0.05)[0]:
                shown += os.read(ours, 65536)
            if narrow_from is None and b"%" in shown:
                set_width(its, 30)
                narrow_from = time.monotonic()
                while select.select([ours], [], [], 0)[0]:  # reads what was drawn before the width changed
                    shown += os.read(ours, 65536)
                time.sleep(0.1)
                while select.select([ours], [], [], 0)[0]:
                    os.read(ours, 65536)
                shown = b"%"
        process.send_signal(signal.SIGKILL)
        process.wait()
        os.close(its)
        os.close(ours)
        lines = [line for line in shown[1:].split(b"\r\x1b[K")[1:-1] if line]
        if not lines:
            self.skipTest("the folder was read before the window was resized")
        self.assertLess(max(map(len, lines)), 30, lines[-1])

    def links_of_many(self, where):
        self.jpegs("f/one", 100, 256, 256)
        for i in range(40):
            os.symlink("one", self.dir / f"f/c{i:02}")

    def test_lines_without_a_terminal(self):
        self.jpegs("f", 20)
        done = self.run_cli("pack", "f", "a.pst", env={"PENSTOCK_PROGRESS_SECONDS": "0", "COLUMNS": "20"})
        lines = [line for line in done.stderr.decode().splitlines() if " of 20" in line]
        self.assertTrue(lines)
        for line in lines:
            self.assertRegex(line, r"^pack: \d+%  \d+ of 20  \S+ \w+  [\d.]+/s  \S+ left$")
        self.assertNotIn("\r", done.stderr.decode())


class Questions(Terminal):
    def test_cat_asks_before_it_writes_over_a_file(self):
        self.jpegs("f", 1)
        old = self.write("x.jpg", "old")
        wanted = self.ok("cat", "f", "0")
        for answer, status, now in ((b"n\n", 1, b"old"), (b"\n", 1, b"old"), (b"\x04", 1, b"old"), (b"yesterday\n", 1, b"old"),
                                    (b"Y\n", 0, wanted), (b"yes\n", 0, wanted)):
            old.write_bytes(b"old")
            found, shown = self.terminal(80, "cat", "f", 0, "-o", "x.jpg", answer=answer)
            self.assertIn("x.jpg is there already: write over it? [y/N]", shown)
            self.assertEqual((found, old.read_bytes()), (status, now), answer)
            self.assertEqual("nothing was written" in shown, status == 1)

    def test_cat_without_a_terminal(self):
        self.jpegs("f", 1)
        old = self.write("x.jpg", "old")
        self.fails(2, "cat", "f", "0", "-o", "x.jpg", says="--force")
        self.assertEqual(old.read_bytes(), b"old")
        os.symlink("x.jpg", self.dir / "link")
        self.fails(2, "cat", "f", "0", "-o", "link", says="--force")
        self.ok("cat", "f", "0", "-o", "x.jpg", "--force")
        self.assertEqual(old.read_bytes(), self.ok("cat", "f", "0"))
        self.ok("cat", "f", "0", "-o", "new.jpg")
        self.ok("cat", "f", "0", "-o", "/dev/null")
        self.assertEqual(self.fails(1, "cat", "f", "9", "-o", "none.jpg")["error"]["status"], "NOT_FOUND")
        self.assertFalse((self.dir / "none.jpg").exists())

    def test_json_is_never_asked(self):
        self.jpegs("f", 1)
        self.write("x.jpg", "old")
        status, shown = self.terminal(80, "cat", "f", 0, "-o", "x.jpg", "--json", answer=b"y\n")
        self.assertEqual(status, 2)
        self.assertNotIn("[y/N]", shown)

    def test_cache_save(self):
        old = self.write("warm.cache", "old")
        self.fails(2, "cache", "save", "warm.cache", says="--force")
        error = self.fails(1, "cache", "save", "warm.cache", "--force", "--socket", str(self.dir / "none"))
        self.assertNotIn("--force", error["error"]["text"])  # because there is no service
        self.assertEqual(old.read_bytes(), b"old")


class Ranges(cli_case.Case):
    def test_ls_takes_a_range(self):
        self.jpegs("f", 7)
        everything = list(range(7))
        for text, wanted in (("0:3", [0, 1, 2]), ("5:", [5, 6]), (":2", [0, 1]), (":", everything), ("3", [3]), ("0", [0]),
                             ("5:100", [5, 6]), ("6:7", [6]), ("0:18446744073709551615", everything)):
            self.assertEqual([s["sample"] for s in self.ok_json("ls", "f", text)["samples"]], wanted, text)
            self.assertEqual(self.ok("ls", "f", text), self.ok("ls", "f", "--range", text))
        self.assertEqual(self.ok("ls", "f", "--", "1:2"), self.ok("ls", "f", "1:2"))

    def test_wrong_ranges(self):
        self.jpegs("f", 7)
        for text in "5:3", "3:3", "a", "1:b", "1:2:3", "1..3", "", "18446744073709551616", "1 :2", "0x1":
            self.fails(2, "ls", "f", text, says="A:B with A < B")
        for text in "7", "7:", "100:200", "18446744073709551615":
            error = self.fails(1, "ls", "f", text, says="there are 7")["error"]
            self.assertEqual(error["status"], "NOT_FOUND")
        self.fails(2, "ls", "f", "1:2", "--range", "3:4", says="give one of them")
        self.fails(2, "ls", "f", "1:2", "3:4", says="too many")


class Completion(cli_case.Case):
    def test_scripts(self):
        for shell in SHELLS:
            text = self.ok("--completion", shell).decode()
            self.assertIn("scripts/write_cli_pages.py", text)
            self.assertEqual(self.ok(f"--completion={shell}").decode(), text)
        self.fails(2, "--completion", says="bash, zsh or fish")
        self.fails(2, "--completion", "fihs", says="did you mean fish")  # codespell:ignore fihs
        self.fails(2, "--completion", "", says="bash, zsh or fish")

    def completed(self, *words):
        """Returns the completions of the last word in bash, and how file names are completed ("default", "dirnames")."""
        script = ('compopt() { echo "$2"; }; source /dev/stdin; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _penstock; '
                  'printf "%s\\n" "${COMPREPLY[@]}"')
        done = subprocess.run(["bash", "--norc", "--noprofile", "-c", script, "bash", "x", "penstock", *words], cwd=self.dir,
                              input=self.ok("--completion", "bash"), capture_output=True, check=False)
        self.assertEqual(done.stderr, b"")
        return done.stdout.decode().split()

    def test_bash(self):
        for words, wanted in (
                (["pac"], ["pack"]), (["he"], ["help"]), (["wh"], ["whatif"]), (["help", "tu"], ["tune"]), (["zzz"], []),
                (["help", "cache", "f"], ["fleet"]), (["--ve"], ["--version"]), (["--completion", "f"], ["fish"]),
                (["pack", "--ti"], ["--tier"]), (["pack", "--tier", ""], ["fast", "small", "dense"]),
                (["pack", "-t", "de"], ["dense"]), (["pack", "--tier", "=", "de"], ["dense"]),
                (["pack", "--tier", "="], ["fast", "small", "dense"]), (["pack", "--form", "raw,pli-"], ["raw,pli-jpeg"]),
                (["pack", "a", "b", "--on-error", ""], ["stop", "skip"]), (["pack", "--workers", ""], []),
                (["pack", ""], ["default"]), (["pack", "a", ""], ["default"]), (["pack", "a", "b", ""], []),
                (["pack", "--plan", ""], ["default"]), (["unpack", "a", ""], ["dirnames"]), (["cat", "a", ""], []),
                (["ls", "a", ""], []), (["serve", "st"], ["status", "stop"]), (["cache", "s"], ["status", "save"]),
                (["cache", "save", ""], ["default"]), (["cache", "fleet", "--ser"], ["--servers"]),
                (["cache", "fleet", ""], ["default"]), (["cache", "--ser"], []), (["bench", "--device", "c"], ["cpu", "cuda"]),
                (["serve", "--numa", ""], ["auto", "none"]), (["view", "a", "--tr"], ["--transforms"]),
                (["plan", "a", "--goal", "st"], ["storage"]), (["whatif", "r", "--policy", "lru-"], ["lru-sequential"]),
                (["analyze", "--forms", "raw,jp"], ["raw,jpeg"]), (["pack", "--", "--ti"], ["default"]),
                (["ls", "--long", "--ran"], ["--range"]), (["tune", "a", "--yes", "--re"], ["--report"]), (["env", ""], [])):
            self.assertEqual(self.completed(*words), wanted, words)

    def test_bash_knows_every_option(self):
        for verb in [*VERBS, "cache fleet"]:
            options = re.findall(r"(?m)^  (?:-\w, |    )(--[a-z-]+)", self.ok(*verb.split(), "--help").decode())
            self.assertEqual(sorted(options), sorted(self.completed(*verb.split(), "--")), verb)

    def test_bash_on_a_terminal(self):
        """Bash itself completes file names, also those with spaces."""
        self.write("photos of cats/x", "")
        (self.dir / "rc").write_text('PS1="> "\nbind "set enable-bracketed-paste off"\n'
                                     f'penstock() {{ printf "<%s>" "$@"; echo; }}\n'
                                     f'source <("{CLI}" --completion bash)\n')
        ours, its = pty.openpty()
        set_width(its, 120)
        process = subprocess.Popen(["bash", "--noprofile", "--rcfile", "rc", "-i"], cwd=self.dir, stdin=its, stdout=its, stderr=its,
                                   env={**os.environ, "TERM": "dumb", "INPUTRC": "/dev/null"}, start_new_session=True)
        os.close(its)
        os.write(ours, b"penstock pack --ti\tde\t pho\t\npenstock unp\tphotos\\ o\t\nexit\n")
        shown, until = b"", time.monotonic() + 60
        while time.monotonic() < until and b"<unpack>" not in shown:
            if select.select([ours], [], [], 0.2)[0]:
                try:
                    shown += os.read(ours, 65536)
                except OSError:
                    break
        process.kill()
        process.wait()
        os.close(ours)
        self.assertIn(b"<pack><--tier><dense><photos of cats/>", shown)
        self.assertIn(b"<unpack><photos of cats/>", shown)


if __name__ == "__main__":
    unittest.main()
