"""The package's shape: imports point one way, nothing heavy is imported at module top, modules stay small."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "falsifier"
MODULES = sorted(PACKAGE.rglob("*.py"))

# Each layer may import from those that stand below it, and from itself where one entry holds one package.
LAYERS: list[set[str]] = [
    {"errors", "verdict", "arrays", "records", "machine", "counted"},
    {"input_file", "output_file"},
    {"budget", "instance", "result", "numpy_file"},
    {"objective", "query"},
    {"spec", "network", "chunks"},
    {"aims"},
    {"values"},
    {"walks"},
    {"problem"},
    {"search", "witness"},
    {"arguments"},
    {"problems"},
    {"companions"},
    {"refinement"},
    {"falsify"},
    {"handoff"},
    {"campaign", "fuzz", "worker"},
    {"cli"},
]
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}
UNRANKED = {"testing", "__init__", "__main__", "resources"}  # may see everything
HEAVY = {"torch", "onnx", "onnxruntime", "scipy", "vnnlib", "click", "rich", "array_api_compat", "ray", "faiss"}
WITNESS_SEES = {
    "counted",
    "query",
    "records",
    "network.reference",
    "network",
    "errors",
    "verdict",
    "budget",
    "input_file",
    "output_file",
    "instance",
    "arrays",
    "witness",
}
TORCH_ONLY = {"network.from_torch", "network.torch_module"}  # torch throughout, and imported only inside functions
VAGUE = {"utils", "util", "helpers", "common", "misc", "core"}
MOST_LINES = 400


def name_of(path: Path) -> str:
    """`search.run` for falsifier/search/run.py."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


def at_runtime(body: list[ast.stmt], *, nested: bool) -> Iterator[ast.Import | ast.ImportFrom]:
    """The imports of statements, without those under `if TYPE_CHECKING`; those inside functions where `nested`."""
    for node in body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield node
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from at_runtime(node.orelse, nested=nested)
        elif nested or not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for field in ("body", "orelse", "finalbody"):
                yield from at_runtime(getattr(node, field, []), nested=nested)
            for handler in getattr(node, "handlers", []) + getattr(node, "cases", []):
                yield from at_runtime(handler.body, nested=nested)


def imported(path: Path, *, nested: bool) -> set[str]:
    """Dotted names that a module imports."""
    names: set[str] = set()
    for node in at_runtime(ast.parse(path.read_text()).body, nested=nested):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif node.level:
            raise AssertionError(f"{path}: relative import; write the whole name")
        elif node.module is not None:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def own(names: set[str]) -> set[str]:
    return {name.removeprefix("falsifier.") for name in names if name.startswith("falsifier.")}


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_point_one_way(path: Path) -> None:
    head = name_of(path).split(".")[0]
    if head in UNRANKED:
        return
    assert head in RANK, f"{head} has no layer yet: give it one"
    for target in own(imported(path, nested=True)):
        other = target.split(".")[0]
        if other == head or other in UNRANKED or not any((PACKAGE / f"{other}{end}").exists() for end in ("", ".py")):
            continue
        assert RANK[other] < RANK[head], f"{name_of(path)} imports {target}: a backward arrow"


@pytest.mark.parametrize("path", [p for p in MODULES if name_of(p).startswith("witness")], ids=name_of)
def test_the_door_shares_nothing_with_the_search(path: Path) -> None:
    for target in own(imported(path, nested=True)):
        parts = target.split(".")
        if parts[0] == "network":
            assert parts[1:2] in (["reference"], []), f"{name_of(path)} imports {target}"
        else:
            assert parts[0] in WITNESS_SEES, f"{name_of(path)} imports {target}"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_nothing_heavy_at_module_top(path: Path) -> None:
    names = imported(path, nested=False)
    heavy = {name.split(".")[0] for name in names} & HEAVY
    if name_of(path) in TORCH_ONLY:
        heavy -= {"torch"}
    heavy |= own(names) & TORCH_ONLY
    assert not heavy, f"{name_of(path)} imports {sorted(heavy)} at its top: import where it is used"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_modules_are_small_and_named_for_what_they_hold(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= MOST_LINES
    assert not VAGUE & set(name_of(path).split("."))


def test_the_walk_sees_imports_wherever_they_stand() -> None:
    source = """
import a
if TYPE_CHECKING:
    import hidden
try:
    import b
except ImportError:
    import c
def f():
    import d
class C:
    import e
    def g(self):
        with x:
            import f
"""
    body = ast.parse(source).body

    def names(nested: bool) -> set[str]:
        return {alias.name for node in at_runtime(body, nested=nested) for alias in node.names}

    assert names(nested=True) == {"a", "b", "c", "d", "e", "f"}
    assert names(nested=False) == {"a", "b", "c", "e"}
