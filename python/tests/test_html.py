"""What notebooks show: well-formed HTML with pictures, for any sample, batch, data set and statistics."""

from __future__ import annotations

import base64
import copy
import io
import pickle
import sys
from collections import OrderedDict
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from PIL import Image as PilImage

import penstock as ps
from conftest import encoded, picture
from penstock import transforms as T
from penstock.data import notebook


def parsed(shown):
    """The HTML as a tree. It is well-formed XML, so that a missing or wrong end tag is an error."""
    return ElementTree.fromstring(shown._repr_html_())


def pictures(tree):
    """The inline pictures, decoded."""
    found = []
    for image in tree.iter("img"):
        head, _, data = image.get("src").partition(",")
        assert head == "data:image/png;base64"
        pixels = PilImage.open(io.BytesIO(base64.b64decode(data)))
        assert (image.get("width"), image.get("height")) == (str(pixels.width), str(pixels.height))
        assert max(pixels.size) <= 192
        found.append(np.asarray(pixels))
    return found


@pytest.fixture(scope="module")
def detection(tmp_path_factory):
    path = tmp_path_factory.mktemp("html") / "a&b <c>.pst"
    schema = {
        "image": ps.Image(), "mask": ps.Mask(), "boxes": ps.Boxes(), "points": ps.Keypoints(), "labels": ps.Json(),
        "label": ps.Int(["<none>", "cat & dog"]), "title": ps.Text(),
    }  # fmt: skip
    with ps.Writer(path, schema) as writer:
        for i in range(10):
            mask = np.zeros((40, 60), np.uint8)
            mask[10:20, 30:50] = 3
            writer.write({
                "image": np.full((40, 60, 3), 200, np.uint8), "mask": mask, "boxes": [[5, 6, 25, 36]] * (i % 2 + 1),
                "points": [[30, 20, 1], [1, 1, 0]], "labels": ["<b>"] * (i % 2 + 1), "label": i % 2, "title": "x" * 500,
            })  # fmt: skip
    return ps.Dataset(path)


def test_a_sample(detection):
    sample = detection[1]
    assert isinstance(sample, dict) and list(sample) == list(detection.fields)
    tree = parsed(sample)
    [shown] = pictures(tree)
    assert shown.shape == (40, 60, 3)
    assert (shown[0, 0] == 200).all() and not (shown[15, 40] == 200).all()  # the label is tinted
    assert len(list(tree.iter("rect"))) == 2 and len(list(tree.iter("circle"))) == 2
    rect = next(tree.iter("rect"))
    assert [float(rect.get(name)) for name in ("x", "y", "width", "height")] == [5, 6, 20, 30]
    assert [text.text for text in tree.iter("text")] == ["<b>", "<b>"]
    cells = [cell.text or "" for cell in tree.iter("td")]
    assert "uint8 (40, 60, 3)" in cells and all(len(cell) <= 60 for cell in cells)


def test_a_batch(detection):
    for output in ("numpy", "torch"):
        loader = ps.Loader(detection, batch_size=10, output=output, annotations=ps.Annotations(keep_boxes=True),
                           transforms=[T.CenterCrop(32), T.Normalize(0.5, 0.25)])
        tree = parsed(next(iter(loader)))
        assert [shown.shape for shown in pictures(tree)] == [(32, 32, 3)] * 8
        assert len(list(tree.iter("rect"))) == 4 * 3 and tree.find("p").text == "and 2 more"
        captions = [caption.text for caption in tree.iter("figcaption")]
        assert captions[:2] == ["0, label 0", "1, label 1"]


def test_a_data_set(detection, packed, folder, typed):
    tree = parsed(detection)
    assert len(pictures(tree)) == 8
    assert "a&b <c>.pst" in "".join(tree.itertext())
    assert [caption.text for caption in tree.iter("figcaption")][:2] == ["0 <none>", "1 cat & dog"]
    for path in packed, folder:
        shown = pictures(parsed(ps.Dataset(path)))
        assert len(shown) == 8 and max(shown[7].shape) == 90 - 7 or shown
    assert parsed(ps.Dataset(typed))
    assert len(pictures(parsed(ps.Dataset(packed).subset([3, 4])))) == 2


