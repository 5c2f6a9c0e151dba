#!/usr/bin/env python3
"""Builds the documents as a site with a search, into build/site: guide, pages, and the references of commands, Python and C.

    scripts/build_site.py [--out DIR]

The pages are those of the repository. They are copied to build/site-source. Links to other files of the repository become links to
pages of the site. The reference of commands comes from the tables of options of the program beside this Python, the Python
reference from the docstrings of the installed package, the C reference from the comments of the headers. Any warning ends the build
with status 1, such as a broken link, a page that is in no table of contents, or a role in a docstring that names nothing.
"""

from __future__ import annotations

import argparse
import itertools
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import headers
import python_names
import site_arguments
import write_cli_pages as cli
from check_docs import LINK, anchor_of
from check_style import tracked
from check_types import stale

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "python" / "src" / "penstock"
PROGRAM = Path(sys.executable).parent / "penstock"
SITE = Path(__file__).resolve().parent / "site"
FENCE = re.compile(r"(^```.*?^```[^\n]*$)", re.MULTILINE | re.DOTALL)
# The sections of the site: pages by the beginning of their paths. The first beginning that matches counts. docs/guide has its own
# table of contents.
SECTIONS = {
    "Formats": ("docs/format-",),
    "Figures": ("docs/figures", "docs/status"),
    "Inside": ("ARCHITECTURE", "CONTRIBUTING", "CHANGELOG", "SECURITY", "docs/internals/"),
    "Topics": ("docs/",),
}
# The headings of the package's page. Each name of `penstock.__all__` is listed under one heading.
GROUPS = {
    "Loading": ("Loader", "TorchDataset", "to_original", "tiles_of", "CachedImages", "CachedImagesStats"),
    "Arguments of a loader": (
        "Annotations", "CacheUse", "Decoding", "Forms", "Functions", "Gpu", "OnError", "Padded", "Pages", "Reading", "Share",
        "Watch",
    ),  # fmt: skip
    "Data sets": ("Dataset", "Mixture", "Field", "Writer",
                  "IndexReport", "PackReport", "VerifyReport", "index", "pack", "repack", "verify"),
    "Fields of a schema": ("Image", "Mask", "Boxes", "Keypoints", "Audio", "Int", "Float", "Text", "Json", "Bytes", "Array"),
    "Single images": ("ImageInfo", "decode", "probe"),
    "Caches": ("Cache", "CachePlan", "CacheReport", "plan_cache", "Fleet"),
    "Measuring and planning": ("analyze", "whatif", "Plan", "plan", "Tuned", "tune", "metrics_text"),
    "Everything else": ("PenstockError", "IMAGENET_MEAN", "IMAGENET_STD", "show_config"),
}
OF_THE_PACKAGE = ("arguments", "cache", "dataset", "fleet", "images", "loader", "mixture", "torch", "torchft", "writer")


@dataclass
class Stage:
    """The folder that Sphinx reads. It collects the files that links of the staged pages need."""

    folder: Path
    pages: set[str]  # documents of the repository that become pages
    sources: set[str] = field(default_factory=set)  # examples and folders that get pages of their own

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def target(self, where: str, link: str) -> str:
        """Returns the new target of a link in the page `where`. `where` and the result are paths in the repository."""
        if re.match(r"[a-z][a-z0-9+.-]*:|#", link):
            return link
        name, mark, anchor = link.partition("#")
        found = (ROOT / where).parent.joinpath(name).resolve().relative_to(ROOT).as_posix()
        if found in self.pages:
            goal = "index.md" if found == "README.md" else found
        elif found == "docs":
            goal = "docs/README.md"
        elif found == "include/penstock":
            goal = "reference/c/headers.rst"
        elif found.startswith("include/penstock/"):
            goal = f"reference/c/{Path(found).stem}.rst"
        elif (ROOT / found).is_dir() or found.startswith("examples/") or found.endswith(".md"):
            self.sources.add(found)
            goal = f"source/{found}.rst"
        else:
            goal = self.file(found)
        return os.path.relpath(goal, Path(where).parent) + mark + anchor

    def page(self, where: str, tail: str = "") -> None:
        """Stages a document of the repository. Links inside fenced code are not changed."""
        def link(match: re.Match[str]) -> str:
            if match[2]:
                return match[0]
            at = match.start(1) - match.start()
            return match[0][:at] + self.target(where, match[1]) + match[0][at + len(match[1]):]

        parts = FENCE.split((ROOT / where).read_text())
        text = "".join(part if part.startswith("```") else LINK.sub(link, part) for part in parts)
        for image in re.findall(r"!\[[^\]]*\]\(([^)\s]+)\)", text):
            goal = self.folder / Path(where).parent / image
            goal.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy((ROOT / where).parent / image, goal)
        self.write("index.md" if where == "README.md" else where, text + tail)

    def file(self, name: str) -> str:
        """Stages a file that readers download."""
        copy = self.folder / "files" / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, copy)
        return f"files/{name}"

    def source(self, name: str) -> None:
        """Stages a page that shows an example, or that lists a folder."""
        text, up = f":orphan:\n\n{name}\n{'=' * len(name)}\n\n", os.path.relpath(".", Path("source", name).parent)
        if (ROOT / name).is_dir():
            files = sorted(file.name for file in (ROOT / name).iterdir() if not file.name.startswith((".", "__")))
            text += "".join(f"- ``{file}``\n" for file in files)
        else:
            language = {".py": "python", ".c": "c"}.get(Path(name).suffix, "text")
            text += f".. literalinclude:: {up}/{self.file(name)}\n   :language: {language}\n"
        self.write(f"source/{name}.rst", text)


