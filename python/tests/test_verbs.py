"""The verbs that Python runs for the command line: their help, their options, and usage errors."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from penstock.cli import main, options, output
from penstock.errors import CorruptError

VERBS = ("analyze", "plan", "tune", "view", "whatif")


def help_of(verb: str, capfd: pytest.CaptureFixture[str], *words: str) -> str:
    assert main.main([verb, *words]) == 0
    return capfd.readouterr().out


@pytest.mark.parametrize("verb", VERBS)
def test_help(verb: str, capfd: pytest.CaptureFixture[str]) -> None:
    text = help_of(verb, capfd, "--help")
    assert text.startswith(f"usage: penstock {verb} ") and f"examples:\n  penstock {verb}" in text
    assert all(option in text for option in ("--json", "--quiet", "-h, --help"))
    assert max(map(len, text.partition("\nexamples:")[0].split("\n"))) <= 100
    assert text == help_of(verb, capfd, "-h") == help_of(verb, capfd, "x", "y", "--help")


@pytest.mark.parametrize("verb", VERBS)
def test_help_has_every_option(verb: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Each option has its full help text, which is stated only once in the sources."""
    text = help_of(verb, capfd, "--help")
    rows = main.describe()[verb]["options"]
    assert [row["name"] for row in rows] == re.findall(r"(?m)^  (?:-\w, |    )--([a-z-]+)", text) and len(rows) > 9
    for row in rows:
        default = "" if row["default"] is None else f" (default {row['default']})"
        assert row["help"] + default in " ".join(text.split())


@pytest.mark.parametrize("verb", ["analyze", "plan", "tune"])
def test_the_loader_that_is_assumed(verb: str, capfd: pytest.CaptureFixture[str]) -> None:
    text = " ".join(help_of(verb, capfd, "--help").split())
    for part in ("RandomResizedCrop(224), RandomHorizontalFlip", "or of 64", "-t, --transforms FILE", "--size SIZE", "--fields A,B",
                 "--per-box A,B", "--labels FILE", "--masks COLUMNS", "--allow-unreadable", "--batch-size N"):  # fmt: skip
        assert part in text


def test_help_fits_a_terminal() -> None:
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
    process = subprocess.Popen([sys.executable, "-m", "penstock.cli.main", "view", "--help"], stdout=its)
    os.close(its)
    text = b""
    try:
        while part := os.read(ours, 65536):
            text += part
    except OSError:  # end of the terminal's output (Linux reports it as an error)
        pass
    os.close(ours)
    assert process.wait(60) == 0
    assert max(map(len, text.decode().partition("\nexamples:")[0].split("\r\n")[1:])) <= 60


@pytest.mark.parametrize(("words", "says"), [
    (["analyze"], "DATA or --command"), (["analyze", "a", "--command", "b"], "DATA or --command"),
    (["analyze", "a", "--rate", "1", "--as", "x"], "--as: not allowed with argument --rate"),
    (["analyze", "a", "--trian", "x"], "did you mean --train?"), (["analyze", "--trian=x"], "no option --trian=x"),
    (["analyze", "a", "--transfroms", "x"], "did you mean --transforms"),
    (["plan", "a", "--per-boxes", "x"], "did you mean --per-box"), (["tune", "a", "--label", "x"], "did you mean --labels"),
    (["plan", "a", "--zzzzzz"], "no option --zzzzzz: see penstock plan --help"), (["plan", "a", "-x"], "no option -x: see"),
    (["tune", "a", "-t"], "--transforms: expected one argument"), (["plan", "a", "--batch-size", "many"], "whole number"),
    (["plan", "a", "--batch-size", "-1"], "--batch-size"), (["plan", "a", "--rate", "fast"], "a number is expected"),
    (["plan", "a", "--copies=yes"], "--copies: ignored explicit argument"), (["plan", "a", "--goal", "fun"], "invalid choice"),
    (["whatif"], "an operand is missing: penstock whatif REPORT"), (["whatif", "a", "--core", "1"], "did you mean --cores"),
    (["whatif", "a", "b"], "one operand too many: b"), (["plan", "--", "a", "-b"], "one operand too many: -b"),
])  # fmt: skip
def test_wrong_words(words: list[str], says: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main.main([*words[:1], "--json", *words[1:]]) == 2
    out, err = capfd.readouterr()
    error = json.loads(out)["error"]
    assert says in err and says in error["text"] and error["status"] == "USAGE"
    assert err.startswith(f"penstock {words[0]}: ") and err.count("\n") == 1


def test_operands_and_values() -> None:
    parser = options.Parser("try A B [options]", "Tries.", "penstock try", ("a", "b"), 1)
    parser.option("--number", "-n", type=options.whole, text="n")
    parser.option("--file", text="f")
    for words, wanted in (
        (["x", "--number", "7", "-"], ("x", "-", 7, None)),
        (["--number", "7", "x", "y"], ("x", "y", 7, None)),
        (["x", "-n7", "y", "--file=-"], ("x", "y", 7, "-")),
        (["--file", "-", "--", "-x"], ("-x", None, None, "-")),
        (["x", "--file", "a b", "--number=18446744073709551615", "--", "--y"], ("x", "--y", 2**64 - 1, "a b")),
    ):
        given = parser.parse(words)
        assert (given.a, given.b, given.number, given.file) == wanted, words


def test_errors_are_those_of_every_verb(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    """The beginning is red on a terminal, special names do not break the message, and its JSON has the same parts as C's."""
    error = CorruptError("a\x1b[2J\nb", text="cut", file="f", os_error=2)
    assert output.failed("plan", error, error.status, True, 1) == 1
    out, err = capfd.readouterr()
    assert err == "penstock plan: a\\x1b[2J\nb\n"
    found = json.loads(out)["error"]
    assert (found["status"], found["file"], found["os_error"]) == ("CORRUPT", "f", "No such file or directory")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    for name, value, wanted in (("TERM", "xterm", True), ("NO_COLOR", "1", False)):
        monkeypatch.setenv(name, value)
        if name == "TERM":
            monkeypatch.delenv("NO_COLOR", raising=False)
        output.failed("plan", OSError(2, "gone", "f"), "IO", False, 1)
        assert capfd.readouterr().err.startswith("\033[31mpenstock plan:\033[0m f: gone") == wanted


def test_a_full_stdout(tmp_path: Path) -> None:
    with open("/dev/full", "wb") as full:
        command = [sys.executable, "-m", "penstock.cli.main", "view", "--help"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (1, b"penstock: writing to stdout: No space left on device\n")
