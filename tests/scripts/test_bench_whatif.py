"""The parts of bench/whatif that measure nothing: the draw of cells, the file of predictions, which cells run again, figures and
goals."""

import copy
import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from bench_modules import load

whatif = load("whatif", "whatif")
cell = load("whatif", "cell")
draw, picture, predictions, rounds, sets, summary = (
    whatif.draw, whatif.picture, whatif.predictions, whatif.rounds, whatif.sets, whatif.summary)
SETS = (sets.Set("imagenet", "jpeg", ("pli-jpeg", "pli-small", "raw"), 272, 16, 31_000_000, 176_000_000),
        sets.Set("frames", "png", ("pli-fast", "pli-small", "raw"), 96, 8, 42_000_000, 151_000_000))


# The draw of cells -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("machine", [draw.Machine(2, True), draw.Machine(2, False), draw.Machine(1, False), draw.Machine(16, True)])
def test_the_draw_has_each_kind_of_each_set_and_no_cell_twice(machine):
    cells = draw.counted(1, SETS, machine)
    assert len(cells) == 72 and len({one["name"] for one in cells}) == 72
    for of in SETS:
        own = [one for one in cells if one["set"] == of.name]
        count = {kind: sum(one["kind"] == kind for one in own) for kind in draw.KINDS}
        assert sum(count.values()) == 36
        assert count["cache"] == draw.KINDS["cache"] and count["jobs"] == draw.KINDS["jobs"]
        assert count["storage"] - draw.KINDS["storage"] == draw.KINDS["cores"] - count["cores"] >= 0
        assert {one["form"] for one in own if one["kind"] == "cores"} == set(of.forms)
        assert {one["form"] for one in own if one["kind"] == "storage"} == set(of.others)
        assert {one["jobs"] for one in own} == {1, 2, 3}
    if machine.has_quota:
        assert count["cores"] == draw.KINDS["cores"] and any(rounds.is_quota(one) for one in cells)
    else:
        assert not any(rounds.is_quota(one) for one in cells)
    assert all(0 < one["cores"] <= machine.cores for one in cells)


def test_the_draw_follows_seed_sets_and_machine_alone():
    machine = draw.Machine(2, True)
    assert draw.counted(3, SETS, machine) == draw.counted(3, SETS, machine)
    assert draw.counted(3, SETS, machine) != draw.counted(4, SETS, machine)
    names = [one["name"] for one in draw.counted(1, SETS, machine)]
    # the draw is the same in every release of Python
    assert names[:2] == ["imagenet: pli-small, 1.25 cores", "imagenet: raw, 1.5 cores"]
    less = draw.counted(1, SETS, machine, 9)
    assert len(less) == 9 and {one["kind"] for one in less} == set(draw.KINDS) and {one["set"] for one in less} == set(sets.OWN)
    assert {one["name"] for one in less} < set(names)


def test_counted_cells_never_slow_storage_under_the_analysed_form():
    for seed in range(20):
        for one in draw.counted(seed, SETS, draw.Machine(4, True)):
            assert not (one["own"] and one["storage"])
            if one["storage"]:
                assert draw.SLOWEST <= one["storage"] <= draw.FASTEST
                of = SETS[one["set"] == "frames"]
                assert one["jobs"] * of.about(one["form"]) / (one["storage"] * 1e6) <= draw.LONGEST_EPOCH_S
            asked = one["question"]
            assert asked["form"] == one["form"] and asked["cores"] == one["cores"]
            assert asked.get("storage", 0) == one["storage"] * 1e6 and asked.get("jobs", 1) == one["jobs"]
            assert asked.get("cache", 0) == one["cache"] and (asked["page_cache"] == 0) == bool(one["storage"])


def test_cells_apart_are_not_counted():
    apart = [*draw.easy(SETS, 2), *draw.emulated(SETS[0], 2)]
    assert {one["kind"] for one in apart} == {*draw.EASY, draw.EMULATED} and not {*draw.EASY, draw.EMULATED} & set(draw.KINDS)
    assert len({one["name"] for one in apart}) == len(apart)
    assert all(one["own"] for one in apart if one["kind"] in draw.EASY[:2])


