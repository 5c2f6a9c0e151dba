#!/usr/bin/env python3
"""Images, boxes, keypoints, arrays and sound whose rows differ in shape lie on the GPU, and are those of host memory.

    tests/gpu/ragged_on_gpu.py

Each way of ``ragged``, with an epoch, ``fetch`` and ``replay``. With torch that supports CUDA, a slow stream reads batches long
after they were dropped, nested tensors are made of offsets, and functions get rows on the GPU. A simulated driver
(PENSTOCK_CUDA_DRIVER) works without torch.
"""

from __future__ import annotations

import io
import tempfile
import wave
from pathlib import Path
from typing import Any

import numpy as np

import penstock as ps
from loader_on_gpu import on_host, torch_output
from penstock import transforms as T

N = 50


def wav(i: int) -> bytes:
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes((np.arange(400 + 37 * (i % 9)) * (i + 3) % 20000).astype("<i2").tobytes())
    return out.getvalue()


def row_of(i: int) -> dict[str, Any]:
    """Returns a sample. Samples 16 to 23 have no boxes, and sample 33 has very many."""
    rng = np.random.default_rng(i)
    n = 0 if i // 8 == 2 else 3000 if i == 33 else i % 6
    corners = rng.integers(0, 24, (n, 2)).astype(np.float32)
    boxes = np.concatenate([corners, corners + rng.integers(9, 14, (n, 2))], 1).astype(np.float32)
    points = np.concatenate([(boxes[:, :2] + boxes[:, 2:]) / 2, np.full((n, 1), 2)], 1).astype(np.float32)
    photo = rng.integers(0, 256, (30 + 7 * (i % 5), 50 - 6 * (i % 4), 3), np.uint8)
    return {"image": rng.integers(0, 256, (40, 48, 3), np.uint8), "photo": photo, "boxes": boxes, "points": points,
            "labels": np.arange(n) + 100 * i, "table": rng.integers(-9, 9, (1 + i % 4, 3)).astype(np.int16), "audio": wav(i),
            "text": f"sample {i}", "number": i}


def write(path: Path) -> None:
    schema = {"image": ps.Image("pli"), "photo": ps.Image("pli"), "boxes": ps.Boxes(), "points": ps.Keypoints(pairs=[]),
              "labels": ps.Array("int64"), "table": ps.Array("int16"), "audio": ps.Audio(), "text": ps.Text(), "number": ps.Int()}
    with ps.Writer(path, schema) as writer:
        for i in range(N):
            writer.write(row_of(i))


def loader_of(path: Path, ragged: str, **options: Any) -> ps.Loader:
    sound = [T.RandomClip(300)] if options.get("num_workers") else [T.Mono()]  # a clip: rows happen to have one shape
    photo = [T.Resize(20), T.RandomHorizontalFlip()]  # the shorter side
    chains = {"image": [T.Resize((24, 24)), T.RandomHorizontalFlip()], "photo": photo, "audio": sound}
    annotations = ps.Annotations(per_box=["points", "labels"], own_geometry=["photo"])
    given = {"batch_size": 8, "seed": 4, "transforms": chains, "annotations": annotations, **options}
    return ps.Loader(str(path), ragged=ragged, **given)


def check_same(found: dict[str, Any], expected: dict[str, Any], what: str) -> None:
    """Compares a batch on the GPU with the same batch in host memory."""
    assert found.keys() == expected.keys(), (what, found.keys(), expected.keys())
    for name, values in expected.items():
        others = found[name]
        assert isinstance(values, list) == isinstance(others, list), (what, name)
        if name == "text":
            assert others == values, (what, name)
            continue
        for a, b in zip(values, others, strict=True) if isinstance(values, list) else [(values, others)]:
            assert str(b.device) == "cuda:0", (what, name, b.device)
            b = on_host(b)
            assert a.dtype == b.dtype and a.shape == b.shape, (what, name, a.dtype, b.dtype, a.shape, b.shape)
            assert np.array_equal(a, b), (what, name)


def compare(path: Path, ragged: str, output: str) -> None:
    for workers in (0, 2):
        for shuffle in (False, True):
            host = loader_of(path, ragged, output="numpy", num_workers=workers, shuffle=shuffle)
            gpu = loader_of(path, ragged, output=output, num_workers=workers, shuffle=shuffle, device="cuda:0")
            n = 0
            for n, (found, expected) in enumerate(zip(gpu, host, strict=True), 1):
                check_same(found, expected, f"{ragged}, batch {n}")
            assert n == -(-N // 8)
            samples = [33, 1, 17, 33]
            check_same(gpu.fetch(samples, epoch=3), host.fetch(samples, epoch=3), f"{ragged}, fetch")
            check_same(gpu.replay(0, 4), host.replay(0, 4), f"{ragged}, replay")
    print(f"{ragged}: the same", flush=True)


def read_late(path: Path) -> None:
    """A stream that is slow reads lists of rows after their batches were dropped, while the loader makes others."""
    import torch

    expected = [np.concatenate([np.asarray(row).ravel() for row in batch["boxes"]])
                for batch in loader_of(path, "list", output="numpy")]
    stream, seen = torch.cuda.Stream(), []
    for batch in loader_of(path, "list", output="torch", device="cuda:0"):
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            torch.cuda._sleep(20_000_000)
            seen.append(torch.cat([row.ravel() for row in batch["boxes"]]))
        torch.cuda.current_stream().wait_stream(stream)
        del batch
    assert all(np.array_equal(a.cpu().numpy(), b) for a, b in zip(seen, expected, strict=True))
    print("streams that read late: the same", flush=True)


def nest(path: Path) -> None:
    import torch

    for batch, expected in zip(loader_of(path, "offsets", output="torch", device="cuda:0"),
                               loader_of(path, "list", output="numpy"), strict=True):
        nested = torch.nested.nested_tensor_from_jagged(batch["boxes"], batch["boxes_offsets"])
        assert nested.is_cuda
        for a, b in zip(nested.unbind(), expected["boxes"], strict=True):
            assert np.array_equal(a.cpu().numpy(), b)
    print("nested tensors: the same", flush=True)


def call_functions(path: Path) -> None:
    """Functions.sample gets a sample's rows on the GPU, and its counts as numbers."""

    def function(row: dict[str, Any]) -> dict[str, Any]:
        assert row["boxes"].is_cuda and isinstance(row["boxes_counts"], int)
        return {"boxes": row["boxes"], "largest": row["boxes"].amax((0, 1)) if row["boxes_counts"] else row["boxes"].new_zeros(())}

    functions = ps.Functions(sample=function)
    for batch, expected in zip(loader_of(path, "padded", output="torch", device="cuda:0", functions=functions),
                               loader_of(path, "padded", output="numpy"), strict=True):
        assert batch["boxes"].is_cuda and np.array_equal(batch["boxes"].cpu().numpy(), expected["boxes"])
        assert batch["largest"].is_cuda and len(batch["largest"]) == len(expected["boxes"])
    print("functions: rows on the GPU", flush=True)


def main() -> None:
    output = torch_output()
    with tempfile.TemporaryDirectory() as work:
        path = Path(work) / "data.pst"
        write(path)
        for ragged in ("list", "padded", "offsets"):
            compare(path, ragged, output)
        if output == "torch":
            read_late(path)
            nest(path)
            call_functions(path)


if __name__ == "__main__":
    main()
