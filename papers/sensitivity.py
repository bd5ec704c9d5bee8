"""A table over a swept value, drawn as curves."""

from __future__ import annotations

from pathlib import Path

from papers.table_report import TableReport
from reporting.curves import lines_figure


def sensitivity_figure(report: TableReport, file: Path) -> Path | None:
    """A table over a swept value as curves, one panel a column; None before two of its values are measured."""
    series: dict[str, dict[str, dict[float, list[float]]]] = {}
    metrics = [metric for metric in report.grid.metrics[:2] if metric.scale == report.grid.metrics[0].scale]
    for column in report.columns:
        for metric in metrics:
            points = {
                row.x: list(values.values())
                for row in report.rows
                if row.x is not None and (values := report.values(row.key, column.key, metric.key))
            }
            if len(points) > 1:
                series.setdefault(column.title, {})[metric.title] = points
    if not series or report.grid.curve is None:
        return None
    unit = "%" if all(metric.is_share for metric in metrics) else ""
    return lines_figure(series, report.grid.curve, unit, file, factor=metrics[0].scale)
