#!/usr/bin/env python3
"""Writes the manual pages and the completion of the command line, tools/penstock/made, from its tables of options: those of the
program (`penstock --describe`) and of the installed Python package (penstock.cli.main.describe).

    python scripts/write_cli_pages.py PROGRAM [--check]

--check writes nothing, and ends with 1 if a file is not as it would be written. The same tables give the same bytes.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from penstock.cli import main as _cli
from penstock.cli.options import Row

MADE = Path(__file__).resolve().parent.parent / "tools" / "penstock" / "made"
NOTICE = "Made by scripts/write_cli_pages.py of the tables of options: change these."
TEXT_MOST = 72  # maximum number of letters of an option's help in completion
SHELLS = "bash zsh fish"
FILES, FOLDERS = ":file", ":folder"
#: What completion offers for a value or an operand, by its name in the help. Other names offer nothing.
KINDS = {"FILE": FILES, "PATH": FILES, "SRC": FILES, "DST": FILES, "DATA": FILES, "DATA|REPORT": FILES, "REPORT": FILES,
         "SET": FILES, "FOLDER": FOLDERS, "DIR": FOLDERS}  # fmt: skip
EXITS = (
    ("0", "done, nothing wrong"),
    ("1", "failed; or there were findings, or bad samples were skipped"),
    ("2", "wrong use: unknown verb or option, missing operand, impossible value"),
    ("130", "interrupted, after finishing cleanly"),
    ("141", "whoever read stdout has gone"),
)
ENVIRONMENT = (
    ("COLUMNS", "columns of help and progress where the terminal does not tell its own"),
    ("NO_COLOR", "no colours"),
    ("PENSTOCK_CACHE_DIR", "where indexes and listings lie that cannot be beside the data"),
    ("PENSTOCK_CPU_MASK", "the highest level of SIMD that is used: c, avx2, avx512 or neon"),
    ("PENSTOCK_CUDA", "0: no GPU is seen"),
    ("PENSTOCK_CUDA_DRIVER", "the CUDA driver, where it is not libcuda.so.1"),
    ("PENSTOCK_CUDA_KERNELS", "the kernels for GPUs, where they are not beside the library"),
    ("PENSTOCK_DISABLE_PROGRESS_BARS", "1: no progress"),
    ("PENSTOCK_LISTING_FILES", "files from which on the listing of a plain folder is saved; 0: never"),
    ("PENSTOCK_LOG_LEVEL", "error, warning, info or debug"),
    ("PENSTOCK_NUMA", "the NUMA node of the host service: its number, auto or none"),
    ("PENSTOCK_NUM_THREADS", 'what "all cores" means'),
    ("PENSTOCK_PROGRESS_SECONDS", "seconds between two lines of progress where stderr is no terminal (30)"),
    ("PENSTOCK_PYTHON", "the Python that runs analyze, plan, tune, view and whatif"),
    ("PENSTOCK_SOCKET", "the socket of the host service"),
)


class Option(Row):
    @property
    def words(self) -> list[str]:
        return [f"--{self.name}", *([f"-{self.letter}"] if self.letter else [])]

    @property
    def kind(self) -> str:
        """Returns the kind of the option's value: FILES, FOLDERS, words, or "" for any other."""
        return " ".join(self.values) or KINDS.get(self.argument or "", "")


class Verb(NamedTuple):
    name: str  # "pack", or "cache fleet"
    summary: str
    usage: str
    about: str
    examples: list[str]
    options: list[Option]

    @property
    def operands(self) -> list[tuple[str, str]]:
        """Returns the operands' names with their kinds. Names in small letters are the words that the first operand can be."""
        words = self.usage.split(" | cat ")[0].removeprefix(self.name).replace("[options]", "")
        small = re.findall(r"\b[a-z]+\b", words)
        large = [word for word in re.findall(r"[\w:|]*[A-Z][\w:|]*", words) if word != "|"]
        found = [(name, KINDS.get(name, "")) for name in dict.fromkeys(large)]
        return [("COMMAND", " ".join(small)), *found] if small else found


