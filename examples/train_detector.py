"""A detector without anchors, like FCOS, trained with Penstock and with torch's DataLoader.

    python examples/train_detector.py [--made 256] [--loader penstock torch] [--seeds 1 2 3] [--same]
    python examples/train_detector.py --data FOLDER --size 256 --width 48 --epochs 60

Without --data the pictures are generated: discs, squares and triangles on a background of noise, each with a dark dot in it. So the
boxes, classes and the dot's position (a keypoint) are known exactly. FOLDER holds images/*.jpg beside annotations/*.xml in the
format of Pascal VOC; it is packed first. A fifth of the pictures is used for testing.

The network is a small FCOS (Tian et al., ICCV 2019). It has three levels of a feature pyramid. At each place of a level it predicts
the classes, the distances to the four sides, the centre-ness, and the offset to the keypoint. Results are the average precision at
an intersection over union of 0.5, averaged over classes, and the mean distance of keypoints in pixels.

--loader torch needs torchvision (transforms.v2, with boxes and keypoints). --same trains with both loaders without augmentation,
with torch in Penstock's order, and ends with status 1 if their losses are not equal.
"""

from __future__ import annotations

import argparse
import io
import sys
import tempfile
import xml.etree.ElementTree
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits, interpolate

import penstock as ps
from penstock import transforms as T
from training import Run, compare, need_steps, normalized, order_of, peer_loader, report, same_losses, train

STRIDES, REACHES = (4, 8, 16), ((0.0, 24.0), (24.0, 48.0), (48.0, 1e9))  # per level: pixels per place; range of box sides
RADIUS = 1.5  # places within this radius of a box's centre learn the box; in strides
KINDS = ("disc", "square", "triangle")
PER_BOX = ("labels", "points")
SCHEMA = {"image": ps.Image(), "boxes": ps.Boxes(), "labels": ps.Array("int64"), "points": ps.Keypoints()}


# Data: generated pictures, and Pascal VOC's files.

