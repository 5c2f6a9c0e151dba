"""The part of `penstock pack` that runs in Python: annotations in other programs' formats (--coco to --roboflow) and the user's own
data sets (--from). The C program has checked the options before, also that each came with the option it belongs to."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
from collections.abc import Sequence
from typing import Any

from ..data.pack import pack
from ..data.pack_report import PackReport, Progress
from ..data.sources.named import made_by
from ..data.sources.objects import Storing, pack_object
from ..errors import PenstockError
from .options import members_of, words_of
from .output import FAILED, INTERRUPTED, OK, Meter, only_results, parts, shown, size


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="penstock pack")
    parser.add_argument("operands", nargs="+")
    parser.add_argument("--from", dest="maker")
    parser.add_argument("--coco")
    parser.add_argument("--voc", action="store_true")
    parser.add_argument("--citypersons", action="store_true")
    for kind in ("yolo", "cvat", "labelme", "roboflow"):
        parser.add_argument(f"--{kind}", action="store_true")
    parser.add_argument("--colours")
    parser.add_argument("--join")
    parser.add_argument("--croissant", action="store_true")
    parser.add_argument("--record-set")
    parser.add_argument("--members")
    parser.add_argument("--split")
    parser.add_argument("--paint")
    parser.add_argument("--bad-annotations", default="stop", choices=("stop", "drop"))
    parser.add_argument("--form", "-f")
    parser.add_argument("--mask-form")
    parser.add_argument("--tier", "-t")
    parser.add_argument("--effort", "-e", type=int)
    parser.add_argument("--max-error", type=int, default=0)
    parser.add_argument("--made-for")
    parser.add_argument("--workers", "-w", type=int)
    parser.add_argument("--resume", "-r", action="store_true")
    parser.add_argument("--on-error", default="stop", choices=("stop", "skip"))
    parser.add_argument("--shard-size", "-s", default="1GiB")
    parser.add_argument("--commit-size", default="256MiB")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quiet", action="store_true")
    return parser


_NOTICES = {
    "background": "{count} images have no boxes and are stored as backgrounds ({name}), the first {first}",
    "mask_alone": "{count} masks have no image and are left out, the first {first}",
    "label_alone": "{count} label files have no image and are left out, the first {first}",
    "left_out_form": "{count} images are of a form that is not read and left out, the first {first}: convert them to PNG or JPEG",
    "no_split": "the folder of the split {first} is not there: it is left out",
    "polygons": "{count} label files have polygons, of which the boxes alone are stored, the first {first}: --paint mask,instances "
                "draws them",
    "attributes": "{count} attributes are left out, the first {first}",
    "names_differ": "{count} JSON files have another name for a class than an earlier one, which counts, the first {first}",
    "other_json": "{count} JSON files are none of Labelme and left out, the first {first}",
}


def _notice(notice: dict[str, Any]) -> str:
    count, first = notice["count"], shown(notice["first"])
    if notice["kind"] == "counted_from_0":
        return (
            f"boxes of {count} file{'s' * (count != 1)} begin at pixel 0, the first {first}: VOC counts from 1, so a file that "
            "counts from 0 has all its boxes moved by one pixel up and to the left"
        )
    if notice["kind"] in _NOTICES:
        return _NOTICES[notice["kind"]].format(count=count, first=first, name=shown(notice["name"]))
    return f"{count} images are not annotated and left out, the first {first}"


def _as_json(report: PackReport, destination: str) -> dict[str, Any]:
    return {
        "notices": report.notices,
        "bad": [{"name": bad["name"], "error": parts(bad)} for bad in report.bad],
        "destination": destination,
        "samples": report.n_samples,
        "resumed": report.n_resumed,
        "skipped": report.n_bad,
        "unreadable": 0,
        "bytes_in": report.nbytes_in,
        "bytes_out": report.nbytes_out,
        "pli_jpeg": {"items": report.n_pli_jpeg, "jpeg_bytes": report.jpeg_nbytes, "bytes": report.pli_jpeg_nbytes},
        "kept_jpeg": {"items": report.n_kept_jpeg, "bytes": report.kept_jpeg_nbytes, "images": report.kept_jpeg},
        "dropped": list(report.dropped),
    }


def _as_text(report: PackReport, destination: str) -> list[str]:
    there = f", {report.n_resumed} of them there already" if report.n_resumed else ""
    lines = [
        f"{shown(destination)}: {report.n_samples} sample{'s' * (report.n_samples != 1)}{there}, {size(report.nbytes_in)} read, "
        f"{size(report.nbytes_out)} written{f', {report.n_bad} BAD ones skipped' if report.n_bad else ''}"
    ]
    if report.n_pli_jpeg:
        saved = 100 - 100 * report.pli_jpeg_nbytes / report.jpeg_nbytes
        lines.append(
            f"  {report.n_pli_jpeg} JPEG kept as PLI, with the same pixels and the files restorable: "
            f"{size(report.jpeg_nbytes)} -> {size(report.pli_jpeg_nbytes)}, {saved:.1f} % saved"
        )
    if report.n_kept_jpeg:
        first = report.kept_jpeg[0]
        lines.append(f"  {report.n_kept_jpeg} JPEG stay as they are, the first {shown(first['name'])}: {first['text']}")
    if report.dropped:
        lines.append(f"  {len(report.dropped)} annotations DROPPED, the first: {shown(report.dropped[0]['text'])}")
    return lines


def _packed(given: argparse.Namespace, progress: Progress) -> PackReport:
    common: dict[str, Any] = {
        "resume": given.resume, "shard_size": given.shard_size, "commit_size": given.commit_size, "progress": progress,
    }  # fmt: skip
    if given.maker is not None:
        made = made_by(given.maker, given.source)
        storing = Storing(words_of(given.form), words_of(given.mask_form), given.tier, given.effort or None, given.max_error,
                          given.made_for)  # fmt: skip
        return pack_object(
            made.dataset, given.destination, made.schema, storing, make=made.again, split=given.split,
            num_workers=given.workers, skip=given.on_error == "skip", **common,
        )  # fmt: skip
    return pack(
        given.source,
        given.destination,
        coco=given.coco,
        voc=given.voc,
        citypersons=given.citypersons,
        yolo=given.yolo,
        cvat=given.cvat,
        labelme=given.labelme,
        roboflow=given.roboflow,
        colours=given.colours,
        join=given.join,
        croissant=given.croissant,
        record_set=given.record_set,
        fields=members_of(given.members),
        split=given.split,
        paint=words_of(given.paint) or (),
        bad_annotations="drop" if given.bad_annotations == "drop" else "raise",
        forms=words_of(given.form),
        mask_forms=words_of(given.mask_form),
        tier=given.tier,
        effort=given.effort or None,
        max_error=given.max_error,
        made_for=given.made_for,
        num_workers=given.workers or None,
        on_error="skip" if given.on_error == "skip" else "raise",
        **common,
    )


def pack_verb(arguments: Sequence[str]) -> int:
    given = _parser().parse_intermixed_args(arguments)
    given.destination = given.operands[-1]
    given.source = given.operands[0] if len(given.operands) > 1 else None
    meter = Meter(given.quiet)

    def progress(done: int, total: int, bytes_in: int, bytes_out: int) -> None:
        meter.show(f"pack: {done} of {total} samples, {size(bytes_in)} read, {size(bytes_out)} written")

    try:
        with only_results() if given.json else contextlib.nullcontext():
            report = _packed(given, progress)
    except (PenstockError, KeyboardInterrupt) as error:
        meter.end()
        return _fail(given, error)
    meter.end()
    for notice in report.notices if not (given.json or given.quiet) else ():
        print(f"penstock: {given.source or given.maker}: {_notice(notice)}", file=sys.stderr)
    for bad in report.bad:
        print(f"penstock: pack: {shown(bad['name'])}:", "\n".join(map(shown, bad["message"].splitlines())), file=sys.stderr)
    if given.json:
        print(json.dumps(_as_json(report, given.destination)))
    elif not given.quiet:
        print("\n".join(_as_text(report, given.destination)))
    return FAILED if report.n_bad else OK


def _fail(given: argparse.Namespace, error: BaseException) -> int:
    if given.json and isinstance(error, PenstockError):
        print(json.dumps({"error": parts(error)}))
    if isinstance(error, PenstockError):
        print("penstock: pack:", "\n".join(map(shown, str(error).splitlines())), file=sys.stderr)
    if not given.quiet and os.path.exists(os.path.join(given.destination, "journal.pst")):
        print("what was packed so far is kept; go on with the same command and --resume", file=sys.stderr)
    return FAILED if isinstance(error, PenstockError) else INTERRUPTED
