"""Frameworks that accept a Loader unchanged: transformers' Trainer and accelerate. They count batches, skip batches and set
epochs.
"""

from __future__ import annotations

import importlib.util
import json
import math
import os
import subprocess
import sys
import textwrap

import pytest

import penstock as ps
from conftest import N, torchaudio_itself
from flat import keywords
from penstock import transforms as T

torch = pytest.importorskip("torch")
CHAIN = [T.RandomResizedCrop(16), T.Normalize(0.5, 0.25)]


def loader_of(path, **options):
    return ps.Loader(path,
                     **keywords(**{"batch_size": 5, "shuffle": True, "seed": 4, "transforms": CHAIN, "output": "torch", **options}))


def indices(batches):
    return [batch["index"].tolist() for batch in batches]


def epochs_of(path, n, **options):
    loader = loader_of(path, **options)
    return [indices(loader) for _ in range(n)]


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(3 * 16 * 16, 3)

    def forward(self, pixel_values, labels):
        logits = self.net(pixel_values.flatten(1))
        return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}


@pytest.fixture
def trainer_of(packed, tmp_path):
    """Makes a Trainer that uses the loader unchanged. Returns it and the list of batches that it has trained on."""
    transformers = pytest.importorskip("transformers")
    if importlib.util.find_spec("torchaudio"):  # transformers must be imported after find_references() has extended the search path
        torchaudio_itself()

    class Trainer(transformers.Trainer):
        def get_train_dataloader(self):
            return self.train_dataset

    def make(n_epochs, batch_size=5, state=None, **arguments):
        seen = []

        def names(batch):
            seen.append(batch["index"].tolist())
            return {"pixel_values": batch["image"], "labels": batch["label"]}

        loader = loader_of(packed, collate_fn=names, batch_size=batch_size)
        if state is not None:
            loader.load_state_dict(state)
        given = {"report_to": "none", "use_cpu": True, "disable_tqdm": True, "logging_strategy": "no", "save_strategy": "no",
                 "per_device_train_batch_size": batch_size, "num_train_epochs": n_epochs, **arguments}
        made = Trainer(Model(), transformers.TrainingArguments(str(tmp_path / "out"), **given), train_dataset=loader)
        return made, seen

    return make


def test_trainer_with_one_batch_an_epoch(packed, trainer_of):
    trainer, seen = trainer_of(4, batch_size=N)
    trainer.train()
    assert seen == sum(epochs_of(packed, 4, batch_size=N), [])


@pytest.mark.parametrize("accumulates", [1, 2])
def test_trainer_resumes_with_its_defaults(packed, trainer_of, tmp_path, accumulates):
    every = {"save_strategy": "steps", "save_steps": 1, "gradient_accumulation_steps": accumulates}
    trainer, whole = trainer_of(2, **every)
    trainer.train()
    assert whole == sum(epochs_of(packed, 2), [])
    n_steps = 2 * math.ceil(5 / accumulates)
    places = [min(step * accumulates, 5) if step <= n_steps // 2 else 5 + (step - n_steps // 2) * accumulates
              for step in range(1, n_steps)]
    for step, place in list(enumerate(places, 1))[1::2]:
        again, seen = trainer_of(2, **every, save_total_limit=None)
        again.train(resume_from_checkpoint=str(tmp_path / "out" / f"checkpoint-{step}"))
        assert seen == whole[place:], step


def test_trainer_resumes_by_a_loaded_state(packed, trainer_of, tmp_path):
    """The loaded state and Trainer's own skip mean the same position, so batches are not skipped twice."""
    every = {"save_strategy": "steps", "save_steps": 1}
    trainer, whole = trainer_of(2, **every)
    trainer.train()
    reference = loader_of(packed)
    batches = iter(reference)
    for _ in range(3):
        next(batches)
    again, seen = trainer_of(2, state=json.loads(json.dumps(reference.state_dict())), **every)
    again.train(resume_from_checkpoint=str(tmp_path / "out" / "checkpoint-3"))
    assert seen == whole[3:]
    ignoring, seen = trainer_of(2, state=reference.state_dict(), ignore_data_skip=True, **every)
    ignoring.train(resume_from_checkpoint=str(tmp_path / "out" / "checkpoint-3"))
    assert seen[: len(whole) - 3] == whole[3:]


