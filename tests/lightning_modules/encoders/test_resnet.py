"""Encoders of images: published sizes, shapes, batch norm, and checkpoints of torchvision's names."""

import pickle

import pytest
import torch
from safetensors.torch import save_file

from lightning_modules.encoders.images import PixelEncoder
from lightning_modules.encoders.resnet import BasicBlock, LargeResNetEncoder, SmallResNetEncoder

RESNEXT = {"groups": 32, "group_width": 4}


@pytest.mark.parametrize(
    ("source", "classes", "published"),
    [
        (SmallResNetEncoder("resnet32"), 10, 464_154),  # He et al., Table 6: 0.46 M
        (LargeResNetEncoder("resnet50"), 1000, 25_557_032),  # torchvision's documentation
        (LargeResNetEncoder("resnext50", **RESNEXT), 1000, 25_028_904),
    ],
)
def test_with_a_classifier_a_network_has_the_published_number_of_parameters(source, classes, published):
    with torch.device("meta"):
        network = source.network()
    own = sum(parameter.numel() for parameter in network.parameters())
    assert own + (source.hidden_size + 1) * classes == published


def test_a_shortcut_takes_every_second_pixel_and_fills_with_zeros():
    block = BasicBlock(2, 6, stride=2).eval()
    torch.nn.init.zeros_(block.bn2.weight)
    x = torch.rand(1, 2, 4, 4)
    out = block(x)
    torch.testing.assert_close(out[:, 2:4], x[:, :, ::2, ::2])
    assert out.shape == (1, 6, 2, 2) and (out[:, [0, 1, 4, 5]] == 0).all()


def test_an_embedding_is_of_the_normalised_pixels_and_a_seed_decides_the_weights():
    source = SmallResNetEncoder("resnet8", depth=8, mean=(0.5, 0.5, 0.5), std=(0.25, 0.25, 0.25))
    encoder, same, other = source.load(1).eval(), source.load(1).eval(), source.load(2).eval()
    pixels = torch.randint(0, 256, (4, 3, 8, 8), dtype=torch.uint8)
    expected = encoder.network((pixels / 255 - 0.5) / 0.25)
    torch.testing.assert_close(encoder(pixels), expected)
    assert torch.equal(encoder(pixels), same(pixels)) and not torch.equal(encoder(pixels), other(pixels))


@pytest.mark.parametrize("source", [SmallResNetEncoder("resnet8", depth=8), LargeResNetEncoder("resnext50", **RESNEXT)])
def test_an_embedding_is_the_mean_of_its_feature_map(source):
    encoder = source.load().eval()
    pixels = torch.randint(0, 256, (2, 3, 64, 64), dtype=torch.uint8)
    maps = encoder.feature_map(pixels)
    assert maps.shape[:2] == (2, encoder.hidden_size) and maps.shape[2] > 1
    torch.testing.assert_close(maps.mean((2, 3)), encoder(pixels))


def test_pixels_are_an_encoder():
    pixels = torch.randint(0, 256, (4, 3, 8, 8), dtype=torch.uint8)
    encoder = PixelEncoder().load()
    torch.testing.assert_close(encoder(pixels), pixels.flatten(1) / 255)
    assert encoder.hidden_size == 192 and encoder.frozen


def test_images_below_the_stride_of_a_network_are_refused():
    with pytest.raises(ValueError, match="encoder: found images of 3 pixels; allowed: 4 or more"):
        SmallResNetEncoder("resnet8", depth=8).load()(torch.zeros(2, 3, 3, 8))


def test_a_depth_is_6n_plus_2():
    with pytest.raises(ValueError, match="encoder.depth: found 33; allowed: 6 n"):
        SmallResNetEncoder("resnet33", depth=33)


@pytest.fixture
def state():
    torch.manual_seed(5)
    network = SmallResNetEncoder("resnet8", depth=8).network()
    return {**network.state_dict(), "fc.weight": torch.zeros(10, 64), "fc.bias": torch.zeros(10)}


def loaded(path, **options):
    return SmallResNetEncoder("resnet8", str(path), depth=8, **options).load(0)


def test_checkpoints_are_read_in_both_formats_and_with_the_names_of_several_gpus(state, tmp_path):
    torch.save(state, tmp_path / "a.pth")
    torch.save({"state_dict": {f"module.{name}": value for name, value in state.items()}}, tmp_path / "b.pth")
    save_file(state, tmp_path / "c.safetensors")
    for name in ("a.pth", "b.pth", "c.safetensors"):
        weights = loaded(tmp_path / name).network.state_dict()
        assert all(torch.equal(weights[key], state[key]) for key in weights)
    frozen = loaded(tmp_path / "a.pth", train="frozen").train()
    assert not frozen.training and not any(parameter.requires_grad for parameter in frozen.parameters())


@pytest.mark.parametrize(
    ("change", "finding"),
    [
        (lambda state: state.pop("0.weight"), "found no 0.weight"),
        (lambda state: state.update({"0.weight": torch.zeros(2)}), r"0.weight of shape \(2,\), not \(16, 3, 3, 3\)"),
        (lambda state: state.update({"layer9.weight": torch.zeros(2)}), "layer9.weight, which encoder=resnet8 has not"),
    ],
)
def test_other_weights_are_refused_in_one_line(change, finding, state, tmp_path):
    change(state)
    torch.save(state, tmp_path / "a.pth")
    with pytest.raises(ValueError, match=finding) as refused:
        loaded(tmp_path / "a.pth")
    assert "\n" not in str(refused.value)


class Evil:
    def __reduce__(self):
        return print, ("executed",)


def test_a_checkpoint_is_not_executed(tmp_path, capsys):
    with (tmp_path / "a.pth").open("wb") as file:
        pickle.dump(Evil(), file)
    with pytest.raises(ValueError, match="a.pth: cannot be read as a checkpoint"):
        loaded(tmp_path / "a.pth")
    with pytest.raises(ValueError, match="no file .*b.pth"):
        loaded(tmp_path / "b.pth")
    assert "executed" not in capsys.readouterr().out
