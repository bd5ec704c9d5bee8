"""A training step of ResNet-32 on images of CIFAR's size, against the plain loop of published code.

    python -m benchmarks.images [--pairs 6] [--threads 2] [--policy crop_flip] [--precision auto]

Batches of 128 generated images of 32 x 32 pixels, cross-entropy, SGD with momentum. The peer is the loop that long-tail
codes share, written here from the recipe: float32, channels first, a loader that augments image by image, with the same
policy as ours.
Ours is `method=ce dataset=cifar100` as it runs: data module, Lightning's trainer, its precision. The two take turns,
some steps each, and the ratio is taken pair by pair. `loading` is the share of a step that making its batch takes.
"""

import argparse
import itertools
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from lightning.pytorch import Callback
from tabulate import tabulate
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from benchmarks._autoaugment import auto_augmented, cut_out
from datamodules.builders.cifar import Cifar100
from datamodules.corpus import Corpus, prepare
from engine.identify import compose_config
from engine.plan import Plan, instantiate_partial
from lightning_modules.encoders.resnet import CIFAR_MEAN, CIFAR_STD, SmallResNet

BATCH, CLASSES, STEPS = 128, 100, 4  # steps of a turn
ROWS = BATCH * 40


class Generated(Cifar100):
    """Random pixels in CIFAR-100's shape, with no archive."""

    def own_files(self) -> tuple[Path, ...]:
        return ()

    def rows(self, files: dict[str, Path]) -> dict[str, Iterator[dict]]:
        rng = np.random.default_rng(0)
        rows = ({"image": rng.bytes(3072), "label": str(row % CLASSES)} for row in range(ROWS))
        test = ({"image": rng.bytes(3072), "label": str(row)} for row in range(CLASSES))
        return {"train": rows, "test": test}


class Images(Dataset):
    """The peer's data: one image at a time, cropped, flipped, by Pillow's AutoAugment and Cutout, and normalised."""

    def __init__(self, corpus: Corpus, policy: str) -> None:
        self.policy = policy
        table = corpus.table("train")
        pixels = np.frombuffer(b"".join(table["image"].to_pylist()), np.uint8).reshape(-1, 3, 32, 32)
        self.pixels, self.labels = torch.from_numpy(pixels.copy()), table["label"].to_numpy()
        self.mean, self.std = (torch.tensor(values)[:, None, None] for values in (CIFAR_MEAN, CIFAR_STD))

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, row: int) -> tuple[Tensor, int]:
        image = nn.functional.pad(self.pixels[row], (4, 4, 4, 4))
        top, left = torch.randint(9, (2,)).tolist()
        image = image[:, top : top + 32, left : left + 32]
        image = image.flip(2) if torch.rand(()) < 0.5 else image
        if self.policy == "autoaugment_cutout":
            image = cut_out(auto_augmented(image), 16)
        return (image.float() / 255 - self.mean) / self.std, int(self.labels[row])


class Peer:
    """The plain loop; `turn` does some steps of it."""

    def __init__(self, corpus: Corpus, policy: str) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(SmallResNet(32), nn.Linear(64, CLASSES)).train()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
        self.loader = DataLoader(Images(corpus, policy), BATCH, shuffle=True, drop_last=True)
        self.batches = itertools.chain.from_iterable(itertools.repeat(self.loader))
        self.loading = 0.0

    def turn(self) -> float:
        started = time.perf_counter()
        for _ in range(STEPS):
            before = time.perf_counter()
            images, labels = next(self.batches)
            self.loading += time.perf_counter() - before
            loss = nn.functional.cross_entropy(self.model(images), labels)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        return time.perf_counter() - started


class Turns(Callback):
    """Lets the peer do as many steps after each turn of ours, and times both."""

    def __init__(self, peer: Callable[[], float], pairs: int) -> None:
        self.peer, self.pairs = peer, pairs
        self.ours: list[float] = []
        self.theirs: list[float] = []
        self.since: float | None = None

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx) -> None:
        if (batch_idx + 1) % STEPS:
            return
        now = time.perf_counter()
        if self.since is not None:
            self.ours.append(now - self.since)
            self.theirs.append(self.peer())
        else:
            self.peer()  # both have made ready
        trainer.should_stop = len(self.ours) >= self.pairs
        self.since = time.perf_counter()


def make_plan(folder: Path, policy: str, precision: str, threads: int) -> Plan:
    overrides = ["method=ce", "dataset=cifar100", f"augment={policy}", f"trainer.num_threads={threads}"]
    overrides += [f"trainer.precision={precision}"]
    overrides += [f"paths.{name}={folder / name}" for name in ("runs", "data", "cache")]
    return Plan.make(compose_config(overrides))


def race(folder: Path, policy: str, precision: str, pairs: int, threads: int) -> None:
    torch.set_num_threads(threads)
    corpus = prepare(Generated(), folder / "data", None)
    plan = make_plan(folder, policy, precision, threads)
    datamodule, peer = plan.datamodule(corpus), Peer(corpus, policy)
    turns = Turns(peer.turn, pairs)
    trainer = instantiate_partial(plan.config.trainer)(
        run_folder=folder, callbacks=[turns], logger=False, plugins=[]
    )
    trainer.limit_val_batches = 0
    trainer.fit(plan.bare_module(datamodule.class_counts, datamodule.label_names), datamodule)
    batches = iter(datamodule.train_dataloader())
    started = time.perf_counter()
    for _ in range(STEPS):
        next(batches)
    loading = (time.perf_counter() - started) / STEPS
    step = statistics.median(turns.ours) / STEPS
    ratios = sorted(theirs / ours for ours, theirs in zip(turns.ours, turns.theirs, strict=True))
    theirs = statistics.median(turns.theirs) / STEPS
    rows = [
        ("kontrast", trainer.precision, f"{1000 * step:.0f}", f"{100 * loading / step:.1f}"),
        ("plain loop", "32-true", f"{1000 * theirs:.0f}", f"{100 * peer.loading / STEPS / (pairs + 1) / theirs:.1f}"),
    ]
    print(tabulate(rows, ("", "precision", "ms a step (median)", "loading, % of a step")))
    print(f"ratio, plain loop / kontrast: median {statistics.median(ratios):.2f}, {ratios[0]:.2f} to {ratios[-1]:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=6)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--policy", default="crop_flip", choices=("crop_flip", "autoaugment_cutout"))
    parser.add_argument("--precision", default="auto", help="of ours; 32: as the peer's")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        race(Path(folder), arguments.policy, arguments.precision, arguments.pairs, arguments.threads)


if __name__ == "__main__":
    main()
