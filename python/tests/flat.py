"""Makes loaders from several dicts of arguments with flat names, such as "cache_form". It converts them to the objects that Loader
takes.
"""

from typing import Any

import penstock as ps
from penstock.loading import table


def keywords(**flat: Any) -> dict[str, Any]:
    """Returns keyword arguments for Loader. The flat names are those of table.TABLE; parameters that are not in the table stay
    unchanged.
    """
    flat = table.renamed(flat)
    found = {name: value for name, value in flat.items() if name not in table.ROWS or not table.ROWS[name].of}
    members: dict[str, dict[str, Any]] = {}
    for row in table.TABLE:
        if row.of and row.name in flat:
            members.setdefault(row.of, {})[row.member or row.name] = flat[row.name]
    for name, given in members.items():
        plain = table.PLAIN.get(name)
        if plain:
            given[plain] = found.get(name, table.ROWS[name].default)
        if name == "order" and found.get("order") != "pages":
            continue
        if name == "ragged" and found.get("ragged") != "padded":  # an argument without effect, which only the old names can express
            rows = (row for row in table.TABLE if row.of == name and row.name in flat)
            found.update({row.old: flat[row.name] for row in rows if flat[row.name] != row.default})
            continue
        found[name] = getattr(ps, table.GROUPS[name].__name__)(**given)
    return found
