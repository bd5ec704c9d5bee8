"""What every figure is drawn with: colours, panels, legend, files. A picture never fails what it is a picture of."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any, ParamSpec

from storage.files import replacing, write_text
from storage.run_store import first_line

# Okabe and Ito's palette: told apart by the colour-blind and in grey
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")
MARKERS = "osD^vP"
DASHES = ("-", "--", "-.", ":")  # told apart in grey print
PANELS_A_ROW = 3
PLACES = re.compile(r' (?:d|x|y)="[^"]*"')  # attributes of SVG elements; no text that is shown, no scale
# two or more <use> elements in a row with one style
EQUAL_MARKERS = re.compile(
    r'(?P<all> *<use [^>]*style="(?P<style>[^"]*)"/>\n(?: *<use [^>]*style="(?P=style)"/>\n)+)'
)

P = ParamSpec("P")


def picture(draw: Callable[P, Path | None]) -> Callable[P, Path | None]:
    """Of a function that draws a figure: what goes wrong in it is said in one line, and there is no figure."""

    @wraps(draw)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> Path | None:
        try:
            return draw(*args, **kwargs)
        except Exception as error:
            print(f"warning: a figure was not drawn ({type(error).__name__}: {first_line(error)})", file=sys.stderr)
            return None

    return wrapper


@contextmanager
def drawing(
    width: float, height: float, panels: int = 1, panels_a_row: int = PANELS_A_ROW
) -> Iterator[tuple[Any, Any]]:
    """A figure of so many panels, each of this size in inches; the same content is the same file."""
    import matplotlib
    from matplotlib.figure import Figure

    with (
        matplotlib.rc_context({"svg.hashsalt": "kontrast", "font.size": 9, "svg.fonttype": "none"}),
        warnings.catch_warnings(),
    ):
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")  # a label in another script
        columns = min(panels, panels_a_row)
        rows = -(-panels // columns)
        figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False).ravel()
        for empty in axes[panels:]:
            empty.remove()
        yield figure, axes[:panels]


def legend_below(figure: Any, panel: Any, most_columns: int = 99, **options: Any) -> Any:
    """The legend of `panel` under all panels, in as few rows as fit the figure's width; the figure grows for it."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    handles, names = panel.get_legend_handles_labels()
    renderer = FigureCanvasAgg(figure).get_renderer()
    for columns in range(min(len(names), most_columns), 0, -1):
        place = {"loc": "outside lower center", "ncols": columns, "frameon": False}
        legend = figure.legend(handles, names, **place, **options)
        box = legend.get_window_extent(renderer)
        if columns == 1 or box.width <= figure.bbox.width:
            break
        legend.remove()
    else:
        return None
    rows = -(-len(names) // columns)
    figure.set_figheight(figure.get_figheight() + (rows - 1) * box.height / rows / figure.dpi)
    return legend


def save(figure: Any, file: Path) -> Path:
    """Write .svg, .pdf and .png beside each other; returns the SVG."""
    file.parent.mkdir(parents=True, exist_ok=True)
    drawn = StringIO()
    figure.savefig(drawn, format="svg", metadata={"Date": None})
    write_text(file.with_suffix(".svg"), compact_svg(drawn.getvalue()))
    drawn_pdf, drawn_png = BytesIO(), BytesIO()
    figure.savefig(drawn_pdf, format="pdf", metadata={"CreationDate": None})
    figure.savefig(drawn_png, format="png", dpi=100)
    for suffix, data in ((".pdf", drawn_pdf.getvalue()), (".png", compact_png(drawn_png.getvalue()))):
        with replacing(file.with_suffix(suffix)) as written:
            written.write(data)
    return file.with_suffix(".svg")


def compact_png(data: bytes) -> bytes:
    """The same picture in 256 colours: a third of the bytes."""
    from PIL import Image

    packed = BytesIO()
    colours = Image.open(BytesIO(data)).convert("RGB").quantize(256, dither=Image.Dither.NONE)
    colours.save(packed, "PNG", optimize=True)
    return packed.getvalue()


def compact_svg(text: str) -> str:
    """The same picture in fewer bytes: no metadata, hundredths of a point, and one style a group of equal markers."""
    text = re.sub(r" *<metadata>.*?</metadata>\n", "", text, flags=re.DOTALL)
    text = PLACES.sub(lambda place: re.sub(r"\d+\.\d{3,}", _rounded, place[0]), text)
    return EQUAL_MARKERS.sub(_grouped, text)


def _rounded(number: re.Match[str]) -> str:
    return f"{float(number[0]):.2f}".rstrip("0").rstrip(".")


def _grouped(markers: re.Match[str]) -> str:
    plain = markers["all"].replace(f' style="{markers["style"]}"', "")
    return f'<g style="{markers["style"]}">\n{plain}</g>\n'
