"""In torch's DataLoader, a ticket stands for a batch that a Loader makes. It takes the place of a list of sample numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Ticket:
    """Stands for one batch of an epoch of a Loader.

    take: returns the batch of a step of that epoch.
    """

    def __init__(self, take: Callable[[int], Any], step: int) -> None:
        self._take, self._step = take, step

    def redeem(self) -> Any:
        """Returns the batch of the ticket. Raises StopIteration if the epoch is over."""
        return self._take(self._step)
