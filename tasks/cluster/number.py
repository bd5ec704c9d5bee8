"""How the number of clusters was estimated, beside the run: a table, and a figure of merit against number."""

from __future__ import annotations

from pathlib import Path

from clustering.number import NEARLY_BEST, Estimate
from reporting.figures import COLOURS, DASHES, drawing, picture, save
from storage.run_store import RunFolder


def write_estimate(run: RunFolder, estimate: Estimate) -> None:
    """Write `clusters/number.csv` and `clusters/number.svg`."""
    header = ("clusters", "separation", "agreement", "merit")
    rows = [(number, s, a, s * a) for number, s, a in estimate.candidates]
    run.write_csv("clusters/number.csv", rows, header)
    _draw(estimate, run.path / "clusters/number.svg")


@picture
def _draw(estimate: Estimate, file: Path) -> Path:
    numbers = [number for number, *_ in estimate.candidates]
    curves = {
        "separation": [s for _, s, _ in estimate.candidates],
        "agreement of two halves": [a for _, _, a in estimate.candidates],
        "merit": [s * a for _, s, a in estimate.candidates],
    }
    with drawing(5.2, 3.2) as (figure, (axis,)):
        for (name, values), colour, dash in zip(curves.items(), COLOURS, DASHES, strict=False):
            axis.plot(numbers, [value / (max(values) or 1) for value in values], dash, color=colour, label=name)
        axis.axhline(NEARLY_BEST, color="0.75", linewidth=0.8)
        axis.axvline(estimate.number, color="0.4", linewidth=0.8)
        axis.set(xscale="log", xlabel=f"clusters; {estimate.number} taken", ylabel="share of its largest value")
        axis.set_xticks([number for number in (2, 5, 10, 20, 50, 100, 200, 500) if number <= numbers[-1]])
        axis.xaxis.set_major_formatter("{x:.0f}")
        axis.minorticks_off()
        axis.legend(frameon=False)
        return save(figure, file)
