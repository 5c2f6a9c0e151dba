"""bench/runner: cells end in time and give a reason if they have no figures; resources spent; the files and rows that benches
write."""

import json
import os
import sys
import time
import xml.etree.ElementTree as ET

import pytest

from bench_modules import load

runner = load(".", "runner")
CELL = """
import json, sys
print("words", flush=True)
for line in sys.stdin:
    if line == "end\\n":
        sys.exit("no such codec")
    print(json.dumps({"said": line.strip()}), flush=True)
"""


def test_a_cell_is_the_last_line_of_json_or_says_why_not():
    def run(code, limit=60):
        return runner.run_cell([sys.executable, "-c", code], {}, limit)

    assert run("print('{\"a\": 1}'); print('words'); print('{\"a\": 2}')") == {"a": 2}
    assert run("import sys; print('{}'); sys.exit('no such codec')") == {"absent": "no such codec"}
    assert run("import os; os._exit(3)") == {"absent": "exit status 3"}
    assert run("import time; time.sleep(600)", 0.2) == {"absent": "no result within 0.2 s"}


def test_work_on_other_cores_does_not_count(tmp_path):
    core = min(os.sched_getaffinity(0))
    tick = runner.CLOCK_TICKS
    stat = tmp_path / "stat"
    stat.write_text(f"cpu  {90 * tick} 0 0 0 0 0 0 0 0 0\n"
                    f"cpu{core} {3 * tick} {tick} {2 * tick} {50 * tick} {40 * tick} 0 0 {5 * tick} 0 0\n"
                    f"cpu{core + 1000} {70 * tick} 0 0 0 0 0 0 {9 * tick} 0 0\nintr 1 2 3\n")
    assert runner.cores_seconds(str(stat)) == (6.0, 5.0)


def test_a_process_answers_ends_or_is_late():
    process = runner.Process("a cell", [sys.executable, "-c", CELL], {})
    try:
        for word in ("one", "two"):
            process.say(word)
            assert json.loads(process.line("{", time.monotonic() + 60)) == {"said": word}
        process.check_alive()
        with pytest.raises(runner.Unavailable, match="a cell: nothing for a long time"):
            process.line("{", time.monotonic() + 0.1)
        process.say("end")
        with pytest.raises(runner.Unavailable, match="a cell ended with status 1: no such codec"):
            process.line("{", time.monotonic() + 60)
        process.say("to nobody")
        with pytest.raises(runner.Unavailable, match="no such codec"):
            process.check_alive()
    finally:
        process.kill()


def test_a_meter_counts_time_and_what_this_process_used():
    meter, before = runner.Meter(), time.thread_time()
    while time.thread_time() - before < 0.1:
        pass
    spent = meter.spent()
    assert 0.1 <= spent.wall_s <= meter.seconds()
    assert spent.cpu_s >= 0.08 and spent.foreign_cores >= 0  # processor times are counted in ticks of 10 ms


def test_a_program_writes_its_figures(tmp_path):
    code = "import json, os, sys; json.dump(os.environ['X'], open(sys.argv[sys.argv.index('--json') + 1], 'w'))"
    assert runner.run_program("x", [sys.executable, "-c", code], {"X": "1"}) == "1"


def test_names_are_chosen_by_pattern():
    known = ("penstock", "dali", "ffcv", "ffcv_raw")
    assert runner.chosen("penstock,dali", known) == ["penstock", "dali"]
    assert runner.chosen("ffcv*", known) == ["ffcv", "ffcv_raw"]
    with pytest.raises(SystemExit):
        runner.chosen("dalli", known)


def test_figures_of_an_earlier_run_are_shown_again(tmp_path, monkeypatch, capsys):
    found = {"machine": {"cpu": "a CPU", "cores": 2, "commit": "", "date": "2000-01-02"},
             "cells": [{"versions": {"b": "2"}}, {}, {"versions": {"a": "1"}}]}
    (tmp_path / "x.json").write_text(json.dumps(found))
    monkeypatch.setattr(sys, "argv", ["x", "--from", str(tmp_path / "x.json"), "--out", str(tmp_path / "out")])
    args = runner.parsed(runner.parser("A bench.", "data"))

    def table(result):
        return "\n".join([runner.where(result), *runner.heads("a", "b", "c"), runner.absent("x", "no|wheel", n=3),
                          runner.versions(result)])

    runner.finish(args, "x", lambda _: pytest.fail("measured"), table, lambda _: runner.svg(9, 4, [runner.text(0, 0, "<")]))
    out = tmp_path / "out" / "x-2000-01-02"
    assert json.loads(out.with_suffix(".json").read_text()) == found
    assert out.with_suffix(".md").read_text().splitlines() == [
        "a CPU, 2 cores; commit unknown; 2000-01-02.", "| a | b | c |", "|---|---|---|", "| x | no/wheel | |", "versions: a 1, b 2"]
    assert [e.text for e in ET.parse(out.with_suffix(".svg")).getroot()][1:] == ["<"]
    assert f"{out}.json, .md, .svg" in capsys.readouterr().out


def test_paths_are_needed_to_measure(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["x", "--data", str(tmp_path), "--out", "o"])
    with pytest.raises(SystemExit):
        runner.parsed(runner.parser("A bench.", "data", "build"))
    assert "--data and --build, or --from" in capsys.readouterr().err


def test_a_bench_that_shows_no_earlier_figures_needs_its_paths(tmp_path, monkeypatch, capsys):
    parser = runner.parser("A bench.", "data", "work", again=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["x", "--data", "d", "--work", "w", "--out", "o"])
    args = runner.parsed(parser)
    assert (args.data, args.work) == (tmp_path / "d", tmp_path / "w") and args.cpus
    monkeypatch.setattr(sys, "argv", ["x", "--data", "d", "--out", "o"])
    with pytest.raises(SystemExit):
        runner.parsed(parser)
    assert "--work" in capsys.readouterr().err
