"""The reports of packing, indexing and verifying, and the types of their callbacks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from operator import and_
from typing import Any, NamedTuple

from ..base.public import public
from ..errors import StateError

__all__ = ["IndexReport", "PackReport", "VerifyReport"]

Progress = Callable[[int, int, int, int], object]
BadSample = Callable[[str, dict[str, Any]], object]


class PackReport(NamedTuple):
    """The result of :func:`pack`. Sizes are in bytes. ``bad`` has a dict for each sample that was left out.

    ``n_skipped`` counts files that ``allow_unreadable`` left out, ``n_resumed`` samples that were stored before. ``n_pli_jpeg``
    counts JPEGs that became PLI (bytes before and after: ``jpeg_nbytes``, ``pli_jpeg_nbytes``), ``n_kept_jpeg`` JPEGs that stay as
    they are; ``kept_jpeg`` has the reasons for the first 1000. ``n_restored_jpeg`` counts JPEGs that were restored from "pli-jpeg"
    (bytes before: ``restored_pli_jpeg_nbytes``, after: ``restored_jpeg_nbytes``). ``n_not_original`` counts images that were
    requested as "original" but stay as they are, because the data set has only their pixels. ``notices`` lists parts of the source
    that the data set does not have, as :attr:`Dataset.notices`. ``n_resized`` counts samples whose images were made smaller
    (``resize``). ``dropped`` has a dict for each annotation that ``bad_annotations="drop"`` left out: ``name`` (of the sample;
    None: of no sample in the source) and ``text``. Only :func:`repack` sets these: ``n_changed`` samples were written in other
    forms; ``n_kept_files`` of ``n_files`` shards stay as they are; ``waits``: old shards remain because somebody reads the old
    state, and the next :func:`repack` or append removes them. For parts: ``n_shards`` counts the planned shards of this part (of
    all, with ``prepare``), and ``n_shards_before`` those of them that were packed before.
    """

    n_samples: int
    n_bad: int
    n_resumed: int
    n_skipped: int
    nbytes_in: int
    nbytes_out: int
    n_pli_jpeg: int
    jpeg_nbytes: int
    pli_jpeg_nbytes: int
    n_kept_jpeg: int
    kept_jpeg_nbytes: int
    n_restored_jpeg: int
    restored_pli_jpeg_nbytes: int
    restored_jpeg_nbytes: int
    n_not_original: int
    notices: list[dict[str, Any]]
    bad: list[dict[str, Any]]
    kept_jpeg: list[dict[str, Any]]
    n_changed: int
    n_kept_files: int
    n_files: int
    waits: bool
    n_resized: int = 0
    dropped: Sequence[dict[str, Any]] = ()
    n_shards: int = 0
    n_shards_before: int = 0


class IndexReport(NamedTuple):
    """The result of :func:`index`: the number of files and samples, and the path and bytes of the index.

    ``was_made``: no index fitted, so one was made. ``was_wrong``: ``check`` found other samples, and the index was made again.
    ``path`` is None for a plain folder. With ``part``, only two numbers are set: ``n_files`` of the part, and ``n_files_before``,
    those that were done before.
    """

    was_made: bool
    was_wrong: bool
    n_samples: int
    n_files: int
    n_files_before: int
    path: str | None
    nbytes: int


class VerifyReport(NamedTuple):
    """The result of :func:`verify`: ``findings`` has a dict for each finding.

    With ``part``: ``n_samples_total`` counts the samples of all parts. ``identity`` must be the same for all parts. Bit i of
    ``unreached_items`` says that no item of field i in this part is as large as the largest one that the index states.
    ``unreached_pixels`` says the same for the bytes of decoded images. If all parts have the same bit set, the index is wrong.
    """

    ok: bool
    n_samples: int
    n_items: int
    n_bad: int
    nbytes: int
    findings: list[dict[str, Any]]
    n_samples_total: int = 0
    identity: bytes = b""
    unreached_items: int = 0
    unreached_pixels: int = 0


def joined(reports: Sequence[VerifyReport], field_names: Callable[[], Sequence[str]]) -> VerifyReport:
    """Joins the reports of all parts of a data set to the report that a single process would make.

    field_names: returns the names of the data set's fields. It is called only if the index states sizes that no part has.

    Raises StateError if the parts saw different data sets, or if samples are missing from all parts.
    """
    total = max(report.n_samples_total for report in reports)
    n_samples = sum(report.n_samples for report in reports)
    findings = [finding for report in reports for finding in report.findings]
    if len({report.identity for report in reports if any(report.identity)}) > 1:
        raise StateError("the data set changed between the parts, or the machines see different ones under its path")
    unreached = reduce(and_, (report.unreached_items for report in reports))
    unreached |= reduce(and_, (report.unreached_pixels for report in reports))
    if not findings and unreached:
        names = field_names()
        if unreached >> len(names):
            raise StateError(f"the parts tell of more fields than the {len(names)} that the data set has now")
        findings = [_unreached(name) for i, name in enumerate(names) if unreached >> i & 1]
    elif not findings and n_samples != total:
        raise StateError(f"the parts have {n_samples} samples, the data set has {total}")
    n_items, nbytes = sum(report.n_items for report in reports), sum(report.nbytes for report in reports)
    return VerifyReport(not findings, n_samples, n_items, len(findings), nbytes, findings, total, reports[0].identity)


def _unreached(name: str) -> dict[str, Any]:
    text = f"the index states another size of the largest item of field {name} than its items have"
    return {"message": text, "status": "PST_ERROR_CORRUPT", "text": text, "name": ""}


def collector(found: list[dict[str, Any]], also: BadSample | None, most: int | None = None) -> BadSample:
    def collect(name: str, what: dict[str, Any]) -> object:
        if most is None or len(found) < most:
            found.append({**what, "name": name})
        return also(name, what) if also is not None else None

    return collect


public(__name__, "penstock.writer")
