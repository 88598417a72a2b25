"""Questions about samples: the paper's own setting, and its properties."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import models
import numpy as np
import onnx
import pytest
from campaigns import WEIGHT, Kept, network

from falsifier.campaign.dataset import (
    DataSet,
    Property,
    Setting,
    fitted,
    jobs_of,
    predictions,
    read_radius,
    read_samples,
)
from falsifier.campaign.driver import Driver
from falsifier.campaign.executors.inline import Inline
from falsifier.campaign.plan import arranged, read_instances
from falsifier.campaign.query_files import write_queries
from falsifier.campaign.stack import Settings
from falsifier.errors import InputError
from falsifier.network import load
from falsifier.query import parse
from falsifier.query.tree import And, Or, Query, Table
from falsifier.witness.text import read_witness

W = np.array(WEIGHT)


def samples(count: int = 20) -> tuple[Any, Any]:
    """x `[N, 3]` on the grid of sixteenths, and the class of each."""
    x = np.random.default_rng(0).integers(-32, 32, (count, 3)) / 16
    return x, np.argmax(x @ W.T, axis=1)


def distance(x: Any, label: int) -> float:
    """How far all inputs must move at least for the other class to draw level: the network is linear."""
    normal = W[1 - label] - W[label]
    return float(-(normal @ x) / np.abs(normal).sum())


def run(data: DataSet, model: Path) -> Kept:
    record = Kept()
    jobs = arranged(jobs_of(data, str(model), 20.0, None))
    Driver(jobs, record, Settings(evaluations=3000), Inline({model: load(model)})).run()
    return record


def test_another_class_is_reached_exactly_where_it_is_near_enough(tmp_path: Path) -> None:
    model = network(tmp_path)
    x, y = samples()
    data = DataSet(x, None, Setting(Property.TOP1, np.array(0.25)), load(model), str(tmp_path / "images.npz"))
    assert data.y.tolist() == y.tolist()
    record = run(data, model)
    near = [distance(x[i], int(y[i])) <= 0.25 for i in range(len(x))]
    assert 3 < sum(near) < 17
    assert list(record.answers().values()).count("sat") == sum(near)
    for i, decision in enumerate(record.decisions[f"sample_{i:02d}.vnnlib"] for i in range(len(x))):
        assert (decision.verdict.value == "sat") == near[i]
        if decision.witness:
            found = read_witness(parse(data.text(i)), decision.witness).inputs[0]
            assert np.abs(found - x[i]).max() <= 0.25
            assert decision.class_ == "exact"


def test_the_margin_of_a_label(tmp_path: Path) -> None:
    model = network(tmp_path)
    x, y = samples()
    setting = Setting(Property.MARGIN, np.array(0.125), margin=1.0)
    record = run(DataSet(x, y, setting, load(model), "images.npz"), model)
    for i in range(len(x)):
        normal = W[1 - y[i]] - W[y[i]]
        least = -(normal @ x[i]) - 0.125 * np.abs(normal).sum()  # by which the label leads, at the worst
        decision = record.decisions[f"sample_{i:02d}.vnnlib"]
        if least == 1.0:  # a tie, which the published rule of 1.0 counts: it reads < as <=
            assert decision.class_ != "exact"
        else:
            assert (decision.verdict.value == "sat") == bool(least < 1.0)


def test_outputs_that_leave_their_range(tmp_path: Path) -> None:
    model = network(tmp_path)
    x, _ = samples()
    setting = Setting(Property.RANGE, np.array([0.5, 0.0, 0.25]), range=(-3.0, 3.5))
    record = run(DataSet(x, None, setting, load(model), "images.npz"), model)
    reach = np.abs(W) @ np.array([0.5, 0.0, 0.25])
    for i in range(len(x)):
        beyond = max((-3.0 - (W @ x[i] - reach)).max(), (W @ x[i] + reach - 3.5).max())
        decision = record.decisions[f"sample_{i:02d}.vnnlib"]
        if beyond == 0:  # a tie, as above
            assert decision.class_ != "exact"
        else:
            assert (decision.verdict.value == "sat") == bool(beyond > 0)


def test_inputs_stay_in_their_range_and_budgets(tmp_path: Path) -> None:
    model = network(tmp_path)
    x = np.clip(samples()[0], -1.125, 1.125)
    budgets = np.random.default_rng(1).integers(1, 3, x.shape) / 8  # all reach the range
    setting = Setting(Property.TOP1, budgets, clip=(-1.0, 1.0))
    data = DataSet(x, None, setting, load(model), "images.npz")
    for i in range(len(x)):
        region = data.region(i)
        assert (region.lower >= -1).all()
        assert (region.upper <= 1).all()
        inside = np.abs(x[i]) <= 1
        np.testing.assert_array_equal(region.upper[inside], np.minimum(x[i] + budgets[i], 1)[inside])


def test_the_questions_as_files_get_the_same_answers(tmp_path: Path) -> None:
    model = network(tmp_path)
    x, _ = samples(8)
    data = DataSet(x, None, Setting(Property.TOP1, np.array(0.25)), load(model), "images.npz")
    jobs = arranged(jobs_of(data, str(model), 20.0, None))
    write_queries(jobs, tmp_path / "queries", model)
    again = arranged(read_instances(tmp_path / "queries" / "instances.csv"))
    assert [job.limit for job in again] == [20.0] * 8
    record = Kept()
    Driver(again, record, Settings(evaluations=3000), Inline()).run()
    assert record.answers() == run(data, model).answers()


def atoms(query: Query) -> tuple[Any, list[Any], list[Any]]:
    """Declarations, the bounds, and the alternatives."""
    bounds, either = query.assertions
    assert isinstance(bounds, Table)
    (clause,) = bounds.expand().parts
    assert isinstance(clause, And)
    if isinstance(either, Table):
        either = either.expand()
    alternatives = either.parts if isinstance(either, Or) else (either,)
    return query.networks, list(clause.parts), [p.parts[0] if isinstance(p, And) else p for p in alternatives]


def same(one: Query, two: Query) -> bool:
    return one.version == two.version and atoms(one) == atoms(two)


@pytest.mark.parametrize("kind", Property)
def test_the_tree_is_what_reading_the_text_gives(tmp_path: Path, kind: Property) -> None:
    x, y = samples(6)
    setting = Setting(kind, np.array(1 / 3), margin=0.75, range=(-1e-7, 2.5))
    data = DataSet(x, y, setting, load(network(tmp_path)), "images.npz")
    for i in range(6):
        assert same(parse(data.text(i)), data.query(i))


def test_the_text_of_a_question(tmp_path: Path) -> None:
    x = np.array([[0.5, -1.0, 0.0]])
    for setting, alternatives in (
        (Setting(Property.TOP1, np.array(0.25)), "(and (>= Y_0 Y_1))"),
        (Setting(Property.MARGIN, np.array(0.25), margin=0.75), "(and (> (- Y_0 Y_1) -0.75))"),
        (
            Setting(Property.RANGE, np.array(0.25), range=(-2.0, 3.5)),
            "(and (< Y_0 -2.0)) (and (> Y_0 3.5)) (and (< Y_1 -2.0)) (and (> Y_1 3.5))",
        ),
    ):
        data = DataSet(x, np.array([1]), setting, load(network(tmp_path)), "folder/images.npz")
        lines = data.text(0).splitlines()
        assert lines[0] == f"; {setting.property.value} around sample 0 of images.npz, label {data.y[0]}"
        assert lines[1:6] == [f"(declare-const {name} Real)" for name in ("X_0", "X_1", "X_2", "Y_0", "Y_1")]
        assert lines[6:8] == ["(assert (>= X_0 0.25))", "(assert (<= X_0 0.75))"]
        assert lines[12:] == [f"(assert (or {alternatives}))"]


def test_predictions_are_the_networks_own(tmp_path: Path) -> None:
    x, _ = samples()
    np.testing.assert_allclose(predictions(load(network(tmp_path)), x), x @ W.T, rtol=1e-6)


def test_a_network_that_leaves_its_shape_open_is_asked_in_version_2(tmp_path: Path) -> None:
    """y = the mean over the open width of each of two channels, minus a bias for one."""
    ops: list[models.Step] = [
        ("GlobalAveragePool", [], {}),
        ("Flatten", [], {}),
        models.gemm([[1.0, 0.0], [0.0, 1.0]], [0.0, 0.25]),
    ]
    path = models.save(models.chain(ops, ["N", 2, 1, "w"], ["N", 2]), tmp_path / "open.onnx")
    x = np.zeros((3, 2, 1, 5))
    x[:, 0] = np.array([0.5, 0.75, 1.5])[:, None, None]
    file = saved(tmp_path / "images.npz", x=x)
    flat, y, shape = read_samples(file)
    net = fitted(load(path), shape)
    setting = Setting(Property.MARGIN, np.array(0.25), margin=0.125)
    data = DataSet(flat, y, setting, net, str(file))
    tree = parse(data.text(0))
    assert tree.version == (2, 0)
    assert same(tree, data.query(0))
    assert [v.shape for v in tree.variables] == [(1, 2, 1, 5), (1, 2)]
    record = Kept()
    jobs = arranged(jobs_of(data, str(path), 20.0, None))
    Driver(jobs, record, Settings(evaluations=3000), Inline({path: net})).run()
    assert list(record.answers().values()) == ["sat", "sat", "unknown"]  # the leads are 0.25, 0.5, 1.25
    assert (record.decisions["sample_0.vnnlib"].witness or "").startswith("X float32 [1,2,1,5]\n")
    alone = Kept()
    Driver(jobs[:1], alone, Settings(evaluations=3000), Inline({path: net})).run()
    assert list(alone.answers().values()) == ["sat"]


def saved(path: Path, **arrays: Any) -> Path:
    np.savez(path, **arrays)
    return path


X = np.zeros((4, 3))


@pytest.mark.parametrize(
    ("arrays", "says"),
    [
        ({"images": X}, "holds no array x .but images."),
        ({"x": np.zeros(4)}, "shape .4."),
        ({"x": np.zeros((0, 3))}, "shape .0, 3."),
        ({"x": np.array([["a"]])}, "numbers"),
        ({"x": np.full((2, 3), np.nan)}, "not finite"),
        ({"x": X, "y": np.zeros(4)}, "labels are integers"),
    ],
)
def test_data_sets_that_cannot_be_used(tmp_path: Path, arrays: Any, says: str) -> None:
    path = saved(tmp_path / "images.npz", **arrays)
    with pytest.raises(InputError, match=says) as error:
        read_samples(path)
    assert str(error.value).startswith(f"{path}: ")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("content", [b"", b"no archive", None])
def test_files_that_are_no_archive(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "images.npz"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(
        InputError, match=r"images\.npz: " + ("cannot be read" if content is None else "not an npz file")
    ):
        read_samples(path)
    with path.open("wb") as file:
        np.save(file, X)
    with pytest.raises(InputError, match="one array"):
        read_samples(path)


@pytest.mark.parametrize(
    ("x", "y", "radius", "kind", "says"),
    [
        (np.zeros((4, 5)), None, 0.1, "top1", "holds 5 values, .* takes 3"),
        (X, np.zeros(3, np.int64), 0.1, "top1", "one label for each of 4"),
        (X, np.full(4, 2), 0.1, "top1", r"outside 0 \.\. 1"),
        (X, None, np.zeros(4), "top1", r"radius of shape \[4\]"),
        (X, None, np.zeros((2, 3)), "range", r"radius of shape \[2, 3\]"),
    ],
)
def test_what_does_not_fit_the_network(tmp_path: Path, x: Any, y: Any, radius: Any, kind: str, says: str) -> None:
    setting = Setting(Property(kind), np.asarray(radius, dtype=np.float64))
    with pytest.raises(InputError, match=says):
        DataSet(x, y, setting, load(network(tmp_path)), "images.npz")


def test_samples_from_which_no_valid_input_can_be_reached(tmp_path: Path) -> None:
    x, radius, model = np.array([[0.5, 1.25, 0.0]]), np.array([0.1, 0.25, 0.0]), load(network(tmp_path))
    data = DataSet(x, None, Setting(Property.TOP1, radius, clip=(0.0, 1.0)), model, "images.npz")
    region = data.region(0)
    assert (region.lower[1], region.upper[1]) == (1.0, 1.0)  # just within reach
    with pytest.raises(
        InputError, match=r"reach of sample 0 .* range 0 \.\. 1: its value 1 is 1\.25, which may move by 0\.2"
    ):
        DataSet(x, None, Setting(Property.TOP1, np.array(0.2), clip=(0.0, 1.0)), model, "images.npz")


def test_networks_that_have_no_classes_or_several_inputs(tmp_path: Path) -> None:
    one = models.save(models.affine([[1.0, 2.0]]), tmp_path / "one.onnx")
    with pytest.raises(InputError, match="no classes: use the property range"):
        DataSet(np.zeros((1, 2)), None, Setting(Property.TOP1, np.array(1.0)), load(one), "images.npz")


@pytest.mark.parametrize("kind", ["integer", "float", "open"])
def test_a_class_without_scores(tmp_path: Path, kind: str) -> None:
    """The same answers as for the scores, and witnesses that the door accepts with the query's text."""
    last: list[models.Step] = [("ArgMax", [], {"axis": 1, "keepdims": 0})]
    if kind == "float":
        last.append(("Cast", [], {"to": 1}))
    rows: Any = "N" if kind == "open" else 1
    made = models.chain([models.gemm(WEIGHT), *last], [rows, 3], [rows])
    made.graph.output[0].CopyFrom(models.tensor("Y", [rows], np.float32 if kind == "float" else np.int64))
    path = models.save(made, tmp_path / "class.onnx")
    x, y = samples()
    net = fitted(load(path), (3,))
    data = DataSet(x, None, Setting(Property.TOP1, np.array(0.23)), net, str(tmp_path / "images.npz"))
    assert data.y.tolist() == y.tolist()
    record = Kept()
    jobs = arranged(jobs_of(data, str(path), 20.0, None))
    Driver(jobs, record, Settings(evaluations=3000), Inline({path: net})).run()
    for i, decision in enumerate(record.decisions[f"sample_{i:02d}.vnnlib"] for i in range(len(x))):
        assert decision.verdict.value == ("sat" if distance(x[i], y[i]) < 0.23 else "unknown")
        tree = parse(data.text(i))
        assert same(tree, data.query(i))
        if decision.witness is not None:
            assignment = read_witness(tree, f"sat\n{decision.witness}")
            assert np.argmax(W @ assignment.inputs[0].ravel()) != y[i]
    assert {d.verdict.value for d in record.decisions.values()} == {"sat", "unknown"}
    with pytest.raises(InputError, match="without scores: use the property top1"):
        DataSet(x, None, Setting(Property.MARGIN, np.array(0.23), margin=0.1), net, "images.npz")