def test_a_cell_names_its_command():
    text = rounds.command_of(draw.cell("jobs", SETS[0], "raw", 2.0, storage=283, jobs=3), [4, 5], 4.0)
    before, _, words = text.partition(" WORK ")
    assert before == "3 at once: taskset -c 4,5 python bench/whatif/cell.py"
    assert json.loads(words[1:-1]) == {"set": "imagenet", "data": "imagenet-raw.pst", "seconds": 4.0, "jobs": 3, "cache": 0,
                                       "throttle": pytest.approx(283e6 / 3)}
    text = rounds.command_of(draw.cell("cores", SETS[1], "png", 0.75), [4, 5], 4.0)
    assert text.startswith("in a control group of 0.75 cores: python bench") and '"data": "frames"' in text


# Predictions ---------------------------------------------------------------------------------------------


def git(folder, *words):
    subprocess.run(["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@example.org", *words], check=True)


def test_nothing_is_measured_before_the_predictions_are_committed(tmp_path):
    git(tmp_path, "init", "--quiet")
    file = tmp_path / "results" / "whatif_x.predictions.json"
    sha256 = predictions.write(file, {"cells": [1]})
    with pytest.raises(SystemExit, match="committed"):
        predictions.check(file, sha256, commit=True)
    assert predictions.check(file, sha256, commit=False)["commit"] == ""
    git(tmp_path, "add", ".")
    with pytest.raises(SystemExit, match="committed"):  # a staged file is not committed
        predictions.check(file, sha256, commit=True)
    git(tmp_path, "commit", "--quiet", "-m", "x")
    found = predictions.check(file, sha256, commit=True)
    assert found["file"] == file.name and found["sha256"] == sha256 and len(found["commit"]) == 40
    with pytest.raises(SystemExit, match="is there"):  # predictions are made only once
        predictions.write(file, {"cells": [2]})
    file.write_text('{"cells": [2]}\n')
    for commit in (True, False):
        with pytest.raises(SystemExit, match="not what was written"):
            predictions.check(file, sha256, commit=commit)
    with pytest.raises(SystemExit, match="committed"):  # the changed file is not committed
        predictions.check(file, predictions.hash_of(file), commit=True)
    git(tmp_path, "commit", "--quiet", "-a", "-m", "y")
    with pytest.raises(SystemExit, match="not what was written"):
        predictions.check(file, sha256, commit=True)


def test_a_folder_without_git_commits_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    file = tmp_path / "p.json"
    with pytest.raises(SystemExit, match="committed"):
        predictions.check(file, predictions.write(file, {}), commit=True)


def test_names_of_processors():
    assert predictions.name_of("Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz") == "intel-xeon-platinum-8481c"
    assert predictions.name_of("AMD EPYC 9B14 96-Core Processor") == "amd-epyc-9b14"
    assert predictions.name_of("") == "cpu"


# Rounds --------------------------------------------------------------------------------------------------


def run_of(rate, others=0.0):
    return {"samples_per_second": rate, "other_cores": others}


def rounds_of(cells, rates):
    """Runs cells to the end and returns their names in order. rates: for each cell name the rate of each run."""
    order = []
    while todo := rounds.pending(cells, seed=1):
        for one in todo:
            order.append(one["name"])
            one["runs"].append(run_of(rates(one["name"], len(one["runs"]))))
    return order


def test_all_cells_run_twice_apart_in_time():
    for n in (1, 2, 7, 20):
        cells = [{"kind": "cores", "name": str(i), "runs": []} for i in range(n)]
        order = rounds_of(cells, lambda name, turn: 100.0 + turn)
        assert len(order) == 2 * n and set(order[:n]) == set(order[n:]) == {str(i) for i in range(n)}
        for name in order[:n]:
            assert order.index(name, n) - order.index(name) > n // 2
        if n > 7:
            assert order[:n] != order[n:]


