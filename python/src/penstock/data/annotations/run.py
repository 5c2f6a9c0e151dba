"""Packs data sets with annotations in the formats of other tools, from COCO JSON to YOLO. Each format has a module that reads its
files. This module opens them and reads the image of each sample."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from ...base.files import read_file
from ...errors import ArgumentError, NotFoundError, PenstockError, in_file
from .. import image, packing
from ..pack_report import PackReport
from ..schema import FieldSpec
from ..writer import Writer
from .given import Drops, Given, Source, by_bytes


class _Annotated:
    """Gives the packing loop the image of each sample and the values made of its annotations."""

    def __init__(self, source: Source, given: Given) -> None:
        self.place, self.notices, self.early = source.folder, source.notices, source.early.listed
        self._source, self._given = source, given
        self._names = by_bytes(source.names())

    def names(self) -> list[str]:
        return self._names

    def begin(self, name: str) -> Callable[[Writer], packing.Ready]:
        return lambda writer: self._prepare(writer, name)

    def _prepare(self, writer: Writer, name: str) -> packing.Ready:
        path = os.path.join(self.place, name)
        embedded = getattr(self._source, "embedded", None)
        data = (None if embedded is None else embedded(name)) or read_file(path, "image")
        try:
            head = image.probe(data, ignore_orientation=self._given.made_for == "stored")
            drops = Drops(self._given.drop)
            sample = self._source.sample(name, head.height, head.width, drops)
            values, kept = writer._prepare({"image": data, **sample})
        except PenstockError as error:
            raise in_file(error, path) from None
        jpegs = {"image": len(data)} if head.form == "jpeg" else {}
        return packing.Ready(name, values, kept, len(data), jpegs, drops.listed)

    def located(self, error: PenstockError, name: str) -> PenstockError:
        return in_file(error, os.path.join(self.place, name))

    def close(self) -> None:
        pass


def run(
    source: Source, destination: str, schema: dict[str, FieldSpec], *, given: Given, num_workers: int | None, **how: Any
) -> PackReport:
    """Packs the source. The samples are sorted by the bytes of their names, whatever `num_workers` is."""
    if not source.names():
        raise NotFoundError(f"{source.folder!r}: no sample is annotated", dataset=source.folder)
    return packing.run(_Annotated(source, given), destination, schema, n_threads=packing.threads(num_workers), **how)


_DRAWN = ("yolo", "cvat", "labelme", "roboflow")  # formats that may have polygons


def _open_drawn(kind: str, folder: str, given: Given) -> Source:
    if given.split is not None and kind == "labelme":
        raise ArgumentError("split goes without labelme: pack the folder of one split")
    if kind == "yolo":
        from .yolo import Yolo

        return Yolo(folder, given)
    if kind == "cvat":
        from .cvat import Cvat

        return Cvat(folder, given)
    if kind == "labelme":
        from .labelme import Labelme

        return Labelme(folder, given)
    from .roboflow import open_export

    return open_export(folder, given)


def open_source(
    folder: str, given: Given, coco: str | None, voc: bool, citypersons: bool, kinds: Sequence[str] = (),
    colours: str | None = None,
) -> Source:
    """Opens the annotations of the one format that the arguments name."""
    if (coco is not None) + (colours is not None) + voc + citypersons + len(kinds) != 1:
        raise ArgumentError("one of coco, voc, citypersons, colours and " + ", ".join(_DRAWN) + " says what the annotations are")
    if kinds:
        return _open_drawn(kinds[0], folder, given)
    if given.split is not None and coco is not None:
        raise ArgumentError("split goes with voc and citypersons: a file of COCO is one split")
    if given.paint and coco is None:
        raise ArgumentError("paint goes with coco, yolo, cvat, labelme and roboflow: the others have no polygons")
    if colours is not None:
        from .colours import Colours

        return Colours(folder, colours, given)
    if coco is not None:
        from .coco import Coco

        return Coco(folder, coco, given)
    if voc:
        from .voc import Voc

        return Voc(folder, given)
    from .citypersons import CityPersons

    return CityPersons(folder, given)
