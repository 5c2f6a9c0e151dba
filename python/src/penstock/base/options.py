"""Checks and converts arguments that several modules take: sizes, counts, ranks, dtypes."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import re
import sys
import warnings
from collections.abc import Iterable, Sequence
from numbers import Real
from typing import Any

from .. import _native
from ..errors import ArgumentError, UnsupportedError

#: The tiers of PLI, from the fastest to decode to the smallest in bytes.
TIERS = ("fast", "small", "dense")

# enum pst_identity: what must be equal for two data sets to count as the same.
IDENTITY_BYTES, IDENTITY_SAMPLES, IDENTITY_LISTED, IDENTITY_FILES = 1, 2, 3, 4

_UNITS = {
    "": 1,
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
    "tib": 2**40,
    "k": 2**10,
    "m": 2**20,
    "g": 2**30,
    "t": 2**40,
}


def absolute(path: str | os.PathLike[str]) -> str:
    """Makes a path absolute, because other processes may have another working directory and this one may change its own."""
    return os.path.abspath(os.fspath(path))


@functools.cache
def boot() -> str:
    """Returns an identifier of the current boot of this machine; "" where the system does not provide it."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def seconds(value: float | str) -> float | None:
    """Converts 60, "60", "60s", "1.5 s" or "2min" to seconds. Returns None for anything else."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|sec|m|min)?", str(value).strip().lower())
    return float(match[1]) * (60 if match[2] in ("m", "min") else 1) if match else None


def nbytes(name: str, value: int | float | str) -> int:
    """Converts a number or a text to bytes. "4GiB" and "4G" count in powers of 1024, "500 MB" in powers of 1000."""
    number: float
    if isinstance(value, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", value)
        unit = _UNITS.get(match[2].lower()) if match else None
        if match is None or unit is None:
            raise ArgumentError(f'{name} is bytes or a text such as "4GiB", not {value!r}')
        number = float(match[1]) * unit if "." in match[1] else int(match[1]) * unit
    elif isinstance(value, Real) and not isinstance(value, bool):
        number = float(value) if value % 1 else int(value)
    else:
        raise ArgumentError(f'{name} is bytes or a text such as "4GiB", not {value!r}')
    if not 0 < number < 2**63:
        raise ArgumentError(f"{name} must be above 0, not {value!r}")
    return int(number)


def near(word: str, known: Iterable[str]) -> str | None:
    """Returns the known word that is most similar to a misspelled one, or None if none is similar."""
    import difflib

    found = difflib.get_close_matches(word, known, 1)
    return found[0] if found else None


def nearest(word: str, known: Sequence[str]) -> str:
    """Returns the end of an error message about an unknown word: the most similar known word, or the list of all known words."""
    found = near(word, known)
    return f": did you mean {found!r}?" if found is not None else f"; there are {', '.join(known)}"


def flag(name: str, value: Any) -> bool:
    """Checks a flag and returns it as a bool. It may be a bool of Python or numpy, or 0 or 1. Texts are refused: "no" would be
    true."""
    if type(value).__name__ in ("bool", "bool_") or (type(value) is int and value in (0, 1)):
        return bool(value)
    raise ArgumentError(f"{name} is True or False, not {value!r}")


def count(name: str, value: Any, low: int, high: int = 2**32 - 1) -> int:
    try:
        number = int(value.__index__())
    except AttributeError:
        raise ArgumentError(f"{name} is a whole number, not {value!r}") from None
    if isinstance(value, bool):
        raise ArgumentError(f"{name} is a whole number, not {value!r}")
    if not low <= number <= high:
        raise ArgumentError(f"{name} must be {low} to {high}, not {value!r}")
    return number


def words(given: Iterable[str] | None) -> tuple[str, ...] | None:
    """Returns the words as a tuple. A single text counts as one word."""
    return None if given is None else (given,) if isinstance(given, str) else tuple(given)


def choice(name: str, value: Any, choices: Iterable[str]) -> int:
    """Returns the index of `value` in `choices`."""
    known = list(choices)
    if isinstance(value, str) and value in known:
        return known.index(value)
    raise ArgumentError(f"{name} is one of {', '.join(known)}, not {value!r}")


def device_name(device: Any) -> str:
    """Returns "cpu" or "cuda:k" for a name, a torch.device, or None, which means host memory.

    "cuda" alone means torch's current GPU if this process has initialised torch's CUDA, else GPU 0.
    """
    name = "cpu" if device is None else str(device)
    if name in ("cpu", "cpu:0"):
        return "cpu"
    match = re.fullmatch(r"cuda(?::(\d{1,4}))?", name)
    if match is None:
        raise UnsupportedError(
            f'device={name!r}: batches are prepared in host memory ("cpu") or on a GPU ("cuda", '
            '"cuda:1", ...)'
        )
    if match[1] is not None:
        return f"cuda:{int(match[1])}"
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    return f"cuda:{cuda.current_device() if cuda and cuda.is_initialized() else 0}"


def dtype_name(dtype: Any) -> str:
    """Returns the name of a dtype, which is given as a name or as a dtype of numpy or torch."""
    name = dtype if isinstance(dtype, str) else getattr(dtype, "name", None)
    if name is None:
        name = getattr(dtype, "__name__", None) or str(dtype)
    return str(name).rpartition(".")[2]


def dtype_number(dtype: Any) -> int:
    """Returns the library's number of a dtype, which is given as a name or as a dtype of numpy or torch."""
    number = _native.dtype_number(dtype_name(dtype))
    if number == 0:
        raise ArgumentError(f"dtype {dtype!r} is not known")
    return number