def test_cells_that_differ_run_again_three_times_at_most():
    cells = [{"kind": kind, "name": name, "runs": []} for kind, name in
             (("cores", "steady"), ("jobs", "wild"), ("cache", "steady as well"), ("cores", "just"), (draw.EASY[0], "apart"))]

    def rate(name, turn):
        return 100.0 + (10 * (turn % 2) if name in ("wild", "apart") else 3.9 * (turn == 1) if name == "just" else 0)

    rounds_of(cells, rate)
    assert {one["name"]: len(one["runs"]) for one in cells} == {"steady": 2, "wild": 5, "steady as well": 2, "just": 2, "apart": 2}
    assert rounds.differs([100, 104.1]) > rounds.AGAIN > rounds.differs([100, 104])


def test_a_stopped_round_goes_on():
    cells = [{"kind": "cores", "name": str(i), "runs": []} for i in range(8)]
    first = [one["name"] for one in rounds.pending(cells, 1)]
    for one in rounds.pending(cells, 1)[:3]:
        one["runs"].append(run_of(1.0))
    assert [one["name"] for one in rounds.pending(json.loads(json.dumps(cells)), 1)] == first[3:]


def test_a_whole_run_ends_within_an_hour():
    cells = draw.counted(1, SETS, draw.Machine(2, True)) + draw.easy(SETS, 2) + draw.emulated(SETS[0], 2)
    least, most = rounds.estimate(cells, 4.0)
    assert 20 * 60 < least < 30 * 60 and least < most and most + whatif.ROOM_S <= 60 * 60
    for one in cells:
        one["runs"] = [run_of(1.0)] * 5
    assert rounds.estimate(cells, 4.0) == (0, 0)


# How a job counts ------------------------------------------------------------------------------------------


def test_a_job_counts_whole_epochs_after_it_may(capsys):
    count = cell.Count(turn=10, batch_size=4, seconds=2.0)
    assert count.counted(10, 0.5, 0.5) is None and not count.is_warm  # too early to be warm
    assert count.counted(20, 1.0, 1.0) is None and capsys.readouterr().out == "warm\n"
    assert count.counted(30, 1.5, 1.5) is None  # other jobs are not warm yet
    count.may_begin.set()
    assert count.counted(40, 2.0, 2.0) is None  # begins here
    assert count.counted(50, 3.9, 3.9) is None
    assert count.counted(60, 4.5, 4.5) == {"samples_per_second": 20 * 4 / 2.5, "seconds": 2.5, "batches": 20}
    few = cell.Count(turn=2, batch_size=4, seconds=2.0)
    few.may_begin.set()
    found = [few.counted(2 * i, 3.0 * i, 3.0 * i) for i in range(1, 6)]
    assert found[:4] == [None] * 4 and found[4]["batches"] == cell.FEWEST


def test_a_job_ends_with_the_bench(monkeypatch):
    ends = []
    monkeypatch.setattr(cell.os, "_exit", ends.append)
    for lines, may_begin in ((b"count\n", True), (b"", False)):
        count = cell.Count(turn=1, batch_size=1, seconds=1.0)
        reader, writer = os.pipe()
        os.write(writer, lines)
        os.close(writer)
        cell.listen(count, reader)
        os.close(reader)
        assert count.may_begin.is_set() == may_begin
    assert ends == [1, 1]


