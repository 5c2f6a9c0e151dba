"""The display in notebooks: well-formed HTML with pictures for any sample, batch, data set and statistics."""

from __future__ import annotations

import base64
import copy
import io
import pickle
import re
import sys
import wave
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
from penstock.data import markup, notebook
from penstock.stalls import html


def parsed(shown):
    """Parses the HTML as XML, which makes a missing or wrong end tag an error."""
    return ElementTree.fromstring(shown._repr_html_())


def pictures(tree):
    """Returns the decoded inline pictures."""
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
    assert (shown[0, 0] == 200).all() and not (shown[15, 40] == 200).all()  # the label has a coloured background
    assert len(list(tree.iter("rect"))) == 2 and len(list(tree.iter("circle"))) == 2
    rect = next(tree.iter("rect"))
    assert [float(rect.get(name)) for name in ("x", "y", "width", "height")] == [5, 6, 20, 30]
    assert [text.text for text in tree.iter("text")] == ["<b>", "<b>"]
    cells = [cell.text or "" for cell in tree.iter("td")]
    assert "uint8 (40, 60, 3)" in cells and all(len(cell) <= 60 for cell in cells)


def test_a_batch(detection):
    for output in ("numpy", "torch"):
        loader = ps.Loader(
            detection,
            batch_size=10,
            output=output,
            annotations=ps.Annotations(keep_boxes=True),
            transforms=[T.CenterCrop(32), T.Normalize(0.5, 0.25)],
        )
        tree = parsed(next(iter(loader)))
        assert [shown.shape for shown in pictures(tree)] == [(32, 32, 3)] * 8
        assert len(list(tree.iter("rect"))) == 4 * 3 and tree.find("p").text == "and 2 more"
        captions = [caption.text for caption in tree.iter("figcaption")]
        assert captions[:2] == ["0, <none>", "1, cat & dog"]


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
    assert shown[2].min() == 0 and shown[2].max() == 255  # 16-bit pixels are stretched to their own range
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
    stats["storage"]["partial_reads"] = 2  # only the needed parts of images were read, which is not a problem
    tree = parsed(stats)
    rows = {row[0].text: row[1].text for row in tree.iter("tr") if len(row) == 2}
    assert rows["delivered"] == "24" and rows["batches"] == str(stats["batches"])
    [first] = tree.findall("details")  # one element to open, with all numbers in it
    assert {"samples", "step", "memory"} <= {part.findtext("summary") for part in first.findall("details")}
    above = "".join(text for part in tree if part.tag != "details" for text in part.itertext())
    assert "worker" in above and "Steps" in above and "24 samples" in above and "Nothing is wrong." in above
    assert len(above.partition("}.pst-see code")[2]) < 1200  # one screen


def test_stats_say_what_is_wrong(packed):
    loader = ps.Loader(packed, batch_size=4, output="numpy")
    for _ in loader:
        pass
    stats = loader.stats()
    window = stats["step"]["window"]
    window.update(stall=0.37, cause="decode", causes={"decode": 0.3, "<new stage>": 0.1}, wait_seconds=0.4, seconds=1.0, steps=5)
    stats["samples"]["bad"] = 3
    stats["fallbacks"], stats["fallback_reasons"] = {"pin": 2}, {"pin": "no <driver>"}
    tree = parsed(stats)
    assert tree.findtext("h3") == "The training waits for data in 37 % of its time, most of all for decoding."
    wrong = [item.text for item in tree.iter("li")]
    assert wrong[0].startswith("3 bad samples") and wrong[1] == "2 times pin went another way: no <driver>."
    assert "penstock pack" in "".join(tree.itertext()) and "Nothing is wrong" not in "".join(tree.itertext())
    window.update(stall=0.004)
    assert parsed(stats).findtext("h3").startswith("The training is fed")


@pytest.mark.parametrize("spoilt", [{}, {"step": None}, {"samples": 3}, {"step": {"window": {"steps": "x"}}}, {"a": "\0<"},
                                    {"fallbacks": [1]}, {"storage": {"reason": "<i>" * 9999}}])  # fmt: skip
def test_stats_of_any_content(spoilt):
    tree = parsed(notebook.Stats(spoilt))
    assert len("".join(tree.itertext())) < 9000


HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "\0\x1b[31m\u202eright to left",
    "&amp; \"quoted\" 'name'",
    "long " * 400,
    "</svg></div>",
]


def test_names_of_classes_are_escaped(tmp_path):
    names = [*HOSTILE[:1], *HOSTILE[2:]]
    with ps.Writer(tmp_path / "a.pst", {
        "image": ps.Image(), "boxes": ps.Boxes(), "labels": ps.Array("int64", classes=names), "label": ps.Int(names),
    }) as writer:  # fmt: skip
        for i in range(4):
            writer.write(
                {"image": np.full((30, 40, 3), 90, np.uint8), "boxes": [[2, 3, 20, 25]], "labels": np.array([i]), "label": i}
            )
    loader = ps.Loader(tmp_path / "a.pst", batch_size=4, output="numpy", annotations=ps.Annotations(keep_boxes=True))
    batch = next(iter(loader))
    for shown in (batch, loader.dataset, loader.dataset[0], loader):
        tree = parsed(shown)
        assert not [tag for tag in tree.iter() if tag.get("onerror")] and "<img src=x" not in shown._repr_html_()
        assert len(shown._repr_html_()) < 60_000
    captions = [text.text for text in parsed(batch).iter("text")]
    assert captions[0].startswith("<img src=x") and all(len(text) <= 24 for text in captions) and len(captions) == 4
    batch["text"] = HOSTILE
    batch[HOSTILE[1]] = HOSTILE[1]
    assert "\x1b" not in batch._repr_html_() + repr(batch) and "\u202e" not in repr(batch) and len(repr(batch)) < 3000
    parsed(batch)


def test_what_is_shown_has_a_limit():
    values = {"image": np.zeros((9, 9, 3), np.uint8), "boxes": np.tile([1.0, 1, 5, 5], (5000, 1)), "points": np.ones((5000, 3)),
              "labels": ["x"] * 5000, **{f"f{i}": i for i in range(3000)}}  # fmt: skip
    sample = notebook.Sample(values, {"image": "image", "boxes": "boxes", "points": "keypoints"})
    tree = parsed(sample)
    assert len(list(tree.iter("rect"))) == len(list(tree.iter("circle"))) == notebook.SHAPES
    assert len(sample._repr_html_()) < 80_000 and "more" in repr(sample) and len(repr(sample)) < 10_000


@pytest.mark.parametrize("style", [markup._STYLE, html._STYLE], ids=["notebook", "report"])
def test_colours_follow_the_theme_of_the_page(style):
    """The theme of a notebook overrides the browser's setting, because its CSS rules are more specific."""
    patterns = (r"^\.[\w-]+\{(.*?)\}", r"scheme:dark\)\{\.[\w-]+\{(.*?)\}\}")
    light, dark = (re.search(pattern, style, re.DOTALL)[1] for pattern in patterns)
    assert light != dark and style.count("{") == style.count("}")
    jupyter = "[data-jp-theme-light="
    for theme, wanted in (f'{jupyter}"true"]', light), (f'{jupyter}"false"]', dark), (".vscode-dark", dark):
        assert style.partition(f"{theme} .pst")[2].partition("{")[2].startswith(wanted)


class Unprintable:
    shape, dtype = (3,), "float32"

    def __repr__(self):
        raise RuntimeError("no text")

    __str__ = __repr__


def test_what_users_put_into_a_batch(detection):
    batch = next(iter(ps.Loader(detection, batch_size=2, output="numpy", annotations=ps.Annotations(keep_boxes=True))))
    for name, value in (
        ("boxes", "none"),
        ("labels", 3),
        ("label", [[1]]),
        ("index", None),
        ("image", Unprintable()),
        ("x", Unprintable()),
    ):
        spoilt = copy.copy(batch)
        spoilt[name] = value
        parsed(spoilt)
        spoilt = copy.copy(batch)
        del spoilt[name if name in spoilt else "mask"]
        parsed(spoilt)


