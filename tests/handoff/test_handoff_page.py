"""The worked example of docs/handoff.md: its adapter is found, keeps the contract, and decides an instance."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from falsifier.testing.adapters import small_instance

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """The example as a package that is installed: its files, and the metadata of its entry point."""
    text = (ROOT / "docs" / "handoff.md").read_text()
    blocks = re.findall(r"^```python\n# (\S+)\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    assert [name for name, _ in blocks] == ["my_verifier.py", "program.py", "test_my_verifier.py"]
    for name, body in blocks:
        (tmp_path / name).write_text(body)
    (announced,) = re.findall(
        r'^\[project\.entry-points\."falsifier\.adapters"\]\n(my_verifier.*)$', text, re.MULTILINE
    )
    metadata = tmp_path / "my_verifier-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: my-verifier\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[falsifier.adapters]\n{announced.replace(chr(34), '')}\n")
    return tmp_path


def run(package: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": f"{package}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-P", "-m", *arguments]
    return subprocess.run(command, cwd=package, env=environment, capture_output=True, text=True, check=False)


def test_it_is_found(package: Path) -> None:
    done = run(package, "falsifier", "adapters")
    assert re.search(r"^my_verifier +not available: set program", done.stdout, re.MULTILINE), done.stdout + done.stderr


def test_it_keeps_the_contract(package: Path) -> None:
    done = run(package, "pytest", "-q", "-p", "no:cacheprovider", "test_my_verifier.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "passed" in done.stdout


def test_it_decides_what_the_search_left(package: Path) -> None:
    """The search has no time of its own."""
    instance = small_instance(package, "violated")
    config = package / "adapters.toml"
    config.write_text('[my_verifier]\nprogram = "program.py"\n')
    words = ["verify", str(instance.query), "--network", str(instance.networks[0].path), "--timeout", "30"]
    done = run(package, "falsifier", *words, "--then-after", "0", "--then", "my_verifier", "--config", str(config))
    assert done.stdout.startswith("sat\n((X_0 "), done.stderr
    assert "my_verifier" in done.stderr


def test_the_settings_that_the_page_shows_are_taken(tmp_path: Path) -> None:
    from falsifier.handoff.configuration import adapter_of

    text = (ROOT / "docs" / "handoff.md").read_text()
    shown = re.findall(r"^```toml\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)[0]
    (tmp_path / "adapters.toml").write_text(shown)
    for name, kind in (("quick_proof", "auto_lirpa"), ("my_solver", "standard_solver"), ("abcrown", "vnncomp_tool")):
        assert adapter_of(name, tmp_path / "adapters.toml").name == kind
