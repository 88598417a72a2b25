"""The networks that engines are timed on, hand-written in torch, with weights drawn from a fixed seed.

This module imports torch when it is imported.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn


class Residual(nn.Module):
    """Two convolutions around a skip, the second halving the image where `stride` is 2."""

    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, out, 3, stride, 1, bias=False)
        self.first_norm = nn.BatchNorm2d(out)
        self.second = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.second_norm = nn.BatchNorm2d(out)
        self.skip = nn.Conv2d(channels, out, 1, stride) if stride > 1 or channels != out else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        inner = torch.relu(self.first_norm(self.first(x)))
        return torch.relu(self.second_norm(self.second(inner)) + self.skip(x))


class Attention(nn.Module):
    """A transformer block: attention and a two-layer network, each behind a normalisation and beside a skip."""

    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(size), nn.LayerNorm(size)
        self.query, self.key, self.value = (nn.Linear(size, size) for _ in range(3))
        self.out = nn.Linear(size, size)
        self.inner = nn.Sequential(nn.Linear(size, 2 * size), nn.GELU(), nn.Linear(2 * size, size))

    def forward(self, x: Tensor) -> Tensor:
        b, tokens, size = x.shape
        z = self.before(x)
        split = (b, tokens, self.heads, size // self.heads)
        q, k, v = (part(z).reshape(split).transpose(1, 2) for part in (self.query, self.key, self.value))
        weights = torch.softmax(q @ k.transpose(2, 3) * (size // self.heads) ** -0.5, dim=3)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(b, tokens, size))
        result: torch.Tensor = x + self.inner(self.between(x))
        return result


class VisionTransformer(nn.Module):
    """Patches as tokens, a position each, blocks, the mean of the tokens, a linear layer."""

    def __init__(self, image: int, patch: int, size: int, heads: int, blocks: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, size, patch, patch)
        self.position = nn.Parameter(0.02 * torch.randn(1, (image // patch) ** 2, size))
        self.blocks = nn.Sequential(*(Attention(size, heads) for _ in range(blocks)))
        self.head = nn.Sequential(nn.LayerNorm(size), nn.Linear(size, 10))

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.patches(x).flatten(2).transpose(1, 2) + self.position
        result: Tensor = self.head(self.blocks(tokens).mean(dim=1))
        return result


def _small_mlp() -> nn.Module:
    """5 inputs, 6 layers of 50, 5 outputs."""
    sizes = [5, *[50] * 6]
    layers = [layer for a, b in pairwise(sizes) for layer in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(50, 5))


def _mlp() -> nn.Module:
    sizes = [784, *[256] * 4]
    layers = [layer for a, b in pairwise(sizes) for layer in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(256, 10))


def _conv() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 16, 4, 2, 1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 4, 2, 1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32 * 8 * 8, 100),
        nn.ReLU(),
        nn.Linear(100, 10),
    )


def _residual() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, 1, 1),
        nn.ReLU(),
        Residual(16, 16, 1),
        Residual(16, 32, 2),
        Residual(32, 64, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, 10),
    )


def _vit() -> nn.Module:
    return VisionTransformer(image=32, patch=8, size=48, heads=3, blocks=2)


@dataclass(frozen=True)
class Case:
    """A network and the shape of one sample."""

    make: Callable[[], nn.Module]
    shape: tuple[int, ...]


CASES = {
    "small_mlp": Case(_small_mlp, (5,)),
    "mlp": Case(_mlp, (784,)),
    "conv": Case(_conv, (3, 32, 32)),
    "residual": Case(_residual, (3, 32, 32)),
    "vit": Case(_vit, (3, 32, 32)),
}


def build(case: Case, rng_seed: int) -> nn.Module:
    """The network in evaluation mode, without gradients of weights, its statistics away from their initial values."""
    torch.manual_seed(rng_seed)
    module = case.make()
    for part in module.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.running_mean = 0.1 * torch.randn(part.num_features)
            part.running_var = 0.5 + torch.rand(part.num_features)
    return module.eval().requires_grad_(False)
