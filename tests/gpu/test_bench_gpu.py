"""test_bench_gpu.py BENCH_GPU GOLDEN L3_KERNEL - does bench/gpu/bench_gpu, which compares results before it measures, work with
pixels alone, fused and resized, JPEGs kept as PLI, and L3? The GPU is simulated by the tests' driver, so the rates mean
nothing."""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

SETS = {  # name -> golden files, chain
    "picture": (["pli/small-photograph.pli", "pli/dense-photograph.pli", "pli/fast-photograph.pli"], "picture"),
    "fused": (["pli/small-photograph.pli", "pli/fast-photograph.pli"], "fused:40x40"),
    "resized": (["pli/small-photograph.pli", "pli/small-rgb8.pli"], "resized:24"),
    "jpeg": (["pli_jpeg/jpeg-photograph.pli", "pli_jpeg/jpeg-photograph-444.pli"], "resized:24"),
    "policy": (["pli/small-photograph.pli", "pli/small-rgb8.pli"], "policy:24"),
    "l3": (["pli/small-photograph.pli", "pli/dense-photograph.pli"], "l3:64"),
    "l3-each": (["pli/small-photograph.pli", "pli/dense-photograph.pli"], "l3-each:32"),
}


def run(bench: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([bench, *arguments], capture_output=True, text=True)


def main() -> None:
    bench, golden, l3 = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3]
    with tempfile.TemporaryDirectory() as name:
        folder, asked = pathlib.Path(name), []
        for i, (files, chain) in SETS.items():
            (folder / i).mkdir()
            for file in files:
                shutil.copy(golden / file, folder / i)
            n_rows = 24 if i == "policy" else 4  # so many that some rows get a change of contrast
            asked.append(f"{i}:{folder / i}:{n_rows}:{chain}")
        report = folder / "report.json"
        done = run(bench, "--seconds", "0.01", "--repeats", "1", "--timeline", "--l3", l3, "--json", str(report), *asked)
        assert done.returncode == 0, done.stderr
        sets = json.loads(report.read_text())["sets"]
        assert [s["set"] for s in sets] == list(SETS), sets
        launches = {s["set"]: s["n_launches"] for s in sets}
        assert (launches["l3"], launches["l3-each"]) == (1, 4), launches
        for one in sets:
            assert len(one["timeline"]["launches"]) == one["n_launches"], one
        jpeg = next(s for s in sets if s["set"] == "jpeg")["timeline"]
        assert [part["kernel"] for part in jpeg["launches"]] == ["psti_gpu_coefs", "psti_gpu_jpeg", "psti_gpu_resize"], jpeg
        assert jpeg["whole"]["busy_us"] > 0 < jpeg["upload"]["rested_us"], jpeg
        (folder / "empty").mkdir()
        for bad in (f"x:{folder / 'empty'}:4:picture", f"x:{folder / 'picture'}:4:sideways", "x",
                    f"x:{folder / 'picture'}:4:l3:64"):
            refused = run(bench, "--seconds", "0.01", "--repeats", "1", bad)
            assert refused.returncode != 0 and refused.stderr.startswith(pathlib.Path(bench).name + ": "), (bad, refused)


if __name__ == "__main__":
    main()
