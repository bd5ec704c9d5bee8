"""Images: archives, folders and lists to batches; what is bad is one line."""

import hashlib
import io
import pickle
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from datamodules.augment.images import ImageAugmentation, cropped, cut_out
from datamodules.builders.cifar import Cifar10, Cifar100
from datamodules.builders.digits import Digits
from datamodules.builders.image_folder import ImageFolder
from datamodules.corpus import prepare
from datamodules.images.datamodule import ImageDataModule
from datamodules.images.pixels import FilePixels, decoded
from datamodules.imbalance import Exponential
from datamodules.samplers import Shuffle
from storage.errors import InputError

RNG = np.random.default_rng(0)
POLICIES = ("shift", "crop_flip", "autoaugment_cutout", "randaugment", "simaugment", "randaugment_stack")


def datamodule(corpus, size=8, read_size=8, augment=None, num_views=1, **options):
    module = ImageDataModule(
        corpus,
        augment=augment,
        imbalance=None,
        sampler=Shuffle(16),
        protocol={"name": "clean", "val_fraction": 0.1, "monitor": "val/macro_f1"},
        num_views=num_views,
        seed=3,
        size=size,
        read_size=read_size,
        **options,
    )
    module.setup()
    return module


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    return prepare(Digits(), tmp_path_factory.mktemp("data"), None)


def test_digits_are_scikit_learns(digits):
    from sklearn.datasets import load_digits

    assert (len(digits.table("train")), len(digits.table("test")), len(digits.label_names)) == (1438, 359, 10)
    module = datamodule(digits)
    stores = [module.views(split)[0][0] for split in ("train", "test")]
    pixels = np.concatenate([store.take(np.arange(len(store))) for store in stores])
    assert pixels.shape == (1797, 3, 8, 8) and (pixels[:, 0] == pixels[:, 2]).all()
    expected = np.sort(load_digits().images.sum((1, 2)) * 255 / 16)
    np.testing.assert_allclose(np.sort(pixels[:, 0].sum((1, 2), dtype=float)), expected, atol=32)  # each pixel rounds


def test_batches_follow_from_seed_and_step_and_every_view_is_drawn(digits):
    def batches(epoch, seed_of_torch):
        loader = datamodule(digits, augment=ImageAugmentation("views", "shift"), num_views=2).train_dataloader()
        loader.sampler.set_epoch(epoch)
        torch.manual_seed(seed_of_torch)
        return [batch for batch, _ in zip(loader, range(3), strict=False)]

    first, again, later = batches(0, 1), batches(0, 2), batches(1, 1)
    assert all(torch.equal(a["pixels"], b["pixels"]) for a, b in zip(first, again, strict=True))
    assert not torch.equal(first[0]["pixels"], later[0]["pixels"])
    views = first[0]["pixels"].unflatten(0, (2, -1))
    plain = datamodule(digits)._data("train")[first[0]["indices"].numpy()]["pixels"]
    assert views.dtype == torch.uint8 and not torch.equal(views[0], views[1]) and not torch.equal(views[0], plain)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_policy_depends_on_its_seed_alone_and_differs_from_image_to_image(policy):
    pixels = torch.from_numpy(RNG.integers(0, 256, (1, 3, 16, 16), np.uint8)).repeat(24, 1, 1, 1)
    augment = ImageAugmentation("views", policy)
    state = torch.get_rng_state()
    view = augment.view(pixels, 0, 16, seed=5)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(view, augment.view(pixels, 0, 16, seed=5))
    assert view.shape == pixels.shape and view.dtype == torch.uint8
    assert len(view.flatten(1).unique(dim=0)) > 12


def test_further_views_have_a_policy_of_their_own():
    pixels = torch.full((8, 3, 16, 16), 200, dtype=torch.uint8)
    augment = ImageAugmentation("views", "autoaugment_cutout", "crop_flip", padding=0)
    assert torch.equal(augment.view(pixels, 1, 16, seed=0), pixels) and (augment.view(pixels, 0, 16, seed=0) == 0).any()


def test_crops_and_cutout_against_slices():
    pixels = torch.from_numpy(RNG.integers(1, 256, (6, 3, 9, 9), np.uint8))
    for image, crop in zip(pixels, cropped(pixels, 7, 0.0), strict=True):
        places = [image[:, i : i + 7, j : j + 7] for i in range(3) for j in range(3)]
        assert any(torch.equal(crop, place) for place in places)
    padded = cropped(pixels, 9, 1 / 9)
    assert padded.shape == pixels.shape and (padded == 0).any()
    black = (cut_out(pixels, 4) == 0).all(1)
    assert all(2 <= len(rows.nonzero().unique()) <= 8 and int(rows.sum()) <= 16 for rows in black)


