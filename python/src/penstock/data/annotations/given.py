"""Code that all readers of annotations share: options, counts of what is left out, and checks of names, numbers and boxes."""

from __future__ import annotations

import math
import os
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ...base.files import unreadable
from ...errors import CorruptError
from ..schema import FieldSpec, Mask

PAINTS = ("mask", "instances")
_EXTENSIONS = (".jpg", ".jpeg", ".png", ".webp", ".pli")


def is_image_name(name: str) -> bool:
    """Whether Penstock reads a file of this name as an image of a folder."""
    return name.lower().endswith(_EXTENSIONS)


class AnnotationError(CorruptError):
    """An annotation that cannot be stored."""


@dataclass
class Given:
    """The options by which a source is read."""

    split: str | None = None
    paint: tuple[str, ...] = ()
    drop: bool = False
    made_for: str | None = None
    mask_form: tuple[str, ...] | None = None
    tier: str = "small"
    effort: int = 3

    def mask(self, form: str) -> Mask:
        """Returns the field spec of a mask. It is stored in `form` unless the user asks for another form."""
        forms = self.mask_form or (form,)
        if "pli" not in forms:
            return Mask(forms, self.made_for)
        return Mask(forms, self.made_for, tier=self.tier, effort=self.effort)


    def paints(self) -> dict[str, FieldSpec]:
        """Returns the field specs of the painted masks that the user asks for."""
        return {name: self.mask("pli") for name in self.paint}


@dataclass
class Drops:
    """Counts the annotations of one sample that are left out, or makes the first one an error."""

    allowed: bool
    listed: list[str] = field(default_factory=list)

    def add(self, error: AnnotationError) -> None:
        if not self.allowed:
            raise error
        self.listed.append(str(error))


class Source(Protocol):
    """A data set with annotations."""

    folder: str
    notices: list[dict[str, Any]]
    early: Drops  # annotations that were left out when the files were read

    def schema(self) -> dict[str, FieldSpec]:
        """Returns the fields other than `image`."""

    def names(self) -> list[str]:
        """Returns the names of the samples: the paths of their images within the folder."""

    def sample(self, name: str, height: int, width: int, drops: Drops) -> dict[str, Any]:
        """Returns the values of the fields in `schema`. Any thread may call. Raises PenstockError if the sample cannot be
        stored."""


def tidy_path(name: Any) -> str | None:
    """Normalises a path within the folder, which becomes the sample's name. Returns None if the path leads out of the folder."""
    if not isinstance(name, str) or name.startswith("/") or "\0" in name:
        return None
    parts = [part for part in name.split("/") if part not in ("", ".")]
    try:
        "/".join(parts).encode()
    except UnicodeEncodeError:
        return None
    return None if not parts or ".." in parts else "/".join(parts)


def number(value: Any) -> float | None:
    """Returns a finite number as float, or None for any other value."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None


def decimal(text: str | None) -> float | None:
    """Parses a finite number. Returns None if the text is no such number."""
    try:
        return None if text is None or "_" in text else number(float(text))
    except ValueError:
        return None


def finite(text: str) -> float:
    """Parses a finite number. Raises ValueError if the text is no such number."""
    found = decimal(text)
    if found is None:
        raise ValueError(f"{text!r} is no finite number")
    return found


def whole(value: Any) -> int | None:
    """Returns a whole number as int, also for a float such as 48.0. Returns None for any other value."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return int(value) if isinstance(value, int) or value.is_integer() else None


def is_text(value: Any) -> bool:
    """Whether a value is a text that a data set can store as a name."""
    if not isinstance(value, str) or not 0 < len(value) < 4096 or any(unicodedata.category(c) == "Cc" for c in value):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def box_problem(box: Sequence[float], height: int, width: int) -> str | None:
    """Checks a box (x0, y0, x1, y1) against the image. Returns the fault, or None."""
    import numpy as np

    with np.errstate(over="ignore"):
        x0, y0, x1, y1 = (float(side) for side in np.asarray(box, np.float32))
    if not all(map(math.isfinite, (x0, y0, x1, y1))):
        return "is not finite"
    if x0 >= x1 or y0 >= y1:
        return "has no area"
    if x1 <= 0 or y1 <= 0 or x0 >= width or y0 >= height:
        return f"lies outside of the image ({width} x {height} pixels)"
    return None


def size_problem(stated: Sequence[Any], height: int, width: int, made_for: str | None) -> str | None:
    """Compares the stated height and width with those of the image. Returns the fault, or None if they are equal."""
    if tuple(stated) == (height, width):
        return None
    text = f"is {stated[1]!r} x {stated[0]!r} pixels there, its file has {width} x {height}"
    if tuple(stated) != (width, height):
        return text
    other, when = ("upright", "after") if made_for == "stored" else ("stored", "before")
    return (f"{text}; if the annotations are for the {other} picture, {when} its EXIF orientation has turned it, say "
            f'made_for="{other}" (--made-for {other})')


def boxes_array(boxes: Sequence[Sequence[float]]) -> Any:
    import numpy as np

    return np.array(boxes, np.float32).reshape(-1, 4)


def listed(folder: str, below: str = "", above: frozenset[tuple[int, int]] = frozenset()) -> Iterator[str]:
    """Yields the sorted paths of the files below a folder. Names that begin with a dot are left out. Links are followed, but not to
    a folder that encloses the current one (`above`: device and inode of the enclosing folders)."""
    root = os.path.join(folder, below)
    try:
        place = os.stat(root)
        here = (place.st_dev, place.st_ino)
        entries = [] if here in above else sorted(os.scandir(root), key=lambda entry: os.fsencode(entry.name))
    except OSError as error:
        raise unreadable(error, root, "folder") from None
    for entry in entries:
        if entry.name.startswith("."):
            continue
        path = f"{below}{entry.name}"
        if entry.is_dir():
            yield from listed(folder, path + "/", above | {here})
        else:
            yield path


def by_bytes(names: Sequence[str]) -> list[str]:
    """Sorts names by their bytes in UTF-8, as the samples of folders are sorted."""
    return sorted(names, key=lambda name: name.encode("utf-8", "surrogateescape"))
