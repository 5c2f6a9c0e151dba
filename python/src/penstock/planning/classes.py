"""Divides the samples of a data set into classes, and estimates the costs of a sample of each class in each form.

A class contains the samples whose image has the same form and a pixel count in the same range. The cost probe measures some images
of each class. Its results are then scaled so that they agree with the analysis, whose costs are means over the whole data set.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..data import opening
from ..data.dataset import Dataset
from ..data.image import probe as image_info
from ..data.image import stored_form
from ..data.items import share_nbytes
from ..errors import ArgumentError, PenstockError
from ..stalls.measure import probe
from ..stalls.measure import survey as survey_of

_MOST_LOOKED_AT = 4096
_MOST_SIZES = 3  # maximum number of classes that one form is divided into
_WIDE = 3.0  # a form is divided if the 90th percentile of its sizes is at least this many times the 10th
_LOOK_SECONDS = 2.0  # time limit for reading headers of a folder's files, for a report
_PROBE_SAMPLES = 32
_PROBE_NBYTES = 64 << 20

# Costs that both the probe of a class and the analysis measure, by form and place.
_SCALED = ("cpu_seconds", "cpu_sd_seconds", "hit_cpu_seconds", "nbytes", "nbytes_sd", "item_nbytes", "gpu_seconds", "link_nbytes")

Costs = Mapping[str, Mapping[str, Mapping[str, float]]]


@dataclass
class Class:
    """A class of similar samples.

    Attributes:
        form: present form of their images: "jpeg", "png", "webp", "pli-jpeg", "pli-small", ..., "raw".
        low, high: range of their pixel counts: at least low, and below high; None: no upper limit.
        samples: number of samples, or an estimate.
        pixels: mean pixels of an image.
        numbers: some of the samples, by their numbers in the data set.
        forms: costs of a sample by form and place, as in a report, for the forms that may be stored.
        held: costs for the forms that a cache may keep; empty: the same as `forms`.
        kept: costs of a sample that a cache keeps at the training size, by the cache's form.
        small, small_sd: mean and deviation of the pixels after the Resize at the beginning of the transforms; 0: not known.
        per_draw: number of stored samples / `samples`. It is 1, except where a mixture draws samples more or less often than once
            an epoch.
    """

    form: str
    low: int
    high: int | None
    samples: int
    pixels: float
    numbers: list[int] = field(default_factory=list)
    forms: Costs = field(default_factory=dict)
    held: Costs = field(default_factory=dict)
    kept: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    small: float = 0.0
    small_sd: float = 0.0
    per_draw: float = 1.0

    @property
    def stored(self) -> str:
        """The form as data sets name it, without the tier."""
        return stored_form(self.form)

    @property
    def in_cache(self) -> Costs:
        """The costs of the forms that a cache may keep."""
        return self.held or self.forms


class _Seen(NamedTuple):
    """A sample that was read: the pixels of its image, its number, and the pixels after the Resize at the beginning of the
    transforms."""

    pixels: int
    number: int
    small: int


def of_report(report: Mapping[str, Any]) -> list[Class]:
    """Returns a single class with all samples, because a report only knows the form that most samples have."""
    subject = report["subject"]
    if not report["forms"]:
        raise ArgumentError("the report has no costs of forms: there is no image field, or forms were not probed")
    return [Class(subject["form"], 0, None, _samples_of(subject), 0.0, [], report["forms"], kept=report.get("kept") or {})]


def _samples_of(subject: Mapping[str, Any]) -> int:
    """Returns how many samples have the report's form: counted in the data set if it exists here, else all samples."""
    samples = int(subject["samples"])
    if not opening.can_open(subject):
        return samples
    try:
        with opening.of_subject(subject) as dataset:
            field = next((name for name, field in dataset.fields.items() if field.type == "image"), None)
            found = [] if field is None else survey(dataset, field, _LOOK_SECONDS)
    except (PenstockError, OSError):
        return samples
    whole = sum(part.samples for part in found)
    own = sum(part.samples for part in found if part.stored == stored_form(subject["form"]))
    return max(1, round(samples * own / whole)) if whole and own else samples


def survey(dataset: Dataset, image: str, seconds: float, side: int = 0, notes: list[str] | None = None) -> list[Class]:
    """Divides the samples into classes by form and size, without costs. For a large data set, it reads only some of the samples.

    seconds: time limit for reading the headers of a folder's files. side: side of the Resize that the transforms begin with; 0:
    none. notes: gets a line about images that cannot be read.
    """
    import numpy as np

    n = len(dataset)
    order = np.random.default_rng(1).permutation(n)[:_MOST_LOOKED_AT]
    found: dict[str, list[_Seen]] = {}
    end = time.perf_counter() + seconds
    looked_at = n_bad = 0
    first = ""
    for number in map(int, order):
        if looked_at >= 64 and time.perf_counter() > end:
            break
        looked_at += 1
        try:
            form, height, width = _look(dataset, number, image)
        except PenstockError as error:
            n_bad += 1
            first = first or str(error).rstrip(".")
            continue
        found.setdefault(form, []).append(_Seen(height * width, number, _pixels_after(height, width, side)))
    if not found:
        raise ArgumentError(f"{dataset.path}: no image of the field {image!r} could be read; the first: {first}")
    if n_bad and notes is not None:
        notes.append(f"{n_bad} of the {looked_at} images that were looked at could not be read, and are in no class; the first: "
                     f"{first}")  # fmt: skip
    classes = [part for form, images in sorted(found.items()) for part in _by_size(form, images, n / looked_at)]
    return sorted(classes, key=lambda c: -c.samples)


