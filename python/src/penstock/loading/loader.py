"""The loader: delivers batches in an order that is a pure function of (seed, epoch, data set)."""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .. import _native
from .. import transforms as _transforms
from ..base import options as _options
from ..base.public import door
from ..caching import cache as _cache
from ..caching import fleet as _fleet
from ..data.dataset import Dataset
from ..data.notebook import Batch
from ..errors import ArgumentError, PenstockError, StateError
from ..functions import calls, loop
from ..functions.counts import NO_FUNCTION
from ..functions.place import Place
from . import config as _loader_config
from . import convert, live, plan_file, shown, stages, table, tickets, tuples
from . import fields as _loader_fields
from . import options as _more
from . import ragged as _ragged
from . import stats as _stats
from . import weights as _weights
from .make import Maker
from .passes import Pass, exiting, refuse_copies
from .place import Placed

if TYPE_CHECKING:
    from typing import Self, Unpack

    from .arguments import (
        Annotations,
        CacheUse,
        Decoding,
        Forms,
        Functions,
        OnError,
        Padded,
        Pages,
        Reading,
        Share,
        Watch,
    )

__all__ = ["Loader"]

_alive: weakref.WeakSet[Loader] = weakref.WeakSet()
_log = logging.getLogger("penstock")


@atexit.register
def _close_all() -> None:
    """Ends the threads of all loaders while the interpreter still works. Batches stay valid."""
    exiting.set()
    for loader in list(_alive):
        loader._stop()


