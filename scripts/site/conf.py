"""Sphinx's configuration of the site. scripts/build_site.py stages the pages and starts Sphinx."""

from __future__ import annotations

import os
import re
from typing import Any

project = "Penstock"
author = "Penstock's authors"
copyright = "Penstock's authors, Apache-2.0"  # Sphinx's name
release = version = os.environ["PENSTOCK_SITE_VERSION"]

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
root_doc = "index"
exclude_patterns = ["files"]  # files that pages include from source/

# MyST: headings get the anchors that GitHub gives them, because pages link to these.
myst_heading_anchors = 6
myst_enable_extensions: list[str] = []
suppress_warnings = ["misc.highlighting_failure"]  # fragments of code that contain "..."

autodoc_member_order = "bysource"
autodoc_inherit_docstrings = False
autodoc_typehints = "none"
autodoc_mock_imports = ["ray", "pyspark"]  # penstock.ray and penstock.spark also have pages if Ray and Spark are not installed
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False
python_maximum_signature_line_length = 88
c_maximum_signature_line_length = 88
add_module_names = False
add_function_parentheses = False
toc_object_entries_show_parents = "hide"
smartquotes = False  # quotation marks belong to code and must not be changed

html_theme = "furo"
html_title = f"Penstock {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False
html_last_updated_fmt = None  # the same sources must give the same pages
html_theme_options = {"sidebar_hide_name": False}

# Docstrings use short names, as Python code does (Writer, transforms.MixUp); the pages have these names below penstock.
PREFIXES = ("penstock.", "penstock.transforms.", "penstock.errors.", "penstock.pli.", "penstock.metrics.", "penstock.report.")


def resolve(app: Any, env: Any, node: Any, contnode: Any) -> Any:
    """Finds the object that a role in a docstring names. A name that is not found is a warning, which ends the build."""
    if node.get("refdomain") != "py":
        return None
    domain, target = env.get_domain("py"), node["reftarget"]
    owner = node.get("py:class") or ""
    names = [target, f"{owner}.{target}", *(prefix + name for prefix in PREFIXES for name in (target, f"{owner}.{target}"))]
    for name in names:
        if name in domain.objects:
            found = domain.objects[name]
            from sphinx.util.nodes import make_refnode

            return make_refnode(app.builder, node["refdoc"], found.docname, found.node_id, contnode)
    return None


PARAMETERS = re.compile(r"[a-z_]\w*(?:, [a-z_]\w*)*: ")


def paragraphs(lines: list[str]) -> list[list[str]]:
    """Splits a docstring at its blank lines."""
    found: list[list[str]] = [[]]
    for line in lines:
        if line.strip():
            found[-1].append(line)
        elif found[-1]:
            found.append([])
    return [paragraph for paragraph in found if paragraph]


def prepare(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Converts a docstring, which is written for help(), to reStructuredText: indented paragraphs become code, and lines "name:
    text" become arguments.
    """
    before, out = "", []
    for paragraph in paragraphs(lines):
        is_code = all(line.startswith("    ") for line in paragraph) and before and not before.startswith(" ")
        if is_code and not before.endswith("::") and not before.rstrip().endswith("Args:"):
            out += ["::", ""]
        named = [line for line in paragraph if not line.startswith(" ")]
        if named and named[0] == paragraph[0] and all(PARAMETERS.match(line) for line in named):
            paragraph = ["Args:", *("    " + line for line in paragraph)]
        out += [*paragraph, ""]
        before = paragraph[-1]
    lines[:] = out


def setup(app: Any) -> None:
    app.connect("missing-reference", resolve)
    app.connect("autodoc-process-docstring", prepare, priority=100)  # before napoleon


nitpicky = True
nitpick_ignore_regex = [(r"c:.*", r".*"), (r"py:class", r"(?!penstock).*")]
