"""scripts/check_figures.py finds a changed value, a wrong number, and a figure without a source, and rewrites tables."""

import json
from pathlib import Path

import pytest

import check_figures
import figure_data
import figure_goals
import figure_pages
import figure_views

ROOT = Path(check_figures.__file__).resolve().parent.parent
# The accepted reasons. A new figure needs JSON; a name that is removed from KNOWN must be removed here.
MAY_BE_KNOWN = {"reference", "examples", "profile", "l3", "learning", "large"}
RUN = {"batch": 64, "results": [{"batch_size": size, "num_workers": n, "ratio": ratio} for size, n, ratio in (
    (64, 1, 0.84), (64, 2, 0.83), (128, 1, 0.84), (128, 2, 0.683), (256, 1, 0.945), (256, 2, 0.886))],
    "shares": {"few, fast": {"rate": 8.0}, "balanced": {"rate": 2.0}}}
TABLE = "<!-- table: raw a -->\n<!-- end -->\n"
SENTENCE = "The least is 0.68 of 300 MB/s.\n<!-- figures: a\n0.68 = min(results[].ratio)\nset: 300\n-->\n"


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """Makes a tree with one page and one file that are correct."""
    results = tmp_path / "bench" / "results"
    results.mkdir(parents=True)
    (tmp_path / "docs" / "figures").mkdir(parents=True)
    (results / "a-2026-01-02.json").write_text(json.dumps(RUN))
    (tmp_path / "docs" / "figures.md").write_text("# Figures\n")
    (tmp_path / "docs" / "figures" / "page.md").write_text(f"# Page\n\n{TABLE}\n{SENTENCE}")
    (tmp_path / "docs" / "figures" / "readme.json").write_text(
        json.dumps([{"text": "4 times as fast", "file": "a", "numbers": {"4": "shares[few, fast].rate / shares.balanced.rate"}}]))
    (tmp_path / "README.md").write_text("It is 4 times\nas fast.\n")
    monkeypatch.setattr(figure_data, "RESULTS", results)
    monkeypatch.setattr(figure_goals, "GOALS", [])
    monkeypatch.setattr(check_figures, "KNOWN", {})
    figure_data.read.cache_clear()
    check_figures.update(tmp_path)
    yield tmp_path
    figure_data.read.cache_clear()


def changed(tree, name, old, new):
    path = tree / name
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    figure_data.read.cache_clear()
    return check_figures.check(tree)


def test_the_documents_are_those_of_the_results():
    assert check_figures.check(ROOT) == []


def test_known_figures_without_json_only_become_fewer():
    assert set(check_figures.KNOWN) <= MAY_BE_KNOWN


def test_a_right_tree_is_right(tree):
    assert check_figures.check(tree) == []
    assert "|128|0.84|0.68|" in (tree / "docs/figures/page.md").read_text()


def test_a_changed_value_is_found_in_table_and_sentence(tree):
    found = changed(tree, "bench/results/a-2026-01-02.json", "0.683", "0.662")
    assert len(found) == 2 and "is not that of its JSON" in found[0] and "0.68 is 0.662" in found[1]
    check_figures.update(tree)
    assert len(check_figures.check(tree)) == 1  # sentences are not rewritten


def test_a_newer_file_takes_the_place_of_the_older(tree):
    (tree / "bench/results/a-2026-01-03.json").write_text(json.dumps(RUN).replace("0.683", "0.7"))
    (tree / "bench/results/a_other-2026-02-03.json").write_text("{}")
    assert any("0.68 is 0.7" in each for each in check_figures.check(tree))


@pytest.mark.parametrize("old, new, message", [
    ("|128|0.84|0.68|", "|128|0.84|0.69|", "is not that of its JSON"),
    (TABLE.split("\n")[0], "", "a table without a marker"),
    ("least is 0.68", "least is 0.69", "0.69 has no source"),
    ("0.68 = min(results[].ratio)\n", "", "0.68 has no source"),
    ("of 300 MB/s.", "of it.", "300 has a source, and is not in"),
    ("min(results[].ratio)", "max(results[].ratio)", "0.68 is 0.945"),
    ("min(results[].ratio)", "min(results[].speed)", "there is no such value"),
    ("min(results[].ratio)", "open(results[].ratio)", "only paths, numbers"),
    ("figures: a", "figures: b", "bench/results has no b-DATE.json"),
    ("set: 300", "known private: 300", "KNOWN has no private"),
    ("set: 300", "300", "neither NUMBER = EXPRESSION"),
    ("raw a", "raws a", "there is no such view"),
    ("# Page\n", "# Page\n\n<!-- words -->\n|what|rate|\n|---|---|\n|it|5 MB/s|\n", "a number in a table of words"),
    ("# Page\n", "# Page\n\nIt takes 3 ms.\n", "3 has no source"),
])
def test_what_is_wrong_in_a_page_is_found(tree, old, new, message):
    found = changed(tree, "docs/figures/page.md", old, new)
    assert any(message in each for each in found), found


@pytest.mark.parametrize("old, new, message", [
    ("4 times", "5 times", "README.md has no such text"), ("as fast.", "as fast, in 7 ms.", "7 has no source")])
def test_what_is_wrong_in_the_readme_is_found(tree, old, new, message):
    assert any(message in each for each in changed(tree, "README.md", old, new))


def test_a_reason_that_nothing_needs_is_found(tree, monkeypatch):
    monkeypatch.setattr(check_figures, "KNOWN", {"old": "of a table that is gone"})
    assert any("nothing needs old" in each for each in check_figures.check(tree))


@pytest.mark.parametrize("text, numbers", [
    ("2 cores, 64 rows, Zen 4, 2026-11-22", []), ("1.5 of 2", ["1.5"]), ("1, 2 and 3 x", ["1", "2", "3"]),
    ("20 to 30 % of 8 jobs", ["20", "30"]),
    ("`--rate 530` and RandomResizedCrop(224) on H200, AVX-512", []), ("4,700 images/s", ["4,700"]), ("[1.5](a-2.5.md)", ["1.5"])])
def test_numbers_that_need_a_source(text, numbers):
    assert figure_pages.numbers_of(text) == numbers


def test_a_goal_is_met_only_if_each_figure_keeps_the_bound():
    easy, hard = (figure_goals.Figure(lambda value=value: [2.0, value], ">= 1.3") for value in (1.4, 1.25))
    assert figure_goals.Goal("", [easy]).verdict() == "met"
    assert figure_goals.Goal("", [easy, hard]).verdict() == "**missed**"
    assert figure_goals.Goal("", [easy, hard], enough=3).verdict() == "met"


def test_expressions(tree):
    assert figure_data.evaluate("a:shares[few, fast].rate * 2 - 1", "b") == 15
    assert figure_data.evaluate("median(results[num_workers=1,batch_size!=64].ratio / results[num_workers=2,batch_size!=64].ratio)",
                                "a") == pytest.approx((0.84 / 0.683 + 0.945 / 0.886) / 2)
    assert figure_data.evaluate("count(results[batch_size=64|128].ratio)", "a") == 4
    assert figure_data.get("a", "results[-1].num_workers") == 2
    with pytest.raises(figure_data.FigureError, match="no number"):
        figure_data.evaluate("results[].ratio", "a")


def test_tables_have_as_many_cells_as_names():
    assert figure_views.table(["a", ""], [[1, None]]) == ["|a||", "|---|---|", "|1||"]
    with pytest.raises(ValueError, match="3 cells below 2 names"):
        figure_views.table(["a", "b"], [[1, 2, 3]])
