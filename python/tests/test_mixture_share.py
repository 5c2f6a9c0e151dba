"""Mixtures that jobs share: batches equal those of a lone loader, with weights, changes of weights, other ranks, and lost jobs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from itertools import chain, islice
from pathlib import Path

import pytest

import penstock as ps
from conftest import encoded, host_service, picture
from flat import keywords
from penstock import transforms as T

CHAIN = {"image": [T.RandomResizedCrop(16), T.RandomHorizontalFlip()]}
Batch = tuple[list[int], list[int], bytes]


@pytest.fixture
def paths(tmp_path: Path) -> dict[str, Path]:
    """Pictures with labels: a packed data set with classes a and b, a folder with b and c, and files with a list of labels."""
    numbers = iter(range(99))
    for name, n, classes in (("packed", 20, "ab"), ("folder", 13, "bc"), ("listed", 7, "ca")):
        lines = ["file,label"]
        for i in range(n):
            flat = "" if name == "listed" else classes[i % 2]
            path = tmp_path / name / flat / f"{i:02d}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(encoded(picture(next(numbers), 24 + i % 3, 32), "png"))
            lines.append(f"{path.name},{classes[i % 2]}")
        (tmp_path / f"{name}.csv").write_text("\n".join(lines) + "\n")
    ps.pack(tmp_path / "packed", tmp_path / "packed.pst", forms=["original"])
    return {"packed": tmp_path / "packed.pst", "folder": tmp_path / "folder", "listed": tmp_path / "listed"}


@pytest.fixture
def socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PENSTOCK_SOCKET", str(tmp_path / "s.sock"))
    return tmp_path / "s.sock"


def mixture_of(paths: dict[str, Path], *names: str, **options: object) -> ps.Mixture:
    sources = {
        name: ps.Dataset(paths[name], labels=paths[name].with_suffix(".csv")) if name == "listed" else paths[name] for name in names
    }
    return ps.Mixture(sources, **options)


def loader_of(dataset: object, **options: object) -> ps.Loader:
    given = {"batch_size": 4, "seed": 5, "shuffle": True, "output": "numpy", "num_workers": 1, "cache": None, "pad_epoch": False,
             "transforms": CHAIN, **options}  # fmt: skip
    return ps.Loader(dataset, **keywords(**given))


def contents(batch: dict) -> Batch:
    return batch["index"].tolist(), batch["label"].tolist(), batch["image"].tobytes()


def epoch(loader: ps.Loader, number: int | None = None) -> list[Batch]:
    if number is not None:
        loader.set_epoch(number)
    return [contents(batch) for batch in loader]


def counts(loader: ps.Loader) -> tuple[int, int, int]:
    share = loader.stats()["share"]
    return share["batches"], share["alone"], share["samples"]


ALL = ("packed", "folder", "listed")
RULES = {
    "plain": {},
    "all": {"weights": {"packed": 2, "folder": 1, "listed": 1}},
    "first": {"weights": [3, 1, 0.5], "stop": "first_exhausted", "quota": 9},
    "epoch": {"weights": [1, 1, 1], "quota": "epoch"},
}


def of_rule(paths: dict[str, Path], rule: str) -> ps.Mixture:
    mixture = mixture_of(paths, *ALL)
    options = dict(RULES[rule])
    if isinstance(options.get("weights"), list):
        options["weights"] = dict(zip(ALL, options["weights"], strict=True))
    return ps.Mixture(mixture.sources, **options) if options else mixture


@pytest.mark.parametrize("rule", RULES)
def test_two_jobs_take_from_one_preparation(paths: dict[str, Path], socket: Path, rule: str) -> None:
    mixture = of_rule(paths, rule)
    assert mixture.classes == ["a", "b", "c"]  # the labels of two sources get other numbers by this merged list
    with host_service(socket), loader_of(mixture) as alone:
        jobs = [loader_of(of_rule(paths, rule), share="search") for _ in range(2)]
        for number in range(2):
            wanted = epoch(alone, number)
            assert [epoch(job, number) for job in jobs] == [wanted, wanted]
        made = [counts(job) for job in jobs]
        assert [part[:2] for part in made] == [(2 * len(wanted), 0)] * 2
        n = sum(len(part[0]) for part in wanted)
        assert max(part[2] for part in made) == 2 * n
        for job in jobs:
            assert job.stats()["storage"]["reads"] == 0
            job.close()


def test_other_mixtures_are_other_groups(paths: dict[str, Path], socket: Path) -> None:
    """With the same group name, mixtures that differ in weights, rule, quota, order of sources, fields or labels are never mixed
    up.
    """
    weights = {"packed": 2, "folder": 1}
    mixtures = [
        mixture_of(paths, "packed", "folder"),
        mixture_of(paths, "folder", "packed"),
        mixture_of(paths, "packed", "folder", weights=weights),
        mixture_of(paths, "packed", "folder", weights={"packed": 1, "folder": 1}),
        mixture_of(paths, "packed", "folder", weights=weights, stop="first_exhausted"),
        mixture_of(paths, "packed", "folder", weights=weights, quota=8),
        mixture_of(paths, "folder", "packed", weights=weights),
        mixture_of(paths, "packed", "folder", "listed"),
        ps.Mixture([paths["packed"], ps.Dataset(paths["folder"]).subset(range(5))]),
    ]
    with host_service(socket):
        jobs = [loader_of(mixture, share="search") for mixture in mixtures]
        made = zip(*zip(*(islice(job, 3) for job in jobs), strict=True), strict=True)
        for mixture, job, got in zip(mixtures, jobs, made, strict=True):
            with loader_of(mixture) as alone:
                assert [contents(batch) for batch in got] == [contents(batch) for batch in islice(alone, 3)]
            assert counts(job)[:2] == (3, 0)
            job.close()


def test_a_label_file_that_was_changed(paths: dict[str, Path], socket: Path) -> None:
    """The bytes' identity is the same, but the labels are others: a job that opens it later gets a group of its own."""
    with host_service(socket), loader_of(mixture_of(paths, *ALL), share="search") as first:
        wanted = epoch(first)
        file = paths["listed"].with_suffix(".csv")
        file.write_text(file.read_text().replace(",c", ",x").replace(",a", ",c").replace(",x", ",a"))
        changed = mixture_of(paths, *ALL)
        with loader_of(changed, share="search") as second, loader_of(changed) as alone:
            got = epoch(second)
            assert got == epoch(alone) and got != wanted
            assert counts(second)[:2] == (len(got), 0)


