"""Groups of a loader's rarer arguments: small objects that cannot be changed after they were made.

``Loader(reading=ps.Reading(page_cache="direct"))``: each object is the value of one argument of :class:`penstock.Loader`. Some
arguments take a plain value, too, for what is asked for most: ``cache="8GiB"`` is ``cache=ps.CacheUse("8GiB")``. Values are
checked when the loader is made, and errors name the object and its member. Objects with equal members are equal, and can be
pickled if their members can.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..base.public import door
from ..caching import cache as _cache
from ..data.schema import Keypoints

__all__ = [
    "Annotations",
    "CacheUse",
    "Decoding",
    "Forms",
    "Functions",
    "Gpu",
    "OnError",
    "Padded",
    "Pages",
    "Reading",
    "Share",
    "Watch",
]


@dataclass(frozen=True)
class Pages:
    """``Loader(order=Pages(...))``: the page-aware order. ``order="pages"`` has the defaults.

    Args:
        page_samples: the number of neighbours on disk in a page; None: 64. They are read in one request if
            ``prefetch * batch_size`` is large beside ``page_samples * window_pages``. In a plain folder they are
            neighbours by path, and files are read in the order of the disk (docs/python.md).
        window_pages: the number of pages that are mixed with each other; None: 64.
    """

    page_samples: int | None = None
    window_pages: int | None = None


@dataclass(frozen=True)
class OnError:
    """``Loader(on_error=OnError(...))``: what becomes of bad samples. ``on_error="skip"`` has the defaults.

    Args:
        action: "raise", "skip" or "replace", as ``on_error`` of :class:`Loader` has them.
        max_errors: if an epoch has more bad samples, it ends with a LimitError; None: no limit. Samples of which
            ``Functions.sample`` raises are counted apart.
        on_empty: with "skip", for a batch of bad samples alone: "pad" gives it one other sample, drawn as "replace" does
            (counted as replaced); "empty" delivers it without rows, and an epoch of a rank without any good sample ends
            with an error. In both cases every rank gets ``len(loader)`` batches, whatever samples are bad. None: "pad".
    """

    action: str
    max_errors: int | None = None
    on_empty: str | None = None


@dataclass(frozen=True)
class CacheUse:
    """``Loader(cache=CacheUse(...))``: a cache, and what it keeps. ``cache="8GiB"`` is a cache of stored bytes.

    Args:
        cache: as ``cache`` of :class:`Loader` takes it: bytes, a text like "8GiB" or "50%", a :class:`Cache`, "host",
            "auto" or None.
        form: the form in which the cache keeps images that are decoded. "stored": the stored bytes. "pli-jpeg":
            a JPEG is re-coded as pli-jpeg when it is admitted, by the worker that has just decoded it. It takes less
            of the cache, and each later decode is faster. The batches are the same to the bit. The first epoch takes
            longer: with RandomResizedCrop(224) of ImageNet photographs about four times the processor time. Each
            worker has the same part of an eighth of ``host_memory`` for re-coding, at most 64 MiB. JPEGs that need
            more, that pli-jpeg does not take, or that it does not make smaller are kept as they are stored;
            ``stats()["cache"]["not_recoded"]`` counts them. ``Decoding.scaled`` has no effect on re-coded images, as on
            JPEGs. "pli": the same, and lossless images, masks and raw pixels are kept as PLI, small tier; "pli-fast":
            the same with PLIs of the fast tier. "raw": all images and masks are kept as pixels, for tiny images or
            much memory; an image whose pixels find no room is kept as it is stored. Images with a palette always are;
            lossy WebP is but for "raw". Loaders share items only if they need them in the same form. All but "stored"
            need a cache or a fleet (with "auto" they have an effect if one is chosen).
            A fleet gets items in this form, too, unless that is longer than the stored one.
        resolution: "full", or "training": the cache keeps images and masks after those operations at the beginning of
            their transforms that are the same for every sample (Resize, CenterCrop, Pad), and a hit begins after them.
            The batches are the same to the bit, random parameters, boxes and keypoints included. Of these operations
            the first ones are applied that leave the fewest pixels. ``form`` "raw" keeps pixels, "pli-fast" a PLI
            of the fast tier, every other form a PLI of the small tier. Images that they do not make smaller, and fields
            whose transforms do not begin so, are kept whole, in ``form``; so are masks that are turned because
            of their image's EXIF orientation, and in the host cache all masks that follow an image. Loaders share items
            if their transforms begin alike. An error names the operation that is in the way if no image's transforms
            begin with a Resize or a CenterCrop, such as RandomResizedCrop. Not with a fleet, ``Decoding.scaled`` or
            batches on a GPU. ``stats()["cache"]["hits_training"]`` counts.
        admit: which samples the cache admits: a :class:`CachePlan`, a bool for each sample of the whole data set, or
            the path of such an array in numpy's format (.npy). None: all, in the order in which they are read; with a
            ``plan``, those that it caches, which are chosen anew for this data set, the same in all processes
            (:meth:`Plan.cache_plan`).
        recode: when images are re-coded in ``form``. "at-once": when they are admitted, which makes the first epoch long.
            "idle": the cache keeps them as they are stored at first, and workers that have nothing to prepare re-code
            them: while they wait for the training, between epochs, and in later epochs until all are done. The host
            service re-codes the items of its cache, one at a time for each such worker. The batches are the same to the
            bit, whatever was re-coded before. The cache keeps 1/32 of its bytes as room for it.
            ``stats()["cache"]`` counts in ``to_recode`` the items that still wait. Only with a cache, at least one
            worker, a ``form`` other than "stored" and ``resolution`` "full", and without a fleet; of a mixture only
            with the host cache. A ``plan`` says "idle" where it can be done.
    """

    cache: _cache.Cache | int | str | None = "auto"
    form: str = "stored"
    resolution: str = "full"
    admit: Any = None
    recode: str = "at-once"


@dataclass(frozen=True)
class Share:
    """``Loader(share=Share(...))``: a group that shares batches. ``share="name"`` has the default.

    Args:
        group: its name; None: no group.
        wait: seconds of silence after which the host service counts as lost, above 0, to 86400.
    """

    group: str | None
    wait: float = 10.0


@dataclass(frozen=True)
class Gpu:
    """``Loader(device=Gpu(...))``: puts batches on a GPU, and says which work the GPU does. ``device="cuda"`` has the defaults.

    Args:
        device: "cuda", "cuda:1" or a torch.device.
        decode: where images are decoded: "auto", "cpu" or "gpu". The batches are the same; images that the GPU cannot
            decode (JPEG, PNG, WebP files) the CPU decodes, and the GPU prepares them: see ``stats()``. JPEGs kept as
            pli-jpeg, in the data set or in a cache (``CacheUse.form``), are decoded on the GPU.
        part: the part of each batch that the GPU decodes, above 0 to 1, with ``decode`` "auto" or "gpu"; None: all.
        memory: hard limit on the GPU: bytes, or a text like "2GiB"; None: all that is free.
    """

    device: Any = "cuda"
    decode: str = "auto"
    part: float | None = None
    memory: int | str | None = None


@dataclass(frozen=True)
class Forms:
    """``Loader(forms=Forms(...))``: chooses which stored form of a sample is read. ``forms={"pli": 0.6, "raw": 0.4}`` is short
    for ``Forms({"pli": 0.6, "raw": 0.4})``.

    Args:
        parts: ``{"pli": 0.6, "raw": 0.4}``: where samples of a packed data set are stored in several forms, the part of the
            rows of its first image that are read in each. Keys are forms, or numbers of variants. A sample that lacks its
            row's form is read as without ``parts``. ``stats()["forms"]`` counts. Not with ``share``; a cache keeps each form
            of a sample by itself, so with one "sample" is the better choice.
        allowed: ``{"image": ["raw", "jpeg"]}``: forms allowed per field: of each sample the first variant of
            such a form; a sample that has none is a bad sample (``on_error``). None: the first variant, whatever its form.
        choice: "batch": each batch has its parts, to less than a row for two forms, and the next one makes up for the
            rest. Which form a row has follows from its number among the rank's rows of the epoch, the same after a resume.
            Only forms whose pixels are equal, by the data set's checksums, take each other's place, so the batches are those
            without ``parts``. "measured": the same, and parts move towards the form that takes less of the resource that is
            short, cores or storage. "sample": by the sample and ``seed``, the same in all epochs; pixels may differ
            (near-lossless or smaller copies), and then the batches are others than without ``parts``. With ``encoded`` or
            ``Decoding.scaled`` for that image, which give other values for other forms, only "sample" is possible.
    """

    parts: Mapping[str | int, float] | None = None
    allowed: Mapping[str, Sequence[str]] | None = None
    choice: str = "batch"


@dataclass(frozen=True)
class Reading:
    """``Loader(reading=Reading(...))``: how storage is read.

    Args:
        storage: "auto" (io_uring if the kernel allows it, else threads), "threads", "uring", "memory".
        page_cache: "keep" the bytes read in the kernel's cache, "drop" them from it, or read around it ("direct").
        io_threads: readers of storage "threads", 1 to 1024; None: 4.
        verify: compare checksums of the bytes read.
        throttle: (bytes per second, seconds per request) to slow reads down, 0 for none; for tests and predictions. A
            third number, 1 to 256: so many requests are served at a time. With 1 their latencies add up, as on a disk.
            None: no limit.
    """

    storage: str = "auto"
    page_cache: str = "keep"
    io_threads: int | None = None
    verify: bool = True
    throttle: tuple[float, float] | tuple[float, float, int] | None = None


@dataclass(frozen=True)
class Decoding:
    """``Loader(decoding=Decoding(...))``: how images become pixels.

    Args:
        bits: of images while operations run: 8 or 16; or a dict per field, also for masks. None: 8 for uint8, 16
            for uint16, and for floats each image's own: a 16-bit image is not reduced to 8 bits first. Floats are
            v / 255 or v / 65535, so a field may mix depths. ``fill`` of operations is in units of 8 bits (0..255)
            unless ``bits`` or dtype "uint16" selects 16 bits.
        ignore_orientation: leave the EXIF orientation unapplied.
        scaled: decode pli-jpeg images at a half, a quarter or an eighth of their size, and resize from
            there, if the chain makes a crop or the whole image smaller by more than 2, 4 or 8 on both sides: an
            approximation. RandomResizedCrop(224) of photographs of 2 to 3 Mpixel (quality 90, 4:2:0): twice the
            images/s, 42.9 dB PSNR from the exact result (the worst crop 35.5), 0.7 levels of 255 in the mean, 20 at
            most in the median crop and 45 in all. Few ImageNet files are large enough; for them it is 42.6 dB and
            1.0 levels (bench/loader/scaled_decode.py). For batches in host memory only. Or a dict per field.
        max_pixels: larger images are errors; None: 2**28.
    """

    bits: int | Mapping[str, int] | None = None
    ignore_orientation: bool = False
    scaled: bool | Mapping[str, bool] = False
    max_pixels: int | None = None


@dataclass(frozen=True)
class Annotations:
    """``Loader(annotations=Annotations(...))``: how masks, boxes, keypoints and rows per box follow the image.

    Args:
        per_box: names of keypoints and ragged arrays (such as labels) with a row for each box, which is dropped
            with its box (keypoints may have k rows for each: ``points.reshape(-1, k, 3)``); for a data set with
            several boxes fields ``{"labels": "boxes", ...}``. None: not stated.
            Then, if boxes may be dropped, a field that seems to have such rows (in the first 64 samples) is an
            error. ``()``: no field has.
        min_area, min_visibility: where ``transforms`` crop or resize, a box is dropped if less than ``min_area``
            pixels^2 of it is left, or less than the part ``min_visibility``, 0 to 1, of the area that it would
            have without being cut off: the rule of torchvision's SanitizeBoundingBoxes. A ``SanitizeBoxes`` among the
            operations has the rule of areas itself; then ``min_area`` must not be given.
            ``stats()["boxes"]["dropped"]`` counts them. Boxes are always clipped to the picture. Keypoints outside
            of it keep their coordinates and get visibility 0.
        keep_boxes: drop none, so that some have no area.
        made_for: "upright" or "stored": for images with an EXIF orientation, the picture that masks, boxes and
            keypoints were made for; or a dict per field. It overrides the data set's statement (plain folders have
            none). Values made for the stored picture are rotated with it. With ``Decoding.ignore_orientation``, values made
            for the upright picture are rotated back. A sample whose image is rotated is an error if neither a
            statement nor a mask's size decides.
        own_geometry: names of images and masks that do not share the sample's geometry. Their chains may be any,
            and random operations draw for each of them separately.
        pairs: left and right points, which flips swap: a list of pairs, YOLO's ``flip_idx`` or a :class:`Keypoints`; or a dict per
            field.
        geometry: a batch also says how the pixels of the sample's image, of its views and of what ``own_geometry`` names were
            moved: ``<name>_geometry``, float64 (N, 3, 3), or (N, views, 3, 3), from (x, y, 1) on the original picture to the
            delivered one; ``<name>_original_size``, int64 (N, 2), height and width; and ``sample_name``, a list of the samples'
            names, in folders their paths. :func:`to_original` takes boxes, keypoints and masks back. With Mosaic it says so of
            each tile (docs/detection.md). Not with ElasticTransform, and policies such as RandAugment, which no matrix describes.
    """

    per_box: Iterable[str] | Mapping[str, str] | None = None
    min_area: float = 1.0
    min_visibility: float = 0.0
    keep_boxes: bool = False
    made_for: str | Mapping[str, str] | None = None
    own_geometry: Iterable[str] = ()
    pairs: Sequence[Sequence[int | str]] | Sequence[int] | Keypoints | Mapping[str, Any] | None = None
    geometry: bool = False


@dataclass(frozen=True)
class Functions:
    """``Loader(functions=Functions(...))``: your own functions on samples and batches, and who runs them.

    Args:
        sample: called with a dict of each sample, decoded and after ``transforms``: its fields, ``"index"``;
            numbers as Python's, arrays or tensors by ``output``, which may be changed in place. It returns a dict with the
            same names for all samples. With a second parameter that has no default, or is named ``rng`` or ``generator``,
            it gets a :class:`numpy.random.Generator` that depends on seed, epoch, sample and draw only. Values of one shape
            and dtype are stacked, ints become int64, floats float32, all else lists. Padded rows come with padding and
            counts; not with ``ragged="offsets"``. :meth:`Loader.fetch` calls it, too.
        batch: called with the batch's dict, after ``sample``, and a generator that depends on seed, epoch
            and the batch's first row. Its result is delivered, or goes to ``collate_fn`` in the calling thread.
        workers: threads or processes that run these functions, a batch each at a time, up to two batches each ahead.
            0: the calling thread. Order, and results, are the same. An exception, where ``on_error`` leaves it, is a
            :class:`~penstock.errors.FunctionError` with batch, sample and the function's traceback, and the batch comes
            next (:meth:`Loader.skip_batch`). ``stats()["function"]`` counts and times. With ``share`` each job runs its own
            functions.
        kind: "threads", for functions that release Python's lock, as numpy's and torch's large operations do; or
            "processes", whose arrays lie in anonymous shared memory and are never pickled. It is limited to
            ``host_memory``, beside the memory that it limits already. A process that ends or hangs is a FunctionError.
        start: how processes start: "fork", "spawn" or "forkserver". All but "fork" need functions at the top of a
            module; "fork" must not be used for functions that use CUDA.
        timeout: seconds that one batch may take in a worker, above 0, to 86400; None: any time.
    """

    sample: Callable[..., Any] | None = None
    batch: Callable[..., Any] | None = None
    workers: int = 0
    kind: str = "threads"
    start: str = "fork"
    timeout: float | None = 300.0


@dataclass(frozen=True)
class Padded:
    """``Loader(ragged=Padded(...))``: rows of several shapes become one array. ``ragged="padded"`` has the defaults.

    Args:
        value: the value after the end of shorter rows. None: 0; arrays of signed integers, such as labels, -1.
        multiple: padded height and width of images and masks become multiples of it, such as 32; 1 to 65536.
    """

    value: float | None = None
    multiple: int = 1


@dataclass(frozen=True)
class Watch:
    """``Loader(watch=Watch(...))``: what a loader reports while it works.

    Args:
        live: write a line to stderr while training: steps' time, and how long they wait for data. On a terminal once a
            second, in place; else every 10 seconds. Rank 0 alone writes it. None: if PENSTOCK_LIVE is set and not "0".
        trace: file for the events of all threads, as JSON for ui.perfetto.dev and chrome://tracing; "%p" in it stands
            for the process's number. None: PENSTOCK_TRACE names it, if set; "": none. If another process or loader
            writes that file, ".2" to ".64" is added. It is complete when the loader is closed; the file that a killed
            process leaves can be loaded, too. With PENSTOCK_NVTX=1 the same spans are ranges of NVIDIA's profilers.
    """

    live: bool | None = None
    trace: str | os.PathLike[str] | None = None


door(__name__, "penstock.arguments")
