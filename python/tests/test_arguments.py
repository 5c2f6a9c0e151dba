"""The table of a loader's arguments: signature, docstrings, old names, TorchDataset, configurations, and the page of arguments."""

import dataclasses
import inspect
import json
import pickle
import runpy
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import penstock as ps
from penstock import transforms as T
from penstock.loading import table

ROOT = Path(__file__).resolve().parents[2]
OLD = {row.old: row for row in table.TABLE if row.old}
# Old keyword -> a value for it, with the other arguments that it needs.
VALUES = {
    "decode": ("cpu", {}), "gpu_share": (None, {}), "device_memory": (None, {}), "bits": (16, {}), "ignore_orientation": (True, {}),
    "scaled_decode": (True, {}), "max_pixels": (2**27, {}), "padding": (False, {}), "page_samples": (4, {"order": "pages"}),
    "window_pages": (2, {"order": "pages"}), "max_errors": (3, {"on_error": "skip"}), "on_empty": ("empty", {"on_error": "skip"}),
    "variants": ({"image": ["jpeg"]}, {}), "form_choice": ("sample", {"forms": {"jpeg": 1.0}}), "per_box": ((), {}),
    "min_area": (2.0, {}), "min_visibility": (0.5, {}), "keep_boxes": (True, {}), "made_for": ("upright", {}), "own_geometry": ((),
                                                                                                                                {}),
    "pairs": (None, {}), "pad_value": (3.0, {"ragged": "padded"}), "pad_multiple": (8, {"ragged": "padded"}),
    "sample_function": (dict, {}), "batch_function": (dict, {}), "function_workers": (2, {"sample_function": dict}),
    "function_kind": ("processes", {}), "function_start": ("spawn", {}), "function_timeout": (9.0, {}),
    "cache_form": ("pli-jpeg", {"cache": "8MiB"}), "cache_size": ("whole", {"cache": "8MiB"}), "cache_plan": (None, {}),
    "share_wait": (3.0, {}), "storage": ("threads", {}), "page_cache": ("drop", {}), "io_threads": (3, {}), "verify": (False, {}),
    "throttle": ((1e9, 0.0), {}), "live": (False, {}), "trace": ("", {}),
}  # fmt: skip


def as_bytes(value):
    return [as_bytes(part) for part in value] if isinstance(value, list) else np.asarray(value).tobytes()


def contents(loader):
    """Returns the bytes of all arrays of all batches."""
    return [[as_bytes(value) for value in (batch.values() if isinstance(batch, dict) else batch)] for batch in loader]


def test_the_signature_is_the_table():
    found = dict(inspect.signature(ps.Loader.__init__).parameters)
    found.pop("self")
    assert found.pop("older").kind is inspect.Parameter.VAR_KEYWORD
    defaults = {name: None if one.default is one.empty else one.default for name, one in found.items()}
    assert sorted(defaults) == sorted(table.PARAMETERS) and len(found) <= 40
    for name, default in defaults.items():
        assert default == table.PARAMETERS[name], name


@pytest.mark.parametrize("parameter", sorted(table.GROUPS))
def test_members_of_objects_are_rows(parameter):
    group = table.GROUPS[parameter]
    rows = {row.member or row.name: row.default for row in table.TABLE if row.of == parameter}
    plain = table.PLAIN.get(parameter)
    members = {field.name: field.default for field in dataclasses.fields(group) if field.name != plain}
    assert rows == members
    assert group.__name__ in ps.__all__ and getattr(ps, group.__name__) is group
    assert group.__doc__.startswith(f"``Loader({parameter}={group.__name__}(...))``")


def test_all_arguments_are_described():
    site = runpy.run_path(str(ROOT / "scripts" / "site_arguments.py"), run_name="page")
    lines = site["page"]().splitlines()
    for row in table.TABLE:
        told = [line for line in lines if line.startswith("| ") and f"`{row.shown}`" in line.split(" | ")[0]]
        assert len(told) == 1 and site["meaning"](row) in told[0], row.name
    assert set(site["DOCS"][""]) == set(table.PARAMETERS), "the docstring of Loader"


def test_old_keywords_are_typed():
    assert set(table.OldArguments.__annotations__) == set(OLD) == set(VALUES)


@pytest.mark.parametrize("name", sorted(VALUES))
def test_old_keywords_give_one_warning(packed, name):
    value, beside = VALUES[name]
    row = OLD[name]
    options = {"batch_size": 4, "output": "numpy", **beside, name: value}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        loader = ps.Loader(packed, **options)
    found = [one for one in caught if one.category is FutureWarning]
    assert len(found) == 1 and found[0].filename == __file__
    assert f"{name}= is {table.said_now(row)} now" in str(found[0].message)
    expected = "full" if value == "whole" else value
    assert loader._given[row.name] == expected and type(loader._given[row.name]) is type(expected)
    loader.close()


