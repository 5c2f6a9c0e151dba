"""Counts the bytes of items. A page of a table holds many items, and each item counts for its share of the page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def share_nbytes(item: Mapping[str, Any]) -> int:
    """Returns the stored bytes of an item. If a page of many items is compressed as a whole, returns the item's share of the
    compressed bytes, in proportion to its length. The shares of all items add up to the page.

    item: a result of :meth:`Dataset.item`.
    """
    nbytes, page = int(item["nbytes"]), int(item["page_nbytes"])
    return nbytes if page == 0 else -(-nbytes * int(item["decoded_nbytes"]) // page)


def kept_nbytes(item: Mapping[str, Any]) -> int:
    """Returns the bytes that a cache keeps of an item: the stored bytes, or the decoded bytes of an item in a page."""
    return int(item["decoded_nbytes"] if item["page_nbytes"] else item["nbytes"])
