"""bench/figures.py draws README.md's picture from the committed figures, with bars of the right lengths."""

import importlib.util
import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SPEC = importlib.util.spec_from_file_location("figures", ROOT / "bench" / "figures.py")
figures = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(figures)
SVG = "{http://www.w3.org/2000/svg}"


def test_the_committed_picture_is_that_of_the_figures():
    assert (ROOT / "docs" / "figures.svg").read_text() == figures.draw(), "make it anew: bench/figures.py"


def test_bars_and_numbers(tmp_path, monkeypatch):
    def run(group, **speeds):
        return {"machine": {"cpu": "a CPU", "date": "2001-02-03"},
                "cells": [{"group": group, "cores": 1, "peer": peer, "images_per_s": speed} for peer, speed in speeds.items()]}
    jpeg = run("imagenet", penstock_pli_jpeg=800.0, penstock=400.0, dali=200.0, ffcv_raw=900.0)
    for cell in jpeg["cells"]:
        cell |= {"decodes": cell["peer"] != "ffcv_raw", "stored_mb": 70.0 if cell["peer"] == "ffcv_raw" else 10.0}
    jpeg["cells"] += run("photographs", penstock_pli_jpeg=80.0, penstock=20.0, dali=10.0)["cells"]
    jpeg["cells"].append({"group": "imagenet", "cores": 2, "peer": "dali", "images_per_s": 5000.0})
    jpeg["cells"].append({"group": "imagenet", "cores": 1, "peer": "spdl", "absent": "no wheel"})
    frames = run("frames", penstock_pli=8.0, penstock=4.0, dali=1.0)
    jpeg["cells"] += frames["cells"]
    for name, cells in ((f"{figures.RUN}-2001-02-03", jpeg), (f"{figures.RUN}-2001-02-02", frames),
                        (f"{figures.RUN}_other-2002-01-01", frames)):
        (tmp_path / f"{name}.json").write_text(json.dumps(cells))
    monkeypatch.setattr(figures, "RESULTS", tmp_path)
    drawn = ET.fromstring(figures.draw())
    texts = [element.text for element in drawn.iter(f"{SVG}text")]
    bars = [float(element.get("width")) for element in drawn.iter(f"{SVG}rect")][1:]
    assert "800  (4.0 x)" in texts and "400  (2.0 x)" in texts and "8  (8.0 x)" in texts and "200" in texts
    assert "900  (7 times the bytes)" in texts  # decoded pixels do not count as the fastest other loader
    assert "5000" not in texts  # measured on two cores
    assert texts.count("reads no such files") == 3 * len(figures.ROWS) - len(bars)
    longest = 900 / 800  # decoded pixels have the longest bar
    assert [round(bar / bars[0], 2) for bar in bars[:3]] == pytest.approx([1, 0.5, 0.25], abs=0.01)
    assert bars[3] / bars[0] == pytest.approx(longest, abs=0.01)
