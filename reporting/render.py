"""A table report as Markdown, LaTeX and CSV."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reporting.grid import Line, Metric
from reporting.run_store import csv_text
from reporting.table_report import CellReport, Comparison, TableReport
from reporting.tables import MISSING, Table

COLUMNS_A_BLOCK = 4  # of a page: a wide table continues below
TESTS_HEADER = (
    "row",
    "against",
    "column",
    "metric",
    "difference",
    "95 % interval",
    "Hedges' g",
    "95 % interval of g",
    "p",
    "p (Holm)",
    "seeds",
)
CELL_HEADER = (
    *("table", "row", "column", "metric", "mean", "std", "seeds", "seeds wanted"),
    *("printed mean", "printed std", "problem", "values", "command"),
)


def blocks(columns: Sequence[Line]) -> Iterator[tuple[Line, ...]]:
    """Columns in groups that fit a page."""
    for start in range(0, len(columns), COLUMNS_A_BLOCK):
        yield tuple(columns[start : start + COLUMNS_A_BLOCK])


def figure_text(cell: CellReport) -> str:
    """Measured mean ± standard deviation, scaled, and the share of seeds where some are missing."""
    if cell.mean is None:
        return MISSING
    text = f"{cell.scale * cell.mean:.2f}" + (f" ± {cell.scale * cell.std:.2f}" if cell.std is not None else "")
    return text + (f" [{len(cell.values)}/{cell.wanted}]" if len(cell.values) < cell.wanted else "")


def printed_text(cell: CellReport) -> str:
    if cell.printed is None:
        return ""
    return str(cell.printed) or MISSING


def markdown(report: TableReport) -> str:
    """The table with the printed figures in parentheses, best bold, runner-up in italics; tests; footnotes."""
    parts = [f"### {report.grid.title}", report.caption]
    for group in blocks(report.columns):
        pairs = [(column, metric) for column in group for metric in report.shown_metrics(column)]
        header = ("", *(f"{column.title}<br>{metric.title}" for column, metric in pairs))
        rows = tuple(
            (row.title, *(_markdown_cell(report.cell(row, column, metric)) for column, metric in pairs))
            for row in report.rows
        )
        parts.append(Table("", header, rows).markdown().strip())
    parts.append("Measured here; in parentheses as printed. **Best**, *runner-up* among three seeds or more.")
    parts += [_markdown_tests(title, tests, report) for title, tests in test_groups(report) if tests]
    notes = [*report.missing, *report.footnotes]
    return "\n\n".join([*parts, "\n".join(f"- {note}" for note in notes)]) + "\n"


def _markdown_cell(cell: CellReport) -> str:
    marks = {"best": "**", "second": "*", "": ""}
    text = f"{marks[cell.mark]}{figure_text(cell)}{marks[cell.mark]}"
    shown = f"({printed_text(cell)})" if cell.printed else ""
    return shown if cell.mean is None and shown and not cell.wanted else f"{text} {shown}".strip()


def test_groups(report: TableReport) -> list[tuple[str, tuple[Comparison, ...]]]:
    """The two families of tests with their titles."""
    titles = {row.key: row.title for row in report.rows}
    reference = titles.get(report.grid.reference or "", "")
    return [
        (f"Against {reference}: paired t-tests over seeds, Holm over this list", report.against_reference),
        (
            "Against the best baseline of each column (chosen by the same figures, which favours it): "
            "paired t-tests over seeds, Holm over this list",
            report.against_best,
        ),
    ]


def _markdown_tests(title: str, tests: Sequence[Comparison], report: TableReport) -> str:
    return Table(title, TESTS_HEADER, tuple(test_row(test, report) for test in tests)).markdown().strip()


def test_row(test: Comparison, report: TableReport) -> tuple[str, ...]:
    """A test as text, in the columns of `TESTS_HEADER`; differences as the metric is shown."""
    titles = {line.key: line.title for line in (*report.rows, *report.columns)}
    metric = next(metric for metric in report.grid.metrics if metric.key == test.metric)
    result, effect = test.result, test.effect
    return (
        titles[test.row],
        titles[test.against],
        titles[test.column],
        metric.title,
        f"{metric.scale * result.difference:+.2f}",
        MISSING if result.interval is None else interval_text(result.interval, metric.scale),
        MISSING if effect is None else f"{effect.value:+.2f}",
        MISSING if effect is None else interval_text(effect.interval, 1),
        p_text(result.t_test_p),
        p_text(test.holm_p),
        str(len(result.seeds)),
    )


def interval_text(interval: tuple[float, float], scale: float) -> str:
    return " to ".join(f"{scale * end:+.2f}" for end in interval)


def p_text(p: float | None) -> str:
    if p is None:
        return MISSING
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


LATEX_SPECIAL = str.maketrans(
    {
        **{character: f"\\{character}" for character in "&%$#_{}"},
        "\\": "\\textbackslash{}",
        "~": "\\textasciitilde{}",
        "^": "\\textasciicircum{}",
        "±": "$\\pm$",
        "–": "--",
        "δ": "$\\delta$",
        "α": "$\\alpha$",
        "·": "$\\cdot$",
        "<": "$<$",
        ">": "$>$",
    }
)


def latex(report: TableReport) -> str:
    """booktabs tables, one a block of columns: best bold, runner-up underlined, printed figures in small type."""
    groups = list(blocks(report.columns))
    return "\n".join(_latex_block(report, group, number, len(groups)) for number, group in enumerate(groups, 1))


def _latex_block(report: TableReport, group: Sequence[Line], number: int, total: int) -> str:
    shown = [(column, report.shown_metrics(column)) for column in group]
    shown = [(column, metrics) for column, metrics in shown if metrics]
    spans = [f"\\multicolumn{{{len(metrics)}}}{{c}}{{{escape_latex(column.title)}}}" for column, metrics in shown]
    pairs = [(column, metric) for column, metrics in shown for metric in metrics]
    lines = [
        " & ".join(["", *spans]),
        " & ".join(["", *(escape_latex(metric.title) for _, metric in pairs)]),
    ]
    body = [" & ".join([escape_latex(row.title), *_latex_cells(report, row, pairs)]) for row in report.rows]
    part = f" ({number} of {total})" if total > 1 else ""
    notes = escape_latex("; ".join(report.missing))
    return "\n".join(
        [
            "\\begin{table}[t]",
            "\\centering\\small",
            f"\\caption{{{escape_latex(report.caption)}{part} Small: as printed.}}",
            f"\\label{{tab:{report.grid.key}{'' if total == 1 else f'-{number}'}}}",
            f"\\begin{{tabular}}{{l{'c' * len(pairs)}}}",
            "\\toprule",
            *(f"{line} \\\\" for line in lines),
            "\\midrule",
            *(f"{line} \\\\" for line in body),
            "\\bottomrule",
            "\\end{tabular}",
            *([f"\\par\\smallskip\\footnotesize {notes}"] if notes else []),
            "\\end{table}",
            "",
        ]
    )


def _latex_cells(report: TableReport, row: Line, pairs: Sequence[tuple[Line, Metric]]) -> Iterator[str]:
    marks = {"best": "\\textbf{%s}", "second": "\\underline{%s}", "": "%s"}
    for column, metric in pairs:
        cell = report.cell(row, column, metric)
        text = marks[cell.mark] % escape_latex(figure_text(cell)) if cell.mean is not None or cell.wanted else ""
        small = f"{{\\scriptsize {escape_latex(printed_text(cell))}}}" if cell.printed else ""
        yield " ".join(filter(None, (text, small)))


def escape_latex(text: str) -> str:
    return text.translate(LATEX_SPECIAL)


def cells_csv(reports: Sequence[TableReport]) -> str:
    """One line a cell: mean and standard deviation as fractions, printed figures as printed, the values by seed."""
    rows = []
    for report in reports:
        for (row, column, metric), cell in report.cells.items():
            values = ";".join(f"{seed}:{value!r}" for seed, value in sorted(cell.values.items()))
            shown = cell.printed
            figures = (cell.mean, cell.std, len(cell.values), cell.wanted)
            paper = (shown.mean if shown else "", shown.std if shown else "")
            rows.append((report.grid.key, row, column, metric, *figures, *paper, cell.problem, values, cell.command))
    return csv_text([["" if value is None else value for value in row] for row in rows], CELL_HEADER)


def tests_csv(reports: Sequence[TableReport]) -> str:
    """One line a paired test."""
    rows = [
        (report.grid.key, *test_row(test, report))
        for report in reports
        for _, tests in test_groups(report)
        for test in tests
    ]
    return csv_text(rows, ("table", *TESTS_HEADER))
