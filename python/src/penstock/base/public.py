"""Public paths of what lies in sub-packages: the names that messages, documents, pickles and programs have for it."""

from __future__ import annotations

import sys


def public(home: str, path: str) -> None:
    """Gives what the module `home` offers, its ``__all__``, the path of the public module that has it, too."""
    module = sys.modules[home]
    for name in module.__all__:
        if getattr(getattr(module, name), "__module__", None) == home:
            getattr(module, name).__module__ = path


def door(home: str, path: str) -> None:
    """Makes `path`, "penstock.loader", another name of the module `home`, whole: pickles, also of older versions, and tools that
    read sources find all that it defines by that path."""
    module = sys.modules[home]
    for thing in vars(module).values():
        if getattr(thing, "__module__", None) == home:
            thing.__module__ = path
    sys.modules[path] = module
    setattr(sys.modules["penstock"], path.partition(".")[2], module)