def workers(num_workers: int | None) -> int:
    """Returns the number of worker threads: the argument, else PENSTOCK_NUM_THREADS, else this rank's share of the machine's
    cores."""
    if num_workers is not None:
        return count("num_workers", num_workers, 0, 4096)
    text = os.environ.get("PENSTOCK_NUM_THREADS", "")
    if not text:
        return _native.cores()
    if not text.isdigit():
        raise ArgumentError(f"PENSTOCK_NUM_THREADS={text!r} is not a number")
    return count("PENSTOCK_NUM_THREADS", int(text), 0, 4096)


# Environment variables in which launchers pass the rank and the world size. The first pair that is set counts. Open MPI comes
# before Slurm, because mpirun may start its processes through a Slurm step of one task per node.
_LAUNCHERS = (
    ("torchrun", "RANK", "WORLD_SIZE"),
    ("Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
)
_SLURM_STEPS_END = 0xFFFFFFF0  # step numbers from here on are batch scripts, shells and the like


def _in_slurm_step() -> bool:
    """True if srun started this process. In a batch script the variables describe the whole job instead."""
    step = os.environ.get("SLURM_STEP_ID") or os.environ.get("SLURM_STEPID") or ""
    return step.isdigit() and int(step) < _SLURM_STEPS_END


_lone: list[str] = []  # the warnings that _outside_of_srun has given


def _outside_of_srun(names: list[str]) -> tuple[int, int, str] | None:
    """Returns the ranks of a process that srun did not start: a batch script, a shell of salloc, or no Slurm at all."""
    rank = os.environ.get("SLURM_PROCID", "0")
    if rank != "0":
        raise ArgumentError(
            f"SLURM_PROCID={rank!r} is set, but this process is in no step that srun started (there is no SLURM_STEP_ID of one): "
            "pass all SLURM_... variables on, or give rank= and world_size=, or call "
            "torch.distributed.init_process_group before the epoch begins"
        )
    sizes = {name: os.environ.get(name, "") for name in ("SLURM_NTASKS", "SLURM_STEP_NUM_TASKS")}
    several = [f"{name}={size}" for name, size in sizes.items() if size.isdigit() and int(size) > 1]
    if several and not _lone:
        _lone.extend(several)
        warnings.warn(
            f"{several[0]}, but srun did not start this process: it is rank 0 of 1 and gets all samples. Start it by srun, or "
            "give rank= and world_size=",
            stacklevel=2,
        )
    return (0, 1, "Slurm, outside of srun") if names or several else None


def _launched() -> tuple[int, int, str] | None:
    for launcher, rank_name, size_name in _LAUNCHERS:
        names = [name for name in (rank_name, size_name) if name in os.environ]
        if launcher == "Slurm" and not _in_slurm_step():
            return _outside_of_srun(names)
        if not names:
            continue
        if len(names) == 1:
            other = size_name if names[0] == rank_name else rank_name
            raise ArgumentError(
                f"{names[0]}={os.environ[names[0]]!r} is set, but {other} is not: set both, or give rank= and "
                "world_size=, or call torch.distributed.init_process_group before the epoch begins"
            )
        rank_text, size_text = os.environ[rank_name], os.environ[size_name]
        if not (rank_text.isdigit() and size_text.isdigit()):
            raise ArgumentError(
                f"{rank_name}={rank_text!r}, {size_name}={size_text!r}: not numbers; "
                "give rank= and world_size="
            )
        return int(rank_text), int(size_text), launcher
    return None


def ranks(rank: int | None, world_size: int | None) -> tuple[int, int, str]:
    """Returns (rank, world_size, source): from the arguments, or from a launcher's variables, or (0, 1)."""
    if (rank is None) != (world_size is None):
        raise ArgumentError("give both rank= and world_size=, or neither")
    source = "arguments"
    if rank is None or world_size is None:
        distributed = sys.modules.get("torch.distributed")
        if distributed and distributed.is_available() and distributed.is_initialized():
            rank, world_size = distributed.get_rank(), distributed.get_world_size()
            source = "torch.distributed"
        else:
            rank, world_size, source = _launched() or (0, 1, "default")
    world_size = count("world_size", world_size, 1)
    rank = count("rank", rank, 0)
    if rank >= world_size:
        raise ArgumentError(f"rank {rank} is not below world_size {world_size} (from {source})")
    return rank, world_size, source


_warned: set[str] = set()  # the texts that _warn_once has warned with in this process


def _warn_once(subject: str, text: str) -> None:
    if subject not in _warned:
        _warned.add(subject)
        warnings.warn(text, stacklevel=3)


def _has_torch() -> bool:
    """True if torch can be imported. Imports torch, so that the answer stays the same for the life of the process."""
    try:
        found = importlib.util.find_spec("torch")
    except ValueError:  # sys.modules["torch"] is a stand-in without __spec__
        found = None
    # A mere folder named torch in the working directory is found as a package without an origin. It does not count as torch.
    if "torch" not in sys.modules and (found is None or found.origin is None):
        return False
    try:
        return hasattr(importlib.import_module("torch"), "from_dlpack")
    except ModuleNotFoundError as error:
        if error.name == "torch":  # a program has set sys.modules["torch"] to None
            return False
        cause: Exception = error
    except Exception as error:  # torch's libraries do not fit: ImportError, OSError, RuntimeError or AttributeError
        cause = error
    _warn_once("torch", f'torch is installed and cannot be imported, so output="auto" gives numpy arrays: {cause}')
    return False


def output_kind(output: str, device: str) -> str:
    """Returns "numpy", "torch" or "dlpack". For "auto": "torch" if torch can be imported."""
    if output == "auto":
        if _has_torch():
            return "torch"
        return "numpy" if device == "cpu" else "dlpack"
    choice("output", output, ("numpy", "torch", "dlpack"))
    if output == "numpy" and device != "cpu":
        raise ArgumentError(
            f'output="numpy" is for batches in host memory, not on {device}: use "torch" or "dlpack"'
        )
    return output


MADE_FOR = ("", "upright", "stored")  # the index of each word is its number in enum pst_made_for


def made_for(value: object) -> int:
    """Returns the number of `made_for` in enum pst_made_for. None is 0."""
    return 0 if value is None else choice("made_for", value, MADE_FOR[1:]) + 1


PINS = {False: 0, "auto": 1, True: 2}  # the numbers of enum pst_pin


def pin(given: Any, device: str) -> int:
    """Returns the number in enum pst_pin of the argument pin_memory."""
    if not (isinstance(given, bool) or given == "auto"):
        raise ArgumentError(f'pin_memory is True, False or "auto", not {given!r}')
    if given and device != "cpu":
        raise ArgumentError(f"pin_memory is for batches in host memory: those of device={device!r} lie on the GPU")
    if given is True:
        try:
            _native.cuda_info(0)  # fails without a driver or a GPU; page-locked memory needs both
        except UnsupportedError as error:
            _warn_once("pin_memory", f"pin_memory=True has no effect here, batches are in plain memory: {error.text}")
            given = "auto"  # "auto" counts batches that are in plain memory in stats()["fallbacks"]["pin"]
    return PINS[given]


def service_program() -> str:
    """Returns the program to start as the host service if none runs: the command beside the interpreter, else the one in PATH."""
    if os.environ.get("PENSTOCK_SERVE"):
        return os.environ["PENSTOCK_SERVE"]
    beside = os.path.join(os.path.dirname(sys.executable), "penstock")
    return beside if os.access(beside, os.X_OK) else "penstock"
