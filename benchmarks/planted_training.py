"""Training of planted instances: a point is kept satisfied while everything that attacks find is trained away.

Imports torch when it is imported.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from planted_shapes import Shape, linear_rows, widths

_GAP = 0.05  # what points trained away should lack at least: they stay local optima close to satisfaction
_NEAR, _RING = 0.05, 0.25  # root mean square distances from the witness, in widths: up to the first, points are its own
_DEPTH, _MOAT = 0.15, 0.5  # what points between the two should lack at least, without and with a moat
_LANES = 512
_SCREENED = 1 << 14  # random points looked at in every round
_POOL = 1 << 13  # points trained away, the nearest to satisfaction of all that were found


class _Sign(torch.autograd.Function):
    """The sign, with the gradient of the identity where its input is small."""

    @staticmethod
    def forward(ctx: Any, z: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(z)
        return torch.sign(z)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> torch.Tensor:
        (z,) = ctx.saved_tensors
        return torch.where(z.abs() < 1, grads[0], torch.zeros_like(z))


class Signs(torch.nn.Module):
    """A layer of signs."""

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        """The sign of every element; its export is one Sign."""
        if torch.onnx.is_in_onnx_export():
            return torch.sign(z)
        signs: torch.Tensor = _Sign.apply(z)  # type: ignore[no-untyped-call]
        return signs


class Scaled(torch.nn.Module):
    """The box as the unit cube around 0: what a network of inputs with units of their own learns first."""

    def __init__(self, middle: torch.Tensor, width: torch.Tensor) -> None:
        super().__init__()
        self.middle = torch.nn.Parameter(middle, requires_grad=False)
        self.inverse = torch.nn.Parameter(2 / width, requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x `[b, n]` to [-1, 1]."""
        return (x - self.middle) * self.inverse


@dataclass
class Planted:
    """A trained network, its box `[n]` twice and the planted point `[n]`."""

    module: torch.nn.Module
    lower: torch.Tensor
    upper: torch.Tensor
    witness: torch.Tensor


