"""The conclusions of a report: all of them agree, checked on made-up reports of every kind; and the warning if a report cannot be
trusted.
"""

from __future__ import annotations

import random
import re
from typing import Any

import pytest

from penstock.report import Report
from penstock.stalls import conclusion, html, model
from penstock.stalls import text as words
from penstock.stalls.measure import finish
from test_whatif import data as made_data


def phase(rate: float, batch: int, wait: float, other_cores: float = 0.0) -> dict[str, Any]:
    """Returns a phase of `rate` samples/s in which that share of the time is spent waiting for batches."""
    seconds = batch / rate
    return {
        "samples_per_second": rate, "low": 0.99 * rate, "high": 1.01 * rate, "batches": 50, "warm_up_batches": 2, "seconds": 5.0,
        "batch_sd_seconds": 0.01 * seconds, "cpu_seconds_per_sample": 0.002, "wait_seconds_per_batch": wait * seconds,
        "step_seconds": (1 - wait) * seconds, "step_sd_seconds": 0.0, "step_p99_seconds": (1 - wait) * seconds,
        "other_cores": other_cores,
    }  # fmt: skip


def a_report(seed: int) -> dict[str, Any]:
    """Returns a report with random phases and capacities: fed or not, on a quiet or a busy machine, for one or several
    accelerators.
    """
    draw = random.Random(seed)
    batch = draw.choice((1, 16, 100, 256))
    alone = 10 ** draw.uniform(0.5, 4.5)
    ranks = draw.choice((1, 1, 1, 2, 8))

    def slower(rate: float) -> float:
        return rate / draw.choice((1.0, 1.005, 1.02, draw.uniform(1, 1.2), draw.uniform(1, 5)))

    rates = {"resident": alone, "prepared": slower(alone), "warm": slower(alone)}
    rates["cold"] = slower(rates["warm"])
    if draw.random() < 0.1:
        rates["warm"] *= 1.05  # measurement noise: faster than alone
    phases = {
        name: phase(rate, batch, 0.0 if name == "resident" else draw.choice((0.0, draw.random(), max(0.0, 1 - rate / alone))),
                    draw.choice((0.0, draw.uniform(0, 3))))
        for name, rate in rates.items()
        if name != "cold" or draw.random() < 0.7
    }  # fmt: skip
    made = made_data(phases=phases, check={}, stall={})
    made["subject"].update(batch_size=batch, ranks=ranks, nbytes=draw.choice((10**8, 10**9, 10**10)), workers=draw.choice((1, 4)))
    made["machine"].update(
        page_cache_nbytes=draw.choice((0, 5e8, 4e9)), other_cores=draw.choice((0.0, 1.2)), cores=draw.choice((1, 4, 64))
    )
    if draw.random() < 0.3:
        made["machine"]["link_nbytes_per_second"] = draw.choice((1e6, 1e9))
    made["accelerator"].update(
        step_seconds=batch / alone, title=draw.choice(("accelerator", "H100", f"{alone:g}/s")), limit=draw.choice((None, 0.9, 0.7)),
    )  # fmt: skip
    for places in made["forms"].values():
        places["cpu"]["cpu_seconds"] = 10 ** draw.uniform(-5, -1)
    return finish.finished(made).data


def check_of_one(data: dict[str, Any], has_page: bool) -> str:
    """Checks the title and the bars of a report and of its page. Returns the limit that its title names."""
    found = conclusion.of(data)
    assert found is not None
    rows = dict(words.bars(data))
    parts = rows[found.place if found.measured else "predicted"]
    assert sum(parts.values()) == pytest.approx(1) and min(parts.values()) >= -1e-9
    waits = {name: parts[name] for name in conclusion.WAITS}
    title = words.title(data)
    is_fed = sum(waits.values()) < conclusion.FED
    assert (" fed:" in title) == is_fed
    if is_fed:
        assert found.limit == "accelerator" and "most of all" not in title
    else:
        assert waits[found.limit] == max(waits.values())
        assert f"most of all for {words._waiting_for(found)}" in title
    if found.measured:
        assert dict(words.bars(data))[found.place] == data["stall"][found.place]
        shown = float(re.search(r"data in ([\d.]+) %", title)[1])  # type: ignore[index]
        assert shown == pytest.approx(100 * sum(waits.values()), abs=0.51)
    page = Report(data).to_html() if has_page else ""
    assert ("Nothing to do" in page) <= is_fed
    for text in (Report(data).report(), page):
        assert not re.search(r"\d+(\.\d+)?e[+-]\d", text), text
    return found.limit


def test_title_and_bars_agree() -> None:
    """In 400 random reports the title names the largest part of the waiting in the bars, and only a loader that is waited for less
    than 2 % of the time counts as fed.
    """
    limits = [check_of_one(a_report(seed), seed % 5 == 0) for seed in range(400)]
    assert {"accelerator", "upload", "prepare", "fetch"} == set(limits)


