"""The settings that :meth:`penstock.Loader.set` changes, and a plan's schedule of such changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..base import options
from ..errors import ArgumentError

KEYS = ("batch_size", "height", "width")  # keys of a loader's state, present if the setting was changed
_STAGE = "stage"  # key of a state: how many stages of the schedule have begun
MOST = 2**31 - 1


class Settings(NamedTuple):
    """Settings of the C library. 0 means "no change", or, in the present settings of a loader, "never set" or "no settable
    size"."""

    batch_size: int = 0
    height: int = 0
    width: int = 0

    def over(self, other: Settings) -> Settings:
        """Returns these settings, with missing ones taken from `other`."""
        size = self if self.height else other
        return Settings(self.batch_size or other.batch_size, size.height, size.width)


def wanted(size: Any, batch_size: Any) -> Settings:
    """Returns the settings that the user gave. A size is a number or (height, width); None: no change."""
    number = 0 if batch_size is None else options.count("batch_size", batch_size, 1, MOST)
    if size is None:
        return Settings(number)
    sides = (size, size) if not isinstance(size, Sequence) or isinstance(size, str) else tuple(size)
    if len(sides) != 2:
        raise ArgumentError(f"size is a number of pixels or (height, width), not {size!r}")
    height, width = (options.count("size", side, 1, MOST) for side in sides)
    return Settings(number, height, width)


class Stage(NamedTuple):
    """Settings that begin with an epoch."""

    epoch: int
    settings: Settings


def stages(data: Any, where: str) -> list[Stage]:
    """Reads the schedule of a plan: a list of objects with epoch, and size or batch_size or both, in order of epochs."""
    if not isinstance(data, Sequence) or isinstance(data, str):
        raise ArgumentError(f"{where}: schedule is a list of stages, not {data!r}")
    found: list[Stage] = []
    for i, entry in enumerate(data):
        name = f"{where}: schedule[{i}]"
        if not isinstance(entry, Mapping):
            raise ArgumentError(f"{name} is an object with epoch, size and batch_size, not {entry!r}")
        size, batch_size = entry.get("size"), entry.get("batch_size")
        if size is None and batch_size is None:
            raise ArgumentError(f"{name} has neither size nor batch_size")
        try:
            stage = Stage(options.count("epoch", entry.get("epoch"), 0, 2**64 - 1), wanted(size, batch_size))
        except ArgumentError as error:
            raise ArgumentError(f"{name}: {error.text}") from None
        if found and stage.epoch <= found[-1].epoch:
            raise ArgumentError(f"{name} begins with epoch {stage.epoch}, not after the stage before it ({found[-1].epoch})")
        found.append(stage)
    return found


def size_of(text: str) -> list[int] | None:
    """Parses PIXELS or HEIGHTxWIDTH to [height, width]. Returns None for any other text."""
    sides = text.split("x")
    return [int(sides[0]), int(sides[-1])] if len(sides) <= 2 and all(side.isdecimal() for side in sides) else None


def stages_of(text: str) -> list[dict[str, Any]]:
    """Parses a schedule of the command line: EPOCH:SIZE[:BATCH],... SIZE is PIXELS or HEIGHTxWIDTH, or empty."""
    found: list[dict[str, Any]] = []
    for part in text.split(","):
        numbers = part.split(":")
        size = size_of(numbers[1]) if len(numbers) > 1 and numbers[1] else []
        if not all(word.isdecimal() for word in (numbers[0], *numbers[2:])) or len(numbers) not in (2, 3) or size is None:
            raise ArgumentError(f"a stage of a schedule is EPOCH:SIZE[:BATCH], such as 6:192:256 or 6:160x224, not {part!r}")
        stage: dict[str, Any] = {"epoch": int(numbers[0])}
        if size:
            stage["size"] = size
        if len(numbers) == 3:
            stage["batch_size"] = int(numbers[2])
        found.append(stage)
    return found


class Changes:
    """Records what a loader's set() and its schedule have changed so far."""

    def __init__(self, schedule: Any, shares: bool) -> None:
        self.made = Settings()  # settings that were changed; 0: not changed
        self.opened = Settings()  # settings from the loader's arguments
        self.stage = 0  # number of stages of the schedule that have begun
        self._schedule = stages(schedule or [], "the plan")
        if self._schedule and shares:
            raise ArgumentError("the plan has a schedule of sizes, which a loader with share cannot follow")

    def begin(self, opened: Settings) -> None:
        """Stores the settings of the new loader. ArgumentError: the schedule sets a size, but the loader's pictures have no
        settable size."""
        self.opened = opened
        for i, stage in enumerate(self._schedule):
            if stage.settings.height and not opened.height:
                raise ArgumentError(
                    f"the plan: schedule[{i}] has a size, and no operation of this loader gives all pictures one size that can "
                    "be set (Loader.set)"
                )

    def n_begun(self, epoch: int) -> int:
        """Returns how many stages have begun at that epoch."""
        return sum(stage.epoch <= epoch for stage in self._schedule)

    def of_stage(self, n_begun: int) -> Settings:
        """Returns the settings after `n_begun` stages: of the last stage, else of earlier stages, else of the loader's
        arguments."""
        found = Settings()
        for stage in reversed(self._schedule[:n_begun]):
            found = found.over(stage.settings)
        return found.over(self.opened)

    def to_state(self) -> dict[str, int]:
        """Returns the settings as a part of a loader's state."""
        found = {key: value for key, value in zip(KEYS, self.made, strict=True) if value}
        return {**found, _STAGE: self.stage} if self._schedule else found

    def of_state(self, state: Mapping[str, int]) -> tuple[Settings, int]:
        """Returns the settings and the stage of a state. The loader then applies them."""
        given = (0 if state.get(key) is None else options.count(key, state[key], 1, MOST) for key in KEYS)
        settings = Settings(*given)
        if bool(settings.height) != bool(settings.width):
            raise ArgumentError("a state with a height has a width, too")
        if _STAGE in state:
            return settings, options.count(_STAGE, state[_STAGE], 0, MOST)
        # The state is of a loader without a schedule. Within an epoch, its settings continue.
        return settings, self.n_begun(state["epoch"]) if state["position"] else 0