def test_old_and_new_keywords_load_the_same(packed):
    same = {"batch_size": 4, "shuffle": True, "seed": 2, "transforms": [T.RandomCrop(16)], "output": "numpy"}
    with pytest.warns(FutureWarning, match="padding= is pad_epoch= now; cache_form= is .*; storage= is "):
        old = ps.Loader(packed, **same, padding=False, cache="8MiB", cache_form="pli-jpeg", storage="threads")
    new = ps.Loader(
        packed, **same, pad_epoch=False, cache=ps.CacheUse("8MiB", form="pli-jpeg"), reading=ps.Reading(storage="threads")
    )
    assert contents(old) == contents(new)
    assert old.stats()["cache"]["form"] == "pli-jpeg" and old.config() == new.config()


@pytest.mark.parametrize(("options", "text"), [
    ({"batchsize": 4}, "Loader has no argument 'batchsize': did you mean 'batch_size'"),
    ({"readings": None}, "no argument 'readings': did you mean 'reading'"),
    ({"io_thread": 2}, r"no argument 'io_thread': did you mean reading=ps\.Reading\(io_threads=\.\.\.\)"),
    ({"zzz": 1}, "no argument 'zzz'; there are dataset, batch_size"),
    ({"reading": {"storage": "threads"}}, "reading is a penstock.Reading, not"),
    ({"reading": ps.Decoding()}, "reading is a penstock.Reading, not"),
    ({"cache": ps.CacheUse(form="pli"), "cache_form": "raw"}, r"cache_form= is the old name of cache=ps\.CacheUse"),
    ({"pad_epoch": False, "padding": True}, "padding= is the old name of pad_epoch=: give one"),
    ({"fields": "image"}, "fields is a list of names, not 'image'"),
    ({"annotations": ps.Annotations(per_box="labels")}, "Annotations.per_box is a list of names"),
    ({"decoding": ps.Decoding(bits=9)}, "Decoding.bits is 8 or 16"),
    ({"device": ps.Gpu("cpu", part=0.5)}, "Gpu.part=0.5 needs device"),
    ({"order": ps.Pages(page_samples=0)}, "Pages.page_samples must be 1"),
    ({"order": ps.OnError("skip")}, "order is one of"),
    ({"cache": ps.CacheUse(ps.CacheUse("8MiB"))}, "cache"),
    ({"on_error": ps.OnError(ps.OnError("skip"))}, "on_error is one of"),
    ({"share": ps.Share(ps.Share("x"))}, "share is the name of a group"),
    ({"ragged": {"label": ps.Reading()}}, "ragged"),
])
def test_wrong_keywords(packed, options, text):
    with pytest.raises(ps.errors.ArgumentError, match=text):
        ps.Loader(packed, **options)


@pytest.mark.parametrize(("options", "text"), [
    ({"share": ps.Share("x", wait="5")}, r"Share\.wait is a number"), ({"device": ps.Gpu(part="0.5")}, r"Gpu\.part is a number"),
    ({"annotations": ps.Annotations(min_area="1")}, r"Annotations\.min_area is a number"),
    ({"annotations": ps.Annotations(min_visibility=True)}, r"Annotations\.min_visibility is a number"),
    ({"annotations": ps.Annotations(keep_boxes="no")}, r"Annotations\.keep_boxes is True or False"),
    ({"annotations": ps.Annotations(own_geometry=3)}, r"Annotations\.own_geometry is a list of names"),
    ({"annotations": ps.Annotations(made_for=3)}, "made_for is one of upright, stored"),
    ({"annotations": ps.Annotations(pairs=3)}, r"Annotations\.pairs is a list of pairs"),
    ({"ragged": ps.Padded(value="3")}, r"Padded\.value is a number"),
    ({"watch": ps.Watch(live="no")}, r"Watch\.live is True or False"),
    ({"watch": ps.Watch(trace=3)}, r"Watch\.trace is the path"), ({"reading": ps.Reading(throttle=5)}, r"Reading\.throttle is \("),
    ({"reading": ps.Reading(throttle=("a", 0))}, r"Reading\.throttle is a number"), ({"weights": "x"}, "weights are numbers"),
    ({"forms": ps.Forms(allowed=3)}, r"Forms\.allowed is a dict"),
    ({"functions": ps.Functions(timeout=True)}, "timeout is a number"),
    ({"fields": 3}, "fields is a list of names"), ({"plan": 3}, "plan is a Plan"), ({"collate_fn": 3}, "collate_fn is a function"),
    ({"host_memory": None}, "host_memory is bytes"), ({"host_memory": True}, "host_memory is bytes"),
])  # fmt: skip
def test_kinds_of_values(packed, options, text):
    """Texts that Python would treat as true, and numbers given for other types, are errors even if no field uses the argument."""
    with pytest.raises(ps.errors.ArgumentError, match=text):
        ps.Loader(packed, **options)