def tables(program: str) -> list[Verb]:
    """Returns all verbs in the order of the program's help."""
    done = subprocess.run([program, "--describe"], stdout=subprocess.PIPE, check=True)
    python = _cli.describe()
    found = []
    for verb in json.loads(done.stdout)["verbs"]:
        table: dict[str, Any] = python[verb["name"]] if verb["python"] else verb
        examples = [line.strip() for line in table["examples"].splitlines()]
        options = [Option(**option) for option in table["options"]]
        found.append(Verb(verb["name"], verb["summary"], table["usage"], table["about"], examples, options))
    return found


# Manual pages ---------------------------------------------------------------------------------------


def roff(text: str) -> str:
    """Returns a line of text escaped for troff."""
    found = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga").replace('"', "\\(dq")
    return "\\&" + found if found.startswith((".", "\\(aq")) else found


def page_head(title: str, name: str, summary: str) -> list[str]:
    return [f'.\\" {NOTICE}', f'.TH {title.upper()} 1 "" "Penstock" "Penstock Manual"', ".SH NAME",
            f"{roff(name)} \\- {roff(summary)}", ".SH SYNOPSIS"]  # fmt: skip


def entry(option: Option) -> list[str]:
    names = ", ".join(f"\\fB{roff(word)}\\fR" for word in reversed(option.words))
    text = option.help if option.default is None else f"{option.help} (default {option.default})"
    return [".TP", f"{names} \\fI{roff(option.argument)}\\fR" if option.argument else names, roff(text)]


def example_lines(examples: list[str]) -> list[str]:
    blocks = [f".RS 4\n.nf\n{roff(example)}\n.fi\n.RE" for example in examples]
    return [".SH EXAMPLES", "\n.PP\n".join(blocks)]


def pairs(title: str, rows: tuple[tuple[str, str], ...]) -> list[str]:
    return [f".SH {title}", *(line for name, text in rows for line in (".TP", f"\\fB{roff(name)}\\fR", roff(text)))]


def page_name(verb: Verb) -> str:
    return f"penstock-{verb.name.replace(' ', '-')}"


def page(verb: Verb) -> str:
    """Returns the manual page of a verb."""
    lines = [*page_head(page_name(verb), page_name(verb), verb.summary), f"\\fBpenstock\\fR {roff(verb.usage)}", ".SH DESCRIPTION"]
    lines += "\n.PP\n".join(roff(" ".join(part.split())) for part in verb.about.split("\n\n")).split("\n")
    lines.append(".SH OPTIONS")
    group = ""
    for option in verb.options:
        if option.group != group:
            lines.append(f".SS {roff(option.group)}")
        group = option.group
        lines += entry(option)
    lines += example_lines(verb.examples)
    lines += [".SH EXIT STATUS", "That of", ".BR penstock (1).", ".SH SEE ALSO", ".BR penstock (1)"]
    return "\n".join(lines) + "\n"


def main_page(verbs: list[Verb]) -> str:
    """Returns penstock.1."""
    lines = [*page_head("penstock", "penstock", "training data for accelerators that must not wait"),
             "\\fBpenstock\\fR VERB [ARGUMENTS] [OPTIONS]", ".SH DESCRIPTION",
             "Results go to stdout; progress, remarks and errors go to stderr. Each verb has a page of its own.",
             ".SH VERBS"]  # fmt: skip
    for verb in verbs:
        lines += [".TP", f".BR {roff(page_name(verb))} (1)", roff(verb.summary)]
    lines += [".SH OPTIONS"]
    for option in OPTIONS:
        lines += entry(option)
    for option in verbs[0].options[-3:-1]:  # --json and --quiet; --help is already in OPTIONS
        lines += entry(option)
    lines += pairs("EXIT STATUS", EXITS) + pairs("ENVIRONMENT", ENVIRONMENT)
    lines += example_lines(["penstock pack photos photos.pst", "penstock info photos.pst", 'eval "$(penstock --completion bash)"'])
    names = [f".BR {roff(page_name(verb))} (1)" for verb in verbs]
    return "\n".join([*lines, ".SH SEE ALSO", *(f"{name}," for name in names[:-1]), names[-1]]) + "\n"


