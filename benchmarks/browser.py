"""Pages in a headless Chromium: how they are laid out, and their picture, at any width, light or dark."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
from html import escape, unescape
from pathlib import Path

import msgspec

BROWSERS = ("chromium", "chromium-browser", "google-chrome")

NARROWEST = 500
"""No window of a Chromium is narrower: pages stand in a frame of their width."""

FRAME = """<!doctype html><meta name="color-scheme" content="light dark"><title></title>
<script>
const LETTERS = 9.5;
function read(frame) {
  const view = frame.contentWindow, page = view.document, root = page.documentElement, faults = [];
  const on = (a, b) => a.left < b.right && b.left < a.right && a.top + 2 < b.bottom && b.top + 2 < a.bottom;
  for (const svg of page.querySelectorAll("svg:not(.key)")) {
    const box = svg.getBoundingClientRect(), scale = box.width / svg.viewBox.baseVal.width, seen = [];
    for (const text of svg.querySelectorAll("text")) {
      const own = text.getBoundingClientRect(), name = text.textContent;
      if (parseFloat(view.getComputedStyle(text).fontSize) * scale < LETTERS) faults.push(`${name}: small letters`);
      if (own.left < box.left - 1 || own.right > box.right + 1 || own.top < box.top - 1 || own.bottom > box.bottom + 1)
        faults.push(`${name}: outside of its chart`);
      for (const [other, before] of seen) if (on(own, other)) faults.push(`${name}: overlaps ${before}`);
      seen.push([own, name]);
    }
  }
  for (const part of page.querySelectorAll("h1, h2, h3, h4, p, li, b, td, th, summary")) {
    const own = part.getBoundingClientRect();
    const cut = part.clientWidth && part.scrollWidth > part.clientWidth + 1;
    if (own.right > view.innerWidth + 1 || cut) faults.push(`${part.textContent.slice(0, 40)}: cut off`);
  }
  if (root.scrollWidth > view.innerWidth) faults.push("the page is wider than the window");
  document.title = JSON.stringify({width: view.innerWidth, height: root.scrollHeight, faults});
}
</script>
<body style="margin: 0"><iframe style="border: 0; display: block; width: WIDTHpx; height: HEIGHTpx"
 onload="read(this)" srcdoc="PAGE"></iframe>
"""


class Layout(msgspec.Struct, frozen=True):
    """The width and the height of a page in pixels, and what is wrong with it: text that is cut off, small, or on other
    text."""

    width: int
    height: int
    faults: list[str]


def browser() -> str | None:
    """A Chromium of the system, if there is one."""
    return next((found for name in BROWSERS if (found := shutil.which(name))), None)


def layout(page: Path, width: int, dark: bool = False) -> Layout:
    """How a page without scripts is laid out in a window of this width."""
    shown = _run(page, width, 900, dark, "--virtual-time-budget=5000", "--dump-dom")
    found = re.search("<title>({.*?)</title>", shown)
    if found is None:
        raise RuntimeError(f"the browser did not lay out {page}")
    return msgspec.convert(json.loads(unescape(found[1])), Layout)


def shoot(page: Path, picture: Path, width: int, dark: bool = False) -> Layout:
    """Write a picture (PNG) of the whole page, at least `NARROWEST` wide; returns how it is laid out."""
    found = layout(page, width, dark)
    _run(page, width, found.height, dark, f"--screenshot={picture.resolve()}")
    return found


def _run(page: Path, width: int, height: int, dark: bool, *flags: str) -> str:
    program = browser()
    if program is None:
        raise RuntimeError(f"no browser: none of {', '.join(BROWSERS)} is installed")
    frame = FRAME.replace("WIDTH", str(width)).replace("HEIGHT", str(height)).replace("PAGE", escape(page.read_text()))
    with tempfile.TemporaryDirectory() as folder:
        outer = Path(folder) / "frame.html"
        outer.write_text(frame)
        scheme = ["--blink-settings=preferredColorScheme=0"] if dark else []
        size = f"--window-size={max(width, NARROWEST)},{height}"
        profile = f"--user-data-dir={folder}/profile"
        words = [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", profile, size]
        words += [*scheme, *flags, outer.as_uri()]
        done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout
