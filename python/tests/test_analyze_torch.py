"""The analysis of torch DataLoaders and of whole scripts: ground truth of known costs, phases of one run, hooks that chain."""

from __future__ import annotations

import itertools
import json
import mmap
import os
import struct
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import penstock as ps  # noqa: E402
from penstock.report import Report  # noqa: E402
from penstock.stalls.measure import steer  # noqa: E402
from penstock.stalls.measure import torch as _analyze_torch  # noqa: E402


class Known(torch.utils.data.Dataset):  # type: ignore[misc, name-defined]
    """Samples that spin and sleep. What they really took is counted, in memory that forked workers share."""

    def __init__(self, n: int, spin: float, sleep: float, files: list[Path] | None = None) -> None:
        self.n, self.spin, self.sleep, self.files = n, spin, sleep, files
        self.counted = mmap.mmap(-1, 4096)

    def __len__(self) -> int:
        return self.n

    def __getitems__(self, indices: list[int]) -> list[Any]:
        begin, start = time.perf_counter(), time.thread_time()
        found = [self._one(i) for i in indices]
        worker = torch.utils.data.get_worker_info()
        at = 32 * (0 if worker is None else worker.id + 1)
        samples, cpu, wall = struct.unpack_from("3d", self.counted, at)
        cpu, wall = cpu + time.thread_time() - start, wall + time.perf_counter() - begin
        struct.pack_into("3d", self.counted, at, samples + len(indices), cpu, wall)
        return found

    def _one(self, i: int) -> Any:
        end = time.thread_time() + self.spin
        if self.files:
            with open(self.files[i % len(self.files)], "rb") as file:
                file.read()
        while time.thread_time() < end:
            pass
        if self.sleep:
            time.sleep(self.sleep)
        return torch.full((3, 8, 8), float(i)), i

    def totals(self) -> tuple[float, float, float]:
        rows = [struct.unpack_from("3d", self.counted, 32 * i) for i in range(16)]
        return sum(r[0] for r in rows), sum(r[1] for r in rows), sum(r[2] for r in rows)


def first_of(batch: list[Any]) -> Any:
    return batch[0][0]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize(("spin", "sleep"), [(0.002, 0.0), (0.001, 0.004), (0.003, 0.003)])
