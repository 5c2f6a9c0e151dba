"""A ticket takes the place of a list of sample numbers in torch's DataLoader: it stands for a batch that a Loader makes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Ticket:
    """Stands for one batch of a pass over a loader.

    take: returns the batch of a step of that pass.
    """

    def __init__(self, take: Callable[[int], Any], step: int) -> None:
        self._take, self._step = take, step

    def redeem(self) -> Any:
        """Returns the batch. StopIteration: the epoch is over."""
        return self._take(self._step)