def test_objects_are_frozen_and_equal():
    reading = ps.Reading("threads", page_cache="direct")
    with pytest.raises(dataclasses.FrozenInstanceError):
        reading.verify = False
    assert reading == ps.Reading(storage="threads", page_cache="direct") != ps.Reading()
    assert pickle.loads(pickle.dumps(reading)) == reading and repr(reading).startswith("Reading(storage='threads'")


@pytest.mark.parametrize("output", ["numpy", "torch"])
def test_batches_as_tuples(packed, output):
    pytest.importorskip(output)
    same = {"batch_size": 5, "seed": 3, "shuffle": True, "output": output}
    plain = [(batch["image"], batch["label"]) for batch in ps.Loader(packed, **same, transforms=[T.CenterCrop(8)])]
    pairs = list(ps.Loader(packed, **same, transforms=[T.CenterCrop(8)], as_tuple=True))
    assert len(pairs) == len(plain) and all(type(pair) is tuple and len(pair) == 2 for pair in pairs)
    for one, other in zip(plain, pairs, strict=True):
        assert all((np.asarray(a) == np.asarray(b)).all() for a, b in zip(one, other, strict=True))
    loader = ps.Loader(packed, **same, transforms=[T.CenterCrop(8)], as_tuple=["index", "label"])
    numbers, labels = next(iter(loader))
    assert (np.asarray(loader.replay(0)[0]) == np.asarray(numbers)).all() and len(labels) == 5
    views = ps.Loader(packed, **same, views={"two": (2, [T.RandomCrop(8)])}, as_tuple=["two", "label"])
    assert tuple(next(iter(views))[0].shape) == (5, 2, 3, 8, 8)


@pytest.mark.parametrize(("options", "text"), [
    ({"as_tuple": "image"}, "as_tuple is a list of names"),
    ({"as_tuple": ["imge", "label"]}, "as_tuple: no field 'imge': did you mean 'image'"),
    ({"as_tuple": []}, "at least one"),
    ({"as_tuple": True, "fields": ["image"]}, "wants an image and an int field"),
    ({"as_tuple": ["label"], "fields": ["image"]}, "as_tuple: no field 'label'"),
    ({"as_tuple": True, "collate_fn": dict}, "as_tuple is not for loaders with a collate_fn"),
    ({"as_tuple": 2}, "as_tuple is True or False"),
])
def test_wrong_tuples(packed, options, text):
    with pytest.raises(ps.errors.ArgumentError, match=text):
        ps.Loader(packed, **options)


def test_tuples_of_a_batch_function(packed):
    loader = ps.Loader(packed, batch_size=4, output="numpy", as_tuple=["label"],
                       functions=ps.Functions(batch=lambda batch, rng: [1]))
    with pytest.raises(ps.errors.ArgumentError, match="the batch function returned list"):
        next(iter(loader))


def test_torch_dataset_has_the_table(packed):
    pytest.importorskip("torch")
    for row in table.TABLE:
        if row.torch and row.old:
            value, _ = VALUES[row.old]
            if not table.is_default(row, value):
                with pytest.warns(FutureWarning), pytest.raises(ps.errors.ArgumentError, match=row.shown.replace(".", r"\.")):
                    ps.TorchDataset(packed, **{row.old: value})
    with pytest.raises(ps.errors.ArgumentError, match="batch_size belongs to torch's DataLoader"):
        ps.TorchDataset(packed, batch_size=1)
    with pytest.raises(ps.errors.ArgumentError, match=r"Functions\.workers has no effect"):
        ps.TorchDataset(packed, functions=ps.Functions(sample=dict, workers=2))
    with pytest.raises(ps.errors.ArgumentError, match="TorchDataset has no argument 'field': did you mean 'fields'"):
        ps.TorchDataset(packed, field=["image"])
    assert set(ps.TorchDataset(packed, functions=ps.Functions(sample=dict), reading=ps.Reading("threads"))[0]) > {"image"}


