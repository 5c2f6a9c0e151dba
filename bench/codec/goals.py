"""goals.py: compares the figures with PLI's goals: met, not met, or not measured.

Speeds over several groups are all pixels over all time; ratios compare figures of one process. A goal is "not measured" if this
machine lacks its CPU level or the run lacks its groups.
"""

from __future__ import annotations

NOT_MEASURED = "not measured"


def verdict(is_met: bool) -> str:
    return "met" if is_met else "NOT MET"


def bytes_rows(figures, groups, tier: str, peer: str, most: float, most_group: float | None) -> list[tuple]:
    target = f"<= {most:.2f} x {peer} together" + (f", no group above {most_group:.2f}" if most_group else "")
    own, other = figures.together(tier, groups), figures.together(peer, groups)
    if not own or not other:
        return [(f"{tier}: bytes", target, "-", NOT_MEASURED)]
    ratio = own["nbytes"] / other["nbytes"]
    by_group = {g: figures.row(tier, g)["nbytes"] / figures.row(peer, g)["nbytes"] for g in groups}
    worst = max(by_group, key=by_group.get)
    is_met = ratio <= most and (most_group is None or by_group[worst] <= most_group)
    return [(f"{tier}: bytes", target, f"{ratio:.4f}; largest {by_group[worst]:.4f} ({worst})", verdict(is_met))]


def undisturbed(own: dict, other: dict) -> str:
    """Prints the speed by each image's shortest time, which other work on the cores affects least. It does not count for the
    verdict.
    """
    speed, peer = own.get("decode_undisturbed"), other.get("decode_undisturbed")
    return f"; undisturbed {speed / peer:.2f} ({speed:.0f} MB/s)" if speed and peer else ""


def speed_row(figures, groups, tier: str, peer: str, least: float, level: str) -> tuple:
    name, target = f"{tier}: decode, {level}", f">= {least:g} x {peer}"
    own, other = figures.together(tier, groups, level), figures.together(peer, groups, level)
    if level not in figures.levels:
        return (name, target, "-", f"{NOT_MEASURED}: no {level} in this run")
    if not own or not other or not own.get("decode") or not other.get("decode"):
        return (name, target, "-", NOT_MEASURED)
    ratio = own["decode"] / other["decode"]
    by_group = {g: figures.row(tier, g, level)["decode"] / figures.row(peer, g, level)["decode"] for g in groups}
    worst = min(by_group, key=by_group.get)
    shown = f"{ratio:.2f} ({own['decode']:.0f} MB/s); slowest {by_group[worst]:.2f} ({worst})" + undisturbed(own, other)
    return (name, target, shown, verdict(ratio >= least))


def encode_row(figures, groups, tier: str) -> tuple:
    own = figures.together(tier, groups)
    if not own or not own.get("encode"):
        return (f"{tier}: encode, default effort", ">= 100 MB/s", "-", NOT_MEASURED)
    return (f"{tier}: encode, default effort", ">= 100 MB/s", f"{own['encode']:.0f} MB/s", verdict(own["encode"] >= 100))


def flat_rows(figures, group: str, tier: str) -> list[tuple]:
    """Compares the goals of flat images (label maps, instance maps, screenshots), which must be small and fast."""
    own, peers = figures.row(tier, group), [figures.row(p, group) for p in ("png9", "zstd3_raw")]
    bytes_target, speed_target = "<= min(png9, zstd3_raw)", ">= 5000 MB/s"
    if not own or any(p is None for p in peers):
        return [(f"{group}, {tier}: bytes", bytes_target, "-", NOT_MEASURED), (f"{group}: decode", speed_target, "-", NOT_MEASURED)]
    least = min(p["nbytes"] for p in peers)
    rows = [(f"{group}, {tier}: bytes", bytes_target, f"{own['nbytes'] / least:.4f} ({own['nbytes']} of {least})",
             verdict(own["nbytes"] <= least))]
    speed = own.get("decode")
    quiet = f"; undisturbed {own['decode_undisturbed']:.0f}" if own.get("decode_undisturbed") else ""
    rows.append((f"{group}, {tier}: decode", speed_target, f"{speed:.0f} MB/s{quiet}" if speed else "-",
                 verdict(speed >= 5000) if speed else NOT_MEASURED))
    return rows


def size_row(figures, group: str, tier: str, most: float) -> tuple:
    own, peer = figures.row(tier, group), figures.row("png6", group)
    target = f"<= {most:.2f} x png6"
    if not own or not peer:
        return (f"{group}, {tier}: bytes", target, "-", NOT_MEASURED)
    ratio = own["nbytes"] / peer["nbytes"]
    return (f"{group}, {tier}: bytes", target, f"{ratio:.4f}", verdict(ratio <= most))


def crop_rows(crops: list[dict]) -> list[tuple]:
    """Checks crops. If a share of the units is decoded, a speed-up of 1 / share is possible; the measured one must be within 15 %
    of that.

    The loader counts units over its own draws, and geometry over as many draws of the same rule. Both are means of random draws, so
    they must be equal within 3 %. Through the loader RandomResizedCrop also resizes, but the whole images that it is compared with
    are not resized, so its speed-up is lower by the time of resizing.
    """
    rows = []
    for crop in crops:
        name, share = f"{crop['what']}, {crop['tier']}", crop["units_touched"] / crop["units_whole"]
        least = 0.85 / share
        counted = f"{crop['units']:.1f} of {crop['units_whole']:.1f} units decoded, {crop['units_touched']:.1f} touched"
        rows.append((f"{name}: only units touched", "units decoded by the loader = units touched", counted,
                     verdict(abs(crop["units"] / crop["units_touched"] - 1) <= 0.03)))
        rows += [(f"{name}: speed-up over whole, {what}", f">= {least:.2f} = 0.85 / share of units", f"{crop[key]:.2f}",
                  verdict(crop[key] >= least)) for key, what in (("speedup", "decode"), ("speedup_loader", "through the loader"))]
    return rows or [("crops", "units touched; within 15 % of their share", "-", NOT_MEASURED)]


def all_rows(merged: dict, figures, photographs) -> list[tuple]:
    groups = list(photographs)
    rows = bytes_rows(figures, groups, "pli_small", "webp_m4", 1.00, 1.05)
    rows += [speed_row(figures, groups, "pli_small", *goal)
             for goal in (("webp_m4", 12, "avx512"), ("png6", 15, "avx512"), ("png6", 8, "avx2"), ("png6", 2, "c"))]
    rows += bytes_rows(figures, groups, "pli_dense", "webp_m4", 0.94, None)
    rows += [speed_row(figures, groups, "pli_dense", *goal)
             for goal in (("webp_m4", 6, "avx512"), ("webp_m4", 2.5, "avx2"))]
    rows += bytes_rows(figures, groups, "pli_fast", "png6", 0.95, 1.00)
    rows += [speed_row(figures, groups, "pli_fast", *goal) for goal in (("png6", 40, "avx512"), ("png6", 20, "avx2"))]
    rows += [encode_row(figures, groups, tier) for tier in ("pli_fast", "pli_small", "pli_dense")]
    for group in ("labels8", "inst16", "screens"):
        rows += flat_rows(figures, group, "pli_small")
    rows += [size_row(figures, "landsat16", "pli_small", 0.85), size_row(figures, "em_gray8", "pli_small", 1.00)]
    return rows + crop_rows(merged.get("crops", {}).get("results", []))


def table(merged: dict, figures, photographs) -> str:
    out = ["| goal | target | measured | |", "|---|---|---|---|"]
    return "\n".join(out + [f"| {' | '.join(row)} |" for row in all_rows(merged, figures, photographs)])
