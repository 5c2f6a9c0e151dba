"""Penstock keeps accelerators fed while they train.

    import penstock as ps
    from penstock import transforms as T

    loader = ps.Loader("train.pst", batch_size=256, shuffle=True, seed=1,
                       transforms={"image": [T.RandomResizedCrop(224), T.RandomHorizontalFlip(),
                                             T.Normalize(ps.IMAGENET_MEAN, ps.IMAGENET_STD)]})
    for batch in loader:
        step(batch["image"], batch["label"])

Importing it imports neither torch nor numpy. Its parts are loaded when first used.
"""

from __future__ import annotations

from . import _native, errors
from .errors import PenstockError

TYPE_CHECKING = False  # set as in typing, without the import, which would take most of the time
if TYPE_CHECKING:
    from typing import Any

    from . import accelerators, cuda, metrics, pli, report, transforms
    from ._analyze import analyze
    from ._image import ImageInfo, decode, probe
    from ._plan import Plan, plan
    from ._question import whatif
    from ._transform import IMAGENET_MEAN, IMAGENET_STD
    from ._tune import Tuned, tune
    from .arguments import (
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
    from .cache import Cache, CachePlan, CacheReport, plan_cache
    from .dataset import Dataset, Field
    from .fleet import Fleet
    from .images import CachedImages, CachedImagesStats
    from .loader import Loader
    from .metrics import metrics_text
    from .torch import TorchDataset
    from .writer import (
        Array,
        Audio,
        Boxes,
        Bytes,
        Float,
        Image,
        Int,
        Json,
        Keypoints,
        Mask,
        PackReport,
        Text,
        VerifyReport,
        Writer,
        pack,
        repack,
        verify,
    )

__version__: str = _native.version

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
    "Int",
    "Json",
    "Keypoints",
    "Loader",
    "Mask",
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
    "transforms",
    "tune",
    "verify",
    "whatif",
]

# The modules of the names above. torch.py imports torch, so it is loaded only when used.
_HOMES = {
    **dict.fromkeys(("ImageInfo", "decode", "probe"), "_image"),
    "analyze": "_analyze",
    **dict.fromkeys(("Plan", "plan"), "_plan"),
    **dict.fromkeys(("Tuned", "tune"), "_tune"),
    "whatif": "_question",
    **dict.fromkeys(("IMAGENET_MEAN", "IMAGENET_STD"), "_transform"),
    **dict.fromkeys(
        (
            "Annotations",
            "CacheUse",
            "Decoding",
            "Forms",
            "Functions",
            "Gpu",
            "OnError",
            "Padded",
            "Pages",
            "Reading",
            "Share",
            "Watch",
        ),
        "arguments",
    ),
    **dict.fromkeys(("Cache", "CachePlan", "CacheReport", "plan_cache"), "cache"),
    "Fleet": "fleet",
    **dict.fromkeys(("Dataset", "Field"), "dataset"),
    **dict.fromkeys(("CachedImages", "CachedImagesStats"), "images"),
    "Loader": "loader",
    "metrics_text": "metrics",
    "TorchDataset": "torch",
    **dict.fromkeys(
        (
            "Array",
            "Audio",
            "Boxes",
            "Bytes",
            "Float",
            "Image",
            "Int",
            "Json",
            "Keypoints",
            "Mask",
            "PackReport",
            "Text",
            "VerifyReport",
            "Writer",
            "pack",
            "repack",
            "verify",
        ),
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