def test_budgets(tmp_path: Path) -> None:
    path = tmp_path / "budgets.npy"
    np.save(path, np.array([0.5, 0.0, 0.25]))
    assert read_radius(None, path).tolist() == [0.5, 0.0, 0.25]
    assert read_radius(0.3, path).tolist() == [0.3, 0.0, 0.25]
    np.save(path, np.zeros((5, 1, 3)))
    assert read_radius(None, path).shape == (5, 3)
    np.save(path, np.array([-1.0]))
    with pytest.raises(InputError, match="negative"):
        read_radius(None, path)
    path.write_bytes(b"text")
    with pytest.raises(InputError, match="not a numpy file"):
        read_radius(None, path)
    with pytest.raises(InputError, match="--epsilon or --budgets"):
        read_radius(None, None)


def labelled(folder: Path, first: str) -> Path:
    """The class and the scores of `WEIGHT` as two outputs, as scikit-learn's converters write them."""
    nodes = [
        onnx.helper.make_node("MatMul", ["X", "w"], ["scores"]),
        onnx.helper.make_node("ArgMax", ["scores"], ["label"], axis=1, keepdims=0),
    ]
    outputs = [models.tensor("label", ["N"], np.int64), models.tensor("scores", ["N", 2])]
    made = models.model(
        nodes,
        [models.tensor("X", ["N", 3])],
        outputs if first == "label" else outputs[::-1],
        [models.constant("w", W.T)],
    )
    return models.save(made, folder / "labelled.onnx")


