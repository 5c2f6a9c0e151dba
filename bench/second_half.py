"""Images per second of all work after decoding (crop, resize, flip, normalise, store): builds of bench_augment in turns, and other
libraries that do the same work.

    python bench/second_half.py BENCH_AUGMENT [--before BENCH_AUGMENT] [--pairs 7] [--peers] [--json FILE]

A sample is RandomResizedCrop(224) of an image in memory, a flip of each second one, and Normalize if floats are made: u8
HWC, float16 and float32 CHW, on one core. `--before` names a build to compare with; the builds run in turns, and the
ratio is the median over pairs of runs. Peers (other libraries) use the same sizes and the same number of crops, on whole images in
memory. Libraries that are not installed are left out. Pillow has no float output, so numpy normalises after it.
"""

import argparse
import contextlib
import json
import os
import random
import statistics
import subprocess
import sys
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")
SIZES = ((500, 375), (2048, 1365))
MEAN, STD = 0.45, 0.225


def run_build(path, seconds):
    lines = subprocess.run([path, "--crops", str(seconds)], check=True, capture_output=True, text=True).stdout.splitlines()
    return {tuple(line.split()[:3]): (float(line.split()[4]), line.split()[5]) for line in lines}


def compare(args):
    builds = [("after", args.bench), ("before", args.before)] if args.before else [("after", args.bench)]
    runs = {name: [] for name, _ in builds}
    for pair in range(args.pairs):
        for name, path in builds if pair % 2 else builds[::-1]:
            runs[name].append(run_build(path, args.seconds))
    rows = []
    for key in runs["after"][0]:
        after = [run[key][0] for run in runs["after"]]
        row = {"source": key[0], "dtype": key[1], "level": key[2], "after": round(1e6 / statistics.median(after))}
        if args.before:
            before = [run[key][0] for run in runs["before"]]
            if runs["before"][0][key][1] != runs["after"][0][key][1]:
                raise SystemExit(f"{key}: the builds make different bytes")
            row["before"] = round(1e6 / statistics.median(before))
            row["ratio"] = round(statistics.median(b / a for a, b in zip(after, before, strict=True)), 2)
        rows.append(row)
    return rows


def crops(width, height, n=64):
    """Draws the crops of RandomResizedCrop: (left, top, width, height, flip)."""
    draw, found = random.Random(1), []
    while len(found) < n:
        area, ratio = width * height * draw.uniform(0.08, 1), draw.uniform(3 / 4, 4 / 3)
        w, h = round((area * ratio) ** 0.5), round((area / ratio) ** 0.5)
        if w <= width and h <= height:
            found.append((draw.randint(0, width - w), draw.randint(0, height - h), w, h, draw.random() < 0.5))
    return found


def peer_pillow(image):
    import numpy as np
    from PIL import Image

    source = Image.fromarray(image)

    def one(box, dtype):
        x, y, w, h, flip = box
        out = source.resize((224, 224), Image.Resampling.BILINEAR, (x, y, x + w, y + h))
        out = np.asarray(out.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if flip else out)
        return out if dtype == "u8" else np.ascontiguousarray(
            ((out / np.float32(255) - np.float32(MEAN)) / np.float32(STD)).transpose(2, 0, 1), np.dtype(dtype))

    return one


def peer_opencv(image):
    import cv2
    import numpy as np

    cv2.setNumThreads(1)

    def one(box, dtype):
        x, y, w, h, flip = box
        shrinks = w > 224 and h > 224
        out = cv2.resize(image[y:y + h, x:x + w], (224, 224), interpolation=cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR)
        out = cv2.flip(out, 1) if flip else out
        if dtype == "u8":
            return out
        floats = cv2.dnn.blobFromImage(out, 1 / 255 / STD, mean=(255 * MEAN,) * 3)[0]
        return floats if dtype == "float32" else floats.astype(np.float16)

    return one


def peer_torchvision(image):
    import torch
    from torchvision.transforms.v2 import functional as F

    torch.set_num_threads(1)
    source = torch.from_numpy(image).permute(2, 0, 1)

    def one(box, dtype):
        x, y, w, h, flip = box
        out = F.resized_crop(source, y, x, h, w, [224, 224], antialias=True)
        out = F.horizontal_flip(out) if flip else out
        if dtype == "u8":
            return out
        floats = F.normalize(F.to_dtype(out, torch.float32, scale=True), [MEAN] * 3, [STD] * 3)
        return floats if dtype == "float32" else floats.half()

    return one


def pillow_name():
    """Returns Pillow's name. Pillow-SIMD has the same module name, and only its version tells it apart."""
    try:
        import PIL
    except ImportError:
        return "Pillow"
    return "Pillow-SIMD" if ".post" in PIL.__version__ else "Pillow"


PEERS = {pillow_name(): peer_pillow, "OpenCV": peer_opencv, "torchvision v2": peer_torchvision}


def measure_call(call, seconds):
    rates = []
    for _ in range(5):
        n, start = 0, time.thread_time()
        while time.thread_time() - start < seconds / 5:
            call()
            n += 64
        rates.append(n / (time.thread_time() - start))
    return round(statistics.median(rates))


def measure_dali(image, dtype, seconds):
    """Returns the images per second of DALI: one thread, batches of 64, images that are in memory."""
    from nvidia.dali import fn, pipeline_def, types

    @pipeline_def(batch_size=64, num_threads=1, device_id=None, prefetch_queue_depth=1)
    def pipe():
        pixels = fn.external_source(source=lambda: [image] * 64, batch=True, no_copy=True)
        out = fn.random_resized_crop(pixels, size=(224, 224), antialias=True)
        if dtype == "u8":
            return fn.flip(out, horizontal=fn.random.coin_flip())
        kind = types.FLOAT if dtype == "float32" else types.FLOAT16
        return fn.crop_mirror_normalize(out, dtype=kind, mean=[255 * MEAN] * 3, std=[255 * STD] * 3,
                                        mirror=fn.random.coin_flip())

    made = pipe()
    made.build()
    made.run()
    rates = []
    for _ in range(5):
        n, start = 0, time.process_time()
        while time.process_time() - start < seconds / 5:
            made.run()
            n += 64
        rates.append(n / (time.process_time() - start))
    return round(statistics.median(rates))


def peers(seconds):
    import numpy as np

    rows = []
    for width, height in SIZES:
        image = np.random.default_rng(1).integers(0, 256, (height, width, 3), np.uint8)
        boxes = crops(width, height)
        for dtype in ("u8", "float16", "float32"):
            for name, make in PEERS.items():
                try:
                    one = make(image)
                except ImportError:
                    continue
                rate = measure_call(lambda one=one, dtype=dtype, boxes=boxes: [one(box, dtype) for box in boxes], seconds)
                rows.append({"source": f"{width}x{height}", "dtype": dtype, "peer": name, "rate": rate})
            with contextlib.suppress(ImportError):
                rows.append({"source": f"{width}x{height}", "dtype": dtype, "peer": "DALI",
                             "rate": measure_dali(image, dtype, seconds)})
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bench", nargs="?", help="the program bench_augment of this build")
    parser.add_argument("--before", help="the program bench_augment of another build")
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.1, help="of each line of each run")
    parser.add_argument("--peers", action="store_true", help="measure the libraries that are installed")
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_args()
    found = {"builds": compare(args) if args.bench else [], "peers": peers(1.0) if args.peers else []}
    for row in found["builds"] + found["peers"]:
        print(*(f"{name}={value}" for name, value in row.items()))
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump({"benchmark": "second_half", "machine": os.uname().machine, **found}, file, indent=1)
            file.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
