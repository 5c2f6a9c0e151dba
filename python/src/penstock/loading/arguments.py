"""Classes that group the rarer arguments of a loader. Their objects cannot be changed after they were made.

``Loader(reading=ps.Reading(page_cache="direct"))``: each object is the value of one argument of :class:`penstock.Loader`. For the
most common setting, some arguments also take a plain value: ``cache="8GiB"`` means ``cache=ps.CacheUse("8GiB")``. Values are
checked when the loader is made, and errors name the object and its member. Objects with equal members are equal. An object can be
pickled if its members can.
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
    """``Loader(order=Pages(...))``: the page-aware order. ``order="pages"`` uses the defaults.

    Args:
        page_samples: the number of samples in a page, which are neighbours on disk; None: 16. On storage where requests are slow,
            a page is read in one request if a quarter of ``host_memory`` holds two windows. In a plain folder, samples are
            neighbours by path, and files are read in the order in which the disk stores them (docs/python.md).
        window_pages: the number of pages whose samples are mixed with each other; None: 64.
    """

    page_samples: int | None = None
    window_pages: int | None = None


@dataclass(frozen=True)
class OnError:
    """``Loader(on_error=OnError(...))``: what the loader does with bad samples. ``on_error="skip"`` uses the defaults.

    Args:
        action: "raise", "skip" or "replace", as for ``on_error`` of :class:`Loader`.
        max_errors: an epoch with more bad samples ends with a LimitError; None: no limit. Samples for which ``Functions.sample``
            raises an error are counted separately.
        on_empty: with "skip": what happens with a batch that has only bad samples. "pad": it gets one other sample, drawn as
            for "replace" and counted as replaced. "empty": the batch is delivered without rows, and an epoch in which a rank
            has no good sample ends with an error. Either way, every rank gets ``len(loader)`` batches, whatever samples are
            bad. None: "pad".
    """

    action: str
    max_errors: int | None = None
    on_empty: str | None = None


@dataclass(frozen=True)
class CacheUse:
    """``Loader(cache=CacheUse(...))``: a cache, and what it keeps. ``cache="8GiB"`` keeps the stored bytes.

    Args:
        cache: as for ``cache`` of :class:`Loader`: bytes, a text like "8GiB" or "50%", a :class:`Cache`, "host", "auto" or None.
        form: the form in which the cache keeps images that are decoded. "stored": the stored bytes. "pli-jpeg": the worker that has
            decoded a JPEG re-codes it as pli-jpeg when the cache admits it. It then takes less of the cache, and later decodes are
            faster. The batches are the same to the bit. The first epoch takes longer: with RandomResizedCrop(224) of ImageNet
            photographs about four times the processor time. For re-coding, each worker has an equal part of an eighth of
            ``host_memory``, at most 64 MiB. JPEGs that need more memory, that pli-jpeg does not support, or that it does not make
            smaller are kept as they are stored; ``stats()["cache"]["not_recoded"]`` counts them. ``Decoding.scaled`` has no effect
            on re-coded images, as it has none on JPEGs. "pli": like "pli-jpeg", and lossless images, masks and raw pixels are kept
            as PLI of the small tier; "pli-fast": like "pli" with the fast tier. "raw": all images and masks are kept as pixels, for
            tiny images or much memory; an image whose pixels do not fit is kept as it is stored. Images with a palette are always
            kept as stored, lossy WebP except with "raw". Loaders share items only if they use the same form. All forms but "stored"
            need a cache or a fleet (with "auto" they have an effect only if one is chosen). A fleet gets items in this form, too,
            unless it is longer than the stored one.
        resolution: "full", or "training": the cache keeps images and masks after those operations at the beginning of their
            transforms that are the same for every sample (Resize, CenterCrop, Pad), and a hit continues with the operations after
            them. The batches are the same to the bit, including random parameters, boxes and keypoints. The cache applies as many
            of these first operations as leave the fewest pixels. With ``form`` "raw" it keeps pixels, with "pli-fast" a PLI of the
            fast tier, with other forms a PLI of the small tier. Images that do not get smaller, and fields whose transforms do not
            begin with such operations, are kept whole, in ``form``. So are masks that are rotated because of their image's EXIF
            orientation, and in the host cache all masks that follow an image. Loaders share items if their transforms begin alike.
            If no image's transforms begin with a Resize or a CenterCrop, an error names the operation that prevents it, such as
            RandomResizedCrop. Not with a fleet, ``Decoding.scaled`` or batches on a GPU. ``stats()["cache"]["hits_training"]``
            counts such hits.
        admit: which samples the cache admits: a :class:`CachePlan`, a bool for each sample of the whole data set, or the path of
            such an array in numpy's format (.npy). None: all, in the order in which they are read. With a ``plan``, None means the
            samples that the plan caches. They are computed for this data set, equally in all processes (:meth:`Plan.cache_plan`).
        recode: when images are re-coded in ``form``. "at-once": when they are admitted, which makes the first epoch long. "idle":
            the cache first keeps them as they are stored, and idle workers re-code them: while they wait for the training, between
            epochs, and in later epochs until all are done. In the host cache, the service re-codes its items, one at a time for
            each idle worker. The batches are the same to the bit, whatever has been re-coded so far. The cache reserves 1/32 of its
            bytes for this work. ``stats()["cache"]["to_recode"]`` counts the items that still wait. Only with a cache, at least one
            worker, a ``form`` other than "stored" and ``resolution`` "full", and without a fleet. A ``plan`` uses "idle" where it
            is possible.
    """

    cache: _cache.Cache | int | str | None = "auto"
    form: str = "stored"
    resolution: str = "full"
    admit: Any = None
    recode: str = "at-once"


@dataclass(frozen=True)
class Share:
    """``Loader(share=Share(...))``: a group of loaders that share their batches. ``share="name"`` uses the default.

    Args:
        group: name of the group; None: no group.
        wait: seconds without an answer after which the host service counts as lost, above 0, to 86400.
    """

    group: str | None
    wait: float = 10.0


@dataclass(frozen=True)
class Gpu:
    """``Loader(device=Gpu(...))``: puts batches on a GPU, and says which work the GPU does. ``device="cuda"`` uses the defaults.

    Args:
        device: "cuda", "cuda:1" or a torch.device.
        decode: where images are decoded: "auto", "cpu" or "gpu". The batches are the same. Images that the GPU cannot decode (JPEG,
            PNG, WebP files) are decoded by the CPU and then prepared by the GPU: see ``stats()``. JPEGs stored as pli-jpeg, in the
            data set or in a cache (``CacheUse.form``), are decoded on the GPU. With "cpu" the CPU also makes features of sound.
        part: the fraction of each batch that the GPU decodes, above 0 to 1, with ``decode`` "auto" or "gpu"; None: all.
        memory: hard limit of memory on the GPU: bytes, or a text like "2GiB"; None: all that is free.
    """

    device: Any = "cuda"
    decode: str = "auto"
    part: float | None = None
    memory: int | str | None = None


@dataclass(frozen=True)
class Forms:
    """``Loader(forms=Forms(...))``: chooses which stored form of a sample is read. ``forms={"pli": 0.6, "raw": 0.4}`` means
    ``Forms({"pli": 0.6, "raw": 0.4})``.

    Args:
        parts: ``{"pli": 0.6, "raw": 0.4}``: for a packed data set that stores samples in several forms: the fraction of the rows
            whose first image is read in each form. Keys are forms, or numbers of variants. If a sample lacks the form chosen for
            its row, it is read as without ``parts``. ``stats()["forms"]`` counts the rows. Not with ``share``. A cache keeps each
            form of a sample separately, so with a cache ``choice="sample"`` is better.
        allowed: ``{"image": ["raw", "jpeg"]}``: forms allowed per field. The first variant with such a form is read; a sample
            without one is a bad sample (``on_error``). None: the first variant, whatever its form.
        choice: how the form of a row is chosen. "batch": each batch has the given fractions, rounded to rows (less than a row off
            for two forms), and the next batch makes up for the rounding. The form depends on the row's number among the rank's rows
            of the epoch, so it is the same after a resume. Only forms with equal pixels, by the data set's checksums, replace each
            other, so the batches are the same as without ``parts``. "measured": like "batch", and the fractions move towards the
            form that uses less of the scarce resource, cores or storage. "sample": depends on the sample and ``seed``, and is the
            same in all epochs. Pixels may differ (near-lossless or smaller copies), and then the batches differ from those without
            ``parts``. Only "sample" is possible if ``encoded`` or ``Decoding.scaled`` applies to the image, because these give
            other values for other forms.
    """

    parts: Mapping[str | int, float] | None = None
    allowed: Mapping[str, Sequence[str]] | None = None
    choice: str = "batch"


@dataclass(frozen=True)
class Reading:
    """``Loader(reading=Reading(...))``: how the loader reads the storage.

    Args:
        storage: "auto" (io_uring if the kernel allows it, else threads), "threads", "uring", or "memory" (all files are read into
            memory).
        page_cache: "keep" the bytes that were read in the kernel's page cache, "drop" them from it, or bypass it ("direct").
        io_threads: number of reading threads for storage "threads", 1 to 1024; None: 4.
        verify: compare the checksums of the bytes that were read.
        throttle: (bytes per second, seconds per request): slows reads down, for tests and predictions; 0 means no limit. A third
            number, 1 to 256, is how many requests are served at a time. With 1 their latencies add up, as on a disk. None: no
            limit.
    """

    storage: str = "auto"
    page_cache: str = "keep"
    io_threads: int | None = None
    verify: bool = True
    throttle: tuple[float, float] | tuple[float, float, int] | None = None


@dataclass(frozen=True)
class Decoding:
    """``Loader(decoding=Decoding(...))``: how images are decoded to pixels.

    Args:
        bits: bits of images while operations run: 8 or 16; or a dict per field, also for masks. None: 8 for uint8, 16 for uint16,
            and for floats the bits of each image, so a 16-bit image is not reduced to 8 bits first. Floats are v / 255 or v /
            65535, so images of different bits may be mixed in a field. ``fill`` of operations is in units of 8 bits (0..255) unless
            ``bits`` or dtype "uint16" selects 16 bits.
        ignore_orientation: do not apply the EXIF orientation.
        scaled: decode pli-jpeg images at a half, a quarter or an eighth of their size, and resize from there, if the chain makes a
            crop or the whole image smaller by more than 2, 4 or 8 on both sides. This is an approximation. RandomResizedCrop(224)
            of photographs of 2 to 3 Mpixel (quality 90, 4:2:0): twice the images/s, 42.9 dB PSNR against the exact result (the
            worst crop 35.5), a mean difference of 0.7 levels of 255, at most 20 in the median crop and 45 in any. Few ImageNet
            files are large enough; for those it is 42.6 dB and 1.0 levels (bench/loader/scaled_decode.py). Only for batches in host
            memory. Or a dict per field.
        max_pixels: larger images are errors; None: 2**28.
    """

    bits: int | Mapping[str, int] | None = None
    ignore_orientation: bool = False
    scaled: bool | Mapping[str, bool] = False
    max_pixels: int | None = None


@dataclass(frozen=True)
class Annotations:
    """``Loader(annotations=Annotations(...))``: how masks, boxes, keypoints and rows per box follow the image's operations.

    Args:
        per_box: names of keypoints and ragged arrays (such as labels) with a row for each box. When a box is dropped, its row is,
            too (keypoints may have k rows for each box: ``points.reshape(-1, k, 3)``). For a data set with several boxes fields:
            ``{"labels": "boxes", ...}``. None: not stated. If boxes may then be dropped, a field that seems to have such rows (in
            the first 64 samples) is an error. ``()``: no field has such rows.
        min_area, min_visibility: when ``transforms`` crop or resize, a box is dropped if less than ``min_area`` pixels^2 of it
            remain, or less than the fraction ``min_visibility``, 0 to 1, of the area that it would have without being cut off: the
            rule of torchvision's SanitizeBoundingBoxes. A ``SanitizeBoxes`` among the operations has its own rule of areas; then
            ``min_area`` must not be given. ``stats()["boxes"]["dropped"]`` counts dropped boxes. Boxes are always clipped to the
            picture. Keypoints outside of the picture keep their coordinates and get visibility 0.
        keep_boxes: drop no boxes, so some may have no area.
        made_for: "upright" or "stored": for images with an EXIF orientation, the picture that masks, boxes and keypoints were made
            for; or a dict per field. It overrides what the data set states (plain folders state nothing). Values made for the
            stored picture are rotated with it. With ``Decoding.ignore_orientation``, values made for the upright picture are
            rotated back. If a sample's image is rotated and neither a statement nor a mask's size decides, the sample is an error.
        own_geometry: names of images and masks that do not share the sample's geometry. Their chains may contain any operations,
            and random operations draw separately for each of them.
        pairs: left and right points, which flips swap: a list of pairs, YOLO's ``flip_idx`` or a :class:`Keypoints`; or a dict per
            field.
        geometry: add to each batch how pixels were moved, for the sample's image, its views and the fields of ``own_geometry``.
            ``<name>_geometry``: float64 (N, 3, 3), or (N, views, 3, 3), matrices that map (x, y, 1) on the original picture to the
            delivered one. ``<name>_original_size``: int64 (N, 2), height and width. ``sample_name``: a list of the samples' names,
            for folders their paths. :func:`to_original` maps boxes, keypoints and masks back. With Mosaic, each tile has its own
            entry (docs/detection.md). Not with ElasticTransform or policies such as RandAugment, which no matrix describes.
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
    """``Loader(functions=Functions(...))``: your own functions on samples and batches, and the workers that run them.

    Args:
        sample: called with a dict of each sample, decoded and after ``transforms``: its fields and ``"index"``. Numbers are
            Python's; arrays or tensors (by ``output``) may be changed in place. It returns a dict with the same names for all
            samples. If it has a second parameter without a default, or one named ``rng`` or ``generator``, it gets a
            :class:`numpy.random.Generator` that depends only on seed, epoch, sample and draw. Returned values of the same shape and
            dtype are stacked; ints become int64, floats float32, anything else a list. Padded rows include their padding and
            counts; not with ``ragged="offsets"``. :meth:`Loader.fetch` also calls it.
        batch: called with the batch's dict, after ``sample``, and a generator that depends on seed, epoch and the batch's first
            row. Its result is delivered, or goes to ``collate_fn`` in the calling thread.
        workers: number of threads or processes that run these functions. Each has one batch at a time and may be up to two batches
            ahead. 0: the calling thread runs them. Order and results are the same. An exception that ``on_error`` does not handle
            becomes a :class:`~penstock.errors.FunctionError` with batch, sample and the function's traceback, and the batch comes
            next (:meth:`Loader.skip_batch` skips it). ``stats()["function"]`` has counts and times. With ``share`` each job runs
            its own functions.
        kind: "threads", for functions that release Python's lock (GIL), as numpy's and torch's large operations do; or "processes",
            whose arrays lie in anonymous shared memory and are never pickled. The shared memory has its own limit of
            ``host_memory``, in addition to the memory that the loader uses. A process that ends or hangs raises a FunctionError.
            Threads share the objects that a function uses. If an object has a state, such as random numbers of its own, make one
            for each thread (:class:`threading.local`), or take processes: otherwise results depend on timing.
        start: how processes start: "fork", "spawn" or "forkserver". All but "fork" need functions at the top of a
            module; "fork" must not be used for functions that use CUDA.
        timeout: seconds that one batch may take in a worker, above 0, to 86400; None: no limit.
    """

    sample: Callable[..., Any] | None = None
    batch: Callable[..., Any] | None = None
    workers: int = 0
    kind: str = "threads"
    start: str = "fork"
    timeout: float | None = 300.0


