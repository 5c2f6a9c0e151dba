"""The parts of bench/stalls that measure nothing: rates and their sources, and stalls of cases computed by hand."""

import pytest

from bench_modules import load

model, sets, cell, tables = (load("stalls", name) for name in ("model", "sets", "cell", "tables"))
rates = tables.rates


def test_nine_models_and_each_has_a_rate():
    assert len(rates.MODELS) == 9
    assert {rate.model for rate in rates.RATES} == set(rates.MODELS)
    assert len({(rate.model, rate.accelerator, rate.samples_per_second) for rate in rates.RATES}) == len(rates.RATES)


def test_a_rate_has_a_source_or_says_that_it_is_a_sweep():
    for rate in rates.RATES:
        assert rate.samples_per_second > 0
        assert (rate.accelerator == "no source") == (not rate.source)
        assert ("sweep" in rate.title) == (not rate.source)
        if rate.source:
            assert any(place in rate.source for place in ("README.md", "MLPerf", ".csv", "#")), rate


def test_mlperf_rate_is_the_one_that_the_package_ships():
    ps = pytest.importorskip("penstock")
    shipped = ps.accelerators.by_name("mlperf:resnet50:h100").samples_per_second
    assert [rate.samples_per_second for rate in rates.RATES if rate.accelerator == "H100"] == [pytest.approx(shipped)]


def test_paper_sets_are_sets():
    for about in rates.MODELS.values():
        assert about.paper_set in about.sets
        assert set(about.sets) <= set(sets.ITEM_NBYTES)
    assert all(claim.text and claim.machine for claim in rates.PAPER)


def test_split_by_hand():
    # A step takes 2 ms, with preparation 5 ms, with fetching too 8 ms: a quarter is computation, three eighths wait for either.
    found = model.split(0.002, 0.005, 0.008)
    assert found.samples_per_second == pytest.approx(125)
    assert (found.compute, found.prepare, found.fetch) == pytest.approx((0.25, 0.375, 0.375))
    # Measurement noise: if runs with storage are faster than without it, the stall is 0, not negative.
    found = model.split(0.002, 0.0019, 0.0018)
    assert (found.compute, found.prepare, found.fetch) == pytest.approx((1, 0, 0))


@pytest.mark.parametrize(("x", "hits"), [(0.25, 0.069), (0.35, 0.138), (0.5, 0.281), (0.65, 0.464), (0.8, 0.677)])
def test_page_cache_hits_are_those_of_the_model(x, hits):
    assert model.page_hits(x) == pytest.approx(hits, abs=0.001)
    misses = model.page_misses(x)
    assert sum(misses) / len(misses) == pytest.approx(1 - hits, abs=0.001)
    assert misses == sorted(misses)  # hits come early in an epoch


def test_all_in_memory_misses_nothing():
    costs = model.Costs(0.001, 100e3, 100e3)
    assert model.page_hits(1.0) == 1
    assert set(model.page_misses(1.0)) == {0.0}
    assert model.cache_misses(1.0, costs, 100e3) == [0.0]


def test_a_smaller_form_fits_more_of_it_into_the_same_bytes():
    # 35 % of files of 100 kB are 38.9 % of items of 90 kB.
    assert model.cache_misses(0.35, model.Costs(0.001, 90e3, 90e3), 100e3) == [pytest.approx(1 - 0.35 / 0.9)]


def test_predictions_by_hand():
    """Far from balance, the slowest resource sets the rate."""
    costs = model.Costs(cpu_seconds=0.001, nbytes=100e3, item_nbytes=100e3)
    # Two cores prepare 2,000 samples/s, a step could take 10,000/s: it computes a fifth of the time.
    found = model.predict(costs, model.Place(2, 0), 10_000, [1.0], 16)
    assert found.samples_per_second == pytest.approx(2000, rel=0.02)
    assert (found.compute, found.prepare, found.fetch) == pytest.approx((0.2, 0.8, 0), abs=0.02)
    # Half of the samples are read, at 20 MB/s: 400/s. Preparation is a fifth of the time, less what the step takes anyway.
    found = model.predict(costs, model.Place(2, 20e6), 10_000, [0.5], 16)
    assert found.samples_per_second == pytest.approx(400, rel=0.02)
    assert (found.compute, found.prepare, found.fetch) == pytest.approx((0.04, 0.16, 0.8), abs=0.02)
    # Hits come in the first half of an epoch and misses in the second, so the times of both halves are added.
    found = model.predict(costs, model.Place(2, 20e6), 10_000, [0.0, 1.0], 16)
    assert 1 / found.samples_per_second == pytest.approx((1 / 2000 + 1 / 200) / 2, rel=0.02)
    # An accelerator that takes 100/s stalls for neither.
    found = model.predict(costs, model.Place(2, 200e6), 100, [0.5], 16)
    assert found.compute == pytest.approx(1, abs=0.01)


