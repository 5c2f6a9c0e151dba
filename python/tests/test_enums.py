"""The numbers that Python passes to the C library equal those of the public headers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from penstock.base import options as _options
from penstock.data import image, mixture_weights, writer
from penstock.loading import options
from penstock.transforms import base, detection, pixels, policies

HEADERS = Path(__file__).resolve().parents[2] / "include" / "penstock"


def numbers_of(enum: str) -> dict[str, int]:
    """Returns the enumerators of a public enumeration in C."""
    text = re.sub(r"/\*.*?\*/", "", "".join(path.read_text() for path in sorted(HEADERS.glob("*.h"))), flags=re.S)
    body = re.search(rf"enum {enum} \{{(.*?)\}};", text, flags=re.S)
    assert body is not None, f"no enum {enum}"
    return {name: int(number) for name, number in re.findall(r"(PST_\w+) = (\d+)", body[1])}


@pytest.mark.parametrize(
    ("enum", "prefix", "names"),
    [
        ("pst_order", "ORDER", options.ORDERS),
        ("pst_on_error", "ON_ERROR", options.ON_ERROR),
        ("pst_storage_kind", "STORAGE", options.STORAGES),
        ("pst_page_cache", "PAGE_CACHE", options.PAGE_CACHES),
        ("pst_decode_place", "DECODE", options.DECODES),
    ],
)
def test_names_are_at_the_place_of_their_number(enum, prefix, names):
    assert {f"PST_{prefix}_{name.upper()}": number for number, name in enumerate(names)} == numbers_of(enum)


@pytest.mark.parametrize(
    ("enum", "numbers"),
    [
        ("pst_on_empty",
         dict(zip(("PST_ON_EMPTY_FILL", "PST_ON_EMPTY_DELIVER"), range(len(options.ON_EMPTY)), strict=True))),
        (
            "pst_cache_form",
            {
                "PST_CACHE_FORM_STORED": options.CACHE_FORMS.index("stored"),
                "PST_CACHE_FORM_PLI_JPEG": options.CACHE_FORMS.index("pli-jpeg"),
                "PST_CACHE_FORM_PLI": options.CACHE_FORMS.index("pli"),
                "PST_CACHE_FORM_PLI_FAST": options.CACHE_FORMS.index("pli-fast"),
                "PST_CACHE_FORM_RAW": options.CACHE_FORMS.index("raw"),
            },
        ),
        (
            "pst_cache_resolution",
            {
                "PST_CACHE_RESOLUTION_FULL": options.CACHE_RESOLUTIONS.index("full"),
                "PST_CACHE_RESOLUTION_TRAINING": options.CACHE_RESOLUTIONS.index("training"),
            },
        ),
        (
            "pst_source_stop",
            {
                "PST_SOURCE_STOP_ALL": mixture_weights.STOPS.index("all_exhausted"),
                "PST_SOURCE_STOP_FIRST": mixture_weights.STOPS.index("first_exhausted"),
                "PST_SOURCE_STOP_NEVER": mixture_weights.STOPS.index("endless"),
            },
        ),
        ("pst_placement", {"PST_PLACEMENT_HOST": 0, "PST_PLACEMENT_DEVICE": options.PLACEMENTS.index("cuda")}),
        (
            "pst_pin",
            {
                "PST_PIN_NEVER": _options.PINS[False],
                "PST_PIN_AUTO": _options.PINS["auto"],
                "PST_PIN_ALWAYS": _options.PINS[True],
            },
        ),
        (
            "pst_made_for",
            {
                "PST_MADE_FOR_UNKNOWN": _options.MADE_FOR.index(""),
                "PST_MADE_FOR_UPRIGHT": _options.MADE_FOR.index("upright"),
                "PST_MADE_FOR_STORED": _options.MADE_FOR.index("stored"),
            },
        ),
        (
            "pst_pli_tier",
            {"PST_PLI_TIER_DEFAULT": 0} | {f"PST_PLI_TIER_{t.upper()}": i + 1 for i, t in enumerate(_options.TIERS)},
        ),
        (
            "pst_writer_mode",
            {
                "PST_WRITER_CREATE": writer.CREATE,
                "PST_WRITER_RESUME": writer.RESUME,
                "PST_WRITER_APPEND": writer.APPEND,
            },
        ),
        (
            "pst_interpolation",
            {
                f"PST_INTERPOLATION_{name.upper().replace('-', '_')}": number
                for name, number in base._INTERPOLATIONS.items()
            },
        ),
        ("pst_pad_mode", {f"PST_PAD_{name.upper()}": number for name, number in base._PAD_MODES.items()}),
        (
            "pst_op_kind",
            {
                f"PST_OP{name}": getattr(pixels, name)
                for name in (
                    "_RESIZE",
                    "_CENTER_CROP",
                    "_RANDOM_CROP",
                    "_RANDOM_RESIZED_CROP",
                    "_HORIZONTAL_FLIP",
                    "_VERTICAL_FLIP",
                    "_PAD",
                    "_COLOR_JITTER",
                    "_GRAYSCALE",
                    "_NORMALIZE",
                )
            }
            | {
                f"PST_OP{name}": getattr(detection, name)
                for name in (
                    "_RANDOM_IOU_CROP",
                    "_RANDOM_ZOOM_OUT",
                    "_LETTERBOX",
                    "_SCALE_JITTER",
                    "_RANDOM_SHORTEST_SIZE",
                    "_RANDOM_RESIZE",
                    "_MAP_LABELS",
                    "_SANITIZE_BOXES",
                )
            }
            | {
                f"PST_OP{name}": getattr(policies, name)
                for name in (
                    "_IDENTITY",
                    "_RANDOM_APPLY",
                    "_RANDOM_CHOICE",
                    "_INVERT",
                    "_POSTERIZE",
                    "_SOLARIZE",
                    "_AUTOCONTRAST",
                    "_EQUALIZE",
                    "_SHARPNESS",
                    "_GAUSSIAN_BLUR",
                    "_AFFINE",
                    "_PERSPECTIVE",
                    "_ELASTIC",
                    "_ERASING",
                    "_RAND_AUGMENT",
                    "_TRIVIAL_AUGMENT",
                    "_AUTO_AUGMENT",
                    "_AUGMIX",
                )
            },
        ),
        ("pst_auto_policy", {f"PST_AUTO_POLICY_{name.upper()}": number for name, number in policies._POLICIES.items()}),
        ("pst_mix_kind", {"PST_MIX_MIXUP": policies.mixes(policies.MixUp())[0][0],
                          "PST_MIX_CUTMIX": policies.mixes(policies.CutMix())[0][0],
                          "PST_MIX_MOSAIC": policies.mixes(policies.Mosaic())[0][0]}),
    ],
)
def test_numbers_are_those_of_the_header(enum, numbers):
    assert numbers == numbers_of(enum)


def test_forms_have_the_headers_numbers():
    numbers = numbers_of("pst_form")
    assert {form: image.form_number(form) for form in image.FORMS} == {
        form: numbers[f"PST_FORM_{form.upper().replace('-', '_')}"] for form in image.FORMS
    }
