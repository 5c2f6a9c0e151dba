"""Options of a loader together: random sets of options deliver the batches of a plain loader, whatever happens on the way.

A set has two parts. Its *contents* say which batches there are: data set, order, operations, functions. Its *ways* say how they
are made: workers, storage, caches, sharing. The reference is a plain loader with the same contents, which makes everything in the
calling thread and has no cache. The loader under test then runs random steps (a "walk"): it delivers batches, is resumed from its
state with other ways, pickled, copied, forked, interrupted and left; it replays and fetches.

PENSTOCK_TEST_OPTIONS is the number of sets, 12 if it is not set; `make check-long` takes 500. A set depends on its number alone,
and a failure names the number, both parts and the steps.
"""

from __future__ import annotations

import copy
import json
import os
import pickle
import random
import shutil
import signal
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps
from conftest import PER_CLASS, N, encoded, memcached, picture
from flat import keywords
from penstock import transforms as T

N_SETS = int(os.environ.get("PENSTOCK_TEST_OPTIONS") or 12)
N_STEPS = 14  # number of steps of a random walk
# Python loses exceptions of handlers that run within callbacks of its own: it says so, no batch is lost.
pytestmark = [
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]

Options = dict[str, Any]


class Interrupt(BaseException):
    """Raised by the handler of SIGALRM."""


# User functions. They change their argument in place: a batch must not be made again from an argument that they have got.


def brighter(sample: dict, rng: np.random.Generator) -> dict:
    sample["image"] += sample["image"].dtype.type(1) if isinstance(sample["image"], np.ndarray) else 1
    sample["drawn"] = int(rng.integers(1000))
    return sample


def marked(batch: dict, rng: np.random.Generator) -> dict:
    return {**batch, "mark": rng.integers(1000, size=3)}


def collate(batch: dict) -> list:
    return [(name, batch[name]) for name in sorted(batch)]


# Contents -----------------------------------------------------------------------------------------------------------------------

SIZED = {  # every image gets one size
    "resize": [T.Resize((20, 24))],
    "crop": [T.RandomResizedCrop(16), T.RandomHorizontalFlip()],
    "center": [T.Resize(40), T.CenterCrop(32), T.ColorJitter(0.4, 0.4, 0.2, 0.1)],
    "normal": [T.Resize((18, 18)), T.RandomVerticalFlip(), T.Normalize(ps.IMAGENET_MEAN, ps.IMAGENET_STD)],
    "padded": [T.RandomCrop(48, padding=4, pad_if_needed=True), T.RandomGrayscale(0.5)],
    "policy": [T.Resize((24, 24)), T.RandAugment(2, 9), T.RandomErasing(0.5)],
    "choice": [T.RandomResizedCrop(16), T.RandomChoice([T.ColorJitter(0.4), T.GaussianBlur(3)]), T.TrivialAugmentWide()],
}
FREE = {"none": [], "shorter": [T.Resize(20)], "flip": [T.RandomHorizontalFlip()], "affine": [T.RandomRotation(30)]}
TYPED: dict[str, Any] = {
    "fields": {"image": [T.Resize((20, 24)), T.ColorJitter(0.4)], "mask": [T.Resize((10, 12), interpolation="nearest")]},
    "boxes": [T.RandomResizedCrop(16), T.RandomHorizontalFlip()],
    "still": [T.Resize((20, 20))],
    "own": [T.RandomVerticalFlip(0.3)],
}


def pixel_options(dice: random.Random, chain: list) -> Options:
    given: Options = {}
    floats = any(isinstance(op, T.Normalize) for op in chain)
    if dice.random() < 0.4:
        given["dtype"] = dice.choice(("float32", "float16") if floats else ("uint8", "float32", "float16", "uint16"))
    if dice.random() < 0.3:
        given["layout"] = dice.choice(("NHWC", "NCHW"))
    if dice.random() < 0.2 and not floats:
        given["channels"] = dice.choice((1, 3))
    return given


