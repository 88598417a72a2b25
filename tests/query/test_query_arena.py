"""Real queries, where the arena lies beside the repository: all are read, and its judge says of random points what
we say.
"""

from __future__ import annotations

import gzip
import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from falsifier.query import parse, read
from falsifier.query.evaluate import Arithmetic, failing, mentions_output
from falsifier.query.tree import Query, Table
from falsifier.query.write import write
from falsifier.records import replaced

ARENA = Path(__file__).resolve().parents[2].parent / "shared" / "arena"
QUERIES = sorted(ARENA.glob("data/**/*.vnnlib.gz"))
WHOLE = 2000  # asserts; the judge walks them one by one
FAMILIES = sorted({path.relative_to(ARENA).parts[1] for path in QUERIES})

pytestmark = pytest.mark.skipif(not QUERIES, reason="the arena is not beside the repository")


@pytest.fixture(scope="module")
def judge() -> ModuleType:
    spec = importlib.util.spec_from_file_location("arena_judge", ARENA / "judge.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _of(family: str) -> list[Path]:
    return [path for path in QUERIES if path.relative_to(ARENA).parts[1] == family]


@pytest.mark.parametrize("family", FAMILIES)
def test_every_query_is_read(family: str) -> None:
    for path in _of(family):
        query = read(path)
        assert query.assertions
        assert len(mentions_output(query)) == len(query.assertions)


def _points(query: Query, rng: np.random.Generator) -> list[list[NDArray[Any]]]:
    """Random points; points on the bounds, rounded to float32; the same with one value moved by a float32 step."""
    out = [rng.normal(size=query.slots)]
    for upper in (True, False):
        flat = rng.normal(size=query.slots) * 10
        for assertion in query.assertions:
            if isinstance(assertion, Table) and len(assertion.clauses) == 2:
                bounds = (assertion.right < 0) & ((assertion.relation < 2) == upper)
                flat[assertion.left[bounds]] = assertion.value[bounds]
        out.append(flat)
    moved = out[-1].copy()
    at = int(rng.integers(query.slots))
    moved[at] = np.nextafter(np.float32(moved[at]), np.float32(rng.choice([-np.inf, np.inf])))
    out.append(moved)
    splits = np.cumsum([variable.size for variable in query.variables])[:-1]
    return [[part.astype(np.float32) for part in np.split(flat, splits)] for flat in out]


def _text(e: Any) -> str:
    return e if isinstance(e, str) else f"({' '.join(map(_text, e))})"


def _asserts(judge: ModuleType, text: str) -> list[tuple[str, Any]]:
    """The asserts of a query, each as text and as the judge takes it."""
    if "declare-network" not in text:
        forms = judge.sexprs(text)
        return [(_text(e), e[1]) for e in forms if isinstance(e, list) and e and e[0] == "assert"]
    import vnnlib

    return [(f"(assert {a.expr})", a.expr) for a in vnnlib.parse_query_string(text).assertions]


def _theirs(judge: ModuleType, query: Query, form: Any, point: list[NDArray[Any]]) -> tuple[bool, bool]:
    """The judge on one assert: as written, as published."""
    env = {v.name: part.reshape(v.shape) for v, part in zip(query.variables, point, strict=True)}
    wide = {name: part.astype(np.float64) for name, part in env.items()}
    with np.errstate(all="ignore"):
        if query.version[0] == 2:
            return judge.holds_v2(form, wide, 0.0), judge.holds_v2(form, env, 0.0)
        published = {"X": env["X"], "Y": wide["Y"]}
        return judge.holds_v1(form, wide, 0.0, True), judge.holds_v1(form, published, 0.0, False)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_judge_agrees(family: str, judge: ModuleType) -> None:
    """On the whole query if it is short, and on its first and last asserts alone (which random points do satisfy)."""
    rng = np.random.default_rng(0)
    for path in sorted(_of(family), key=lambda path: path.stat().st_size)[:2]:
        text = gzip.decompress(path.read_bytes()).decode()
        query = read(path)
        asserts = _asserts(judge, text)
        chosen = asserts[:4] + asserts[-4:]
        header = write(replaced(query, assertions=()))
        alone = [(parse(header + spelled), form) for spelled, form in chosen]
        for point in _points(query, rng):
            if len(asserts) <= WHOLE:
                verdicts = [_theirs(judge, query, form, point) for _, form in asserts]
                ours = tuple(not failing(query, point, arithmetic) for arithmetic in Arithmetic)
                assert ours == tuple(all(column) for column in zip(*verdicts, strict=True)), path
            for one, form in alone:
                ours = tuple(not failing(one, point, arithmetic) for arithmetic in Arithmetic)
                assert ours == _theirs(judge, query, form, point), (path, form)
