"""The page as text: what it says, and that nothing from a file becomes part of its markup."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from recorded import Attempt, Instance, write_record
from shown_campaigns import campaign, open_instances

from falsifier.campaign.report.page import write_report
from falsifier.errors import InputError

pytest.importorskip("jinja2", reason="the extra [report]")
pytest.importorskip("matplotlib", reason="the extra [report]")

HOSTILE = "\"'><img src=x onerror=alert(1)></script><script>window.hacked=1</script>{{ 7 * 7 }}\x00\u202e"


class Page(HTMLParser):
    """Tags, addresses, and the text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.handlers: list[str] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            if name in ("src", "href", "action", "data", "srcset"):
                self.addresses.append(value or "")
            if name.startswith("on"):
                self.handlers.append(name)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())


def page_of(campaign_: Path, against: Path | None = None, pictures: int = 5) -> tuple[str, Page]:
    out = campaign_ / "report.html"
    write_report(campaign_, out, against, pictures)
    text = out.read_text(encoding="utf-8")
    return text, Page(text)


def test_a_page_has_every_section(tmp_path: Path) -> None:
    facts = {"settings": {"device": "cpu", "rng_seed": 7}, "command": {"instances": ["a.csv"]}, "machine": {"cores": 2}}
    _, page = page_of(campaign(tmp_path, facts=facts))
    for text in (
        "Where the verifier should look",
        "4 of 4 witnesses",
        "settings device cpu",
        "settings rng_seed 7",
        "command instances a.csv",
        "#3 (\N{MINUS SIGN}0.500)",
        "class 1",
    ):
        assert text in page.text
    assert page.tags.count("svg") == 4
    assert page.tags.count("img") == 9
    assert len(re.findall("data-f=", page_of(campaign(tmp_path / "again"))[0])) == 8


def test_the_page_leads_nowhere_and_runs_one_script(tmp_path: Path) -> None:
    text, page = page_of(campaign(tmp_path))
    assert all(address.startswith(("#", "data:image/png;base64,")) for address in page.addresses)
    assert not {"link", "iframe", "object", "embed", "base"} & set(page.tags)
    assert page.tags.count("script") == 1
    assert page.handlers == []
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    script = re.search(r"<script>(.*?)</script>", text, re.DOTALL)
    assert policy
    assert script
    digest = base64.b64encode(hashlib.sha256(script[1].encode()).digest()).decode()
    rules = policy[1].replace("&#39;", "'")
    assert rules.startswith("default-src 'none'; img-src data:; ")
    assert f"script-src 'sha256-{digest}';" in rules


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    attempts = [Attempt("error", reason=HOSTILE, margins=(-1.0,)), Attempt("sat", class_=HOSTILE, witness="w")]
    instances = [Instance(HOSTILE, HOSTILE, f"{HOSTILE}{i}", [attempt]) for i, attempt in enumerate(attempts)]
    samples = [(0.0, 0, 0, 1, None), (1.0, 0, 1, 2, None)]
    write_record(tmp_path / "one", instances, samples, {HOSTILE: HOSTILE, "settings": {HOSTILE: [HOSTILE]}})
    write_record(
        tmp_path / "two", [Instance(HOSTILE, HOSTILE, f"{HOSTILE}1", [Attempt("unsat")])], facts={"x": HOSTILE}
    )
    text, page = page_of(tmp_path / "one", tmp_path / "two")
    assert page.tags.count("script") == 1
    assert "img" not in page.tags
    assert page.handlers == []
    assert "\x00" not in text
    assert "\u202e" not in text
    assert "{{ 7 * 7 }}" in page.text
    assert "contradict" in page.text


def test_a_campaign_that_has_not_begun_or_not_ended(tmp_path: Path) -> None:
    write_record(tmp_path / "none", [], facts={"ended": None})
    assert "No instance was tried yet." in page_of(tmp_path / "none")[1].text
    waiting = [Instance(attempts=[]), Instance(vnnlib="b", attempts=[Attempt(None)]), Instance(vnnlib="c")]
    write_record(tmp_path / "some", waiting, facts={"ended": None})
    text = page_of(tmp_path / "some")[1].text
    assert "Not ended. 1 of 3 instances have an answer, 1 are at work" in text


def test_two_campaigns_on_one_page(tmp_path: Path) -> None:
    pytest.importorskip("scipy", reason="the extra [report]")
    here = [Instance(vnnlib=f"q{i}", attempts=[Attempt(seconds=1.0 + i)]) for i in range(6)]
    there = [Instance(vnnlib=f"q{i}", attempts=[Attempt(seconds=30.0 + i)]) for i in range(5)]
    there.append(Instance(vnnlib="q5", attempts=[Attempt("timeout")]))
    write_record(tmp_path / "here", here, facts={"settings": {"device": "cpu"}})
    write_record(tmp_path / "there", [*there, *open_instances(2)], facts={"settings": {"device": "cuda"}})
    text = page_of(tmp_path / "here", tmp_path / "there")[1].text
    assert "Against there" in text
    assert "6 instances are in both campaigns, 2 there alone" in text
    assert "faster here" in text
    assert "settings device cpu cuda" in text


def test_names_that_are_no_text_are_written_all_the_same(tmp_path: Path) -> None:
    write_record(tmp_path / "n", [Instance(vnnlib="q")], facts={"command": "a\udcff"})
    assert "a\N{REPLACEMENT CHARACTER}" in page_of(tmp_path / "n")[1].text


def test_a_page_that_cannot_be_written_is_one_line_and_leaves_nothing(tmp_path: Path) -> None:
    write_record(tmp_path / "n", [Instance()])
    with pytest.raises(InputError, match=r"cannot be written.*--out"):
        write_report(tmp_path / "n", tmp_path / "nowhere" / "report.html")
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match="cannot be written"):
        write_report(tmp_path / "n", tmp_path / "folder")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "n"]