def draw(rng: np.random.Generator, size: int) -> tuple[np.ndarray, list[list[float]], list[int], list[list[float]]]:
    """Generates a picture. Returns it with its boxes (x0, y0, x1, y1), their classes, and their keypoints (x, y, visibility)."""
    y, x = np.mgrid[:size, :size] + 0.5
    picture = rng.integers(90, 166, (size // 8, size // 8, 3)).repeat(8, 0).repeat(8, 1) + rng.normal(0, 6, (size, size, 3))
    boxes: list[list[float]] = []
    labels, points = [], []
    for _ in range(20):
        half = int(rng.integers(size // 12, size // 5))
        cx, cy = rng.integers(half, size - half + 1, 2)
        box = [float(cx - half), float(cy - half), float(cx + half), float(cy + half)]
        if len(boxes) == 4 or any(min(box[2], b[2]) > max(box[0], b[0]) and min(box[3], b[3]) > max(box[1], b[1]) for b in boxes):
            continue  # shapes must not touch each other
        kind = int(rng.integers(len(KINDS)))
        inside = ((x - cx) ** 2 + (y - cy) ** 2 <= half**2, (abs(x - cx) <= half) & (abs(y - cy) <= half),
                  (abs(x - cx) * 2 <= y - cy + half) & (abs(y - cy) <= half))[kind]
        picture[inside] = rng.choice([(230, 60, 50), (60, 210, 80), (70, 90, 240), (240, 220, 60)]) + rng.normal(0, 6, 3)
        px, py = cx + rng.integers(-half // 4, half // 4 + 1), cy + rng.integers(0, half // 2 + 1)
        picture[(x - px) ** 2 + (y - py) ** 2 <= 6] = 10
        boxes.append(box)
        labels.append(kind)
        points.append([float(px), float(py), 1.0])
    return picture.clip(0, 255).astype(np.uint8), boxes, labels, points


def make_shapes(path: Path, n: int, size: int) -> ps.Dataset:
    """Generates pictures and packs them as PNG."""
    rng = np.random.default_rng(1)
    with ps.Writer(path, SCHEMA) as writer:
        for i in range(n):
            (picture, boxes, labels, points), file = draw(rng, size), io.BytesIO()
            Image.fromarray(picture).save(file, "PNG")
            kinds = np.array(labels, np.int64)
            writer.write({"image": file.getvalue(), "boxes": boxes, "labels": kinds, "points": points}, name=f"{i:05}")
    return ps.Dataset(path)


def write_voc(folder: Path, path: Path) -> tuple[ps.Dataset, list[str]]:
    """Packs Pascal VOC's files. VOC counts pixels from 1, and the last pixel belongs to the box. The centre of a box becomes its
    keypoint."""
    files = [(file, xml.etree.ElementTree.parse(file).getroot()) for file in sorted((folder / "annotations").glob("*.xml"))]
    names = sorted({found.findtext("name", "") for _, root in files for found in root.iter("object")})
    with ps.Writer(path, SCHEMA) as writer:
        for file, root in files:
            image = folder / "images" / root.findtext("filename", "")
            if not image.is_file():
                print(f"{file.name}: no file {image.name}", file=sys.stderr)
                continue
            corners = [[float(found.findtext(f"bndbox/{side}", "")) for side in ("xmin", "ymin", "xmax", "ymax")]
                       for found in root.iter("object")]
            boxes = np.array(corners, np.float32).reshape(-1, 4) - np.float32([1, 1, 0, 0])
            probe = ps.probe(image.read_bytes())
            boxes = boxes.clip(0, [probe.width, probe.height] * 2).astype(np.float32)
            labels = np.array([names.index(found.findtext("name", "")) for found in root.iter("object")], np.int64)
            middle = np.concatenate([(boxes[:, :2] + boxes[:, 2:]) / 2, np.ones((len(boxes), 1))], 1)
            writer.write({"image": image.read_bytes(), "boxes": boxes, "labels": labels, "points": middle.astype(np.float32)},
                         name=image.name)
    return ps.Dataset(path), names


# Both loaders. A batch is a dict: "image" (N, 3, size, size), and lists of N tensors "boxes", "labels" and "points".

def chain(size: int, augment: bool) -> list[T.Transform]:
    """Returns the operations. Without augmentation, pixels stay uint8."""
    if not augment:
        return [T.CenterCrop(size)]
    normalize = T.Normalize(ps.IMAGENET_MEAN, ps.IMAGENET_STD)
    larger = size + size // 8
    return [T.Resize((larger, larger)), T.RandomCrop(size), T.RandomHorizontalFlip(), T.ColorJitter(0.3, 0.3, 0.3), normalize]


def penstock_batches(dataset: ps.Dataset, args: argparse.Namespace, augment: bool, seed: int) -> ps.Loader:
    return ps.Loader(dataset, args.batch, shuffle=True, seed=seed, transforms=chain(args.size, augment),
                     annotations=ps.Annotations(per_box=PER_BOX),
                     drop_last=True, num_workers=args.workers, output="torch")


class Pictures(torch.utils.data.Dataset):
    """The data set for comparison: PIL decodes, and torchvision moves boxes and keypoints."""

    def __init__(self, dataset: ps.Dataset, size: int, augment: bool):
        from torchvision.transforms import v2

        self.dataset, larger = dataset, size + size // 8
        truth = ps.Loader(dataset, 1, fields=["boxes", *PER_BOX], num_workers=0, output="torch")
        self.truth = [{name: batch[name][0] for name in ("boxes", *PER_BOX)} for batch in truth]
        self.transforms = v2.Compose([
            v2.Resize((larger, larger), antialias=True), v2.RandomCrop(size), v2.RandomHorizontalFlip(),
            v2.ColorJitter(0.3, 0.3, 0.3), v2.ToDtype(torch.float32, scale=True),
            v2.Normalize(ps.IMAGENET_MEAN, ps.IMAGENET_STD)]) if augment else v2.CenterCrop(size)

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, i: int) -> dict[str, Any]:
        from torchvision import tv_tensors

        truth = self.truth[i]
        with Image.open(io.BytesIO(self.dataset.read(i, "image"))) as file:
            pixels = torch.from_numpy(np.array(file.convert("RGB"))).permute(2, 0, 1)
        canvas = (pixels.shape[1], pixels.shape[2])
        boxes = tv_tensors.BoundingBoxes(truth["boxes"].reshape(-1, 4), format="XYXY", canvas_size=canvas)
        points = tv_tensors.KeyPoints(truth["points"].reshape(-1, 3)[:, :2], canvas_size=canvas)
        image, boxes, points = self.transforms(tv_tensors.Image(pixels), boxes, points)
        sides, size = (boxes[:, 2:] - boxes[:, :2]), torch.tensor(image.shape[:0:-1])
        keep = sides.prod(1) >= 1  # the rule of SanitizeBoundingBoxes and of Penstock
        seen = ((points >= 0) & (points < size)).all(1, keepdim=True)
        return {"image": torch.as_tensor(image), "boxes": torch.as_tensor(boxes)[keep], "labels": truth["labels"][keep],
                "points": torch.cat([torch.as_tensor(points), seen], 1)[keep]}


def collate(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {name: torch.stack([r[name] for r in rows]) if name == "image" else [r[name] for r in rows] for name in rows[0]}


def peer_batches(dataset: ps.Dataset, args: argparse.Namespace, seed: int) -> Any:
    return peer_loader(Pictures(dataset, args.size, True), collate, args.workers, seed, batch_size=args.batch, shuffle=True,
                       drop_last=True)


# The network, and the meaning of its outputs.

def convolution(inputs: int, outputs: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU())


class Fcos(nn.Module):
    """Maps images to predictions (N, places, classes + 7) at all places of all levels, and returns the places (places, 3): x, y,
    stride."""

    def __init__(self, n_classes: int, width: int):
        super().__init__()
        self.n_classes = n_classes
        self.stem = nn.Sequential(convolution(3, width, 2), convolution(width, width, 2), convolution(width, width))
        self.down = nn.ModuleList([nn.Sequential(convolution(width << i, width << i + 1, 2),
                                                 convolution(width << i + 1, width << i + 1)) for i in range(2)])
        self.across = nn.ModuleList([nn.Conv2d(width << i, 2 * width, 1) for i in range(3)])
        tower: list[nn.Module] = []  # shared by levels with different statistics, so it normalises groups, not batches
        for _ in range(2):
            tower += [nn.Conv2d(2 * width, 2 * width, 3, padding=1, bias=False), nn.GroupNorm(8, 2 * width), nn.ReLU()]
        self.head = nn.Sequential(*tower, nn.Conv2d(2 * width, n_classes + 7, 3, padding=1))
        nn.init.constant_(self.head[-1].bias[:n_classes], -4.0)  # most places are background

    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        maps = [self.stem(images)]
        for layer in self.down:
            maps.append(layer(maps[-1]))
        pyramid = [self.across[2](maps[2])]
        for i in (1, 0):
            pyramid.insert(0, self.across[i](maps[i]) + interpolate(pyramid[0], size=maps[i].shape[2:]))
        outputs, places = [], []
        for stride, level in zip(STRIDES, pyramid, strict=True):
            outputs.append(self.head(level).flatten(2).transpose(1, 2))
            y, x = torch.meshgrid(*((torch.arange(n) + 0.5) * stride for n in level.shape[2:]), indexing="ij")
            places.append(torch.stack([x, y, torch.full_like(x, stride)], -1).flatten(0, 1))
        return torch.cat(outputs, 1), torch.cat(places)


def assign(places: torch.Tensor, boxes: torch.Tensor) -> torch.Tensor:
    """Returns for each place the number of the box that it learns, or -1: of the boxes for its level whose centre is near, the
    smallest."""
    if len(boxes) == 0:
        return torch.full((len(places),), -1)
    at, stride = places[:, None, :2], places[:, None, 2]
    sides = torch.cat([at - boxes[None, :, :2], boxes[None, :, 2:] - at], -1)
    longest = sides.max(-1).values
    reach = torch.tensor(REACHES)[torch.log2(places[:, 2] / STRIDES[0]).long()]
    middle = (at - (boxes[:, :2] + boxes[:, 2:]) / 2).abs().max(-1).values <= RADIUS * stride
    fit = (sides.min(-1).values > 0) & middle & (longest >= reach[:, :1]) & (longest < reach[:, 1:])
    area = torch.where(fit, (boxes[:, 2:] - boxes[:, :2]).prod(1), torch.inf)
    smallest = area.min(1)
    return torch.where(smallest.values < torch.inf, smallest.indices, -1)


def overlap(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the intersection over union of boxes that broadcast, and their generalised IoU (Rezatofighi et al., CVPR 2019)."""
    low, high = torch.maximum(a[..., :2], b[..., :2]), torch.minimum(a[..., 2:], b[..., 2:])
    common = (high - low).clamp(min=0).prod(-1)
    union = (a[..., 2:] - a[..., :2]).prod(-1) + (b[..., 2:] - b[..., :2]).prod(-1) - common
    hull = (torch.maximum(a[..., 2:], b[..., 2:]) - torch.minimum(a[..., :2], b[..., :2])).prod(-1)
    return common / union, common / union - (hull - union) / hull


def boxes_at(outputs: torch.Tensor, places: torch.Tensor, n_classes: int) -> torch.Tensor:
    sides = nn.functional.softplus(outputs[..., n_classes : n_classes + 4]) * places[..., 2:]
    return torch.cat([places[..., :2] - sides[..., :2], places[..., :2] + sides[..., 2:]], -1)


def loss_of(network: Fcos, batch: dict[str, Any]) -> torch.Tensor:
    """Returns the sum of focal loss for classes, generalised IoU for boxes, cross-entropy for centre-ness, and distance of
    keypoints."""
    outputs, places = network(normalized(batch["image"]))
    n_classes, n_taken, parts = network.n_classes, 0, []
    for made, boxes, labels, points in zip(outputs, batch["boxes"], batch["labels"], batch["points"], strict=True):
        boxes, points = boxes.reshape(-1, 4), points.reshape(-1, 3)
        chosen = assign(places, boxes)
        taken = chosen >= 0
        which = chosen[taken]
        truth = torch.zeros(len(places), n_classes)
        truth[taken] = nn.functional.one_hot(labels[which], n_classes).float()
        logits = made[:, :n_classes]
        away = (truth - logits.sigmoid()).abs()
        parts.append((binary_cross_entropy_with_logits(logits, truth, reduction="none") * away**2
                      * torch.where(truth > 0, 0.25, 0.75)).sum())
        n_taken += int(taken.sum())
        made, at, boxes, points = made[taken], places[taken], boxes[which], points[which]
        sides = torch.stack([at[:, 0] - boxes[:, 0], boxes[:, 2] - at[:, 0], at[:, 1] - boxes[:, 1], boxes[:, 3] - at[:, 1]], 1)
        across, along = sides[:, :2], sides[:, 2:]
        central = (across.amin(1) / across.amax(1) * along.amin(1) / along.amax(1)).sqrt()
        parts.append((1 - overlap(boxes_at(made, at, n_classes), boxes)[1]).sum())
        parts.append(binary_cross_entropy_with_logits(made[:, n_classes + 4], central, reduction="sum"))
        way = (points[:, :2] - at[:, :2]) / at[:, 2:]
        far = nn.functional.smooth_l1_loss(made[:, n_classes + 5 :], way, reduction="none").sum(1)
        parts.append((far * (points[:, 2] > 0)).sum())
    return torch.stack(parts).sum() / max(1, n_taken)


def detect(outputs: torch.Tensor, places: torch.Tensor, n_classes: int) -> list[tuple[float, int, torch.Tensor, torch.Tensor]]:
    """Returns (score, class, box, keypoint) for one image, the best first. Boxes that overlap a better one of their class are
    dropped."""
    scores = (outputs[:, :n_classes].sigmoid() * outputs[:, n_classes + 4, None].sigmoid()).sqrt()
    best = scores.flatten().topk(min(100, scores.numel()))
    boxes = boxes_at(outputs, places, n_classes)
    points = places[:, :2] + outputs[:, n_classes + 5 :] * places[:, 2:]
    found: list[tuple[float, int, torch.Tensor, torch.Tensor]] = []
    for score, index in zip(best.values.tolist(), best.indices.tolist(), strict=True):
        place, kind = divmod(index, n_classes)
        if score > 0.05 and all(kind != other or overlap(boxes[place], box)[0] < 0.5 for _, other, box, _ in found):
            found.append((score, kind, boxes[place], points[place]))
    return found


def average_precision(hits: list[tuple[float, bool]], n_truth: int) -> float:
    """Returns the area below the curve of precision over recall, with precision made monotonic (as Pascal VOC since 2010)."""
    hits.sort(key=lambda hit: -hit[0])
    right = np.cumsum([hit for _, hit in hits])
    precision = np.maximum.accumulate((right / np.arange(1, len(hits) + 1))[::-1])[::-1]
    recall = right / n_truth
    return float((np.diff(np.concatenate([[0], recall])) * precision).sum()) if hits else 0.0


@torch.no_grad()
def test(network: Fcos, dataset: ps.Dataset, args: argparse.Namespace) -> tuple[float, float]:
    """Returns the mean average precision at 0.5, and the mean distance of the keypoints of boxes that were found."""
    network.eval()
    n_truth = [0] * network.n_classes
    hits: list[list[tuple[float, bool]]] = [[] for _ in n_truth]
    distances = []
    ops = [T.Resize((args.size, args.size)), T.Normalize(ps.IMAGENET_MEAN, ps.IMAGENET_STD)]
    for batch in ps.Loader(dataset, 16, transforms=ops, annotations=ps.Annotations(per_box=PER_BOX), num_workers=args.workers,
                           output="torch"):
        outputs, places = network(batch["image"])
        for made, boxes, labels, points in zip(outputs, batch["boxes"], batch["labels"], batch["points"], strict=True):
            left = set(range(len(labels)))
            for kind in labels.tolist():
                n_truth[kind] += 1
            for score, kind, box, point in detect(made, places, network.n_classes):
                near = [(float(overlap(box, boxes[j])[0]), j) for j in left if int(labels[j]) == kind]
                share, j = max(near, default=(0.0, -1))
                hits[kind].append((score, share >= 0.5))
                if share >= 0.5:
                    left.remove(j)
                    distances.append(float((point - points[j, :2]).norm()))
    found = [average_precision(h, n) for h, n in zip(hits, n_truth, strict=True) if n]
    return float(np.mean(found)), float(np.mean(distances)) if distances else float("nan")


def fit(batches: Any, n_classes: int, args: argparse.Namespace, n_epochs: int, n_steps: int, seed: int) -> tuple[Run, Fcos]:
    torch.manual_seed(seed)
    network = Fcos(n_classes, args.width)
    optimizer = torch.optim.AdamW(network.parameters(), args.rate, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, args.rate, n_steps)

    def step(batch: dict[str, Any]) -> torch.Tensor:
        loss = loss_of(network, batch)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 10.0)
        optimizer.step()
        schedule.step()
        return loss

    return train(step, batches, n_epochs), network


def compare_losses(dataset: ps.Dataset, n_classes: int, args: argparse.Namespace) -> bool:
    order = order_of(penstock_batches(dataset, args, False, 1), args.same_epochs)
    peer = peer_loader(Pictures(dataset, args.size, False), collate, 0, 1, batch_sampler=order)
    ours, _ = fit(penstock_batches(dataset, args, False, 1), n_classes, args, args.same_epochs, need_steps(len(order)), 1)
    theirs, _ = fit(peer, n_classes, args, 1, len(order), 1)
    return same_losses(ours, theirs)


def run(dataset: ps.Dataset, classes: list[str], args: argparse.Namespace) -> int:
    training, held = dataset.split([0.8, 0.2], seed=1)
    print(f"{len(training)} pictures to train on, {len(held)} to test on; classes: {', '.join(classes)}", flush=True)
    if args.same:
        return 0 if compare_losses(training, len(classes), args) else 1
    makers: dict[str, Callable[[int], Any]] = {"penstock": lambda seed: penstock_batches(training, args, True, seed),
                                               "torch": lambda seed: peer_batches(training, args, seed)}
    results: dict[str, list[float]] = {name: [] for name in args.loader}
    for seed in args.seeds:
        for name in args.loader:
            batches = makers[name](seed)
            done, network = fit(batches, len(classes), args, args.epochs, need_steps(args.epochs * len(batches)), seed)
            precision, distance = test(network, held, args)
            results[name].append(precision)
            report(name, seed, done, f"AP at 0.5 {precision:.1%}, keypoints {distance:.2f} pixels off")
    compare("AP at 0.5", results)
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="a folder with images/ and Pascal VOC's annotations/")
    parser.add_argument("--made", type=int, default=320, help="pictures to make, without --data")
    parser.add_argument("--loader", nargs="+", choices=("penstock", "torch"), default=["penstock"])
    parser.add_argument("--size", type=int, default=96, help="of pictures in the batch, a multiple of 16")
    parser.add_argument("--width", type=int, default=16, help="channels of the first level")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--rate", type=float, default=4e-3, help="the learning rate")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--same", action="store_true", help="compare losses without augmentation")
    parser.add_argument("--same-epochs", type=int, default=1)
    parser.add_argument("--workers", type=int, default=1, help="threads of Penstock, processes of torch")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "pictures.pst"
        dataset, classes = write_voc(args.data, path) if args.data else (make_shapes(path, args.made, args.size), list(KINDS))
        return run(dataset, classes, args)


if __name__ == "__main__":
    sys.exit(main())