def test_workers_are_forked_while_a_job_listens():
    """A fork copies locks in their present state. A thread that reads sys.stdin holds a lock that each worker needs when it
    begins."""
    program = f"""
import os, sys, threading, multiprocessing
sys.path.insert(0, {str(Path(cell.__file__).parent)!r})
import cell
threading.Thread(target=cell.listen, args=(cell.Count(1, 1, 1.0),), daemon=True).start()
child = multiprocessing.get_context("fork").Process(target=print, args=("works",))
child.start()
child.join(60)
child.kill()
print("ended", child.exitcode, flush=True)
os._exit(0)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.read().split() == ["works", "ended", "0"]


# Figures -------------------------------------------------------------------------------------------------


def measured(errors, band=0.05, kind="cores", binding="cores", own=False):
    """Makes cells that were measured at 100/s, with these errors of prediction and bands of this width."""
    return [{"kind": kind, "name": f"{kind} <{i}>", "own": own, "runs": [run_of(100.0), run_of(100.0, 0.5)], "predicted": {
        "samples_per_second": 100 * (1 + error), "low": 100 * (1 + error) * (1 - band), "high": 100 * (1 + error) * (1 + band),
        "binding": binding, "next": "", "extrapolated": []}} for i, error in enumerate(errors)]


def missed(cells):
    return [goal["name"] for goal in summary.summarise(copy.deepcopy(cells))["goals"] if not goal["met"]]


GOOD = measured([0.01, -0.02] * 20) + measured([0.01, -0.01] * 12, kind="storage", binding="storage")


def test_goals_that_are_met():
    assert missed(GOOD) == []
    assert missed(GOOD + measured([0.5, -0.5], kind=draw.EASY[0], binding="storage")) == []  # not counted
    assert missed(GOOD + measured([0.5] * 9, kind=draw.EMULATED)) == []


@pytest.mark.parametrize(("cells", "goals"), [
    (GOOD[:59], ["n_cells"]),
    (measured([0.031, -0.031] * 25, 0.08) + GOOD[40:], ["median_error"]),
    (GOOD + measured([0.09, -0.09, 0.09, -0.09], 0.1), ["error_95"]),
    (GOOD + measured([0.13]), ["worst_error"]),
    (GOOD[:40] + measured([0.021, -0.021] * 12, kind="cache", binding="storage"), ["storage_median_error"]),
    (GOOD + measured([-0.07], 0.1, kind="jobs", binding="reads"), ["storage_worst_error"]),
    (GOOD + measured([0.03] * 4, 0.01), ["in_band"]),
    (measured([0.01] * 64, 0.081) + GOOD[40:], ["half_width"]),
    (GOOD[:40] * 2, ["storage_median_error", "storage_worst_error"]),  # no cell is bound by storage
])  # fmt: skip
def test_each_goal_can_be_missed(cells, goals):
    assert missed(cells) == goals


def test_figures_of_cells():
    cells = measured([i / 1000 for i in range(1, 101)])
    cells[0]["runs"] = [run_of(90.0), run_of(100.0), run_of(102.0)]
    found = summary.summarise(cells)
    assert found["median_error"] == pytest.approx(0.0505) and found["error_95"] == pytest.approx(0.095)
    assert found["worst_error"] == pytest.approx(0.1) and found["mean_signed_error"] == pytest.approx(0.0505)
    assert found["half_width"] == pytest.approx(0.05) and found["in_band"] == pytest.approx(0.52)
    assert found["unsteady"] == 1 and cells[0]["unsteady"] and cells[0]["measured"] == 100
    assert found["other_cores_median"] == 0 and found["other_cores_most"] == 0.5
    assert summary.part_of_cells([3, 1, 2], 0.95) == 3 and summary.part_of_cells([1], 0.5) == 1


def test_table_and_picture_have_all_cells():
    cells = measured([0.01, -0.7]) + measured([0.01], kind=draw.EASY[1]) + measured([0.2], kind=draw.EMULATED)
    result = {"cells": cells, "summary": summary.summarise(cells), "settings": {"seed": 5, "seconds": 4.0}, "notes": ["A note."],
              "predictions": {"file": "p.json", "sha256": "a" * 64, "commit": "b" * 40},
              "machine": {"cpu": "a CPU", "cores": 2, "commit": "", "date": "2000-01-02"}}
    text = summary.table(result)
    assert text.count("| cores <") == 2 and "Seed 5" in text and "aaaa" in text and "- A note." in text
    assert "| counted cells, worst error | <= 12.0 % | 70.0 % | missed |" in text
    assert "| counted cells | >= 60 | 2 | missed |" in text
    assert text.index("cores <0>") < text.index("can hardly miss") < text.index("step <0>") < text.index("stand-in emulates")
    drawn = [element.text for element in ET.fromstring(picture.draw(result)).iter()]
    for one in cells:
        assert one["name"] in drawn
    assert "step (not counted)" in drawn and "-70.0 % >" in drawn
