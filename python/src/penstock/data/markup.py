"""Makes HTML for notebooks: escaped texts, tables, colours, and a style for light and dark pages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

ROWS = 60  # rows of a table that are shown
_TEXT = 60  # characters of a value that are shown
# Ten colours for labels and boxes, also in `penstock view`. They differ strongly, and most of all from their neighbours in the
# list.
COLORS = (
    (255, 86, 64), (64, 156, 255), (92, 214, 92), (255, 196, 0), (196, 92, 255),
    (0, 214, 214), (255, 128, 192), (168, 224, 0), (255, 144, 32), (128, 128, 255),
)  # fmt: skip

# Text inherits its colour from the page, and lines are half transparent, so both suit any theme. Colours with a meaning exist in a
# light and a dark set. The theme of JupyterLab, VS Code or Colab chooses the set; on other pages the browser's setting does.
_LIGHT = "--good:#1f7a4d;--bad:#b3261e;--c1:#1f7a4d;--c2:#8250b8;--c3:#c4590c;--c4:#1666b5;--c5:#7a8593"
_DARK = "--good:#53c78f;--bad:#ff8a80;--c1:#53c78f;--c2:#b794e6;--c3:#f09a5b;--c4:#6cb2f2;--c5:#8b98a7"
_LIGHT_THEMES = ('[data-jp-theme-light="true"]', ".vscode-light", 'html[theme="light"]')
_DARK_THEMES = ('[data-jp-theme-light="false"]', ".vscode-dark", ".vscode-high-contrast:not(.vscode-high-contrast-light)",
                'html[theme="dark"]')  # fmt: skip


def themes(selector: str, light: str, dark: str) -> str:
    """Returns CSS rules that give an element the light or the dark style, as the theme of the page is."""
    chosen = [(_LIGHT_THEMES, light), (_DARK_THEMES, dark)]
    rules = "".join(f"{','.join(f'{theme} {selector}' for theme in names)}{{{style}}}" for names, style in chosen)
    return f"{selector}{{{light}}}@media (prefers-color-scheme:dark){{{selector}{{{dark}}}}}{rules}"


_STYLE = themes(".pst-see", _LIGHT, _DARK) + (
    ".pst-see{font:14px/1.45 system-ui,'DejaVu Sans',sans-serif;max-width:900px;color:inherit}"
    ".pst-see h3{font-size:17px;margin:0 0 8px;font-weight:600}"
    ".pst-see .facts{display:flex;flex-wrap:wrap;gap:8px;margin:8px 0}"
    ".pst-see .facts div{flex:1 1 105px;background:rgba(128,128,128,.13);border-radius:5px;padding:5px 9px}"
    ".pst-see .facts b{display:block;font-size:16px;overflow-wrap:anywhere}.pst-see .facts span{font-size:13px;opacity:.8}"
    ".pst-see .bar{display:flex;height:18px;border-radius:3px;overflow:hidden;background:rgba(128,128,128,.25)}"
    ".pst-see .bar i{display:block}.pst-see .name{margin:8px 0 2px;font-weight:600}"
    ".pst-see .legend{display:flex;flex-wrap:wrap;gap:2px 14px;font-size:13px;margin:3px 0}"
    ".pst-see .key{display:inline-block;width:11px;height:11px;border-radius:2px;margin-right:5px}"
    ".pst-see ul.wrong{list-style:none;margin:8px 0;padding:0}"
    ".pst-see ul.wrong li{border-left:4px solid var(--bad);padding:2px 9px;margin:4px 0;overflow-wrap:anywhere}"
    ".pst-see p.fine{border-left:4px solid var(--good);padding:2px 9px;margin:8px 0}"
    ".pst-see details{margin:4px 0}.pst-see summary{cursor:pointer}"
    ".pst-see table{border-collapse:collapse;font-size:13px;margin:4px 0;color:inherit;max-width:100%}"
    ".pst-see td,.pst-see th{text-align:left;padding:2px 10px 2px 0;border-bottom:1px solid rgba(128,128,128,.3);"
    "overflow-wrap:anywhere;background:none}.pst-see caption{text-align:left;font-weight:600;padding:2px 0}"
    ".pst-see figcaption{font-size:13px;max-width:192px;overflow-wrap:anywhere}"
    ".pst-see code{font-size:13px;background:none;color:inherit;overflow-wrap:anywhere}"
)  # fmt: skip


def escape(text: str, quote: bool = True) -> str:
    """Calls html.escape. html is imported only here, because its table of 2,231 character names makes the import slow."""
    from html import escape as escaped

    return escaped(text, quote)


def framed(inner: str) -> str:
    """Wraps HTML in one element, together with the style that it needs."""
    return f'<div class="pst-see"><style>{escape(_STYLE, quote=False)}</style>{inner}</div>'


def plain(text: str, most: int = _TEXT) -> str:
    """Cuts a text of the data to a length and replaces characters that cannot be printed, because they could change the text around
    them."""
    shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text[: most + 1])
    return shown if len(shown) <= most else shown[: most - 1] + "\N{HORIZONTAL ELLIPSIS}"


def as_array(value: Any) -> Any:
    """Converts an array, a tensor or a DLPack object in host memory to a numpy array. Returns None if that is not possible."""
    import numpy as np

    try:
        if hasattr(value, "detach"):
            value = value.detach()
            value = value.float() if "bfloat16" in str(value.dtype) else value
        array = np.asarray(value)
    except (TypeError, ValueError, RuntimeError, BufferError):
        return None
    return array if array.dtype.kind in "biuf" else None


def color(i: int) -> str:
    """Returns colour number i as CSS."""
    return "rgb({},{},{})".format(*COLORS[i % len(COLORS)])


def facts(pairs: Iterable[tuple[str, str]]) -> str:
    """Returns HTML with a row of boxes, each with a name and a value."""
    boxes = "".join(f"<div><span>{escape(name)}</span><b>{escape(text)}</b></div>" for name, text in pairs)
    return f'<div class="facts">{boxes}</div>'


def details(title: str, inner: str) -> str:
    """Returns HTML that is hidden until the user opens it."""
    return f"<details><summary>{escape(title)}</summary>{inner}</details>"


def bar(name: str, parts: Iterable[tuple[str, float, int]]) -> str:
    """Returns HTML of a bar that shows the parts of a whole, with a legend. parts: (name, amount, number of a colour). "" if the
    total is 0."""
    given = [part for part in parts if part[1] > 0]
    total = sum(value for _, value, _ in given)
    if total <= 0:
        return ""
    shown = [(text, value / total, color) for text, value, color in given if value / total >= 0.005]
    bars = "".join(f'<i style="flex:{share:.4f} 0 0;background:var(--c{color})"></i>' for _, share, color in shown)
    legend = "".join(
        f'<span><i class="key" style="background:var(--c{color})"></i>{escape(text)} {100 * share:.0f} %</span>'
        for text, share, color in shown
    )
    return f'<div class="name">{escape(name)}</div><div class="bar">{bars}</div><div class="legend">{legend}</div>'


def table(caption: str, head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Returns an HTML table. The texts are escaped here. Rows beyond the first ROWS are only counted."""
    cells = "".join(f"<th>{escape(text)}</th>" for text in head)
    given = [list(row) for row in rows]
    more = [[f"and {len(given) - ROWS:,} more"]] if len(given) > ROWS else []
    body = "".join("<tr>" + "".join(f"<td>{escape(text)}</td>" for text in row) + "</tr>" for row in given[:ROWS] + more)
    top = f"<tr>{cells}</tr>" if cells else ""
    return f"<table><caption>{escape(caption)}</caption>{top}{body}</table>"
