"""Imports functions that the user names as MODULE:FUNCTION."""

from __future__ import annotations

import importlib
import os
import shlex
import sys
from collections.abc import Callable
from typing import Any

from ..errors import ArgumentError


def function_of(text: str) -> Callable[..., Any]:
    """Imports the module, looking in the working directory first, and returns the function."""
    module, _, function = text.partition(":")
    if not module or not function:
        raise ArgumentError(f"MODULE:FUNCTION is expected, not {text!r}")
    if os.getcwd() not in sys.path[:1]:
        sys.path.insert(0, os.getcwd())
    try:
        found = getattr(importlib.import_module(module), function)
    except ModuleNotFoundError as error:
        raise ArgumentError(f"{text}: {error}{_install(error.name or '', module)}") from None
    except (ImportError, AttributeError) as error:
        raise ArgumentError(f"{text}: {error}") from None
    except Exception as error:  # any exception, because the user's module runs here
        raise ArgumentError(f"{text}: importing {module} failed: {type(error).__name__}: {error}") from error
    if not callable(found):
        raise ArgumentError(f"{text}: {function} is no function")
    named: Callable[..., Any] = found
    return named


def _install(missing: str, module: str) -> str:
    """Returns advice on installing a missing module. For a module of the user's own: where modules are looked for."""
    if missing in ("", module) or module.startswith(missing + "."):
        return f"; modules are looked for in {os.getcwd()} first"
    package = missing.partition(".")[0]
    return f": {shlex.quote(sys.executable)} -m pip install {package}, or name another Python by PENSTOCK_PYTHON"