def heading(text: str, mark: str) -> str:
    return f"{text}\n{mark * len(text)}\n\n"


# The Python reference --------------------------------------------------------------------------------

OF_BASES = {"Loader": "LikeDataLoader"}  # shows inherited members below this base class, as bases have no page


def python_object(module: str, name: python_names.Name) -> str:
    """Returns the directive that documents a name. If a module's page also documents the name, the package's page does not put it
    into the index.
    """
    whole = ".".join(filter(None, ("penstock", module, name.name)))
    options = "   :members:\n" if name.kind == "class" else ""
    if name.name in OF_BASES:
        options += f"   :inherited-members: {OF_BASES[name.name]}\n"
    if module == "errors":
        options += "   :show-inheritance:\n"
    if not module and has_page(name):
        options += "   :no-index:\n"
    return f".. auto{name.kind}:: {whole}\n{options}\n"


def is_page(module: str) -> bool:
    """Returns whether a module has a page of its own. Other modules' names are documented on the page of the package."""
    return bool(module) and module not in OF_THE_PACKAGE


@cache
def names_of_pages() -> set[tuple[Path, str]]:
    """Returns the names that are documented on modules' pages, each with the file that defines it."""
    modules = [path for path in python_names.modules(PACKAGE) if is_page(python_names.module_of(path))]
    return {(name.path, name.name) for path in modules for name in python_names.names_of(path)}


def has_page(name: python_names.Name) -> bool:
    return (name.path, name.name) in names_of_pages()


def python_reference(stage: Stage, package: Path) -> list[str]:
    """Stages a page for the package and a page for each public module. Returns the names of the pages."""
    pages = []
    for path in python_names.modules(package):
        names = {name.name: name for name in python_names.names_of(path)}
        module = python_names.module_of(path)
        if not module:
            names.pop("__version__")
            text = heading("penstock", "=") + ".. automodule:: penstock\n   :no-members:\n\n"
            for title, group in GROUPS.items():
                text += heading(title, "-") + "".join(python_object("", names.pop(name)) for name in group)
            if names:
                sys.exit(f"scripts/build_site.py: GROUPS lacks {', '.join(names)}")
            pages.insert(0, "penstock")
        elif names and is_page(module):
            text = heading(f"penstock.{module}", "=") + f".. automodule:: penstock.{module}\n   :no-members:\n\n"
            text += "".join(python_object(module, name) for name in names.values())
            pages.append(module)
        else:
            continue
        stage.write(f"reference/python/{module or pages[0]}.rst", text)
    return pages


# The C reference -------------------------------------------------------------------------------------


@cache
def c_roles() -> dict[str, str]:
    """Returns for each name in the headers the role that links to it. If a function and a struct have the same name, the role is
    the function's.
    """
    roles = {"function": "func", "type": "type", "struct": "struct", "enum": "enum", "macro": "macro"}
    declarations = [one for header in headers.read_all(ROOT) for one in header.declarations]
    return {one.name: roles[one.kind] for one in sorted(declarations, key=lambda one: one.kind == "function")}


def literal(text: str) -> str:
    role = c_roles().get(text)
    return f"\\ :c:{role}:`{text}`\\ " if role else f"\\ ``{text}``\\ "


def escaped(text: str) -> str:
    """Returns the text of a comment as reStructuredText: `x` becomes a literal, names from the headers become links, and special
    characters are escaped.
    """
    parts = re.split(r"(`[^`]+`|\bpst_\w+\b|\bPST_\w+\b)", re.sub(r"\s+", " ", text))
    plain = [re.sub(r"([\\*_|`])", r"\\\1", part) for part in parts[::2]]
    marked = [literal(part.strip("`")) for part in parts[1::2]]
    return "".join(a + b for a, b in zip(plain, [*marked, ""], strict=True)).strip()