def test_another_limit_by_the_model_is_a_sentence() -> None:
    """If the model and the measurements name different limits, a sentence gives both numbers; if they agree, there is no such
    sentence.
    """
    seen = set()
    for seed in range(400):
        data = a_report(seed)
        found, sentence = conclusion.of(data), conclusion.conflict(data)
        assert found is not None
        if not found.measured:
            assert sentence == ""
            continue
        check = data["check"][found.place]
        expected = "accelerator" if check["predicted"] >= 0.98 * found.most / found.n else conclusion._CAUSES[check["limit"]]
        assert (sentence != "") == (expected != found.limit)
        seen.add(sentence != "")
        if sentence:
            assert conclusion.LIMITS[expected] in sentence and conclusion.LIMITS[found.limit] in sentence
            assert words.amount(check["predicted"]) in sentence and words.amount(check["measured"]) in sentence
            assert f"{sentence}." in Report(data).report()
    assert seen == {True, False}


def slowed() -> dict[str, Any]:
    """The step takes 1.06 s beside the workers, 0.78 s alone, and waits 7 ms: workers and step compete for two cores."""
    phases = {"resident": phase(32 / 0.78, 32, 0.0), "prepared": phase(32 / 0.79, 32, 0.001), "warm": phase(30.1, 32, 0.007)}
    made = made_data(phases=phases, check={}, stall={})
    made["subject"].update(batch_size=32, ranks=1)
    made["accelerator"].update(step_seconds=0.78, title="accelerator", limit=None)
    made["machine"]["other_cores"] = 0.05
    return finish.finished(made).data


def test_a_slower_step_is_no_waiting() -> None:
    data = slowed()
    parts = data["stall"]["warm"]
    assert (
        parts["prepare"] < 0.01
        and parts["upload"] < 0.01
        and parts["slowed"] == pytest.approx(1 - 0.78 * 30.1 / 32 - 0.007, abs=0.01)
    )
    assert words.title(data).startswith("The accelerator is fed: it waits for data in 0.")
    assert "beside the loader's workers and 780 ms alone" in Report(data).summary()
    assert not data["check"]["trusted"] and "hardly any CPU time" in data["check"]["reason"]


def test_a_longer_step_of_a_rank_is_waiting_for_data() -> None:
    """With several ranks a step takes longer if it waits for another rank's gradients, which are late because that rank lacks
    data.
    """
    phases = {"resident": phase(100, 10, 0.0), "prepared": phase(100, 10, 0.0), "warm": phase(50, 10, 0.0)}
    both = finish.stalls(phases, uploads=False, shares_cores=False)
    assert both["warm"]["prepare"] == pytest.approx(0.5) and both["warm"]["slowed"] == 0


def test_a_report_that_cannot_be_trusted_says_so_first() -> None:
    made = made_data(check={}, stall={})
    made["subject"]["ranks"] = 1
    one = made["accelerator"]
    alone = 100 / one["step_seconds"]
    made["phases"] = {name: phase(alone * part, 100, 0.0) for name, part in (("resident", 1), ("prepared", 1), ("warm", 0.5))}
    made["machine"]["other_cores"] = 0.8
    report = finish.finished(made)
    check = report.data["check"]
    assert check["trusted"] is False and check["other_cores"] == 0.8 and list(report.data)[:3] == ["kind", "version", "check"]
    reason = "From memory the model expects 1,000 samples/s, and 500 were measured (+100 %). Other programs used 0.8 of 4 CPU cores"
    assert check["reason"].startswith(reason)
    first = f"DISTURBED, do not rely on this report. {reason}"
    assert report.report().startswith(first) and report.summary().startswith(first)
    page = report.to_html()
    assert page.index('class="banner"') < page.index("<h1>") and page.count("DISTURBED") == 1
    assert [sentence for sentence, _ in html.advice(report.data)] == [
        "Measure again on a quiet machine: what follows from these measurements is not to be relied on."
    ]
    assert report.with_machine({"cores": 64}).summary().startswith(first)  # the measured values are as unreliable there
    made["phases"]["warm"] = phase(0.95 * alone, 100, 0.05)
    report = finish.finished(made)
    assert report.data["check"]["trusted"] is True and report.data["check"]["reason"] == ""
    assert "DISTURBED" not in report.report() + report.to_html() and 'class="banner"' not in report.to_html()


def test_another_machine_is_predicted() -> None:
    data = finish.finished(a_report(0)).data
    data["subject"]["ranks"] = 1
    there = Report(data).with_machine({"cores": 2})
    assert "(predicted)" in words.title(there.data) and "predicted" in dict(words.bars(there.data))
    assert dict(words.bars(data)) == data["stall"]


@pytest.mark.parametrize("resource", model.RESOURCES)
def test_each_resource_has_words_and_is_the_cause_of_a_wait(resource: str) -> None:
    assert words.limit_words(resource) != resource
    assert conclusion.cause_of(resource) in conclusion.LIMITS
