"""A search over learning rates with Optuna: eight trials at a time, each photograph decoded once per epoch for all.

    pip install optuna
    python examples/hp_search.py

The trials' loaders name one group (share="search"), so the host service prepares each batch once for all of them. Some
trials are pruned, which disturbs nobody. Two begin late: they take the group's next epoch as their first, so nothing is
prepared for them alone. The program starts a service of its own, and asserts that it prepared each photograph once for
each epoch of the group.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import penstock as ps
from penstock import transforms as T

try:
    import optuna
except ImportError:
    sys.exit("this example needs Optuna: pip install optuna (or penstock[search])")

PHOTOGRAPHS = Path(__file__).parent / "photographs"
TRIALS, LATE = 8, 2  # the last LATE ones begin late
EPOCHS = 3


def make_loader(batch_size: int) -> ps.Loader:
    chain = [T.RandomResizedCrop(64), T.RandomHorizontalFlip(), T.Normalize(ps.IMAGENET_MEAN, ps.IMAGENET_STD)]
    return ps.Loader(PHOTOGRAPHS, batch_size=batch_size, shuffle=True, seed=1, transforms={"image": chain}, fields=["image"],
                     output="numpy", num_workers=1, share="search")


class Search:
    """What the trials of one process have in common."""

    def __init__(self) -> None:
        self.begun = threading.Event()  # a trial has finished an epoch
        self.lock = threading.Lock()
        self.epochs: set[int] = set()  # those of the group
        self.alone = 0  # batches that a trial had to prepare itself

    def objective(self, trial: optuna.Trial) -> float:
        rate = trial.suggest_float("rate", 1e-4, 1.0, log=True)
        late = trial.number >= TRIALS - LATE
        if late:
            self.begun.wait(60)
        loader = make_loader(batch_size=trial.suggest_categorical("batch_size", [2, 4]))
        first = 0
        if late:
            newest = loader.stats()["share"]["epoch"]
            first = 0 if newest is None else newest + 1
            loader.set_epoch(first)
        weights, loss = np.zeros(3), 0.0
        try:
            for epoch in range(first, first + EPOCHS):
                loss = self.train(loader, weights, rate)
                with self.lock:
                    self.epochs.add(epoch)
                self.begun.set()
                trial.report(loss, epoch - first)
                if trial.should_prune():
                    raise optuna.TrialPruned
            return loss
        finally:
            with self.lock:
                self.alone += loader.stats()["share"]["alone"]
            loader.close()

    @staticmethod
    def train(loader: ps.Loader, weights: np.ndarray, rate: float) -> float:
        """One epoch of a model that guesses a picture's contrast from its mean colour."""
        losses = []
        for batch in loader:
            colours, wanted = batch["image"].mean((2, 3)), batch["image"].std((1, 2, 3))
            error = colours @ weights - wanted
            weights -= rate * colours.T @ error / len(error)
            losses.append(float(np.mean(np.square(error))))
        return min(float(np.mean(losses)), 1e6)


@contextlib.contextmanager
def service() -> Iterator[subprocess.Popen[Any]]:
    """A host service of this program's own. Usually one runs already: penstock serve."""
    command = Path(sys.executable).with_name("penstock")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PENSTOCK_SOCKET"] = f"{folder}/host.sock"
        server = subprocess.Popen([command, "serve"], stdout=subprocess.DEVNULL)
        while not Path(os.environ["PENSTOCK_SOCKET"]).exists():
            if server.poll() is not None:
                sys.exit("penstock serve has ended")
            time.sleep(0.01)
        try:
            yield server
        finally:
            server.terminate()
            server.wait()


def main() -> None:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    search = Search()
    with service():
        keeper = make_loader(1)  # a group ends with its last loader: this one keeps it, and trains nothing
        assert keeper.stats()["share"]["sharing"], keeper.stats()["share"]["reason"]
        study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=1),
                                    pruner=optuna.pruners.MedianPruner(n_startup_trials=2, n_warmup_steps=0))
        study.optimize(search.objective, n_trials=TRIALS, n_jobs=TRIALS)
        with make_loader(1) as last:
            prepared = last.stats()["share"]["samples"]
        n = len(keeper.dataset)
        keeper.close()
    assert search.alone == 0, "no trial prepared a batch itself"
    assert prepared == n * len(search.epochs), (prepared, n, sorted(search.epochs))
    pruned = sum(trial.state == optuna.trial.TrialState.PRUNED for trial in study.trials)
    assert len(study.trials) == TRIALS and pruned < TRIALS
    print(f"{TRIALS} trials, {LATE} of them late, {pruned} pruned; best rate {study.best_params['rate']:.4f}")
    print(f"{n} photographs, {len(search.epochs)} epochs of the group: {prepared} decoded, each once per epoch: equal")


if __name__ == "__main__":
    main()
