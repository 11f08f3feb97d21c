# SPDX-License-Identifier: Apache-2.0
"""Screenshots for the documentation, from a run of the demo: `python docs/images/make.py`; needs chromium.

demo.svg: live view; report.png: top of the report; events.png: its events; torus-demo.svg: live view of
`nanet torus demo`.
"""

from __future__ import annotations

import copy
import io
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from nanet.cli import app, demo
from nanet.run import live
from nanet.torus.demo import Demo
from nanet.torus.live import View
from PIL import Image, ImageChops
from rich.console import Console, RenderableType

from nanet import _core

HERE = Path(__file__).parent
WIDTH, TOP, TALL = 1150, 1540, 2400  # pixels
COLUMNS = 100
SHOWN_S = 8.5  # of the ten seconds


class Kept(live.View):
    """View that keeps its last state before SHOWN_S."""

    shown: live.View | None = None

    def update(self, *arguments: object) -> None:
        """Updates the view and keeps its state."""
        super().update(*arguments)
        if self.elapsed < SHOWN_S:
            Kept.shown = copy.deepcopy(self)


def svg(view: RenderableType, title: str = "./dev demo") -> str:
    """SVG of the view, without external fonts."""
    console = Console(width=COLUMNS, record=True, force_terminal=True, file=io.StringIO())
    console.print(view)
    text = console.export_svg(title=title, unique_id="live")
    text = re.sub(r"\s*@font-face \{.*?\}\n", "\n", text, flags=re.DOTALL)
    text = text.replace("Fira Code, monospace", "DejaVu Sans Mono, monospace, monospace")
    text = re.sub(r"<!-- .*? -->", f"<!-- The live view of {title} -->", text, count=1)
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


def torus_svg() -> str:
    """Live view of `nanet torus demo` in a transposition, with bit errors."""
    demo = Demo((4, 4, 4), _core.torus.timing("reliable"), iterations=60, word_rate=0.01)
    view = View(demo, "nanet torus demo: 4x4x4 nodes, reliable links, halo exchange, transposition, sum")
    for tick in demo.ticks():
        view.update(tick)
        if tick.errors_on and tick.loads.std() > 0.15:
            break
    return svg(view, "nanet torus demo")


def picture(page: Path, height: int) -> Image.Image:
    """Screenshot of the top of a page, light colour scheme."""
    shot = page.with_suffix(".png")
    subprocess.run(
        ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
         "--blink-settings=preferredColorScheme=1", f"--window-size={WIDTH},{height}",
         f"--screenshot={shot}", page.as_uri()],
        check=True, capture_output=True,
    )  # fmt: skip
    return Image.open(shot).convert("RGB")


def save(image: Image.Image, name: str) -> None:
    """Writes it with 256 colours, which is small."""
    few = image.quantize(256, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    few.save(HERE / name, optimize=True)


def main() -> None:
    """Runs the demo and writes the pictures beside this file."""
    (HERE / "torus-demo.svg").write_text(torus_svg(), encoding="utf-8")
    live.View, demo.LINE_S = Kept, demo.REFRESH_S
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sys.argv = ["nanet", "demo"]
        try:
            app.main(["demo", "--report", str(folder)])
        except SystemExit as end:
            if end.code:
                raise
        assert Kept.shown
        (HERE / "demo.svg").write_text(svg(Kept.shown), encoding="utf-8")
        save(picture(folder / "index.html", TOP), "report.png")
        text = (folder / "index.html").read_text(encoding="utf-8")
        events = text[text.index("<h2>Events</h2>") : text.index("<h2>The account</h2>")]
        page = folder / "events.html"
        head = text[: text.index("<body>")]
        page.write_text(f"{head}<body><main>{events}</main></body></html>", encoding="utf-8")
        whole = picture(page, TALL)
        plain = Image.new("RGB", whole.size, whole.getpixel((2, 2)))
        _, top, _, bottom = ImageChops.difference(whole, plain).getbbox()
        save(whole.crop((0, top - 24, WIDTH, bottom + 24)), "events.png")


if __name__ == "__main__":
    main()
