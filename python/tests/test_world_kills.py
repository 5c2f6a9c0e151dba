"""Ranks in page order on slow storage, which read whole windows ahead, are killed at any time. The others go on with set_world or
from the last state, and all together deliver each sample of an epoch once, with the pixels of a single rank.
"""

from __future__ import annotations

import collections
import multiprocessing
import random
import signal
import time
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import pytest

import penstock as ps
from penstock import transforms as T

N_SAMPLES, MOST = 120, 4


def loader_of(path: str, **options) -> ps.Loader:
    return ps.Loader(path, batch_size=3, order=ps.Pages(4, window_pages=5), seed=5, output="numpy", cache=None,
                     transforms=[T.RandomResizedCrop(16), T.RandomHorizontalFlip()], **options)  # fmt: skip


def rows_of(batch: dict) -> list[tuple[int, bytes]]:
    return [(int(i), image.tobytes()) for i, image in zip(batch["index"], batch["image"], strict=True)]


def serve(path: str, rank: int, world: int, state: dict | None, pipe: Connection) -> None:
    """A rank: does what it is told, and answers with its rows and its state."""
    slow = ps.Reading(throttle=(1e9, 0.0005, 2))  # counts as slow storage, where rows are gathered
    with loader_of(path, rank=rank, world_size=world, num_workers=1 + rank % 2, prefetch=1 + rank % 3, reading=slow) as loader:
        if state:
            loader.load_state_dict(state)
        batches = iter(loader)
        while True:
            what, *how = pipe.recv()
            rows = []
            if what == "step" and (batch := next(batches, None)) is not None:
                rows = rows_of(batch)
            if what == "back":  # what was done of a step is done again
                loader.load_state_dict(how.pop(0))
            if what in ("back", "world"):
                loader.set_world(*how)
            if what in ("back", "begin"):
                batches = iter(loader)
            pipe.send((rows, loader.state_dict(), loader.stats()["storage"]["merged"]))


def answer_of(pipe: Connection) -> tuple[list, dict, int]:
    assert pipe.poll(100)
    return pipe.recv()


class Group:
    """Processes that are the ranks of a training, and the state after the last step that all of them have done."""

    def __init__(self, path: Path, draws: random.Random):
        self.path, self.draws = str(path), draws
        self.ranks: list = []
        self.state: dict | None = None
        self.n_kills = self.n_redone = self.n_merged = 0
        self.grow(MOST)
        self.state = self.done(self.ask("begin"))[0][1]

    def grow(self, world: int) -> None:
        context = multiprocessing.get_context("spawn")
        for rank in range(len(self.ranks), world):
            ours, theirs = context.Pipe()
            process = context.Process(target=serve, args=(self.path, rank, world, self.state, theirs), daemon=True)
            process.start()
            theirs.close()
            self.ranks.append((process, ours))

    def ask(self, *what, kill: bool = False) -> list | None:
        """Tells all ranks what to do, and may kill one meanwhile. Returns the answers, or None if a rank was killed."""
        answers = []
        for _, pipe in self.ranks:
            pipe.send(what)
        if kill:
            time.sleep(self.draws.random() * 0.004)
            self.kill()
        for _, pipe in self.ranks:
            try:
                answers.append(answer_of(pipe))
            except (EOFError, OSError):
                assert kill
        return None if kill else answers

    def done(self, answers: list | None) -> list:
        """Checks that all ranks are at the same place."""
        assert answers is not None
        assert len({(state["epoch"], state["position"]) for _, state, _ in answers}) == 1
        return answers

    def kill(self) -> None:
        process, _ = self.ranks[self.draws.randrange(len(self.ranks))]
        process.kill()
        process.join()
        assert process.exitcode == -signal.SIGKILL
        self.n_kills += 1

    def change(self, *what) -> None:
        """Goes on with the ranks that live, which are told `what`, and maybe with new ones, from the last common state."""
        self.ranks = [rank for rank in self.ranks if rank[0].is_alive()]
        world = self.draws.randint(max(2, len(self.ranks)), MOST)
        for rank, (_, pipe) in enumerate(self.ranks):
            pipe.send((*what, rank, world))
        for _, state, _ in [answer_of(pipe) for _, pipe in self.ranks]:
            assert (state["epoch"], state["position"]) == (self.state["epoch"], self.state["position"])
        self.grow(world)

    def kill_between_steps(self) -> None:
        """Kills a rank that reads ahead."""
        self.kill()
        self.change("world")

    def step(self, kill: bool) -> list:
        """Does a step, and repeats it if a rank dies in it. Returns the rows of all ranks. kill: one rank is killed."""
        answers = self.ask("step", kill=kill)
        if answers is None:
            self.n_redone += 1
            self.change("back", self.state)
            answers = self.ask("step")
        self.state = self.done(answers)[0][1]
        self.n_merged = max(n for _, _, n in answers)
        return [row for rows, _, _ in answers for row in rows]

    def close(self) -> None:
        for process, _ in self.ranks:
            process.kill()
            process.join()


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("kills") / "pictures.pst"
    with ps.Writer(path, {"image": ps.Image("raw")}) as writer:
        for i in range(N_SAMPLES):
            writer.write({"image": np.random.default_rng(i).integers(0, 256, (20, 24, 3), dtype=np.uint8)})
    return path


def test_each_sample_once_whoever_is_killed(pictures):
    draws = random.Random(11)
    group = Group(pictures, draws)
    try:
        epoch = 0
        while group.n_kills < 12 or group.n_redone == 0:
            with loader_of(str(pictures), rank=0, world_size=1, num_workers=0) as loader:
                loader.set_epoch(epoch)
                wanted = dict(row for batch in loader for row in rows_of(batch))
            assert len(wanted) == N_SAMPLES
            counts = collections.Counter()
            while group.state["epoch"] == epoch:
                luck = draws.random()
                if luck < 0.15 and len(group.ranks) > 1:
                    group.kill_between_steps()
                rows = group.step(0.15 <= luck < 0.3 and len(group.ranks) > 1)
                counts.update(i for i, _ in rows)
                assert all(wanted[i] == pixels for i, pixels in rows)
            assert len(counts) == N_SAMPLES and group.n_merged > 0  # neighbours were read together
            assert counts.total() - N_SAMPLES < len(group.ranks)  # the last step is padded
            group.done(group.ask("begin"))
            epoch += 1
    finally:
        group.close()