def order_options(dice: random.Random, n: int) -> Options:
    given: Options = {"batch_size": dice.choice((1, 3, 4, 5, 7)), "seed": dice.randrange(2**64)}
    order = dice.choice(("sequential", "shuffled", "shuffled", "pages"))
    given["order"] = order
    if order == "pages":
        given.update(page_samples=dice.choice((2, 4)), window_pages=dice.choice((2, 3)))
    elif dice.random() < 0.2:
        given["repeats"] = dice.choice((2, 3))
    if dice.random() < 0.2:
        given["indices"] = [dice.randrange(n) for _ in range(dice.randint(5, n))]
    elif dice.random() < 0.3 and order == "shuffled":
        given["weights"] = [dice.choice((0.0, 0.5, 1.0, 3.0)) for _ in range(n - 1)] + [1.0]
    tail = dice.choice(("pad", "pad", "short", "drop"))
    if tail == "short":
        given["padding"] = False
    given["drop_last"] = tail == "drop"
    if dice.random() < 0.35:
        given["world_size"] = dice.choice((2, 3))
        given["rank"] = dice.randrange(given["world_size"])
    return given


def function_options(dice: random.Random, given: Options) -> Options:
    kind = dice.choice(("none", "none", "none", "sample", "batch", "both"))
    found: Options = {}
    if kind in ("sample", "both") and given.get("ragged") != "offsets" and "views" not in given and "encoded" not in given:
        found["sample_function"] = brighter
    if kind in ("batch", "both"):
        found["batch_function"] = marked
    if dice.random() < 0.2:
        found["collate_fn"] = collate
    return found


def image_contents(dice: random.Random, name: str, n: int) -> Options:
    """Returns contents for data sets that have an image and a label."""
    given = order_options(dice, n)
    sized = dice.random() < 0.75
    kind = dice.choice(sorted(SIZED if sized else FREE))
    chain = (SIZED if sized else FREE)[kind]
    given["transforms"] = chain
    extra = dice.choice(("none", "none", "none", "mix", "views", "encoded", "fields"))
    if extra == "encoded" and name != "forms":
        given.update(transforms=None, encoded=["image"])
        return {**given, **function_options(dice, given)}
    given.update(pixel_options(dice, chain))
    if extra == "mix" and sized:
        given["mix"] = dice.choice((T.MixUp(0.4), T.CutMix(1.0), [T.MixUp(0.2), T.CutMix(0.5)]))
    elif extra == "views":
        views = {"first": (2, SIZED["crop"]), "second": [T.Resize((12, 12)), T.RandomGrayscale(0.5)]}
        given.update(views=views, transforms=None)
    elif extra == "fields":
        given["fields"] = ["image"]
    if not sized and dice.random() < 0.6:
        given["ragged"] = dice.choice(("padded", "offsets"))
        if dice.random() < 0.5 and given["ragged"] == "padded":
            given["pad_multiple"] = 8
    if name == "damaged":
        given["on_error"] = dice.choice(("skip", "replace"))
        if given["on_error"] == "skip":
            given["on_empty"] = dice.choice((None, "pad", "empty"))
    return {**given, **function_options(dice, given)}


def typed_contents(dice: random.Random, n: int) -> Options:
    """Returns contents for the data set with a field of every type."""
    given = order_options(dice, n)
    fields = ["image", "mask", "boxes", "points", "label", "weight", "ragged", "title", "facts", "fixed", "blob"]
    given["fields"] = fields + ["sound"] * dice.randint(0, 1)
    kind = dice.choice(sorted(TYPED))
    given["transforms"] = TYPED[kind]
    if kind == "fields":
        given["own_geometry"] = ["mask"]
    given["per_box"] = ()
    if dice.random() < 0.3:
        given["keep_boxes"] = True
    ragged = dice.choice((None, "list", "padded", "offsets"))
    if ragged:
        given["ragged"] = ragged
    if dice.random() < 0.3:
        given["dtype"] = {"mask": dice.choice(("int64", "int32", "uint8"))}
    return {**given, **function_options(dice, given)}