# Completion -----------------------------------------------------------------------------------------

#: Before the verb.
OPTIONS = (
    Option("", "help", "h", None, [], False, None, "all verbs"),
    Option("", "version", "V", None, [], False, None, "the version of this program and of the library"),
    Option("", "completion", None, "SHELL", SHELLS.split(), False, None, "the script by which a shell completes words"),
)


def short(text: str) -> str:
    """Returns the beginning of a help text that fits beside a word of completion."""
    text = re.split(r"; |\. ", text)[0].rstrip(".")
    return text if len(text) <= TEXT_MOST else text[: TEXT_MOST - 3].rpartition(" ")[0].rstrip(",:") + "..."


def bash(verbs: list[Verb]) -> str:
    """Returns bash's completion script. It needs only bash 4."""
    options, values, operands = [], [], []
    for name, rows in [("", OPTIONS), *((verb.name, verb.options) for verb in verbs)]:
        options.append(f"    {quoted(name)}) echo {quoted(' '.join(word for row in rows for word in row.words))} ;;")
        for row in rows:
            if row.argument:
                cases = " | ".join(quoted(f"{name} {word}") for word in row.words)
                values.append(f"    {cases}) echo {quoted((',' if row.several else '') + (row.kind or ':other'))} ;;")
    for verb in verbs:
        kinds = [(f"{verb.name} {i}", kind) for i, (_, kind) in enumerate(verb.operands) if kind]
        operands += [f"    {quoted(place)}) echo {quoted(kind)} ;;" for place, kind in kinds]
    names = " ".join(verb.name for verb in verbs if " " not in verb.name)
    inner = [verb.name for verb in verbs if " " in verb.name]
    return BASH.format(
        notice=NOTICE, options="\n".join(options), values="\n".join(values), operands="\n".join(operands), names=names,
        inner=" | ".join(quoted(name) for name in inner), of_help="\n".join(
            f"    {quoted(f'help {outer} 0')}) echo {quoted(last)} ;;" for outer, last in (name.split() for name in inner)),
    )  # fmt: skip


def quoted(text: str) -> str:
    """Returns a word quoted for the shell."""
    return "'" + text.replace("'", "'\\''") + "'"


BASH = """\
# Completion of penstock's words in bash. {notice}

_penstock_options() # VERB: its options
{{
    case $1 in
{options}
    esac
}}

_penstock_value() # VERB OPTION: what its value is; nothing: it has none. A comma at the beginning: a list with commas
{{
    case "$1 $2" in
{values}
    esac
}}

_penstock_operand() # VERB NUMBER: what this operand is
{{
    case "$1 $2" in
    ' 0' | 'help 0') echo '{names} help' ;;
{of_help}
{operands}
    esac
}}

_penstock()
{{
    local word=${{COMP_WORDS[COMP_CWORD]}} verb='' option='' kind n=0 ended='' prefix='' i w
    COMPREPLY=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        w=${{COMP_WORDS[i]}}
        if [[ $w == '=' && -n $option ]]; then
            continue # --option=value is three words
        elif [[ -n $option ]]; then
            option=''
        elif [[ -z $ended && $w == -- ]]; then
            ended=1
        elif [[ -z $ended && $w == -?* ]]; then
            [[ -n $(_penstock_value "$verb" "$w") ]] && option=$w
        elif [[ -z $verb ]]; then
            verb=$w
        elif [[ $verb == help && $n == 0 ]]; then
            verb="help $w"
        else
            case "$verb $w" in
            {inner}) verb="$verb $w" ;;
            *) ((n++)) ;;
            esac
        fi
    done
    [[ $word == '=' && -n $option ]] && word=''
    if [[ -n $option ]]; then
        kind=$(_penstock_value "$verb" "$option")
    elif [[ -z $ended && $word == -* ]]; then
        kind=$(_penstock_options "$verb")
    else
        kind=$(_penstock_operand "$verb" "$n")
    fi
    if [[ $kind == ,* ]]; then
        kind=${{kind#,}}
        [[ $word == *,* ]] && prefix="${{word%,*}},"
        word=${{word##*,}}
    fi
    case $kind in
    '' | :other) ;;
    :file) compopt -o default ;;
    :folder) compopt -o dirnames ;;
    *) mapfile -t COMPREPLY < <(compgen -P "$prefix" -W "$kind" -- "$word") ;;
    esac
}} 2> /dev/null

complete -F _penstock penstock
"""


