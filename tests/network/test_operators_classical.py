"""Operators of ai.onnx.ml: every lane is what onnxruntime makes of one sample, and the gradient is the derivative."""

from __future__ import annotations

from typing import Any

import models
import numpy as np
import pytest
from onnx import ModelProto, helper
from operator_checks import check_gradient, check_outputs

from falsifier.errors import UnsupportedError
from falsifier.network.lowering import lower

ML = "ai.onnx.ml"
RNG = np.random.default_rng(0)
X = (RNG.uniform(0.2, 2, (4, 6)) * [1, -1, 1, 1, -1, 1]).astype(np.float32)


def classical(op: str, outputs: int = 1, **attributes: Any) -> ModelProto:
    """A model of one such node; of a classifier, label and scores."""
    names = ["label", "y"][-outputs:]
    kinds = [helper.make_tensor_value_info(n, 7 if n == "label" else 1, None) for n in names]
    node = helper.make_node(op, ["x"], names, domain=ML, **attributes)
    return models.model([node], [models.tensor("x", [2, 3])], kinds, domains=[(ML, 1)])


def classifier(after: str, **labels: Any) -> ModelProto:
    weights, intercepts = RNG.normal(size=9).tolist(), [0.1, 0.0, -0.2]
    return classical("LinearClassifier", 2, coefficients=weights, intercepts=intercepts, post_transform=after, **labels)


@pytest.mark.parametrize(
    "model",
    [
        classical("Scaler", offset=[0.5, 1.0, -1.0], scale=[2.0, 0.5, 3.0]),
        classical("Scaler", offset=[0.5], scale=[2.0]),
        classical("Normalizer", norm="MAX"),
        classical("Normalizer", norm="L1"),
        classical("Normalizer", norm="L2"),
        classical("LinearRegressor", coefficients=[1.0, 2.0, 3.0, -1.0, 0.5, 0.0], intercepts=[0.5, 1.0], targets=2),
        classical("LinearRegressor", coefficients=[1.0, 2.0, 3.0]),
    ],
)
def test_arithmetic_of_pipelines(model: ModelProto) -> None:
    check_outputs(model, X)
    check_gradient(model, X)


@pytest.mark.parametrize("after", ["NONE", "SOFTMAX", "LOGISTIC"])
def test_a_classifier_gives_labels_and_scores(after: str) -> None:
    outputs = check_outputs(classifier(after, classlabels_ints=[4, 7, 9]), X)
    assert set(outputs[:, :2].ravel()) <= {4, 7, 9}


def test_rows_of_nothing_stay() -> None:
    for norm in ("MAX", "L1", "L2"):
        check_outputs(classical("Normalizer", norm=norm), np.zeros((2, 6), np.float32))


def test_steps_are_binary() -> None:
    assert set(check_outputs(classical("Binarizer", threshold=0.3), X).ravel()) == {0, 1}


def test_labels_are_looked_up_as_pipelines_do() -> None:
    nodes = [
        helper.make_node("ArgMax", ["x"], ["best"], axis=1),
        helper.make_node("ArrayFeatureExtractor", ["labels", "best"], ["found"], domain=ML),
        helper.make_node("Cast", ["found"], ["y"], to=1),
    ]
    result = [helper.make_tensor_value_info("y", 1, None)]
    labels = models.constant("labels", [4, 7, 9], np.int64)
    model = models.model(nodes, [models.tensor("x", [2, 3])], result, [labels], domains=[(ML, 1)])
    assert set(check_outputs(model, X).ravel()) <= {4, 7, 9}


def test_entries_of_rows_are_extracted() -> None:
    node = helper.make_node("ArrayFeatureExtractor", ["x", "places"], ["y"], domain=ML)
    places = models.constant("places", [2, 0], np.int64)
    result = [helper.make_tensor_value_info("y", 1, None)]
    check_gradient(models.model([node], [models.tensor("x", [2, 3])], result, [places], domains=[(ML, 1)]), X)


@pytest.mark.parametrize("after", ["PROBIT", "SOFTMAX_ZERO"])
def test_other_transforms_are_refused(after: str) -> None:
    with pytest.raises(UnsupportedError, match=after):
        lower(classifier(after, classlabels_ints=[0, 1, 2]))
