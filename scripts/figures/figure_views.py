"""Functions that all views share. A view makes a table in Markdown from one or several files of bench/results.

`<!-- table: VIEW FILE... OPTION=VALUE... -->` in a page calls the view of that name with the contents of the files and with the
options.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

VIEWS: dict[str, Callable[..., list[str]]] = {}
Rows = Iterable[Iterable[Any]]


def view(function: Callable[..., list[str]]) -> Callable[..., list[str]]:
    VIEWS[function.__name__] = function
    return function


def table(head: Iterable[str], rows: Rows) -> list[str]:
    """Returns the lines of a table. A cell that is None is empty."""
    names = list(head)
    lines = ["|" + "|".join(names) + "|", "|" + "---|" * len(names)]
    for row in rows:
        cells = ["" if cell is None else str(cell) for cell in row]
        if len(cells) != len(names):
            raise ValueError(f"{len(cells)} cells below {len(names)} names: {cells}")
        lines.append("|" + "|".join(cells) + "|")
    return lines


def whole(value: float) -> str:
    return f"{value:.0f}"


def times(value: float, digits: int = 1) -> str:
    return f"{value:.{digits}f} x"


def percent(value: float, digits: int = 0) -> str:
    return f"{100 * value:.{digits}f} %"


def signed(value: float) -> str:
    """Returns a difference in percent with its sign."""
    return f"{100 * value:+.1f} %"


def where(rows: Iterable[dict[str, Any]], **wanted: Any) -> list[dict[str, Any]]:
    return [row for row in rows if all(row.get(name) == value for name, value in wanted.items())]


def only(rows: Iterable[dict[str, Any]], **wanted: Any) -> dict[str, Any]:
    """Returns the only row that has these values."""
    found = where(rows, **wanted)
    if len(found) != 1:
        raise ValueError(f"{len(found)} rows have {wanted}")
    return found[0]
