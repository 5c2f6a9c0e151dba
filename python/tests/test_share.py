"""Shared preparation: loaders of several jobs get batches from the host service that equal those of a lone loader."""

from __future__ import annotations

import json
import pickle
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import penstock as ps
from conftest import N, host_service
from flat import keywords
from penstock import transforms as T
from penstock.errors import ArgumentError

COMMAND = Path(sys.executable).with_name("penstock")
CHAIN = [T.RandomResizedCrop(64), T.RandomHorizontalFlip(), T.Normalize(ps.IMAGENET_MEAN, ps.IMAGENET_STD)]


def loader_of(path, **options):
    given = {"batch_size": 5, "shuffle": True, "seed": 3, "transforms": CHAIN, "output": "numpy", "num_workers": 1,
             "cache": None, **options}
    return ps.Loader(path, **keywords(**given))


def contents(batches):
    return [(batch["index"].tolist(), batch["label"].tolist(), batch["image"].tobytes()) for batch in batches]


def shared(loader):
    stats = loader.stats()["share"]
    return stats["batches"], stats["alone"]


@pytest.fixture(scope="module")
def command():
    if subprocess.run([COMMAND, "serve", "--help"], capture_output=True).returncode != 0:
        pytest.skip("this command has no serve")
    return [COMMAND, "serve"]


@pytest.fixture
def service(command, tmp_path, monkeypatch):
    path = tmp_path / "host.sock"
    monkeypatch.setenv("PENSTOCK_SOCKET", str(path))
    with host_service(path) as server:
        yield server


@pytest.mark.parametrize("n_jobs", [2, 3])
def test_jobs_with_other_transforms_share_reads_and_decodes(service, packed, n_jobs):
    crops = [T.RandomResizedCrop(64, scale=(0.1 + 0.2 * j, 1)) for j in range(n_jobs)]
    chains = [[crop, T.ColorJitter(brightness=0.2), *CHAIN[1:]] for crop in crops]
    jobs = [loader_of(packed, share="search", transforms=chain) for chain in chains]
    for epoch in range(2):
        batches = [contents(column) for column in zip(*zip(*jobs, strict=True), strict=True)]
        for chain, got in zip(chains, batches, strict=True):
            alone = loader_of(packed, transforms=chain)
            alone.set_epoch(epoch)
            assert contents(alone) == got
    counts = loader_of(packed, share="search", transforms=chains[0]).stats()["share"]
    assert counts["decoded"] == 2 * N and counts["decoded_shared"] == (n_jobs - 1) * 2 * N
    assert counts["read"] == N and counts["nbytes_read"] > 0
    assert counts["read"] + counts["read_shared"] + counts["cached"] == n_jobs * 2 * N
    assert counts["decoded_apart"] == counts["given_up"] == 0


def test_a_shared_epoch_is_that_of_a_loader_alone(service, packed):
    jobs = [loader_of(packed, share="search", batch_size=size) for size in (5, 8)]
    assert all(job.stats()["share"]["sharing"] for job in jobs)
    for _ in range(2):
        for job, size in zip(jobs, (5, 8), strict=True):
            alone = loader_of(packed, batch_size=size)
            alone.set_epoch(job.epoch)
            assert contents(job) == contents(alone)
    for job in jobs:
        batches, made_here = shared(job)
        assert batches == 2 * len(job) and made_here == 0
        assert job.stats()["storage"]["nbytes_read"] == 0 and job.stats()["device"]["cpu_samples"] == 0
        assert job.stats()["fallbacks"].get("share", 0) == 0
    assert jobs[1].stats()["share"]["samples"] == 2 * N and jobs[1].stats()["share"]["epoch"] == 1


def same(left, right):
    """Compares batches with any fields."""
    assert left.keys() == right.keys()
    for name in left:
        for mine, theirs in zip(left[name], right[name], strict=True):
            assert np.array_equal(mine, theirs), name


def test_a_plain_folder_is_shared(service, folder):
    jobs = [loader_of(folder, share="search") for _ in range(2)]
    wanted = contents(loader_of(folder))
    assert [contents(job) for job in jobs] == [wanted, wanted]
    assert all(shared(job) == (len(job), 0) for job in jobs)
    assert len({label for _, labels, _ in wanted for label in labels}) == 3


