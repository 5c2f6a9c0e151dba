"""Loaders whose arguments come from several dicts: flat names, such as "cache_form", become the objects that Loader takes."""

from typing import Any

import penstock as ps
from penstock import _arguments


def keywords(**flat: Any) -> dict[str, Any]:
    """Returns keywords of Loader. Names are those of _arguments.TABLE; parameters that are no rows stay."""
    flat = _arguments.renamed(flat)
    found = {name: value for name, value in flat.items() if name not in _arguments.ROWS or not _arguments.ROWS[name].of}
    members: dict[str, dict[str, Any]] = {}
    for row in _arguments.TABLE:
        if row.of and row.name in flat:
            members.setdefault(row.of, {})[row.member or row.name] = flat[row.name]
    for name, given in members.items():
        plain = _arguments.PLAIN.get(name)
        if plain:
            given[plain] = found.get(name, _arguments.ROWS[name].default)
        if name == "order" and found.get("order") != "pages":
            continue
        if name == "ragged" and found.get("ragged") != "padded":  # in vain, which old names alone can say
            rows = (row for row in _arguments.TABLE if row.of == name and row.name in flat)
            found.update({row.old: flat[row.name] for row in rows if flat[row.name] != row.default})
            continue
        found[name] = getattr(ps, _arguments.GROUPS[name].__name__)(**given)
    return found
