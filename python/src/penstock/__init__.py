"""Penstock keeps accelerators fed while they train.

    import penstock as ps
    from penstock import transforms as T

    loader = ps.Loader("train.pst", batch_size=256, shuffle=True, seed=1,
                       transforms={"image": [T.RandomResizedCrop(224), T.RandomHorizontalFlip(),
                                             T.Normalize(ps.IMAGENET_MEAN, ps.IMAGENET_STD)]})
    for batch in loader:
        step(batch["image"], batch["label"])

Importing penstock imports neither torch nor numpy. Its modules are loaded when first used.
"""

from __future__ import annotations

from . import _native, errors
from .errors import PenstockError

TYPE_CHECKING = False  # as typing.TYPE_CHECKING; importing typing would take most of this module's import time
if TYPE_CHECKING:
    from typing import Any

    from . import accelerators, cuda, metrics, pli, report, transforms
    from .caching.cache import Cache, CachePlan, CacheReport, plan_cache
    from .caching.fleet import Fleet
    from .caching.images import CachedImages, CachedImagesStats
    from .data.dataset import Dataset, Field
    from .data.image import ImageInfo, decode, probe
    from .data.mixture import Mixture
    from .loading.arguments import (
        Annotations,
        CacheUse,
        Decoding,
        Forms,
        Functions,
        Gpu,
        OnError,
        Padded,
        Pages,
        Reading,
        Share,
        Watch,
    )
    from .loading.loader import Loader
    from .loading.original import tiles_of, to_original
    from .loading.torch import TorchDataset
    from .planning.plan import Plan, plan
    from .planning.tune import Tuned, tune
    from .stalls.measure.run import analyze
    from .stalls.metrics import metrics_text
    from .stalls.whatif import whatif
    from .transforms.base import IMAGENET_MEAN, IMAGENET_STD
    from .writer import (
        Array,
        Audio,
        Boxes,
        Bytes,
        Float,
        Image,
        IndexReport,
        Int,
        Json,
        Keypoints,
        Mask,
        PackReport,
        Text,
        VerifyReport,
        Writer,
        index,
        pack,
        repack,
        verify,
    )

__version__: str = _native.version

# The modules that pickles of older versions name lie in _older.
__path__.append(__path__[0] + "/_older")

__all__ = [
    "IMAGENET_MEAN",
    "IMAGENET_STD",
    "Annotations",
    "Array",
    "Audio",
    "Boxes",
    "Bytes",
    "Cache",
    "CachePlan",
    "CacheReport",
    "CacheUse",
    "CachedImages",
    "CachedImagesStats",
    "Dataset",
    "Decoding",
    "Field",
    "Fleet",
    "Float",
    "Forms",
    "Functions",
    "Gpu",
    "Image",
    "ImageInfo",
    "IndexReport",
    "Int",
    "Json",
    "Keypoints",
    "Loader",
    "Mask",
    "Mixture",
    "OnError",
    "PackReport",
    "Padded",
    "Pages",
    "PenstockError",
    "Plan",
    "Reading",
    "Share",
    "Text",
    "TorchDataset",
    "Tuned",
    "VerifyReport",
    "Watch",
    "Writer",
    "__version__",
    "accelerators",
    "analyze",
    "cuda",
    "decode",
    "errors",
    "index",
    "metrics",
    "metrics_text",
    "pack",
    "plan",
    "plan_cache",
    "pli",
    "probe",
    "repack",
    "report",
    "show_config",
    "tiles_of",
    "to_original",
    "transforms",
    "tune",
    "verify",
    "whatif",
]

# The module that defines each public name. Some import torch or numpy, so each is loaded only when used.
_HOMES = {
    **dict.fromkeys(("Cache", "CachePlan", "CacheReport", "plan_cache"), "caching.cache"),
    "Fleet": "caching.fleet",
    **dict.fromkeys(("CachedImages", "CachedImagesStats"), "caching.images"),
    **dict.fromkeys(("Dataset", "Field"), "data.dataset"),
    **dict.fromkeys(("ImageInfo", "decode", "probe"), "data.image"),
    "Mixture": "data.mixture",
    **dict.fromkeys(
        ("Annotations", "CacheUse", "Decoding", "Forms", "Functions", "Gpu", "OnError", "Padded", "Pages", "Reading",
         "Share", "Watch"),
        "loading.arguments",
    ),
    "Loader": "loading.loader",
    "tiles_of": "loading.original",
    "to_original": "loading.original",
    "TorchDataset": "loading.torch",
    **dict.fromkeys(("Plan", "plan"), "planning.plan"),
    **dict.fromkeys(("Tuned", "tune"), "planning.tune"),
    "analyze": "stalls.measure.run",
    "metrics_text": "stalls.metrics",
    "whatif": "stalls.whatif",
    **dict.fromkeys(("IMAGENET_MEAN", "IMAGENET_STD"), "transforms.base"),
    **dict.fromkeys(
        ("Array", "Audio", "Boxes", "Bytes", "Float", "Image", "IndexReport", "Int", "Json", "Keypoints", "Mask", "PackReport",
         "Text", "VerifyReport", "Writer", "index", "pack", "repack", "verify"),
        "writer",
    ),
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in ("accelerators", "cuda", "metrics", "pli", "report", "transforms"):
        return import_module(f".{name}", __name__)
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{home}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


def show_config(mode: str = "stdout") -> dict[str, Any] | None:
    """Describes this build and this machine, for bug reports.

    ``mode="stdout"`` prints it, ``mode="dict"`` returns it.
    """
    import json
    import sys

    config: dict[str, Any] = json.loads(_native.environment())
    config["python"] = {"version": sys.version.split()[0], "package": __file__}
    for name in ("numpy", "torch"):
        module = sys.modules.get(name)
        config["python"][name] = getattr(module, "__version__", None)
    if mode == "dict":
        return config
    if mode != "stdout":
        raise errors.ArgumentError(f"mode is stdout or dict, not {mode!r}")
    print(json.dumps(config, indent=2))
    return None
