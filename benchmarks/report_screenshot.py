"""A picture of a campaign's report: `report_screenshot.py CAMPAIGN OUT.png [--height 1000] [--section witnesses]`.

Needs the extra [test] and Chromium. Prints the size of the picture as JSON.
"""

from __future__ import annotations

import argparse
import io
import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from browser import browser

from falsifier.campaign.report.page import write_report

if TYPE_CHECKING:
    from playwright.sync_api import FloatRect


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("campaign", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--against", type=Path)
    parser.add_argument("--width", type=int, default=1180)
    parser.add_argument("--height", type=int, default=0, help="pixels from the top (default: the whole page)")
    parser.add_argument("--dark", action="store_true")
    parser.add_argument("--section", help="the id of a section, to show that alone")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        write_report(options.campaign, page, options.against)
        data = shot(page, options)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_bytes(packed(data))
    print(json.dumps({"picture": str(options.out), "bytes": options.out.stat().st_size}))


def shot(page: Path, options: argparse.Namespace) -> bytes:
    """The page as PNG."""
    with browser() as chromium:
        view = chromium.new_page(
            viewport={"width": options.width, "height": options.height or 900},
            color_scheme="dark" if options.dark else "light",
        )
        view.goto(page.as_uri())
        if not options.section:
            return view.screenshot(full_page=not options.height)
        box = view.locator(f"#{options.section}").bounding_box()
        if box is None:
            raise SystemExit(f"the page has no section {options.section}")
        height = min(box["height"], options.height or box["height"])
        clip: FloatRect = {"x": 0, "y": box["y"] - 16, "width": options.width, "height": height + 16}
        return view.screenshot(full_page=True, clip=clip)


def packed(data: bytes) -> bytes:
    """The same with 256 colours, which a page of text does not miss."""
    from PIL import Image

    out = io.BytesIO()
    Image.open(io.BytesIO(data)).convert("RGB").quantize(256).save(out, format="PNG", optimize=True)
    return out.getvalue()


if __name__ == "__main__":
    main()