@dataclass(frozen=True)
class Padded:
    """``Loader(ragged=Padded(...))``: pads rows of different shapes to one array. ``ragged="padded"`` uses the defaults.

    Args:
        value: the value that fills shorter rows. None: 0, or -1 for arrays of signed integers, such as labels.
        multiple: padded height and width of images and masks are rounded up to multiples of this, such as 32; 1 to 65536.
    """

    value: float | None = None
    multiple: int = 1


@dataclass(frozen=True)
class Watch:
    """``Loader(watch=Watch(...))``: what a loader reports while it works.

    Args:
        live: write a line to stderr while training: the time of steps, and how long they wait for data. On a terminal it is
            rewritten once a second, else a line is added every 10 seconds. Only rank 0 writes it. None: True if PENSTOCK_LIVE is
            set and not "0".
        trace: file for the events of all threads, as JSON for ui.perfetto.dev and chrome://tracing; "%p" in it stands for the
            process id. None: the file that PENSTOCK_TRACE names, if set; "": none. If another process or loader writes that file,
            ".2" to ".64" is appended. The file is complete when the loader is closed; the file of a killed process can be loaded,
            too. With PENSTOCK_NVTX=1, the same spans are ranges of NVIDIA's profilers.
    """

    live: bool | None = None
    trace: str | os.PathLike[str] | None = None


door(__name__, "penstock.arguments")
