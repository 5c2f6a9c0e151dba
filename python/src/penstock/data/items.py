"""Bytes that one item stands for: of a page of a table, which holds many items, its share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def share_nbytes(item: Mapping[str, Any]) -> int:
    """Returns the stored bytes of an item. Of a page that is compressed with many items it is this item's part, by lengths; the
    parts of all items are the page.

    item: what :meth:`Dataset.item` says.
    """
    nbytes, page = int(item["nbytes"]), int(item["page_nbytes"])
    return nbytes if page == 0 else -(-nbytes * int(item["decoded_nbytes"]) // page)


def kept_nbytes(item: Mapping[str, Any]) -> int:
    """Returns the bytes that a cache keeps of an item: as it is stored; of one in a page its own, decoded."""
    return int(item["decoded_nbytes"] if item["page_nbytes"] else item["nbytes"])