def zsh_text(text: str) -> str:
    """Returns a text as _arguments and _describe read it, for use inside single quotes."""
    return re.sub(r"([\[\]:\\])", r"\\\1", text).replace("'", "'\\''")


def zsh_action(kind: str, several: bool) -> str:
    if kind == FILES:
        return "_files"
    if kind == FOLDERS:
        return "_files -/"
    if several:
        return f"_values -s , value {kind}"
    return f"({kind})" if kind else " "


def zsh_spec(option: Option) -> str:
    value = f":{zsh_text(option.argument)}:{zsh_action(option.kind, option.several)}" if option.argument else ""
    text = f"[{zsh_text(short(option.help))}]{value}"
    if option.letter is None:
        return f"'--{option.name}{text}'"
    return f"'(-{option.letter} --{option.name})'{{-{option.letter},--{option.name}}}'{text}'"


def zsh_arguments(verb: Verb) -> str:
    operands = [f"'{i}:{zsh_text(name)}:{zsh_action(kind, False)}'" for i, (name, kind) in enumerate(verb.operands, 1)]
    return " \\\n      ".join(["_arguments -s -S", *(zsh_spec(option) for option in verb.options), *operands])


def zsh(verbs: list[Verb]) -> str:
    """Returns zsh's completion script: a function that is loaded from fpath, or that `eval` reads."""
    listed = [f"      '{verb.name}:{zsh_text(verb.summary)}'" for verb in verbs if " " not in verb.name]
    before = " ".join(zsh_spec(option) for option in OPTIONS)
    cases = []
    for verb in verbs:
        if " " not in verb.name:
            inner = "".join(zsh_inner(other) for other in verbs if other.name.startswith(f"{verb.name} "))
            cases.append(f"    {verb.name})\n{inner}      {zsh_arguments(verb)}\n      ;;")
    return ZSH.format(notice=NOTICE, verbs="\n".join(listed), before=before, cases="\n".join(cases))


def zsh_inner(verb: Verb) -> str:
    """Returns the lines of zsh's script for a verb that has verbs of its own."""
    word = verb.name.split()[1]
    return (f"      if [[ $words[2] == {word} ]] && (( CURRENT > 2 )); then\n      shift words\n      (( CURRENT-- ))\n"
            f"      {zsh_arguments(verb)}\n      return\n      fi\n")  # fmt: skip


ZSH = """\
#compdef penstock
# Completion of penstock's words in zsh. {notice}

_penstock() {{
  local curcontext="$curcontext" state line
  local -a verbs
  typeset -A opt_args
  _arguments -C {before} '1:verb:->verb' '*::argument:->argument' && return
  case $state in
  verb)
    verbs=(
{verbs}
      'help:the options of a verb'
    )
    _describe -t verbs verb verbs
    ;;
  argument)
    case $words[1] in
    help)
      verbs=(
{verbs}
      )
      _describe -t verbs verb verbs
      ;;
{cases}
    esac
    ;;
  esac
}}

if [[ $funcstack[1] == _penstock ]]; then
  _penstock "$@"
else
  compdef _penstock penstock
fi
"""


def fish_line(condition: str, option: Option) -> str:
    words = [f"complete -c penstock -n {quoted(condition)} -l {option.name}"]
    words += [f"-s {option.letter}"] if option.letter else []
    if option.argument:
        words.append("-r" if option.kind == FILES else "-x")
    words += fish_action(option.kind, option.several)
    return " ".join([*words, f"-d {fish_quoted(short(option.help))}"])


