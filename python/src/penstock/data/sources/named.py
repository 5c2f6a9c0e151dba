"""Data sets that a function of the user makes: `penstock pack --from module:function`.

Only the module that the user names is imported. A worker process calls the function again, so the data set is not pickled.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...base.named import function_of
from ...errors import FunctionError


@dataclass(frozen=True)
class Call:
    """A call of MODULE:FUNCTION, with the path that the user gave, if any. It is pickled for worker processes."""

    function: str
    path: str | None

    def made(self) -> tuple[Any, Mapping[str, Any] | None]:
        """Calls the function. Returns the data set and its schema, or None as the schema if the function returns only the data
        set."""
        if self.function.startswith("datasets:"):  # versions before 4 may run code that comes with the data, or ask
            os.environ["HF_DATASETS_TRUST_REMOTE_CODE"] = "0"
        function = function_of(self.function)
        try:
            made = function() if self.path is None else function(self.path)
        except Exception as error:
            trace = "".join(traceback.format_exception(error)).rstrip()
            raise FunctionError(f"{self.function} failed: {type(error).__name__}: {error}\n{trace}") from error
        if isinstance(made, tuple) and len(made) == 2 and isinstance(made[1], Mapping):
            dataset, schema = made
            return dataset, schema
        return made, None

    def __call__(self) -> Any:
        return self.made()[0]


@dataclass(frozen=True)
class Made:
    dataset: Any
    schema: Mapping[str, Any] | None
    again: Call


def made_by(function: str, path: str | None) -> Made:
    """Makes a data set by calling MODULE:FUNCTION."""
    call = Call(function, path)
    return Made(*call.made(), call)
