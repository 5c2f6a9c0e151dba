"""What-if questions: answers compared with arithmetic, sweeps, other machines, and what is refused."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock import accelerators
from penstock.report import Report
from penstock.stalls import model
from penstock.stalls import text as _report_text


def data(**changes: Any) -> dict[str, Any]:
    """Returns a report: 8 H100, 4 cores, 2 ms of a core for a jpeg and 1 ms for a pli-jpeg, storage of 100 MB/s."""

    def costs(cpu: float, nbytes: float) -> dict[str, Any]:
        return {"cpu": {"cpu_seconds": cpu, "nbytes": nbytes, "item_nbytes": nbytes, "reads": 1.0}}

    phase = {
        "samples_per_second": 1000.0, "low": 990.0, "high": 1010.0, "batches": 50, "warm_up_batches": 2, "seconds": 5.0,
        "batch_sd_seconds": 0.001, "cpu_seconds_per_sample": 0.002, "wait_seconds_per_batch": 0.05, "step_seconds": 0.1,
        "step_sd_seconds": 0.001, "step_p99_seconds": 0.11, "other_cores": 0.0,
    }  # fmt: skip
    made = {
        "kind": "penstock-report", "version": 1, "made": "2026-11-25T10:00:00+00:00", "penstock": "0.1.0",
        "subject": {
            "loader": "penstock", "path": "photos & <more>", "samples": 10_000, "nbytes": 10**9, "form": "jpeg", "decode": "cpu",
            "batch_size": 100, "prefetch": 2, "workers": 4, "workers_follow_cores": True, "batch_cpu_seconds": 0.0,
            "ranks": 8, "jobs": 1,
        },
        "machine": {"cores": 4, "storage_nbytes_per_second": 1e8, "page_cache_nbytes": 4e9, "cache_nbytes": 0},
        "accelerator": {"name": "mlperf:resnet50:h100", "title": "H100", "step_seconds": 0.1, "step_sd_seconds": 0.0, "limit": 0.9},
        "phases": {"resident": phase, "warm": {**phase, "samples_per_second": 500.0}},
        "forms": {"jpeg": costs(0.002, 1e5), "pli-jpeg": costs(0.001, 9e4)},
        "stages": [
            {"name": "decode", "resource": "cores", "seconds": 0.0017},
            {"name": "compute", "resource": "accelerator", "seconds": 0.001},
        ],
        "bands": {"cpu_band": 0.01, "storage_band": 0.05, "step_band": 0.0},
        "measured": {"cores": [1, 4]},
        "stall": {"warm": {"compute": 0.5, "upload": 0.0, "prepare": 0.5, "fetch": 0.0}},
        "check": {}, "ranks": [], "notes": ["a note with <b>"],
    }  # fmt: skip
    made.update(changes)
    return made


@pytest.fixture
def report() -> Report:
    return Report(data())


def test_rows_are_divided_between_cpu_and_gpu() -> None:
    made = data(machine={"cores": 4, "page_cache_nbytes": 4e9, "link_nbytes_per_second": 1e9})
    own = {"cpu_seconds": 0.0001, "gpu_seconds": 0.0005, "link_nbytes": 1e5}
    made["forms"]["jpeg"]["gpu"] = {**made["forms"]["jpeg"]["cpu"], **own}
    divided = Report(made)
    # 4 cores; 8 GPUs that take half a millisecond and 100 kB for each row that they decode.
    for share in (0.0, 0.25, 0.5, 1.0):
        bounds = divided.whatif(gpu_part=share).bounds
        assert bounds["cores"] == pytest.approx(4 / (0.002 * (1 - share) + 0.0001 * share))
        assert bounds["gpu"] == pytest.approx(8 / (0.0005 * share) if share else float("inf"))
        assert bounds["link"] == pytest.approx(8 * 1e9 / (1e5 * share) if share else float("inf"))
    assert divided.whatif(gpu_part=1).bounds == divided.whatif(decode="gpu").bounds
    assert divided.whatif(gpu_part=1, gpu_free=0.5).bounds["gpu"] == pytest.approx(8000)
    quarter, on_cpu = divided.whatif(gpu_part=0.25).bounds, divided.whatif().bounds
    made["subject"].update(decode="gpu", gpu_part=0.25)
    assert Report(made).whatif().bounds == quarter
    assert Report(made).whatif(decode="cpu").bounds == on_cpu


def test_single_answers_follow_arithmetic(report: Report) -> None:
    now = report.whatif()
    assert now.samples_per_second == pytest.approx(2000) and now.binding == "cores"
    assert now.low < 2000 < now.high and now.extrapolated == []
    assert now.utilisation == pytest.approx(2000 / 8000)
    assert report.whatif(form="pli-jpeg").samples_per_second == pytest.approx(4000)
    assert report.whatif(cores=2).samples_per_second == pytest.approx(1000)
    # Nothing cached: 1e8 / 1e5 samples/s; then half of the samples cached.
    assert report.whatif(page_cache=0).samples_per_second == pytest.approx(1000)
    assert report.whatif(page_cache=0, cache="500MB", shared_cache=True, cores=100).samples_per_second == pytest.approx(2000)
    assert report.whatif(page_cache=0, cache="500MB").hits == pytest.approx(0.5 / 8)  # each of 8 ranks has an eighth
    assert report.whatif(page_cache="350MB").page_hits == pytest.approx(0.138, abs=0.002)
    assert report.whatif(storage="50MB/s", page_cache=0).binding == "storage"
    assert report.whatif(ranks=1).samples_per_second == pytest.approx(1000, rel=0.001)
    assert report.whatif(ranks=1, gpu_speed="2x").samples_per_second == pytest.approx(2000, rel=0.001)
    assert report.whatif(ranks=1, jobs=4, cores=4).samples_per_second == pytest.approx(2000)
    assert report.whatif(ranks=1, jobs=4, cores=4, shared_preparation=True).samples_per_second == pytest.approx(4000, rel=0.001)


def test_beyond_the_measured_range_is_said_and_bands_widen(report: Report) -> None:
    inside, outside = report.whatif(cores=3), report.whatif(cores=12)
    assert inside.extrapolated == [] and outside.extrapolated == ["cores"]
    assert outside.high / outside.samples_per_second > inside.high / inside.samples_per_second + 0.05
    assert "beyond what was measured: cores" in str(outside)


def test_nothing_is_nothing(report: Report) -> None:
    """If preparation may use nothing of the GPU, the answer is 0 samples/s. No jobs, ranks or hosts are an error."""
    made = data()
    made["forms"]["jpeg"]["gpu"] = {**made["forms"]["jpeg"]["cpu"], "cpu_seconds": 1e-4, "gpu_seconds": 5e-4}
    both = Report(made)
    none = both.whatif(decode="gpu", gpu_free=0)
    assert (none.samples_per_second, none.low, none.high, none.binding) == (0, 0, 0, "gpu")
    assert none.utilisation == 0 and none.prep_stall == 1
    assert both.whatif(decode="gpu", gpu_free=0.01).samples_per_second == pytest.approx(8 * 0.01 / 5e-4)
    assert both.whatif(gpu_free=0).samples_per_second == pytest.approx(2000)  # CPUs decode
    made["machine"]["gpu_free"] = 0
    assert Report(made).whatif(decode="gpu").samples_per_second == 0
    for name in ("jobs", "ranks", "hosts", "prefetch", "batch_size"):
        with pytest.raises(ps.errors.ArgumentError, match=f"{name} must be 1 or more, not 0"):
            report.whatif(**{name: 0})


def test_epochs(report: Report) -> None:
    """The first batch of an epoch is waited for: 8 ranks with 100 samples each take 0.4 s for batches and 0.1 s for a step."""
    one = report.whatif(epoch_batches=1)
    assert one.samples_per_second == pytest.approx(800 / 0.5)
    assert (one.utilisation, one.prep_stall, one.start_stall) == pytest.approx((0.2, 0.8, 0.2))
    assert report.whatif(epoch_batches=10).samples_per_second == pytest.approx(8000 / 4.1)
    paused = report.whatif(epoch_batches=10, epoch_pause=0.9)
    assert paused.samples_per_second == pytest.approx(8000 / 5)
    assert paused.utilisation == pytest.approx(1 / 4.1)  # share of the time in which somebody trains
    assert report.whatif(epoch_batches=0).samples_per_second == pytest.approx(2000)
    made = data()
    made["subject"]["batches_per_epoch"] = 10
    own = Report(made)
    assert own.whatif().samples_per_second == pytest.approx(8000 / 4.1)
    assert own.whatif(ranks=1, cores=0.5).samples_per_second == pytest.approx(8000 / (80 * 0.4 + 0.1))
    assert own.whatif(epoch_batches=0).samples_per_second == pytest.approx(2000)
    assert own.whatif(batch_size=1000).samples_per_second == pytest.approx(8000 / (4 + 1))  # one batch of each rank
    with pytest.raises(ps.errors.ArgumentError, match="epoch_batches must be 0"):
        report.whatif(epoch_batches=0.5)


def test_storage_and_cores_wait_for_each_other() -> None:
    """Bytes of samples vary by 0.6 of their mean, CPU seconds by half: with space for 40 samples, a part of both / 80 is lost."""
    made = data()
    made["forms"]["jpeg"]["cpu"].update(nbytes_sd=6e4, cpu_sd_seconds=1e-3)
    varied, alike = Report(made), Report(data())
    near: dict[str, Any] = {"page_cache": 0, "storage": 2e8}
    assert alike.whatif(**near).samples_per_second == pytest.approx(2000)
    found = varied.whatif(**near)
    assert found.samples_per_second == pytest.approx(2000 * (1 - (0.36 + 0.25) / 80))
    assert found.bounds["storage"] == found.bounds["cores"] == pytest.approx(2000)
    for far in ({}, {"page_cache": 0}, {"page_cache": 0, "storage": "1GB/s"}, {"cache": "20GB"}, {"page_cache": 0, "cores": 2.5}):
        assert varied.whatif(**far).samples_per_second == pytest.approx(alike.whatif(**far).samples_per_second, rel=1e-6)
    made["subject"]["loader"] = "torch"  # its workers read files themselves
    assert Report(made).whatif(**near).samples_per_second == pytest.approx(2000)


def test_copying(report: Report) -> None:
    """One thread of each rank copies what is read: 1e5 bytes at 1e8 bytes/s take 1 ms of a sample's 2 ms."""
    assert report.whatif(ranks=1, cores=100, gpu_speed="100x", page_cache="10GB").binding == "cores"
    slow = report.whatif(ranks=1, cores=100, gpu_speed="100x", page_cache="10GB", copying="100MB/s")
    assert slow.binding == "copying"
    asleep = 1 - 0.001 / 100 / 0.001
    assert slow.bounds["copying"] == pytest.approx(1 / (0.001 + asleep * 0.001 / 100))
    kept = report.whatif(ranks=1, cores=100, gpu_speed="100x", cache="10GB", copying="100MB/s")
    assert kept.bounds["copying"] == float("inf")  # items of Penstock's cache are not copied


