"""An Optuna search: eight trials, each in its own process, share one preparation of the images.

    python examples/hp_search.py [--trials 8] [--late 2] [--epochs 4] [--views 8]

The trials' loaders name the same share, so the host service reads, decodes and augments each image once per epoch for all of them,
although trials have different batch sizes, are pruned (successive halving), and two start late. A trial that starts late begins
with the group's next epoch, so that it has the same epochs as the others. If it began with epoch 0, that epoch would be prepared
for this trial alone.

The program asserts that each trial saw each sample once in each of its epochs, and that the service prepared exactly as many
samples as the group's epochs have. With `--each`, every trial prepares its own batches instead, for comparison.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import optuna
import torch
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from torch import nn

import penstock as ps
from penstock import transforms as T

PHOTOGRAPHS = Path(__file__).parent / "photographs"
SIZE = 64
# The service keeps eight steps of the largest job. That is more than a whole trial here, so no trial is ever too far behind.
BATCH_SIZES = [16, 32, 64]
STUDY = "hp_search"
CONTEXT = multiprocessing.get_context("fork")  # forked, so torch is imported only once; with a GPU, use "spawn"
DEADLINE_S = 120.0


def write_training_set(path: Path, views: int) -> None:
    """Writes each photograph `views` times, so an epoch has that many crops of it."""
    source = ps.Dataset(PHOTOGRAPHS)
    classes = [source.name(i) for i in range(len(source))]
    with ps.Writer(str(path), schema={"image": ps.Image(), "label": ps.Int(classes=classes)}) as out:
        for view in range(views):
            for i in range(len(source)):
                out.write({"image": source.read(i, "image"), "label": i}, name=f"{source.name(i)}/{view}")


def network(n_classes: int, width: int) -> nn.Module:
    def block(inputs: int, outputs: int) -> list[nn.Module]:
        return [nn.Conv2d(inputs, outputs, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()]

    return nn.Sequential(*block(3, width), *block(width, 2 * width), *block(2 * width, 4 * width), nn.AdaptiveAvgPool2d(2),
                         nn.Flatten(), nn.Linear(16 * width, n_classes))


def open_study(folder: Path) -> optuna.Study:
    storage = JournalStorage(JournalFileBackend(str(folder / "journal")))
    return optuna.create_study(storage=storage, study_name=STUDY, direction="maximize", load_if_exists=True,
                               sampler=optuna.samplers.TPESampler(seed=os.getpid()),
                               pruner=optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=2))


def loader_of(args: argparse.Namespace, batch_size: int) -> ps.Loader:
    shared = {} if args.each else {"share": STUDY}
    return ps.Loader(args.folder / "train.pst", batch_size=batch_size, shuffle=True, seed=1, num_workers=1, output="torch",
                     **shared, transforms=[T.RandomResizedCrop(SIZE, scale=(0.08, 0.4)), T.RandomHorizontalFlip(),
                                 T.Normalize(ps.IMAGENET_MEAN, ps.IMAGENET_STD)])


class Run:
    """One trial: its network, its loader, and the samples that it saw."""

    def __init__(self, study: optuna.Study, args: argparse.Namespace, late: bool) -> None:
        self.trial = study.ask()
        dataset = ps.Dataset(args.folder / "train.pst")
        self.n = len(dataset)
        torch.manual_seed(0)
        self.model = network(len(dataset.classes), self.trial.suggest_categorical("width", [4, 8]))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), self.trial.suggest_float("lr", 1e-5, 3e-2, log=True))
        self.loader = loader_of(args, self.trial.suggest_categorical("batch_size", BATCH_SIZES))
        if late and not args.each:  # immediately, while the others are still in the epoch that the loader was told
            newest = self.loader.stats()["share"]["epoch"]  # None: no job has begun an epoch
            self.loader.set_epoch(0 if newest is None else newest + 1)
        if not late:
            args.start.wait(DEADLINE_S)  # wait for the other trials: an epoch that a trial begins too late would be prepared again

    def epoch(self) -> float:
        """Trains for one epoch. Returns the accuracy on its crops."""
        seen, right = [], 0
        for batch in self.loader:
            logits = self.model(batch["image"])
            loss = nn.functional.cross_entropy(logits, batch["label"])
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            right += int((logits.argmax(1) == batch["label"]).sum())
            seen += batch["index"].tolist()
        assert sorted(seen) == list(range(self.n)), f"trial {self.trial.number}: not each sample once"
        return right / self.n


def trial(args: argparse.Namespace, late: bool) -> None:
    """The main function of a trial's process."""
    torch.set_num_threads(1)
    study = open_study(args.folder)
    run, epochs, state, accuracy = Run(study, args, late), [], optuna.trial.TrialState.COMPLETE, 0.0
    for step in range(args.epochs):
        epochs.append(run.loader.epoch)
        accuracy = run.epoch()
        run.trial.report(accuracy, step)
        if run.trial.should_prune():
            state = optuna.trial.TrialState.PRUNED
            break
    told = {"trial": run.trial.number, "late": late, "epochs": epochs, "accuracy": accuracy,
            "pruned": state.name == "PRUNED", **run.trial.params, "share": run.loader.stats().get("share", {})}
    study.tell(run.trial, accuracy if state.name == "COMPLETE" else None, state)
    run.loader.close()
    (args.folder / f"trial-{run.trial.number}.json").write_text(json.dumps(told))