CONFIGURED = {
    "plain": {},
    "many": {
        "shuffle": True, "seed": np.uint64(2**63), "transforms": {"image": [T.RandomResizedCrop(16), T.Normalize(0.5, 0.5)]},
        "dtype": np.float16, "layout": {"image": "NHWC"}, "num_workers": 1, "order": ps.Pages(4, 2), "indices": np.arange(9),
        "on_error": ps.OnError("replace", max_errors=5), "host_memory": "1GiB", "fields": ["image", "label"],
        "cache": ps.CacheUse("16MiB", form="raw"), "reading": ps.Reading("threads", throttle=(1e9, 0.0, 4)),
        "decoding": ps.Decoding(bits=16, max_pixels=10**7), "share": ps.Share(None, wait=2.0), "as_tuple": ["image", "label"],
        "watch": ps.Watch(live=False, trace=""), "rank": 1, "world_size": 2, "drop_last": True,
    },
    "views": {"views": {"a": (2, [T.RandomCrop(8)], "image"), "b": [T.CenterCrop(8)]}, "shuffle": True},
    "mix": {"transforms": [T.RandomCrop(8)], "mix": [T.MixUp(0.3, num_classes=5), T.CutMix(num_classes=5)], "output": "numpy"},
    "padded": {"ragged": {"image": ps.Padded(7.0, multiple=8)}, "output": "numpy"},
    "weights": {"weights": [1.0] * 24, "annotations": ps.Annotations(per_box=(), keep_boxes=True)},
}  # fmt: skip


@pytest.mark.parametrize("kind", sorted(CONFIGURED))
def test_configurations(packed, tmp_path, kind):
    given = {"batch_size": 4, "output": "numpy", **CONFIGURED[kind]}
    if "weights" in given:
        given["weights"] = [1.0] * len(ps.Dataset(packed))
    loader = ps.Loader(packed, **given)
    text = json.dumps(loader.config())
    file = tmp_path / "loader.json"
    file.write_text(text)
    for config in (json.loads(text), file, str(file)):
        again = ps.Loader.from_config(config)
        assert again.config() == json.loads(text)
        assert {**again._given, "dataset": None}.keys() == {**loader._given, "dataset": None}.keys()
    expected = contents(loader)
    assert contents(again) == expected and expected
    state = loader.state_dict()
    again.load_state_dict(state, strict=True)


def test_configurations_of_views_and_labels(packed):
    view = ps.Dataset(packed).subset([5, 3, 1])
    loader = ps.Loader(view, batch_size=2, output="numpy")
    config = json.loads(json.dumps(loader.config()))
    assert config["dataset"]["indices"] == [5, 3, 1]
    assert contents(ps.Loader.from_config(config)) == contents(loader)


def test_arguments_without_a_plain_form(packed):
    cache = ps.Cache("8MiB")
    loader = ps.Loader(packed, batch_size=4, output="numpy", cache=cache, collate_fn=list,
                       functions=ps.Functions(sample=dict, workers=1))
    config = json.loads(json.dumps(loader.config()))
    assert config["absent"] == ["collate_fn", "cache", "functions"]
    with pytest.raises(ps.errors.ArgumentError, match="the configuration has no cache, functions, which its loader had"):
        ps.Loader.from_config(config, collate_fn=list)
    again = ps.Loader.from_config(config, collate_fn=list, cache=None, functions=None, batch_size=3)
    assert again.batch_size == 3 and next(iter(again)) == list(ps.Dataset(packed).fields) + ["index"]


class Mine(T.GaussianBlur):
    """A user's own operation."""


def test_operations_of_ones_own_have_no_plain_form(packed):
    for transforms in ([Mine(3)], {"image": [T.RandomApply([Mine(3)], p=0.5)]}):
        loader = ps.Loader(packed, transforms=transforms, indices=range(8))
        config = json.loads(json.dumps(loader.config()))
        assert config["absent"] == ["transforms"] and config["indices"] == list(range(8))
        loader.close()


@pytest.mark.parametrize(("config", "text"), [
    ({"kind": "penstock plan"}, "has the kind"),
    ({"version": 9, "dataset": "x"}, "version 9"),
    ({"batch_size": 3}, "names no dataset"),
    ({"dataset": {"labels": "x"}}, "'path' is missing"),
    ({"dataset": {"path": "x", "label": "x"}}, "no member 'label': did you mean 'labels'"),
    ({"dataset": "x", "batchsize": 3}, "an argument 'batchsize': did you mean 'batch_size'"),
    ({"dataset": "x", "reading": {"storag": "auto"}},  # codespell:ignore storag
     "reading: no member 'storag': did you mean 'storage'"),  # codespell:ignore storag
    ({"dataset": "x", "mix": {"mix": "MixDown"}}, "no way 'MixDown'; there are MixUp"),
    ({"dataset": "x", "transforms": [{"op": "Crop"}]}, "no operation 'Crop'"),
    ({"dataset": "x", "on_error": {"max_errors": 3}}, "on_error: .*action"),
])
def test_wrong_configurations(config, text, tmp_path):
    with pytest.raises(ps.errors.ArgumentError, match=text):
        ps.Loader.from_config(config)
    (tmp_path / "it.json").write_text(json.dumps(config))
    with pytest.raises(ps.errors.PenstockError, match=text) as caught:
        ps.Loader.from_config(tmp_path / "it.json")
    assert "it.json" in str(caught.value)