def test_bands_are_of_what_was_measured() -> None:
    def half(answer: model.Answer) -> float:
        return answer.high / answer.samples_per_second - 1

    made = data()
    made["bands"] = {"cpu_band": 0.0, "storage_band": 0.0, "step_band": 0.0, "cores_band": 0.3}
    report = Report(made)
    assert half(report.whatif()) == pytest.approx(0.05)  # the model's own
    assert half(report.whatif(cores=1)) == pytest.approx((0.05**2 + (1 / 0.7 - 1) ** 2) ** 0.5)
    assert half(report.whatif()) < half(report.whatif(cores=2)) < half(report.whatif(cores=1))
    stored = {"page_cache": 0, "cores": 4}  # 2 % of the bytes if the report has no value
    assert half(report.whatif(**stored)) == pytest.approx((0.05**2 + (1 / 0.98 - 1) ** 2) ** 0.5)
    made["forms"]["jpeg"]["cpu"]["nbytes_band"] = 0.1
    assert half(Report(made).whatif(**stored)) == pytest.approx((0.05**2 + (1 / 0.9 - 1) ** 2) ** 0.5)


def test_a_rate_that_is_stated_has_no_band(report: Report) -> None:
    measured = Report(data(bands={"cpu_band": 0.0, "storage_band": 0.5, "step_band": 0.0}))
    slow = {"page_cache": 0, "cache": 0}
    of_the_report = measured.whatif(**slow)
    stated = measured.whatif(storage=1e8, **slow)
    assert stated.samples_per_second == of_the_report.samples_per_second  # the same rate, whoever states it
    assert (stated.high - stated.low) / stated.samples_per_second < 0.15
    assert (of_the_report.high - of_the_report.low) / of_the_report.samples_per_second > 0.7


