"""Runs the fenced blocks of one page, in their order, in the current folder, and prints as JSON which blocks ran.

    python run_page.py PAGE
    python run_page.py --serve [MODULE ...]     pages one after another, as lines of stdin say (serve() below)

The info string of a block says how it is treated:

    python              runs; all blocks of a page share one interpreter
    python peer A,B     the code of another package: runs in a process of its own where modules A and B are installed, in this
                        environment or in one of the folders in PST_PEERS; otherwise it is only compiled
    sh, c               sh runs under bash -euo pipefail; c needs a name (below)
    python notest   left out, like text and languages that are not named here

A block whose first line is a comment with a file's name alone (`# train.py`, `/* count.c */`) is written to that file instead; a
later block runs it. In PATH come first the folder of this interpreter, and stand_ins/ beside this file.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
BLOCK = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
FILE_NAME = re.compile(r"\A(?:#!.*\n)?(?:# |/\* )([\w-]+\.\w+)(?: \*/)?\n")
# With the CPU build of torch, PyPI's torchvision imports only with the help that conftest.py gives.
WITH_TORCHVISION = f"import sys; sys.path.append({str(HERE)!r}); import conftest; conftest.torchvision_v2()\n"
BLOCK_OF_PEER = re.compile(r"^```python peer.*?^```", re.MULTILINE | re.DOTALL)
USES_TORCHVISION = re.compile(r"^\s*(?:from|import) (?:torchvision|torchmetrics\.detection|timm|ultralytics)\b", re.MULTILINE)


@dataclass
class Done:
    ran: int = 0  # blocks that ran, or that were written to a file for a later block
    left_out: int = 0
    peers_ran: int = 0
    compiled: list[str] = field(default_factory=list)  # modules whose absence caused blocks of peers to be compiled only


def has_module(python: Path, name: str) -> bool:
    """Returns whether an environment has a module. It looks for the module's files, because importing all modules would take
    minutes.
    """
    top, parts = name.split(".")[0], name.split(".")
    for packages in [*python.parent.parent.glob("lib/python*/site-packages"), python.parent.parent / top]:
        found = packages.joinpath(*parts)
        if found.is_dir() or found.with_suffix(".py").is_file():
            return True
    return False


def python_with(modules: list[str]) -> Path | None:
    """Returns the interpreter of an environment that has all these modules: this one, or one in PST_PEERS."""
    peers = os.environ.get("PST_PEERS")
    # torchvision cannot be imported in the peers' environments, which have CPU builds of torch (WITH_TORCHVISION).
    others = sorted(Path(peers).glob("*/bin/python")) if peers and "torchvision" not in modules else []
    return next((python for python in [Path(sys.executable), *others] if all(has_module(python, m) for m in modules)), None)


class Page:
    def __init__(self, path: Path) -> None:
        self.path, self.done = path, Done()
        self.names: dict[str, Any] = {"__name__": "__main__"}

    def run(self) -> Done:
        text = self.path.read_text()
        if USES_TORCHVISION.search(BLOCK_OF_PEER.sub("", text)):
            exec(WITH_TORCHVISION, {})
        for match in BLOCK.finditer(text):
            language, remark, code = match[1], match[2].strip(), match[3]
            name = FILE_NAME.match(code)
            if remark == "notest" or language not in ("python", "sh", "c"):
                self.done.left_out += 1
            elif remark.startswith("peer "):
                self.run_peer(code, remark.removeprefix("peer ").split(","))
            elif name is not None:
                Path(name[1]).write_text(code)
                self.done.ran += 1
            elif language == "sh":
                subprocess.run(["bash", "-euo", "pipefail", "-c", code], check=True)
                self.done.ran += 1
            elif language == "python":
                # The block is padded with empty lines to give tracebacks the line numbers of the page.
                line = text.count("\n", 0, match.start(3))
                exec(compile("\n" * line + code, str(self.path), "exec"), self.names)
                self.done.ran += 1
            else:
                raise SystemExit(f"{self.path}: a block in C names no file")
        return self.done

    def run_peer(self, code: str, modules: list[str]) -> None:
        compile(code, str(self.path), "exec")
        python = python_with(modules)
        if python is None:
            self.done.compiled.append(", ".join(modules))
            return
        head = WITH_TORCHVISION if "torchvision" in modules else ""
        subprocess.run([python, "-c", head + code], check=True)
        self.done.peers_ran += 1


def serve(modules: list[str]) -> str | None:
    """Serves pages. Imports the modules once, because torch takes seconds to import. A line of stdin is a JSON list [PAGE, FOLDER]:
    the page runs in a fork of this process, which ends as any process does. The answer is a JSON list [exit status, what it
    printed].

    Returns None when stdin ends; in a fork, the page that it has to run.
    """
    for module in modules:
        importlib.import_module(module)
    for line in sys.stdin:
        page, folder = json.loads(line)
        with tempfile.TemporaryFile("w+", errors="replace") as output, open(os.devnull) as nothing:
            process = os.fork()
            if process == 0:
                for descriptor, file in enumerate((nothing, output, output)):
                    os.dup2(file.fileno(), descriptor)
                os.chdir(folder)
                return str(page)
            status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
            output.seek(0)
            print(json.dumps([status, output.read()]), flush=True)
    return None


def main() -> None:
    os.environ["PATH"] = os.pathsep.join([str(HERE / "stand_ins"), str(Path(sys.executable).parent), os.environ["PATH"]])
    page = serve(sys.argv[2:]) if sys.argv[1] == "--serve" else sys.argv[1]
    if page is not None:
        print(json.dumps(asdict(Page(Path(page)).run())))


if __name__ == "__main__":
    main()
