#!/usr/bin/env python3
"""Lets mlcroissant, MLCommons' own library, validate and read the metadata that Penstock writes, and compares the records that both
read. Then it packs data sets by that metadata, and compares each sample with that of the original data set.

    scripts/check_croissant.py [BUILD]

BUILD (build/croissant) keeps the environment with mlcroissant. A library that cannot be installed makes the check fail.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from check_containers import ROOT, python_of

PACKAGES = ["mlcroissant==1.1.1", "pillow"]
READ = """
import json, sys, mlcroissant
data = mlcroissant.Dataset(jsonld=sys.argv[1])
found = {}
for each in data.metadata.record_sets:
    found[each.id] = []
    for record in data.records(each.id):
        found[each.id].append({name: value.decode() if isinstance(value, bytes) else
                               list(value.size) if hasattr(value, "size") and hasattr(value, "save") else
                               value.tolist() if hasattr(value, "tolist") else value for name, value in record.items()})
print("RECORDS" + json.dumps({"errors": list(map(str, data.metadata.issues.errors)), "records": found}, default=str))
"""
MAKE = """
import sys, numpy as np, penstock as ps
from pathlib import Path
from penstock.writer import write_croissant
sys.path.insert(0, sys.argv[2])
from conftest import encoded, picture
root = Path(sys.argv[1])
for i in range(6):
    folder = root / "folder" / "photos" / ["ant", "bee"][i % 2]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"u {i}.jpg").write_bytes(encoded(picture(i, 20 + i, 30), "JPEG"))
write_croissant(root / "folder/photos", root / "folder/croissant.json", license="https://spdx.org/licenses/CC0-1.0")
schema = {"image": ps.Image(), "label": ps.Int(classes=["ant", "bee"]), "split": ps.Text(), "score": ps.Float(),
          "boxes": ps.Boxes(), "labels": ps.Array("int64", classes=["x", "y"]), "grid": ps.Array("float32", (2, 2)),
          "more": ps.Json()}
with ps.Writer(root / "set.pst", schema) as writer:
    for i in range(6):
        writer.write({"image": picture(i, 20, 30), "label": i % 2, "split": ["train", "val"][i % 2], "score": i / 4,
                      "boxes": [[0, 0, 5 + i, 6]] * (i % 3 + 1), "labels": np.arange(i % 3 + 1) % 2,
                      "grid": np.full((2, 2), i, "f4"), "more": {"a": i}}, f"s {i}")
write_croissant(root / "set.pst", root / "set.json", name="set", description="made", url="https://example.org", creators=["A"],
                license="https://spdx.org/licenses/CC0-1.0", version="1.2.3", date_published="2026-01-01", cite_as="none")
for name, record_set in (("folder/croissant.json", "samples"), ("set.json", "samples")):
    ps.pack(root / name, root / ("again-" + Path(name).stem), croissant=True, record_set=record_set)
"""
COMPARE = """
import json, sys, numpy as np, penstock as ps
from pathlib import Path
root = Path(sys.argv[1])

def value_of(data, i, name, packed):
    if data.fields[name].type == "image":
        return data.read(i, name, original=packed)
    if name == "more":  # Croissant has JSON as text
        return json.dumps(json.loads(data[i][name]) if packed else data[i][name])
    return json.dumps(np.asarray(data[i][name]).tolist() if hasattr(data[i][name], "shape") else data[i][name])

def compare(source, again, names):
    source, again = ps.Dataset(root / source), ps.Dataset(root / again)
    if len(source) != len(again) or not len(source):
        sys.exit(f"{again.path} has {len(again)} samples, and {source.path} {len(source)}")
    if source.class_names("label") != again.class_names("label"):
        sys.exit(f"{again.path} has the classes {again.class_names('label')}, and not {source.class_names('label')}")
    for i in range(len(source)):
        found = [("name", source.name(i), again.name(i))]
        found += [(name, value_of(source, i, name, False), value_of(again, i, name, True)) for name in names]
        for name, wanted, got in found:
            if wanted != got:
                sys.exit(f"{again.path}, sample {i}: {name} is {got[:200]!r}, and not {wanted[:200]!r}")
    print(f"{again.path}: {len(again)} samples as they were")

compare("folder/photos", "again-croissant", ["image", "label"])
compare("set.pst", "again-set", ["label", "split", "score", "boxes", "labels", "grid", "more"])
"""


def run(command: list[str]) -> str:
    """Runs a command and returns its output. Ends the check if the command fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"croissant: {command[0]} failed\n{done.stdout[-2000:]}{done.stderr[-6000:]}")
    return done.stdout


def check(found: dict, named: str, n: int) -> None:
    if found["errors"] or len(found["records"]["samples"]) != n:
        sys.exit(f"croissant: {named}: {found['errors'] or found['records']}")


def main() -> int:
    build = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "croissant"
    build.mkdir(parents=True, exist_ok=True)
    python, problem = python_of(build, "mlcroissant", PACKAGES)
    if problem:
        sys.exit(f"croissant: mlcroissant {problem}")
    with tempfile.TemporaryDirectory() as place:
        run([sys.executable, "-c", MAKE, place, str(ROOT / "python" / "tests")])
        run([sys.executable, "-c", COMPARE, place])

        def read(name: str) -> dict:
            out = run([str(python), "-c", READ, f"{place}/{name}"])
            return json.loads(out[out.index("RECORDS") + len("RECORDS") :])

        folder, packed = read("folder/croissant.json"), read("set.json")
        check(folder, "folder", 6)
        check(packed, "set", 6)
        for i, row in enumerate(sorted(folder["records"]["samples"], key=lambda row: row["samples/sample"][-5:])):
            wanted = {"samples/label": i % 2, "samples/image": [30, 20 + i], "samples/sample": f"{['ant', 'bee'][i % 2]}/u {i}.jpg"}
            if any(row[name] != value for name, value in wanted.items()):
                sys.exit(f"croissant: folder, sample {i}: {row}")
        for i, row in enumerate(packed["records"]["samples"]):
            wanted = {"samples/label": i % 2, "samples/score": i / 4, "samples/sample": f"s {i}",
                      "samples/split": ["train", "val"][i % 2]}
            if any(row[name] != value for name, value in wanted.items()):
                sys.exit(f"croissant: set, sample {i}: {row}")
        names = [row["label_classes/name"] for row in packed["records"]["label_classes"]]
        if names != ["ant", "bee"]:
            sys.exit(f"croissant: classes: {names}")
    print("croissant: mlcroissant validates and reads what Penstock writes, and Penstock packs the same by it")
    return 0


if __name__ == "__main__":
    sys.exit(main())
