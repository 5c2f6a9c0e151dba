"""What all operations of penstock.transforms have in common."""

from __future__ import annotations

from typing import Any


class Transform:
    """Base of all operations. Operations are values: equal by their arguments, hashable, picklable."""

    def __post_init__(self) -> None:
        self.describe()  # reports wrong arguments when the operation is made

    def describe(self) -> dict[str, Any]:
        """Returns the operation for the C library: members of ``struct pst_op``."""
        raise NotImplementedError