def test_known_costs_are_attributed_within_2_percent(
    workers: int, spin: float, sleep: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted by the data set itself and by the meter, over the same samples and with the same clocks."""
    # What others' work delays is left in both: taking it off is tested below.
    monkeypatch.setattr(steer, "run_queue_seconds", lambda: 0.0)
    dataset = Known(400, spin, sleep)
    # Batches are handed on as they are: all work is the data set's, which counts it.
    loader = torch.utils.data.DataLoader(dataset, batch_size=8, num_workers=workers, collate_fn=first_of)
    board = steer.Board.make()
    try:
        steered = steer.Steered(loader, type(loader).__iter__, board, 1.5, lambda line: None)
        for _ in steered:
            time.sleep(0.005)
        steered.source = None  # ends the workers
        n, wall, cpu_seconds, *_ = board.totals()
    finally:
        board.close()
    samples, cpu, counted = dataset.totals()
    assert n == samples > 50
    assert cpu_seconds / n == pytest.approx(cpu / samples, rel=0.02)
    if sleep:
        assert (wall - cpu_seconds) / n == pytest.approx((counted - cpu) / samples, rel=0.02)
    found = steered.worker["warm"]
    costs, _ = _analyze_torch._demands(steered, 8, [])
    assert costs["cpu_seconds"] == found[2] / found[0] and costs["wait_seconds"] == pytest.approx(
        max(found[1] - found[2], 0) / found[0]
    )


def test_waiting_for_a_core_is_no_wait_of_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    board = steer.Board.make()
    meter = steer._Meter(board, 0)
    queued = itertools.count(0, 1000)
    monkeypatch.setattr(steer, "run_queue_seconds", lambda: float(next(queued)))
    meter.fetch(lambda fetcher, index: None, None, [1, 2, 3])
    n, wall, *_ = board.totals()
    board.close()
    assert n == 3 and -1000 <= wall < -900
    monkeypatch.undo()
    assert steer.run_queue_seconds() >= 0


def test_phases_take_their_batches_from_where_they_say(tmp_path: Path) -> None:
    files = []
    for i in range(8):
        files.append(tmp_path / f"{i}.bin")
        files[-1].write_bytes(os.urandom(20_000))
    dataset = Known(64, 0.0005, 0.0, files)
    loader = torch.utils.data.DataLoader(dataset, batch_size=4, shuffle=True, num_workers=1)
    seen: list[tuple[int, ...]] = []
    report = ps.analyze(loader, lambda batch: seen.append(tuple(batch[1].tolist())) or time.sleep(0.005), budget=2, forms=())
    phases = report.data["phases"]
    assert list(phases) == ["resident", "prepared", "cold", "warm"]
    n = phases["resident"]["batches"] + phases["resident"]["warm_up_batches"]
    assert any(len(set(seen[i : i + n])) == 1 for i in range(len(seen) - n))
    costs = report.data["forms"]["torch"]["cpu"]
    assert costs["nbytes"] == pytest.approx(20_000) and costs["reads"] == pytest.approx(1)
    assert report.data["subject"]["samples"] == 64 and report.data["subject"]["batches_per_epoch"] == 16
    assert report.whatif().start_stall > 0 and report.whatif(epoch_batches=0).start_stall == 0
    assert any("what Penstock would give is not said" in note for note in report.data["notes"])


class _Stream(torch.utils.data.IterableDataset):  # type: ignore[misc, name-defined]
    def __iter__(self) -> Any:
        return iter(range(10))


def test_batches_of_an_epoch() -> None:
    """Of one rank; a last batch that is short counts as its part."""
    dataset = Known(10, 0.0, 0.0)

    def epoch(n_accelerators: int = 1, data: Any = dataset, **options: Any) -> float | None:
        loader = torch.utils.data.DataLoader(data, **({} if "batch_sampler" in options else {"batch_size": 4}), **options)
        return _analyze_torch._epoch(loader, n_accelerators).get("batches_per_epoch")

    half = torch.utils.data.DistributedSampler(dataset, num_replicas=2, rank=0)
    assert epoch() == 2.5 and epoch(drop_last=True) == 2 and epoch(2) == 1.25
    assert epoch(sampler=half) == epoch(2, sampler=half) == 1.25 and epoch(4, sampler=half) == 1
    assert epoch(batch_sampler=[[0, 1], [2], [3, 4, 5]]) == 3
    assert epoch(data=_Stream()) is None


def test_what_penstock_would_give(folder: Path) -> None:
    loader = torch.utils.data.DataLoader(_Pictures(folder), batch_size=4, num_workers=0)
    report = ps.analyze(loader, lambda batch: time.sleep(0.002), budget=3)
    assert {"torch", "raw"} < report.data["forms"].keys()
    assert any("RandomResizedCrop(16, 16)" in note for note in report.data["notes"])
    assert report.whatif(form="raw").samples_per_second > 0
    assert report.data["subject"]["path"] == str(folder)


class _Pictures(torch.utils.data.Dataset):  # type: ignore[misc, name-defined]
    def __init__(self, folder: Path) -> None:
        self.files = sorted(p for p in folder.rglob("*.*") if p.suffix in (".jpg", ".png"))

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, i: int) -> Any:
        import numpy as np
        from PIL import Image

        with Image.open(self.files[i]) as image:
            return torch.from_numpy(np.asarray(image.convert("RGB").resize((16, 16))).copy()).permute(2, 0, 1).float() / 255


SCRIPT = textwrap.dedent(
    """
    import os, sys, time
    import torch
    from torch.utils.data import DataLoader, Dataset

    class Data(Dataset):
        def __len__(self):
            return 40
        def __getitem__(self, i):
            time.sleep(0.0005)
            return torch.zeros(3, 8, 8), i

    if __name__ == "__main__":
        with open("runs.txt", "a") as file:
            file.write("run\\n")
        for batch in DataLoader(Data(), batch_size=10):
            pass                                    # a loop before the training's
        n = 0
        for epoch in range(2):
            for batch in DataLoader(Data(), batch_size=4, num_workers=1):
                time.sleep(0.002)
                n += 1
        torch.save({"n": n}, "checkpoint.pt")
        print("trained", n)
    """
)


def _command(tmp_path: Path, *more: str, **environment: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / "train.py").write_text(SCRIPT)
    return subprocess.run(
        [sys.executable, "-m", "penstock.cli.main", "analyze", "--command", f"{sys.executable} train.py", "--budget", "2s",
         "--skip", "1", "--out", "r.json", *more],
        capture_output=True, text=True, check=False, cwd=tmp_path, env={**os.environ, **environment}, timeout=240,
    )  # fmt: skip


def test_a_script_runs_once_and_is_ended(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "sitecustomize.py").write_text("import os\nopen(os.environ['MARK'], 'a').close()\n")
    done = _command(tmp_path, "--json", PYTHONPATH=str(tmp_path / "mine"), MARK=str(tmp_path / "mark"))
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert data == Report.load(tmp_path / "r.json").data
    assert list(data["phases"]) == ["resident", "prepared", "cold", "warm"] and data["subject"]["batch_size"] == 4
    assert (tmp_path / "runs.txt").read_text() == "run\n" and not (tmp_path / "checkpoint.pt").exists()
    assert (tmp_path / "mark").exists(), "the user's own sitecustomize was not run"
    assert "trained" not in done.stderr
    assert not list(Path(tempfile.gettempdir()).glob("penstock-analyze-*/report.json*"))


@pytest.mark.long  # test_a_script_runs_once_and_is_ended starts the same script
def test_a_script_goes_on_if_asked_to(tmp_path: Path) -> None:
    done = _command(tmp_path, "--finish", "--quiet")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "runs.txt").read_text() == "run\n" and (tmp_path / "checkpoint.pt").exists()
    assert "trained" in done.stderr and "accelerator" in done.stdout


def test_scripts_that_measure_nothing(tmp_path: Path) -> None:
    def run(command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-m", "penstock.cli.main", "analyze", "--command", command, "--budget", "1s"],
                              capture_output=True, text=True, check=False, cwd=tmp_path)  # fmt: skip

    assert "before anything was measured" in run(f"{sys.executable} -c pass").stderr
    assert "No such file" in run("/no/such/program").stderr
    assert run("''").returncode == 2


@pytest.mark.long  # the tests above do the same in this process and with a script of their own
@pytest.mark.parametrize("way", ["two lines", "no change"])
def test_the_example(way: str, tmp_path: Path) -> None:
    script = Path(__file__).resolve().parents[2] / "examples" / "analyze_torch.py"
    plain = [sys.executable, str(script), "--workers", "1"]
    command = [*plain, "--analyze", "--budget", "3s"]
    if way == "no change":
        command = [sys.executable, "-m", "penstock.cli.main", "analyze", "--command", " ".join(plain), "--budget", "3s"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=240)
    assert done.returncode == 0, done.stderr
    assert "The accelerator " in done.stdout and "pli-jpeg" in done.stdout and "epoch 0 done" not in done.stderr + done.stdout