@dataclass
class Place:
    """Objects and paths that the ways of one walk share."""

    root: Path  # for its files
    n_samples: int
    fleet: str | None  # a memcached server
    caches: dict[str, ps.Cache] = field(default_factory=dict)


# Ways ---------------------------------------------------------------------------------------------------------------------------


def cache_options(dice: random.Random, contents: Options, storage: str, caches: dict[str, ps.Cache]) -> Options:
    kind = dice.choice(("none", "own", "small", "shared", "host", "auto"))
    if kind == "none" or storage == "memory":  # the cache holds all items itself
        return {"cache": None}
    found: Options = {"cache": {"own": "16MiB", "small": "1MiB", "host": "host", "auto": "auto", "shared": None}[kind]}
    if kind == "shared":
        found["cache"] = caches.setdefault(dice.choice("ab"), ps.Cache("4MiB"))
    found["cache_form"] = dice.choice(("stored", "stored", "raw", "pli", "pli-fast", "pli-jpeg"))
    chain = contents["transforms"]
    first = chain[0] if isinstance(chain, list) and chain else None
    starts_still = isinstance(first, T.Resize) and "views" not in contents
    if starts_still and kind != "auto" and dice.random() < 0.4:
        found["cache_resolution"] = "training"
    return found


def ways_of(dice: random.Random, name: str, contents: Options, place: Place) -> Options:
    """Returns options that change no batch."""
    storage = dice.choice(("auto", "threads", "uring", "memory"))
    ways: Options = {
        "num_workers": dice.randint(0, 3),
        "prefetch": dice.randint(1, 4),
        "storage": storage,
        "page_cache": dice.choice(("keep", "keep", "drop", "direct")),
        "host_memory": dice.choice(("4GiB", "64MiB")),
        **cache_options(dice, contents, storage, place.caches),
    }
    if dice.random() < 0.3:
        ways["io_threads"] = dice.randint(1, 8)
    if dice.random() < 0.2:
        ways["throttle"] = (1e8, 0.002)
    if dice.random() < 0.3 and name != "damaged":
        ways["verify"] = False
    if dice.random() < 0.1:
        ways["trace"] = str(place.root / "trace.json")
    if place.fleet and storage != "memory" and "cache_resolution" not in ways and dice.random() < 0.2:
        ways["fleet"] = place.fleet
    if ways["cache"] is not None and ways["cache"] != "auto" and dice.random() < 0.2:
        ways["cache_plan"] = np.array([dice.random() < 0.5 for _ in range(place.n_samples)])
    if name == "forms" and dice.random() < 0.7 and "encoded" not in contents:
        ways["forms"] = dice.choice(({"pli": 0.5, "raw": 0.5}, {"png": 0.3, "pli": 0.7}, {"raw": 0.2, "pli": 0.3, "png": 0.5}))
    elif dice.random() < 0.2:
        ways["share"] = dice.choice(("one", "two"))
        if ways.get("cache") == "auto":
            ways.pop("cache_resolution", None)
    if "sample_function" in contents or "batch_function" in contents:
        ways["function_workers"] = dice.randint(0, 2)
        ways["function_kind"] = dice.choice(("threads", "threads", "processes"))
    return ways


