"""Items in pages of tables: plans count an item's share of its page, and caches count the bytes that they keep for an item."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import penstock as ps
from penstock.caching.cache import _stored_nbytes
from penstock.data.items import kept_nbytes, share_nbytes
from penstock.planning import layout
from penstock.stalls.measure.survey import Look

GOLDEN = Path(__file__).resolve().parents[2] / "tests" / "golden" / "containers" / "parquet"


@pytest.fixture
def ds(tmp_path):
    """A table whose pages each hold several images."""
    return ps.Dataset(shutil.copy(GOLDEN / "polars_zstd.parquet", tmp_path))


def test_the_shares_of_all_items_are_the_pages(ds):
    items = [ds.item(i, "image") for i in range(len(ds))]
    pages = {(item["offset"], item["nbytes"]) for item in items}
    assert all(item["page_nbytes"] > item["decoded_nbytes"] for item in items)
    stored = sum(nbytes for _, nbytes in pages)
    shares = sum(map(share_nbytes, items))
    assert 0.5 * stored < shares <= stored + len(items)  # a page also holds lengths
    assert sum(item["nbytes"] for item in items) > 3 * stored
    found = Look(ds, "image", range(len(ds)))
    assert found.mean_nbytes(None) == shares / len(ds)
    assert layout._part(ds, "image") == (ds, shares)


def test_caches_keep_what_is_read(ds):
    names = [field.name for field in ds.fields.values() if field.type not in ("int", "float")]
    read = [sum(len(ds.read(i, name)) for name in names) for i in range(len(ds))]
    stored, _ = _stored_nbytes(ds)
    assert stored.tolist() == read
    assert kept_nbytes(ds.item(0, "image")) == len(ds.read(0, "image"))


def test_items_in_no_page_are_as_they_are_stored(tmp_path):
    plain = ps.Dataset(shutil.copy(GOLDEN / "pyarrow_plain.parquet", tmp_path))
    item = plain.item(0, "image")
    assert share_nbytes(item) == kept_nbytes(item) == item["nbytes"] == len(plain.read(0, "image"))


def test_stats_count_pages(ds):
    given = {"batch_size": 2, "shuffle": True, "output": "numpy", "num_workers": 2, "cache": None, "fields": ["image"],
             "drop_last": False}
    with ps.Loader(ds, **given) as loader:
        for _ in range(2):
            assert sum(len(batch["index"]) for batch in loader) == len(ds)
        storage = loader.stats()["storage"]
    assert storage["pages_decoded"] + storage["page_hits"] == 2 * len(ds)
    assert storage["page_hits"] >= len(ds) and 0 < storage["pages_nbytes"]
