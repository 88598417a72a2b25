"""Shapes of planted instances: what the network, the box and the query look like (for `planted.py`)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Shape:
    """inputs, hidden widths; rows: atoms of a disjunct; margin: least slack of the witness after training.

    kind: `and` (one conjunction), `or` (disjuncts of one atom each, one of which can hold), `band` (low <= Y_0 <= high
    beside the other rows). uneven: widths over three orders of magnitude. moat: points close around the witness are
    trained away as well. clipped: outputs saturate, so that most of the box has no gradient. signs: the first hidden
    layer is binary. whole: inputs are integers from 0 to 255. strict: `<` and `>` at a slack of a few float32 steps.
    activation: `relu`, `tanh` or `sigmoid`. body: what stands before the hidden layers, `mlp` (nothing), `conv` (two
    convolutions) or `vit` (patches of 2 x 2, one block of attention). place: the planted point is well `inside`, within
    a hundredth of the width of a `corner`, or on the bounds of four inputs of five (`faces`).
    """

    name: str
    inputs: int
    hidden: tuple[int, ...]
    rows: int = 1
    kind: str = "and"
    margin: float = 0.01
    half: float = 0.6
    uneven: bool = False
    moat: bool = False
    clipped: bool = False
    signs: bool = False
    whole: bool = False
    strict: bool = False
    activation: str = "relu"
    body: str = "mlp"
    place: str = "inside"

    @property
    def outputs(self) -> int:
        """How many outputs the network has: Y_0 and one per row."""
        return self.rows + 1


SHAPES = (
    Shape("row1", 30, (128, 128)),
    Shape("row1_low_uneven", 8, (96, 96, 96), uneven=True, margin=0.003),
    Shape("and2", 50, (96, 96), rows=2),
    Shape("and3_wide", 128, (128, 128, 128), rows=3, margin=0.005),
    Shape("and6", 30, (96, 96, 96), rows=6),
    Shape("and6_moat", 30, (96, 96, 96), rows=6, moat=True, half=0.8),
    Shape("and12_moat", 20, (96, 96, 96), rows=12, moat=True),
    Shape("or9", 30, (64, 64, 64), rows=9, kind="or", half=0.4),
    Shape("or9_moat_tight", 30, (64, 64, 64), rows=9, kind="or", half=0.4, moat=True, margin=2e-4),
    Shape("and3_uneven", 30, (96, 96), rows=3, uneven=True, margin=0.005),
    Shape("and3_conv", 64, (48,), rows=3, body="conv", half=0.1),
    Shape("and4_clipped", 30, (96, 96), rows=4, clipped=True),
    Shape("band", 12, (96, 96), rows=2, kind="band", margin=0.002),
    Shape("and3_strict", 30, (96, 96), rows=3, strict=True, margin=1e-6),
    Shape("and3_signs", 30, (96, 64), rows=3, signs=True, margin=0.02),
    Shape("and3_whole", 24, (96, 96), rows=3, whole=True, margin=0.01),
    Shape("row1_corner", 75, (128, 128, 128), place="corner", margin=0.003),
    Shape("row1_tanh", 75, (128, 128), activation="tanh", place="corner", margin=0.003),
    Shape("row1_sigmoid_inside", 30, (96, 96), activation="sigmoid", margin=0.003),
    Shape("row1_moat", 30, (64, 64, 64, 64), moat=True, margin=0.003),
    Shape("row1_conv", 196, (64,), body="conv", half=0.2, place="corner", margin=0.003),
    Shape("row1_vit", 64, (48,), body="vit", half=0.4, place="corner", margin=0.003),
    Shape("or9_corner", 75, (96, 96, 96), rows=9, kind="or", place="corner", margin=0.003),
    Shape("or49", 30, (96, 96, 96), rows=49, kind="or", margin=0.003),
    Shape("or9_tanh_conv", 144, (64,), rows=9, kind="or", body="conv", activation="tanh", place="corner", margin=0.003),
    Shape("and3_faces", 128, (128, 128, 128), rows=3, place="faces", margin=0.003),
    Shape("and3_image", 784, (64,), rows=3, body="conv", half=0.1, margin=0.003),
    Shape("and6_moat_tight", 30, (64, 64, 64, 64), rows=6, moat=True, half=0.8, margin=0.0015),
    Shape("and6_uneven_tight", 30, (64, 64, 64, 64), rows=6, uneven=True, margin=0.0015),
)


def widths(shape: Shape, rng: np.random.Generator) -> Floats:
    """Width of the box along every input `[n]`."""
    if shape.whole:
        return np.full(shape.inputs, 255.0)
    if shape.uneven:
        return np.asarray(2 * shape.half * 10 ** rng.uniform(-2, 1, shape.inputs))
    return np.full(shape.inputs, 2 * shape.half)


def linear_rows(shape: Shape) -> tuple[Floats, Floats]:
    """Atoms as matrix `[r, m]` and offset `[r]`: atom i holds iff (matrix @ y + offset)[i] >= 0.

    Atom i reads `Y_0 <= Y_i` where i is odd or the kind is `or`, and `Y_i >= 0.05` elsewhere; a band's first two are
    `Y_0 >= 0.1` and `Y_0 <= 0.105`, its further ones as before.
    """
    matrix, offset = np.zeros((shape.rows, shape.outputs)), np.zeros(shape.rows)
    for i in range(shape.rows):
        output = i + 1
        if shape.kind == "band" and i < 2:
            matrix[i, 0], offset[i] = (1, -0.1) if i == 0 else (-1, 0.105)
        elif shape.kind == "or" or i % 2 == 0:
            matrix[i, output], matrix[i, 0] = 1, -1
        else:
            matrix[i, output], offset[i] = 1, -0.05
    return matrix, offset


def query(shape: Shape, lower: list[str], upper: list[str]) -> str:
    """The VNN-LIB 1.0 text of a box with bounds as decimals."""
    lines = [f"(declare-const X_{i} Real)" for i in range(shape.inputs)]
    lines += [f"(declare-const Y_{i} Real)" for i in range(shape.outputs)]
    for i, (low, high) in enumerate(zip(lower, upper, strict=True)):
        lines += [f"(assert (>= X_{i} {low}))", f"(assert (<= X_{i} {high}))"]
    less, more = ("<", ">") if shape.strict else ("<=", ">=")
    atoms = []
    for i in range(shape.rows):
        if shape.kind == "band" and i < 2:
            atoms.append("(>= Y_0 0.1)" if i == 0 else "(<= Y_0 0.105)")
        elif shape.kind == "or" or i % 2 == 0:
            atoms.append(f"({less} Y_0 Y_{i + 1})")
        else:
            atoms.append(f"({more} Y_{i + 1} 0.05)")
    if shape.kind == "or":
        lines.append("(assert (or " + " ".join(f"(and {atom})" for atom in atoms) + "))")
    else:
        lines += [f"(assert {atom})" for atom in atoms]
    return "\n".join(lines) + "\n"
