"""Colour tables of ADE20K: `ade` for the masks of the full data set, and `ade150` for those of its benchmark with 150 classes.

In the full data set, the mask of `x.jpg` is `x_seg.png` beside it. Red and green encode the class number: red / 10 * 256 + green; 0
is no object. Blue numbers the objects and is not read. `x.json` beside it has the names of the class numbers (release of 2021). The
benchmark (ADEChallengeData2016) has gray masks: 0 is everything else, and 1 to 150 are the classes in the order of its list."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...base.files import parse, read_file
from ...errors import CorruptError
from .colour_tables import IGNORED, Table
from .given import is_text, whole

ENDING = "_seg"  # end of a mask's file name (without extension) in the full data set
SPLITS = ("training", "validation", "train", "val", "test")
_MOST_BYTES = 64 << 20  # the largest JSON file of one image that is read
_NOTHING = "unlabelled"

# The classes of the benchmark: the first word of each line of objectInfo150.txt.
_CLASSES = """wall, building, sky, floor, tree, ceiling, road, bed, windowpane, grass, cabinet, sidewalk, person, earth, door,
table, mountain, plant, curtain, chair, car, water, painting, sofa, shelf, house, sea, mirror, rug, field, armchair,
seat, fence, desk, rock, wardrobe, lamp, bathtub, railing, cushion, base, box, column, signboard, chest of drawers,
counter, sand, sink, skyscraper, fireplace, refrigerator, grandstand, path, stairs, runway, case, pool table, pillow,
screen door, stairway, river, bridge, bookcase, blind, coffee table, toilet, flower, book, hill, bench, countertop,
stove, palm, kitchen island, computer, swivel chair, boat, bar, arcade machine, hovel, bus, towel, light, truck,
tower, chandelier, awning, streetlight, booth, television, airplane, dirt track, apparel, pole, land, bannister,
escalator, ottoman, bottle, buffet, poster, stage, van, ship, fountain, conveyer belt, canopy, washer, plaything,
swimming pool, stool, barrel, basket, waterfall, tent, bag, minibike, cradle, oven, ball, food, step, tank, trade
name, microwave, pot, animal, bicycle, lake, dishwasher, screen, blanket, sculpture, hood, sconce, vase, traffic
light, tray, ashcan, fan, pier, crt screen, plate, monitor, bulletin board, shower, radiator, glass, clock, flag"""


def _benchmark() -> Table:
    table = Table("ade150")
    names = " ".join(_CLASSES.split("\n")).split(", ")
    rows: list[tuple[str, str, Any, Any]] = [(name, name, (i, i, i), i - 1) for i, name in enumerate(names, 1)]
    return table.fill(iter([*rows, ("other", "other", (0, 0, 0), IGNORED)]))


class Full(Table):
    """The table `ade`: a formula for all colours whose red is a multiple of 10. If names are known, it has only the named
    classes."""

    ignored = 0

    def __init__(self) -> None:
        super().__init__("ade")
        self.notices: list[dict[str, Any]] = []
        self._known: Any = None

    def take_names(self, folder: str, images: Sequence[str]) -> None:
        """Reads class names from the JSON files of the images. Without any such file, the class numbers have no names."""
        named: dict[int, str] = {}
        differ: list[str] = []
        for path in images:
            file = os.path.join(folder, os.path.splitext(path)[0] + ".json")
            for number, name in _objects(file) if os.path.exists(file) else ():
                if named.setdefault(number, name) != name:
                    differ.append(path)
        if differ:
            self.notices.append({"kind": "names_differ", "name": "names", "count": len(differ), "first": differ[0]})
        if not named:
            return
        import numpy as np

        self.names = [_NOTHING, *(f"class_{number}" for number in range(1, max(named) + 1))]
        taken = {_NOTHING}
        for number, name in sorted(named.items()):
            self.names[number] = name if name not in taken else f"{name} {number}"
            taken.add(self.names[number])
        self._known = np.zeros(1 << 16, bool)
        self._known[[0, *named]] = True

    def painted(self, pixels: Any) -> tuple[Any, Any]:
        import numpy as np

        red = pixels[..., 0].astype(np.uint16)
        numbers = red // 10 * 256 + pixels[..., 1]
        unknown = red % 10 != 0
        if self._known is not None:
            unknown |= ~self._known[numbers]
        return numbers, unknown if unknown.any() else None


def _objects(file: str) -> Iterator[tuple[int, str]]:
    """Yields class number and name of each object in an image's JSON file."""
    data = read_file(file, "annotation of ADE20K", _MOST_BYTES)
    try:
        data.decode()
    except UnicodeDecodeError:  # the files are in ISO 8859-1, which the tools of ADE20K read
        data = data.decode("iso-8859-1").encode()
    tree = parse(data, file)
    tree = tree.get("annotation") if isinstance(tree, Mapping) else None
    objects = tree.get("object") if isinstance(tree, Mapping) else None
    if not isinstance(objects, list):
        raise _fault(file, "annotation.object is no list")
    for i, each in enumerate(objects):
        number = whole(each.get("name_ndx")) if isinstance(each, Mapping) else None
        if number is None or not 0 < number < 1 << 16 or not is_text(each.get("name")):
            raise _fault(file, f"annotation.object[{i}] has no name and number (name, name_ndx)")
        yield number, each["name"]


def _fault(file: str, text: str) -> CorruptError:
    return CorruptError(f"{file!r}: {text}", text=text, file=file)


def table_of(given: str) -> Table | None:
    """Returns the ADE20K table of this name, or None if there is none."""
    if given not in ("ade", "ade150") or os.path.exists(given):
        return None
    return Full() if given == "ade" else _benchmark()


def split_of(path: str) -> str | None:
    """Returns the first folder in a path that has the name of a split, or None."""
    return next((part for part in path.split("/")[:-1] if part in SPLITS), None)
