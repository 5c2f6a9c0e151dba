"""Accelerators by name: the emulated accelerators of MLPerf Storage, and those that the user describes by a rate.

An emulated accelerator is a step of known length over batches of known size. It counts as *fed* if it computes for at least the
fraction ``limit`` of the time. TABLE_DATE is the date of the numbers in the table.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Any

from ..base.public import door
from ..errors import ArgumentError

__all__ = ["Accelerator", "by_name", "names", "of_rate", "split_count"]

TABLE_DATE = "2026-08"
_V2 = "mlcommons/storage v2.0, configs/dlio/workload (June 2025)"
_V3 = "mlcommons/storage v3.0, configs/dlio/workload (July-August 2026)"


@dataclass(frozen=True)
class Accelerator:
    """A device that consumes batches.

    Attributes:
        name: a name such as "mlperf:resnet50:h100".
        batch_size: samples per step.
        step_seconds: seconds of one step, without any waiting.
        sample_nbytes: stored bytes of a sample in the benchmark; 0: not known.
        limit: the least utilisation, 0 to 1, at which it counts as fed.
        source: where the numbers come from.
    """

    name: str
    batch_size: int
    step_seconds: float
    sample_nbytes: int = 0
    limit: float = 0.9
    source: str = ""

    @property
    def samples_per_second(self) -> float:
        """The samples per second at full utilisation."""
        return self.batch_size / self.step_seconds

    @property
    def title(self) -> str:
        """The short name: "H100" for "mlperf:resnet50:h100"."""
        last = self.name.rpartition(":")[2]
        return last.upper() if self.name.startswith("mlperf:") else last

    def as_dict(self) -> dict[str, Any]:
        """The attributes as plain data, in the format of a report's file."""
        return asdict(self)


def _entry(model: str, device: str, batch: int, step: float, nbytes: float, limit: float, source: str) -> Accelerator:
    return Accelerator(f"mlperf:{model}:{device}", batch, step, round(nbytes), limit, source)


_TABLE = {
    entry.name: entry
    for entry in (
        _entry("resnet50", "a100", 400, 0.435, 114_660, 0.90, _V2),
        _entry("resnet50", "h100", 400, 0.224, 114_660, 0.90, _V2),
        _entry("unet3d", "a100", 7, 0.636, 146.6e6, 0.90, _V2),
        _entry("unet3d", "h100", 7, 0.323, 146.6e6, 0.90, _V2),
        _entry("unet3d", "b200", 7, 0.162, 146.6e6, 0.90, _V3),
        _entry("cosmoflow", "a100", 1, 0.00551, 2.83e6, 0.70, _V2),
        _entry("cosmoflow", "h100", 1, 0.0035, 2.83e6, 0.70, _V2),
        _entry("retinanet", "b200", 24, 0.04755, 322_957, 0.85, _V3),
        _entry("flux", "b200", 48, 1.35, 2.16e6, 0.90, _V3),
        _entry("dlrm", "b200", 16_384, 0.000375, 761, 0.70, _V3),
    )
}


def names() -> list[str]:
    """Returns the names in the table."""
    return list(_TABLE)


def by_name(name: str) -> Accelerator:
    """Returns an accelerator of the table: "mlperf:resnet50:h100"."""
    found = _TABLE.get(name.lower())
    if found is None:
        raise ArgumentError(f"no accelerator {name!r}: known are {', '.join(_TABLE)}")
    return found


def of_rate(samples_per_second: float, batch_size: int, limit: float = 0.9) -> Accelerator:
    """Returns an accelerator that consumes this many samples per second."""
    if not 0 < samples_per_second < 1e12:
        raise ArgumentError(f"a rate is above 0 samples/s, not {samples_per_second!r}")
    name = f"{samples_per_second:g}/s"
    return Accelerator(name, batch_size, batch_size / samples_per_second, 0, limit, "given rate")


def split_count(text: str) -> tuple[int, str]:
    """Splits "8 x mlperf:resnet50:h100" or "8*NAME" into number and name. The number is 1 if none is given."""
    match = re.fullmatch(r"\s*(\d+)\s*[x*]\s*(\S+)\s*", text)
    return (int(match[1]), match[2]) if match else (1, text.strip())


door(__name__, "penstock.accelerators")