def test_sweeps_give_all_combinations(report: Report) -> None:
    found = report.whatif(cores=[1, 2, 4], form=["jpeg", "pli-jpeg"])
    assert [(a.question["cores"], a.question["form"]) for a in found] == [
        (1, "jpeg"), (1, "pli-jpeg"), (2, "jpeg"), (2, "pli-jpeg"), (4, "jpeg"), (4, "pli-jpeg")]  # fmt: skip
    assert [round(a.samples_per_second) for a in found] == [500, 1000, 1000, 2000, 2000, 4000]


def test_how_much_is_enough(report: Report) -> None:
    assert report.need("cores") == pytest.approx(0.9 * 8000 * 0.002)
    assert report.need("storage", cores=64, page_cache=0) == pytest.approx(0.9 * 8000 * 1e5)
    assert report.need("cache", cores=64, page_cache=0, shared_cache=True) == pytest.approx(1e9 * (1 - 1000 / 7200), rel=1e-6)
    with pytest.raises(ps.errors.LimitError, match="cores allows"):
        report.need("storage")


def test_words(report: Report) -> None:
    text = report.summary()
    assert text == (
        "The data are enough for 2 of 8 H100: they wait for data in 75 % of their time, most of all for decoding and augmentation, "
        "and take 2,000 of 8,000 samples/s (predicted). To feed all: 10.4 more CPU cores; with the images stored as pli-jpeg this "
        "machine gives 4,000 samples/s."
    )
    fast = Report(data(machine={"cores": 64, "cache_nbytes": 0})).summary()
    assert fast == "All 8 H100 are fed: they wait for data in 0 % of their time, at 8,000 samples/s (predicted)."