def test_every_type_of_field_is_shared(service, typed):
    options = {"transforms": None, "batch_size": 3}
    jobs = [loader_of(typed, share="search", **options) for _ in range(2)]
    for epoch in range(2):
        alone = loader_of(typed, **options)
        for loader in (alone, *jobs):
            loader.set_epoch(epoch)
        for wanted, *batches in zip(alone, *jobs, strict=True):
            assert len(wanted.keys()) >= 12
            for batch in batches:
                same(batch, wanted)
    assert all(shared(job) == (2 * len(job), 0) for job in jobs)

def test_sound_is_shared(service, typed):
    chain = [T.PadTo(300), T.RandomClip(200), T.Gain((-6, 6)), T.AddNoise(10), T.LogMel(8000, n_fft=64, n_mels=8), T.TimeMask(2)]
    options = {"transforms": {"sound": chain}, "fields": ["sound", "label"]}
    alone = [batch["sound"].tobytes() for batch in loader_of(typed, **options)]
    jobs = [loader_of(typed, share="sound", **options) for _ in range(2)]
    made = [[batch["sound"].tobytes() for batch in job] for job in jobs]
    assert made == [alone, alone]
    assert all(shared(job) == (len(job), 0) for job in jobs)
    other = loader_of(typed, share="sound", **{**options, "transforms": {"sound": chain[:-1]}})  # is another group's
    assert [batch["sound"].tobytes() for batch in other] != alone


def test_a_job_writes_and_releases_in_any_order(service, packed):
    rng = np.random.default_rng(1)
    for size in (8, 5):  # 5: several batches lie in one extent
        job = loader_of(packed, share="search", batch_size=size)
        for epoch in range(3):
            held = []
            wanted = loader_of(packed, batch_size=size)
            wanted.set_epoch(epoch)
            for batch, right in zip(job, wanted, strict=True):
                for kept, value in held:
                    assert (kept["image"] == value).all()
                assert contents([batch]) == contents([right])
                value = float(rng.integers(100, 200))
                batch["image"][:] = value
                held.append((batch, value))
                del batch
                while len(held) > rng.integers(0, 4):
                    del held[rng.integers(len(held))]
        assert shared(job) == (3 * len(job), 0)


def test_tensors_are_ones_own(service, packed):
    writer, reader = (loader_of(packed, share="search") for _ in range(2))
    wanted = loader_of(packed)
    for _ in range(3):
        for mine, theirs, right in zip(writer, reader, wanted, strict=True):
            assert np.array_equal(mine["image"], right["image"])
            mine["image"][:] = 7
            assert np.array_equal(theirs["image"], right["image"])
    kept = list(reader)
    list(writer)
    assert contents(kept) == contents(wanted)


def test_resume_and_pickle(service, packed):
    wanted = contents(loader_of(packed))
    job = loader_of(packed, share="search")
    batches = iter(job)
    got = contents([next(batches), next(batches)])
    state = json.loads(json.dumps(job.state_dict()))
    other = loader_of(packed, share="search")
    other.load_state_dict(state)
    assert got + contents(other) == wanted
    again = pickle.loads(pickle.dumps(job))
    assert again.stats()["share"]["sharing"] and contents(again) == wanted[2:]


def test_a_late_job_begins_with_the_next_epoch(service, packed):
    job = loader_of(packed, share="search")
    list(job)
    late = loader_of(packed, share="search")
    assert late.stats()["share"]["epoch"] == 0
    late.set_epoch(late.stats()["share"]["epoch"] + 1)
    assert contents(late) == contents(job)
    assert shared(late)[1] == shared(job)[1] == 0 and job.stats()["share"]["samples"] == 2 * N


def test_ranks(service, packed):
    wanted = [contents(loader_of(packed, rank=rank, world_size=3, batch_size=2)) for rank in range(3)]
    jobs = [loader_of(packed, rank=rank, world_size=3, batch_size=2, share="search") for rank in range(3)]
    got = list(zip(*jobs, strict=True))
    assert [contents(batches) for batches in zip(*got, strict=True)] == wanted
    assert all(shared(job) == (4, 0) for job in jobs)


def test_the_service_is_killed(service, packed, monkeypatch):
    wanted = contents(loader_of(packed))
    job = loader_of(packed, share="search")
    batches = iter(job)
    got = contents([next(batches), next(batches)])
    monkeypatch.setenv("PENSTOCK_SERVE", "/nonexistent/penstock")  # no other process starts a service
    service.kill()
    service.wait()
    assert got + contents(batches) == wanted
    assert shared(job) == (2, 3) and "ended" in job.stats()["share"]["reason"]


