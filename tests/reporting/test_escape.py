"""Labels that could be anything, through every medium that shows them."""

import io
import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jinja2 import Environment

from reporting import escape
from reporting.curves import embedding_figure, label_figure, lines_figure
from reporting.data_card import labels_picture
from reporting.figures import drawing, legend_below, picture
from reporting.tables import Table

NASTY = [
    *("$5 to $9", "$x_$", "\\$5", "$\\frac{", "_hidden", "__", "%", "a|b", "`a|b`", "<script>alert(1)</script>"),
    *("<img src=x onerror=y>", "[x](javascript:y)", "\x1b[31mred", "\x1b]0;title\x07", "\a\b\r\n", "a\u202eb"),
    *("\ud800", "\x00", "\ufffe", "[bold]x[/]", "{x}", "\\", "\\input{x}", "&amp;", "~^#", " ", "語", "🦜", "x" * 500),
]
labels = st.one_of(st.sampled_from(NASTY), st.text(st.characters(codec=None, categories=None), min_size=1, max_size=30))
several = st.lists(labels, min_size=1, max_size=4, unique=True)
fast = settings(max_examples=100, deadline=None)
UNSHOWN = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@fast
@given(several)
def test_a_terminal_gets_no_order_and_every_row_is_a_line(names):
    table = Table("\n".join(names), ("label", "rows"), tuple((name, "1") for name in names))
    piped, terminal = io.StringIO(), Terminal()
    table.show(piped)
    table.show(terminal)
    assert not UNSHOWN.search(piped.getvalue()) and len(piped.getvalue().splitlines()) == 3 + len(names)
    own = re.sub(r"\x1b\[[\d;]*m", "", terminal.getvalue())  # rich's own colours
    assert not UNSHOWN.search(own)


@fast
@given(several)
def test_a_markdown_row_keeps_its_cells_and_holds_no_tag_and_no_link(names):
    text = Table("labels", ("label", "rows"), tuple((name, "1") for name in names)).markdown()
    rows = text.splitlines()[2:]
    assert len(rows) == 2 + len(names)
    assert {len(re.split(r"(?<!\\)\|", row)) for row in rows} == {4}
    assert not re.search(r"<[A-Za-z/!?]|[^\\]\]\(", text) and not UNSHOWN.search(text)


@fast
@given(labels)
def test_latex_holds_plain_text_alone(name):
    source = escape.for_latex(name)
    assert not UNSHOWN.search(source)
    for command in ("\\textbackslash{}", "\\textasciitilde{}", "\\textasciicircum{}", "\\dag{}", "\\dots{}"):
        source = source.replace(command, "")
    source = re.sub(r"\$(\\pm|\\delta|\\alpha|\\cdot|\\times|<|>)\$", "", source)
    assert not re.search(r"[&%$#_{}\\~^]", re.sub(r"\\[&%$#_{}]", "", source))


class Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags, self.text = [], ""

    def handle_starttag(self, tag, attributes) -> None:
        self.tags.append((tag, [name for name, _ in attributes]))

    def handle_data(self, data) -> None:
        self.text += data


@fast
@given(labels)
def test_html_shows_the_text_and_gains_no_element(name):
    environment = Environment(autoescape=True, finalize=escape.for_html)
    page = environment.from_string('<p title="{{ name }}">{{ name }}</p>').render(name=name)
    elements = Elements()
    elements.feed(page)
    assert elements.tags == [("p", ["title"])] and elements.text == escape.for_terminal(name)
    page.encode()


def texts_of(svg: Path) -> str:
    return " ".join(ElementTree.fromstring(svg.read_bytes()).itertext())


@pytest.mark.slow
@settings(fast, max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names=several)
def test_a_figure_shows_any_label(names, tmp_path):
    points = ([[0.0, 1.0]] * len(names), list(range(len(names))))
    card = {"name": names[0], "splits": {"train": {"class_counts": dict.fromkeys(names, 7), "ir": 1.0}}}
    title = " ".join(names)
    built = [
        embedding_figure({title: points}, dict(enumerate(names)), tmp_path / "points"),
        label_figure(dict.fromkeys(names, 3), None, title, tmp_path / "labels"),
        lines_figure({title: {name: {0: [0.5]} for name in names}}, "x", "%", tmp_path / "l", {title: names}),
        labels_picture(card, tmp_path / "card"),
    ]
    for svg in built:
        assert svg is not None and not UNSHOWN.search(texts_of(svg))
    assert texts_of(built[3]).split().count("7") >= len(names)


@pytest.mark.parametrize("name", ["$5 to $9", "_hidden", "<b>", "\\$5", "$a$ & $b$"])
def test_a_legend_names_every_class_as_it_is_written(name, tmp_path):
    svg = embedding_figure({"t": ([[0.0, 1.0], [1.0, 0.0]], [0, 1])}, {0: name, 1: "other"}, tmp_path / "f")
    assert name in texts_of(svg) and "other" in texts_of(svg)


def test_a_picture_that_fails_is_a_warning(capsys):
    @picture
    def draw() -> Path:
        raise ValueError("\nno such colour")

    assert draw() is None
    assert capsys.readouterr().err == "warning: a figure was not drawn (ValueError: no such colour)\n"


@pytest.mark.parametrize("number", [1, 3, 12])
@pytest.mark.parametrize("panels", [1, 3])
def test_a_legend_lies_within_its_figure(number, panels):
    with drawing(3.5, 3.0, panels) as (figure, axes):
        for place in range(number):
            axes[0].plot([0, 1], [0, place], label=f"macro-F1 on validation {place}")
        height = figure.get_figheight()
        legend = legend_below(figure, axes[0])
        figure.canvas.draw()
        box = legend.get_window_extent()
        assert box.x0 >= 0 and box.x1 <= figure.bbox.x1 and box.y0 >= 0
        assert axes[0].get_window_extent().height > 0.6 * height * figure.dpi, "the panel keeps its size"