def test_weights_change(paths: dict[str, Path], socket: Path) -> None:
    """Jobs that make the same change after the same batch share again; other jobs get another group."""
    mixture = of_rule(paths, "all")
    even = {"packed": 1, "folder": 1, "listed": 1}

    def run(loader: ps.Loader) -> list[Batch]:
        got = []
        for number in range(2):
            for batch in loader:
                got.append(contents(batch))
                if len(got) in (3, 14):
                    loader.set_weights(even if len(got) == 3 else {**even, "listed": 0})
            assert number == 1 or len(got) > 3
        return got

    with loader_of(mixture) as alone:
        wanted = run(alone)
    with host_service(socket):
        jobs = [loader_of(mixture, share="search") for _ in range(2)]
        assert [run(job) for job in jobs] == [wanted, wanted]
        assert all(counts(job)[:2] == (len(wanted), 0) for job in jobs)
        state = jobs[0].state_dict()
        with loader_of(mixture, share="search") as fresh, loader_of(mixture) as alone:
            for loader in (fresh, alone):
                loader.load_state_dict(state)
            assert epoch(fresh) == epoch(alone)
            assert counts(fresh)[1] == 0
        for job in jobs:
            job.close()


@pytest.mark.parametrize("rule", ["plain", "all"])
def test_resume_with_other_ranks(paths: dict[str, Path], socket: Path, rule: str) -> None:
    mixture = ps.Mixture(of_rule(paths, rule).sources, **({} if rule == "plain" else {**RULES[rule], "quota": 4}))
    with loader_of(mixture) as alone:
        wanted = epoch(alone) + epoch(alone)
    with host_service(socket):
        with loader_of(mixture, share="search") as job:
            begun = [contents(batch) for batch in islice(job, 3)]
            state = job.state_dict()
        ranks = [loader_of(mixture, share="search", batch_size=2, rank=rank, world_size=2) for rank in range(2)]
        for loader in ranks:
            loader.load_state_dict(state)
        rest = []
        for _ in range(2):
            for step in zip(*ranks, strict=True):
                both = [contents(batch) for batch in step]
                rest += [list(chain(*(part[0] for part in both))), b"".join(part[2] for part in both)]
        flat = list(chain(*((part[0], part[2]) for part in wanted[3:])))
        assert begun == wanted[:3] and rest == flat[: len(rest)] and len(rest) >= len(flat) - 4
        assert all(counts(loader)[1] <= 2 for loader in ranks)  # the last, incomplete step of an epoch
        for loader in ranks:
            loader.close()


