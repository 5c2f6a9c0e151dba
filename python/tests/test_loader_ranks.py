"""Ranks: where the loader reads them from, and when."""

from __future__ import annotations

import logging
import warnings

import pytest

import penstock as ps
from conftest import N
from flat import keywords
from penstock.base import options as _options


def loader_of(path, **options):
    return ps.Loader(path, **keywords(**{"fields": ["label"], "output": "numpy", "batch_size": 5, "cache": None, **options}))


def indices_of_rank(rank, world_size, batch_size=5):
    """Returns the samples of a rank in an unshuffled epoch: its block of each step."""
    got, first = [], 0
    while first < N:
        block = min(batch_size, -(-(N - first) // world_size))
        got += [(first + rank * block + i) % N for i in range(block)]
        first += block * world_size
    return got


def indices_of(batches):
    return [int(i) for batch in batches for i in batch["index"]]


BATCH_SCRIPT = {"SLURM_JOB_ID": "7", "SLURM_PROCID": "0", "SLURM_NTASKS": "8", "SLURM_LOCALID": "0"}


@pytest.mark.parametrize(("variables", "wanted"), [
    ({}, (0, 1, "default")),
    ({"RANK": "3", "WORLD_SIZE": "4"}, (3, 4, "torchrun")),
    ({"SLURM_PROCID": "1", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2"}, (1, 2, "Slurm")),
    ({"SLURM_PROCID": "1", "SLURM_STEPID": "3", "SLURM_STEP_NUM_TASKS": "2"}, (1, 2, "Slurm")),
    ({**BATCH_SCRIPT, "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "1"}, (0, 1, "Slurm")),
    (BATCH_SCRIPT, (0, 1, "Slurm, outside of srun")),
    ({**BATCH_SCRIPT, "SLURM_STEP_ID": "4294967291"}, (0, 1, "Slurm, outside of srun")),
    ({**BATCH_SCRIPT, "SLURM_STEP_ID": "4294967290", "SLURM_STEP_NUM_TASKS": "8"},
     (0, 1, "Slurm, outside of srun")),
    ({**BATCH_SCRIPT, "SLURM_STEP_ID": "batch"}, (0, 1, "Slurm, outside of srun")),
    ({"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "3"}, (2, 3, "Open MPI")),
    ({"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "3", "SLURM_PROCID": "1", "SLURM_STEP_ID": "0",
      "SLURM_STEP_NUM_TASKS": "2"}, (2, 3, "Open MPI")),
    ({"RANK": "1", "WORLD_SIZE": "2", "SLURM_PROCID": "5", "SLURM_STEP_ID": "0",
      "SLURM_STEP_NUM_TASKS": "6"}, (1, 2, "torchrun")),
])
def test_ranks_from_launchers(packed, monkeypatch, variables, wanted):
    monkeypatch.setattr(_options, "_lone", ["warned"])
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    loader = loader_of(packed)
    ranks = loader.stats()["ranks"]
    assert (ranks["rank"], ranks["world_size"], ranks["from"]) == wanted == (
        loader.rank, loader.world_size, ranks["from"])
    got = indices_of(loader)
    rank, world_size, _ = wanted
    assert got == indices_of_rank(rank, world_size)
    given = loader_of(packed, rank=0, world_size=1)
    assert given.stats()["ranks"]["from"] == "arguments" and indices_of(given) == list(range(N))


@pytest.mark.parametrize(("variables", "text"), [
    ({"RANK": "1"}, "RANK=.1. is set, but WORLD_SIZE is not"),
    ({"WORLD_SIZE": "2"}, "WORLD_SIZE=.2. is set, but RANK is not"),
    ({"OMPI_COMM_WORLD_RANK": "1"}, "OMPI_COMM_WORLD_SIZE is not"),
    ({"SLURM_PROCID": "1", "SLURM_STEP_ID": "0"}, "SLURM_STEP_NUM_TASKS is not"),
    ({"SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "4"}, "SLURM_PROCID='3' is set, .* no SLURM_STEP_ID"),
    ({"SLURM_PROCID": "1", "SLURM_STEP_ID": "4294967291", "SLURM_NTASKS": "2"}, "SLURM_PROCID='1' is set"),
    ({"SLURM_PROCID": "x", "SLURM_STEP_ID": "batch"}, "SLURM_PROCID='x' is set"),
    ({"RANK": "first", "WORLD_SIZE": "2"}, "RANK='first'"),
    ({"RANK": "2", "WORLD_SIZE": "2"}, "rank 2 is not below world_size 2"),
])
def test_broken_launcher_variables(packed, monkeypatch, variables, text):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    loader = loader_of(packed)
    for call in (lambda: iter(loader), lambda: len(loader), lambda: loader.rank, loader.stats):
        with pytest.raises(ps.errors.ArgumentError, match=text):
            call()
    assert "no rank" in repr(loader)
    assert len(loader_of(packed, rank=0, world_size=1)) == 5


@pytest.mark.parametrize("variables", [
    {**BATCH_SCRIPT, "SLURM_STEP_ID": "4294967291"}, {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "8"},
    {"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "8"},
])
def test_a_lone_process_of_a_job_warns_once(packed, monkeypatch, variables):
    monkeypatch.setattr(_options, "_lone", [])
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.warns(UserWarning, match="=8, but srun did not start this process: it is rank 0 of 1") as caught:
        for _ in range(2):
            loader = loader_of(packed)
            assert len(list(loader)) == 5 and loader.stats()["ranks"]["from"] == "Slurm, outside of srun"
    assert len(caught) == 1


@pytest.mark.parametrize("variables", [
    {**BATCH_SCRIPT, "SLURM_NTASKS": "1"}, {}, {**BATCH_SCRIPT, "RANK": "0", "WORLD_SIZE": "2"},
    {**BATCH_SCRIPT, "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "8"},
])
def test_no_warning_where_ranks_are_plain(packed, monkeypatch, variables):
    monkeypatch.setattr(_options, "_lone", [])
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        list(loader_of(packed))
        list(loader_of(packed, rank=0, world_size=1))


@pytest.mark.parametrize("options", [{"rank": 0}, {"world_size": 2}, {"rank": 2, "world_size": 2},
                                     {"rank": -1, "world_size": 2}])
def test_wrong_ranks(packed, options):
    with pytest.raises(ps.errors.ArgumentError):
        loader_of(packed, **options)


def set_ranks(monkeypatch, rank, world_size):
    monkeypatch.setenv("RANK", str(rank))
    monkeypatch.setenv("WORLD_SIZE", str(world_size))


def test_ranks_are_those_of_the_epochs_begin(packed, monkeypatch):
    loader = loader_of(packed)
    assert len(loader) == 5 and "5 batches, epoch 0, rank 0 of 1 (default)" in repr(loader)
    set_ranks(monkeypatch, 1, 2)
    assert len(loader) == 3 and "rank 1 of 2 (torchrun)" in repr(loader)
    batches = iter(loader)
    first = next(batches)
    set_ranks(monkeypatch, 3, 4)  # the current pass keeps its ranks
    assert (loader.rank, loader.world_size, len(loader)) == (1, 2, 3)
    assert indices_of([first, *batches]) == indices_of_rank(1, 2)
    assert loader.replay(0)["index"].tolist() == [5, 6, 7, 8, 9]
    assert (loader.rank, loader.world_size, len(loader)) == (3, 4, 2)
    assert indices_of(loader) == indices_of_rank(3, 4)
    loader.close()
    assert len(loader) == 2


def test_a_state_goes_on_with_the_ranks_of_now(packed, monkeypatch):
    loader = loader_of(packed)
    next(iter(loader))
    state = loader.state_dict()
    got = []
    for rank in range(2):
        set_ranks(monkeypatch, rank, 2)
        loader.load_state_dict(state)
        got += indices_of(loader)
    assert sorted(got) == [0, *range(5, N)]  # 19 samples for two ranks: one is padding


def test_arguments_win_over_what_launchers_say(packed, monkeypatch):
    loader = loader_of(packed, rank=1, world_size=3)
    set_ranks(monkeypatch, 0, 2)
    assert indices_of(loader) == indices_of_rank(1, 3) and loader.world_size == 3


def test_changes_are_logged_once(packed, monkeypatch, caplog):
    caplog.set_level(logging.INFO, logger="penstock")
    loader = loader_of(packed)
    assert caplog.messages == []
    list(loader), list(loader)
    set_ranks(monkeypatch, 1, 2)
    list(loader), list(loader)
    assert [message.partition(": ")[2] for message in caplog.messages] == [
        "rank 0 of 1, from default", "rank 1 of 2, from torchrun"]


def test_a_loader_made_before_torch_distributed(packed, tmp_path):
    import torch.distributed as dist

    loader = loader_of(packed)
    assert loader.stats()["ranks"]["from"] == "default"
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/rendezvous", rank=0, world_size=1)
    try:
        list(loader)
        assert loader.stats()["ranks"]["from"] == "torch.distributed"
    finally:
        dist.destroy_process_group()


def test_a_loader_made_before_its_processes(run):
    """Forked children get their ranks after the loader was made, as with mp.spawn and Lightning."""
    out = run("""
        import os
        import penstock as ps
        loader = ps.Loader(packed, batch_size=3, fields=["label"], output="numpy")
        assert len(loader) == 8
        for rank in range(2):
            pid = os.fork()
            if pid == 0:
                os.environ.update(RANK=str(rank), WORLD_SIZE="2")
                print(rank, len(loader), sum((b["index"].tolist() for b in loader), []), flush=True)
                os._exit(0)
            assert os.waitpid(pid, 0)[1] == 0
    """).splitlines()
    assert out == [f"{rank} 4 {indices_of_rank(rank, 2, 3)}" for rank in range(2)]
