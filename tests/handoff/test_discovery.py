"""Adapters by name: entry points, and the tables of a configuration."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from falsifier.errors import InputError
from falsifier.handoff import configuration, discovery


def test_the_bundled_adapters_are_announced() -> None:
    assert {"standard_solver", "vnncomp_tool"} <= set(discovery.found())


def test_a_name_that_nothing_announces() -> None:
    with pytest.raises(InputError, match=r"no adapter 'nobody': choose one of .*standard_solver"):
        discovery.make("nobody", {})


def test_an_adapter_that_cannot_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = EntryPoint("broken", "no_such_module:Adapter", discovery.GROUP)
    monkeypatch.setattr(discovery, "found", lambda: {"broken": broken})
    with pytest.raises(InputError, match="adapter 'broken' cannot be loaded from no_such_module:Adapter"):
        discovery.make("broken", {})


def test_a_table_names_its_adapter(tmp_path: Path) -> None:
    path = tmp_path / "adapters.toml"
    path.write_text('[mine]\nadapter = "standard_solver"\ncommand = "/opt/mine --fast"\nshare = 0.5\n')
    adapter = configuration.adapter_of("mine", path)
    assert (adapter.name, adapter.share) == ("standard_solver", 0.5)
    assert configuration.adapter_of("standard_solver", path).share == 0.25


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[mine\n", "is no TOML"),
        ("mine = 3\n", "'mine' stands outside of a table"),
        ('[mine]\nadapter = "standard_solver"\nspeed = 3\n', "adapter standard_solver: no setting 'speed'"),
        ('[mine]\nadapter = "standard_solver"\nshare = 2\n', "share = 2, expected a positive number up to 1"),
        ('[mine]\nadapter = "standard_solver"\ncommand = 2\n', "command = 2, expected text or a list"),
        ('[mine]\nadapter = "nobody"\n', "no adapter 'nobody'"),
        ('[other]\nadapter = "standard_solver"\n', "nothing named 'mine' to hand over to: choose one of other, "),
    ],
)
def test_a_configuration_that_cannot_be_used(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "adapters.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        configuration.adapter_of("mine", path)


def test_a_configuration_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        configuration.adapter_of("mine", tmp_path / "nothing.toml")