# Comparison ---------------------------------------------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    """Returns the values of a batch as numpy arrays and Python's types."""
    if isinstance(value, dict):
        return {name: plain(entry) for name, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    return np.asarray(value).copy() if hasattr(value, "shape") else value


def difference(a: Any, b: Any, where: str = "") -> str:
    """Returns where two batches differ, or ""."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        if a.dtype != b.dtype or a.shape != b.shape:
            return f"{where}: {a.dtype}{a.shape} and {b.dtype}{b.shape}"
        return "" if a.tobytes() == b.tobytes() else f"{where}: other values"
    if type(a) is not type(b):
        return f"{where}: {type(a).__name__} and {type(b).__name__}"
    if isinstance(a, dict):
        if list(a) != list(b):
            return f"{where}: {list(a)} and {list(b)}"
        return next(filter(None, (difference(a[name], b[name], f"{where}/{name}") for name in a)), "")
    if isinstance(a, list):
        if len(a) != len(b):
            return f"{where}: {len(a)} and {len(b)} entries"
        return next(filter(None, (difference(x, y, f"{where}/{i}") for i, (x, y) in enumerate(zip(a, b, strict=True)))), "")
    return "" if a == b else f"{where}: {a!r} and {b!r}"


class Truth:
    """The batches that a plain loader delivers."""

    def __init__(self, data: ps.Dataset, contents: Options) -> None:
        self._given = {**contents, "num_workers": 0, "cache": None, "fleet": None, "storage": "threads", "prefetch": 1}
        self._data = data
        self.loader = ps.Loader(data, **keywords(**self._given))
        self._epochs: dict[int, list] = {}

    def epoch(self, number: int) -> list:
        if number not in self._epochs:
            self.loader.set_epoch(number)
            self._epochs[number] = [plain(batch) for batch in self.loader]
            assert len(self._epochs[number]) == len(self.loader)
        return self._epochs[number]

    def from_state(self, state: dict, **other: Any) -> list:
        """Returns the rest of the state's epoch, with another batch size or other ranks."""
        with ps.Loader(self._data, **keywords(**{**self._given, **other})) as loader:
            loader.load_state_dict(state)
            return [plain(batch) for batch in loader]


# Walks --------------------------------------------------------------------------------------------------------------------------


class Walk:
    """A loader under test, and the position at which it must be."""

    def __init__(self, number: int, name: str, path: Path, root: Path, fleet: str | None) -> None:
        self.dice = random.Random(number)
        dataset = ps.Dataset(path)
        self.place = Place(root, len(dataset), fleet)
        if self.dice.random() < 0.15:
            dataset = dataset.subset(self.dice.sample(range(len(dataset)), len(dataset) - self.dice.randint(0, 3)))
        self.name, self.data = name, dataset
        n = len(dataset)
        self.contents = typed_contents(self.dice, n) if name == "typed" else image_contents(self.dice, name, n)
        self.contents["output"] = self.dice.choice(("numpy", "numpy", "torch"))
        if self.contents["output"] == "torch" and self.contents.get("dtype") == "uint16":
            del self.contents["dtype"]
        self.said = [f"set {number}: {dataset!r}", f"contents {self.contents}"]
        self.truth = Truth(dataset, self.contents)
        if len(self.truth.loader) == 0:  # with drop_last there are fewer samples than a batch
            self.truth.loader.close()
            self.contents["drop_last"] = False
            self.truth = Truth(dataset, self.contents)
        self.n = len(self.truth.loader)
        self.open: list[ps.Loader] = []
        self.epoch = self.step = self.began = self.taken = 0  # step: of the next batch; began: where the pass began
        self.loader = self.make()
        self.iterator: Iterator | None = None
        self.loaded = False  # True after a start from a state or a copy, until a pass or set_epoch
        self.unasked = False  # the newest pass is over, and no batch was requested after its last one
        self.batch: Any = None

    def make(self, **other: Any) -> ps.Loader:
        ways = {"fleet": None, **ways_of(self.dice, self.name, self.contents, self.place)}
        self.said.append(f"ways {ways}")
        loader = ps.Loader(self.data, **keywords(**{**self.contents, **ways, **other}))
        self.open.append(loader)
        return loader

    def over(self) -> bool:
        return self.step == self.n

    def iterate(self) -> Iterator:
        """Returns the iterator of the current pass, or begins a pass."""
        if self.iterator is None:
            self.iterator, self.began, self.taken = iter(self.loader), self.step, 0
            self.unasked = self.loaded = False
        return self.iterator

    def received(self, batch: Any) -> None:
        wrong = difference(plain(batch), self.truth.epoch(self.epoch)[self.step])
        assert not wrong, f"epoch {self.epoch}, batch {self.step}: {wrong}"
        self.step, self.taken = self.step + 1, self.taken + 1
        if self.over():
            self.unasked = self.dice.random() < 0.5
            if not self.unasked:
                assert next(self.iterate(), None) is None
            self.epoch, self.step, self.iterator = self.epoch + 1, 0, None

    def check_state(self) -> dict:
        state = json.loads(json.dumps(self.loader.state_dict()))
        position = self.step * self.contents["batch_size"] * self.contents.get("world_size", 1)
        assert (state["epoch"], state["position"]) == (self.epoch, position)
        return state

    # Steps.

    def take(self) -> None:
        for _ in range(self.dice.randint(1, 4)):
            self.received(next(self.iterate()))

    def finish(self) -> None:
        n, epoch = self.n - self.step, self.epoch
        for batch in self.iterate():
            self.received(batch)
            n -= 1
            if self.epoch != epoch:
                break
        assert n == 0

    def resume(self) -> None:
        state = self.check_state()
        if self.dice.random() < 0.7:
            self.loader.close()
        self.loader, self.iterator, self.unasked = self.make(), None, False
        self.loader.load_state_dict(state)
        self.loaded = self.dice.random() < 0.7
        if not self.loaded:
            self.loader.set_epoch(self.epoch)  # as frameworks do

    def copied(self) -> None:
        how = self.dice.choice((copy.deepcopy, lambda loader: pickle.loads(pickle.dumps(loader))))
        self.loader, before = how(self.loader), self.loader
        self.iterator, self.unasked, self.loaded = None, False, True
        self.open.append(self.loader)
        before.close()

    def leave(self) -> None:
        """Ends the pass early. A pass of which at most the first batch was requested does not count."""
        if self.iterator is None:
            return
        if self.taken > 1:
            self.epoch, self.step = self.epoch + 1, 0
        else:
            self.step = self.began
        self.iterator = None
        self.iterate()

    def jump(self) -> None:
        epoch = self.dice.randrange(3)
        self.loader.set_epoch(epoch)
        if not self.loaded or epoch != self.epoch:
            self.epoch, self.step = epoch, 0
        self.iterator, self.unasked, self.loaded = None, False, False

    def replay(self) -> None:
        epoch, step = self.dice.randrange(3), self.dice.randrange(self.n)
        wrong = difference(plain(self.loader.replay(step, epoch)), self.truth.epoch(epoch)[step])
        assert not wrong, f"replay of epoch {epoch}, batch {step}: {wrong}"

    def fetch(self) -> None:
        if "mix" in self.contents:
            return  # the operation mixes samples within batches
        samples = [self.dice.randrange(self.place.n_samples) for _ in range(3)]
        epoch = self.dice.randrange(3)
        results = []
        for loader in (self.loader, self.truth.loader):
            try:
                results.append(plain(loader.fetch(samples, epoch)))
            except ps.errors.PenstockError as error:  # of a bad sample
                results.append(type(error).__name__)
        wrong = difference(*results)
        assert not wrong, f"fetch of {samples} in epoch {epoch}: {wrong}"

    def skip(self) -> None:
        if self.unasked:
            with pytest.raises(ps.errors.StateError, match="no batch is left"):
                self.loader.skip_batch()
            self.iterate()
        self.loader.skip_batch()
        if self.iterator is not None:
            self.taken += 2  # a pass that skips a batch counts
        self.step += 1
        if self.over():
            self.unasked = self.iterator is not None
            self.epoch, self.step, self.iterator = self.epoch + 1, 0, None

    def interrupt(self) -> None:
        iterator = self.iterate()

        def handler(number: int, frame: object) -> None:
            raise Interrupt

        before = signal.signal(signal.SIGALRM, handler)
        self.batch = None
        try:
            signal.setitimer(signal.ITIMER_REAL, self.dice.choice((1e-5, 1e-4, 1e-3, 4e-3)))
            self.batch = next(iterator)
        except Interrupt:
            pass
        finally:
            while True:
                try:
                    signal.setitimer(signal.ITIMER_REAL, 0)
                    signal.signal(signal.SIGALRM, before)
                    break
                except Interrupt:
                    pass
        batch, self.batch = self.batch, None
        if batch is None and self.taken < 2:  # it depends on the signal's time whether the pass counts already
            batch = next(iterator)
        if batch is not None:
            self.received(batch)
        if self.iterator is not None:
            self.check_state()

    def fork(self) -> None:
        self.iterate()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                signal.alarm(100)
                self.received(next(self.iterate()))
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, "in a forked child"

    def other_shape(self) -> None:
        """Resumes with another batch size or other ranks. The rest must equal that of a plain loader."""
        if "mix" in self.contents:
            return
        state = self.check_state()
        other: Options = {"batch_size": self.dice.choice((2, 4, 6))}
        if self.dice.random() < 0.5:
            other.update(world_size=2, rank=self.dice.randrange(2))
        elif "rank" in self.contents:
            other.update(world_size=1, rank=0)
        with self.make(**other) as loader:
            loader.load_state_dict(state)
            wrong = difference([plain(batch) for batch in loader], self.truth.from_state(state, **other))
        self.open.pop()
        assert not wrong, f"resumed as {other}: {wrong}"

    STEPS: tuple[tuple[int, Callable[[Walk], None]], ...] = (
        (8, take), (2, finish), (5, resume), (2, copied), (2, leave), (2, jump), (4, replay), (2, fetch), (2, skip), (4, interrupt),
        (1, fork), (2, other_shape))  # fmt: skip

    def go(self) -> None:
        weights, steps = zip(*self.STEPS, strict=True)
        for _ in range(N_STEPS):
            (step,) = self.dice.choices(steps, weights)
            self.said.append(f"{step.__name__} at epoch {self.epoch}, batch {self.step}")
            step(self)
        self.finish()
        self.check_state()

    def close(self) -> None:
        for loader in [*self.open, self.truth.loader]:
            loader.close()


# Data sets ----------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sets(folder: Path, packed: Path, typed: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("options")
    lossless = root / "lossless"
    for i in range(N):
        path = lossless / "abc"[i // PER_CLASS] / f"{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encoded(picture(i, 40 + i, 60 - i), "png"))
    ps.pack(lossless, root / "forms.pst", forms=["original", "pli", "raw"])
    ps.pack(folder, root / "jpegs.pst", forms=["pli"], of_lossy=True)
    damaged = root / "damaged"
    for path in folder.rglob("*.*"):
        bad = path.stem in ("02", "05", "06") and path.parent.name != "cow"
        (damaged / path.parent.name).mkdir(parents=True, exist_ok=True)
        content = path.read_bytes()
        (damaged / path.parent.name / path.name).write_bytes(content[: len(content) // 3] if bad else content)
    return {"folder": folder, "packed": packed, "typed": typed, "forms": root / "forms.pst", "jpegs": root / "jpegs.pst",
            "damaged": damaged}  # fmt: skip


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str | None]:
    """A memcached server, or None if none is installed."""
    if not shutil.which("memcached"):
        yield None
        return
    path = tmp_path_factory.mktemp("fleet") / "a.sock"
    with memcached(path):
        yield str(path)


@pytest.mark.parametrize("number", range(N_SETS))
def test_a_set_delivers_what_the_plain_loader_delivers(
    number: int, sets: dict[str, Path], service: Path, fleet: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_SOCKET", str(service))
    pytest.importorskip("torch")
    name = sorted(sets)[number % len(sets)]
    walk = Walk(number, name, sets[name], tmp_path, fleet)
    try:
        walk.go()
    except BaseException as error:
        error.add_note("\n".join(walk.said)) if hasattr(error, "add_note") else print("\n".join(walk.said))
        raise
    finally:
        walk.close()
