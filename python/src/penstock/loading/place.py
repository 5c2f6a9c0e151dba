"""The place of a loader in its epochs: the next batch, the ranks, the settings, and the state that records them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .. import _native as _library
from ..base import options as _options
from ..data.dataset import Dataset
from ..errors import ArgumentError, PenstockError, StateError
from ..functions.place import Place, State
from . import stages
from . import state as _loader_state
from . import weights as _changes_of_weights
from .make import Maker, place_behind
from .passes import Pass

_SKIPPED = "skipped"  # key of a state: number of batches that skip_batch() skipped
_FORMER_PAGES = ". A state of order='pages' from before pages had 16 samples by default goes on with order=ps.Pages(64, 64)"

_Ranks = tuple[int, int, str]  # rank, world size, and where they come from

_log = logging.getLogger("penstock")


class Placed:
    """The part of a Loader that keeps its place in the epochs. The Loader sets the attributes that have no value here."""

    _given: dict[str, Any]
    _dataset: Dataset
    _data: _library.Dataset
    _native: _library.Loader
    _native_options: dict[str, Any]
    _changes: stages.Changes
    _weights: _changes_of_weights.Weights
    _maker: Maker
    _received: list[Place]  # the place of the newest pass, which its Pass updates

    def _start_place(self) -> None:
        """Sets the place of a new loader: before its first epoch."""
        self._closed = False
        self._facts: _loader_state.Facts | None = None  # identities of the data set, once they were read
        self._ranks: _Ranks | None = None  # ranks of the newest pass
        self._world: _Ranks | None = None  # ranks that set_world() gave
        self._epoch = 0  # epoch of the newest pass
        self._next_epoch = 0
        self._passing = False  # True: the state lies within the newest pass
        self._pending: State | None = None  # the place where the next pass begins, if one was set
        self._loaded = False  # True: _pending came from load_state_dict, and set_epoch was not called since
        self._began: State | None = None  # state at which the newest pass began; None: that pass used up its epoch
        self._asked = False  # True: the second batch was requested, or a batch was skipped
        self._newest: Callable[[], Pass | None] = lambda: None  # returns the newest pass while it exists
        self._n_skipped = 0  # number of batches that skip_batch() skipped
        self._over = False  # True: the newest pass ended in the parent process
        self._n_batches = 0  # result of the last count

    def _open(self) -> _library.Loader:
        """Returns the native loader of this process."""
        raise NotImplementedError

    # Batches and ranks ------------------------------------------------------------------------------

    def __len__(self) -> int:
        """The number of batches of this rank in a whole epoch: the current epoch, else the next one.

        TypeError: the data set is a :class:`Mixture` whose epochs are endless.
        """
        if self._weights.is_endless:
            raise TypeError("an epoch of an endless mixture has no number of batches")
        return self._n_in_epoch()

    def _n_in_epoch(self) -> int:
        if not self._closed:
            if not self._passing:
                self._follow_schedule(self.epoch)
            rank, world_size, _ = self._ranks_now()
            self._n_batches = self._native.n_batches(0, rank, world_size)
        return self._n_batches

    @property
    def remaining(self) -> int:
        """The number of batches that the current iteration (also after ``break``) has still to deliver.

        Before an iteration: the number for the next one, which may be the rest of a resumed epoch.
        """
        if self._passing:
            return self._received[0].left
        position = 0 if self._pending is None else self._pending[1]
        rank, world_size, _ = self._ranks_now()
        if position == 0 or self._native.n_batches(position, 0, world_size) == 0:  # nothing is left, so count the next epoch
            return self._n_in_epoch()
        return self._native.n_batches(position, rank, world_size)

    @property
    def batch_size(self) -> int:
        """Samples per batch and rank, as given or changed by :meth:`set`."""
        return self._changes.made.batch_size or int(self._native_options["batch_size"])

    @property
    def rank(self) -> int:
        """This rank: in the current epoch, else the rank that the next epoch would have."""
        return self._ranks_now()[0]

    @property
    def world_size(self) -> int:
        """The number of ranks: in the current epoch, else the number that the next epoch would have."""
        return self._ranks_now()[1]

    def _ranks_now(self) -> _Ranks:
        """Returns the ranks of the current pass, else those of an epoch that would begin now."""
        if self._passing and self._ranks is not None:
            return self._ranks
        return self._world or _options.ranks(self._given["rank"], self._given["world_size"])

    def _take_ranks(self, native: _library.Loader) -> None:
        """Reads the ranks when an epoch begins, and sets them in the native loader."""
        ranks = self._world or _options.ranks(self._given["rank"], self._given["world_size"])
        native.set_ranks(*ranks[:2])
        self._keep_ranks(ranks)

    def _keep_ranks(self, ranks: _Ranks) -> None:
        if ranks != self._ranks:
            _log.info("%s: rank %d of %d, from %s", self._dataset.path, *ranks)
        self._ranks = ranks

    # A pass ------------------------------------------------------------------------------------------

    def _begin(self, native: _library.Loader, place: State | None, received: list[Place]) -> None:
        """Begins a pass at `place`, or at the beginning of the next epoch. `received` is the list that holds the pass's place."""
        self._maker.begin()
        if place is None or place[1] == 0:
            self._follow_schedule(self._next_epoch if place is None else place[0])
        if place is not None:
            native.resume(place)
        else:
            native.begin(self._next_epoch)
        start = native.state()
        here = Place(start, 0, native.n_batches(start[1], *(self._ranks or self._ranks_now())[:2]))
        # No function is called from here on, so that no signal handler sees a partial change.
        received[0], self._received, self._began = here, received, start
        self._epoch, self._next_epoch = start[0], start[0] + 1
        self._pending, self._passing, self._over, self._asked, self._loaded = None, True, False, False, False

    def _again(self) -> State | None:
        """Returns where the newest pass began if it has used up no epoch: its caller got at most the first batch, and that was not
        the last. None: it has used up its epoch."""
        _, taken, left = self._received[0]
        return None if self._asked or (taken and not left) else self._began

    # Place ------------------------------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        """The epoch of the current iteration (also after ``break``), else of the next one."""
        if self._passing:
            return self._epoch
        return self._next_epoch if self._pending is None else self._pending[0]

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch of the next ``for`` loop, which starts at the first batch of the epoch.

        The first call after :meth:`load_state_dict` keeps the loaded place if it names the same epoch as the state, because
        frameworks that resume set the epoch that they continue.

        StateError: a batch is being made, in this thread (inside a ``collate_fn`` or a function) or in another one.
        """
        wanted = _options.count("epoch", epoch, 0, 2**64 - 1)
        self._refuse_while_making("set_epoch")
        if self._loaded and self._pending is not None and self._pending[0] == wanted:
            self._loaded = False
            return
        self._loaded, self._next_epoch = False, wanted
        self._pending = self._began = None
        self._passing = False

    def skip_batch(self) -> None:
        """Skips the next batch without making it. Use it for a batch for which ``collate_fn`` or a function always raises an error.

        Within an iteration, it skips the batch that the iterator would return next, so keep the iterator: ``next(iterator)``
        returns the batch after it. Before an iteration, it skips the first batch of the next ``for``. On several ranks, each rank
        must skip. ``stats()["skipped"]`` counts, and :meth:`state_dict` has the new place and the count. StateError: the epoch is
        over, or a batch is being made, in this thread (inside a ``collate_fn`` or a function) or in another one.
        """
        self._refuse_while_making("skip_batch")
        self._skip(1)
        self._n_skipped += 1

    def _skip(self, n: int) -> None:
        """Skips n batches, at most to the end of the epoch."""
        native = self._open()
        rank, world_size, _ = self._ranks_now()
        stride = self.batch_size * world_size
        if self._passing:
            here = self._received[0]
            if here.left == 0:
                raise StateError("no batch is left of this epoch that could be skipped", dataset=self._dataset.path)
            self._maker.leave(here)
            self._asked = True
            state = place_behind(here.state, here.left, n, stride)
            self._received[0] = Place(state, here.taken + min(n, here.left), max(0, here.left - n))
            return
        start = self._pending or (self._next_epoch, 0, *native.state()[2:])
        self._pending = place_behind(start, native.n_batches(start[1], rank, world_size), n, stride)

    def set(self, *, size: int | tuple[int, int] | None = None, batch_size: int | None = None) -> None:
        """Changes size, batch_size or both from the next batch on, for progressive resizing (docs/training.md).

        Within an iteration, that is the next batch that you receive: batches prepared ahead are thrown away. Order, place and
        random parameters stay. ``len(loader)`` counts batches of the new size, and :meth:`state_dict` has the settings. Ranks that
        train together must make the same call after the same batch. After an error the loader is unchanged: a LimitError says how
        much ``host_memory`` is needed, and a loader with ``share`` raises UnsupportedError.

        Args:
            size: size of pictures and masks: a number or (height, width). It replaces the size of the last operation in each chain
                that gives all pictures one size: RandomResizedCrop, RandomCrop, CenterCrop, Letterbox, Resize to (height, width).
                Earlier operations stay. ArgumentError: there is no such operation, chains have different sizes, or later operations
                change the size again. None: no change.
            batch_size: samples per batch and rank; None: no change.

        StateError: a batch is being made, in this thread (inside a ``collate_fn`` or a function) or in another one.
        """
        self._refuse_while_making("set")
        self._put(stages.wanted(size, batch_size))

    def _put(self, settings: stages.Settings) -> None:
        """Applies the settings that are not 0 from the next batch on, if they differ from the present ones."""
        now = self._changes.made.over(self._changes.opened)
        if settings.over(now) == now:
            return
        native = self._open()
        here = self._received[0]
        passes = self._passing and not self._over and here.state[0] == self._epoch
        if passes and here.state != native.state():  # batches were prepared ahead of the received ones
            self._maker.begin()
            native.resume(here.state)
        native.set(*settings)
        self._changes.made = settings.over(self._changes.made)
        if passes:
            state = native.state()
            left = 0 if state[0] != self._epoch else native.n_batches(state[1], *self._ranks_now()[:2])
            self._received[0] = Place(state, here.taken, left)
            self._maker.begin()

    def set_weights(self, weights: Mapping[str, float] | Sequence[float]) -> None:
        """Changes the weights of the :class:`Mixture` from the next batch on, for a curriculum.

        The new weights begin with the next whole block of the mixture's ``quota``. With ``quota="batch"`` that is the next batch
        that you receive, with "epoch" the next epoch. Batches prepared ahead are thrown away. Sources continue with the samples
        that they have not delivered in this epoch. The weights stay for later epochs. The length of an epoch still depends on the
        mixture's original weights. :meth:`state_dict` contains the changes, so a loader of the same mixture can resume with them,
        on any number of ranks. Ranks that train together must make the same call after the same batch. After an error the loader is
        unchanged.

        Args:
            weights: for the sources of the mixture, as for :class:`Mixture`. ArgumentError: the mixture was made without weights.
                LimitError: a run may have at most 1,024 changes; change the weights only every so many steps.

        StateError: a batch is being made, in this thread (inside a ``collate_fn`` or a function) or in another one.
        """
        native = self._open()
        self._refuse_while_making("set_weights")
        here = self._received[0]
        passes = self._passing and not self._over and here.state[0] == self._epoch
        waits = self._pending or (self._next_epoch, 0)
        place = _changes_of_weights.place_of(self, native, here) if self._passing else waits
        changes = self._weights.changed(weights, place[0], place[1], self._dataset.path)
        if passes and here.state != native.state():  # batches were prepared ahead of the received ones
            self._maker.begin()
            native.resume(here.state)
        self._set_changes(changes)
        if passes:
            self._maker.begin()

    def _refuse_while_making(self, call: str) -> None:
        """Raises StateError while a batch is being made, because that batch would be delivered with the old settings."""
        newest = self._newest()
        if newest is not None and newest.is_busy:
            raise StateError(f"{call}() is for between two steps: a batch is being made", dataset=self._dataset.path)

    def _set_changes(self, changes: Sequence[_changes_of_weights.Change]) -> None:
        """Sets the changes of weights in the native loader, and updates the order's hash in the stored states."""
        if tuple(changes) == self._weights.changes:
            return
        native, i = self._open(), _loader_state.KEYS.index("order_hash")
        self._weights.apply(native, changes)

        def told(state: State) -> State:
            return (*state[:i], native.state()[i], *state[i + 1 :]) if state else state

        self._received[0] = self._received[0]._replace(state=told(self._received[0].state))
        self._pending = self._pending and told(self._pending)
        self._began = self._began and told(self._began)

    def set_world(self, rank: int, world_size: int, *, state: Mapping[str, Any] | None = None) -> None:
        """Sets the rank of this process from the next batch on, also within an epoch, for trainings that lose and regain ranks.

        Batches prepared ahead are thrown away and made again for the new ranks. The next step of the new ranks begins where the
        last one ended, so together they deliver each sample of the epoch once, with the same pixels. Padding and ``drop_last`` are
        computed for the new ranks. ``for batch in loader`` continues, ``len(loader)`` counts a whole epoch of the new ranks, and
        :attr:`remaining` the rest. Later epochs keep these ranks, whatever the loader's arguments and the launcher say.

        All ranks that continue must make the call after the same step, each with another rank. A rank that joins loads the
        :meth:`state_dict` that rank 0 had before the call; a rank that leaves closes its loader. With ``pad_epoch=False``, a rank
        whose iteration is over has ended the epoch, even if others have one more batch.

        Args:
            rank, world_size: the new rank and number of ranks.
            state: :meth:`state_dict` of another rank, for example sent by rank 0 to all. ArgumentError: this rank is at another
                place, or has other samples, seed, order, operations or settings. Nothing is changed then.

        StateError: a batch is being made, in this thread (inside a ``collate_fn`` or a function) or in another one.
        """
        ranks = (*_options.ranks(rank, world_size)[:2], "set_world")
        native = self._open()
        self._refuse_while_making("set_world")
        if state is not None:
            self._compare(state)
        here = self._received[0]
        if self._passing and not self._over:
            if here.left and here.state != native.state():  # batches were prepared ahead of the received ones
                self._maker.begin()
                native.resume(here.state)
            native.set_world(*ranks[:2])
            self._keep_ranks(ranks)
            place = native.state()
            left = native.n_batches(place[1], *ranks[:2]) if place[0] == self._epoch else 0
            self._received[0] = Place(place, here.taken, left)
            self._maker.begin()
        self._world = ranks

    def _compare(self, state: Mapping[str, Any]) -> None:
        """Raises ArgumentError unless this loader has the place and the settings of `state`."""
        mine = self.state_dict()
        known = dict(zip(_loader_state.KEYS, self._native.state(), strict=True))
        _loader_state.place(state, known, self._known(), self._dataset.path, strict=True)
        names = sorted({"epoch", "position", *self._changes.to_state(), *(state.keys() & set(stages.KEYS))})
        here, there = ({name: values.get(name) for name in names} for values in (mine, state))
        if here != there:
            raise ArgumentError(f"this rank is at {here}, the other one at {there}", dataset=self._dataset.path)

    def _follow_schedule(self, epoch: int) -> None:
        """Called before an epoch begins: applies the settings that the plan's schedule has for it, unless they were applied
        already."""
        n_begun = self._changes.n_begun(epoch)
        if n_begun != self._changes.stage:
            self._put(self._changes.of_stage(n_begun))
            self._changes.stage = n_begun

    @property
    def size(self) -> tuple[int, int] | None:
        """Height and width, which :meth:`set` can change; None if it cannot, because the pictures have different sizes."""
        _, height, width = self._changes.made.over(self._changes.opened)
        return (height, width) if height else None

    def _agree_on_epoch(self, epoch: int) -> None:
        """Sets the epoch like set_epoch, but keeps a place within that epoch, and moves a pass that has not delivered a batch."""
        waits = self._passing and self._received[0].taken == 0
        if epoch == (self._epoch if waits else self.epoch if self._pending is not None else -1):
            return
        if waits:
            self._next_epoch = _options.count("epoch", epoch, 0, 2**64 - 1)
            self._begin(self._open(), None, self._received)
        else:
            self.set_epoch(epoch)

    def _known(self) -> _loader_state.Facts:
        """Returns what a state contains besides its place. For a data set without stored identities, this reads all names."""
        if self._facts is None:
            self._facts = _loader_state.facts(self._data, _loader_state.digest(self._given))
        return self._facts

    def state_dict(self) -> dict[str, Any]:
        """Returns the place after the last received batch and the identity of the samples: numbers and texts for JSON.

        After the last batch of an epoch, the place is the beginning of the next epoch, even inside the loop. The state also
        contains the settings of :meth:`set`, :meth:`set_weights` and a plan's schedule, and the number of batches that
        :meth:`skip_batch` skipped.
        """
        if self._pending is not None:
            state: State = self._pending
        else:
            state = self._received[0].state
            if not self._passing:
                state = (self._next_epoch, 0, *state[2:])
        skipped = {_SKIPPED: self._n_skipped} if self._n_skipped else {}
        return {**_loader_state.to_state(state, self._known()), **self._changes.to_state(), **self._weights.to_state(), **skipped}

    def load_state_dict(self, state: Mapping[str, Any], *, strict: bool = False) -> None:
        """Moves the next ``for`` to the place of ``state``, which may come from a loader with another batch size or world size.

        The loader takes the settings of the state, and its own arguments where the state has none. ArgumentError: the state has
        other samples (:attr:`Dataset.samples_identity`), seed or order. A warning, with ``strict`` an error: it has other
        transforms, mix or views, or comes from an older Penstock that does not record whose samples it counts. StateError: a batch
        is being made, in this thread (inside a ``collate_fn`` or a function) or in another one.
        """
        self._refuse_while_making("load_state_dict")
        former = self._weights.changes
        try:
            state = self._checked(state, strict)
            settings, stage = self._changes.of_state(state)
            n_skipped = _options.count(_SKIPPED, state.get(_SKIPPED, 0), 0, 2**64 - 1)
        except PenstockError:
            self._set_changes(former)
            raise
        pending = tuple(state[key] for key in _loader_state.KEYS)
        self._n_skipped, self._passing = n_skipped, False
        self._put(settings.over(self._changes.opened))
        self._changes.made, self._changes.stage = settings, stage
        self._pending, self._loaded = pending, True
        self._began = None

    def _checked(self, state: Mapping[str, Any], strict: bool) -> dict[str, Any]:
        """Checks a state and applies its changes of weights. Returns the state in the form that this loader needs."""
        self._set_changes(self._weights.of_state(state, self._dataset.path))
        mine = dict(zip(_loader_state.KEYS, self._native.state(), strict=True))
        default = self._given["order"] == "pages" and None in (self._given["page_samples"], self._given["window_pages"])
        return _loader_state.place(
            state, mine, self._known(), self._dataset.path, strict=strict, advice=_FORMER_PAGES if default else ""
        )
