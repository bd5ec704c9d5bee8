"""Small pictures in SVG, drawn into the page: nothing is fetched, and texts of data are escaped."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup, escape

from reporting.escape import for_terminal, shortened

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 460, 300, 46, 40, 26, 18
BAR_WIDTH = 120
TIMES = (0.01, 0.1, 1, 10, 60, 600, 3600, 36000)  # seconds that are marked


@dataclass
class Chart:
    """A frame with two axes, in the units of what it shows.

    Attributes:
        x_range, y_range: lowest and highest value.
        x_title, y_title: under and above the axes.
        log_x: whether x goes by powers of ten; x_range is then above 0.
    """

    x_range: tuple[float, float]
    y_range: tuple[float, float]
    x_title: str
    y_title: str
    log_x: bool = False
    marks: list[Markup] = field(default_factory=list)

    def x(self, value: float) -> float:
        low, high = (math.log10(end) if self.log_x else end for end in self.x_range)
        value = math.log10(value) if self.log_x else value
        return LEFT + (WIDTH - LEFT - RIGHT) * (value - low) / ((high - low) or 1)

    def y(self, value: float) -> float:
        low, high = self.y_range
        return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * (value - low) / ((high - low) or 1)

    def line(self, points: Sequence[tuple[float, float]], css: str) -> None:
        path = " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in points)
        self.marks.append(Markup('<polyline class="{}" points="{}"/>').format(css, path))

    def dot(self, x: float, y: float, css: str, title: str, radius: float = 4.5) -> None:
        mark = Markup('<circle class="{}" cx="{:.1f}" cy="{:.1f}" r="{:.1f}"><title>{}</title></circle>')
        self.marks.append(mark.format(css, self.x(x), self.y(y), radius, for_terminal(title)))

    def text(self, x: float, y: float, text: str, css: str = "", anchor: str = "start") -> None:
        """In pixels."""
        mark = Markup('<text class="{}" x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>')
        self.marks.append(mark.format(css, x, y, anchor, for_terminal(text)))

    def svg(self, label: str, x_ticks: Sequence[float], x_format: Callable[[float], str]) -> Markup:
        """The whole picture; `label` is what a screen reader says."""
        frame = Chart(self.x_range, self.y_range, "", "", self.log_x)
        for value in ticks(*self.y_range):
            frame.line([(self.x_range[0], value), (self.x_range[1], value)], "grid")
            frame.text(LEFT - 6, self.y(value) + 4, f"{100 * value:.0f} %", "tick", "end")
        for value in x_ticks:
            frame.text(self.x(value), HEIGHT - BOTTOM + 16, x_format(value), "tick", "middle")
        frame.text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, self.x_title, "tick", "middle")
        frame.text(6, 12, self.y_title, "tick")
        body = Markup("").join([*frame.marks, *self.marks])
        return Markup('<svg viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>').format(WIDTH, HEIGHT, label, body)


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round values from `low` to `high`, at most `most`."""
    span = high - low
    if span <= 0:
        return [low]
    steps = (size * 10.0**power for power in range(-4, 9) for size in (1, 2, 5))
    step = next(step for step in steps if span / step <= most - 1)
    first = math.ceil(low / step - 1e-9)
    return [step * number for number in range(first, int(math.floor(high / step + 1e-9)) + 1)]


