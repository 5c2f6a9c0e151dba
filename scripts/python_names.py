"""The public names of the Python package, found in its sources without importing it. The site's reference and its check use them.

Public are the names in `__all__` of modules without a leading underscore in the package's own folder and of
PUBLIC_FOLDERS, and their public methods and properties. An imported name belongs to the module that defines it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

# Folders of the package that are public through their __init__.py. Names of other folders become public by modules directly in the
# package.
PUBLIC_FOLDERS = ("transforms",)

Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef | ast.Assign | ast.AnnAssign


@dataclass
class Name:
    module: str  # module whose __all__ has the name, such as "transforms"; "": the package
    name: str
    node: Definition
    path: Path  # the file that defines the name

    @property
    def kind(self) -> str:
        return {ast.ClassDef: "class", ast.FunctionDef: "function"}.get(type(self.node), "data")


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def exported(path: Path) -> list[str]:
    """Returns `__all__` of a file, or of the module that it imports by `*`. If there is no `__all__`: its classes and functions
    without a leading underscore.
    """
    body = tree_of(path).body
    for node in body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets):
            return list(ast.literal_eval(node.value))
        if isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
            return exported(imported(path, node))
    return [node.name for node in body if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and not node.name.startswith("_")]


def imported(path: Path, node: ast.ImportFrom) -> Path:
    """Returns the file of the module that a relative import imports from."""
    found = path.parents[node.level - 1].joinpath(*(node.module or "").split("."))
    return found / "__init__.py" if found.is_dir() else found.with_suffix(".py")


def statements(tree: ast.Module) -> Iterator[ast.stmt]:
    """Returns the statements of a module, including those inside its `if` statements."""
    for node in tree.body:
        yield from node.body if isinstance(node, ast.If) else [node]


def defined(path: Path, name: str) -> tuple[Definition, Path] | None:
    """Finds the definition of a name in the file, or in the file that it is imported from."""
    for node in statements(tree_of(path)):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == name:
            return node, path
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            return node, path  # type: ignore[return-value]
        if isinstance(node, ast.ImportFrom) and node.level and node.module:
            source = imported(path, node)
            for alias in node.names:
                if (alias.asname or alias.name) == name or (alias.name == "*" and name in exported(source)):
                    return defined(source, name if alias.name == "*" else alias.name)
    return None


def modules(package: Path) -> list[Path]:
    """Returns the public modules, with the package first."""
    found = [path for path in package.glob("*.py") if not path.stem.startswith("_") or path.stem == "__init__"]
    found += [package / folder / "__init__.py" for folder in PUBLIC_FOLDERS if (package / folder).is_dir()]
    return sorted(found, key=module_of)


def module_of(path: Path) -> str:
    """Returns the name of a public module below the package; "" for the package's own."""
    name = path.parent.name if path.stem == "__init__" else path.stem
    return "" if name == "penstock" else name


def names_of(path: Path) -> list[Name]:
    """Returns the public names of a module, except names of modules."""
    module = module_of(path)
    found = []
    for name in exported(path):
        definition = defined(path, name)
        if definition:
            found.append(Name(module, name, *definition))
    return found


def is_overload(node: ast.stmt) -> bool:
    """Returns whether a function needs no docstring: an overload for type checkers, or the setter of a property."""
    marks = [ast.unparse(mark) for mark in getattr(node, "decorator_list", [])]
    return any(mark in ("overload", "typing.overload") or mark.endswith(".setter") for mark in marks)


def has_text(name: Name) -> bool:
    """Returns whether a name is documented: a class or function by its docstring, any other name by a line with `#:` before it."""
    if isinstance(name.node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
        return ast.get_docstring(name.node) is not None
    lines = name.path.read_text().splitlines()
    return lines[name.node.lineno - 2].startswith("#:") or name.name == "__version__"


def inherits_text(owner: ast.ClassDef, path: Path, member: str) -> bool:
    """Returns whether a base class in the package has a docstring for this method."""
    for base in owner.bases:
        found = defined(path, base.id) if isinstance(base, ast.Name) else None
        if found is None or not isinstance(found[0], ast.ClassDef):
            continue
        for node in found[0].body:
            if isinstance(node, ast.FunctionDef) and node.name == member and ast.get_docstring(node):
                return True
        if inherits_text(found[0], found[1], member):
            return True
    return False


def undocumented_members(name: Name) -> Iterator[str]:
    """Returns a line for each public method and property without a docstring, either its own or that of the method that it
    overrides.
    """
    if not isinstance(name.node, ast.ClassDef):
        return
    for member in name.node.body:
        if not isinstance(member, (ast.FunctionDef, ast.AsyncFunctionDef)) or member.name.startswith("_") or is_overload(member):
            continue
        if ast.get_docstring(member) is None and not inherits_text(name.node, name.path, member.name):
            yield f"{name.path.parent.name}/{name.path.name}:{member.lineno}: {name.name}.{member.name} has no docstring"


def undocumented(package: Path) -> list[str]:
    """Returns a line for each public name that is not documented."""
    findings = []
    for name in (name for path in modules(package) for name in names_of(path)):
        if not has_text(name):
            findings.append(f"{name.path.parent.name}/{name.path.name}:{name.node.lineno}: {name.name} has no docstring")
        findings += undocumented_members(name)
    return list(dict.fromkeys(findings))