def fish_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def fish_action(kind: str, several: bool) -> list[str]:
    if kind == FILES:
        return ["-F"]
    if kind == FOLDERS:
        return ["-a '(__fish_complete_directories)'"]
    if several:
        return [f"-a '(__fish_append , {kind})'"]
    return [f"-a {fish_quoted(kind)}"] if kind else []


def fish(verbs: list[Verb]) -> str:
    """Returns fish's completion script."""
    lines = [FISH.format(notice=NOTICE, inner=" ".join(quoted(verb.name) for verb in verbs if " " in verb.name))]
    for verb in verbs:
        if " " not in verb.name:
            text = fish_quoted(verb.summary)
            lines.append(f"complete -c penstock -n '__penstock_at \"\"' -a {verb.name} -d {text}")
            lines.append(f"complete -c penstock -n '__penstock_at help 0' -a {verb.name} -d {text}")
    lines.append("complete -c penstock -n '__penstock_at \"\"' -a help -d 'the options of a verb'")
    lines += [fish_line('__penstock_at ""', option) for option in OPTIONS]
    for verb in verbs:
        lines += [fish_line(f'__penstock_at "{verb.name}"', option) for option in verb.options]
        for i, (_, kind) in enumerate(verb.operands):
            if kind not in ("", FILES, FOLDERS):
                condition = quoted(f'__penstock_at "{verb.name}" {i}')
                lines.append(" ".join([f"complete -c penstock -n {condition}", *fish_action(kind, False)]))
        if any(kind in (FILES, FOLDERS) for _, kind in verb.operands):  # the shell function counts an option's value as an operand
            condition = quoted(f'__penstock_at "{verb.name}"')
            lines.append(f"complete -c penstock -n {condition} -F")
    return "\n".join(lines) + "\n"


FISH = """\
# Completion of penstock's words in fish. {notice}

# True where the verb is the first word, and the word to complete is its operand of this number, if one is given.
function __penstock_at
    set -l verb ''
    set -l n 0
    for word in (commandline -opc)[2..-1]
        switch $word
            case '-*'
                continue
        end
        if test -z "$verb"
            set verb $word
        else if contains -- "$verb $word" {inner}
            set verb "$verb $word"
        else
            set n (math $n + 1)
        end
    end
    test "$verb" = "$argv[1]"; and begin
        test (count $argv) -lt 2; or test $n = $argv[2]
    end
end

complete -c penstock -f"""


def made(program: str) -> dict[str, str]:
    """Returns the contents of all files, by path below MADE."""
    verbs = tables(program)
    found = {"penstock.bash": bash(verbs), "penstock.zsh": zsh(verbs), "penstock.fish": fish(verbs)}
    found["man/penstock.1"] = main_page(verbs)
    return {**found, **{f"man/{page_name(verb)}.1": page(verb) for verb in verbs}}


def differences(program: str) -> list[str]:
    """Returns the paths of files that are out of date or missing, and of files whose verb no longer exists."""
    wanted = made(program)
    there = {str(path.relative_to(MADE)): path.read_text(encoding="utf-8") for path in sorted(MADE.rglob("*")) if path.is_file()}
    return sorted(name for name in {*wanted, *there} if wanted.get(name) != there.get(name))


def main() -> int:
    words = [word for word in sys.argv[1:] if word != "--check"]
    if len(words) != 1:
        sys.exit(__doc__)
    if "--check" in sys.argv:
        stale = differences(words[0])
        if stale:
            print(f"{', '.join(stale)}: run scripts/write_cli_pages.py {words[0]}")
        return 1 if stale else 0
    wanted = made(words[0])
    for path in MADE.rglob("*"):
        if path.is_file() and str(path.relative_to(MADE)) not in wanted:
            path.unlink()
    for name, text in wanted.items():
        (MADE / name).parent.mkdir(parents=True, exist_ok=True)
        (MADE / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
