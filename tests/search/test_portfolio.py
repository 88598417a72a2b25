"""Portfolios by name: ours, and functions that stand elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from falsifier.errors import InputError
from falsifier.search.portfolio import PORTFOLIOS, stages_of

OWN = '''"""A portfolio of one stage."""
from falsifier.search.stages.sampling import Sampling

number = 3

def portfolio():
    return [Sampling(0.5)]
'''


@pytest.mark.parametrize("name", sorted(PORTFOLIOS))
def test_stages_are_made_afresh(name: str) -> None:
    one, two = list(stages_of(name)), list(stages_of(name))
    assert [stage.name for stage in one] == [stage.name for stage in two]
    assert len({stage.name for stage in one}) == len(one)
    assert not {id(stage) for stage in one} & {id(stage) for stage in two}


def test_a_portfolio_of_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_portfolio.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    (stage,) = stages_of("own_portfolio:portfolio")
    assert (stage.name, stage.slice) == ("sampling", 0.5)
    with pytest.raises(InputError, match="no function 'number'"):
        stages_of("own_portfolio:number")
    with pytest.raises(InputError, match="no function 'other'"):
        stages_of("own_portfolio:other")


def test_what_is_not_there_is_said_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, says in (
        ("fast", "choose one of fuzzing, paper, restarts, standard, or module:function"),
        ("nowhere:portfolio", "no module 'nowhere'"),
        (":portfolio", "no name of a module"),
    ):
        with pytest.raises(InputError, match=says):
            stages_of(name)
    (tmp_path / "odd_portfolio.py").write_text("def eager(run):\n    return []\n\n\ndef none():\n    return None\n")
    with pytest.raises(InputError, match="called without arguments"):
        stages_of("odd_portfolio:eager")
    with pytest.raises(InputError, match="gives a NoneType"):
        stages_of("odd_portfolio:none")
    (tmp_path / "broken_portfolio.py").write_text("import not_there_either\n")
    with pytest.raises(ModuleNotFoundError, match="not_there_either"):  # the user's own mistake keeps its trace
        stages_of("broken_portfolio:portfolio")
