"""Computes how often an epoch draws each sample of a mixture with weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ..data.mixture_weights import is_weighted

if TYPE_CHECKING:
    from .loader import Loader


class Draws(NamedTuple):
    """The samples that an epoch of a mixture draws.

    Attributes:
        positions: positions of the samples in the loader's data set, an int64 array.
        rates: the mean number of times that an epoch draws each sample: a float64 array, above 0.
        shares: the index of the weight share that each sample belongs to, an int64 array.
        epoch: number of samples that an epoch delivers. For an endless epoch: the number of positions.
    """

    positions: Any
    rates: Any
    shares: Any
    epoch: int

    def chosen(self, random: Any, most: int) -> Any:
        """Chooses the positions of an epoch, each as often as it is drawn. If they are more than `most`, takes fewer in the same
        shares.

        Each weight share gets its exact number of positions, rounded up or down.
        """
        import numpy as np

        each = self.rates * (min(self.epoch, most) / self.rates.sum())
        whole = np.floor(each)
        order = np.lexsort((random.random(len(each)), self.shares))
        sums = np.floor(np.concatenate([[0.0], np.cumsum((each - whole)[order])]) + 0.5)
        whole[order] += np.diff(sums)
        return np.repeat(self.positions, whole.astype(np.int64))


def of(loader: Loader) -> Draws | None:
    """Returns the draws of a loader, or None if its data set is no mixture with weights: an epoch then has each sample once."""
    import numpy as np

    dataset: Any = loader.dataset
    if not is_weighted(dataset):
        return None
    chosen = loader._given["indices"]
    positions = np.arange(len(dataset)) if chosen is None else np.asarray(chosen, np.int64)
    shares = dataset._shares()
    starts = np.array([share.first for share in shares], np.uint64)
    of_share = np.searchsorted(starts, dataset.indices[positions], side="right") - 1
    weights = np.array([share.weight for share in shares])
    drawn = np.flatnonzero(weights[of_share] > 0)
    positions, of_share = positions[drawn], of_share[drawn]
    epoch = len(positions) if loader._weights.is_endless else int(loader._native.state()[3])
    counts = np.bincount(of_share, minlength=len(shares))
    return Draws(positions, epoch * weights[of_share] / counts[of_share], of_share, epoch)