def test_short_configurations(packed):
    config = {"dataset": str(packed), "batch_size": 4, "cache": "8MiB", "order": "pages", "ragged": "list", "forms": None,
              "reading": {"verify": False}, "output": "numpy"}  # fmt: skip
    loader = ps.Loader.from_config(config)
    assert loader.batch_size == 4 and loader._given["verify"] is False and loader._given["io_threads"] is None


def test_old_names_in_pickles(packed):
    loader = ps.Loader(packed, batch_size=4, output="numpy", cache=ps.CacheUse("8MiB"))
    state = loader.__getstate__()
    for new, old in (("cache_resolution", "cache_size"), ("gpu_part", "gpu_share"), ("pad_epoch", "padding"),
                     ("form_parts", "forms"),
                     ("allowed_forms", "variants")):  # fmt: skip
        state["given"][old] = state["given"].pop(new)
    state["given"]["cache_size"] = "whole"
    del state["given"]["as_tuple"]
    again = ps.Loader.__new__(ps.Loader)
    again.__setstate__(state)
    assert contents(again) == contents(loader)


def test_old_names_in_plans(packed, tmp_path):
    plan = {"kind": "penstock plan", "version": 1, "loader": {"prefetch": 3, "cache": 1 << 20, "cache_form": "pli-jpeg",
            "cache_size": "whole", "forms": {"pli-jpeg": 1.0}}}  # fmt: skip
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    with pytest.warns(FutureWarning, match="cache_size is cache_resolution now; forms is form_parts now") as caught:
        loader = ps.Loader(packed, output="numpy", plan=str(tmp_path / "plan.json"))
    assert len(caught) == 1
    assert loader._given["form_parts"] == {"pli-jpeg": 1.0} and loader._given["cache_resolution"] == "full"
    loader.close()
    plan["loader"] = {"prefetch": "3"}
    with pytest.raises(ps.errors.ArgumentError, match=r"loader\.prefetch is int"):
        ps.Loader(packed, plan=plan)


@pytest.mark.parametrize(("before", "after"), [
    ('"größe"; ps.Loader("d", cache="8GiB", cache_form="pli", padding=False, cache_size="whole")\n',
     '"größe"; ps.Loader("d", cache=ps.CacheUse("8GiB", form="pli", resolution="full"), pad_epoch=False)\n'),
    ('ps.Loader("d", order="pages", page_samples=4)\n', 'ps.Loader("d", order=ps.Pages(page_samples=4))\n'),
    ('zip(ps.Loader("ä", storage="threads",\n              verify=False), 3)\n',
     'zip(ps.Loader("ä", reading=ps.Reading(storage="threads", verify=False)), 3)\n'),
    ('ps.TorchDataset("d", min_area=ps.Loader("e", live=True).size)\n',
     'ps.TorchDataset("d", annotations=ps.Annotations(min_area=ps.Loader("e", watch=ps.Watch(live=True)).size))\n'),
    ('other(cache_form="pli")\n', 'other(cache_form="pli")\n'),
])  # fmt: skip
def test_programs_are_written_anew(tmp_path, before, after):
    """scripts/rename_arguments.py moves keywords into their objects, also in nested calls and after letters of several bytes."""
    tool = runpy.run_path(str(ROOT / "scripts" / "rename_arguments.py"), run_name="tool")
    calls = {"Loader", "TorchDataset"}
    assert tool["renamed"](before, calls) == tool["renamed"](after, calls) == after
    page = "text\n```python\n{}```\n```\n" + before + "```\n"
    assert tool["in_markdown"](page.replace("{}", before), calls) == page.replace("{}", after)
    (tmp_path / "it.py").write_text(before)
    run = [sys.executable, ROOT / "scripts" / "rename_arguments.py", "--check", tmp_path / "it.py"]
    assert subprocess.run(run, capture_output=True).returncode == int(before != after)
    assert (tmp_path / "it.py").read_text() == before
