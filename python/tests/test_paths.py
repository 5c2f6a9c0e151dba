"""The paths by which names of the package are imported, pickled and shown. They stay the same when modules move."""

from __future__ import annotations

import importlib
import inspect
import pickle
import pkgutil
import subprocess
import sys
import textwrap
import typing

import pytest

import penstock as ps
from penstock import transforms as T

PUBLIC = (
    "accelerators", "arguments", "cache", "cuda", "dataset", "errors", "fleet", "images", "loader", "metrics", "mixture", "pli",
    "report", "transforms", "writer",
)  # fmt: skip
# Classes by the modules that they were pickled by in older versions, but for those that are public modules still.
OLD = {
    "_counters": "Counters",
    "_detection": "Letterbox MapLabels RandomIoUCrop RandomResize RandomScaleCrop RandomShortestSize RandomZoomOut SanitizeBoxes "
    "ScaleJitter",
    "_html": "Batch Sample Stats",
    "_image": "ImageInfo",
    "_plan": "Plan",
    "_plan_cache": "Planned _Samples _Way",
    "_policies": "AugMix AutoAugment CutMix ElasticTransform GaussianBlur Identity MixUp Mosaic RandAugment RandomAdjustSharpness "
    "RandomAffine RandomApply RandomAutocontrast RandomChoice RandomEqualize RandomErasing RandomInvert RandomPerspective "
    "RandomPosterize RandomRotation RandomSolarize TrivialAugmentWide",
    "_schema": "Array Audio Boxes Bytes Float Image Int Json Keypoints Mask Text _Required",
    "_sound": "AddNoise AmplitudeToDB CenterClip FrequencyMask Gain LogMel MFCC MelSpectrogram Mono PadTo RandomClip Resample "
    "Spectrogram TimeMask",
    "_transform": "Transform",
    "_tune": "Tuned",
    "_whatif": "Answer",
    "cache": "Cache CachePlan CacheReport CacheUse",
    "dataset": "Dataset Field",
    "fleet": "Fleet",
    "images": "CachedImages CachedImagesStats",
    "loader": "Loader",
    "report": "Report",
    "writer": "PackReport VerifyReport Writer",
}


def public_things():
    """Yields (path, name, object) of all public names."""
    modules = {"penstock": ps} | {f"penstock.{name}": importlib.import_module(f"penstock.{name}") for name in PUBLIC}
    for path, module in modules.items():
        for name in module.__all__:
            yield path, name, getattr(module, name)


def test_public_names_say_a_public_path():
    public = {"penstock", "penstock.torch", *(f"penstock.{name}" for name in PUBLIC)}
    for path, name, thing in public_things():
        if not inspect.isclass(thing) and not inspect.isfunction(thing):
            continue
        assert thing.__module__ in public, f"{path}.{name} says {thing.__module__}"
        assert getattr(importlib.import_module(thing.__module__), thing.__qualname__) is thing
        assert pickle.loads(pickle.dumps(thing)) is thing


def test_each_public_module_can_come_first():
    """The module also works if another module has already imported its names."""
    code = f"""
        import os, sys

        def check(name):
            __import__(f"penstock.{{name}}")
            import penstock as ps
            assert getattr(ps, name) is sys.modules[f"penstock.{{name}}"] and getattr(ps, name).__all__

        for name in {sorted(PUBLIC)}:
            if (child := os.fork()) == 0:
                check(name)
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0, name
        import penstock as ps
        ps.Loader, ps.analyze, ps.CachedImages
        for name in {sorted(PUBLIC)}:
            check(name)
        """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)


@pytest.mark.parametrize("module", OLD)
def test_old_paths_of_classes_are_unpickled(module):
    if module == "_plan_cache":
        pytest.importorskip("numpy")
    for name in OLD[module].split():
        found = pickle.loads(f"cpenstock.{module}\n{name}\n.".encode())
        assert inspect.isclass(found) and found.__name__ == name


def test_old_pickles_need_nothing_imported_before():
    old = b"cpenstock._policies\nRandAugment\n."
    code = f"import pickle; assert pickle.loads({old!r}).__module__ == 'penstock.transforms'"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("thing, module", [
    (T.RandAugment(), "transforms"), (T.Resize(8), "transforms"), (T.MixUp(), "transforms"), (T.LogMel(16000), "transforms"),
    (ps.Image("pli"), "writer"), (ps.Int(3), "writer"), (ps.Reading("threads"), "arguments"),
])
def test_objects_are_pickled_by_public_paths(thing, module):
    made = pickle.dumps(thing, protocol=0)
    assert f"penstock.{module}\n".encode() in made and b"penstock.data" not in made and b"penstock._" not in made
    assert type(pickle.loads(made)) is type(thing)


def test_import_brings_two_modules_of_the_package():
    code = "import sys, penstock; print(*sorted(name for name in sys.modules if name.startswith('penstock')))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["penstock", "penstock._native", "penstock.errors"]


def test_tools_find_sources_and_types():
    for thing in (ps.Loader, ps.Dataset, ps.report.Report, ps.Reading):
        assert f"class {thing.__name__}" in inspect.getsource(thing)
    for thing in (ps.Reading, ps.PackReport, ps.Keypoints, T.RandomCrop, T.Gain, T.MapLabels):
        assert typing.get_type_hints(thing)


def test_each_folder_says_what_lies_in_it():
    for found in pkgutil.iter_modules(ps.__path__[:1]):
        if found.ispkg and not found.name.startswith("_"):
            assert importlib.import_module(f"penstock.{found.name}").__doc__
