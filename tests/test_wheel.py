"""The built wheel holds everything that is imported, and imports in an environment that has only the dependencies."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = folder.glob("vnn_falsifier-*.whl")
    return built


def test_the_wheel_holds_both_packages_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"falsifier", "falsifier_adapters"}
    assert "falsifier/py.typed" in names
    assert "falsifier_adapters/py.typed" in names
    modules = {p.relative_to(ROOT).as_posix() for p in (ROOT / "falsifier").rglob("*.py")}
    assert modules <= set(names)
    assert {f"falsifier/campaign/report/page.{end}" for end in ("html", "css", "js")} <= set(names)


def test_every_module_of_the_wheel_imports(wheel: Path, tmp_path: Path) -> None:
    """From the unpacked wheel, with the repository out of reach."""
    target = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(target)
    program = (
        "import importlib, pkgutil, sys\n"
        f"sys.path.insert(0, {str(target)!r})\n"
        "import falsifier, falsifier_adapters\n"
        f"assert falsifier.__file__.startswith({str(target)!r}), falsifier.__file__\n"
        "for package in (falsifier, falsifier_adapters):\n"
        "    for module in pkgutil.walk_packages(package.__path__, package.__name__ + '.'):\n"
        "        if not module.name.endswith('__main__'):\n"
        "            importlib.import_module(module.name)\n"
        "print(falsifier.__version__)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    assert f"vnn_falsifier-{done.stdout.strip()}-" in wheel.name