def test_an_endless_mixture(paths: dict[str, Path], socket: Path) -> None:
    mixture = mixture_of(paths, "packed", "folder", weights={"packed": 1, "folder": 2}, stop="endless")
    with host_service(socket), loader_of(mixture) as alone, loader_of(mixture, share="search") as job:
        assert [contents(batch) for batch in islice(job, 40)] == [contents(batch) for batch in islice(alone, 40)]
        assert counts(job)[:2] == (40, 0)


CHILD = """
import sys
import penstock as ps
from penstock import transforms as T
mixture = ps.Mixture({"packed": sys.argv[1], "folder": sys.argv[2]}, weights={"packed": 2, "folder": 1})
loader = ps.Loader(mixture, batch_size=4, seed=5, shuffle=True, output="numpy", num_workers=1, cache=None, share="search",
                   transforms={"image": [T.RandomResizedCrop(16), T.RandomHorizontalFlip()]})
held = next(iter(loader))
print(loader.stats()["share"]["batches"], flush=True)
sys.stdin.read()
"""


def test_a_job_and_the_service_are_killed(paths: dict[str, Path], socket: Path) -> None:
    mixture = mixture_of(paths, "packed", "folder", weights={"packed": 2, "folder": 1})
    with loader_of(mixture) as alone:
        wanted = [epoch(alone) for _ in range(3)]
    with host_service(socket) as service, loader_of(mixture, share="search") as job:
        child = subprocess.Popen([sys.executable, "-c", CHILD, str(paths["packed"]), str(paths["folder"])], text=True,
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # fmt: skip
        assert child.stdout is not None and child.stdout.readline() == "1\n"
        child.kill()
        child.communicate()
        assert epoch(job) == wanted[0] and counts(job)[:2] == (len(wanted[0]), 0)
        got = []
        for batch in job:
            got.append(contents(batch))
            if len(got) == 2:
                os.kill(service.pid, signal.SIGKILL)
        assert got == wanted[1] and counts(job)[1] > 0
        socket.unlink(missing_ok=True)
        with host_service(socket):
            before = counts(job)[1]
            assert epoch(job) == wanted[2] and counts(job)[1] == before


@pytest.mark.long
def test_more_data_sets_than_a_message_brings(tmp_path: Path, socket: Path) -> None:
    sources = []
    for i in range(251):
        path = tmp_path / "many" / f"{i:03d}" / "a" / "x.png"
        path.parent.mkdir(parents=True)
        path.write_bytes(encoded(picture(i % 9, 20, 20), "png"))
        sources.append(str(path.parents[1]))
    with host_service(socket), loader_of(ps.Mixture(sources)) as alone, loader_of(ps.Mixture(sources), share="search") as job:
        assert epoch(job) == epoch(alone)
        assert counts(job)[0] == 0 and "label files" in job.stats()["share"]["reason"]
    socket.unlink(missing_ok=True)
    some = ps.Mixture(sources[:200])
    with host_service(socket), loader_of(some) as alone, loader_of(some, share="search") as job:
        assert epoch(job) == epoch(alone) and counts(job)[:2] == (50, 0)
