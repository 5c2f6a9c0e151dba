"""ps.analyze of Penstock's loader: phases, stages, forms and the report's file, on a small folder."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image as PilImage

import penstock as ps
from penstock import transforms as T
from penstock.report import Report
from penstock.stalls.measure import finish, machine, run
from penstock.stalls.measure import phases as _analyze_phases


def numbers_are_finite(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(numbers_are_finite, value.values()))
    if isinstance(value, list):
        return all(map(numbers_are_finite, value))
    return not isinstance(value, float) or math.isfinite(value)


@pytest.fixture(scope="module")
def report(folder: Path) -> Report:
    loader = ps.Loader(folder, 4, shuffle=True, num_workers=2, transforms=[T.RandomResizedCrop(16)])
    lines: list[str] = []
    found = ps.analyze(loader, budget="2s", accelerator="mlperf:retinanet:b200", accelerators=4, progress=lines.append)
    assert any(line.startswith("resident") for line in lines)
    return found


def test_phases_and_stalls(report: Report) -> None:
    data = report.data
    assert list(data["phases"]) == ["resident", "prepared", "warm", "cold"]
    resident = data["phases"]["resident"]
    # A step of 24 samples lasts 47.55 ms. With batches of 4, a step lasts a sixth of it. A sleep may last longer, never shorter.
    assert resident["step_seconds"] >= 0.04755 / 6
    assert resident["samples_per_second"] <= 24 / 0.04755
    for parts in data["stall"].values():
        assert sum(parts.values()) == pytest.approx(1) and min(parts.values()) >= 0
    assert data["accelerator"]["limit"] == 0.85 and data["subject"]["ranks"] == 4


def test_costs(report: Report) -> None:
    data = report.data
    assert data["subject"]["form"] in data["forms"]
    assert {"raw", "pli-small"} <= data["forms"].keys()
    for places in data["forms"].values():
        costs = places["cpu"]
        assert 0 < costs["cpu_seconds"] < 1 and 0 < costs["item_nbytes"] and costs["pack_seconds"] > 0
    pixels = [h * w * 3 for h, w in sizes(Path(data["subject"]["path"]))]
    assert data["forms"]["raw"]["cpu"]["item_nbytes"] == pytest.approx(sum(pixels) / len(pixels), rel=0.35)
    assert data["machine"]["cores"] > 0 and data["machine"]["storage_nbytes_per_second"] > 0
    stages = {stage["name"]: stage["seconds"] for stage in data["stages"]}
    assert list(stages) == ["fetch", "decode", "augment", "batch", "upload", "compute"] and min(stages.values()) >= 0


def test_epochs_copying_and_bands_are_measured(report: Report) -> None:
    data = report.data
    subject, bands = data["subject"], data["bands"]
    assert subject["batches_per_epoch"] == pytest.approx(max(1.0, subject["samples"] / 16), abs=1e-3)  # 4 ranks, batches of 4
    assert 1e8 < data["machine"]["copy_nbytes_per_second"] < 1e12
    assert bands.keys() == {"cpu_band", "cores_band", "storage_band", "step_band", "copy_band"}
    assert all(0 <= band <= 0.5 for band in bands.values()) and bands["cpu_band"] > 0
    endless, own = report.whatif(epoch_batches=0), report.whatif()
    assert own.samples_per_second < endless.samples_per_second and own.start_stall > 0 and endless.start_stall == 0


def test_an_epoch_of_few_batches() -> None:
    def epoch(n: int, batch_size: int, n_accelerators: int = 1, **given: Any) -> float:
        analysis: Any = SimpleNamespace(n_accelerators=n_accelerators)
        analysis.subject = SimpleNamespace(samples=n, batch_size=batch_size, given=given)
        return run._Analysis._epoch(analysis)

    assert epoch(12, 8) == 1.5 and epoch(12, 8, drop_last=True) == 1
    assert epoch(1000, 10, 4) == 25 and epoch(1000, 10, world_size=2) == 50
    assert epoch(5, 8) == 1


def test_how_fast_a_thread_copies() -> None:
    rates = machine.copy_rates()
    assert len(rates) >= 3 and all(1e8 < rate < 1e12 for rate in rates)


def sizes(folder: Path) -> list[tuple[int, int]]:
    found = []
    for path in sorted(folder.rglob("*.*")):
        with PilImage.open(path) as image:
            found.append((image.height, image.width))
    return found


def test_file_and_views(report: Report, tmp_path: Path) -> None:
    assert numbers_are_finite(json.loads(report.to_json(tmp_path / "r.json")))
    assert Report.load(tmp_path / "r.json").whatif(cores=1).samples_per_second > 0
    assert "4 B200" in report.summary()
    for part in ("phase", "The way of one sample", "form", "decode", "limited by"):
        assert part in report.report()
    assert report._repr_html_().startswith("<div")


def test_page_is_whole_and_has_nothing_from_elsewhere(report: Report, tmp_path: Path) -> None:
    report.data["notes"].append("<script>alert(1)</script>")
    text = report.to_html(tmp_path / "r.html")
    assert not re.search(r"(src|href)\s*=|url\(|@import|<script|https?://", text)
    assert text.count("<svg") == text.count("</svg>") == 4 and "prefers-color-scheme:dark" in text
    assert "nan" not in text.lower().replace("finance", "")
    for name, width in (("page", 1400), ("frame", 390)):
        colors = colors_of(tmp_path, text, name, width)
        assert len(colors) > 100  # text, bars and curves were drawn
        assert any(g > r + 40 and g > b + 20 for r, g, b in colors), "no green of the computing part"


def colors_of(folder: Path, page: str, name: str, width: int) -> set[tuple[int, int, int]]:
    """Opens a page in a browser, in a frame of that width, because browser windows have a minimal width. Returns the colours that
    are drawn.
    """
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("no chromium to open the page in")
    (folder / "shown.html").write_text(page)
    (folder / f"{name}.html").write_text(f'<iframe src="shown.html" style="border:0;width:{width}px;height:1700px"></iframe>')
    picture = folder / f"{name}.png"
    done = subprocess.run(
        [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--window-size={max(500, width)},1800",
         f"--user-data-dir={folder / 'profile'}", f"--screenshot={picture}", f"file://{folder / name}.html"],
        capture_output=True, text=True, timeout=240, check=False,
        env={**os.environ, "LD_PRELOAD": ""},  # a browser does not start if AddressSanitizer's library is preloaded
    )  # fmt: skip
    if not picture.exists():
        pytest.skip(f"chromium does not run here: {done.stderr[-200:]}")
    with PilImage.open(picture) as image:
        found = image.convert("RGB").resize((250, 450)).getcolors(250 * 450)
    assert found is not None
    return {color for _, color in found}


def narrowest(style: str) -> float:
    """Returns the width in pixels that a page in the narrow style leaves for a picture on a telephone of 390 pixels."""
    assert re.search(r"@media \(max-width:(\d+)px\)", style)[1] >= "640"
    padding = re.search(r"\.pst\{padding:(\d+)px\}", style.partition("@media (max-width")[2])
    return 390.0 - 2 * float(padding[1])


def test_text_is_readable_at_390_and_1400_pixels(report: Report) -> None:
    """The smallest text must be readable: text of pictures by their scale, other text by the style. Nothing may be wider than the
    page.
    """
    text = report.to_html()
    style = text.partition(".pst{")[2].partition("</style>")[0]
    sizes = [float(size) for size in re.findall(r"font(?:-size)?:(\d+(?:\.\d+)?)px", style)]
    assert min(sizes) >= 13
    pictures = re.findall(r'<svg viewBox="0 0 (\d+) \d+" width="100%"[^>]*style="max-width:(\d+)px">(.*?)</svg>', text)
    assert len(pictures) == text.count("<svg")
    for own, most, inside in pictures:
        smallest = min(map(float, re.findall(r'font-size="([\d.]+)"', inside)))
        for there in (narrowest(style), 940 / 2 - 33):  # one picture in a row, and two pictures
            assert smallest * min(there, float(most)) / float(own) >= 10
    assert "minmax(min(100%," in style and ".pst td::before{content:attr(data-head)" in style
    cells = re.findall(r"<td[^>]*>", text)
    assert cells and all("data-head=" in cell for cell in cells)


def test_a_step_and_a_folder(folder: Path) -> None:
    seen: list[int] = []

    def step(batch: dict[str, Any]) -> None:
        seen.append(len(batch["index"]))
        time.sleep(0.004)

    found = ps.analyze(folder, step, budget=1, batch_size=4, forms=())
    assert set(seen) == {4} and len(found.data["forms"]) == 1
    assert found.data["accelerator"]["name"] == "step" and found.data["accelerator"]["step_seconds"] >= 0.004
    assert any("not told apart" in note for note in found.data["notes"])


def test_without_a_step(folder: Path) -> None:
    found = ps.analyze(ps.Loader(folder, 4, num_workers=0), budget=1, forms=())
    assert list(found.data["phases"]) == ["warm", "cold"] and found.data["stall"] == {}
    assert "samples/s" in found.summary() and found.whatif(cores=1).samples_per_second > 0


def test_a_packed_data_set_and_its_view(packed: Path) -> None:
    view = ps.Dataset(packed).subset(range(3, 15))
    found = ps.analyze(ps.Loader(view, 4, num_workers=1, fields=["image"]), accelerator=500.0, budget=1, forms=())
    assert found.data["subject"]["samples"] == 12 and found.data["accelerator"]["name"] == "500/s"


def test_wrong_arguments(folder: Path) -> None:
    loader = ps.Loader(folder, 4)
    for arguments, says in (
        ({"budget": "soon"}, "budget"),
        ({"budget": 0.1}, "budget"),
        ({"accelerator": "h100"}, "no accelerator 'h100'"),
        ({"accelerator": -1.0}, "a rate"),
    ):
        with pytest.raises(ps.errors.ArgumentError, match=says):
            ps.analyze(loader, **arguments)
    with pytest.raises(ps.errors.ArgumentError, match="not both"):
        ps.analyze(loader, lambda batch: None, accelerator=1.0)
    with pytest.raises(ps.errors.ArgumentError, match="too few"):
        ps.analyze(ps.Loader(folder, 1000), budget=1)
    assert run.seconds_of("2min") == 120 and run.seconds_of("1.5 s") == 1.5 and run.seconds_of(3) == 3


def test_the_loader_is_left_as_it_was(folder: Path) -> None:
    loader = ps.Loader(folder, 4, shuffle=True, seed=3, num_workers=1)
    before = loader.state_dict()
    ps.analyze(loader, budget=1, forms=())
    assert loader.state_dict() == before and sum(len(b["index"]) for b in loader) == len(loader.dataset)


def test_spun_and_slept_steps_are_attributed() -> None:
    """The CPU time of a step is separated from its waiting, within 2 % of what the step itself counts with the same clock."""
    counted: list[float] = []

    def step(batch: Any) -> None:
        start = time.thread_time()
        while time.thread_time() < start + 0.02:
            pass
        time.sleep(0.003)
        counted.append(time.thread_time() - start)

    batch = {"index": np.arange(2)}
    phase = _analyze_phases.run("x", iter([batch] * 30), step, 60.0)
    mean = sum(counted) / len(counted)
    assert phase.step_cpu_seconds == pytest.approx(mean, rel=0.02)
    assert phase.step_seconds >= 0.023 and phase.cpu_seconds >= 0.98 * mean / 2  # a batch has two samples


def test_scratch_of_killed_processes_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    dead = subprocess.Popen(["true"])
    dead.wait()
    for name in (f"penstock-probe-{dead.pid}-x", f"penstock-probe-{os.getpid()}-x", "penstock-probe-mine"):
        (tmp_path / name).mkdir()
    with machine.scratch_directory("probe") as path:
        assert Path(path).is_dir()
    assert {p.name for p in tmp_path.iterdir()} == {"penstock-probe-mine", f"penstock-probe-{os.getpid()}-x"}


def test_scratch_beside_data_is_hidden_and_removed(tmp_path: Path) -> None:
    dead = subprocess.Popen(["true"])
    dead.wait()
    (tmp_path / f".penstock-layout-{dead.pid}-x").mkdir()
    with machine.scratch_directory("layout", str(tmp_path)) as path:
        assert [p.name for p in tmp_path.iterdir()] == [Path(path).name] and Path(path).name.startswith(".penstock-layout-")
    assert not list(tmp_path.iterdir())


def test_samples_in() -> None:
    one = np.zeros((5, 3))
    assert _analyze_phases.samples_in({"index": one, "image": [1]}) == 5
    assert _analyze_phases.samples_in([one, one]) == 5 and _analyze_phases.samples_in((one, 1)) == 5
    assert _analyze_phases.samples_in({"x": {"y": one}}) == 5 and _analyze_phases.samples_in(one) == 5


def test_ranks_tell_gradients_from_computing() -> None:
    """Rank 1 waits for its data; rank 0 waits for rank 1's gradients, which must not count as computing of rank 0."""

    def phases(step: float, wait: float) -> dict[str, dict[str, float]]:
        return {
            "resident": {"step_seconds": 0.1, "wait_seconds_per_batch": 0.0, "samples_per_second": 1},
            "cold": {"step_seconds": step, "wait_seconds_per_batch": wait, "samples_per_second": 1},
        }

    first, second = finish.ranks_of([phases(0.25, 0.01), phases(0.11, 0.15)])
    assert first["phases"]["cold"]["gradient_wait_seconds"] == pytest.approx(0.15)
    assert first["phases"]["cold"]["compute_seconds"] == pytest.approx(0.1)
    assert "straggler" not in first["phases"]["cold"] and second["phases"]["cold"]["straggler"] is True
