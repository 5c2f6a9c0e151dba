"""The bench of re-coding into the cache: its results from the figures of its cells. Figures are invented."""

import pytest

from bench_modules import load

recode = load("cache", "recode")


def cell(kind, way, first_s=1.0, later_cpu_ms=1.0, recoded=0):
    return {"set": kind, "way": way, "first_s": first_s, "first_cpu_ms": 2.0, "images": 100, "items": 100, "recoded": recoded,
            "not_recoded": 0, "recode_ms": 3.0, "rest_s": 0.5, "later_cpu_ms": later_cpu_ms, "later": 900.0, "foreign_cores": 0.0}


def one_round(first_s=1.1, recoded=90, later_cpu_ms=0.26):
    return [cell("folder", "files"), cell("folder", "stored", later_cpu_ms=0.9),
            cell("folder", "idle", first_s, later_cpu_ms, recoded), cell("folder", "packed", later_cpu_ms=0.25),
            cell("tars", "files", later_cpu_ms=2.0), cell("tars", "stored", 2.0, 0.9), cell("tars", "idle", 2.2, 0.5, 50)]


def result(rounds, short=False):
    settings = {"copies": 1, "epochs": 3, "rounds": len(rounds), "cores": 2, "short": short, "images": 100, "pace": 0.5,
                "set_mb": 1.0}
    return {"bench": "recode", "machine": {"cpu": "A CPU", "cores": 2, "commit": "", "date": "2026-01-01"}, "settings": settings,
            "goals": recode.GOALS, "compared": {"folder": {"compared": 300}}, "cells": recode.summed(rounds)}


def test_cells_are_beside_those_of_their_round():
    found = {(one["set"], one["way"]): one for one in recode.summed([one_round(), one_round(first_s=1.3), one_round(first_s=1.2)])}
    idle = found["folder", "idle"]
    assert (idle["of_stored_s"], idle["part"], idle["first_s"]) == (1.2, 0.9, 1.2)
    assert (idle["of_files"], idle["of_packed"]) == (pytest.approx(0.26), pytest.approx(1.04))
    tars = found["tars", "idle"]
    assert (tars["of_files"], tars["of_packed"], tars["of_stored_s"], tars["part"]) == (0.25, 2.0, 1.1, 0.5)
    assert "of_packed" not in found["folder", "files"] and len(idle["rounds"]) == 3


def test_goals_are_judged_for_each_set():
    lines = recode.verdict(result([one_round()]))
    assert [line.rsplit(": ", 1)[1] for line in lines] == ["met.", "met.", "met.", "met.", "missed.", "missed."]
    assert all(line.endswith("says nothing.") for line in recode.verdict(result([one_round()], short=True)))


def test_the_table_names_each_cell():
    text = recode.table(result([one_round()]))
    assert text.count("| folder | ") == 4 and text.count("| tars | ") == 3 and "300 samples compared" in text
    assert "| folder | idle | 1.10 | 1.10 | 2.00 | 90 % | 0.5 | 0.260 | 0.26 | 1.04 | 900 |" in text


def test_the_pace_is_half_the_rate_of_the_round(monkeypatch):
    seen = []

    def run(args, place, *options):
        seen.append((*place, *options))
        return {name: value for name, value in cell(*place).items() if name not in ("set", "way")}

    monkeypatch.setattr(recode, "run_cell", run)
    found = recode.one_round(None)
    assert [(one["set"], one["way"]) for one in found] == [(kind, way) for kind, ways in recode.SETS.items() for way in ways]
    assert all(len(each) == 2 for each in seen if each[1] == "files")
    steps = [float(each[3]) for each in seen if each[1] != "files"]
    assert steps == pytest.approx([recode.BATCH / (900.0 / 2)] * len(steps))