@pytest.mark.parametrize(
    ("classes", "rows", "ir", "largest", "total"),
    [(100, 500, 100, 500, 10847), (100, 500, 50, 500, 12608), (100, 500, 10, 500, 19573), (10, 5000, 100, 5000, 12406)],
)
def test_cifar_lt_has_the_published_counts(classes, rows, ir, largest, total):
    """Cao et al. (NeurIPS 2019): the total of CIFAR-100-LT at 100, 50 and 10, and of CIFAR-10-LT at 100."""
    sizes = Exponential(ir).target_sizes(np.full(classes, rows), [str(c) for c in range(classes)])
    assert (sizes[0], sizes[-1], sizes.sum()) == (largest, rows // ir, total)
    assert (sizes == [int(rows * (1 / ir) ** (c / (classes - 1)) + 1e-9) for c in range(classes)]).all()


class Python2(pickle._Pickler):
    """Writes strings as Python 2 did, in which the archives are made: bytes with a length."""

    dispatch = dict(pickle._Pickler.dispatch)

    def save_bytes(self, value):
        value = value.encode() if isinstance(value, str) else value
        short = len(value) < 256
        self.write(pickle.SHORT_BINSTRING if short else pickle.BINSTRING)
        self.write(len(value).to_bytes(1 if short else 4, "little") + value)

    dispatch[bytes] = dispatch[str] = save_bytes


def archive(folder: Path, dataset: type, content=None) -> Path:
    """A small archive laid out as the published one."""
    path = folder / dataset.file
    names = [name.encode() for name in ("ant", "bee", "cat")]
    with tarfile.open(path, "w:gz") as tar:
        members = {dataset.names[0]: {dataset.names[1]: names}}
        for split, files in dataset.members.items():
            for number, name in enumerate(files):
                pixels = np.full((6, 3072), 10 * number + (split == "test"), np.uint8)
                members[name] = content or {b"data": pixels, dataset.labels: [0, 1, 2, 0, 1, 2]}
        for name, value in members.items():
            data = io.BytesIO()
            Python2(data, protocol=2).dump(value)
            info = tarfile.TarInfo(f"{dataset.folder}/{name}")
            info.size = data.tell()
            data.seek(0)
            tar.addfile(info, data)
    return path


@pytest.mark.parametrize(("dataset", "rows"), [(Cifar10, 30), (Cifar100, 6)])
def test_an_archive_is_read_as_published(dataset, rows, tmp_path):
    path = archive(tmp_path, dataset)
    md5 = hashlib.md5(path.read_bytes()).hexdigest()
    corpus = prepare(dataset(str(path), md5=md5), tmp_path / "data", None)
    assert (len(corpus.table("train")), len(corpus.table("test"))) == (rows, 6)
    assert corpus.label_names == ("ant", "bee", "cat")
    batch = datamodule(corpus, size=32, read_size=32)._data("test")[np.array([0, 5])]
    assert batch["pixels"].shape == (2, 3, 32, 32) and (batch["pixels"] == 1).all()
    assert batch["labels"].tolist() == [0, 2]


def test_a_missing_or_other_archive_is_one_line(tmp_path):
    with pytest.raises(InputError, match=r"cifar-10-python.tar.gz, published at https://.*dataset.archive=PATH"):
        prepare(Cifar10(), tmp_path / "data", None)
    with pytest.raises(InputError, match="found MD5 .*, allowed: c58f30108f718f92721af3b95e74349a"):
        prepare(Cifar10(str(archive(tmp_path, Cifar10))), tmp_path / "data", None)


def test_what_is_no_archive_of_images_is_one_line(tmp_path):
    (tmp_path / "other.tar.gz").write_bytes(b"no archive")
    uneven = archive(tmp_path, Cifar10, {b"data": np.zeros((6, 3072), np.uint8), b"labels": [0, 1]})
    for path in (tmp_path / "other.tar.gz", uneven):
        with pytest.raises(InputError, match=rf"dataset.archive={path}: found no cifar-10-python.tar.gz \("):
            prepare(Cifar10(str(path), md5=None), tmp_path / "data", None)


class Evil:
    """What a pickle may not do."""

    def __reduce__(self):
        return Path.touch, (Path("executed"),)


def test_a_pickle_that_would_run_something_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = archive(tmp_path, Cifar10, {b"data": Evil()})
    with pytest.raises(InputError, match="cannot be read .found .*, allowed: arrays, numbers and names"):
        prepare(Cifar10(str(path), md5=None), tmp_path / "data", None)
    assert not Path("executed").exists()


def image(path: Path, mode: str = "RGB", size: tuple[int, int] = (12, 8)) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(RNG.integers(0, 256, (size[1], size[0], 3), np.uint8)).convert(mode).save(path)
    return path


@pytest.mark.parametrize("mode", ["RGB", "L", "RGBA", "P", "1"])
def test_images_of_any_mode_become_rgb(mode, tmp_path):
    pixels = decoded(image(tmp_path / "image.png", mode), 6)
    assert pixels.shape == (3, 6, 6) and pixels.dtype == np.uint8
    assert (pixels[0] == pixels[1]).all() == (mode in ("L", "1"))


def test_a_broken_image_is_named(tmp_path):
    whole = image(tmp_path / "whole.png")
    broken = tmp_path / "broken.png"
    broken.write_bytes(whole.read_bytes()[:60])
    with pytest.raises(InputError, match=r"broken.png: cannot be read as an image"):
        FilePixels([str(whole), str(broken)], 4).take(np.arange(2))


def folder_of(root: Path) -> Path:
    for label in ("ant", "bee"):
        for number in range(6):
            image(root / label / f"{number}.png")
    return root


def test_folders_of_classes_and_lists_give_the_same_rows(tmp_path):
    root = folder_of(tmp_path / "images")
    by_folder = prepare(ImageFolder(str(root), size=14), tmp_path / "data", None)
    assert (len(by_folder.table("train")), len(by_folder.table("test"))) == (10, 2)
    assert by_folder.label_names == ("ant", "bee")
    lines = [f"{label}/{number}.png {label == 'bee':d}" for label in ("ant", "bee") for number in range(6)]
    lists = {"train_list": lines[:4] + lines[6:10], "test_list": lines[4:6] + lines[10:]}
    for name, content in lists.items():
        (tmp_path / name).write_text("\n".join(content) + "\n")
    paths = {name: str(tmp_path / name) for name in lists}
    by_list = prepare(ImageFolder(str(root), size=14, **paths), tmp_path / "data", None)
    assert (len(by_list.table("train")), len(by_list.table("test")), by_list.label_names) == (8, 4, ("0", "1"))
    batch = datamodule(by_list, size=14, read_size=16)._data("test")[np.arange(4)]
    expected = decoded(root / "ant" / "4.png", 16)[:, 1:15, 1:15]
    assert batch["pixels"].shape == (4, 3, 14, 14) and (batch["pixels"][0].numpy() == expected).all()


@pytest.mark.parametrize(
    ("train", "test", "finding"),
    [
        ("ant/0.png 0\nant/9.png 0\nbee/0.png 1", "bee/1.png 1", r"train:2: found 'ant/9.png', no such file below "),
        ("ant/0.png 0\nbee/0.png", "bee/1.png 1", r"train:2: found 'bee/0.png', allowed: the path of an image"),
        ("ant/0.png 0\nbee/0.png 1", "bee/1.png 2", r"test:1: label '2' does not occur in train"),
    ],
)
def test_a_bad_line_of_a_list_is_named(train, test, finding, tmp_path):
    root = folder_of(tmp_path / "images")
    for name, content in (("train", train), ("test", test)):
        (tmp_path / name).write_text(content)
    lists = {f"{name}_list": str(tmp_path / name) for name in ("train", "test")}
    with pytest.raises(InputError, match=finding):
        prepare(ImageFolder(str(root), size=14, **lists), tmp_path / "data", None)


def test_a_class_without_images_is_named(tmp_path):
    root = folder_of(tmp_path / "images")
    (root / "cow").mkdir()
    with pytest.raises(InputError, match="cow: found no image, allowed: images in the folder of each class"):
        prepare(ImageFolder(str(root), size=14), tmp_path / "data", None)


def test_an_edited_image_is_another_store(tmp_path):
    path = image(tmp_path / "a.png")
    before = FilePixels([str(path)], 8).digest
    image(path, size=(13, 9))
    assert FilePixels([str(path)], 8).digest != before


def test_a_folder_of_splits_has_one_to_learn_from(tmp_path):
    (tmp_path / "test" / "a").mkdir(parents=True)
    with pytest.raises(InputError, match=f"^dataset.root: {tmp_path} holds test, allowed: a folder train beside them"):
        ImageFolder(str(tmp_path)).rows({})
