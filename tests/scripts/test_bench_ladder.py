"""The parts of bench/ladder that measure nothing: its cells, its gains, and its page of the guide."""

import math

import pytest

from bench_modules import load


def test_crop_lies_within_the_image():
    numpy = pytest.importorskip("numpy")
    crop_of, draw = load("ladder", "cell").crop_of, numpy.random.default_rng(1)
    areas = []
    for _ in range(300):
        left, top, right, bottom = crop_of(300, 400, draw)
        assert 0 <= left < right <= 400
        assert 0 <= top < bottom <= 300
        areas.append((right - left) * (bottom - top) / (300 * 400))
    assert min(areas) > 0.07
    assert math.isclose(sum(areas) / len(areas), 0.5, abs_tol=0.08)


@pytest.fixture
def ladder():
    return load("ladder", "ladder")


def row(kind, step, rate):
    return {"kind": kind, "step": step, "setting": "local", "images_per_s": rate, "cpu_s_per_1000": 1.0, "peak_rss_mb": 100.0,
            "stored_mb": 30.0, "read_kb_per_image": 110.0}  # fmt: skip


def test_ladder_has_each_step_alone_and_left_out(ladder):
    cells = ladder.cells_of(["local", "throttled"], gpu=False)
    for setting in ladder.SETTINGS:
        for step in ladder.STEPS:
            (alone,) = [one for one in cells if (one.setting, one.kind, one.step) == (setting, "alone", step)]
            (left,) = [one for one in cells if (one.setting, one.kind, one.step) == (setting, "left out", step)]
            assert alone.on == {step}
            assert left.on == set(ladder.STEPS) - {step}
        added = [one.on for one in cells if one.setting == setting and one.kind == "rung"]
        assert added == [set(ladder.STEPS[: i + 1]) for i in range(1, len(ladder.STEPS) - 1)]
    assert not any(one.kind.startswith("jobs") for one in cells if one.setting == "throttled")


def test_ladder_gains_and_page(ladder, tmp_path):
    rows = [row("ground", "", 100), row("top", "", 1000)]
    rows += [row("rung", step, 200 * i) for i, step in enumerate(ladder.STEPS[:-1]) if i > 0]
    for step in ladder.STEPS:
        rows += [row("alone", step, 150), row("left out", step, 800)]
    found = ladder.gains(rows, "local")
    assert found["threads"] == (pytest.approx(1.5), pytest.approx(1.25))
    assert "placement" not in found
    text = "\n".join(ladder.gain_table(rows, "local"))
    assert "| fused preparation | 1.50 x | 150 (1.50 x) | 1.25 x |" in text
    assert "| threads | 1.50 x | 200 (1.33 x) | 1.25 x |" in text
    assert "| read-ahead | 1.50 x | 400 (2.00 x) | 1.25 x |" in text
    assert "| cache | 1.50 x | 1000 (1.00 x) | 1.25 x |" in text
    assert "not measured: no GPU" in text
    page = tmp_path / "page.md"
    page.write_text(f"before\n{ladder.BEGIN}\nold\n{ladder.END}\nafter\n")
    ladder.put_in(page, text)
    assert page.read_text() == f"before\n{ladder.BEGIN}\n{text.strip()}\n{ladder.END}\nafter\n"
    page.write_text("no marks")
    with pytest.raises(SystemExit):
        ladder.put_in(page, text)
