"""The cost of `import penstock`, and the names that it offers."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

import penstock as ps


def test_import_brings_neither_torch_nor_numpy(run):
    run("import sys, penstock; assert not {'torch', 'numpy'} & set(sys.modules), sys.modules.keys()")


def test_loader_and_writer_bring_no_torch(run):
    run(
        """
        import sys, penstock as ps
        batch = next(iter(ps.Loader(packed, batch_size=2, num_workers=1, transforms=[], output="numpy")))
        with ps.Writer(packed + ".none", {"x": "int"}) as w:
            w.write({"x": 1})
        import shutil; shutil.rmtree(packed + ".none")
        assert "numpy" in sys.modules and "torch" not in sys.modules
        """
    )


def test_a_loader_of_images_brings_no_more_than_it_needs(run):
    """A loader of images imports neither operations that it does not use, nor the modules for functions in workers."""
    run(
        """
        import sys, numpy
        before = set(sys.modules)
        import penstock as ps
        from penstock import transforms as T
        chain = [T.RandomResizedCrop(8), T.RandomHorizontalFlip(), T.Normalize(ps.IMAGENET_MEAN, ps.IMAGENET_STD)]
        batch = next(iter(ps.Loader(packed, batch_size=2, num_workers=1, transforms=chain, output="numpy")))
        brought = set(sys.modules) - before
        unwanted = {f"penstock.{name}" for name in ("transforms.policies", "transforms.detection", "transforms.sound",
                    "functions.workers", "functions.memory")} | {"multiprocessing", "difflib", "html"}
        assert not unwanted & brought, unwanted & brought
        """
    )


def test_operations_come_with_what_their_hints_name():
    """Each operation is imported when it is first used, in any way, and is pickled by its public path."""
    code = """
import pickle, sys, typing
from penstock import transforms as T
made = getattr(T, sys.argv[1])
if isinstance(made, type):
    typing.get_type_hints(made)
    assert pickle.loads(pickle.dumps(made)) is made and made.__module__ == "penstock.transforms"
assert sys.argv[1] in dir(T)
exec("from penstock.transforms import *")
assert set(T.__all__) <= set(globals())
try:
    T.Nothing
except AttributeError:
    sys.exit(0)
sys.exit("T.Nothing")
"""
    for name in ("Letterbox", "MapLabels", "RandAugment", "Mono", "MelSpectrogram", "AudioTransform", "Resize", "to_json"):
        subprocess.run([sys.executable, "-c", code, name], check=True)


def test_kinds_that_move_are_those_of_the_operations():
    from penstock.transforms import base, detection, pixels, policies

    moving = {*range(pixels._RESIZE, pixels._PAD + 1), *range(detection._RANDOM_IOU_CROP, detection._RANDOM_RESIZE + 1),
              policies._AFFINE, policies._PERSPECTIVE, policies._ELASTIC}
    assert moving == base.MOVING
    assert base.FOR_ANNOTATIONS == {detection._MAP_LABELS, detection._SANITIZE_BOXES}


def test_import_takes_less_than_50_ms():
    best = 1e9
    for _ in range(5):
        text = subprocess.run(
            [sys.executable, "-X", "importtime", "-c", "import penstock"],
            capture_output=True,
            text=True,
            check=True,
        ).stderr
        line = next(line for line in text.splitlines() if re.search(r"\| +penstock$", line))
        best = min(best, int(line.split("|")[1]))
    assert best < 50_000, f"{best} us"


def test_every_public_name_is_there():
    for name in ps.__all__:
        assert getattr(ps, name) is not None
    assert set(ps.__all__) <= set(dir(ps))
    with pytest.raises(AttributeError):
        ps.nothing  # noqa: B018


def test_show_config(capsys):
    config = ps.show_config("dict")
    assert config["version"] == ps.__version__ and config["python"]["version"]
    assert ps.show_config() is None
    assert '"codecs"' in capsys.readouterr().out
    with pytest.raises(ps.errors.ArgumentError):
        ps.show_config("paper")


def test_errors_are_built_in_kinds_and_pickle():
    import pickle

    for name in ps.errors.__all__:
        kind = getattr(ps.errors, name)
        assert issubclass(kind, ps.PenstockError)
        error = kind("what happened", sample=3, file="a/b", os_error=5)
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is kind and str(again) == "what happened"
        assert (again.sample, again.file, again.offset, again.status) == (
            3,
            "a/b",
            None,
            kind.default_status,
        )
    assert issubclass(ps.errors.NotFoundError, FileNotFoundError)
    assert ps.errors.StorageError("x", os_error=5).errno == 5


def test_messages_of_the_library_reach_stderr_when_asked(packed):
    done = subprocess.run(
        [sys.executable, "-c", f"import penstock as ps; ps.Loader({str(packed)!r}, reading=ps.Reading('threads'))"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PENSTOCK_LOG_LEVEL": "debug"},
    )
    assert done.stdout == ""
    for line in done.stderr.splitlines():
        assert line.startswith("penstock: ")
