"""Gives things defined in sub-packages the shorter public paths that messages, documents, pickles and programs use."""

from __future__ import annotations

import sys


def public(home: str, path: str) -> None:
    """Sets the public path of all names in ``__all__`` of the module `home`: their ``__module__`` becomes `path`."""
    module = sys.modules[home]
    for name in module.__all__:
        if getattr(getattr(module, name), "__module__", None) == home:
            getattr(module, name).__module__ = path


def door(home: str, path: str) -> None:
    """Makes `path`, such as "penstock.loader", an alias of the whole module `home`. Pickles, also of older versions, and tools that
    read sources then find all its definitions under that path."""
    module = sys.modules[home]
    for thing in vars(module).values():
        if getattr(thing, "__module__", None) == home:
            thing.__module__ = path
    sys.modules[path] = module
    setattr(sys.modules["penstock"], path.partition(".")[2], module)
