"""Residual networks: those for small images, and ResNet-50 and ResNeXt-50 with the names of torchvision's weights."""

from __future__ import annotations

from typing import Annotated, Literal

from torch import Tensor, nn
from torch.nn import functional

from lightning_modules.encoders.images import ImageEncoderSource

Triple = tuple[float, float, float]
Positive = Annotated[float, "> 0"]
Positives = tuple[Positive, Positive, Positive]
CIFAR_MEAN, CIFAR_STD = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class BasicBlock(nn.Module):
    """Two 3x3 convolutions beside a shortcut without parameters.

    Where the size halves the shortcut takes every second pixel and fills the new channels with zeros: option A of He et
    al. (CVPR 2016), sec. 4.2.
    """

    def __init__(self, channels_in: int, channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.stride, self.new_channels = stride, channels - channels_in

    def forward(self, x: Tensor) -> Tensor:
        """(B, C_in, H, W) -> (B, C, H / stride, W / stride)."""
        out = functional.relu(self.bn1(self.conv1(x)), inplace=True)
        out = self.bn2(self.conv2(out))
        if self.stride > 1:
            before = self.new_channels // 2
            x = x[:, :, :: self.stride, :: self.stride]
            x = functional.pad(x, (0, 0, 0, 0, before, self.new_channels - before))
        return functional.relu(out + x, inplace=True)


class SmallResNet(nn.Sequential):
    """Three stages of (depth - 2) / 6 blocks with 16, 32 and 64 channels, then the mean over pixels: (B, 64).

    Source: He et al., Deep Residual Learning for Image Recognition (CVPR 2016), sec. 4.2, without its classifier.
    """

    def __init__(self, depth: int) -> None:
        layers: list[nn.Module] = [nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(True)]
        channels_in = 16
        for channels in (16, 32, 64):
            for block in range((depth - 2) // 6):
                layers.append(BasicBlock(channels_in, channels, 2 if block == 0 and channels > 16 else 1))
                channels_in = channels
        super().__init__(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight)

    def feature_map(self, x: Tensor) -> Tensor:
        """(B, 3, H, W) -> (B, 64, H / 4, W / 4)."""
        for layer in list(self)[:-2]:
            x = layer(x)
        return x


class Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1 convolutions; the 3x3 one halves the size, in `groups` of channels."""

    expansion = 4

    def __init__(self, channels_in: int, planes: int, stride: int, groups: int, group_width: int) -> None:
        super().__init__()
        width, channels = planes * group_width * groups // 64, planes * self.expansion
        self.conv1 = nn.Conv2d(channels_in, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, padding=1, groups=groups, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, channels, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(channels)
        self.downsample = None
        if stride > 1 or channels_in != channels:
            shortcut = nn.Conv2d(channels_in, channels, 1, stride, bias=False)
            self.downsample = nn.Sequential(shortcut, nn.BatchNorm2d(channels))

    def forward(self, x: Tensor) -> Tensor:
        """(B, C_in, H, W) -> (B, 4 planes, H / stride, W / stride)."""
        out = functional.relu(self.bn1(self.conv1(x)), inplace=True)
        out = functional.relu(self.bn2(self.conv2(out)), inplace=True)
        out = self.bn3(self.conv3(out))
        return functional.relu(out + (x if self.downsample is None else self.downsample(x)), inplace=True)


class LargeResNet(nn.Module):
    """ResNet-50, or with groups of channels ResNeXt-50, without the classifier: (B, 2048).

    Sources: He et al. (CVPR 2016), Table 1, with the stride in the 3x3 convolution as in torchvision; Xie et al.,
    Aggregated Residual Transformations (CVPR 2017), Table 1. Parameters have the names of torchvision's.
    """

    def __init__(self, groups: int, group_width: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        channels_in = 64
        for stage, (planes, blocks) in enumerate(zip((64, 128, 256, 512), (3, 4, 6, 3), strict=True), start=1):
            layers = []
            for block in range(blocks):
                stride = 2 if block == 0 and stage > 1 else 1
                layers.append(Bottleneck(channels_in, planes, stride, groups, group_width))
                channels_in = planes * Bottleneck.expansion
            setattr(self, f"layer{stage}", nn.Sequential(*layers))
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        """(B, 3, H, W) -> (B, 2048)."""
        return self.feature_map(x).mean((2, 3))

    def feature_map(self, x: Tensor) -> Tensor:
        """(B, 3, H, W) -> (B, 2048, H / 32, W / 32)."""
        x = functional.max_pool2d(functional.relu(self.bn1(self.conv1(x)), inplace=True), 3, 2, padding=1)
        for stage in range(1, 5):
            x = getattr(self, f"layer{stage}")(x)
        return x


class SmallResNetEncoder(ImageEncoderSource):
    """`encoder=resnet32` and `encoder=resnet8`: see `SmallResNet`; its `path` is a checkpoint of this project's names.

    Args:
        name, path, train, mean, std: see `ImageEncoderSource`.
        depth: layers with weights, the classifier's included: 6 n + 2.
    """

    hidden_size, least_size = 64, 4

    def __init__(
        self,
        name: str,
        path: str | None = None,
        train: Literal["full", "frozen"] = "full",
        mean: Triple = CIFAR_MEAN,
        std: Positives = CIFAR_STD,
        depth: Annotated[int, ">= 8"] = 32,
    ) -> None:
        super().__init__(name, path, train, mean, std)
        if depth % 6 != 2:
            raise ValueError(f"encoder.depth: found {depth}; allowed: 6 n + 2, as 8, 20, 32, 44, 56")
        self.depth = depth

    def network(self) -> nn.Module:
        return SmallResNet(self.depth)


class LargeResNetEncoder(ImageEncoderSource):
    """`encoder=resnet50` and `encoder=resnext50`: see `LargeResNet`; `path` takes torchvision's published weights.

    Args:
        name, path, train, mean, std: see `ImageEncoderSource`.
        groups: of channels in the 3x3 convolutions.
        group_width: channels of a group in the first stage.
    """

    hidden_size, least_size = 2048, 32

    def __init__(
        self,
        name: str,
        path: str | None = None,
        train: Literal["full", "frozen"] = "full",
        mean: Triple = IMAGENET_MEAN,
        std: Positives = IMAGENET_STD,
        groups: Annotated[int, ">= 1"] = 1,
        group_width: Annotated[int, ">= 1"] = 64,
    ) -> None:
        super().__init__(name, path, train, mean, std)
        self.groups, self.group_width = groups, group_width

    def network(self) -> nn.Module:
        return LargeResNet(self.groups, self.group_width)