def test_a_job_is_killed(service, packed, tmp_path):
    script = tmp_path / "job.py"
    script.write_text(textwrap.dedent(f"""
        import sys
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        from test_share import loader_of
        job = loader_of({str(packed)!r}, share="search")
        batches = iter(job)
        held = [next(batches), next(batches)]
        print(job.stats()["share"]["batches"], flush=True)
        sys.stdin.read()
    """))
    victim = subprocess.Popen([sys.executable, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert victim.stdout.readline() == "2\n"
    job = loader_of(packed, share="search")
    batches = iter(job)
    first = next(batches)
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    assert contents([first, *batches]) == contents(loader_of(packed)) and shared(job) == (5, 0)


def test_without_a_service(packed, tmp_path, monkeypatch):
    monkeypatch.setenv("PENSTOCK_SOCKET", str(tmp_path / "host.sock"))
    monkeypatch.setenv("PENSTOCK_SERVE", "/nonexistent/penstock")
    job = loader_of(packed, share="search", cache="auto")
    assert contents(job) == contents(loader_of(packed))
    stats = job.stats()
    assert not stats["share"]["sharing"] and stats["share"]["alone"] == 5 and stats["share"]["epoch"] is None
    assert stats["share"]["reason"] and stats["cache"]["limit"] == 0
    assert stats["fallbacks"]["share"] == 5 and "share" in stats["fallback_reasons"]


def test_the_first_job_starts_the_service(command, packed, tmp_path, monkeypatch):
    monkeypatch.setenv("PENSTOCK_SOCKET", str(tmp_path / "host.sock"))
    jobs = [loader_of(packed, share="search") for _ in range(2)]
    assert [contents(job) for job in jobs] == 2 * [contents(loader_of(packed))]
    assert all(shared(job) == (5, 0) for job in jobs)
    assert subprocess.run([COMMAND, "serve", "stop"], capture_output=True).returncode == 0


@pytest.mark.parametrize("options", [{"share": ""}, {"share": "a\0b"}, {"share": 3}, {"share": "x" * 200},
                                     {"share": ps.Share("x", wait=0)},
                                     {"share": "x", "device": "cuda", "output": "dlpack", "decode": "gpu"}])
def test_what_cannot_be(packed, options):
    with pytest.raises(ArgumentError, match="(?i)share"):
        loader_of(packed, **options)


POLICIES = [
    [T.Resize((48, 56)), T.RandAugment(2, 14, interpolation="bilinear", fill=(3, 5, 7)), T.TrivialAugmentWide(20)],
    [T.Resize((48, 56)), T.AutoAugment("svhn"), T.AugMix(4, 2, 2, 0.6, all_ops=False), T.RandomSolarize(99, 0.7)],
    [T.Resize((48, 56)), T.RandomAffine(20, (0.1, 0.2), (0.7, 1.3), (1, 5, -4, 3), "bilinear", 9, (20, 22)),
     T.RandomPerspective(0.3, 0.8), T.RandomApply([T.RandomPosterize(3, 1), T.RandomVerticalFlip(0.6)], 0.4)],
    [T.Resize((48, 56)), T.RandomChoice([T.Identity(), T.RandomInvert(1), T.RandomAdjustSharpness(2.5, 1)], (1, 2, 3)),
     T.ElasticTransform((20, 40), 3), T.GaussianBlur((3, 5), (0.3, 2)), T.Normalize(0.5, 0.5), T.RandomErasing(0.8, value="random")]
]  # fmt: skip


@pytest.mark.parametrize("chain", POLICIES)
def test_every_argument_of_an_operation_reaches_the_service(service, packed, chain):
    alone = contents(loader_of(packed, transforms=chain))
    job = loader_of(packed, transforms=chain, share="policies")
    assert contents(job) == alone
    assert shared(job)[0] > 0


def test_a_job_mixes_what_is_shared(service, packed):
    options = {"transforms": CHAIN, "mix": [T.MixUp(0.4, num_classes=1000), T.CutMix(num_classes=1000)]}
    alone = [(batch["image"].tobytes(), batch["label"].tobytes()) for batch in loader_of(packed, **options)]
    jobs = [loader_of(packed, share="mixed", **options), loader_of(packed, share="mixed", transforms=CHAIN)]
    mixed, plain = list(jobs[0]), list(jobs[1])
    assert [(batch["image"].tobytes(), batch["label"].tobytes()) for batch in mixed] == alone
    assert contents(plain) == contents(loader_of(packed))
    assert shared(jobs[0])[0] > 0
