"""The report of bench/codec may say "met" only for goals that were measured and reached. Figures are invented."""

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench" / "codec"))
import goals  # noqa: E402
import report  # noqa: E402

NBYTES = {"png6": 1000, "webp_m4": 700, "pli_fast": 940, "pli_small": 699, "pli_dense": 650, "png9": 900, "zstd3_raw": 950}
SPEED = {"png6": 100, "webp_m4": 150, "pli_fast": 2100, "pli_small": 900, "pli_dense": 380}


def row(codec, group, nbytes=None, decode=None, encode=200.0):
    return {"group": group, "codec": codec, "images": 1, "pixels": 800, "raw_nbytes": 2400,
            "nbytes": nbytes or NBYTES[codec], "bpp": (nbytes or NBYTES[codec]) / 100,
            "decode": decode or SPEED.get(codec, 100), "encode": encode}


def run(level, results):
    return {"cpu": "test", "cores": 1, "commit": "abc", "seconds": 1, "repeats": 1, "threads": 0, "versions": {"libx": "1"},
            "absent": {"liby": "nowhere"}, "environment": {"cpu_used": level, "version": "0"}, "results": results}


def figures(level="avx2", **changed):
    rows = [row(codec, group) for group in report.PHOTOGRAPHS for codec in SPEED]
    for r in rows:
        r.update(changed.get(f"{r['codec']}__{r['group']}", changed.get(r["codec"], {})))
    merged = {"bench": "codec", "date": "2000-01-02", "runs": [run(level, rows)]}
    return merged, report.Figures(merged)


def verdict(name, target, merged, shown):
    rows = [r for r in goals.all_rows(merged, shown, report.PHOTOGRAPHS) if r[0] == name and target in r[1]]
    assert len(rows) == 1, rows
    return rows[0][3]


def test_reached_goals_are_met():
    merged, shown = figures()
    assert verdict("pli_small: bytes", "webp_m4", merged, shown) == "met"
    assert verdict("pli_small: decode, avx2", "png6", merged, shown) == "met"
    assert verdict("pli_dense: decode, avx2", "webp_m4", merged, shown) == "met"
    assert verdict("pli_fast: decode, avx2", "png6", merged, shown) == "met"
    assert verdict("pli_dense: encode, default effort", "100", merged, shown) == "met"


@pytest.mark.parametrize(("changed", "name", "target"), [
    ({"pli_small": {"nbytes": 701}}, "pli_small: bytes", "webp_m4"),
    ({"pli_small__cid22": {"nbytes": 736}, "pli_small__kodak": {"nbytes": 600}}, "pli_small: bytes", "webp_m4"),
    ({"pli_dense": {"nbytes": 660}}, "pli_dense: bytes", "webp_m4"),
    ({"pli_fast__kodak": {"nbytes": 1001}, "pli_fast": {"nbytes": 900}}, "pli_fast: bytes", "png6"),
    ({"pli_small": {"decode": 790}}, "pli_small: decode, avx2", "png6"),
    ({"pli_small": {"encode": 99.0}}, "pli_small: encode, default effort", "100"),
])
def test_goals_missed_are_not_met(changed, name, target):
    merged, shown = figures(**changed)
    assert verdict(name, target, merged, shown) == "NOT MET"


def test_what_was_not_measured_is_not_met():
    merged, shown = figures()
    assert verdict("pli_small: decode, avx512", "png6", merged, shown).startswith("not measured")
    assert verdict("pli_small: decode, c", "png6", merged, shown).startswith("not measured")
    assert verdict("labels8, pli_small: bytes", "png9", merged, shown) == "not measured"
    merged["runs"][0]["results"] = [r for r in merged["runs"][0]["results"] if r["group"] != "cid22"]
    assert verdict("pli_small: bytes", "webp_m4", merged, report.Figures(merged)) == "not measured"


def test_levels_are_compared_within_their_process():
    merged, _ = figures()
    slow = [row(codec, group, decode=SPEED[codec] / 10) for group in report.PHOTOGRAPHS for codec in SPEED]
    merged["runs"].append(run("c", slow))
    shown = report.Figures(merged)
    assert verdict("pli_small: decode, c", "png6", merged, shown) == "met"


@pytest.mark.parametrize(("changed", "verdicts"), [
    ({}, ["met", "met", "met"]),
    ({"speedup": 3.3}, ["met", "NOT MET", "met"]),
    ({"speedup_loader": 3.3}, ["met", "met", "NOT MET"]),
    ({"units": 120}, ["NOT MET", "met", "met"]),
    ({"what": "RandomResizedCrop 9", "speedup_loader": 1.1}, ["met", "met", "NOT MET"]),
])
def test_crops_are_judged_by_their_share_of_units(changed, verdicts):
    crop = {"what": "RandomCrop 9", "tier": "pli_small", "units": 101, "units_whole": 400, "units_touched": 100,
            "speedup": 3.5, "speedup_loader": 3.45, **changed}
    assert [r[3] for r in goals.crop_rows([crop])] == verdicts


def test_a_report_is_table_picture_and_figures(tmp_path, monkeypatch, capsys):
    merged, _ = figures()
    source = tmp_path / "x.json"
    source.write_text(json.dumps(merged))
    monkeypatch.setattr(sys, "argv", ["report.py", "--from", str(source), "--out", str(tmp_path / "out")])
    report.main()
    text = (tmp_path / "out" / "codec-2000-01-02.md").read_text()
    assert "| pli_small | 6.990 / 900 |" in text and "absent: liby (nowhere)" in text and text.strip() in capsys.readouterr().out
    drawn = (tmp_path / "out" / "codec-2000-01-02.svg").read_text()
    assert drawn.count("<circle") == 5 + 2 and all(f">{name}</text>" in drawn for name in SPEED)
    assert json.loads((tmp_path / "out" / "codec-2000-01-02.json").read_text()) == merged