def wait_for_report(study: optuna.Study) -> None:
    """Waits until any trial has finished its first epoch."""
    deadline = time.monotonic() + DEADLINE_S
    while not any(trial.intermediate_values for trial in study.get_trials(deepcopy=False)):
        if time.monotonic() > deadline:
            raise TimeoutError(f"no trial has ended an epoch within {DEADLINE_S:.0f} s")
        time.sleep(0.02)


def keep_group(args: argparse.Namespace, begun, ended, prepared) -> None:
    """A group ends with its last loader. This process holds a loader that takes no batches, and reports the service's count at the
    end."""
    with loader_of(args, max(BATCH_SIZES)):
        begun.set()
        ended.wait()
        with loader_of(args, 1) as newest:
            prepared.value = newest.stats()["share"]["samples"]


@contextlib.contextmanager
def service(folder: Path) -> Iterator[None]:
    """Starts a host service for this program only. Usually one runs already: penstock serve."""
    os.environ["PENSTOCK_SOCKET"] = str(folder / "host.sock")
    server = subprocess.Popen([Path(sys.executable).with_name("penstock"), "serve"], stdout=subprocess.DEVNULL)
    try:
        while not (folder / "host.sock").exists():
            if server.poll() is not None:
                raise SystemExit("penstock serve has ended")
            time.sleep(0.01)
        yield
    finally:
        server.terminate()
        server.wait()


def shared_search(args: argparse.Namespace) -> tuple[list[dict], int]:
    """Runs the search. Returns the results of the trials, and how many samples the service has prepared for them."""
    begun, ended, prepared = CONTEXT.Event(), CONTEXT.Event(), CONTEXT.Value("q", 0)
    with service(args.folder):
        keeper = CONTEXT.Process(target=keep_group, args=(args, begun, ended, prepared))
        keeper.start()
        try:
            if not begun.wait(DEADLINE_S):
                raise SystemExit("the group has not begun")
            told = run_trials(args)
            ended.set()
            keeper.join(DEADLINE_S)
        finally:
            keeper.kill()
    return told, prepared.value


def run_trials(args: argparse.Namespace) -> list[dict]:
    study = open_study(args.folder)
    study.enqueue_trial({"lr": 1e-5})  # this trial is sure to be pruned
    args.start = CONTEXT.Barrier(args.trials - args.late)
    processes = [CONTEXT.Process(target=trial, args=(args, False)) for _ in range(args.trials - args.late)]
    for process in processes:
        process.start()
    if args.late:
        wait_for_report(study)
        late = [CONTEXT.Process(target=trial, args=(args, True)) for _ in range(args.late)]
        for process in late:
            process.start()
        processes += late
    for process in processes:
        process.join(DEADLINE_S)
        if process.exitcode != 0:
            for other in processes:
                other.kill()
            raise SystemExit(f"a trial ended with {process.exitcode}")
    return [json.loads(path.read_text()) for path in sorted(args.folder.glob("trial-*.json"))]


def show(told: list[dict], n: int, prepared: int | None) -> int:
    for one in told:
        print(f"trial {one['trial']}{' (late)' if one['late'] else ''}: lr {one['lr']:.1e}, batches of {one['batch_size']}, epochs "
              f"{one['epochs'][0]} to {one['epochs'][-1]}, accuracy {one['accuracy']:.0%}{', pruned' if one['pruned'] else ''}")
    taken = sum(len(one["epochs"]) for one in told) * n
    group = len({epoch for one in told for epoch in one["epochs"]}) * n
    trials = f"{len(told)} trials, {sum(one['pruned'] for one in told)} pruned: {taken} samples taken"
    if prepared is None:
        print(f"{trials}, {taken} prepared")
        return 0
    alone = sum(one["share"]["alone"] for one in told)
    once = prepared == group and alone == 0
    print(f"{trials}, {prepared} prepared; the group's epochs have {group}, each once per epoch: {'equal' if once else 'DIFFERENT'}"
          + (f"; {alone} batches were prepared by trials: {told[0]['share']['reason']}" if alone else ""))
    return 0 if once else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=8)
    parser.add_argument("--late", type=int, default=2, help="how many of them start later")
    parser.add_argument("--epochs", type=int, default=4, help="of a trial that is not pruned")
    parser.add_argument("--views", type=int, default=8, help="entries of each photograph in the training set")
    parser.add_argument("--each", action="store_true", help="nothing is shared")
    args = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with tempfile.TemporaryDirectory() as folder:
        args.folder = Path(folder)
        write_training_set(args.folder / "train.pst", args.views)
        n = len(ps.Dataset(args.folder / "train.pst"))
        told, prepared = (run_trials(args), None) if args.each else shared_search(args)
        return show(told, n, prepared)


if __name__ == "__main__":
    sys.exit(main())