def _look(dataset: Dataset, number: int, image: str) -> tuple[str, int, int]:
    item = dataset.item(number, image)
    if item["form"] is None:
        info = image_info(dataset.read(number, image))
        return info.form, info.height, info.width
    return str(item["form"]), int(item["height"]), int(item["width"])


def _pixels_after(height: int, width: int, side: int) -> int:
    """Returns the pixels of an image after the Resize with which pack(resize=) stores it. Smaller images are not enlarged."""
    shorter, longer = min(height, width), max(height, width)
    return side * (side * longer // shorter) if 0 < side < shorter else height * width


def _by_size(form: str, images: list[_Seen], scale: float) -> list[Class]:
    """Divides the images of one form into parts with about equal total pixels, if the sizes differ much."""
    import numpy as np

    sizes = np.array(sorted(seen.pixels for seen in images), np.float64)
    low, high = np.percentile(sizes, [10, 90])
    cuts: list[int | None] = [0]
    if len(images) >= 64 and high > _WIDE * max(low, 1):
        whole = np.cumsum(sizes) / sizes.sum()
        for i in range(1, _MOST_SIZES):
            cut = int(sizes[np.searchsorted(whole, i / _MOST_SIZES)])
            if cut > max(cuts[-1] or 0, sizes[0]):
                cuts.append(cut)
    cuts.append(None)
    classes = []
    for start, stop in zip(cuts[:-1], cuts[1:], strict=True):
        inside = [seen for seen in images if seen.pixels >= (start or 0) and (stop is None or seen.pixels < stop)]
        if inside:
            mean = sum(seen.pixels for seen in inside) / len(inside)
            part = Class(form, start or 0, stop, max(1, round(len(inside) * scale)), mean, [seen.number for seen in inside])
            part.small, part.small_sd = (float(f([seen.small for seen in inside])) for f in (np.mean, np.std))
            classes.append(part)
    classes[0].low, classes[-1].high = 0, None
    return classes


def measure(
    classes: Sequence[Class],
    report: Mapping[str, Any],
    dataset: Dataset,
    image: str,
    options: Mapping[str, Any],
    seconds: float,
    say: Callable[[str], Any],
) -> list[str]:
    """Measures the costs of each class within `seconds`, and sets them. A class that cannot be measured keeps none.

    options: the arguments of the user's Loader. Returns notes.
    """
    own = report["subject"]["form"]
    if len(classes) == 1 and stored_form(own) == classes[0].stored:
        classes[0].form, classes[0].forms, classes[0].kept = own, report["forms"], report.get("kept") or {}
        _to_pixels(classes[0])
        return []
    notes: list[str] = []
    given = {**options, "image_field": image}
    batch = int(report["subject"]["batch_size"])
    for part in classes:
        numbers = _probed(dataset, part, image)
        images = [dataset.read(number, image) for number in numbers]
        given["boxes"] = probe.boxes_of(dataset, options.get("fields"), numbers)
        say(f"costs of {part.form} with {part.pixels / 1e6:.2f} Mpixel: {seconds / len(classes):.0f} s")
        same = stored_form(own) == part.stored
        wanted = tuple(report["forms"]) if same else probe.usual_forms(part.form)
        found = probe.costs(images, own if same else part.form, given, batch, wanted, probe.places_of(given),
                                     seconds / len(classes))  # fmt: skip
        part.forms, part.kept = found.forms, found.kept
        if same:
            part.form = own
        _to_pixels(part)
        notes += [note for note in found.notes if note not in notes]
    _scale(classes, report["forms"], own)
    return notes


def _probed(dataset: Dataset, part: Class, image: str) -> list[int]:
    """Returns the samples of a class to measure."""
    sizes = [float(share_nbytes(dataset.item(number, image))) for number in part.numbers]
    n = max(2, min(_PROBE_SAMPLES, int(_PROBE_NBYTES / max(sum(sizes) / len(sizes), 1))))
    return list(survey_of.spread(part.numbers, sizes, n))


def _to_pixels(part: Class) -> None:
    """Scales costs that were measured on few images to the class's mean pixels, which are known from many more images: the bytes of
    forms that do not depend on the stored bytes, the time of decoding, and the time of reading those bytes. The time of a hit on
    cached raw pixels belongs to the output, which has the same size for all images, so it is not scaled."""
    output = part.forms.get("raw", {}).get("cpu", {}).get("hit_cpu_seconds", 0.0)
    if part.pixels > 0:
        part.forms = {
            form: {place: _by_pixels(form, part, costs, output) for place, costs in places.items()}
            for form, places in part.forms.items()
        }


def _by_pixels(form: str, part: Class, costs: Mapping[str, float], output: float) -> dict[str, float]:
    ratio = part.pixels / costs["pixels"] if costs.get("pixels") else 1.0
    by_byte = 1.0 if probe.follows(form, part.form) else ratio
    found = {name: value * by_byte if name in ("nbytes", "nbytes_sd", "item_nbytes") else value for name, value in costs.items()}
    hit = costs.get("hit_cpu_seconds") or costs["cpu_seconds"]
    decoding = max(hit - output, 0.0)
    if "hit_cpu_seconds" in costs:
        found["hit_cpu_seconds"] = hit - decoding + decoding * ratio
    found["cpu_seconds"] = costs["cpu_seconds"] + decoding * (ratio - 1) + max(costs["cpu_seconds"] - hit, 0.0) * (by_byte - 1)
    return {**found, "pixels": part.pixels} if costs.get("pixels") else found


def _scale(classes: Sequence[Class], forms: Costs, own: str) -> None:
    """Scales the measured costs of all classes so that the mean over the classes with the form `own` equals the analysis's
    costs."""
    main = [part for part in classes if part.form == own and part.forms]
    weight = sum(part.samples for part in main)
    factors: dict[tuple[str, str, str], float] = {}
    for form, places in forms.items():
        for place, costs in places.items():
            for member in _SCALED:
                there = [part for part in main if member in part.forms.get(form, {}).get(place, {})]
                mean = sum(part.samples * part.forms[form][place][member] for part in there) / weight if weight else 0.0
                if len(there) == len(main) and mean > 0 and costs.get(member, 0.0) > 0:
                    factors[form, place, member] = costs[member] / mean
    for part in classes:
        part.forms = {
            form: {
                place: {
                    member: value * factors.get((form, place, member), factors.get((own, place, member), 1.0) if member in _CPU
                                                else 1.0)
                    for member, value in costs.items()
                }
                for place, costs in places.items()
            }
            for form, places in part.forms.items()
        }  # fmt: skip


_CPU = ("cpu_seconds", "cpu_sd_seconds", "hit_cpu_seconds")


# At the training size ------------------------------------------------------------------------------

_SMALLER = 0.9  # a form must have fewer pixels than this fraction of the original to be considered
_KEPT = {"raw": "raw", "pli-small": "pli", "pli-fast": "pli-fast"}  # the form of a cache that costs as much as a stored form


def add_training_size(classes: Sequence[Class], side: int) -> None:
    """Adds the costs of forms that are stored after Resize(side), with names such as "raw@256".

    They are not measured but derived. A cache at the training size was measured, and it keeps the same picture, so preparing costs
    the same. Reading costs as much per byte as for the whole image. The bytes of raw pixels follow from the image sizes. Classes
    whose images hardly become smaller, and forms whose cache was not measured, are left out.
    """
    for part in classes:
        whole_raw, kept_raw = part.forms.get("raw", {}).get("cpu"), part.kept.get("raw")
        if not whole_raw or not kept_raw or part.pixels <= 0 or not 0 < part.small < _SMALLER * part.pixels:
            continue
        made = {}
        for form, cache_form in _KEPT.items():
            whole, kept = part.forms.get(form, {}).get("cpu"), part.kept.get(cache_form)
            if whole and kept:
                nbytes = whole_raw["item_nbytes"] * part.small / part.pixels * kept["item_nbytes"] / kept_raw["item_nbytes"]
                made[f"{form}@{side}"] = {"cpu": _stored_small(part, whole, kept, nbytes)}
        part.forms = {**part.forms, **made}


def _stored_small(
    part: Class, whole: Mapping[str, float], kept: Mapping[str, float], nbytes: float
) -> dict[str, float]:
    """Returns the costs of a form at the training size. whole: costs of the form at full size. kept: costs of a cache that keeps
    the form."""
    hit = kept.get("hit_cpu_seconds") or kept["cpu_seconds"]
    reading = max(whole["cpu_seconds"] - (whole.get("hit_cpu_seconds") or whole["cpu_seconds"]), 0.0)
    own = part.forms.get(part.form, {}).get("cpu", {})
    return {
        "cpu_seconds": hit + reading * nbytes / max(whole["nbytes"], 1.0),
        "hit_cpu_seconds": hit,
        "nbytes": nbytes,
        "nbytes_sd": nbytes * part.small_sd / part.small,
        "item_nbytes": nbytes,
        "reads": 1.0,
        "pixels": part.small,
        "pack_seconds": own.get("cpu_seconds", 0.0) + whole.get("pack_seconds", 0.0) * part.small / part.pixels,
    }
