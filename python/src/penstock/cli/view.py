"""The command `penstock view`: its options and its output. samples.py finds and loads the samples, sheet.py draws them."""

from __future__ import annotations

import argparse
import errno
import json
import shlex
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..base import outputs
from ..data.dataset import Dataset
from ..errors import NoSpaceError, NotFoundError, StorageError, UnsupportedError
from ..transforms import words as _transform_words
from . import samples as _samples
from .options import Parser, UsageError, add_force, add_source, open_source, whole
from .output import FAILED, OK, Meter, bad_sample, may_write, parts, shown, size

if TYPE_CHECKING:
    from .samples import Tile
    from .sheet import Sheet

_SIDES, _TILES_MOST = (32, 2048), 4096
_NO_PIXELS = "Normalize is left out: the sheet shows the pixels before it"


def parser() -> Parser:
    """Returns the parser of the command's options."""
    found = Parser(
        "view PATH SAMPLE|RANGE [options]",
        "Draws a sample, or samples A:B, on one PNG: masks in colours, boxes with their labels, keypoints, below them number, "
        "class and name. With --transforms, as these operations make them for training. Needs Pillow (pip install "
        "'penstock[view]').",
        "penstock view photos.pst 0:16\n"
        "penstock view photos.pst 0:8 --transforms train.json --epochs 4 -o train.png\n"
        "penstock view photos.pst 0:64 --batch --transforms train.json",
        ("path", "which"),
        2,
    )
    found.heading("which pictures")
    found.option("--field", "-f", metavar="NAME", text="which image or mask", shown="image")
    found.option("--box-labels", metavar="NAME", shown="labels, box_labels, classes, names, ...",
                 text="field with a text or number for each box: a JSON list, or an array of whole numbers")  # fmt: skip
    found.option("--name", "-n", action="store_true", text="SAMPLE is a name even if it looks like a number")
    found.option("--batch", "-b", action="store_true", text="RANGE is of positions in a shuffled epoch, not of sample numbers")
    found.heading("operations")
    found.option("--transforms", "-t", metavar="FILE", shown="none",
                  text="JSON file of operations, as penstock.transforms.to_json writes it")  # fmt: skip
    found.option("--epoch", type=whole, default=0, metavar="N", text="order and random parameters of epoch N", shown="0")
    found.option("--epochs", "-e", type=whole, default=1, metavar="N", shown="1",
                  text="each sample or position in N epochs, side by side")  # fmt: skip
    found.option("--seed", type=whole, default=0, metavar="N", text="of order and operations", shown="0")
    found.heading("the sheet")
    found.option("--output", "-o", default="view.png", metavar="FILE", text="the PNG; - is stdout", shown="view.png")
    add_force(found)
    found.option("--size", "-s", type=whole, default=256, metavar="PIXELS", shown="256",
                 text="side of a picture on the sheet, 32 to 2048")  # fmt: skip
    found.option("--columns", "-c", type=whole, default=0, metavar="N", text="pictures in a row", shown="a square")
    add_source(found)
    found.common()
    return found


def _check(given: argparse.Namespace) -> None:
    low, high = _SIDES
    if not low <= given.size <= high:
        raise UsageError(f"--size is {given.size}: {low} to {high} is expected")
    if not 1 <= given.epochs <= _TILES_MOST:
        raise UsageError(f"--epochs is {given.epochs}: 1 to {_TILES_MOST} is expected")
    if given.columns > _TILES_MOST:
        raise UsageError(f"--columns is {given.columns}: at most {_TILES_MOST}")
    if given.json and given.output == "-":
        raise UsageError("--json and the picture cannot both go to stdout")


def _sheet_maker() -> Callable[..., Sheet]:
    """Returns the class Sheet, which needs Pillow. UnsupportedError: Pillow is not installed."""
    try:
        from .sheet import Sheet
    except ImportError as error:
        if not (error.name or "").startswith("PIL"):
            raise
        install = f"{shlex.quote(sys.executable)} -m pip install 'penstock[view]'"
        raise UnsupportedError(f"view draws with Pillow, which this Python does not have ({error}): {install}") from None
    return Sheet


