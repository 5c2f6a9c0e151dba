"""The main workflow on real images, in under two minutes: pack, look, analyze, plan, repack, train, interrupt, resume.

A small network learns which photograph a random crop comes from. The first epoch reads the data set; the later ones find it in the
cache. Run it with `make demo`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import torch
from torch import nn

import penstock as ps
from penstock import transforms as T
from penstock.demo import one_epoch

HERE = Path(__file__).parent
PHOTOGRAPHS = HERE / "photographs"
VIEWS = 32  # times that each photograph is in the training set: an epoch has that many crops of it
SIZE = 64

TRAIN = [T.RandomResizedCrop(SIZE, scale=(0.08, 0.4)), T.RandomHorizontalFlip(),
         T.Normalize(ps.IMAGENET_MEAN, ps.IMAGENET_STD)]


def say(title: str) -> None:
    print(f"\n== {title}", flush=True)


def run(*command: str) -> None:
    """Prints and runs one command of the program penstock."""
    print("$ penstock " + " ".join(command), flush=True)
    subprocess.run([str(Path(sys.executable).parent / "penstock"), *command], check=True)


def write_training_set(source: ps.Dataset, path: Path) -> None:
    """Writes each photograph VIEWS times. A random crop depends on the sample number, so each copy gets a different crop."""
    labels = source["label"]
    with ps.Writer(str(path), schema={"image": ps.Image(), "label": ps.Int(classes=source.classes)}) as writer:
        for view in range(VIEWS):
            for i in range(len(source)):
                writer.write({"image": source.read(i, "image"), "label": int(labels[i])},
                             name=f"{source.name(i)}/{view}")


def network(n_classes: int) -> nn.Module:
    def block(inputs: int, outputs: int) -> list[nn.Module]:
        return [nn.Conv2d(inputs, outputs, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()]

    return nn.Sequential(*block(3, 24), *block(24, 48), *block(48, 96), nn.AdaptiveAvgPool2d(2), nn.Flatten(),
                         nn.Linear(384, n_classes))


def loader_of(dataset: ps.Dataset, seed: int, shuffle: bool, cache: str | None = None, plan: Path | None = None) -> ps.Loader:
    return ps.Loader(dataset, batch_size=32, shuffle=shuffle, seed=seed, drop_last=shuffle, output="torch",
                     transforms={"image": TRAIN}, host_memory="1GiB", cache=cache, plan=plan)


def apply_plan(path: Path, out: Path) -> Path:
    """Measures what a training would wait for, makes a plan for an accelerator that consumes 3000 crops a second, and repacks the
    data set in place. Returns the path of the plan."""
    report, plan = out / "report.json", out / "plan.json"
    run("analyze", str(path), "--rate", "3000", "--batch-size", "32", "--budget", "8s", "--quiet", "--out", str(report), "--force")
    run("plan", str(report), "--cache", "0", "--storage-limit", "400%", "--machines", "example", "--out", str(plan), "--force")
    run("repack", str(path), "--plan", str(plan))
    return plan


def train(dataset: ps.Dataset, epochs: int, plan: Path) -> tuple[nn.Module, list[int]]:
    """Trains the network. Returns it, and the bytes that each epoch read from storage."""
    torch.manual_seed(0)
    torch.set_num_threads(1)  # the network is tiny, so a second thread would only wait for the first
    model = network(len(dataset.classes))
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 6e-3, epochs * (len(dataset) // 32))
    loss_of = nn.CrossEntropyLoss()
    reads = []

    def step(batch: dict) -> tuple[float, int]:
        logits = model(batch["image"])
        loss = loss_of(logits, batch["label"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        return loss.item(), int((logits.argmax(1) == batch["label"]).sum())

    with loader_of(dataset, seed=1, shuffle=True, cache="100%", plan=plan) as loader:
        for number in range(epochs):
            before = loader.stats()["storage"]["nbytes_read"]
            epoch = one_epoch(loader, step)
            reads.append(loader.stats()["storage"]["nbytes_read"] - before)
            print(f"epoch {number:2d}  {epoch}  read from storage {reads[-1] / 2**20:5.1f} MiB")
        use, tiers = loader.stats()["cache"], loader.stats()["tiers"]
        print(f"the cache holds {use['items']} items in {use['used'] / 2**20:.1f} MiB: {tiers['storage']['hits']} items came from "
              f"storage, in the first epoch, and {tiers['memory']['hits']} from the cache, in the others")
    return model, reads


@torch.inference_mode()
def accuracy(model: nn.Module, dataset: ps.Dataset) -> float:
    """Returns the accuracy on crops that the training never saw: another seed gives other crops."""
    model.eval()
    right = 0
    with loader_of(dataset, seed=4242, shuffle=False) as loader:
        for batch in loader:
            right += int((model(batch["image"]).argmax(1) == batch["label"]).sum())
    model.train()
    return right / len(dataset)


def digest(batch: dict) -> str:
    joined = b"".join(batch[name].numpy().tobytes() for name in ("index", "label", "image"))
    return hashlib.sha256(joined).hexdigest()[:16]


def interrupt_and_resume(dataset: ps.Dataset) -> bool:
    loader = loader_of(dataset, seed=1, shuffle=True)
    batches = iter(loader)
    for _ in range(5):
        next(batches)
    state = json.dumps(loader.state_dict())
    wanted = digest(next(batches))
    loader.close()
    print("stopped after 5 batches; state:", state)
    with loader_of(dataset, seed=1, shuffle=True) as resumed:
        resumed.load_state_dict(json.loads(state))
        got = digest(next(iter(resumed)))
    print(f"next batch would have been {wanted}, after the resume it is {got}: "
          f"{'bit-identical' if got == wanted else 'DIFFERENT'}")
    return got == wanted


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=HERE.parent / "demo-out", help="folder to write to")
    parser.add_argument("--epochs", type=int, default=12)
    args = parser.parse_args()
    shutil.rmtree(args.out, ignore_errors=True)
    args.out.mkdir(parents=True)

    say("Pack the photographs, with labels: JPEGs become smaller, to the same pixels; the PNG stays as it is")
    packed = args.out / "photographs.pst"
    run("pack", str(PHOTOGRAPHS), str(packed), "--labels", str(PHOTOGRAPHS / "labels.csv"), "--verify-samples")
    run("info", str(packed))
    run("verify", str(packed), "--decode", "--restore")

    say("The files come back, byte for byte")
    again = args.out / "photographs"
    run("unpack", str(packed), str(again))
    if any((again / path.name).read_bytes() != path.read_bytes() for path in PHOTOGRAPHS.glob("kodak*")):
        print("a file did not come back as it was", file=sys.stderr)
        return 1

    say(f"Write a training set in which each photograph has {VIEWS} entries")
    train_path = args.out / "train.pst"
    write_training_set(ps.Dataset(str(packed)), train_path)

    say("Analyze, plan, and store it as the plan says: the same pixels, the fewest bytes that feed the accelerator")
    plan = apply_plan(train_path, args.out)
    dataset = ps.Dataset(str(train_path))
    print(dataset)

    say("Train: which photograph does this crop come from?")
    model, reads = train(dataset, args.epochs, plan)
    unseen = accuracy(model, dataset)
    print(f"accuracy on {len(dataset)} unseen crops: {unseen:.1%} (guessing: {1 / len(dataset.classes):.1%})")

    say("Interrupt an epoch, resume it in a new loader")
    same = interrupt_and_resume(dataset)
    if reads[0] == 0 or any(reads[1:]):
        print(f"the first epoch is the one that reads; these read {reads} bytes", file=sys.stderr)
        return 1
    if unseen < 3 / len(dataset.classes):
        print("the network did not learn", file=sys.stderr)
        return 1
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