def test_accelerate_skips_batches_without_making_them(packed):
    accelerate = pytest.importorskip("accelerate")
    first, second = epochs_of(packed, 2)
    for n in range(len(first)):
        made = []
        loader = loader_of(packed, collate_fn=lambda batch, made=made: made.append(1) or batch)
        skipped = accelerate.skip_first_batches(loader, n)
        assert len(skipped) == len(first) - n
        assert indices(skipped) == first[n:] and len(made) == len(first) - n
        assert indices(loader) == second  # the next epoch
    loader.set_epoch(0)
    assert indices(accelerate.skip_first_batches(loader, 2)) == first[2:]
    # The loaded position counts if it is further on than the skip.
    state = {**loader.state_dict(), "epoch": 0, "position": 15}
    for n, start in ((0, 3), (2, 3), (3, 3), (4, 4)):
        loader.load_state_dict(state)
        assert indices(accelerate.skip_first_batches(loader, n)) == first[start:]
        assert indices(loader) == second


def test_accelerate_dispatches_batches(packed):
    accelerate = pytest.importorskip("accelerate")
    from accelerate.utils import DataLoaderConfiguration

    config = DataLoaderConfiguration(dispatch_batches=True)
    accelerator = accelerate.Accelerator(cpu=True, dataloader_config=config)
    first, second = epochs_of(packed, 2)
    given = accelerator.prepare_data_loader(loader_of(packed))
    assert len(given) == len(first)
    assert indices(given) == first and indices(given) == second
    rest = accelerator.skip_first_batches(accelerator.prepare_data_loader(loader_of(packed)), 3)
    assert indices(rest) == first[3:]


def test_accelerate_keeps_the_state(packed, tmp_path):
    accelerate = pytest.importorskip("accelerate")
    accelerator = accelerate.Accelerator(cpu=True)
    loader = loader_of(packed)
    accelerator.register_for_checkpointing(loader)
    batches = iter(loader)
    next(batches), next(batches)
    accelerator.save_state(str(tmp_path / "kept"))
    rest = indices(batches)
    accelerator.load_state(str(tmp_path / "kept"))
    assert indices(loader) == rest


def test_accelerate_with_two_ranks(packed, tmp_path):
    """Each sample comes once, both with a loader in each process and with batches that process 0 sends."""
    pytest.importorskip("accelerate")
    script = tmp_path / "ranks.py"
    script.write_text(textwrap.dedent(f"""
        import json, sys
        import accelerate
        from accelerate.utils import DataLoaderConfiguration
        import penstock as ps
        found = []
        for dispatches in (False, True):
            accelerator = accelerate.Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(dispatch_batches=dispatches))
            more = {{"rank": 0, "world_size": 1}} if dispatches else {{}}
            loader = ps.Loader({str(packed)!r}, 4, shuffle=True, seed=4, fields=["label"], output="torch", **more)
            given = accelerator.prepare_data_loader(loader) if dispatches else loader
            seen = [batch["index"].tolist() for epoch in range(2) for batch in given]
            rest = [] if dispatches else [batch["index"].tolist() for batch in accelerator.skip_first_batches(loader, 1)]
            found.append([seen, rest])
        with open(sys.argv[1] + str(accelerator.process_index), "w") as file:
            json.dump(found, file)
        accelerator.end_training()
    """))
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", script, tmp_path / "seen"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr[-4000:]
    by_rank = [json.loads((tmp_path / f"seen{rank}").read_text()) for rank in range(2)]
    for found in zip(*by_rank, strict=True):
        for epoch in range(2):
            samples = [sample for seen, _ in found for batch in seen[3 * epoch : 3 * epoch + 3] for sample in batch]
            assert sorted(samples) == list(range(N))
    own = [rest for (_, rest), _ in by_rank]
    assert sorted(sample for rest in own for batch in rest for sample in batch) != list(range(N))
    assert all(len(rest) == 2 for rest in own)


def test_loader_of_torch_checks_what_it_takes(packed):
    """If the parts of a Loader are given to torch's DataLoader, it returns the Loader's batches. A Dataset alone gives samples."""
    loader = loader_of(packed)
    parts = {"batch_sampler": loader.batch_sampler, "collate_fn": loader.collate_fn}
    assert indices(torch.utils.data.DataLoader(loader.dataset, **parts)) == epochs_of(packed, 1)[0]
    samples = list(torch.utils.data.DataLoader(ps.Dataset(packed), batch_size=3, collate_fn=list))
    assert len(samples) == N // 3 and samples[0][1]["label"] == ps.Dataset(packed)[1]["label"]
    assert loader.drop_last is False and loader.prefetch_factor is None