def parameter(names: list[str], text: str) -> str:
    """Returns the fields for parameters that a comment describes together. Sphinx allows one name in a field, so each gets its
    own.
    """
    others = f"(and {', '.join(f'``{name}``' for name in names[1:])}) " if names[1:] else ""
    return f":param {names[0]}: {others}{escaped(text)}"


def paragraphs(comment: str, parameters: set[str]) -> str:
    """Returns a comment as reStructuredText. Indented paragraphs become code, lines "name: text" of parameters a list of fields,
    and those of statuses a list.
    """
    out = []
    for block in filter(None, re.split(r"\n\s*\n", comment)):
        lines = block.splitlines()
        if all(line.startswith("    ") for line in lines):
            out.append("::\n\n" + "\n".join(lines))
            continue
        if all(line.startswith(("- ", "  ")) for line in lines):
            out.append("\n".join("- " + escaped(item) for item in re.split(r"(?:^|\n)- ", block) if item.strip()))
            continue
        fields = re.split(r"^(?=(?:\w+, )*\w+: )", block, flags=re.MULTILINE)
        named = [re.match(r"((?:\w+, )*\w+): ", part) for part in fields]
        known = [match is not None and parameters.issuperset(match[1].split(", ")) for match in named]
        if parameters and all(good for good, part in zip(known, fields, strict=True) if part):
            out.append("\n".join(parameter(match[1].split(", "), part[match.end():])
                                 for match, part in zip(named, fields, strict=True) if match))
        elif all(match is not None and match[1].startswith("PST_") for match, part in zip(named, fields, strict=True) if part):
            out.append("\n".join(f"- {escaped(part)}" for part in fields if part))
        else:
            out.append(escaped(block))
    return "\n\n".join(out)


def indented(text: str) -> str:
    return re.sub(r"^(?=.)", "   ", text, flags=re.MULTILINE)


def c_declaration(one: headers.Declaration) -> str:
    signature = one.signature
    parameters = set(re.findall(r"(\w+)(?:\[\w*\])?(?=[,)])", signature.partition("(")[2])) if one.kind == "function" else set()
    body = paragraphs(one.comment, parameters)
    if one.kind in ("struct", "enum"):
        body += f"\n\n.. code-block:: c\n\n{indented(one.text)}"
        if c_roles()[one.name] != one.kind:  # Sphinx allows one object of a name: a function keeps it, the struct loses it
            return f".. rubric:: {one.kind} {one.name}\n\n{body}\n\n"
        head = f".. c:{one.kind}:: {one.name}"
    elif one.kind == "macro":
        head, body = f".. c:macro:: {one.name}", f"{body}\n\n.. code-block:: c\n\n{indented(one.text)}"
    elif one.kind == "type":
        head = f".. c:type:: {signature.removeprefix('typedef ')}"
    else:
        head = f".. c:function:: {signature}"
    return f"{head}\n\n{indented(body)}\n\n"


def c_reference(stage: Stage) -> list[str]:
    pages = []
    for header in headers.read_all(ROOT):
        name, _, subject = header.overview.partition(" - ")
        first, _, rest = subject.partition("\n\n")
        text = heading(name, "=") + escaped(first[:1].upper() + first[1:]) + "\n\n" + paragraphs(rest, set()) + "\n\n"
        text += f".. code-block:: c\n\n   #include <penstock/{name}>\n\n"
        stage.write(f"reference/c/{header.path.stem}.rst", text + "".join(map(c_declaration, header.declarations)))
        pages.append(header.path.stem)
    return pages


# The reference of commands ---------------------------------------------------------------------------


def option_entry(option: cli.Option) -> str:
    """Returns the directive for an option with its whole help text. Names of documents become links."""
    names = ", ".join(f"{word} {option.argument}" if option.argument else word for word in reversed(option.words))
    text = re.sub(r"\bdocs/([\w-]+)\.md\b", r":doc:`docs/\1.md </docs/\1>`", escaped(option.help))
    default = "" if option.default is None else f" (default {escaped(option.default)})"
    return f".. option:: {names}\n\n{indented(text + default)}\n\n"


def examples(lines: list[str]) -> str:
    return heading("Examples", "-") + ".. code-block:: sh\n\n" + indented("\n".join(lines)) + "\n"


def command_page(verb: cli.Verb) -> str:
    """Returns the page of a verb: what it does, all options by group, and examples."""
    name = f"penstock {verb.name}"
    text = heading(name, "=") + f"::\n\n   penstock {verb.usage}\n\n"
    text += "\n\n".join(map(escaped, verb.about.split("\n\n"))) + f"\n\n`More <../../docs/cli.html#{anchor_of(name)}>`__\n\n"
    text += f".. program:: {name}\n\n"
    for group, rows in itertools.groupby(verb.options, lambda option: option.group):
        text += heading(group[:1].upper() + group[1:], "-") + "".join(map(option_entry, rows))
    return text + examples(verb.examples)