def network(shape: Shape, lower: torch.Tensor, upper: torch.Tensor) -> torch.nn.Module:
    """An untrained network of a shape."""
    layers: list[torch.nn.Module] = []
    if shape.uneven or shape.whole:
        layers.append(Scaled((lower + upper) / 2, upper - lower))
    size = shape.inputs
    if shape.conv:
        side = round(size**0.5)
        layers += [torch.nn.Unflatten(1, (1, side, side))]
        layers += [torch.nn.Conv2d(1, 4, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(4, 8, 3, 2, 1)]
        layers += [torch.nn.ReLU(), torch.nn.Flatten()]
        size = 8 * ((side + 1) // 2) ** 2
    for i, width in enumerate(shape.hidden):
        layers += [torch.nn.Linear(size, width), Signs() if shape.signs and i == 0 else torch.nn.ReLU()]
        size = width
    layers.append(torch.nn.Linear(size, shape.outputs))
    if shape.clipped:
        layers.append(torch.nn.Hardtanh(-0.5, 0.5))
    return torch.nn.Sequential(*layers)


Hunt = Callable[[Planted, int], "torch.Tensor | None"]


def train(shape: Shape, rng_seed: int, rounds: int, steps: int, hunts: int, hunt: Hunt) -> Planted:
    """A planted instance, the same for the same rng seed.

    `rounds` of attacks, after each `steps` steps of training; then at most `hunts` times what `hunt(planted, i)` finds
    is trained away, until it finds nothing or the planted point's surroundings.
    """
    torch.set_num_threads(1)  # sums in one order: the same numbers everywhere
    torch.manual_seed(rng_seed)
    rng = np.random.default_rng(rng_seed)
    width = torch.tensor(widths(shape, rng), dtype=torch.float32)
    middle = torch.tensor(rng.normal(0, 1, shape.inputs), dtype=torch.float32) * width
    lower, upper = middle - width / 2, middle + width / 2
    if shape.whole:
        lower, upper = torch.zeros_like(width), width.clone()
    lower, upper = (torch.tensor([float(f"{v:.7g}") for v in side.tolist()]) for side in (lower, upper))
    width = upper - lower
    witness = lower + width * torch.tensor(rng.uniform(0.1, 0.9, shape.inputs), dtype=torch.float32)
    witness = witness.round() if shape.whole else witness
    module = network(shape, lower, upper)
    work = _Work(shape, module, lower, width, witness)
    for i in range(rounds):
        work.optimiser.param_groups[0]["lr"] = 2e-3 * 0.1 ** (i / rounds)
        work.attack(long=i % 2 == 1)
        work.fit(steps)
    work.settle()
    planted = Planted(module, lower, upper, witness)
    for i in range(hunts):
        point = hunt(planted, i)
        if point is None or not bool(work.apart(point[None])):
            break
        work.expose(point)
        work.attack(long=i % 2 == 1)
        work.fit(steps)
        work.settle()
    return planted


class _Work:
    """The state of one training."""

    def __init__(
        self, shape: Shape, module: torch.nn.Module, lower: torch.Tensor, width: torch.Tensor, witness: torch.Tensor
    ) -> None:
        self.shape, self.module, self.lower, self.width, self.witness = shape, module, lower, width, witness
        matrix, offset = linear_rows(shape)
        self.matrix, self.offset = (torch.tensor(a, dtype=torch.float32) for a in (matrix, offset))
        self.optimiser = torch.optim.Adam(module.parameters(), lr=2e-3)
        self.pool = self._random(_POOL)

    def _random(self, count: int) -> torch.Tensor:
        unit = torch.rand(count, self.shape.inputs)
        corner = (torch.rand_like(unit) < 0.5).float()
        unit = torch.where(torch.rand_like(unit) < torch.rand(count, 1), corner, unit)
        return self._whole(self.lower + unit * self.width)

    def _whole(self, x: torch.Tensor) -> torch.Tensor:
        return x.round() if self.shape.whole else x

    def slack(self, x: torch.Tensor) -> torch.Tensor:
        """Slacks `[b, r]`."""
        slack: torch.Tensor = self.module(x) @ self.matrix.T + self.offset
        return slack

    def lack(self, x: torch.Tensor) -> torch.Tensor:
        """What the query lacks `[b]`, above 0 where it is not satisfied. A band is left on its upper side alone."""
        slack = self.slack(x)
        if self.shape.kind == "band":
            return -slack[:, 1:].min(1).values
        return -(slack.max(1) if self.shape.kind == "or" else slack.min(1)).values

    def distance(self, x: torch.Tensor) -> torch.Tensor:
        """Root mean square distance `[b]` from the witness, in widths."""
        return (((x - self.witness) / self.width) ** 2).mean(1).sqrt()

    def apart(self, x: torch.Tensor) -> torch.Tensor:
        """Which points `[b]` are not left to the witness."""
        return self.distance(x) > (_NEAR / 2 if self.shape.moat else _NEAR)

    def attack(self, *, long: bool) -> None:
        """Points that signed climbs end on join the pool: short climbs with large steps or long ones with small.

        So do the best of many random points, and what is farthest from satisfaction leaves.
        """
        steps, first, last = (150, 0.05, 0.0005) if long else (40, 0.2, 0.005)
        x = self._random(_LANES)
        weight = torch.rand(_LANES, self.shape.rows).log().neg() ** 3
        momentum = torch.zeros_like(x)
        for i in range(steps):
            x.requires_grad_(True)
            slack = self.slack(x)
            if self.shape.kind == "or":
                score = slack[torch.arange(_LANES), torch.arange(_LANES) % self.shape.rows]
            else:
                score = ((slack * (weight if i < 0.7 * steps else 1)).clamp(max=0)).sum(1)
            (gradient,) = torch.autograd.grad(score.sum(), x)
            x = x.detach()
            momentum = 0.75 * momentum + gradient / (gradient.abs().sum(1, keepdim=True) + 1e-30)
            distance = first * (last / first) ** (i / (steps - 1))
            x = x + distance * self.width * momentum.sign()
            x = torch.minimum(torch.maximum(x, self.lower), self.lower + self.width)
        with torch.no_grad():
            random = self._random(_SCREENED)
            random = random[self.lack(random).argsort()[:_LANES]]
            pool = torch.cat([self.pool, random, self._whole(x)])
            pool = pool[self.apart(pool)]
            self.pool = pool[self.lack(pool).argsort(descending=True)[-_POOL:]]

    def expose(self, point: torch.Tensor) -> None:
        """A point `[n]` and its surroundings join the pool as its nearest points."""
        cloud = point + 0.02 * torch.randn(_LANES // 2, self.shape.inputs) * torch.rand(_LANES // 2, 1) * self.width
        cloud = torch.minimum(torch.maximum(cloud, self.lower), self.lower + self.width)
        self.pool = torch.cat([self.pool[_LANES // 2 :], self._whole(cloud)])

    def fit(self, steps: int) -> None:
        """Steps of training on the witness, points of the pool (half of them the nearest ones) and random ones."""
        for _ in range(steps):
            nearest = self.pool[-_LANES:]
            others = self.pool[torch.randint(len(self.pool), (_LANES // 2,))]
            x = torch.cat([nearest[torch.randint(len(nearest), (_LANES // 2,))], others, self._random(_LANES // 4)])
            ring = torch.randn(_LANES // 4, self.shape.inputs)
            ring = ring / ring.norm(dim=1, keepdim=True) * self.shape.inputs**0.5
            ring = self.witness + ring * (_NEAR + (_RING - _NEAR) * torch.rand(len(ring), 1)) * self.width
            x = torch.cat([x, torch.minimum(torch.maximum(ring, self.lower), self.lower + self.width)])
            x = x[self.apart(x)]
            depth = _MOAT if self.shape.moat else _DEPTH
            gap = torch.where(self.distance(x) < _RING, torch.tensor(depth), torch.tensor(_GAP))
            away = (gap - self.lack(x)).clamp(min=0)
            wanted = self._at_witness()
            loss = away.square().mean() + away.mean() * 0.1 + 10 * wanted
            self.optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            self.optimiser.step()

    def _at_witness(self) -> torch.Tensor:
        """What the planted point lacks of twice the wanted margin, one disjunct alone in an `or`."""
        slack = self.slack(self.witness[None])[0]
        goal = max(2 * self.shape.margin, 0.02)
        if self.shape.kind == "band":
            return (slack[:2] - 0.0025).abs().sum() + (goal - slack[2:]).clamp(min=0).sum()
        if self.shape.kind == "or":
            return (goal - slack[0]).clamp(min=0) + (slack[1:] + _GAP).clamp(min=0).sum()
        return (goal - slack).clamp(min=0).sum()

    def settle(self) -> None:
        """Biases of the last layer are moved until every atom holds at the planted point by the wanted margin.

        In float64, so that a few float32 steps can be asked for; outputs that are clipped stay inside the range.
        """
        last = [m for m in self.module if isinstance(m, torch.nn.Linear)][-1]  # type: ignore[attr-defined]
        with torch.no_grad():
            for _ in range(3):
                slack = self.slack(self.witness[None])[0]
                if self.shape.kind == "band":
                    last.bias[0] += slack[1] - 0.5 * (slack[0] + slack[1])
                    rows = range(2, self.shape.rows)
                else:
                    rows = range(1 if self.shape.kind == "or" else self.shape.rows)
                for i in rows:
                    last.bias[i + 1] -= slack[i] - self.shape.margin
