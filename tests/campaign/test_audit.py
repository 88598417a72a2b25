"""`check` over a folder: every witness judged, networks loaded once, what is missing told."""

from __future__ import annotations

import gzip
from pathlib import Path

import models
import pytest
from command import falsifier

from falsifier.campaign.audit import Finding, Word, audit_of_query, audit_of_rows, tally
from falsifier.campaign.plan import arranged, read_instances
from falsifier.cli import main
from falsifier.instance import parse_networks
from falsifier.network import reference
from falsifier.query import read

DEEP = "((X_0 0.75)\n(Y_0 0.75))\n"


def query(path: Path, least: float) -> None:
    path.write_text(models.declare(1, 1) + models.box(["0.1"], [1]) + f"(assert (>= Y_0 {least}))\n")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """y = x with three queries, y >= 0.2, 0.5 and 0.9 on [0.1, 1], and a table of them in `c/instances.csv`."""
    (tmp_path / "c").mkdir()
    models.save(models.identity(), tmp_path / "c/net.onnx")
    for name, least in (("a", 0.2), ("b", 0.5), ("c", 0.9)):
        query(tmp_path / f"c/{name}.vnnlib", least)
    rows = [f"net.onnx,{name}.vnnlib,10" for name in "abc"]
    (tmp_path / "c/instances.csv").write_text("\n".join(rows) + "\n")
    (tmp_path / "out/c").mkdir(parents=True)
    return tmp_path


def put(folder: Path, name: str, text: str | bytes) -> Path:
    path = folder / "out/c" / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def audited(folder: Path) -> dict[str, Finding]:
    jobs = arranged(read_instances(folder / "c/instances.csv"))
    found = list(audit_of_rows(jobs, folder / "out"))
    named = {Path(finding.subject).name: finding for finding in found}
    assert len(named) == len(found)
    return named


def words(found: dict[str, Finding]) -> dict[str, str]:
    return {name: finding.word.value for name, finding in found.items()}


def test_each_file_is_judged_by_the_row_it_is_named_after(folder: Path) -> None:
    put(folder, "net_a.counterexample", DEEP)
    put(folder, "net_b.counterexample.gz", gzip.compress(b"sat\n" + DEEP.encode()))
    put(folder, "net_c.counterexample", DEEP)
    put(folder, "net_d.counterexample", DEEP)
    put(folder, "notes.txt", "nothing to see")
    found = audited(folder)
    assert words(found) == {
        "net_d.counterexample": "unknown-row",
        "net_a.counterexample": "exact",
        "net_b.counterexample.gz": "exact",
        "net_c.counterexample": "rejected",
    }
    assert found["net_c.counterexample"].reason == "(>= Y_0 0.9) fails by 0.15"
    assert tally(found.values()) == "2 exact, 1 rejected, 1 unknown-row"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "holds no witness"),
        (b"unsat\n", "says 'unsat' and holds no witness"),
        (b"((X_0 1", "a 1.0 witness has the form"),
        (b"\xff\xfe", "line 1: cannot be read"),
        (gzip.compress(DEEP.encode(), mtime=0)[:-9], "damaged gzip file"),
    ],
)
def test_an_unreadable_file_is_one_line_and_costs_itself_alone(folder: Path, content: bytes, reason: str) -> None:
    put(folder, "net_a.counterexample", content)
    put(folder, "net_b.counterexample", DEEP)
    found = audited(folder)
    assert words(found)["net_b.counterexample"] == "exact"
    bad = found["net_a.counterexample"]
    assert bad.word is Word.UNREADABLE
    assert bad.reason.startswith(reason)
    assert "\n" not in str(bad)


def test_rows_without_a_witness_are_told(folder: Path) -> None:
    put(folder, "net_a.counterexample", DEEP)
    assert words(audited(folder)) == {
        "net_a.counterexample": "exact",
        "net.onnx b.vnnlib": "missing",
        "net.onnx c.vnnlib": "missing",
    }
    rows = ["c,net.onnx,a.vnnlib,0.1,sat,0.2", "c,./net.onnx,./b.vnnlib,0.1,sat,0.2", "c,net.onnx,c.vnnlib,0,unsat,1"]
    (folder / "out/results.csv").write_text("\n".join(rows) + "\n")
    assert words(audited(folder)) == {"net_a.counterexample": "exact", "net.onnx b.vnnlib": "claimed"}