@pytest.mark.parametrize("first", ["label", "scores"])
def test_a_label_beside_scores_is_no_score(tmp_path: Path, first: str) -> None:
    path = labelled(tmp_path, first)
    x, y = samples()
    net = fitted(load(path), (3,))
    data = DataSet(x, None, Setting(Property.TOP1, np.array(0.23)), net, "images.npz")
    assert data.y.tolist() == y.tolist()
    record = run(data, path)
    for i, decision in enumerate(record.decisions[f"sample_{i:02d}.vnnlib"] for i in range(len(x))):
        assert decision.verdict.value == ("sat" if distance(x[i], y[i]) < 0.23 else "unknown")
        if decision.witness is not None:
            assignment = read_witness(parse(data.text(i)), f"sat\n{decision.witness}")
            assert np.argmax(W @ assignment.inputs[0].ravel()) != y[i]
    assert {d.verdict.value for d in record.decisions.values()} == {"sat", "unknown"}
    margin = Setting(Property.MARGIN, np.array(0.23), margin=0.1)
    if first == "label":
        with pytest.raises(InputError, match="first output is a class without scores: use the property top1"):
            DataSet(x, None, margin, net, "images.npz")
    else:
        assert all("Y_2" not in line for line in DataSet(x, y, margin, net, "images.npz").text(0).splitlines()[-1:])


