"""Batches for replicas of torchft, which come and go while they train."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from ..base import options
from ..base.public import door
from ..errors import ArgumentError, StateError
from .loader import Loader

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

__all__ = ["Batches"]

_KEY = "penstock.loader"  # of the manager's states


class Manager(Protocol):
    """What of torchft.Manager is used."""

    def start_quorum(self) -> None: ...

    def participating_rank(self) -> int | None: ...

    def num_participants(self) -> int: ...

    def current_step(self) -> int: ...

    def register_state_dict_fn(self, key: str, load_state_dict: Callable[[Any], None], state_dict: Callable[[], Any]) -> None: ...


class Batches:
    """Gives the batches of this replica, to the end of so many epochs: each sample of an epoch once over all steps that were
    committed, whatever replicas come and go.

    Before each batch it starts the manager's quorum and gives the loader the rank that this replica has in it, with
    :meth:`Loader.set_world <penstock.Loader.set_world>`. So the program does not start one: it calls
    ``manager.should_commit()`` and steps the optimizer itself, without torchft's ``OptimizerWrapper``. The samples of a step
    that was not committed come again, shared out among the replicas of the next quorum. A replica that recovers gets the
    place from the others, as a part of the manager's state. ``loader.epoch`` is the epoch of the newest batch.
    :meth:`Loader.set <penstock.Loader.set>` and :meth:`Loader.set_weights <penstock.Loader.set_weights>` are for steps that were
    committed: with a step that was not, what they have changed since is undone.

    The manager needs ``use_async_quorum=False``, and all of its replicas take part (``WorldSizeMode.DYNAMIC``).

    Args:
        loader: a :class:`~penstock.Loader`, with ``pad_epoch`` or ``drop_last``, so that all replicas have equally many batches.
        manager: the ``torchft.Manager``. Its checkpoints have the loader's place from now on.
        epochs: the iteration ends before the epoch of this number.
        group_rank, group_world_size: rank and number of ranks within a replica group whose ranks get batches of their own.
    """

    def __init__(self, loader: Loader, manager: Manager, epochs: int, *, group_rank: int = 0, group_world_size: int = 1) -> None:
        if not loader._given["pad_epoch"] and not loader.drop_last:
            text = "with pad_epoch=False replicas may have one batch more than others, and would wait for them forever"
            raise ArgumentError(text, dataset=loader.dataset.path)
        self._loader, self._manager = loader, manager
        self._epochs = options.count("epochs", epochs, 0, 2**64 - 1)
        self._group = options.ranks(group_rank, group_world_size)[:2]
        self._batches: Iterator[Any] | None = None
        self._place = loader.state_dict()  # the loader's state after the newest step that was committed
        self._step: int | None = None  # the manager's step when the newest batch was given; None: no batch waits for its verdict
        manager.register_state_dict_fn(_KEY, self.load_state_dict, self.state_dict)

    def state_dict(self) -> dict[str, Any]:
        """Returns the loader's place after the newest step that is known to be committed. Any thread."""
        return dict(self._place)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on at the place of another replica, or of a checkpoint."""
        self._loader.load_state_dict(state)
        self._batches, self._step, self._place = None, None, self._loader.state_dict()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        self._judge()
        self._stop_at_end()
        self._manager.start_quorum()
        self._stop_at_end()  # the quorum may have brought the place of replicas that are at the end
        self._loader.set_world(*self._ranks())
        if len(self._loader) == 0:
            text = f"an epoch has no batch for {self._loader.world_size} ranks (drop_last)"
            raise StateError(text, dataset=self._loader.dataset.path)
        while True:
            if self._batches is None:
                self._batches = iter(self._loader)
            if self._loader.epoch >= self._epochs:
                raise StopIteration
            self._step = self._manager.current_step()
            for batch in self._batches:
                return batch
            self._batches = None  # with drop_last the new ranks may have no step left in this epoch

    def _stop_at_end(self) -> None:
        if self._place["epoch"] >= self._epochs:
            raise StopIteration

    def _judge(self) -> None:
        """Keeps the newest batch if its step was committed. Otherwise the loader goes back to the place before that batch."""
        if self._step is not None and self._manager.current_step() == self._step:
            self.load_state_dict(self._place)
        self._step, self._place = None, self._loader.state_dict()

    def _ranks(self) -> tuple[int, int]:
        """Returns this process's rank and the number of ranks in the quorum."""
        replica, group = self._manager.participating_rank(), self._group
        if replica is None:
            raise StateError(
                "this replica takes no part in the quorum: its Manager needs use_async_quorum=False and WorldSizeMode.DYNAMIC"
            )
        return replica * group[1] + group[0], self._manager.num_participants() * group[1]


door(__name__, "penstock.torchft")
