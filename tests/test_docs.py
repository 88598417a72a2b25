"""Pages say what is there: links, anchors, options, paths, generated pages. They build as a site without a network."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest
import reference
from shown import ROOT

DOCS = ROOT / "docs"
PAGES = [*sorted(DOCS.rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
TOPS = "falsifier|adapters|tests|benchmarks|docs|vnncomp_scripts|examples"
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*[a-z]")

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())


def prose(page: Path) -> str:
    """The text without fenced blocks."""
    return FENCED.sub("", page.read_text())


@cache
def anchors(page: Path) -> frozenset[str]:
    """As forges and site generators make them of headings, where both agree."""
    found = []
    for heading in re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE):
        kept = re.sub(r"[^\w\s-]", "", re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)).strip().lower()
        found += [kept.replace(" ", "-")] if re.sub(r"[-\s]+", "-", kept) == kept.replace(" ", "-") else []
    return frozenset(found)


@each_page
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        path = (page.parent / name).resolve() if name else page
        assert path.is_file() or (page.parent == ROOT and path.is_dir()), target
        assert not page.is_relative_to(DOCS) or path.is_relative_to(DOCS), f"{target}: would be no page of the site"
        assert not anchor or anchor in anchors(path), f"{target}: no such heading"


@cache
def options() -> dict[str, set[str]]:
    """Those of each command; under "" those of benchmarks, and of other programs that pages show."""
    made = {
        name: {o for a in parser._actions for o in a.option_strings} for name, parser in reference.parsers().items()
    }
    scripts = "".join(path.read_text() for path in (ROOT / "benchmarks").glob("*.py"))
    return made | {"": {"--version", "--name", "--array", *re.findall(r'"(--[a-z-]+)"', scripts)}}


@each_page
def test_options_are_there(page: Path) -> None:
    """Every option that a page names belongs to something; after `falsifier COMMAND` to that command."""
    every = set().union(*options().values())
    text = page.read_text()
    assert not set(OPTION.findall(text)) - every
    for command, words in re.findall(r"\bfalsifier (\w+)((?: [^`|&#;\n]*)?(?:\\\n[^`|&#;\n]*)*)", text):
        if command in options():
            named = set(OPTION.findall(words))
            assert named <= options()[command], f"falsifier {command}: {named - options()[command]}"


@each_page
def test_paths_are_there(page: Path) -> None:
    """Files and folders of the repository, and modules, that stand in code."""
    for code in re.findall(r"`([^`\n]+)`", prose(page)):
        for path in re.findall(rf"(?<![\w./-])(?:{TOPS})/[\w./<-]*", code):
            named = path.partition("<")[0]
            assert "/x/" in path or any(ROOT.glob(f"{named}*" if "<" in path else named)), path
    for name in re.findall(r"`(falsifier(?:\.\w+)+)", prose(page)):
        assert name == "falsifier.adapters" or _module_or_member(name), name


def _module_or_member(name: str) -> bool:
    """Whether a dotted name is a module, or something in one."""
    above, _, last = name.rpartition(".")
    try:
        return find_spec(name) is not None or hasattr(__import__(above, fromlist=[last]), last)
    except ModuleNotFoundError:
        return hasattr(__import__(above, fromlist=[last]), last)


def test_every_mechanism_of_the_papers_has_its_row() -> None:
    rows = re.findall(r"^\| ([AB]\d+\+?) \|", (DOCS / "papers.md").read_text(), re.MULTILINE)
    assert rows == [*(f"A{i}" for i in range(1, 15)), "A14+", *(f"A{i}" for i in range(15, 21))] + [
        f"B{i}" for i in range(1, 8)
    ]


def test_generated_pages_are_those_of_today() -> None:
    """Else run `python docs/reference.py`."""
    assert reference.PAGE.read_text() == reference.text()
    assert reference.DECISIONS.read_text() == reference.decisions()


def test_the_reference_has_every_command_and_variable() -> None:
    from falsifier.cli import COMMANDS

    text = reference.PAGE.read_text()
    assert tuple(re.findall(r"^## falsifier (\w+)$", text, re.MULTILINE)) == COMMANDS
    sources = [*(ROOT / "falsifier").rglob("*.py"), *(ROOT / "vnncomp_scripts").glob("*.sh")]
    variables = {v for path in sources for v in re.findall(r"\bFALSIFIER_[A-Z_]+", path.read_text())}
    assert variables
    assert not {v for v in variables if f"`{v}`" not in text}


def test_every_benchmark_has_its_line() -> None:
    scripts = {p.name for p in (ROOT / "benchmarks").glob("*.py") if '__name__ == "__main__"' in p.read_text()}
    text = (DOCS / "performance.md").read_text()
    assert scripts
    assert not {name for name in scripts if f"benchmarks/{name}" not in text}


@each_page
def test_blocks_stand_apart(page: Path) -> None:
    """Lists, tables and blocks of code begin after an empty line: forges see them without, site generators do not."""
    before = ""
    for line in prose(page).splitlines():
        starts = re.match(r"(- |\d+\. |\||    \S)", line)
        goes_on = not before.strip() or re.match(r"(- |\d+\. |\||  )", before)
        assert not starts or goes_on, line
        before = line
    assert not re.findall(r"^```\w+ .*", page.read_text(), re.MULTILINE), "a fence names its language and no more"


@pytest.mark.skipif(find_spec("mkdocs") is None, reason="mkdocs comes with the extra [docs]")
def test_the_site_builds_and_needs_no_network(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--config-file",
        ".ci/mkdocs.yml",
        "--site-dir",
        str(tmp_path / "site"),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    fetched = dict(_fetched(tmp_path / "site"))
    assert "index.html" in fetched
    assert not {name: urls for name, urls in fetched.items() if urls}


def _fetched(site: Path) -> Iterator[tuple[str, list[str]]]:
    """What each page or style sheet would fetch from elsewhere."""
    for path in [*site.rglob("*.html"), *site.rglob("*.css")]:
        text = path.read_text()
        urls = re.findall(r"<(?:script|link|img|iframe)[^>]*?(?:src|href)=[\"'](?:https?:)?(//[^\"']*)", text)
        yield (
            path.relative_to(site).as_posix(),
            urls + re.findall(r"(?:url\(|@import )[\"']?(?:https?:)?(//[^\"')]*)", text),
        )
