"""Decides which fields a loader delivers and how, and makes the C library's options for them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from .. import _native
from .. import transforms as _transforms
from ..base import options as _options
from ..data import image
from ..data.dataset import Dataset, Field
from ..data.schema import Keypoints
from ..errors import ArgumentError
from ..transforms import pixels as _pixels
from ..transforms import plain as _plain
from . import options as _more
from . import ragged
from . import views as _views
from .table import ROWS

_PER_FIELD = ("dtype", "layout", "channels", "bits", "allowed_forms", "scaled_decode", "made_for")
_LAYOUTS = ("NHWC", "NCHW", "channels_last")
_CHANNELS_STORED = 255
_UNPAIRED: set[tuple[str, str]] = set()  # (data set, field) pairs for which _warn_of_sides has warned


NAME = "sample_name"  # key of a batch with `geometry`: the list of its samples' names


def _ways(mix: Any) -> Sequence[Any]:
    return mix if isinstance(mix, Sequence) else [mix]


class FieldOptions:
    """Makes the options of each field from a loader's arguments.

    Attributes, set by :meth:`all`:
        encoded: fields that are delivered as stored bytes.
        channels_last: fields that have NCHW shape over NHWC memory.
        is_random: whether operations of any field or view draw random numbers.
    """

    def __init__(self, given: Mapping[str, Any], dataset: Dataset, output: str) -> None:
        self._given, self._dataset, self._output = given, dataset, output
        self.encoded: set[str] = set()
        self.channels_last: set[str] = set()
        self.is_random = False

    def all(self) -> list[dict[str, Any]]:
        """Returns the options of every delivered field."""
        known = self._dataset.fields
        views = _views.of(self._given, self._dataset)
        wanted = _views.delivered(self._given, views, self._dataset)
        chains = _more.chains_of({**self._given, "fields": wanted}, self._dataset)
        per_field = (self._given[name] for name in _PER_FIELD)
        named = [*(wanted or ()), *self._given["encoded"], *self._given["own_geometry"], *chains]
        named.extend(self._given["per_box"] or ())
        named.extend(self._given["pairs"] if isinstance(self._given["pairs"], Mapping) else ())
        named.extend(ragged.named(self._given))
        for mapping in per_field:
            named.extend(mapping if isinstance(mapping, Mapping) else ())
        for name in named:
            if name not in known:
                raise ArgumentError(
                    f"no field {name!r} in {self._dataset.path}{_options.nearest(name, list(known))}",
                    dataset=self._dataset.path,
                )
        pairs = self._given["pairs"]
        for name in pairs if isinstance(pairs, Mapping) else ():
            if known[name].type != "keypoints":
                raise ArgumentError(f"Annotations.pairs[{name!r}] is not possible: the field is {known[name].type}, not keypoints")
        unused = [name for name in chains if wanted is not None and name not in wanted]
        if views and unused:
            raise ArgumentError(f"transforms[{unused[0]!r}]: the field is not delivered itself: name it in fields, too")
        plain = [
            self._one_field(field, chains.get(field.name, []), field.name)
            for field in known.values()
            if wanted is None or field.name in wanted
        ]
        self._warn_of_sides(plain)
        views_options = [self._one_field(known[view.field], view.ops, view.name) | view.options() for view in views]
        self._add_geometry(plain, views_options)
        return plain + views_options

    def _add_geometry(self, plain: list[dict[str, Any]], views: list[dict[str, Any]]) -> None:
        """Requests the geometry of the sample's image, of its views, and of fields with `own_geometry`."""
        if not self._given["geometry"]:
            return
        known = self._dataset.fields
        pixels = [one for one in plain if known[one["name"]].type in ("image", "mask") and not one.get("encoded")]
        leaders = [one for one in pixels if not one["own_geometry"]]
        images = [one for one in leaders if known[one["name"]].type == "image"]
        named = [one for one in images if one["name"] == "image"]
        leader = (named or images or leaders)[:1]
        asked = [*leader, *(one for one in pixels if one["own_geometry"]), *views]
        if not asked:
            raise ArgumentError("Annotations.geometry is that of images and masks: none is delivered as pixels")
        if NAME in [one.get("as", one["name"]) for one in (*plain, *views)]:
            raise ArgumentError(f"Annotations.geometry gives batches a {NAME!r}, and so is a field called: leave one of them out")
        for one in asked:
            one["gives_geometry"] = True
        for one in leader if any(isinstance(way, _transforms.Mosaic) for way in _ways(self._given["mix"])) else ():
            one["gives_tiles"] = True

    def _one_field(self, field: Field, ops: list[_transforms.Transform], shown: str) -> dict[str, Any]:
        """Returns the options of a field, or of views of it, that are delivered under the name `shown`."""
        self.is_random = self.is_random or any(op.is_random for op in ops)
        options: dict[str, Any] = {"name": field.name, "ops": []}
        self._refuse_options(field)
        options |= ragged.options_of(self._given, field)
        if field.type == "audio":
            return self._audio_field(field, ops, options)
        if any(isinstance(op, _transforms.AudioTransform) for op in ops):
            raise ArgumentError(f"transforms[{field.name!r}]: operations on sound, and the field is of type {field.type}")
        options["ops"] = _plain.described(ops)
        if field.type == "keypoints":
            self._add_pairs(field, options)
        if field.type in ("mask", "boxes", "keypoints"):
            options["made_for"] = _options.made_for(self._of_field("made_for", field.name, None))
        self._add_boxes(field, options)
        if field.type not in ("image", "mask"):
            if field.name in self._given["own_geometry"]:
                raise ArgumentError(f"Annotations.own_geometry is for images and masks; {field.name!r} is {field.type}")
            if self._output == "numpy" and field.dtype == "bfloat16":
                raise ArgumentError(f'field {field.name!r} is bfloat16: use output="torch"')
            return options
        return self._picture_field(field, ops, shown, options)

    def _picture_field(
        self, field: Field, ops: list[_transforms.Transform], shown: str, options: dict[str, Any]
    ) -> dict[str, Any]:
        """Adds the options of an image or a mask."""
        options["own_geometry"] = field.name in self._given["own_geometry"]
        options["ignore_orientation"] = self._given["ignore_orientation"]
        if self._given["allowed_forms"] and field.name in self._given["allowed_forms"]:
            options["form_mask"] = self._form_mask(field)
        if field.name in self._given["encoded"]:
            self.encoded.add(field.name)
            return options | {"encoded": True}
        if field.type == "mask":
            options["layout"] = 0  # a single channel: the array has no channel axis
            for name in ("dtype", "bits"):
                mapping = self._given[name]
                if isinstance(mapping, Mapping) and mapping.get(field.name) is not None:
                    options |= self._pixel_option(name, mapping[field.name])
            return options
        layout = _LAYOUTS[
            _options.choice("layout", self._of_field("layout", field.name, "NCHW"), _LAYOUTS)
        ]
        options["layout"] = int(layout == "NCHW")
        if layout == "channels_last":
            self.channels_last.add(shown)
        for name in ("dtype", "bits"):
            value = self._of_field(name, field.name, None)
            if value is not None:
                options |= self._pixel_option(name, value)
        options["scaled_decode"] = bool(self._of_field("scaled_decode", field.name, False))
        channels = self._of_field("channels", field.name, None)
        asked = _plain.output_channels(shown, ops)
        if channels == "stored" and not asked:
            options["channels"] = _CHANNELS_STORED
        elif channels is not None or asked:
            wanted = asked if channels in (None, "stored") else channels
            options["channels"] = _options.count("channels", wanted, 1, 4)
        return options

    def _audio_field(
        self, field: Field, ops: list[_transforms.Transform], options: dict[str, Any]
    ) -> dict[str, Any]:
        """Adds the options of an audio field. A dtype that is given for all fields counts for sound only if it is a float dtype."""
        if field.name in self._given["own_geometry"]:
            raise ArgumentError(f"Annotations.own_geometry is for images and masks; {field.name!r} is audio")
        if field.name in self._given["encoded"]:
            if ops:
                raise ArgumentError(f"transforms[{field.name!r}]: the field is delivered encoded")
            self.encoded.add(field.name)
            return options
        from ..transforms import sound

        sound.find_library()
        options["decode_audio"] = True
        options["audio_ops"] = sound.steps_of(field.name, ops)
        wanted = self._of_field("dtype", field.name, None)
        number = _options.dtype_number("float32" if wanted is None else wanted)
        floats = [_native.dtype_number(name) for name in ("float32", "float16")]
        if number not in floats and isinstance(self._given["dtype"], Mapping):
            raise ArgumentError(f"dtype[{field.name!r}]: sound is float32 or float16, not {wanted!r}")
        options["dtype"] = number if number in floats else floats[0]
        return options

    def _pixel_option(self, name: str, value: Any) -> dict[str, int]:
        """Returns dtype or bits of a field as options of the C library."""
        if name == "bits":
            if value not in (8, 16):
                raise ArgumentError(f"Decoding.bits is 8 or 16, not {value!r}")
            return {"bits": int(value)}
        number = _options.dtype_number(value)
        if self._output == "numpy" and number == _native.dtype_number("bfloat16"):
            raise ArgumentError('numpy has no bfloat16: use output="torch"')
        return {"dtype": number}

    def _refuse_options(self, field: Field) -> None:
        """Raises an error if an argument that is given per field is not possible for the field's type."""
        possible = {
            "image": tuple(name for name in _PER_FIELD if name != "made_for"),
            "mask": ("dtype", "bits", "allowed_forms", "made_for"),
            "boxes": ("made_for",),
            "keypoints": ("made_for",),
            "audio": ("dtype",),
        }.get(field.type, ())
        for name in _PER_FIELD:
            mapping = self._given[name]
            if isinstance(mapping, Mapping) and field.name in mapping and name not in possible:
                raise ArgumentError(f"{ROWS[name].shown}[{field.name!r}] is not possible: the field is of type {field.type}")

    def _add_pairs(self, field: Field, options: dict[str, Any]) -> None:
        """Adds the pairs of left and right keypoints, if the loader's argument `pairs` gives them."""
        given = self._given["pairs"]
        mine = given.get(field.name) if isinstance(given, Mapping) else given
        if mine is None:
            return
        if not isinstance(mine, Keypoints):
            names = self._dataset.class_names(field.name) if field.n_classes else None
            mine = Keypoints(points=names or field.n_classes or None, pairs=mine)
        if mine.pairs is not None:
            options["point_pairs"] = mine.pair_bytes()
        options["n_points"] = mine.n_points

    def _warn_of_sides(self, options: Sequence[Mapping[str, Any]]) -> None:
        """Warns about keypoints that are mirrored without known pairs of left and right, once for each data set in a process."""
        for name in self._unpaired(options):
            if (self._dataset.id, name) in _UNPAIRED:
                continue
            _UNPAIRED.add((self._dataset.id, name))
            warnings.warn(
                f"{self._dataset.path}: the transforms mirror pictures, and nothing says which points of {name!r} are left "
                "and right: a mirrored left eye would stay the left eye. Give Annotations(pairs=[(left, right), ...]), or pack "
                "with ps.Keypoints(points=..., pairs=...); pairs=[] if there is no left and right",
                stacklevel=6,
            )

    def _unpaired(self, options: Sequence[Mapping[str, Any]]) -> list[str]:
        """Returns the keypoints that operations may mirror but for which no pairs of left and right are known."""
        known = self._dataset.fields
        mirrors = any(
            op["kind"] in _pixels.MIRRORS and op["p"] > 0
            for one in options
            if known[one["name"]].type == "image" and not one.get("own_geometry")
            for op in one["ops"]
        )
        return [
            one["name"]
            for one in options
            if mirrors and known[one["name"]].type == "keypoints" and "point_pairs" not in one and known[one["name"]].pairs is None
        ]

    def _add_boxes(self, field: Field, options: dict[str, Any]) -> None:
        """Adds the options of boxes, and of fields with a row for each box."""
        given = self._given
        if field.type == "boxes":
            if not float(given["min_area"]) > 0:
                raise ArgumentError("Annotations.min_area is above 0 pixels^2; keep_boxes=True keeps all boxes")
            options["min_area"] = float(given["min_area"])
            options["min_visibility"] = float(given["min_visibility"])
            options["keep_boxes"] = given["keep_boxes"]
        per_box = given["per_box"]
        if per_box is None:
            return
        if isinstance(per_box, Mapping):
            options["per_box_of"] = str(per_box.get(field.name, ""))
            return
        boxes = [other.name for other in self._dataset.fields.values() if other.type == "boxes"]
        if field.name in per_box and len(boxes) != 1:
            raise ArgumentError(
                f"Annotations.per_box is a dict of names of boxes here: the data set has the boxes {', '.join(boxes) or '(none)'}"
            )
        options["per_box_of"] = boxes[0] if field.name in per_box else ""

    def _of_field(self, name: str, field: str, default: Any) -> Any:
        value = self._given[name]
        return value.get(field, default) if isinstance(value, Mapping) else value

    def _form_mask(self, field: Field) -> int:
        """Returns the allowed forms as a bit mask."""
        forms = self._given["allowed_forms"][field.name]
        if isinstance(forms, str) or not forms:
            raise ArgumentError(f"Forms.allowed[{field.name!r}] is a list of forms, at least one, not {forms!r}")
        return sum(1 << number for number in {image.form_number(form) for form in forms})