def test_rows_that_repeat_a_pair_share_its_witness(folder: Path) -> None:
    put(folder, "net_a.counterexample", DEEP)
    (folder / "out/results.csv").write_text("c,net.onnx,a.vnnlib,0.1,error,0\nc,net.onnx,a.vnnlib,0.1,sat,0.2\n")
    for rows in ("net.onnx,a.vnnlib,never\nnet.onnx,a.vnnlib,10\n", "net.onnx,a.vnnlib,10\nnet.onnx,a.vnnlib,never\n"):
        (folder / "c/instances.csv").write_text(rows)
        assert words(audited(folder)) == {"net_a.counterexample": "exact"}


def test_a_row_whose_network_is_gone_names_it(folder: Path) -> None:
    put(folder, "net_a.counterexample", DEEP)
    (folder / "c/net.onnx").write_bytes(b"no model")
    assert "onnxruntime cannot load" in audited(folder)["net_a.counterexample"].reason


def test_a_network_is_loaded_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = []
    original = reference.Reference.__init__

    def counted(self: reference.Reference, *args: object, **more: object) -> None:
        loaded.append(args)
        original(self, *args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(reference.Reference, "__init__", counted)
    for name in "abc":
        put(folder, f"net_{name}.counterexample", DEEP)
    audited(folder)
    assert len(loaded) == 1
    for number in range(3):
        put(folder, f"{number}.txt", "sat\n" + DEEP)
    path = folder / "c/a.vnnlib"
    found = list(audit_of_query(lambda: read(path), parse_networks([str(folder / "c/net.onnx")]), folder / "out"))
    assert [finding.word for finding in found] == [Word.EXACT] * 6
    assert len(loaded) == 2


def test_the_command_over_a_table(folder: Path) -> None:
    put(folder, "net_a.counterexample", DEEP)
    put(folder, "net_b.counterexample", DEEP)
    arguments = ["check", "out", "--instances", "c/instances.csv"]
    done = falsifier(*arguments, cwd=folder)
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        "exact out/c/net_a.counterexample - every assertion holds as written",
        "exact out/c/net_b.counterexample - every assertion holds as written",
        "missing net.onnx c.vnnlib - no witness",
    ]
    assert done.stderr == "falsifier: 2 exact, 1 missing\n"
    put(folder, "net_c.counterexample", DEEP)
    assert falsifier(*arguments, cwd=folder).returncode == 1


def test_the_command_over_a_folder_of_one_query(folder: Path) -> None:
    falsifier("verify", "c/a.vnnlib", "--network", "c/net.onnx", "--assignments", "out/tensors", cwd=folder)
    put(folder, "1.counterexample", DEEP)
    done = falsifier("check", "c/a.vnnlib", "out", "--network", "c/net.onnx", cwd=folder)
    assert (done.returncode, done.stderr) == (0, "falsifier: 2 exact\n")
    put(folder, "2.counterexample", "((X_0 0.125))")
    done = falsifier("check", "c/a.vnnlib", "out", "--network", "c/net.onnx", cwd=folder)
    assert (done.returncode, done.stderr) == (1, "falsifier: 2 exact, 1 rejected\n")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["out", "--instances", "c/instances.csv"], "holds no witness"),
        (["missing", "--instances", "c/instances.csv"], "no folder of witnesses"),
        (["out", "--instances", "c/none.csv"], "cannot be read"),
        (["c/a.vnnlib", "out", "--instances", "c/instances.csv"], "rows name their queries"),
        (["c/a.vnnlib"], "give QUERY and WITNESS"),
        (["c/a.vnnlib", "out", "--network", "c/net.onnx"], "holds no witness"),
    ],
)
def test_bad_arguments_are_one_line(
    folder: Path,
    arguments: list[str],
    text: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(folder)
    assert main(["check", *arguments]) == 2
    stdout, stderr = capfd.readouterr()
    assert stdout == ""
    assert text in stderr
    assert stderr.count("\n") == 1