def test_a_loader_shows_itself_and_stays_where_it_is(detection):
    loader = ps.Loader(detection, batch_size=4, shuffle=True, seed=3, output="numpy", fields=["image", "label"],
                       transforms={"image": [T.CenterCrop(16)]})  # fmt: skip
    before = loader.state_dict()
    tree = parsed(loader)
    assert loader.state_dict() == before and loader.stats()["batches"] == 0
    facts = {part[0].text: part[1].text for part in tree.iter("div") if len(part) == 2 and part[0].tag == "span"}
    assert facts["samples"] == "10" and facts["batches"] == "3" and facts["rank"] == "0 of 1" and facts["arrays"] == "numpy"
    text = "".join(tree.itertext())
    assert "CenterCrop(" in text and "shuffle" in text and "a&b <c>.pst" in text
    batches = iter(loader)
    first = next(batches)["index"].tolist()
    parsed(loader)  # displayed in the middle of an epoch
    rest = [number for batch in batches for number in batch["index"].tolist()]
    assert sorted({*first, *rest}) == list(range(10))
    assert "statistics" in "".join(parsed(loader).itertext())
    loader.close()
    assert "Loader of" in "".join(parsed(loader).itertext())


def test_a_loader_whose_ranks_are_wrong(detection, monkeypatch):
    loader = ps.Loader(detection, batch_size=4, output="numpy")
    monkeypatch.setenv("RANK", "<3>")
    parsed(loader)


def sound_of(tree):
    """Returns the sounds of the HTML players, as (samples/s, int16 array)."""
    found = []
    for player in tree.iter("audio"):
        with wave.open(io.BytesIO(base64.b64decode(player.get("src").removeprefix("data:audio/wav;base64,")))) as file:
            found.append((file.getframerate(), np.frombuffer(file.readframes(file.getnframes()), "<i2")))
            assert (file.getnchannels(), file.getsampwidth()) == (1, 2)
    return found


def wav_of(values, rate, channels=1):
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(np.repeat(values.astype("<i2"), channels).tobytes())
    return out.getvalue()


def test_players_of_sound(tmp_path):
    tone = (np.sin(np.arange(16000 * 20) / 5) * 9000).astype(np.int16)
    with ps.Writer(tmp_path / "a.pst", {"audio": ps.Audio(), "label": ps.Int(["<one>", "two"])}) as writer:
        for i, (n, rate, channels) in enumerate([(8000, 8000, 1), (16000 * 20, 16000, 1), (48000, 48000, 2), (0, 8000, 1)]):
            writer.write({"audio": wav_of(tone[:n], rate, channels), "label": i % 2})
        writer.write({"audio": wav_of(tone[:8000], 8000), "label": 0})
    ds = ps.Dataset(tmp_path / "a.pst")
    [(rate, short)] = sound_of(parsed(ds[0]))
    assert rate == 8000 and len(short) == 8000 and np.abs(short - tone[:8000].astype(int)).max() <= 1
    [(rate, long)] = sound_of(parsed(ds[1]))
    assert (rate, len(long)) == (16000, 48000) and "3.00 of 20.00 s" in "".join(parsed(ds[1]).itertext())
    [(rate, high)] = sound_of(parsed(ds[2]))
    assert (rate, len(high)) == (16000, 16000)
    assert sound_of(parsed(ds[3])) == []
    assert len(sound_of(parsed(ds))) == 4 and len(ds._repr_html_()) < 700_000
    loader = ps.Loader(ds.subset([0, 1, 4]), batch_size=3, output="numpy", transforms=[T.Resample(4000), T.CenterClip(2000)])
    batch = next(iter(loader))
    players = sound_of(parsed(batch))
    assert [(rate, len(sound)) for rate, sound in players] == [(4000, 2000)] * 3
    wanted = batch["audio"][0].reshape(-1) * 32767
    assert np.abs(players[0][1] - wanted).max() <= 1 and "0, <one>, 0.50 s, 4,000 Hz" in "".join(parsed(batch).itertext())
    batch["audio"] = np.full((3, 1, 50), np.nan, np.float32)
    assert all(not sound.any() for _, sound in sound_of(parsed(batch)))
    for odd in (np.zeros((3, 1, 0)), np.zeros((3, 1, 40, 20)), ["x"] * 3, [b"RIFF"] * 3):
        batch["audio"] = odd
        assert sound_of(parsed(batch)) == []


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
    """JAX is not installed for tests. The test checks the registration that JAX would get, and that its functions restore the
    batch.
    """
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
