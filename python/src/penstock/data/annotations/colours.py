"""Reads folders of images with colour masks, and converts the colours to class numbers by a colour table.

An image and its mask have the same path within their folders, except for the extension and an ending such as `_L`. In ADE20K the
mask lies beside its image.
"""

from __future__ import annotations

import os
import re
from typing import Any

from ...base.files import read_file
from ...errors import CorruptError, NotFoundError, UnsupportedError
from .. import image
from ..schema import Array, FieldSpec, Text
from . import ade
from .colour_tables import open_table
from .given import Drops, Given, is_image_name, listed

# Known names of folders: those of the images, and those of their masks, in VOC, CamVid, and common layouts.
_PAIRS = (("JPEGImages", "SegmentationClass"), ("701_StillsRaw_full", "LabeledApproved_full"), ("images", "masks"),
          ("images", "labels"), ("images", "annotations"), ("image", "mask"), ("imgs", "masks"), ("img", "mask"))  # fmt: skip
_SPLITS = ("train", "val", "valid", "test")
_ENDING = re.compile(r"(_L|_mask|_labels?|_gt|_color|_colour)$")


class Colours:
    """A data set of images with colour masks."""

    def __init__(self, folder: str, table: str, given: Given) -> None:
        self.folder, self.early = folder, Drops(given.drop)
        self.notices: list[dict[str, Any]] = []
        self._given, self._table = given, ade.table_of(table) or open_table(table)
        self._masks: dict[str, str] = {}  # path of the mask, by the path of its image
        self._splits: dict[str, str] = {}
        if isinstance(self._table, ade.Full):
            self._pair_beside(self._table, given.split)
            return
        by_folder = self._table.where == "ade150"
        for images, masks, split in self._places(None if by_folder else given.split):
            self._pair(images, masks, split)
        if by_folder:
            self._take_splits(given.split)

    def _places(self, wanted: str | None) -> list[tuple[str, str, str | None]]:
        """Returns the pairs of folders with images and with masks, each with its split."""
        there = {name for name in os.listdir(self.folder) if os.path.isdir(os.path.join(self.folder, name))} \
            if os.path.isdir(self.folder) else set()  # fmt: skip
        for images, masks in _PAIRS:
            if {images, masks} <= there:
                if wanted is not None:
                    raise NotFoundError(f"{self.folder!r}: {images} and {masks} have no splits", dataset=self.folder)
                return [(images, masks, None)]
        pairs = [(split, f"{split}{end}", split) for split in _SPLITS for end in ("_labels", "annot", "_masks") if
                 {split, f"{split}{end}"} <= there]  # fmt: skip
        chosen = [pair for pair in pairs if wanted in (None, pair[2])]
        if not chosen:
            raise NotFoundError(
                f"{self.folder!r}: there are no folders of images and masks side by side, such as images and masks, JPEGImages and "
                f"SegmentationClass, train and train_labels{f', of the split {wanted!r}' if wanted else ''}",
                dataset=self.folder,
            )
        return list(chosen)

    def _pair(self, images: str, masks: str, split: str | None) -> None:
        of_mask: dict[str, str] = {}
        for path in listed(os.path.join(self.folder, masks)):
            if not is_image_name(path):
                continue
            key = _ENDING.sub("", os.path.splitext(path)[0])
            if key in of_mask:
                raise CorruptError(f"{os.path.join(self.folder, masks)!r}: {of_mask[key]} and {path} are masks of one image",
                                   dataset=self.folder)  # fmt: skip
            of_mask[key] = path
        without: list[str] = []
        seen: dict[str, str] = {}
        for path in listed(os.path.join(self.folder, images)):
            if not is_image_name(path):
                continue
            name, key = f"{images}/{path}", os.path.splitext(path)[0]
            key = key if key in of_mask else _ENDING.sub("", key)
            if key not in of_mask:
                without.append(name)
                continue
            if key in seen:
                raise CorruptError(f"{self.folder!r}: {seen[key]} and {name} have one mask, {masks}/{of_mask[key]}",
                                   dataset=self.folder)  # fmt: skip
            seen[key] = name
            self._masks[name] = f"{masks}/{of_mask[key]}"
            if split is not None:
                self._splits[name] = split
        alone = [f"{masks}/{path}" for key, path in of_mask.items() if key not in seen]
        for kind, paths in (("left_out", without), ("mask_alone", alone)):
            if paths:
                self.notices.append({"kind": kind, "name": "not annotated", "count": len(paths), "first": paths[0]})

    def _pair_beside(self, table: ade.Full, wanted: str | None) -> None:
        """Finds images and masks in the layout of the full ADE20K: x.jpg, x_seg.png and x.json in one folder."""
        images, masks = [], set()
        for path in listed(self.folder):
            stem, ending = os.path.splitext(path)
            if ending.lower() in (".jpg", ".jpeg"):
                images.append(path)
            elif ending.lower() == ".png" and stem.endswith(ade.ENDING):
                masks.add(path)
        without = []
        for path in images:
            mask = f"{os.path.splitext(path)[0]}{ade.ENDING}.png"
            if mask in masks:
                masks.remove(mask)
                self._masks[path] = mask
            else:
                without.append(path)
        for kind, paths in (("left_out", without), ("mask_alone", sorted(masks))):
            if paths:
                self.notices.append({"kind": kind, "name": "not annotated", "count": len(paths), "first": paths[0]})
        if not self._masks:
            raise NotFoundError(f"{self.folder!r}: there is no x.jpg with x{ade.ENDING}.png beside it, as in ADE20K; for "
                                "ADEChallengeData2016 the table is ade150", dataset=self.folder)  # fmt: skip
        table.take_names(self.folder, list(self._masks))
        self.notices += table.notices
        self._take_splits(wanted)

    def _take_splits(self, wanted: str | None) -> None:
        """Finds the split (training or validation) of each image by the folders in its path, and keeps the wanted split only."""
        found = {name: ade.split_of(name) for name in self._masks}
        splits = {name: split for name, split in found.items() if split is not None}
        if wanted is not None:
            self._masks = {name: mask for name, mask in self._masks.items() if splits.get(name) == wanted}
            if not self._masks:
                raise NotFoundError(f"{self.folder!r}: there is no image of the split {wanted!r}; there are "
                                    f"{', '.join(sorted(set(splits.values()))) or 'none'}", dataset=self.folder)  # fmt: skip
        self._splits = splits if self._masks.keys() <= splits.keys() else {}

    def schema(self) -> dict[str, FieldSpec]:
        classes = Array("int64", classes=self._table.names or None)
        found: dict[str, FieldSpec] = {"mask": self._given.mask("pli"), "mask_classes": classes}
        return {**found, "split": Text()} if self._splits else found

    def names(self) -> list[str]:
        return list(self._masks)

    def sample(self, name: str, height: int, width: int, drops: Drops) -> dict[str, Any]:
        import numpy as np

        path = os.path.join(self.folder, self._masks[name])
        data = read_file(path, "mask")
        head = image.probe(data)
        if head.form == "jpeg":
            raise UnsupportedError(f"mask {path!r}: JPEG changes colours; keep masks as PNG", text="masks are no JPEG", file=path)
        pixels = self._rgb(path, image.decode(data))
        labels, unknown = self._table.painted(pixels)
        if unknown is not None:
            raise self._unknown(path, pixels, unknown)
        present = [int(label) for label in np.unique(labels) if label != self._table.ignored]
        values = {"mask": labels, "mask_classes": np.array(present, np.int64)}
        return {**values, "split": self._splits[name]} if name in self._splits else values

    def _rgb(self, path: str, pixels: Any) -> Any:
        """Converts pixels to RGB with 8 bits. Gray becomes a colour with three equal channels; transparent pixels have no
        colour."""
        import numpy as np

        if pixels.dtype != np.uint8:
            raise UnsupportedError(f"mask {path!r}: 16 bits are no colours of a table", text="16 bits", file=path)
        if pixels.shape[2] in (2, 4):
            if (pixels[..., -1] != 255).any():
                y, x = (int(place[0]) for place in np.nonzero(pixels[..., -1] != 255))
                text = f"the pixel at x={x}, y={y} is transparent"
                raise CorruptError(f"mask {path!r}: {text}", text=text, file=path)
            pixels = pixels[..., :-1]
        return np.repeat(pixels, 3, axis=2) if pixels.shape[2] == 1 else pixels

    def _unknown(self, path: str, pixels: Any, unknown: Any) -> CorruptError:
        import numpy as np

        y, x = (int(place[0]) for place in np.nonzero(unknown))
        colour = tuple(int(side) for side in pixels[y, x])
        n_colours = len(np.unique(pixels[unknown], axis=0))
        others = f"; {int(unknown.sum())} pixels have {n_colours} such colour{'s' * (n_colours != 1)}"
        code = "".join(f"{side:02x}" for side in colour)
        where = f"the pixel at x={x}, y={y} has the colour {colour}, #{code}"
        text = f"{where}, which the table {self._table.where} does not have{others}"
        return CorruptError(f"mask {path!r}: {text}", text=text, file=path)