def _range(dataset: Dataset, text: str, given: argparse.Namespace) -> range:
    """Returns the range of samples, or of positions in the epoch, that the second operand names."""
    count = len(dataset)
    is_range = not given.name and not text.strip("0123456789:")
    if is_range and ":" in text:
        first, _, end = text.partition(":")
        if ":" not in end:
            found = range(int(first or 0), min(int(end or count), count))
            if found:
                return found
        raise UsageError(f'"{text}": A:B, A < B, is expected; there are {count} samples')
    if not is_range and given.batch:
        raise UsageError(f'--batch wants positions of the epoch, A:B, not "{text}"')
    if not is_range or not text:
        number = dataset.index_of(text)
    elif (number := int(text)) >= count:
        raise NotFoundError(f"no sample {text}: there are {count}", dataset=dataset.path)
    return range(number, number + 1)


def view_verb(words: Sequence[str]) -> tuple[str | bytes, int]:
    """Runs `penstock view`. Returns the text to print, or the PNG for stdout, and the exit status."""
    given = parser().parse(words)
    _check(given)
    may_write("view", given.output, given.force, given.json)
    make_sheet = _sheet_maker()
    chains = None if given.transforms is None else _transform_words.read_transforms(given.transforms)
    with open_source(given) as dataset:
        numbers = _range(dataset, given.which, given)
        n_tiles = len(numbers) * given.epochs
        if n_tiles > _TILES_MOST:
            raise UsageError(f"{n_tiles} pictures: at most {_TILES_MOST} fit on a sheet; say A:B")
        fields = _samples.choose(dataset, given.field, given.box_labels)
        samples = _samples.Samples(dataset, fields, chains, given.transforms, seed=given.seed, by_position=given.batch)
        sheet = make_sheet(n_tiles, given.size, given.columns or (given.epochs if given.epochs > 1 else 0))
        tiles = _draw(samples, sheet, numbers, given)
    png = sheet.png()
    if given.output != "-":
        _put(given.output, png)
    if samples.normalizes and not given.quiet:
        print(_NO_PIXELS, file=sys.stderr)
    n_bad = sum("error" in tile for tile in tiles)
    status = FAILED if n_bad else OK
    return (png, status) if given.output == "-" else (_result(given, sheet, tiles, len(png), n_bad), status)


def _draw(samples: _samples.Samples, sheet: Sheet, numbers: range, given: argparse.Namespace) -> list[dict[str, Any]]:
    """Draws all samples, with one at a time in memory. Returns their entries in the JSON output."""
    meter, tiles = Meter(given.quiet), []
    wanted = [(number, given.epoch + later) for number in numbers for later in range(given.epochs)]
    try:
        for i, (number, epoch) in enumerate(wanted):
            tile = samples.tile(number, epoch)
            if tile.error is not None:
                meter.end()
                bad_sample("view", tile.error)
            sheet.draw(i, tile, f" e{epoch}" if given.epochs > 1 else "")
            tiles.append(_of_tile(tile))
            del tile  # the tile's arrays lie in the loader's memory
            meter.show(f"view: {i + 1} of {len(wanted)} pictures")
    finally:
        meter.end()
    return tiles


def _put(output: str, png: bytes) -> None:
    """Writes the PNG to a file. The file appears under its name only when it is complete."""
    try:
        outputs.write(output, png)
    except OSError as error:
        kind = NoSpaceError if error.errno == errno.ENOSPC else StorageError
        text = "cannot be written"
        raise kind(f"{output}: {text}: {error.strerror}", text=text, file=output, os_error=error.errno or 0) from None


def _result(given: argparse.Namespace, sheet: Sheet, tiles: Sequence[Any], nbytes: int, n_bad: int) -> str:
    """Returns the text to print after the sheet is drawn."""
    if given.json:
        found = {
            "file": given.output,
            "height": sheet.height,
            "width": sheet.width,
            "bytes": nbytes,
            "bad": n_bad,
            "tiles": tiles,
        }
        return json.dumps(found, indent=2)
    n = len(tiles)
    return f"{shown(given.output)}: {n} picture{'s' * (n != 1)}, {sheet.width}x{sheet.height} pixels, {size(nbytes)}"


def _of_tile(tile: Tile) -> dict[str, Any]:
    """Returns the entry of one sample in the JSON output."""
    found: dict[str, Any] = {"sample": tile.sample, "name": tile.name, "epoch": tile.epoch}
    if tile.error is not None:
        return {**found, "error": parts(tile.error)}
    place = tile.place
    return {
        **found,
        "y": place.y,
        "x": place.x,
        "height": place.height,
        "width": place.width,
        "image_height": tile.height,
        "image_width": tile.width,
        "boxes": tile.n_boxes,
        "keypoints": len(tile.points),
        "mask": tile.mask is not None,
    }
