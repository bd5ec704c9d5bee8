"""A table report as Markdown, LaTeX and CSV."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from math import ceil

from papers.grid import Line, Metric
from papers.table_report import CellReport, Comparison, ShownColumns, TableReport
from reporting.escape import Markup, for_latex, for_markdown
from reporting.tables import MISSING, Table
from storage.run_store import csv_text

RANKING = (
    "chosen by the same figure on validation rows where all rows have it, by the figure shown where none has "
    "(clusterings, curves of labels); no row is marked where only some have. Among rows with three seeds or more, over "
    "the seeds that all of them have. "
    "†: the last epoch was the best in half of the runs or more, which may not have converged."
)
HOW_TESTED = (
    "paired t-tests over seeds; p (Holm) is that of the claim which makes the comparison, else the largest of Holm's "
    "corrections over this list and over every other list that has it"
)
FIGURES_A_BLOCK = 8  # side by side; a wider table continues below
FIGURES_A_LATEX_BLOCK = 6  # fits lines of 6.5 inches
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


def blocks(shown: ShownColumns, size: int = FIGURES_A_BLOCK) -> Iterator[ShownColumns]:
    """Columns in groups of at most ``size`` figures; a column that has more is cut into even parts."""
    block: list[tuple[Line, tuple[Metric, ...]]] = []
    for column, metrics in shown:
        step = ceil(len(metrics) / ceil(len(metrics) / size))
        for part in (metrics[start : start + step] for start in range(0, len(metrics), step)):
            if sum(len(others) for _, others in block) + len(part) > size:
                yield tuple(block)
                block = []
            block.append((column, part))
    if block:
        yield tuple(block)


def _pairs(shown: ShownColumns) -> list[tuple[Line, Metric]]:
    return [(column, metric) for column, metrics in shown for metric in metrics]


def figure_text(cell: CellReport) -> str:
    """Measured mean ± standard deviation, scaled, a dagger where the last epoch is the best, the share of seeds."""
    if cell.mean is None:
        return MISSING
    text = f"{cell.scale * cell.mean:.2f}" + (f" ± {cell.scale * cell.std:.2f}" if cell.std is not None else "")
    text += " †" if cell.ends_best else ""
    return text + (f" [{len(cell.values)}/{cell.planned}]" if len(cell.values) < cell.planned else "")


def printed_text(cell: CellReport) -> str:
    """The figure of the paper; nothing where the paper has no such cell."""
    if cell.printed is None:
        return ""
    return str(cell.printed) or MISSING


def markdown(report: TableReport) -> str:
    """The table with the printed figures in parentheses, best bold, runner-up in italics; tests; footnotes."""
    parts = [f"### {report.grid.title}", report.caption]
    for group in blocks(report.shown):
        pairs = _pairs(group)
        header = ("", *map(_markdown_head, pairs))
        rows = tuple(
            (row.title, *(_markdown_cell(report.cell(row, column, metric)) for column, metric in pairs))
            for row in report.rows
        )
        parts.append(Table("", header, rows).markdown().strip())
    parts.append(f"Measured here; in parentheses as printed. **Best**, *runner-up*: {RANKING}")
    parts += [_markdown_tests(title, tests, report) for title, tests in test_groups(report) if tests]
    notes = [*report.missing, *report.footnotes]
    return "\n\n".join([*parts, "\n".join(f"- {note}" for note in notes)]) + "\n"


def _markdown_head(pair: tuple[Line, Metric]) -> str:
    return Markup("<br>".join(for_markdown(line.title) for line in pair))


def _markdown_cell(cell: CellReport) -> str:
    marks = {"best": "**", "second": "*", "": ""}
    text = f"{marks[cell.mark]}{figure_text(cell)}{marks[cell.mark]}"
    shown = f"({printed_text(cell)})" if cell.printed else ""
    return f"{text} {shown}".strip() if cell.is_planned or not shown else shown


def test_groups(report: TableReport) -> list[tuple[str, tuple[Comparison, ...]]]:
    """The two families of tests with their titles."""
    titles = {row.key: row.title for row in report.rows}
    reference = titles.get(report.grid.reference or "", "")
    return [
        (f"Against {reference}: {HOW_TESTED}", report.against_reference),
        (
            "Against the best baseline of each column (chosen on validation as the best is; where that cannot say it "
            f"by the same figures, which favours it): {HOW_TESTED}",
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
    """Both ends, scaled and signed."""
    return " to ".join(f"{scale * end:+.2f}" for end in interval)


def p_text(p: float | None) -> str:
    """A p value to three digits; `MISSING` where there was no test."""
    if p is None:
        return MISSING
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def latex(report: TableReport) -> str:
    """booktabs tables, one a block of columns: best bold, runner-up underlined, printed figures in small type below."""
    groups = list(blocks(report.shown, FIGURES_A_LATEX_BLOCK))
    return "\n".join(_latex_block(report, group, number, len(groups)) for number, group in enumerate(groups, 1))


def _latex_block(report: TableReport, group: ShownColumns, number: int, total: int) -> str:
    pairs = _pairs(group)
    part = f" ({number} of {total})" if total > 1 else ""
    notes = ["; ".join(report.missing), *report.footnotes] if number == total else []
    return "\n".join(
        [
            "\\begin{table}[tp]",
            "\\centering\\footnotesize\\setlength{\\tabcolsep}{3pt}",
            f"\\caption{{{for_latex(report.caption)}{part} Small: as printed.}}",
            f"\\label{{tab:{report.grid.key}{'' if total == 1 else f'-{number}'}}}",
            f"\\begin{{tabular}}{{p{{12em}}{'c' * len(pairs)}}}",
            "\\toprule",
            *_latex_header(group),
            "\\midrule",
            *(line for row in report.rows for line in _latex_row(report, row, pairs)),
            "\\bottomrule",
            "\\end{tabular}",
            *(f"\\par\\smallskip\\raggedright\\scriptsize {for_latex(note)}" for note in notes if note),
            "\\end{table}",
            "",
        ]
    )


def _latex_header(group: ShownColumns) -> Iterator[str]:
    """Column titles over their metrics, a rule below each title; long ones in several lines."""
    ends = list(accumulate((len(metrics) for _, metrics in group), initial=1))
    spans = (
        f"\\multicolumn{{{len(metrics)}}}{{c}}{{{_latex_title(column.title, len(metrics))}}}"
        for column, metrics in group
    )
    yield " & ".join(["", *spans]) + " \\\\"
    yield " ".join(f"\\cmidrule(lr){{{left + 1}-{right}}}" for left, right in pairwise(ends))
    yield " & ".join(["", *(_latex_title(metric.title, 1) for _, metric in _pairs(group))]) + " \\\\"


def _latex_title(title: str, figures: int) -> str:
    """As wide as that many figures."""
    return f"\\parbox[b]{{{6 * figures}em}}{{\\centering {for_latex(title)}}}"


def _latex_row(report: TableReport, row: Line, pairs: Sequence[tuple[Line, Metric]]) -> Iterator[str]:
    """A line of measured figures and one of printed ones; nothing where the block has neither."""
    marks = {"best": "\\textbf{%s}", "second": "\\underline{%s}", "": "%s"}
    cells = [report.cell(row, column, metric) for column, metric in pairs]
    measured = [marks[cell.mark] % for_latex(figure_text(cell)) if cell.is_planned else "" for cell in cells]
    small = [f"{{\\scriptsize {for_latex(printed_text(cell))}}}" if cell.printed else "" for cell in cells]
    lines = [line for line in (measured, small) if any(line)]
    for title, line in zip((f"\\raggedright {for_latex(row.title)}", ""), lines, strict=False):
        yield " & ".join([title, *line]) + " \\\\"
    if lines:
        yield "\\addlinespace[2pt]"


def cells_csv(reports: Sequence[TableReport]) -> str:
    """One line a cell: mean and standard deviation as fractions, printed figures as printed, the values by seed."""
    rows = []
    for report in reports:
        for (row, column, metric), cell in report.cells.items():
            values = ";".join(f"{seed}:{value!r}" for seed, value in sorted(cell.values.items()))
            shown = cell.printed
            figures = (cell.mean, cell.std, len(cell.values), cell.planned)
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
