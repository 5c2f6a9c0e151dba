"""Delivers batches to replicas of torchft, which may join and leave while they train."""

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

_KEY = "penstock.loader"  # key of this loader's part in the manager's states


class Manager(Protocol):
    """The part of torchft.Manager that is used here."""

    def start_quorum(self) -> None: ...

    def participating_rank(self) -> int | None: ...

    def num_participants(self) -> int: ...

    def current_step(self) -> int: ...

    def register_state_dict_fn(self, key: str, load_state_dict: Callable[[Any], None], state_dict: Callable[[], Any]) -> None: ...


class Batches:
    """Delivers the batches of this replica until the epoch `epochs`. In all committed steps together, each sample of an epoch comes
    once, although replicas join and leave.

    Before each batch it starts the manager's quorum and gives the loader this replica's rank in the quorum, with
    :meth:`Loader.set_world <penstock.Loader.set_world>`. The program must not start a quorum: it only calls
    ``manager.should_commit()`` and steps the optimizer itself, without torchft's ``OptimizerWrapper``. The samples of a step that
    was not committed come again, divided among the replicas of the next quorum. A replica that recovers gets the place from the
    others, as a part of the manager's state. ``loader.epoch`` is the epoch of the newest batch. Changes by :meth:`Loader.set
    <penstock.Loader.set>` and :meth:`Loader.set_weights <penstock.Loader.set_weights>` belong to the step under way: if the step is
    not committed, they are undone.

    The manager needs ``use_async_quorum=False``, and all its replicas must participate (``WorldSizeMode.DYNAMIC``).

    Args:
        loader: a :class:`~penstock.Loader` with ``pad_epoch`` or ``drop_last``, so that all replicas have equally many batches.
        manager: the ``torchft.Manager``. From now on, its checkpoints contain the loader's place.
        epochs: the iteration ends before the epoch of this number.
        group_rank, group_world_size: rank and number of ranks within a replica group, if the ranks of a group get different
            batches.
    """

    def __init__(self, loader: Loader, manager: Manager, epochs: int, *, group_rank: int = 0, group_world_size: int = 1) -> None:
        if not loader._given["pad_epoch"] and not loader.drop_last:
            text = "with pad_epoch=False replicas may have one batch more than others, and would wait for them forever"
            raise ArgumentError(text, dataset=loader.dataset.path)
        self._loader, self._manager = loader, manager
        self._epochs = options.count("epochs", epochs, 0, 2**64 - 1)
        self._group = options.ranks(group_rank, group_world_size)[:2]
        self._batches: Iterator[Any] | None = None
        self._place = loader.state_dict()  # the loader's state after the newest committed step
        self._step: int | None = None  # the manager's step at the newest batch; None: no batch waits for its commit
        manager.register_state_dict_fn(_KEY, self.load_state_dict, self.state_dict)

    def state_dict(self) -> dict[str, Any]:
        """Returns the loader's state after the newest step that is known to be committed. Any thread."""
        return dict(self._place)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues at the place of another replica or of a checkpoint."""
        self._loader.load_state_dict(state)
        self._batches, self._step, self._place = None, None, self._loader.state_dict()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        self._judge()
        self._stop_at_end()
        self._manager.start_quorum()
        self._stop_at_end()  # the quorum may have loaded a place at the end of the last epoch
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
            self._batches = None  # with drop_last, the new ranks may have no step left in this epoch

    def _stop_at_end(self) -> None:
        if self._place["epoch"] >= self._epochs:
            raise StopIteration

    def _judge(self) -> None:
        """Keeps the newest batch if its step was committed. Otherwise moves the loader back to the place before that batch."""
        if self._step is not None and self._manager.current_step() == self._step:
            self.load_state_dict(self._place)
        self._step, self._place = None, self._loader.state_dict()

    def _ranks(self) -> tuple[int, int]:
        """Returns this process's rank in the quorum, and the number of ranks."""
        replica, group = self._manager.participating_rank(), self._group
        if replica is None:
            raise StateError(
                "this replica takes no part in the quorum: its Manager needs use_async_quorum=False and WorldSizeMode.DYNAMIC"
            )
        return replica * group[1] + group[0], self._manager.num_participants() * group[1]


door(__name__, "penstock.torchft")
