"""Headless Chromium as this machine has it, driven by playwright: for the report's test and its screenshots."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_QUIET = (
    "--no-sandbox",  # root in a container has none
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def chromium() -> str | None:
    """Where Chromium is, if it is installed."""
    return next((path for name in _NAMES if (path := shutil.which(name))), None)


@contextmanager
def browser() -> Iterator[Browser]:
    """A browser with an empty profile. Raises ImportError without playwright, FileNotFoundError without Chromium."""
    from playwright.sync_api import sync_playwright

    path = chromium()
    if path is None:
        raise FileNotFoundError(f"no Chromium is installed ({', '.join(_NAMES)})")
    with sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=path, args=list(_QUIET))
        try:
            yield started
        finally:
            started.close()
