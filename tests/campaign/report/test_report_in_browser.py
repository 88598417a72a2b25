"""The page in headless Chromium: the table, the plots, the pictures, and that it asks nobody for anything."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from browser import browser, chromium
from recorded import Attempt, Instance, write_record
from shown_campaigns import campaign, image_instance

from falsifier.campaign.report.page import write_report

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

for library in ("jinja2", "matplotlib", "playwright"):
    pytest.importorskip(library, reason="the extras [report] and [test]")

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(chromium() is None, reason="no Chromium is installed: apt-get install chromium"),
]


@dataclass
class Opened:
    """A page, what it asked for beside itself, and what its console said."""

    page: Page
    requests: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def rows(self, column: int) -> list[str]:
        return self.page.locator(f"#table tbody td:nth-child({column})").all_inner_texts()

    def shown(self) -> str:
        return self.page.locator("#shown").inner_text()


@pytest.fixture(scope="module")
def engine() -> Iterator[Browser]:
    with browser() as started:
        yield started


def opened(engine: Browser, path: Path, *, scripts: bool = True, width: int = 1200) -> Opened:
    page = engine.new_page(java_script_enabled=scripts, viewport={"width": width, "height": 900})
    out = Opened(page)
    page.on("request", lambda request: out.requests.append(request.url))
    page.on("console", lambda message: out.said.append(message.text))
    page.on("pageerror", lambda error: out.said.append(str(error)))
    page.goto(path.as_uri())
    out.requests = [url for url in out.requests if url != path.as_uri() and not url.startswith("data:")]
    return out


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = campaign(tmp_path_factory.mktemp("campaign"), open_=60)
    write_report(folder, folder / "report.html")
    return folder / "report.html"


def test_the_table_sorts_and_filters_and_turns_its_pages(engine: Browser, report: Path) -> None:
    from playwright.sync_api import expect

    at = opened(engine, report)
    assert at.shown() == "1 to 25 of 64"
    at.page.get_by_role("button", name="s", exact=True).click()
    assert at.page.locator("th[aria-sort=ascending]").inner_text() == "s"
    assert at.rows(1)[:3] == ["1", "4", "2"]  # 0.75, 1.5 and 1.75 s
    at.page.get_by_role("button", name="s", exact=True).press("Enter")
    assert at.page.locator("th[aria-sort=descending]").count() == 1
    assert at.rows(4)[0] == "open_59.vnnlib"
    at.page.get_by_role("button", name="Margin").click()
    assert at.rows(4)[0] == "open_2.vnnlib"  # the first of many at -2
    assert float(at.rows(9)[0].replace("\N{MINUS SIGN}", "-")) == pytest.approx(-2)
    at.page.get_by_role("button", name="Next").click()
    assert at.shown() == "26 to 50 of 64"
    at.page.get_by_label("Verdict", exact=True).select_option("sat")
    assert at.shown() == "1 to 4 of 4 (64 in all)"
    at.page.get_by_label("Family", exact=True).select_option(label="images (3)")
    assert set(at.rows(2)) == {"images"}
    at.page.get_by_label("Search", exact=True).fill("image_1 EXACT")
    expect(at.page.locator("#shown")).to_contain_text("1 to 1 of 1")
    assert at.rows(4) == ["image_1.vnnlib"]
    at.page.get_by_label("Search", exact=True).fill("no such text")
    expect(at.page.locator("#shown")).to_contain_text("no instance")
    assert at.rows(1) == []
    assert (at.requests, at.said) == ([], [])


def test_plots_and_pictures_are_there(engine: Browser, report: Path) -> None:
    at = opened(engine, report)
    plots = at.page.locator("figure.plot svg")
    assert plots.count() == 4
    for i in range(4):
        box = plots.nth(i).bounding_box()
        assert box is not None
        assert box["width"] > 400
        assert box["height"] > 80
        assert plots.nth(i).locator("path").count() > 5
    assert at.page.locator("#time svg use title").first.text_content() == "1. image.onnx image_0.vnnlib: 0.75 s"
    levels = at.page.evaluate(
        """async () => {
            const pictures = Array.from(document.querySelectorAll(".triple img"));
            await Promise.all(pictures.map((picture) => picture.decode()));
            return pictures.slice(0, 3).map((picture) => {
                const canvas = document.createElement("canvas");
                [canvas.width, canvas.height] = [picture.naturalWidth, picture.naturalHeight];
                const ink = canvas.getContext("2d", { willReadFrequently: true });
                ink.drawImage(picture, 0, 0);
                const at = (x) => ink.getImageData(x, 0, 1, 1).data[0];
                return [canvas.width, at(0), at(7)];
            });
        }"""
    )
    assert levels == [[8, 128, 112], [8, 96, 143], [8, 0, 255]]  # 0.5 and 0.4375, either moved by 0.125
    assert (at.requests, at.said) == ([], [])


def test_it_reads_without_javascript_and_on_a_narrow_screen(engine: Browser, report: Path) -> None:
    plain = opened(engine, report, scripts=False)
    assert plain.page.locator("#table tbody tr").count() == 64
    assert not plain.page.locator("#filters").is_visible()
    narrow = opened(engine, report, width=360)
    assert narrow.page.evaluate("document.documentElement.scrollWidth") <= 360


def test_hostile_text_runs_nothing(engine: Browser, tmp_path: Path) -> None:
    evil = "</td><img src='http://127.0.0.1:9/x.png' onerror='window.hacked=1'><script>window.hacked=1</script>"
    shown = image_instance(tmp_path)
    attempts = [Attempt("sat", reason=evil, witness=shown.attempts[0].witness, class_=evil)]
    named = replace(shown, category=evil, onnx=evil, vnnlib=evil, attempts=attempts)
    write_record(
        tmp_path / evil.replace("/", "_"), [named, Instance(evil, evil, f"{evil}2")], facts={"settings": {evil: evil}}
    )
    folder = tmp_path / evil.replace("/", "_")
    write_report(folder, tmp_path / "report.html", folder)
    at = opened(engine, tmp_path / "report.html")
    at.page.get_by_label("Search", exact=True).fill("script")
    assert at.page.evaluate("window.hacked") is None
    assert at.page.locator(".triple img").count() == 3
    assert (at.requests, at.said) == ([], [])


def test_the_policy_itself_forbids_what_would_slip_through(engine: Browser, report: Path) -> None:
    at = opened(engine, report)
    at.page.evaluate(
        """() => {
            const script = document.createElement("script");
            script.textContent = "window.hacked = 1";
            document.body.append(script);
            const picture = document.createElement("img");
            picture.src = "http://127.0.0.1:9/x.png";
            document.body.append(picture);
        }"""
    )
    assert at.page.evaluate("window.hacked") is None
    assert at.page.evaluate("fetch('http://127.0.0.1:9/').then(() => 'sent', () => 'refused')") == "refused"
    assert len([text for text in at.said if "Content Security Policy" in text]) >= 3


def test_ten_thousand_rows(engine: Browser, tmp_path: Path) -> None:
    many = [Instance(f"f{i % 7}", "n.onnx", f"q{i}", [Attempt("timeout", seconds=float(i))]) for i in range(10_000)]
    write_record(tmp_path, many)
    write_report(tmp_path, tmp_path / "report.html")
    at = opened(engine, tmp_path / "report.html")
    assert at.shown() == "1 to 25 of 10000"
    seconds = at.page.get_by_role("button", name="s", exact=True)
    seconds.click()
    seconds.click()
    assert at.rows(4)[:2] == ["q9999", "q9998"]
    assert (tmp_path / "report.html").stat().st_size < 6_000_000
    assert (at.requests, at.said) == ([], [])