def seconds_text(seconds: float) -> str:
    """As "0.2 s", "40 s", "12 min", "3 h"."""
    for size, unit in ((3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.2g} {unit}"
    return f"{seconds:.2g} s"


def interval_bar(value: float, lower: float, upper: float, low: float, css: str = "") -> Markup:
    """An interval between `low` and 1, with the value on it."""

    def at(share: float) -> float:
        return BAR_WIDTH * (max(share, low) - low) / (1 - low or 1)

    mark = Markup(
        '<svg class="bar {}" viewBox="0 0 {} 14" aria-hidden="true"><line class="axis" x1="0" x2="{}" y1="7" y2="7"/>'
        '<line class="span" x1="{:.1f}" x2="{:.1f}" y1="7" y2="7"/><circle cx="{:.1f}" cy="7" r="3.6"/></svg>'
    )
    return mark.format(css, BAR_WIDTH, BAR_WIDTH, at(lower), at(upper), at(value))


def floor_of(values: Sequence[float]) -> float:
    """Where an axis of shares begins: a round tenth below all of them."""
    return max(math.floor(10 * min(values, default=0.0) - 1e-9) / 10, 0.0)


def reliability_chart(bins: Sequence[Mapping[str, float]]) -> Markup:
    """Accuracy over confidence, the area of a dot its rows; the diagonal means what it says."""
    low = floor_of([entry[name] for entry in bins for name in ("confidence", "accuracy")])
    chart = Chart((low, 1), (low, 1), "confidence of the answer", "answers that are right")
    chart.line([(low, low), (1, 1)], "diagonal")
    chart.line([(entry["confidence"], entry["accuracy"]) for entry in bins], "curve")
    most = max(entry["rows"] for entry in bins)
    for entry in bins:
        says = f"{entry['rows']} rows: confidence {entry['confidence']:.0%}, right {entry['accuracy']:.0%}"
        chart.dot(entry["confidence"], entry["accuracy"], "point", says, 3 + 4 * math.sqrt(entry["rows"] / most))
    return chart.svg("Reliability diagram", ticks(low, 1), lambda value: f"{100 * value:.0f} %")


def curve_chart(curve: Mapping[str, Any]) -> Markup:
    """Macro-F1 over labelled rows with its band, and what twice the labels would bring."""
    points, twice = list(curve["points"]), curve["twice_the_labels"]
    shown = [*points, twice] if twice else points
    low = floor_of([entry["lower"] for entry in shown])
    high = min(max(max(entry["upper"] for entry in shown) + 0.03, low + 0.1), 1.0)
    sizes = [entry["rows"] for entry in shown]
    chart = Chart((0, max(sizes) * 1.03), (low, high), "labelled rows", "macro-F1")
    band = [(entry["rows"], entry["upper"]) for entry in points]
    band += [(entry["rows"], entry["lower"]) for entry in reversed(points)]
    chart.line(band, "band")
    chart.line([(entry["rows"], entry["macro_f1"]) for entry in points], "curve")
    if twice:
        chart.line([(entry["rows"], entry["macro_f1"]) for entry in (points[-1], twice)], "guess")
        chart.line([(twice["rows"], twice["lower"]), (twice["rows"], twice["upper"])], "span")
    for entry in shown:
        says = f"{entry['rows']} rows: {entry['macro_f1']:.1%} ({entry['lower']:.1%} to {entry['upper']:.1%})"
        chart.dot(entry["rows"], entry["macro_f1"], "guessed" if entry is twice else "point", says)
    return chart.svg("Learning curve", ticks(0, max(sizes)), lambda value: f"{value:,.0f}")


def cost_chart(ranking: Sequence[Mapping[str, Any]]) -> Markup:
    """Macro-F1 over seconds to train, with intervals; each dot wears its rank."""
    times = {id(row): max(float(row["train_seconds"]), 0.01) for row in ranking}
    low = floor_of([row["macro_f1_lower"] for row in ranking])
    first, last = min(times.values()) / 2, max(times.values()) * 2
    chart = Chart((first, last), (low, 1), "time to train on all rows", "macro-F1", log_x=True)
    for row in reversed(ranking):
        seconds, css = times[id(row)], "chosen" if row["recommended"] else "point"
        chart.line([(seconds, row["macro_f1_lower"]), (seconds, row["macro_f1_upper"])], "span")
        chart.dot(seconds, row["macro_f1"], css, f"{row['title']}: {row['macro_f1']:.1%}, {seconds_text(seconds)}", 5.5)
        chart.text(chart.x(seconds) + 9, chart.y(row["macro_f1"]) + 4, str(row["rank"]), "rank")
    return chart.svg("Quality against time", [tick for tick in TIMES if first <= tick <= last], seconds_text)


def short_title(text: Any, width: int = 40) -> Markup:
    """Escaped and cut to `width`, the whole on hover."""
    whole = for_terminal(str(text))
    return Markup('<span title="{}">{}</span>').format(whole, escape(shortened(whole, width)))
