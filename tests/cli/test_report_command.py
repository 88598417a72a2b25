"""`falsifier report` as a command: a page of a real campaign, and one line for what cannot be used."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from shown_campaigns import campaign

from falsifier.cli import main

pytest.importorskip("matplotlib", reason="the extra [report]")
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def test_a_page_of_a_real_campaign(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "night"
    assert main(["campaign", str(EXAMPLES / "instances.csv"), "--max-evaluations", "2000", "--out", str(out)]) == 0
    capsys.readouterr()
    assert main(["report", str(out)]) == 0
    said = capsys.readouterr()
    assert said.out.strip() == str(out / "report.html")
    assert said.err == ""
    page = (out / "report.html").read_text()
    assert '<span class="tag sat">sat</span> 1' in page
    assert '<span class="tag unknown">unknown</span> 1' in page


def test_out_and_a_campaign_that_has_not_ended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, page = campaign(tmp_path, pictures=1, facts={"ended": None}), tmp_path / "page.html"
    assert main(["report", str(folder / "campaign.sqlite"), "--out", str(page), "--pictures", "0"]) == 0
    assert "has not ended" in capsys.readouterr().err
    assert "data:image/png" not in page.read_text()


@pytest.mark.parametrize("given", ["", "campaign.sqlite"])
def test_the_record_is_not_written_over(tmp_path: Path, capsys: pytest.CaptureFixture[str], given: str) -> None:
    record = campaign(tmp_path, pictures=0) / "campaign.sqlite"
    (tmp_path / "link.html").symlink_to(record)
    before = record.read_bytes()
    for out in (record, tmp_path / "link.html"):
        assert main(["report", str(record.parent / given), "--out", str(out)]) == 2
        assert f"--out {out}: a file of the campaign, which would be lost" in capsys.readouterr().err
    assert record.read_bytes() == before


@pytest.mark.parametrize("words", [["nowhere"], ["."], ["nowhere", "--pictures", "-1"]])
def test_what_cannot_be_used_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["report", *words]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_missing_library_names_the_extra(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    assert main(["report", str(campaign(tmp_path, pictures=0))]) == 1
    assert "vnn-falsifier[report]" in capsys.readouterr().err
