"""Training of planted instances: a point is kept satisfied while everything that attacks find is trained away.

Imports torch when it is imported.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
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


class Attending(torch.nn.Module):
    """One block of a transformer over the patches of a square image, each 2 x 2."""

    _WIDTH, _HEADS = 16, 2

    def __init__(self, side: int) -> None:
        super().__init__()
        self._side, self._count = side, (side // 2) ** 2
        self.size = self._count * self._WIDTH
        self.embed = torch.nn.Linear(4, self._WIDTH)
        self.place = torch.nn.Parameter(0.1 * torch.randn(self._count, self._WIDTH))
        self.three = torch.nn.Linear(self._WIDTH, 3 * self._WIDTH)
        self.out = torch.nn.Linear(self._WIDTH, self._WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x `[b, side * side]` to what the patches say `[b, size]`."""
        half = self._side // 2
        patches = x.reshape(-1, half, 2, half, 2).permute(0, 1, 3, 2, 4).reshape(-1, self._count, 4)
        tokens = self.embed(patches) + self.place
        parts = self.three(tokens).chunk(3, -1)
        query, key, value = (
            part.reshape(-1, self._count, self._HEADS, self._WIDTH // self._HEADS).transpose(1, 2) for part in parts
        )
        share = torch.softmax(query @ key.transpose(2, 3) / (self._WIDTH // self._HEADS) ** 0.5, -1)
        seen = (share @ value).transpose(1, 2).reshape(-1, self._count, self._WIDTH)
        return torch.relu(tokens + self.out(seen)).reshape(-1, self.size)


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
    side = round(size**0.5)
    bend = {"relu": torch.nn.ReLU, "tanh": torch.nn.Tanh, "sigmoid": torch.nn.Sigmoid}[shape.activation]
    if shape.body == "conv":
        stride = 1 if side < 16 else 2  # images are halved once more
        layers += [torch.nn.Unflatten(1, (1, side, side))]
        layers += [torch.nn.Conv2d(1, 4, 3, stride, 1), bend(), torch.nn.Conv2d(4, 8, 3, 2, 1), bend()]
        layers += [torch.nn.Flatten()]
        size = 8 * (-(-side // (2 * stride))) ** 2
    if shape.body == "vit":
        block = Attending(side)
        layers.append(block)
        size = block.size
    for i, width in enumerate(shape.hidden):
        layers += [torch.nn.Linear(size, width), Signs() if shape.signs and i == 0 else bend()]
        size = width
    layers.append(torch.nn.Linear(size, shape.outputs))
    if shape.clipped:
        layers.append(torch.nn.Hardtanh(-0.5, 0.5))
    return torch.nn.Sequential(*layers)


Hunt = Callable[[Planted, int], "torch.Tensor | None"]
Climb = Callable[[Planted, torch.Tensor, int], torch.Tensor]


def train(shape: Shape, rng_seed: int, rounds: int, steps: int, hunts: int, hunt: Hunt, climb: Climb) -> Planted:
    """A planted instance, the same for the same rng seed.

    `rounds` of attacks, after each `steps` steps of training: signed climbs in turn with those of the search itself,
    `climb(planted, starts, i)`. Then up to `hunts` times what `hunt(planted, i)` finds is trained away, until it finds
    nothing but the planted point's surroundings three times running.
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
    witness = lower + width * torch.tensor(_place(shape, rng), dtype=torch.float32)
    witness = torch.minimum(witness.round() if shape.whole else witness, upper)
    module = network(shape, lower, upper)
    work = _Work(shape, module, lower, width, witness, int(rng.integers(shape.rows)) if shape.kind == "or" else 0)
    planted = Planted(module, lower, upper, witness)
    for i in range(rounds):
        work.optimiser.param_groups[0]["lr"] = 2e-3 * 0.1 ** (i / rounds)
        if i % 4 < 2:
            work.attack(long=i % 2 == 1)
        else:
            work.add(climb(planted, work.starts(), i))
        work.fit(steps)
    work.settle()
    quiet = 0
    for i in range(hunts):
        point = hunt(planted, i)
        quiet = quiet + 1 if point is None or not bool(work.apart(point[None])) else 0
        if quiet == 3:
            break
        if not quiet and point is not None:
            work.expose(point)
            work.add(climb(planted, work.starts(), rounds + i))
            work.fit(steps)
            work.settle()
    return planted


def _place(shape: Shape, rng: np.random.Generator) -> NDArray[np.float64]:
    """Where the planted point is in the unit cube `[n]`."""
    inside = rng.uniform(0.1, 0.9, shape.inputs)
    if shape.place == "inside":
        return inside
    corner = rng.integers(0, 2, shape.inputs).astype(float)
    if shape.place == "corner":
        return np.asarray(np.abs(corner - 0.01 * rng.random(shape.inputs)))
    return np.where(rng.random(shape.inputs) < 0.8, corner, inside)


class _Work:
    """The state of one training."""

    def __init__(
        self,
        shape: Shape,
        module: torch.nn.Module,
        lower: torch.Tensor,
        width: torch.Tensor,
        witness: torch.Tensor,
        only: int,
    ) -> None:
        """only: the disjunct of an `or` that the planted point satisfies."""
        self.only = only
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
        """Points that signed climbs end on join the pool: short climbs with large steps or long ones with small."""
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
        self.add(x)

    def add(self, x: torch.Tensor) -> None:
        """Points `[b, n]` and the best of many random ones join the pool; what is farthest from satisfaction leaves."""
        with torch.no_grad():
            random = self._random(_SCREENED)
            random = random[self.lack(random).argsort()[:_LANES]]
            pool = torch.cat([self.pool, random, self._whole(x)])
            pool = pool[self.apart(pool)]
            self.pool = pool[self.lack(pool).argsort(descending=True)[-_POOL:]]

    def starts(self) -> torch.Tensor:
        """Where climbs begin: random points, and points of the pool's nearest that have been moved."""
        near = self.pool[-2 * _LANES :]
        one, two = (near[torch.randint(len(near), (_LANES // 2,))] for _ in range(2))
        mixed = torch.where(torch.rand_like(one) < torch.rand(len(one), 1) ** 2, two, one)
        mixed = mixed + 0.5 * torch.randn_like(one) * torch.rand(len(one), 1) ** 3 * self.width
        mixed = torch.minimum(torch.maximum(mixed, self.lower), self.lower + self.width)
        return self._whole(torch.cat([self._random(_LANES // 2), mixed]))

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
            others = torch.arange(len(slack)) != self.only
            return (goal - slack[self.only]).clamp(min=0) + (slack[others] + _GAP).clamp(min=0).sum()
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
                    rows = range(self.shape.rows)
                    if self.shape.kind == "or":
                        rows = range(self.only, self.only + 1)
                for i in rows:
                    last.bias[i + 1] -= slack[i] - self.shape.margin
