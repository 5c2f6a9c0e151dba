"""The file of cells and predictions. It is written before anything is measured, and must be committed to git before the
measurement."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from draw import Cell


def predict(cells: list[Cell], reports: dict[str, Any]) -> None:
    """Predicts each cell by Report.whatif alone, and stores question, command and answer in the cell."""
    from penstock.report import Report

    for cell in cells:
        data = json.loads(json.dumps(reports[cell["report"]]))
        if cell.get("step"):
            data["accelerator"].update(step_seconds=data["subject"]["batch_size"] / cell["step"], title="accelerator")
        answer = Report(data).whatif(**cell["question"])
        options = " ".join(f"--{name.replace('_', '-')} {value}" for name, value in cell["question"].items())
        cell["asked"] = f"penstock whatif {cell['report']}.report.json {options}"
        cell["predicted"] = {
            "samples_per_second": answer.samples_per_second, "low": answer.low, "high": answer.high, "binding": answer.binding,
            "next": answer.next, "extrapolated": answer.extrapolated,
        }  # fmt: skip


def name_of(cpu: str) -> str:
    """Returns a short name of a processor, for use in file names: "Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz" is
    intel-xeon-platinum-8481c."""
    words = re.sub(r"\((r|tm)\)|@.*|\b(cpu|processor)\b|\d+-core", " ", cpu.lower())
    return "-".join(re.findall(r"[a-z0-9]+", words)) or "cpu"


def check_absent(file: Path) -> None:
    """Ends the program if the file exists, because predictions are made only once."""
    if file.exists():
        sys.exit(f"{file} is there: take another --name, or remove it if nothing was measured by it")


def write(file: Path, found: dict[str, Any]) -> str:
    """Writes the file; returns its hash."""
    check_absent(file)
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("x") as out:
        out.write(json.dumps(found, indent=1) + "\n")
    return hash_of(file)


def hash_of(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def git(file: Path, *words: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", "-C", str(file.parent), *words], capture_output=True, check=False)


def check(file: Path, sha256: str, commit: bool) -> dict[str, str]:
    """Returns the figures' entries about the file. Ends the program if the file has changed or, with `commit`, is not committed."""
    if not file.exists() or hash_of(file) != sha256:
        sys.exit(f"{file} is not what was written when the cells were predicted: --fresh begins anew")
    found = {"file": file.name, "sha256": sha256}
    if not commit:
        return {**found, "commit": ""}
    shown = git(file, "show", f"HEAD:./{file.name}")
    if shown.returncode or shown.stdout != file.read_bytes():
        sys.exit(f"nothing is measured before the predictions are committed: git add {file} && git commit")
    return {**found, "commit": git(file, "log", "-1", "--format=%H", "--", file.name).stdout.decode().strip()}