def test_large_deep_and_odd_images(tmp_path):
    images = [
        picture(0, 500, 1300), np.zeros((3, 700), np.uint8), np.arange(600, dtype=np.uint16).reshape(20, 30) * 9,
        np.zeros((8, 9, 4), np.uint8), np.zeros((1, 1, 2), np.uint8),
    ]  # fmt: skip
    with ps.Writer(tmp_path / "a.pst", {"image": "image"}) as writer:
        for image in images:
            writer.write({"image": image})
    ds = ps.Dataset(tmp_path / "a.pst")
    shown = pictures(parsed(ds))
    assert [part.shape for part in shown] == [(71, 185, 3), (1, 175, 3), (20, 30, 3), (8, 9, 3), (1, 1, 3)]
    np.testing.assert_allclose(shown[0][3, 5], picture(0, 500, 1300)[21:28, 35:42].mean((0, 1)), atol=1)
    assert shown[2].min() == 0 and shown[2].max() == 255  # 16 bits are stretched to what there is
    ragged = next(iter(ps.Loader(ds, batch_size=5, channels="stored")))
    assert len(pictures(parsed(ragged))) == 5


def test_a_bad_sample_is_left_out(tmp_path):
    (tmp_path / "f").mkdir()
    for i in range(3):
        (tmp_path / f"f/{i}.png").write_bytes(encoded(picture(i, 20, 20), "PNG")[: 100 if i == 1 else None])
    assert len(pictures(parsed(ps.Dataset(tmp_path / "f")))) == 2


def test_what_is_no_picture(tmp_path):
    with ps.Writer(tmp_path / "a.pst", {"title": "text", "n": "int"}) as writer:
        writer.write({"title": "<script>alert(1)</script>", "n": 1})
    ds = ps.Dataset(tmp_path / "a.pst")
    for shown in (ds, ds[0], next(iter(ps.Loader(ds)))):
        assert pictures(parsed(shown)) == [] and "<script>" not in shown._repr_html_()
    encoded_batch = next(iter(ps.Loader(ds)))
    encoded_batch["n"] = "changed by the user"
    parsed(encoded_batch)


def test_stats(packed):
    loader = ps.Loader(packed, batch_size=4)
    parsed(loader.stats())
    for _ in loader:
        pass
    stats = loader.stats()
    tree = parsed(stats)
    rows = {row[0].text: row[1].text for row in tree.iter("tr") if len(row) == 2}
    assert rows["samples delivered"] == "24" and rows["batches"] == str(stats["batches"])
    assert "workers:" in "".join(tree.itertext())


def test_they_are_dicts_for_everyone_else(detection):
    batch = next(iter(ps.Loader(detection, batch_size=2, output="torch", fields=["image", "label"])))
    plain = dict(batch)
    for again in (copy.copy(batch), pickle.loads(pickle.dumps(batch)), type(batch)(OrderedDict(plain)), type(batch)(plain.items())):
        assert isinstance(again, dict) and list(again) == ["image", "label", "index"]
        assert torch.equal(again["image"], batch["image"])
        parsed(again)
    doubled = torch.utils._pytree.tree_map(lambda tensor: tensor * 2, batch)
    assert torch.equal(doubled["label"], batch["label"] * 2) and list(doubled) == list(batch)
    collated = torch.utils.data.default_collate([detection[0], detection[2]])
    assert collated["image"].shape == (2, 40, 60, 3)
    parsed(collated)
    assert {"a": 1} == type(batch)({"a": 1})


def test_trees_of_jax(detection, monkeypatch):
    """JAX is not among the test packages: what it is told, and that its calls would give the batch back."""
    found = {}
    stand_in = SimpleNamespace(register_pytree_node=lambda kind, flatten, unflatten: found.update({kind: (flatten, unflatten)}))
    monkeypatch.setitem(sys.modules, "jax.tree_util", stand_in)
    monkeypatch.setattr(notebook, "_registered", set(notebook._registered) - {"jax.tree_util"})
    batch = next(iter(ps.Loader(detection, batch_size=2, output="numpy", fields=["image", "label"])))
    assert set(found) == {notebook.Batch, notebook.Sample}
    flatten, unflatten = found[type(batch)]
    children, context = flatten(batch)
    assert hash(context) == hash(flatten(batch)[1])  # the key of a compiled function
    again = unflatten(context, [child * 2 for child in children])
    assert list(again) == list(batch) and again.kinds == batch.kinds
    np.testing.assert_array_equal(again["label"], batch["label"] * 2)
