"""Installs Penstock's measuring hook in a Python program that `penstock analyze --command` starts: see hook.py beside this folder.

Python imports a module of this name by itself when it starts. This file may hide another sitecustomize further along the path. That
one is then run, too, as if this file did not exist.
"""

import importlib.machinery
import importlib.util
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))


def _run_the_other() -> None:
    elsewhere = [entry for entry in sys.path if os.path.abspath(entry or ".") != _HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", elsewhere)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


def _hook() -> None:
    path = os.path.join(os.path.dirname(_HERE), "hook.py")
    spec = importlib.util.spec_from_file_location("_penstock_analyze_hook", path)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["_penstock_analyze_hook"] = module
    spec.loader.exec_module(module)
    module.install(os.path.abspath(os.path.join(_HERE, *[os.pardir] * 4)))  # the folder of the package


if os.environ.get("PENSTOCK_ANALYZE_OUT"):
    _hook()
_run_the_other()