def test_cores_to_hide():
    assert model.cores_to_hide(model.Costs(0.002, 1, 1), 1500) == pytest.approx(3)


def test_simulated_page_cache_hits_as_the_formula_says():
    n, x = 2000, 0.5
    drawn = cell.Drawn(n, cell.PageCache([100] * n, int(100 * n * x)))
    source, hits = iter(drawn), 0
    for _ in range(3 * n):
        hits += next(source)[1]
    assert hits / (3 * n) == pytest.approx(model.page_hits(x), abs=0.02)


def test_simulated_page_cache_keeps_within_its_room():
    sizes = [10 * (i % 7 + 1) for i in range(50)]
    cache = cell.PageCache(sizes, 200)
    for i in [*range(50), *range(49, -1, -1)]:
        cache.ask(i)
        assert cache.used == sum(sizes[k] for k in cache.held) <= 200
        assert all(cache.held[place] == k for k, place in cache.place.items())
    assert not cell.PageCache(sizes, 0).ask(0)


def test_window_of_sizes():
    assert sets.window_of([1, 2, 3, 4, 5, 6], 3.5, 2) == 2
    assert sets.window_of([1, 2, 3, 4, 5, 6], 100, 2) == 4
    assert sets.window_of([5, 7], 1, 2) == 0


def cell_of(rate, name, storage, cached, cores, times):
    split = {"fetch": 0.5, "prepare": 0.25, "compute": 0.25}
    return {"model": rate.model, "accelerator": rate.accelerator, "rate": rate.samples_per_second, "sweep": not rate.source,
            "set": name, "storage": storage, "cached": cached, "cores": cores, "before": split, "with": {"form": "files", **split},
            "cache_alone": 1.25, "times": times}


def whole_grid():
    """Makes a cell for each model, rate, data set, storage, cached part and number of cores; the gain tells cells apart."""
    every = [(rate, name, storage, cached, cores) for rate in rates.RATES for name in rates.MODELS[rate.model].sets
             for storage in tables.STORAGE for cached in (0.25, 0.35, 0.65, 1.0) for cores in (1, 2, 3)]
    return [cell_of(*one, times=2 + i / 1000) for i, one in enumerate(every)]


@pytest.mark.parametrize("storage", ["SSD", "HDD"])
def test_main_table_has_each_model_once_at_its_first_rate(storage):
    cells = tables.main_cells(whole_grid(), storage)
    assert [one["model"] for one in cells] == list(rates.MODELS)
    assert {one["storage"] for one in cells} == {storage}
    assert {one["cores"] for one in cells} == {3}
    for one in cells:
        assert one["rate"] == rates.rates_of(one["model"])[0].samples_per_second
        assert one["cached"] == tables.PAPER_CACHED[one["set"]]
        assert one["set"] == rates.MODELS[one["model"]].paper_set


def test_tables_say_where_the_gain_on_sound_comes_from():
    text = "\n".join(tables.main_table(whole_grid(), "SSD"))
    [m5] = [one for one in tables.main_cells(whole_grid(), "SSD") if one["model"] == "M5"]
    assert f"M5's {m5['times']:.2f} x comes from reading the part of each clip" in text
    assert text.count("| M5 |") == 1


def test_figures_beside_the_paper_cover_all_of_its_claims():
    found = tables.ours(whole_grid(), lambda name, rate: {"before": 4.0, "files": 2.0, "pli-jpeg": 1.0}, [])
    assert set(found) == {claim.name for claim in rates.PAPER}
    assert found["fetch"] == "50 % to 50 % before, 50 % to 50 % with"
    assert found["cores-resnet50"] == "ResNet-50: 4.0 before, 1.0 with Penstock"