def test_machine_files(report: Report, tmp_path: Path) -> None:
    file = tmp_path / "machine.json"
    file.write_text(json.dumps({"kind": "penstock-machine", "version": 1, "machine": {"cores": 16, "core_speed": 1.5}}))
    assert report.with_machine(file).whatif().samples_per_second == pytest.approx(16 * 1.5 / 0.002, rel=0.5)
    assert report.with_machine({"cores": 2, "core_speed": 1.5}).whatif().samples_per_second == pytest.approx(1500)
    assert report.data["machine"]["cores"] == 4
    for bad, says in (
        ('{"kind": "x"}', "no description of a machine"),
        ("{", "not JSON"),
        ('{"kind": "penstock-machine", "machine": {"coers": 1}}', "no capacity 'coers'"),
        ('{"kind": "penstock-machine", "machine": {"cores": -1}}', "cores is a number from 0"),
    ):
        file.write_text(bad)
        with pytest.raises(ps.PenstockError, match=says):
            report.with_machine(file)


def test_wrong_questions_and_files(report: Report, tmp_path: Path) -> None:
    for question, says in (
        ({"coers": 1}, "no question 'coers'"),
        ({"form": "gif"}, "no costs of form 'gif'"),
        ({"decode": "gpu"}, "decode='gpu'"),
        ({"cores": "many"}, "is a number"),
        ({"cores": -1}, "0 or more"),
        ({"cores": 0}, "cores"),
        ({"storage": "fast"}, "storage"),
        ({"gpu_speed": "0x"}, "above 0"),
        ({"gpu_part": 2}, "0 to 1"),
        ({"gpu_part": 0.5, "decode": "cpu"}, "contradicts"),
        ({"gpu_part": 0.5}, "no costs of form 'jpeg' with decode='gpu'"),
    ):
        with pytest.raises(ps.errors.ArgumentError, match=says):
            report.whatif(**question)
    for wrong, says in (
        ({}, "no report"),
        ({"kind": "penstock-report", "version": 99}, "version 99"),
        ({"kind": "penstock-report", "version": 1}, "has no"),
    ):
        with pytest.raises(ps.errors.ArgumentError, match=says):
            Report(wrong)
    (tmp_path / "r.json").write_text("[1]")
    with pytest.raises(ps.errors.CorruptError, match="JSON object"):
        Report.load(tmp_path / "r.json")


def test_files_keep_everything(report: Report, tmp_path: Path) -> None:
    report.to_json(tmp_path / "r.json")
    again = Report.load(tmp_path / "r.json")
    assert again.data == report.data
    assert ps.whatif(tmp_path / "r.json", cores=2).samples_per_second == pytest.approx(1000)


def test_text_has_every_part(report: Report) -> None:
    text = report.report()
    for part in ("2 of 8 H100", "photos & <more>", "resident", "pli-jpeg", "(as it is now)", "14.4 CPU cores.", "a note",
                 "Not enough alone, however much there is: bytes/s of storage, cache."):  # fmt: skip
        assert part in text
    assert "[" + "#" * 20 + "p" * 20 + "]" in text