def test_a_map_of_classes_is_refused(tmp_path: Path) -> None:
    ops: list[models.Step] = [("ArgMax", [], {"axis": 1, "keepdims": 0})]
    made = models.chain(ops, [1, 3, 2, 2], [1, 2, 2])
    made.graph.output[0].CopyFrom(models.tensor("Y", [1, 2, 2], np.int64))
    path = models.save(made, tmp_path / "map.onnx")
    with pytest.raises(InputError, match="gives 4 classes for a sample, not scores of one"):
        DataSet(np.zeros((1, 12)), None, Setting(Property.TOP1, np.array(1.0)), load(path), "images.npz")


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.bool_])
@pytest.mark.parametrize("open_", [False, True])
def test_a_range_that_ends_between_integers(tmp_path: Path, dtype: Any, open_: bool) -> None:
    """floor(x), or whether it is above 0, stays in 0.5 .. 1.5 iff it is 1; a fraction is no integer of 2.0."""
    shape: list[Any] = ["N", 1, "w"] if open_ else [1, 1, 2]
    kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    made = models.chain([("Floor", [], {}), ("Cast", [], {"to": kind})], shape, shape)
    made.graph.output[0].CopyFrom(models.tensor("Y", shape, dtype))
    path = models.save(made, tmp_path / "whole.onnx")
    x = np.array([[1.5, 1.25], [1.75, 1.5], [1.25, 1.5]])
    net = fitted(load(path), (1, 2))
    data = DataSet(x, None, Setting(Property.RANGE, np.array(0.375), range=(0.5, 1.5)), net, "images.npz")
    record = Kept()
    jobs = arranged(jobs_of(data, str(path), 20.0, None))
    Driver(jobs, record, Settings(evaluations=3000), Inline({path: net})).run()
    # 0.875 .. 1.625 has a 0 below it; 1.375 .. 2.125 a 2 above, which is no other truth value
    above = "unknown" if dtype == np.bool_ else "sat"
    assert [record.answers()[f"sample_{i}.vnnlib"] for i in range(3)] == ["sat", above, "sat"]
    for i in range(3):
        tree = parse(data.text(i))
        assert tree.version == ((2, 0) if open_ else (1, 0))
        assert same(tree, data.query(i))
