"""How many bytes count for one item. A page of a table holds many items, and each counts for its share of the page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def share_nbytes(item: Mapping[str, Any]) -> int:
    """Returns the stored bytes of an item. If a page with many items is compressed as a whole, this is the item's share of the
    compressed page, by lengths. The shares of all items add up to the page.

    item: what :meth:`Dataset.item` says.
    """
    nbytes, page = int(item["nbytes"]), int(item["page_nbytes"])
    return nbytes if page == 0 else -(-nbytes * int(item["decoded_nbytes"]) // page)


def kept_nbytes(item: Mapping[str, Any]) -> int:
    """Returns the bytes that a cache keeps of an item: the stored ones; of an item in a page, its own decoded ones."""
    return int(item["decoded_nbytes"] if item["page_nbytes"] else item["nbytes"])
