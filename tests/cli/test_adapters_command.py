"""`falsifier adapters`, and names that `--then` refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import falsifier


def test_it_lists_adapters_and_names(tmp_path: Path) -> None:
    config = tmp_path / "adapters.toml"
    config.write_text('[mine]\nadapter = "standard_solver"\ncommand = "/no/such"\n[wrong]\nadapter = "nobody"\n')
    done = falsifier("adapters", "--config", str(config))
    assert done.returncode == 0, done.stderr
    lines = dict(line.split(maxsplit=1) for line in done.stdout.splitlines())
    assert lines["standard_solver"].startswith("not available: name its program in the configuration")
    assert lines["vnncomp_tool"].startswith("not available: name its folder")
    assert lines["mine"] == "not available: install /no/such: there is no such program"
    assert lines["wrong"].startswith("unusable: no adapter 'nobody'")


def test_a_name_that_is_nobody_s_is_refused_at_once() -> None:
    done = falsifier("verify", "examples/digits_robust.vnnlib", "--network", "examples/digits.onnx", "--then", "nobody")
    assert done.returncode == 2
    assert "nothing named 'nobody' to hand over to" in done.stderr


@pytest.mark.parametrize("words", [["--config", "adapters.toml"], ["--then-after", "3"]])
def test_settings_of_a_hand_off_that_nobody_asked_for(words: list[str]) -> None:
    done = falsifier("verify", "examples/digits_robust.vnnlib", "--network", "examples/digits.onnx", *words)
    assert done.returncode == 2
    assert done.stderr == f"falsifier: {words[0]} belongs to --then NAME, which is not given\n"
    assert done.stdout == ""


def test_the_time_of_a_verifier_that_is_missing_goes_to_the_search(tmp_path: Path) -> None:
    """The first search gets no time at all here."""
    config = tmp_path / "adapters.toml"
    config.write_text('[mine]\nadapter = "standard_solver"\ncommand = "/no/such"\n')
    instance = ["examples/digits_violated.vnnlib", "--network", "examples/digits.onnx", "--timeout", "20"]
    done = falsifier("verify", *instance, "--then", "mine", "--then-after", "0", "--config", str(config))
    assert done.stdout.startswith("sat\n")
    assert "is not available here: install /no/such" in done.stderr