def test_the_start_of_epochs_is_said_where_it_costs() -> None:
    made = data()
    made["subject"]["batches_per_epoch"] = 10
    says = (
        "These rates count the start of each epoch, where nothing is prepared yet and the first batch is waited for; an epoch has "
        "10 batches. The phases were measured without it, and without it jpeg gives 2,000 samples/s."
    )
    text = Report(made).report()
    table = text[text.index("Predicted rates if") :].partition("\n\n")[0].splitlines()
    assert "1,951" in table[2] and table[-1] == says and says in Report(made).to_html()
    made["subject"]["batches_per_epoch"] = 1
    assert "an epoch has 1 batch." in Report(made).report()
    for n in (1000, 0):  # costs almost nothing, and has no ends of epochs
        made["subject"]["batches_per_epoch"] = n
        assert "start of each epoch" not in Report(made).report() + Report(made).to_html()


def test_bar_lengths() -> None:
    assert _report_text.bar({"compute": 1.0}) == "#" * 40
    assert _report_text.bar({"compute": 0.25, "fetch": 0.75}) == "#" * 10 + "f" * 30


def test_command_line(report: Report, tmp_path: Path) -> None:
    file = tmp_path / "r.json"
    report.to_json(file)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "penstock.cli.main", *arguments], capture_output=True, text=True, check=False, cwd=tmp_path
        )

    done = run("whatif", str(file), "--cores", "1,2", "--form", "pli-jpeg", "--json")
    assert done.returncode == 0, done.stderr
    assert [round(a["samples_per_second"]) for a in json.loads(done.stdout)["answers"]] == [1000, 2000]
    assert "14.4" in run("whatif", str(file)).stdout
    assert "limited by" in run("whatif", str(file), "--cores", "8,16", "--html", "r.html").stdout
    assert (tmp_path / "r.html").read_text().startswith("<!doctype html>")
    for arguments, status, says in (
        (("whatif", "nothing.json"), 1, "nothing.json"),
        (("whatif", str(file), "--cores", "x"), 2, "is a number"),
        (("whatif", str(file), "--jobs", "0"), 2, "jobs must be 1 or more"),
        (("analyze",), 2, "DATA or --command"),
        (("analyze", "nowhere", "--train", "no_such_module:step"), 2, "no_such_module"),
        (("banana",), 2, "verb"),
    ):
        found = run(*arguments)
        assert found.returncode == status and says in found.stderr


def test_accelerators() -> None:
    h100 = accelerators.by_name("mlperf:resnet50:h100")
    assert h100.title == "H100" and h100.samples_per_second == pytest.approx(400 / 0.224) and h100.source
    assert len(accelerators.names()) == 10
    assert all(
        accelerators.by_name(name).source and 0.5 < accelerators.by_name(name).limit < 1 for name in accelerators.names()
    )
    with pytest.raises(ps.errors.ArgumentError, match="known are mlperf"):
        accelerators.by_name("h100")
    assert accelerators.of_rate(1800, 64).step_seconds == pytest.approx(64 / 1800)
    assert accelerators.split_count("8 x mlperf:resnet50:h100") == (8, "mlperf:resnet50:h100")
    assert accelerators.split_count("8*a") == (8, "a") and accelerators.split_count(" a ") == (1, "a")


def test_the_command_has_the_questions(tmp_path: Path) -> None:
    """Each question of ps.whatif is an option of the command. A renamed one is explained in a line."""
    program = Path(sys.executable).parent / "penstock"
    text = subprocess.run([program, "whatif", "--help"], capture_output=True, text=True, check=True).stdout
    for name in model.QUESTIONS:
        assert re.search(rf"--{name.replace('_', '-')}\s", text), name
    assert "--gpu-share" not in text
    made = data()
    made["forms"]["jpeg"]["gpu"] = {**made["forms"]["jpeg"]["cpu"], "gpu_seconds": 1e-4}
    made["subject"]["gpu_share"] = 1.0
    path = tmp_path / "report.json"
    path.write_text(json.dumps(made))
    for name in ("--gpu-part", "--gpu-share"):
        done = subprocess.run([program, "whatif", path, name, "0.5"], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert "penstock: the report: gpu_share is gpu_part now\n" in done.stderr
        assert ("penstock: whatif: gpu_share is gpu_part now\n" in done.stderr) == (name == "--gpu-share")
        assert "FutureWarning" not in done.stderr
