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
    """Slacks `[b, k]` -> score `[b]`, to be maximised, and its derivative by each slack, `[b, k]`. Padding (scale 0)
    counts nowhere.

    A lane whose atoms are all padding scores 0 with derivative 0.
    """
    import torch

    real = objective.scale > 0
    scaled = torch.where(real, objective.scale * slack, torch.inf)
    if objective.reduction is Reduction.HINGE:
        return scaled.clamp(max=0).sum(dim=1), torch.where(scaled < 0, objective.scale, 0)
    some = real.any(dim=1)
    if objective.reduction is Reduction.HARD:
        score, at = scaled.min(dim=1)
        share = torch.zeros_like(scaled).scatter_(1, at[:, None], 1.0)
    else:
        score = -torch.logsumexp(-scaled, dim=1)
        share = torch.softmax(-scaled, dim=1)
    return torch.where(some, score, 0), torch.where(real, share * objective.scale, 0)


def output_seed(objective: ObjectiveForm, weight: Tensor) -> Tensor:
    """The derivative of the score by each output, `[b, m]`, from that by each slack, `[b, k]`."""
    rows = objective.rows
    return weight @ rows[0] if rows.shape[0] == 1 else (weight[:, None, :] @ rows)[:, 0, :]
