"""Objective forms computed in torch: outputs in; slacks, score and reverse seed out. Nothing waits for the device."""

from __future__ import annotations

from typing import Any

from falsifier.objective import ObjectiveForm, Reduction

Tensor = Any


def slacks(objective: ObjectiveForm, outputs: Tensor) -> Tensor:
    """`rows @ outputs + offset`: outputs `[b, m]` -> slack `[b, k]`."""
    rows = objective.rows
    linear = outputs @ rows[0].T if rows.shape[0] == 1 else (rows @ outputs[:, :, None])[:, :, 0]
    return linear + objective.offset


def reduce(objective: ObjectiveForm, slack: Tensor) -> tuple[Tensor, Tensor]:
    """Slacks `[b, k]` -> score `[b]`, to be maximised, and its derivative by each slack, `[b, k]`.

    Padding (scale 0) counts nowhere; a lane of nothing else scores 0. A NaN slack counts as the worst finite number in
    the score and has derivative 0.
    """
    import torch

    worst = -torch.finfo(slack.dtype).max / 2**20
    real = objective.scale > 0
    broken = slack.isnan()
    usable = real & ~broken
    scaled = (torch.where(broken, worst, slack) * objective.scale).clamp(worst, -worst)
    if objective.reduction is Reduction.HINGE:
        scaled = torch.where(real, scaled.clamp(max=0), 0)
        return scaled.sum(dim=1), torch.where(usable & (scaled < 0), objective.scale, 0)
    scaled = torch.where(real, scaled, torch.inf)
    lowest, first = scaled.min(dim=1, keepdim=True)
    base = torch.where(lowest < torch.inf, lowest, 0)
    if objective.reduction is Reduction.HARD:
        score = base
        share = torch.zeros_like(scaled).scatter_(1, first, 1.0)
    else:
        parts = (base - scaled).exp()
        total = parts.sum(dim=1, keepdim=True)
        score = torch.where(lowest < torch.inf, base - total.log(), 0)
        share = parts / total
    return score[:, 0], torch.where(usable, share * objective.scale, 0)


def output_seed(objective: ObjectiveForm, weight: Tensor) -> Tensor:
    """The derivative of the score by each output, `[b, m]`, from that by each slack, `[b, k]`."""
    rows = objective.rows
    return weight @ rows[0] if rows.shape[0] == 1 else (weight[:, None, :] @ rows)[:, 0, :]
