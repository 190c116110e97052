"""The pictures in docs/pictures: every view that one shows is drawn, and the pages of docs/ link to all of them.

CLEAVE_PICTURES=1 writes them anew; they are pages of the command. Otherwise a picture only has to have the size of the
one that is kept, and something on it: a font or a plan may differ.
"""

import base64
import os
import pathlib
import re
import struct

import pytest
from browser import HEIGHT, WIDTH

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "pictures"
PAGES = [ROOT / "README.md", ROOT / "docs" / "guide" / "report.md"]
MOST_BYTES = 1_500_000

# Of each picture: the page, the address, and what is done there before it is taken.
PICTURES = {
    "summary": ("gpt12", "#summary", ""),
    "layers": ("gpt12", "#layers", ""),
    "layout": ("gpt12", "#layers", "document.querySelectorAll('.view:not([hidden]) button.drawing')[2].click()"),
    "timeline": ("gpt12", "#timeline", ""),
    "memory": ("gpt12", "#memory", ""),
    "collectives": ("gpt12", "#collectives", ""),
    "graph": ("gpt12", "#graph", ""),
    "op-dark": ("gpt12", "#graph&op=dot_general.3", "showInGraph(app.plans[0], app.plans[0].opPlaces.get('dot_general.3'))"),
    "front": ("front", "#front", ""),
    "discovery": ("cross", "#discovery", ""),
    "witness": ("cross", "#witnesses", ""),
}


def taken(chromium, pages, name):
    page, address, action = PICTURES[name]
    chromium.resize(WIDTH, HEIGHT)
    chromium.prefer("dark" if name.endswith("-dark") else "light")
    chromium.open(pages.page(page)[0], address)
    if action:
        chromium.run(action)
    chromium.run("document.activeElement?.blur()")  # the ring around what has the focus
    chromium.settle()
    picture = base64.b64decode(chromium.command("Page.captureScreenshot", format="png", optimizeForSpeed=False)["data"])
    assert chromium.console() == []
    return picture


def size_of(png):
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    return struct.unpack(">II", png[16:24])


def share_drawn(chromium, png):
    """Beside the header and the list of views, the share of pixels that have another colour than most."""
    chromium.driver.get("about:blank")
    return chromium.driver.execute_async_script(
        """
        const [data, done] = arguments, image = new Image();
        image.onload = () => {
          const canvas = document.createElement("canvas");
          [canvas.width, canvas.height] = [image.width, image.height];
          const context = canvas.getContext("2d");
          context.drawImage(image, 0, 0);
          const pixels = new Uint32Array(context.getImageData(180, 60, image.width - 180, image.height - 60).data.buffer);
          const counts = new Map();
          for (const pixel of pixels) counts.set(pixel, (counts.get(pixel) ?? 0) + 1);
          done(1 - Math.max(...counts.values()) / pixels.length);
        };
        image.onerror = () => done(0);
        image.src = "data:image/png;base64," + data""",
        base64.b64encode(png).decode())


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_shows_its_view(chromium, pages, name):
    picture, path = taken(chromium, pages, name), FOLDER / f"{name}.png"
    if os.environ.get("CLEAVE_PICTURES"):
        FOLDER.mkdir(exist_ok=True)
        path.write_bytes(picture)
    assert path.exists(), "CLEAVE_PICTURES=1 writes it"
    kept = path.read_bytes()
    assert size_of(picture) == size_of(kept) == (WIDTH, HEIGHT)
    for png in (picture, kept):
        assert share_drawn(chromium, png) > 0.02


def test_every_picture_is_in_a_page():
    linked = set()
    for page in PAGES:
        for target in re.findall(r"!\[[^\]]+\]\(([^)\s]+\.png)\)", page.read_text()):
            linked.add((page.parent / target).resolve())
    files = set(FOLDER.glob("*.png"))
    assert {path.stem for path in files} == set(PICTURES)
    assert linked == files
    assert sum(path.stat().st_size for path in files) < MOST_BYTES
