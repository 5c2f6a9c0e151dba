"""Data sets that a function of the user's makes: `penstock pack --from module:function`.

Nothing else is imported than what the user names. A worker process calls the function again, so no object goes to it.
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
    """A call of MODULE:FUNCTION, with the path that the user gave, if any; it goes to a worker process."""

    function: str
    path: str | None

    def made(self) -> tuple[Any, Mapping[str, Any] | None]:
        """Returns the data set and its schema, if the function gives both."""
        if self.function.startswith("datasets:"):  # before version 4 it asks, or runs code that comes with data
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
    """Makes a data set by MODULE:FUNCTION."""
    call = Call(function, path)
    return Made(*call.made(), call)