def commands_index(verbs: list[cli.Verb]) -> str:
    """Returns the page of the command: exit statuses, environment variables, and the list of verbs."""
    text = heading("The command line", "=") + "From the tables of options, which ``--help`` and the manual pages show, too. " \
        "What verbs are for, and how they go together: :doc:`/docs/cli`.\n\n"
    text += "".join(f"- :doc:`penstock {verb.name} <{cli.page_name(verb)}>`: {escaped(verb.summary)}\n" for verb in verbs)
    text += "\n.. program:: penstock\n\n" + heading("Options before a verb", "-") + "".join(map(option_entry, cli.OPTIONS))
    for title, rows in (("Exit status", cli.EXITS), ("Environment", cli.ENVIRONMENT)):
        text += heading(title, "-") + "".join(f"``{name}``\n{indented(escaped(meaning))}\n\n" for name, meaning in rows)
    return text + ".. toctree::\n   :hidden:\n\n" + "".join(f"   {cli.page_name(verb)}\n" for verb in verbs)


def commands_reference(stage: Stage, verbs: list[cli.Verb]) -> None:
    for verb in verbs:
        stage.write(f"reference/commands/{cli.page_name(verb)}.rst", command_page(verb))
    stage.write("reference/commands/index.rst", commands_index(verbs))


def link_options(page: Path, verbs: list[cli.Verb]) -> None:
    """Adds to each verb's section of the command's staged page a link to the verb's options."""
    text = page.read_text()
    for verb in verbs:
        link = f"[All options](../reference/commands/{cli.page_name(verb)}.rst)"
        text = re.sub(rf"^## penstock {verb.name}$", rf"\g<0>\n\n{link}", text, flags=re.MULTILINE)
    page.write_text(text)


# The whole -------------------------------------------------------------------------------------------


def contents(title: str, pages: list[str]) -> str:
    """Returns a table of contents in MyST that is shown only in the side bar."""
    listed = "\n".join(page.removesuffix(".md") for page in pages)
    return f"\n```{{toctree}}\n:hidden:\n:maxdepth: 1\n:caption: {title}\n\n{listed}\n```\n"


def index_page(title: str, words: str, pages: list[str]) -> str:
    return heading(title, "=") + words + "\n\n.. toctree::\n   :maxdepth: 1\n\n" + "".join(f"   {page}\n" for page in pages)


def stage_all(folder: Path) -> None:
    documents = {name for name in tracked(ROOT) if name.endswith(".md") and (name.startswith("docs/") or "/" not in name)}
    stage = Stage(folder, documents)
    verbs = cli.tables(str(PROGRAM))
    commands_reference(stage, verbs)
    python = python_reference(stage, PACKAGE)
    stage.write("reference/python/arguments.md", site_arguments.page())
    stage.write("reference/python/index.rst", index_page("Python", "From the docstrings of the package.", ["arguments", *python]))
    stage.write("reference/c/headers.rst", index_page("C", "From the comments of the headers.", c_reference(stage)))
    guide = [f"docs/guide/{name}" for name in re.findall(r"\]\(([\w-]+\.md)\)", (ROOT / "docs/guide/README.md").read_text())]
    sections = {"Guide": ["docs/guide/README.md", *guide],
                "Reference": ["docs/cli.md", "reference/commands/index", "reference/python/index", "reference/c/headers"]}
    left = documents - {"README.md"} - set(sections["Guide"]) - set(sections["Reference"])
    for title, beginnings in SECTIONS.items():
        sections[title] = sorted(name for name in left if name.startswith(beginnings))
        left -= set(sections[title])
    order = ["Guide", "Topics", "Reference", "Formats", "Figures", "Inside"]
    for name in sorted(documents - {"README.md"}):
        stage.page(name)
    link_options(stage.folder / "docs" / "cli.md", verbs)
    stage.page("README.md", "".join(contents(title, sections[title]) for title in order))
    for name in sorted(stage.sources):
        stage.source(name)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "site")
    out = parser.parse_args().out
    reason = stale(PACKAGE / "_native.pyi")
    if reason:
        print(reason)
        return 1
    source = ROOT / "build" / "site-source"
    for folder in (source, out):
        shutil.rmtree(folder, ignore_errors=True)
    stage_all(source)
    version = re.search(r"project\(penstock VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())
    command = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--keep-going", "-b", "html", "-c", str(SITE),
               "-d", str(ROOT / "build" / "site-trees"), str(source), str(out)]
    done = subprocess.run(command, env={**os.environ, "PENSTOCK_SITE_VERSION": version[1] if version else "0"})
    if done.returncode == 0:
        print(f"site: {len(list(out.rglob('*.html')))} pages in {out}")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