class Loader(Placed, tickets.LikeDataLoader):
    """Iterates over batches. One ``for`` loop is one epoch, and the epoch number advances by itself.

    An epoch begins when its second batch is requested. It is over when its last batch was received, whether more are requested or
    not. ``next(iter(loader))`` alone, or an unused ``iter()``, does not use up an epoch, unless the epoch has only one batch: the
    next ``for`` starts at the same place. A loop that is left later (``break``) has used up its epoch. ``set_epoch`` and
    ``load_state_dict`` choose another place. ``len(loader)`` counts the batches of a whole epoch; :attr:`remaining` and
    ``len(iter(loader))`` count those that the current iteration has still to deliver.

    A batch is a dict: the fields of the data set by name, and ``"index"``, the sample numbers (int64). Images are (N, C, H, W) or
    (N, H, W, C) arrays, uint8 unless the chain normalises or ``dtype`` says otherwise (floats without Normalize are scaled to
    0..1); masks (N, H, W); int fields int64 (N); float fields float32 (N). Arrays use the loader's memory without a copy. The
    memory of a batch is reused only when all its arrays are gone. A field is a list of arrays if its rows differ in shape; text is
    a list of str, JSON a list of objects, bytes a list of bytes. Sound is float32 (N, channels, samples), or (N, channels, bins,
    frames) after a spectrogram. Boxes and keypoints follow the geometry of the image.

    Rare arguments are members of small objects, such as :class:`Reading`. Old names of keywords are accepted until 1.0, with a
    warning that gives the new name.

    Args:
        dataset: a :class:`Dataset` or a path.
        batch_size: samples per batch and rank.
        shuffle: make a new global permutation in every epoch.
        seed: 0 to 2**64-1; decides the order and the augmentation. If ``weights`` or repeated ``indices`` deliver a sample several
            times in an epoch, it is augmented differently each time.
        transforms: a list of operations of ``penstock.transforms`` for the sample. Geometric operations (resize, crops, flips, pad)
            move its images, masks, boxes and keypoints together; colour operations and Normalize apply to its images. Or a list of
            operations on sound, for its audio fields. Or ``{"image": [...], "mask": [...], "audio": [...]}``, chains per field. A
            mask or further image without a chain follows the geometry of the sample's image (the field "image", else the first
            one). If it has a chain, the chain must contain that image's geometric operations (except for interpolation, antialias
            and fill); otherwise ArgumentError names both chains and the first difference. Masks are interpolated by nearest, or by
            nearest-exact if their own chain says so.
        device: "cpu" or None: batches are in host memory. "cuda", "cuda:1", a torch.device: arrays lie on that GPU, also those of
            boxes, images and other rows that differ in shape (``ragged``; images from a group, ``share``, need one size). Text,
            JSON, bytes and encoded items stay in host memory. A batch is ready on the stream that is current where it is received.
            Its memory is reused only after the stream that the array was handed to has passed its last use. The loader's kernels
            have CUDA's lowest priority, which is also the default; a model's kernels go first if they run on a stream of a higher
            priority, ``torch.cuda.Stream(priority=-1)``. A :class:`Gpu` also says who decodes, and limits the memory.
        dtype: dtype of images: "uint8", "uint16", "float16", "bfloat16" (torch only), "float32", also as a dtype of numpy or torch.
            None: float32 if the chain normalises, else uint8. Or a dict per field, also for masks: ``{"mask": "int64"}``, or
            "uint8", "uint16", "int32", "float32"; masks have their stored numbers. Without a dtype, masks are uint8 or uint16, as
            the first mask of the data set is stored. Sound is float32, or float16.
        layout: "NCHW", "NHWC", or "channels_last" (NCHW shape over NHWC memory); or a dict per field.
        channels: channels of images: 1, 3 or 4; "stored": each image keeps its own, 1 to 4 (a batch is a list of arrays if its
            images differ); None: 3, or 1 after ``Grayscale(1)``; or a dict per field.
        num_workers: number of decoding threads in this process. 0: the calling thread does all work. None: PENSTOCK_NUM_THREADS,
            else the cores that affinity and control groups allow the process, divided by the number of ranks that torchrun, Open
            MPI or srun started on this machine.
        drop_last: deliver only full batches; False: the last batch may be shorter.
        pad_epoch: without ``drop_last``, samples from the start of the epoch are repeated at its end, so that all ranks have
            equally many samples (like torch's DistributedSampler). False: no sample is repeated. All ranks together deliver each
            sample once, so ranks may differ by one sample and sometimes by one batch: for validation, without collective operations
            per batch. ``len()`` counts this rank's batches. Not with ``drop_last``.
        rank, world_size: this rank, and the number of ranks; give both or neither. Given values are fixed. Otherwise they are read
            whenever an epoch begins, so the loader may be made before ``init_process_group``, by Lightning or before ``mp.spawn``.
            Sources: torch.distributed if it is initialised, torchrun (RANK, WORLD_SIZE), Open MPI (OMPI_COMM_WORLD_RANK, ..._SIZE)
            or a Slurm step that srun started (SLURM_PROCID, SLURM_STEP_NUM_TASKS); else rank 0 of 1. An epoch under way keeps its
            ranks. ``stats()["ranks"]`` has their source; the logger "penstock" (INFO) reports it when they change.
        order: "sequential", "shuffled" or "pages", the page-aware order, which a :class:`Pages` describes in more detail. None:
            decided by ``shuffle``.
        indices: the samples to use, in this order, instead of all; positions in ``dataset`` if it is a view.
        weights: one per sample: samples are drawn with replacement, as many as the data set has.
        repeats: repeated augmentation: this many neighbouring rows have the same sample, each augmented differently. An epoch has
            as many rows as without ``repeats``, so it has 1 / repeats of the samples. ``repeats`` epochs in a row, beginning with a
            multiple of it, have each sample that often. Not with ``order="pages"``.
        on_error: what happens with bad samples: "raise", "skip" (the batch is shorter), or "replace" (by another sample). A bad
            sample is damaged, cut short, of an unsupported kind, a single missing file of a folder, or one for which
            ``Functions.sample`` raises an error. Bad samples are listed in :attr:`quarantine`. Other faults always end the epoch
            with their own error: a dead mount, a lost folder, a missing permission, a memory limit, an operation that cannot be
            applied. An :class:`OnError` also limits the number of bad samples.
        host_memory: hard limit on the memory for batches, read buffers and scratch: bytes, or a text like "4GiB". If it is scarce,
            loading takes longer, but no sample is lost. The arrays of a batch hold its memory as long as you keep them; but small
            arrays (up to 64 KiB, not pixels: labels, ``index``, boxes) are copies.
        pin_memory: True: batches in host memory use page-locked memory from the CUDA driver, from which ``tensor.to("cuda",
            non_blocking=True)`` copies while the CPU goes on. Without a driver or a GPU they use plain memory, which is counted in
            ``stats()["fallbacks"]["pin"]`` and reported by one warning. "auto": the same without a warning, and plain memory also
            if the driver refuses page-locked memory. Small copies (see ``host_memory``) and fields with rows of different shapes
            are in plain memory. You may drop a batch while CUDA's default stream, which torch usually uses, copies it on the GPU
            that is current where the loader is made (else GPU 0): its memory is written again only after the copy. Keep a batch
            that another stream copies until the copy is done. While the GPU is behind, more batches are made, within
            ``host_memory``. Tested without a GPU only.
        prefetch: number of batches prepared ahead, 1 or more. From the fourth epoch in a row on, they include the first batches of
            the next epoch, which are prepared while you have the last batches or validate; :meth:`stats` counts their reads when
            they are done.
        fields: names of the fields to deliver; None: all.
        encoded: names of image and audio fields to deliver as stored bytes.
        forms: ``{"pli": 0.6, "raw": 0.4}``: for a packed data set that stores samples in several forms: the fraction of the rows
            that is read in each form; a :class:`Forms` has more options. None: the first variant of each sample.
        views: several views of a sample's image (SimCLR, SwAV, DINO): ``{"global": (2, [...]), "local": (6, [...])}``, each with
            its own operations and random draws. ``batch["global"]`` is (N, 2, C, H, W). Operations alone, without a count, make one
            view, (N, C, H, W). ``(2, [...], "photo")`` also names the image; default: the sample's image. The operations must give
            all pictures one size. The image is decoded once for all its views if that decodes fewer pixels. View 0, the first, has
            the same random draws as ``transforms``. The image itself is delivered only if ``fields`` names it. Masks, boxes and
            keypoints do not follow views. ``dtype["image"]`` and the like also apply to its views. At most 64
            views; not with ``Decoding.scaled`` or ``mix`` (docs/views.md).
        mix: :class:`~penstock.transforms.MixUp`, ``CutMix``, or a list from which each batch draws one. Mixes the images of one
            size within the batch (the first image field) and converts ``label`` to float32 (N, classes). Random numbers depend on
            seed, epoch and the batch's first position; with another number of ranks, other images are paired. Not with masks, boxes
            or keypoints. Or one :class:`~penstock.transforms.Mosaic`, which moves masks, boxes and keypoints with the images and
            leaves labels as they are.
        output: "torch", "numpy", "dlpack" (objects with ``__dlpack__``, on a GPU also with ``__cuda_array_interface__``), or
            "auto": torch tensors if torch is installed and can be imported, else numpy arrays, or on a GPU "dlpack". It does not
            depend on what the process has imported before.
        as_tuple: True: a batch is (image, label): the first delivered image, and the int field "label", or the only int field. A
            list of names: a tuple of the arrays with these names, in that order. Not with ``collate_fn``.
        ragged: how rows of different shapes are collated: boxes, keypoints, arrays of any shape, and images, masks and sound of
            several sizes (docs/batches.md). "list": a list of arrays; images, masks and sound are one array if all rows of the
            batch happen to have one shape. "padded", or a :class:`Padded`: always one array (N, longest, ...), with int64
            ``<name>_counts`` (N), or for images and masks ``<name>_sizes`` (N, 2), height and width. "offsets": the rows one after
            another, (total, ...), with ``<name>_offsets`` (N + 1), as in torch.nested; images, masks and sound are then flat, with
            ``<name>_shapes``. Or a dict per field. None: "list". Fields whose rows have one shape are not affected.
        collate_fn: called with each batch's dict; its result is what the iteration yields.
        cache: memory that keeps stored bytes as they are read, until it is full, and evicts nothing; later epochs do not read these
            samples again. Bytes, or a text like "8GiB" or "50%" (of the data set's bytes): for this loader alone. A :class:`Cache`:
            shared by all loaders of this process that are given it. A cache is not part of ``host_memory``. "host": the host cache
            (:meth:`Cache.host`), which all processes of this user share; its service is started if none runs. "auto": the host
            cache if its service runs; else half of the available memory, if the data set is larger than the available memory (so
            the page cache cannot hold it) and this is the machine's only rank; else none. The logger "penstock" (INFO) reports the
            choice. None: no cache. ``stats()["cache"]`` has the counters. A :class:`CacheUse` also says in which form and
            resolution the cache keeps images, and which samples it admits.
        fleet: memcached servers that keep stored bytes for all ranks: a :class:`Fleet`, or its ``servers`` as text or list. The
            loader asks them for items that the cache does not have, and adds in the background items that they do not have either,
            so that all ranks together read each item from storage once. The cache does not keep items that a server on this host
            has. "auto": the servers of the variable PENSTOCK_FLEET, if it is set. None: no fleet. ``stats()["tiers"]`` has counts
            and times of cache, fleet and storage.
        share: name of a group, or a :class:`Share`. Loaders of this user on this machine that name the same group, data set, order,
            seed, fields and transforms get their batches from one preparation by the host service (``penstock serve``): each sample
            is read, decoded and augmented once per epoch for all of them (docs/sharing.md). Batches are the same to the bit as
            without ``share``, and may be written to. A loader that is far behind the others, or has no service, prepares its
            batches itself: see ``stats()["share"]``. ``cache="auto"`` then means no cache. For batches on a GPU, the CPUs prepare
            the rows and each loader copies them to its GPU; not with ``Gpu.decode="gpu"`` or ``Decoding.scaled``.
        plan: a result of :func:`penstock.plan`, or its file. The plan's number of threads, batches ahead, cache, placement and
            forms replace arguments that have their defaults, and the loader follows its schedule of sizes (:meth:`set`).
        reading: a :class:`Reading`: how storage is read.
        decoding: a :class:`Decoding`: how images become pixels.
        annotations: an :class:`Annotations`: how masks, boxes and keypoints follow the image.
        functions: a :class:`Functions`: your own functions on samples and batches.
        watch: a :class:`Watch`: a line of speeds while training, and a trace file.

    It is safe to leave a loop early: ``break``, exceptions, signal handlers and Ctrl-C lose and repeat nothing. A batch that you
    did not receive comes next, and the state says so (docs/guide/interrupts.md); :meth:`skip_batch` skips it. In a forked child the
    loader rebuilds itself at first use. A pickle contains its arguments and its state. Only one iteration at a time: a new
    ``iter()`` ends the previous one.
    """

    _assumed: Mapping[str, str] = {}  # argument not given by the user: the assumed value in words (stalls/measure/usual.py)

    def __init__(
        self,
        dataset: Dataset | str | os.PathLike[str],
        batch_size: int = 1,
        *,
        shuffle: bool = False,
        seed: int = 0,
        transforms: Mapping[str, Sequence[_transforms.Transform]] | Sequence[_transforms.Transform] | None = None,
        device: Any = "cpu",
        dtype: Any = None,
        layout: str | Mapping[str, str] = "NCHW",
        channels: int | str | Mapping[str, int | str] | None = None,
        num_workers: int | None = None,
        drop_last: bool = False,
        pad_epoch: bool = True,
        rank: int | None = None,
        world_size: int | None = None,
        order: str | Pages | None = None,
        indices: Any = None,
        weights: Any = None,
        repeats: int = 1,
        on_error: str | OnError = "raise",
        host_memory: int | str = "4GiB",
        pin_memory: bool | str = False,
        prefetch: int = 2,
        fields: Iterable[str] | None = None,
        encoded: Iterable[str] = (),
        forms: Mapping[str | int, float] | Forms | None = None,
        views: Mapping[str, Any] | None = None,
        mix: _transforms.Mix | Sequence[_transforms.Mix] | None = None,
        output: str = "auto",
        as_tuple: bool | Sequence[str] = False,
        ragged: str | Padded | Mapping[str, str | Padded] | None = None,
        collate_fn: Callable[[Any], Any] | None = None,
        cache: _cache.Cache | int | str | CacheUse | None = "auto",
        fleet: _fleet.Fleet | str | Iterable[str] | None = "auto",
        share: str | Share | None = None,
        plan: Any = None,
        reading: Reading | None = None,
        decoding: Decoding | None = None,
        annotations: Annotations | None = None,
        functions: Functions | None = None,
        watch: Watch | None = None,
        **older: Unpack[table.OldArguments],
    ) -> None:
        parameters = locals()
        given = {name: parameters[name] for name in table.PARAMETERS}
        self._start_with(table.flat(given, older, "Loader", 2)[0])

    @classmethod
    def _of(cls, flat: Mapping[str, Any]) -> Self:
        """Makes a loader from flat arguments (loading/table.py). Missing ones get their defaults."""
        loader = cls.__new__(cls)
        loader._start_with(table.completed(flat))
        return loader

    def _start_with(self, flat: Mapping[str, Any]) -> None:
        given = table.converted(flat)
        given["output"] = _options.output_kind(given["output"], given["device"])
        given["schedule"] = None  # only a plan has a schedule
        plan = given.pop("plan")
        if plan is None:
            return self._start(given, os.getpid())
        plan = plan_file.read(getattr(plan, "data", plan))
        self._start(plan_file.applied(given, plan), os.getpid())
        if warning := plan_file.foreign(plan, self._dataset._count):
            _log.warning("%s: %s", self._dataset.path, warning)

    def _start(self, given: dict[str, Any], maker: int) -> None:
        before = set(self.__dict__)  # to find the attributes of a subclass, which are pickled
        self._made_by = maker  # the process that made the loader; 0: it was unpickled
        dataset = given["dataset"]
        if not isinstance(dataset, Dataset):
            dataset = given["dataset"] = Dataset(dataset)
        self._given = given
        self._dataset: Dataset = dataset
        self._data = dataset._native.again()  # a separate handle, which stays open if the user closes the data set
        self._data_sources = self._data.sources()  # the sources of a mixture
        self._output: str = given["output"]
        self._collate: Callable[[Any], Any] | None = given["collate_fn"]
        if given["as_tuple"] is not False and self._collate is not None:
            raise ArgumentError("as_tuple is not for loaders with a collate_fn, which gets the batch's dict")
        self._names = tuples.names(given["as_tuple"], dataset, given)
        if given["rank"] is not None or given["world_size"] is not None:
            _options.ranks(given["rank"], given["world_size"])  # raises an error if they are wrong
        self._wrap = convert.wrapper(self._output)
        self._about = shown.about(dataset, given["transforms"])
        _ragged.check_names(given, dataset)
        fields = _loader_fields.FieldOptions(given, dataset, self._output)
        self._native_options = _more.native_options(given, dataset, fields.all())
        self._encoded, self._channels_last = fields.encoded, fields.channels_last
        self._labels = _more.add_mix(given, dataset, self._output == "torch", self._native_options)
        functions = calls.of(given)
        self._is_random = fields.is_random or given["mix"] is not None or calls.draws(functions)
        self._functions = functions and loop.Pipeline(functions, given, dataset, self._native_options["host_memory"])
        self._maker = Maker(self._functions)
        self._final: tuple[dict[str, Any], list[dict[str, Any]]] | None = None
        self._serial = 0  # number of the newest pass
        self._n_peeks = 0  # number of passes in a row that were left after their first batch
        self._start_place()
        self._cache, self._cache_choice = _cache.chosen(
            given["cache"], dataset._native.nbytes, given["storage"] == "memory", given["share"] is not None
        )
        no_fleet = given["fleet"] == "auto" and given["cache_resolution"] == "training"  # a fleet keeps whole images
        self._fleet = None if no_fleet else _fleet.chosen(given["fleet"], given["storage"] == "memory")
        if self._cache_choice:
            _log.info("%s: %s", dataset.path, self._cache_choice)
        self._changes = stages.Changes(given["schedule"], given["share"] is not None)
        self._weights = _weights.Weights(dataset, self._native_options)
        self._native = self._make_native()
        self._changes.begin(stages.Settings(*self._native.settings()))
        self._live = live.Live() if live.wanted(given["live"]) else None
        self._received = [Place(self._native.state(), 0, 0)]  # the place of the newest pass, which its Pass updates
        self._own_names = frozenset({*self.__dict__, "_own_names"} - before)
        _alive.add(self)

    # Arguments for the C library ---------------------------------------------------------------------

    def _make_native(self) -> _native.Loader:
        try:
            native = self._make_native_with_cache()
        except (PenstockError, OSError, MemoryError) as error:  # another user's service, or no memory
            if self._cache is None or self._cache._host is None or not self._cache_choice:
                raise
            self._cache, self._cache_choice = None, f"no cache: that of the host service fails: {error}"  # "auto" must not fail
            _log.warning("%s: %s", self._dataset.path, self._cache_choice)
            native = self._make_native_with_cache()
        if any(self._changes.made):
            native.set(*self._changes.made)
        if self._weights.changes:
            self._weights.apply(native, self._weights.changes)
        _cache.tell(self._dataset.path, native.stats()["host_reason"])
        return native

    def _make_native_with_cache(self) -> _native.Loader:
        options = dict(self._native_options)
        if self._cache is not None:
            options["cache"] = self._cache._open()
        if self._fleet is not None:
            options["fleet"] = self._fleet._open()
        if self._cache is None and self._cache_choice:  # "auto" chose no cache
            options.pop("cache_plan", None)
            del options["cache_resolution"], options["cache_recode"]
            if self._fleet is None:
                del options["cache_form"]
        return _native.Loader(self._dataset._native, options)

    def _cache_kept(self) -> tuple[str, str, str]:
        """Returns the choice of "auto" in words, and the form and resolution of the images in the cache."""
        given = self._given
        return self._cache_choice, *(("", "") if self._cache is None else (given["cache_form"], given["cache_resolution"]))

    # Iteration --------------------------------------------------------------------------------------

    def __getitem__(self, i: object) -> Any:
        raise TypeError(
            "a Loader gives batches by iteration, not samples by number: iterate over it, or give torch's DataLoader a "
            "penstock.TorchDataset"
        )

    def __iter__(self) -> Iterator[Any]:
        refuse_copies(self._dataset.path, self._made_by, self._given["world_size"])
        native = self._open()
        self._take_ranks(native)
        self._serial += 1
        self._warn_of_peeks()
        received = list(self._received)
        self._begin(native, self._pending or self._again(), received)
        newest = Pass(received, self, self._serial)
        self._newest = weakref.ref(newest)
        return newest

    def _warn_of_peeks(self) -> None:
        peeked = self._pending is None and self._received[0].taken == 1 and self._again() is not None
        self._n_peeks = self._n_peeks + 1 if peeked else 0
        if self._n_peeks == 3:
            text = "next(iter(loader)) gives the first batch of the same epoch each time: keep the iterator, or call set_epoch()"
            warnings.warn(text, stacklevel=3)

    def _open(self) -> _native.Loader:
        """Returns the native loader of this process. In a forked child, makes a new one first."""
        if self._closed:
            raise StateError("the loader is closed", dataset=self._dataset.path)
        if self._native.pid != os.getpid():
            state = self._received[0].state
            self._native = self._make_native()
            self._maker.begin()
            if self._functions is not None:
                self._functions.mend()
            if self._passing and self._ranks is not None:
                self._native.set_ranks(*self._ranks[:2])
                self._over = state[0] != self._epoch
                if not self._over:
                    self._native.resume(state)
            _alive.add(self)
        return self._native

    def _make(self, serial: int, here: Place) -> tuple[Any, Place] | None:
        """Makes the batch after `here` for the pass with number `serial`. See Pass."""
        if serial != self._serial:
            text = "this iterator ended when another one was made from the same loader"
            raise StateError(text, dataset=self._dataset.path)
        native = self._open()
        if here.taken:  # this is the request for the second batch
            self._asked = True
            if self._live is not None:
                self._live.batch(self, ends=False)
        made = None if self._over else self._maker.make(self, native, here)
        if made is None:
            self._passing, self._began = False, None
            if self._live is not None:
                self._live.batch(self, ends=True)
        return made

    def _arrays(self, batch: _native.Batch) -> dict[str, Any]:
        return self._named(convert.to_dict(batch, self._wrap, self._encoded, self._channels_last, self._labels), batch)

    def _named(self, arrays: Batch, batch: _native.Batch) -> Batch:
        """Adds to a batch its samples' names, if the user wants them, and what notebooks need to show the batch."""
        arrays.about = self._about
        if self._given["geometry"]:
            arrays[_loader_fields.NAME] = [self._data.name(sample) for sample in batch.samples()]
        return arrays

    def _deliver(self, batch: Any) -> Any:
        if isinstance(batch, tuple):
            arrays = batch[0]
        else:
            arrays = self._arrays(batch)
            if self._functions is not None:
                arrays = self._functions.here(batch, arrays, self._one)
        if self._collate is None:
            return arrays if self._names is None else tuples.of(arrays, self._names)
        try:
            return self._collate(arrays)
        except StopIteration as error:  # a StopIteration would look like the end of the epoch
            raise RuntimeError("collate_fn raised StopIteration") from error

    def fetch(self, samples: Sequence[int], epoch: int | None = None) -> dict[str, Any]:
        """Makes a batch of the given samples (numbers in the whole data set) in the calling thread, with the randomness of
        ``epoch``.

        It does not disturb a running iteration. With ``on_error="replace"``, another sample replaces a bad one (in host memory
        only); otherwise errors are raised.
        """
        import numpy as np

        numbers = np.asarray(samples)
        if numbers.ndim != 1 or numbers.size == 0 or numbers.dtype.kind not in "iu":
            raise ArgumentError("samples is a list of sample numbers, at least one")
        if int(numbers.min()) < 0 or int(numbers.max()) >= self._dataset._count:
            raise IndexError(f"samples are 0 to {self._dataset._count - 1}, not {samples!r}")
        wanted = self.epoch if epoch is None else _options.count("epoch", epoch, 0, 2**64 - 1)
        batch = self._open().fetch(wanted, np.ascontiguousarray(numbers, np.uint64))
        arrays = self._named(convert.to_dict(batch, self._wrap, self._encoded, self._channels_last), batch)
        return arrays if self._functions is None else self._functions.here(batch, arrays, self._one, whole=False)

    def _one(self, epoch: int, sample: int) -> dict[str, Any]:
        """Returns the values of one sample, as Functions.sample gets them."""
        import numpy as np

        batch = self._open().fetch(epoch, np.array([sample], np.uint64))
        arrays = convert.to_dict(batch, self._wrap, self._encoded, self._channels_last)
        return calls.values_of(self._named(arrays, batch), 0)

    def replay(self, step: int, epoch: int | None = None) -> Any:
        """Makes batch ``step`` of an epoch (None: the newest epoch) of this rank again, with the same bits."""
        wanted = self._epoch if epoch is None else _options.count("epoch", epoch, 0, 2**64 - 1)
        number = _options.count("step", step, 0, 2**64 - 1)
        native = self._open()
        if not self._passing:  # a new or forked loader does not know its rank yet
            native.set_ranks(*(self._ranks or self._ranks_now())[:2])
        return self._deliver(native.replay(wanted, number))

    # Configuration ----------------------------------------------------------------------------------

    def config(self) -> dict[str, Any]:
        """Returns the arguments as plain data for JSON or YAML: a dict by parameter, with dicts for objects such as
        :class:`Reading`. :meth:`from_config` takes it.

        It contains the arguments as given or taken from a plan. Changes by :meth:`set` are not included. ``"absent"`` lists the
        arguments that cannot be plain data, such as functions, a :class:`Cache` or a plan's schedule; they must be given to
        from_config.
        """
        return _loader_config.to_config(self._given, self._dataset)

    @classmethod
    def from_config(cls, config: Mapping[str, Any] | str | os.PathLike[str], **given: Any) -> Self:
        """Makes a loader from a configuration that :meth:`config` returned, or from a JSON file with one.

        Missing arguments have their defaults. ``given`` are arguments of :class:`Loader` that replace those of the configuration.
        ArgumentError: it has an unknown member, or one of its ``"absent"`` arguments is not given.
        """
        return cls(**_loader_config.to_arguments(config, given))

    # Watching ---------------------------------------------------------------------------------------

    @property
    def dataset(self) -> Dataset:
        """The data set or view that the loader was made with."""
        return self._dataset

    @property
    def quarantine(self) -> list[dict[str, Any]]:
        """The bad samples found so far: dicts with sample, name, file, offset, codec, status, text."""
        found = [*self._watch()[1], *(dict(entry) for entry in (self._functions.bad.entries.values() if self._functions else ()))]
        for entry in found:
            if "name" not in entry:  # entries of a closed loader already have a name
                entry["name"] = None if entry["sample"] is None else self._data.name(entry["sample"])
        return found

    def stats(self) -> _stats.LoaderStats:
        """Returns counters since the loader was made: a nested dict of plain numbers and texts.

        Times are in seconds, sizes in bytes. storage.seconds: time with at least one read under way. worker_seconds, summed over
        workers: making rows (also as decode.seconds), waiting for storage, or idle because the caller is slower.
        caller.wait_seconds: time that the caller waited for a batch. decode.units: units of PLI images that were decoded, and all
        units of these images; decode.scaled: images decoded at a reduced size (``Decoding.scaled``). storage.reads: requests;
        storage.merged: reads that were part of a neighbour's request (order "pages"); storage.ordered: files of a folder that were
        read with others in the order of the disk; storage.partial_reads: images of which only the needed units were read;
        storage.unchecked: items used without a checksum, because the data set has none. fallbacks: counts of the fall-backs that
        were taken, by name; fallback_reasons: the meanings of these names. cpu_rooms: the vector instructions that each part of the
        library uses. stages: time of each stage. step: how long steps take, the fraction of waiting for batches (stall), and its
        cause. queues: rows and batches that wait. worker_clocks: times of each worker. See also :mod:`penstock.metrics`.
        """
        names = _more.form_names(self._given)
        function = NO_FUNCTION if self._functions is None else self._functions.stats()
        ranks, kept = self._ranks_now(), self._cache_kept()
        raw = {**self._watch()[0], "n_skipped": self._n_skipped}
        if self._functions is not None:
            self._functions.bad.add_to(raw)
        sources = [source[0] for source in self._data_sources]
        return _stats.loader_stats(raw, _more.STORAGES, self.epoch, ranks, kept, names, function, sources)

    def waiting_for_peers(self) -> contextlib.AbstractContextManager[None]:
        """Marks time in which this rank waits for others: ``with loader.waiting_for_peers(): dist.all_reduce(gradients)``.

        With these times, :func:`penstock.metrics.rank_report` can tell a slow rank from the ranks that wait for it.
        """
        return live.peers_wait(self)

    def _watch(self) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Returns counters and bad samples. After close(), returns those of the moment of closing."""
        if self._final is not None:
            return self._final[0], [dict(entry) for entry in self._final[1]]
        native = self._open()
        return native.stats(), native.quarantine()

    def __repr__(self) -> str:
        order = _more.ORDERS[self._native_options["order"]]
        try:
            n = "endless" if self._weights.is_endless else f"{len(self)} batches"
            ranks = "{}, epoch {}, rank {} of {} ({})".format(n, self.epoch, *self._ranks_now())
        except ArgumentError as error:  # a launcher's variables are wrong
            ranks = f"epoch {self.epoch}, no rank: {error.text}"
        return (
            f"Loader({self._dataset.path!r}, batch_size={self.batch_size}, {order}, "
            f"seed={self._native_options['seed']}, {ranks}, "
            f"{self._native_options['num_workers']} workers, {self._output})"
        )

    def _repr_html_(self) -> str:
        return shown.page(self)

    # Life -------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Ends the threads and frees the memory that no batch holds. Batches stay valid."""
        if not self._closed and self._native.pid == os.getpid():
            with contextlib.suppress(ArgumentError):  # a launcher's variables are wrong
                self._n_in_epoch()
            with contextlib.suppress(PenstockError):  # the index is damaged; state_dict() reports it
                self._known()
            self._final = (self._native.stats(), self.quarantine)
        self._closed = True
        self._stop()

    def _stop(self) -> None:
        functions, native = self.__dict__.get("_functions"), self.__dict__.get("_native")
        if functions is not None:
            functions.stop()
        if native is not None:
            native.close()
        if "_data" in self.__dict__:
            self._data.close()

    def __enter__(self) -> Loader:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        extra = {
            name: value for name, value in self.__dict__.items() if name not in self._own_names
        }
        state = self.state_dict()
        again = self._again()
        if again is not None and self._newest() is None:  # a pass that used up no epoch, and whose iterator is gone
            state.update(epoch=again[0], position=again[1])
        return {"given": self._given, "state": state, "extra": extra, "world": self._world}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state["extra"])
        self._start({"schedule": None, **table.completed(state["given"])}, 0)
        self._world = state.get("world")
        self.load_state_dict(state["state"])


door(__name__, "penstock.loader")
