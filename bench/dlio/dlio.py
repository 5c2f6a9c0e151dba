#!/usr/bin/env python3
"""MLPerf Storage's benchmark program (DLIO) with Penstock and with its own loader: `make bench-dlio`.

The workload is RetinaNet on an emulated B200 (conf/workload). Each row is a DLIO process over the same JPEG files. DLIO reports the
utilisation (AU) and the samples/s of each epoch; the medians over the epochs after the first are printed:

    dlio             DLIO's reader (PIL decodes, the pixels are thrown away) and torch's DataLoader
    reader           penstock_dlio.Reader in torch's DataLoader: crops of 224 pixels, normalised
    loader           penstock_dlio.Loader: the same crops
    loader pli-jpeg  the same, from the files packed as pli-jpeg
    loader bytes     penstock_dlio.Loader without decoding, which is all that MLPerf Storage asks for
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import runner  # noqa: E402

FED = 0.85  # the utilisation that MLPerf Storage requires
LOADER = ["++workload.reader.data_loader_classname=penstock_dlio.Loader", "++workload.reader.data_loader_sampler=index"]
READER = ["++workload.reader.reader_classname=penstock_dlio.Reader"]
WAYS: dict[str, tuple[list[str], dict[str, str]]] = {
    "dlio": ([], {}),
    "reader": (READER, {}),
    "loader": (LOADER, {}),
    "loader pli-jpeg": (LOADER, {"PENSTOCK_DLIO_DATA": "packed"}),
    "loader bytes": (LOADER, {"PENSTOCK_DLIO_DECODE": "0"}),
}


def prepare(images: Path, folder: Path, n_files: int) -> None:
    """Links the files into the folder that DLIO expects, and packs them."""
    import penstock as ps

    train = folder / "data" / "train"
    train.mkdir(parents=True)
    (folder / "data" / "valid").mkdir()
    files = sorted(images.rglob("*.JPEG"))
    for i in range(n_files):
        shutil.copyfile(files[i % len(files)], train / f"img_{i:06d}_of_{n_files:06d}.jpeg")
    ps.pack(train, folder / "packed.pst")


def run(way: str, folder: Path, arguments: argparse.Namespace) -> dict[str, float]:
    more, environment = WAYS[way]
    values = {"PYTHONPATH": os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH")]))}
    values |= {name: str(folder / "packed.pst") if value == "packed" else value for name, value in environment.items()}
    out = folder / "runs" / way.replace(" ", "_")
    command = [
        sys.executable, "-m", "dlio_benchmark.main", f"--config-dir={HERE / 'conf'}", "workload=retinanet_b200",
        f"++workload.dataset.num_files_train={arguments.files}", f"++workload.train.epochs={arguments.epochs}",
        f"++workload.reader.read_threads={arguments.threads}", f"hydra.run.dir={out}", *more,
    ]  # fmt: skip
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **values}, capture_output=True, text=True, check=False, timeout=500
    )
    summaries = list(out.rglob("summary.json"))
    if done.returncode != 0 or not summaries:
        sys.exit(f"{way}: DLIO ended with {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    metric = json.loads(summaries[0].read_text())["metric"]
    utilisation, rates = metric["train_au_percentage"], metric["train_throughput_samples_per_second"]
    return {
        "au": statistics.median(utilisation[1:] or utilisation) / 100,
        "samples_per_second": statistics.median(rates[1:] or rates),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--files", type=int, default=480)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--ways", default=",".join(WAYS))
    arguments = parser.parse_args()
    found = {}
    with tempfile.TemporaryDirectory(prefix="penstock-dlio-") as name:
        prepare(arguments.images, Path(name), arguments.files)
        print(f"{'way':18s} {'utilisation':>11s} {'samples/s':>10s} {'B200 fed':>9s}")
        for way in arguments.ways.split(","):
            found[way] = run(way, Path(name), arguments)
            au, rate = found[way]["au"], found[way]["samples_per_second"]
            print(f"{way:18s} {au:11.3f} {rate:10.1f} {'yes' if au >= FED else 'no':>9s}", flush=True)
    settings = {"threads": arguments.threads, "files": arguments.files, "epochs": arguments.epochs}
    result = {"bench": "dlio", "machine": runner.machine(), "settings": settings, "ways": found}
    runner.write(arguments.out / f"dlio-{result['machine']['date']}", result, table(result))
    return 0


def table(result: dict) -> str:
    settings = result["settings"]
    rows = [f"| {way} | {each['au']:.3f} | {each['samples_per_second']:.1f} | {'yes' if each['au'] >= FED else 'no'} |"
            for way, each in result["ways"].items()]  # fmt: skip
    return "\n".join([f"{runner.where(result)} RetinaNet on an emulated B200, {settings['files']} JPEG files, "
                      f"{settings['threads']} threads; medians of {settings['epochs']} epochs but the first.", "",
                      *runner.heads("way", "utilisation", "samples/s", "B200 fed"), *rows]) + "\n"  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
