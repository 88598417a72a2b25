"""The plots as elements of a page: titles for their points, the page's colours, nothing that leads out of it."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from falsifier.campaign.report.data import Sample
from falsifier.campaign.report.plots import cactus, progress

pytest.importorskip("matplotlib", reason="the extra [report]")


def titles(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter("title")]


def test_every_point_of_a_cactus_plot_says_what_it_is() -> None:
    svg = cactus({"night": [(0.01, "a.onnx q"), (0.5, "b.onnx q")]})
    assert titles(svg) == ["1. a.onnx q: 0.01 s", "2. b.onnx q: 0.5 s"]


def test_of_very_many_points_some_have_a_title() -> None:
    svg = cactus({"night": [(1.0 + i, f"q{i}") for i in range(5000)]})
    found = titles(svg)
    assert 300 <= len(found) <= 400
    assert found[0] == "1. q0: 1 s"
    assert len(svg) < 200_000


def test_colours_are_the_pages_and_ids_are_the_plots_own() -> None:
    svg = cactus({"a": [(1.0, "q")], "b": [(2.0, "q")]})
    assert "var(--series-2)" in svg
    assert "#0a0b0c" not in svg
    ids = [element.get("id", "") for element in ElementTree.fromstring(svg).iter() if element.get("id")]
    assert ids
    assert all(name.startswith("cactus-") for name in ids)
    assert "http" not in svg


def test_names_are_text_whatever_they_hold() -> None:
    svg = cactus({"$x_1$ <b>\x00": [(1.0, "</title><script>alert(1)</script>")], "other": [(1.0, "\ud800")]})
    assert "<script" not in svg
    assert titles(svg) == ["1. </title><script>alert(1)</script>: 1 s", "1. \N{REPLACEMENT CHARACTER}: 1 s"]
    texts = [element.text for element in ElementTree.fromstring(svg).iter("text")]
    assert "$x_1$ <b>\N{REPLACEMENT CHARACTER} (1)" in texts


def test_coverage_has_a_panel_where_it_was_measured() -> None:
    plain = [Sample(t, 0, t, 10 * t, None) for t in range(3)]
    assert "coverage, %" not in progress(plain)
    assert "coverage, %" in progress([Sample(t, 0, t, 10 * t, t / 4) for t in range(3)])
