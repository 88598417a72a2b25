"""Witnesses beside the centre of their box; what changed or went since is left out and said."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recorded import Attempt, change, write_record
from shown_campaigns import EPSILON, SIDE, box_instance, campaign, image_instance

from falsifier.campaign.report.data import Recorded, read_record, witness_reader
from falsifier.campaign.report.views import Views, in_turn, views
from falsifier.cli import main

pytest.importorskip("PIL", reason="the extra [report]")


def seen(recorded: Recorded, most: int = 10) -> Views:
    with witness_reader(recorded) as text_of:
        return views(recorded, text_of, most)


def test_an_image_beside_the_centre_with_the_classes(tmp_path: Path) -> None:
    write_record(tmp_path, [image_instance(tmp_path)])
    (view,) = seen(read_record(tmp_path)).pictures
    assert view.answer is not None
    assert (view.answer.before, view.answer.after, view.answer.classes) == ("0", "1", True)
    assert (view.size, view.moved) == (64, 64)
    assert view.most == pytest.approx(EPSILON)
    assert view.picture is not None
    assert view.picture.gain == pytest.approx(0.5 / EPSILON)


def test_the_box_is_the_one_that_holds_the_witness(tmp_path: Path) -> None:
    write_record(tmp_path, [box_instance(tmp_path)])
    (view,) = seen(read_record(tmp_path)).boxes
    assert [(bar.name, bar.lower, bar.upper, bar.value) for bar in view.bars] == [
        ("X_0", 10, 11, 10.75),
        ("X_1", 0, 1, 1),
        ("X_2", 0.5, 0.5, 0.5),
    ]
    assert [(bar.place, bar.pinned) for bar in view.bars] == [(0.75, False), (1.0, False), (0.5, True)]


def test_the_bound_holds_and_families_take_turns(tmp_path: Path) -> None:
    recorded = read_record(campaign(tmp_path))
    assert [row.family for row in in_turn(recorded.rows)] == ["images", "numbers", "images", "images"]
    assert [view.row.family for view in seen(recorded, 2).shown] == ["images", "numbers"]
    assert seen(recorded, 0).shown == ()


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("update instance set network_hash = 'old'", "its network has changed since"),
        ("update instance set query_hash = 'old'", "its query has changed since"),
        ("update instance set query_path = '/nowhere/q.vnnlib'", "/nowhere/q.vnnlib: is not there any more"),
        (
            """update instance set networks = '[{"path": "/nowhere/n.onnx"}]'""",
            "n.onnx: is not there any more",
        ),
        ("""update instance set networks = '[{"path": "/dev/zero"}]'""", "/dev/zero: is not there any more"),
        ("update instance set query_path = null", "its query is in no file"),
        ("update witness set text = x'00'", "its witness is not in the record, or damaged"),
        ("delete from witness", "its witness is not in the record, or damaged"),
    ],
)
def test_what_changed_or_went_is_left_out_with_the_reason(tmp_path: Path, statement: str, reason: str) -> None:
    path = write_record(tmp_path, [image_instance(tmp_path)])
    change(
        path,
        statement,
        "update attempt set network_hash = (select network_hash from instance)",
        "update attempt set query_hash = (select query_hash from instance)",
    )
    found = seen(read_record(tmp_path))
    assert found.shown == ()
    (missing,) = found.missing
    assert reason in missing[1]
    assert "\n" not in missing[1]


def test_a_witness_of_another_query_is_left_out(tmp_path: Path) -> None:
    given = image_instance(tmp_path)
    write_record(tmp_path, [replace(given, attempts=[Attempt(witness="((X_0 1.0))")])])
    assert "64" in seen(read_record(tmp_path)).missing[0][1]


@pytest.mark.parametrize("labels", [True, False])
def test_a_sample_of_a_data_set_is_the_original(tmp_path: Path, labels: bool) -> None:
    model = image_instance(tmp_path).network
    left = np.arange(SIDE) < SIDE // 2
    x = np.stack([np.tile(np.where(left, a, b), (1, SIDE, 1)) for a, b in ((0.9, 0.1), (0.5, 0.45))])
    arrays: dict[str, Any] = {"x": x, "y": np.array([0, 0])} if labels else {"x": x}
    np.savez(tmp_path / "data.npz", **arrays)
    words = ["campaign", str(model), "--dataset", str(tmp_path / "data.npz"), "--epsilon", "0.1", "--clip", "0", "1"]
    assert main([*words, "--max-evaluations", "500", "--out", str(tmp_path / "out")]) == 0
    recorded = read_record(tmp_path / "out")
    assert [row.verdict for row in recorded.rows] == ["unknown", "sat"]
    found = seen(recorded)
    assert found.missing == ()
    (view,) = found.pictures
    assert view.answer is not None
    assert (view.answer.before, view.row.sample) == ("0", 1)
    assert view.most <= 0.1 + 1e-6
    np.savez(tmp_path / "data.npz", x=x + 0.01, y=np.array([0, 0]))
    assert "its query has changed since" in seen(recorded).missing[0][1]
