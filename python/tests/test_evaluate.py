"""Evaluation on the original pictures: COCO's tool and torchmetrics count mAP. The results are annotations that passed through a
loader, or detections of networks that were trained for some steps."""

from __future__ import annotations

import contextlib
import io

import numpy as np
import pytest

import penstock as ps
from conftest import torchvision_v2
from penstock import transforms as T

N = 8
POINTS = 3  # points of each box: the middle of its upper edge, and its lower corners
SIGMAS = np.full(POINTS, 0.05)
ANNOTATIONS = ps.Annotations(per_box=["labels", "points"], geometry=True)


def sample(i):
    """Returns a picture of its own size with two rectangles, each with a class, a colour, a mask and points."""
    rng = np.random.default_rng(i)
    height, width = 220 + 14 * i, 300 - 10 * i
    pixels = rng.integers(0, 40, (height, width, 3), np.uint8)
    instances = np.zeros((height, width), np.uint8)
    boxes, points = [], []
    for k in range(2):
        w, h = width // 4 + int(rng.integers(20)), height // 3 + int(rng.integers(20))
        x, y = 12 + (width // 2) * k + int(rng.integers(20)), 10 + (height // 3) * k + int(rng.integers(20))
        boxes.append((x, y, x + w, y + h))
        points += [(x + w / 2, y + 1, 2), (x, y + h, 2), (x + w, y + h, 2)]
        instances[y : y + h, x : x + w] = k + 1
        pixels[y : y + h, x : x + w] = (230, 60, 60) if k == i % 2 else (60, 230, 60)
    return {"image": pixels, "instances": instances, "boxes": np.array(boxes, np.float32), "points": np.array(points, np.float32),
            "labels": np.array([i % 2, 1 - i % 2]), "image_id": 1000 + 7 * i}  # fmt: skip


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    schema = {
        "image": ps.Image(),
        "instances": ps.Mask(),
        "boxes": ps.Boxes(),
        "image_id": ps.Int(),
        "points": ps.Keypoints(points=["top", "left", "right"], pairs=[]),
        "labels": ps.Array("int64", classes=["red", "green"]),
    }
    path = tmp_path_factory.mktemp("evaluate") / "rectangles.pst"
    with ps.Writer(path, schema) as writer:
        for i in range(N):
            writer.write(sample(i))
    return ps.Dataset(path)


def loader(data, transforms, **more):
    more = {"batch_size": 3, "pad_epoch": False, "seed": 3, "num_workers": 1, "output": "numpy", "annotations": ANNOTATIONS, **more}
    return ps.Loader(data, transforms=transforms, **more)


WHOLE = {  # chains of operations that cut nothing off
    "letterbox": [T.Letterbox(256)],
    "flip and letterbox": [T.RandomHorizontalFlip(), T.RandomVerticalFlip(), T.Letterbox(384)],
    "resize": [T.Resize((260, 300))],
    "pad": [T.Pad((3, 5, 7, 2)), T.Resize((320, 320))],
    "zoom out": [T.RandomZoomOut(p=1)],
    "shortest": [T.RandomShortestSize((250, 333), max_size=500)],
}
CUTS = {
    "centre": [T.Resize(256), T.CenterCrop(200)],
    "random": [T.RandomCrop(210, pad_if_needed=True)],
    "resized crop": [T.RandomResizedCrop(256), T.RandomHorizontalFlip()],
}


def shown_area(box, batch, r):
    """Returns the area of the visible part of a box, in pixels of the original picture."""
    height, width = batch["image"][r].shape[-2:]
    shown = (np.linalg.inv(np.asarray(batch["image_geometry"][r])) @ np.array([[0, width], [0, height], [1, 1]]))[:2]
    low, high = np.sort(shown, 1).T
    sides = np.minimum(box[2:], high) - np.maximum(box[:2], low)
    return float(np.prod(np.maximum(sides, 0)))


def truth_of(batch, r):
    """Returns the annotations of a row, as the test wrote them. A box counts as cut by an edge if less than 0.99 of its area is
    visible.
    """
    want = sample(int(batch["index"][r]))
    area = np.prod(want["boxes"][:, 2:] - want["boxes"][:, :2], 1)
    is_cut = np.array([shown_area(box, batch, r) < 0.99 * a for box, a in zip(want["boxes"], area, strict=True)])
    return {**want, "area": area, "is_cut": is_cut}


def detections(batch):
    """Finds the rectangles in each delivered picture, and converts them to coordinates of the original picture. It uses only the
    batch.
    """
    masks = [np.stack([one == k for k in (1, 2)]) for one in batch["instances"]]
    return (ps.to_original(batch["boxes"], batch), ps.to_original(masks, batch, kind="masks"),
            ps.to_original(batch["points"], batch))  # fmt: skip


# COCO's tool -----------------------------------------------------------------------------------------


def coco_results(batch, boxes, masks, points, image_ids):
    from pycocotools import mask as coco_mask

    found = []
    for r, rows in enumerate(boxes):
        shown = [k for k in range(2) if masks is None or masks[r][k].any()] if len(rows) < 2 else [0, 1]
        for i, (x0, y0, x1, y1) in enumerate(np.asarray(rows).tolist()):
            found.append({"image_id": image_ids[r], "category_id": int(batch["labels"][r][i]) + 1, "score": 1.0,
                          "bbox": [x0, y0, x1 - x0, y1 - y0],
                          "segmentation": coco_mask.encode(np.asfortranarray(masks[r][shown[i]], np.uint8)),
                          "keypoints": points[r].reshape(-1, 3 * POINTS)[i].tolist()})  # fmt: skip
    return found


def coco_truth(truths):
    """Returns COCO annotations of samples. Boxes that an edge has cut are marked as crowds, which count neither as found nor as
    missed.
    """
    from pycocotools import mask as coco_mask

    annotations, images = [], []
    for want in truths:
        height, width = want["instances"].shape
        images.append({"id": want["image_id"], "height": height, "width": width})
        for i, (x0, y0, x1, y1) in enumerate(want["boxes"].tolist()):
            runs = coco_mask.encode(np.asfortranarray(want["instances"] == i + 1, np.uint8))
            annotations.append({"id": len(annotations) + 1, "image_id": want["image_id"], "category_id": int(want["labels"][i]) + 1,
                                "bbox": [x0, y0, x1 - x0, y1 - y0], "area": float(want["area"][i]), "segmentation": runs,
                                "iscrowd": int(want["is_cut"][i]), "num_keypoints": POINTS,
                                "keypoints": want["points"].reshape(-1, 3 * POINTS)[i].tolist()})  # fmt: skip
    return {"images": images, "annotations": annotations, "categories": [{"id": 1, "name": "red"}, {"id": 2, "name": "green"}]}


def coco_map(truths, results, kind, measure=0):
    """Returns COCO's AP: stats[0] over all thresholds, stats[1] at 0.5."""
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    with contextlib.redirect_stdout(io.StringIO()):
        truth = COCO()
        truth.dataset = coco_truth(truths)
        truth.createIndex()
        measured = COCOeval(truth, truth.loadRes([dict(result) for result in results]), kind)
        measured.params.kpt_oks_sigmas = SIGMAS
        measured.evaluate()
        measured.accumulate()
        measured.summarize()
    return measured.stats[measure]


def evaluated(data, chain):
    """Returns the annotations and results of an epoch. Checks the corners of boxes that are not cut against the annotations."""
    truths, results = [], []
    for batch in loader(data, chain):
        boxes, masks, points = detections(batch)
        truths += [truth_of(batch, r) for r in range(len(batch["index"]))]
        results += coco_results(batch, boxes, masks, points, [int(i) for i in batch["image_id"]])
        for got, got_points, want in zip(boxes, points, truths[-len(boxes) :], strict=True):
            if len(got) == len(want["boxes"]):
                whole = ~want["is_cut"]
                assert np.abs(got - want["boxes"])[whole].max(initial=0) < 0.5
                assert np.abs(got_points - want["points"]).reshape(2, POINTS, 3)[whole][..., :2].max(initial=0) < 0.5
    return truths, results


@pytest.mark.parametrize("name", list(WHOLE))
def test_coco_finds_all_that_no_edge_cuts(data, name):
    pytest.importorskip("pycocotools")
    truths, results = evaluated(data, WHOLE[name])
    assert len(truths) == N and not any(want["is_cut"].any() for want in truths)
    for kind in ("bbox", "segm", "keypoints"):
        assert coco_map(truths, results, kind) > 0.999, kind


@pytest.mark.parametrize("name", list(CUTS))
def test_coco_with_what_an_edge_cuts_set_apart(data, name):
    pytest.importorskip("pycocotools")
    truths, results = evaluated(data, CUTS[name])
    n_cut = sum(int(want["is_cut"].sum()) for want in truths)
    assert 0 < n_cut < 2 * N, "the chain cuts some boxes, and leaves some whole"
    for kind in ("bbox", "segm", "keypoints"):
        assert coco_map(truths, results, kind) > 0.999, kind
    as_if_whole = [{**want, "is_cut": np.zeros(2, bool)} for want in truths]
    assert coco_map(as_if_whole, results, "bbox") < 0.999, "the rule is needed"


def test_wrong_ids_change_no_coordinate(data):
    pytest.importorskip("pycocotools")
    for batch in loader(data, CUTS["resized crop"]):
        ids = [int(i) for i in batch["image_id"]]
        n = len(ids)
        wrong = {**batch, "image_id": batch["image_id"][::-1] + 5, "index": np.zeros(n, np.int64), "sample_name": ["none"] * n}
        assert coco_results(wrong, *detections(wrong), ids) == coco_results(batch, *detections(batch), ids)


# torchmetrics ----------------------------------------------------------------------------------------


def needs_torchmetrics():
    torchvision_v2()  # torchmetrics requires it
    pytest.importorskip("pycocotools")
    return pytest.importorskip("torchmetrics.detection").MeanAveragePrecision


@pytest.mark.parametrize("name", ["flip and letterbox", "zoom out", "resized crop"])
def test_torchmetrics_finds_all(data, name):
    torch = pytest.importorskip("torch")
    metric = needs_torchmetrics()(iou_type=("bbox", "segm"))
    for batch in loader(data, {**WHOLE, **CUTS}[name], output="torch"):
        boxes = ps.to_original(batch["boxes"], batch)
        masks = ps.to_original([torch.stack([one == k for k in (1, 2)]) for one in batch["instances"]], batch, kind="masks")
        truths = [truth_of(batch, r) for r in range(len(boxes))]
        found = []
        for r, box in enumerate(boxes):
            n = [k for k in range(2) if masks[r][k].any()] if len(box) < 2 else [0, 1]
            found.append(
                {"boxes": box, "masks": masks[r][n[: len(box)]], "labels": batch["labels"][r], "scores": torch.ones(len(box))}
            )
        metric.update(found, [{"boxes": torch.from_numpy(want["boxes"]), "labels": torch.from_numpy(want["labels"]),
                               "masks": torch.from_numpy(np.stack([want["instances"] == k for k in (1, 2)])),
                               "iscrowd": torch.from_numpy(want["is_cut"].astype(np.int64))} for want in truths])  # fmt: skip
    result = metric.compute()
    assert result["bbox_map"] > 0.999 and result["segm_map"] > 0.999


# Networks that are trained ---------------------------------------------------------------------------

TRAINING = [T.RandomHorizontalFlip(), T.Letterbox(128)]


def a_detector(torch):
    """Returns torchvision's FCOS with a small backbone, built from its configuration."""
    from torchvision.models.detection import FCOS
    from torchvision.models.detection.anchor_utils import AnchorGenerator

    nn = torch.nn
    layers = []
    for before, after in ((3, 16), (16, 32), (32, 64)):
        layers += [nn.Conv2d(before, after, 3, stride=2, padding=1), nn.GroupNorm(8, after), nn.ReLU()]
    backbone = nn.Sequential(*layers)
    backbone.out_channels = 64
    anchors = AnchorGenerator(sizes=((32,),), aspect_ratios=((1.0,),))
    net = FCOS(backbone, num_classes=2, anchor_generator=anchors, min_size=128, max_size=128, center_sampling_radius=2.5,
               image_mean=[0, 0, 0], image_std=[1, 1, 1])  # fmt: skip
    nn.init.constant_(net.head.regression_head.bbox_reg.bias, 1.0)  # with FCOS's ReLU, the sides of boxes would stay 0
    return net


@pytest.mark.long
def test_a_detector_is_trained_and_evaluated_in_original_pixels(data):
    torch = pytest.importorskip("torch")
    torchvision_v2()
    pytest.importorskip("pycocotools")
    torch.manual_seed(0)
    net = a_detector(torch)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    train = loader(data, [*TRAINING, T.Normalize([0.5] * 3, [0.25] * 3)], batch_size=4, shuffle=True, output="torch")
    for _ in range(40):
        for batch in train:
            targets = [{"boxes": b, "labels": n} for b, n in zip(batch["boxes"], batch["labels"], strict=True)]
            loss = sum(net(list(batch["image"]), targets).values())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    net.eval()
    truths, results, not_moved = [], [], []
    for batch in loader(data, [T.Letterbox(128), T.Normalize([0.5] * 3, [0.25] * 3)], output="torch"):
        with torch.no_grad():
            found = net(list(batch["image"]))
        truths += [truth_of(batch, r) for r in range(len(found))]
        original = ps.to_original([row["boxes"] for row in found], batch)
        for r, row in enumerate(found):
            for boxes, into in ((original[r], results), (row["boxes"], not_moved)):
                for (x0, y0, x1, y1), label, score in zip(
                    boxes.tolist(), row["labels"].tolist(), row["scores"].tolist(), strict=True
                ):
                    into.append({"image_id": int(batch["image_id"][r]), "category_id": label + 1, "score": score,
                                 "bbox": [x0, y0, x1 - x0, y1 - y0]})  # fmt: skip
    assert coco_map(truths, results, "bbox", 1) > 0.8
    assert coco_map(truths, not_moved, "bbox", 1) < 0.2, "what the network says is not in original pixels"


def heat_net(torch, n_points):
    """A network that makes a heat map for each point. The point is the centre of mass of its map."""
    nn = torch.nn

    class HeatNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.maps = nn.Sequential(nn.Conv2d(5, 24, 5, 2, 2), nn.ReLU(), nn.Conv2d(24, 32, 5, 2, 2), nn.ReLU(),
                                      nn.Conv2d(32, 32, 5, 1, 4, 2), nn.ReLU(), nn.Conv2d(32, n_points, 5, 1, 4, 2))  # fmt: skip

        def forward(self, images):
            n, _, height, width = images.shape
            y, x = torch.meshgrid(torch.linspace(-1, 1, height), torch.linspace(-1, 1, width), indexing="ij")
            maps = self.maps(torch.cat([images, torch.stack([x, y]).expand(n, 2, height, width)], 1))
            rows, columns = maps.shape[-2:]
            weights = maps.flatten(2).softmax(-1).view(maps.shape)
            at_x = (weights.sum(-2) * (torch.arange(columns) + 0.5)).sum(-1) * width / columns
            at_y = (weights.sum(-1) * (torch.arange(rows) + 0.5)).sum(-1) * height / rows
            return torch.stack([at_x, at_y], -1)

    return HeatNet()


@pytest.mark.long
def test_a_keypoint_network_is_trained_and_evaluated_in_original_pixels(data):
    torch = pytest.importorskip("torch")
    pytest.importorskip("pycocotools")
    torch.manual_seed(0)
    net = heat_net(torch, 2 * POINTS)
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    normalize = T.Normalize([0.5] * 3, [0.25] * 3)

    def red_first(batch):  # points of the red rectangle come first, then those of the green one
        return torch.stack([points.view(2, POINTS, 3)[labels.argsort()].flatten(0, 1)[:, :2]
                            for points, labels in zip(batch["points"], batch["labels"], strict=True)])  # fmt: skip

    train = loader(data, [T.Letterbox(128), normalize], batch_size=4, shuffle=True, output="torch")
    for _ in range(70):
        for batch in train:
            loss = (net(batch["image"]) - red_first(batch)).abs().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    truths, results, not_moved = [], [], []
    for batch in loader(data, [T.Letterbox(128), normalize], output="torch"):
        with torch.no_grad():
            found = net(batch["image"])
        truths += [truth_of(batch, r) for r in range(len(found))]
        seen = torch.cat([found, torch.full((*found.shape[:2], 1), 2.0)], -1)
        original = ps.to_original(seen, batch)
        for r in range(len(found)):
            for points, into in ((original[r], results), (seen[r], not_moved)):
                for label in range(2):
                    into.append({"image_id": int(batch["image_id"][r]), "category_id": label + 1, "score": 1.0,
                                 "keypoints": points[label * POINTS :][:POINTS].flatten().tolist()})  # fmt: skip
    assert coco_map(truths, results, "keypoints", 1) > 0.8
    assert coco_map(truths, not_moved, "keypoints", 1) < 0.2
