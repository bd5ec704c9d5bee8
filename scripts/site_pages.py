"""Pages of the documentation site that nobody writes by hand, as hooks of MkDocs (mkdocs.yml). Run by `make docs`.

A page for each `conf/method/NAME.yaml` from its docstrings, its part of docs/formulas.md, its YAML and its measured
rows; the README, the changelog and the papers' report from outside docs/; formulas as MathML, which needs no script.
"""

import csv
import html
import itertools
import logging
import posixpath
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import griffe
import yaml
from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from omegaconf import OmegaConf

from engine.choices import choices as targets
from engine.identify import compose_config
from engine.overrides import OPTIONAL
from papers.grid import Line, load_grid

ROOT = Path(__file__).resolve().parent.parent
# From outside docs/: what the site shows under the same path. The README is its first page.
FROM_OUTSIDE = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE", "reports/*/*.md", "reports/*/figures/*.svg"]
FROM_OUTSIDE += ["reports/*/index.html", "reports/*/cells.csv", "reports/*/tests.csv"]
LINK = re.compile(r"(?<=\]\()(?![a-z]+:)([^)#\s]*)(#[^)\s]*)?(?=\))")
LOG = logging.getLogger("mkdocs.hooks")
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)


def method_names() -> list[str]:
    return sorted(path.stem for path in (ROOT / "conf" / "method").glob("*.yaml"))


# --- the hooks


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Fill the entry `Methods` of the navigation, by what the methods are for."""
    groups: dict[str, list[str]] = {}
    for name in method_names():
        groups.setdefault(group(targets("method")[name]), []).append(f"methods/{name}.md")
    pages = ["methods/index.md", *({title: paths} for title, paths in groups.items())]
    for entry in config.nav or ():
        if "Methods" in entry:
            entry["Methods"] = pages
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages and what is shown from outside docs/."""
    for pattern in FROM_OUTSIDE:
        for path in sorted(ROOT.glob(pattern)):
            uri = site_uri(path.relative_to(ROOT).as_posix())
            files.append(File.generated(config, uri, abs_src_path=str(path)))
    files.append(File.generated(config, "methods/index.md", content=methods_index()))
    files.append(File.generated(config, "choices.md", content=choices()))
    for name in method_names():
        files.append(File.generated(config, f"methods/{name}.md", content=method_page(name)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links of the repository become links of the site."""
    if page.file.abs_src_path is None:
        return markdown
    source = Path(page.file.abs_src_path).resolve().relative_to(ROOT).as_posix()
    return site_links(markdown, source, page.file.src_uri)


def on_page_content(content: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """LaTeX, as pymdownx.arithmatex marks it, becomes MathML."""
    return FORMULA.sub(lambda match: mathml(html.unescape(match[2]), block=match[1] == "div"), content)


def mathml(latex: str, block: bool) -> str:
    markup = convert(latex, display="block" if block else "inline")
    if "<mi>\\" in markup:  # a command that the converter does not know
        LOG.warning("no MathML for %s", latex)  # fails the strict build
    return markup.replace("&#x029F5;", "\\")  # set minus: not in every font


# --- links


def site_uri(path: str) -> str:
    """Where a file of the repository stands on the site."""
    return "index.md" if path == "README.md" else path.removeprefix("docs/")


def site_links(markdown: str, source: str, uri: str) -> str:
    """The Markdown of file `source` with its relative links as they are to be on the page `uri`."""

    def link(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), match[1])) if match[1] else source
        if site_uri(target) == uri:
            return match[2] or posixpath.basename(uri)
        return posixpath.relpath(site_uri(target), posixpath.dirname(uri) or ".") + (match[2] or "")

    return LINK.sub(link, markdown)


# --- the page of a method


def group(target: str) -> str:
    """Of lightning_modules.methods.GROUP.… or GROUP.methods.…: what the method is for."""
    return target.removeprefix("lightning_modules.methods.").partition(".")[0]


def method_page(name: str) -> str:
    """Markdown of a method's page; the loss is that of the composed config."""
    content = (ROOT / "conf" / "method" / f"{name}.yaml").read_text(encoding="utf-8")
    config: Any = OmegaConf.to_container(compose_config([f"method={name}"]))
    parts = [f"# {name}", summary(content), _code("", usage(name, config))]
    if formulas := formulas_of(name):
        parts += ["## Formula, and where it differs from print and code", formulas]
    parts += ["## Measured", *(measured(name) or ["No run of this method is on record."])]
    parts += ["## Module", _docstring(config["method"]["_target_"])]
    if config.get("loss"):
        parts += ["## Loss", _docstring(config["loss"]["_target_"])]
    parts += ["## Configuration", f"`conf/method/{name}.yaml`", _code("yaml", content)]
    return "\n\n".join(parts) + "\n"


def methods_index() -> str:
    lines = ["# Methods", "| `method=` | for | what |\n|---|---|---|"]
    for name in method_names():
        content = (ROOT / "conf" / "method" / f"{name}.yaml").read_text(encoding="utf-8")
        use = group(targets("method")[name])
        lines.append(f"| [`{name}`]({name}.md) | {use} | {summary(content)} |")
    return lines[0] + "\n\n" + "\n".join(lines[1:]) + "\n"


def choices() -> str:
    """Every group of conf/ with what can be chosen in it."""
    parts = ["# All choices", "`GROUP=CHOICE` on the command line takes one; `python run.py --help` shows every key."]
    for folder in sorted(path for path in (ROOT / "conf").iterdir() if path.is_dir()):
        files = sorted(folder.glob("[!_]*.yaml"))
        lines = [f"| `{path.stem}` | {choice_summary(path)} |" for path in files]
        if folder.name not in OPTIONAL:  # used for their method or data set by themselves
            parts += [f"## {folder.name}", "\n".join(["| choice | what |", "|---|---|", *lines])]
    return "\n\n".join(parts) + "\n"


def choice_summary(path: Path) -> str:
    """The comment of a file in conf/, else what the callable that it names says of itself."""
    content = path.read_text(encoding="utf-8")
    node = yaml.safe_load(content) or {}
    node = node.get(path.parent.name) or node
    if path.parent.name == "active":
        node = node["strategy"]
    target = node.get("_target_")
    return summary(content) or (first_paragraph(target) if target else "")


def first_paragraph(target: str) -> str:
    """Of the docstring of what `package.module.name` leads to, read from the source."""
    package, _, inner = target.partition(".")
    docstring = _package(package)[inner].docstring if (ROOT / package).is_dir() else None
    paragraph = docstring.value.partition("\n\n")[0] if docstring else ""
    return _cell(re.sub(r":\w+:(?=`)", "", paragraph))


@cache
def _package(name: str) -> griffe.Object | griffe.Alias:
    return griffe.load(name, search_paths=[ROOT])


def summary(content: str) -> str:
    """The comment that a YAML file begins with."""
    comment = itertools.takewhile(lambda line: line.startswith("#"), content.splitlines())
    return _cell(" ".join(line[1:].strip() for line in comment if "@package" not in line))


def usage(name: str, config: dict[str, Any]) -> str:
    task = "task=cluster " if group(config["method"]["_target_"]) == "clustering" else ""
    return f"python run.py {task}method={name} dataset=…"


def formulas_of(name: str) -> str:
    """The section of docs/formulas.md that says `method=NAME`, without table rows of other methods; else nothing."""
    text = (ROOT / "docs" / "formulas.md").read_text(encoding="utf-8")
    sections = re.split(r"^(?=##)", text, flags=re.MULTILINE)
    start = next((i for i, section in enumerate(sections) if f"`method={name}`" in section), None)
    if start is None:
        return ""
    level = len(sections[start].split()[0])
    end = start + 1
    while end < len(sections) and len(sections[end].split()[0]) > level:
        end += 1
    others = tuple(f"| `{other}`" for other in method_names() if other != name)
    lines = [line for line in "".join(sections[start:end]).splitlines()[1:] if not line.startswith(others)]
    body = re.sub(r"(?m)^#+(?= )", lambda match: "#" * (len(match[0]) - level + 2), "\n".join(lines).strip())
    return site_links(body, "docs/formulas.md", f"methods/{name}.md")


def measured(name: str) -> list[str]:
    """A table for each table of each report in which the method has a figure, with what the paper prints."""
    parts = []
    for file in sorted((ROOT / "reports").glob("*/cells.csv")):
        tables: dict[str, list[dict[str, str]]] = {}
        with file.open(encoding="utf-8", newline="") as lines:
            for cell in csv.DictReader(lines):
                if cell["mean"] and f"method={name}" in cell["command"].split():
                    tables.setdefault(cell["table"], []).append(cell)
        for key, cells in tables.items():
            parts.append("\n".join(_measured_table(key, cells)))
        if tables:
            parts.append(
                f"Mean ± standard deviation over seeds; in parentheses as printed in the paper. Budget "
                f"`{file.parent.name}`: [all tables](../reports/{file.parent.name}/tables.md)."
            )
    return parts


def _measured_table(key: str, cells: list[dict[str, str]]) -> Iterator[str]:
    grid = load_grid(key)
    metrics = [metric for metric in grid.metrics if any(cell["metric"] == metric.key for cell in cells)]
    rows: dict[tuple[str, str], dict[str, dict[str, str]]] = {}
    for cell in cells:
        rows.setdefault((cell["column"], cell["row"]), {})[cell["metric"]] = cell
    yield f"### {grid.title}\n"
    yield " | ".join(["| data | row | seeds", *(metric.title for metric in metrics)]) + " |"
    yield "|---" * (3 + len(metrics)) + "|"
    for (column, row), figures in rows.items():
        shown = [_figure(figures.get(metric.key), metric.scale) for metric in metrics]
        seeds = next(iter(figures.values()))["seeds"]
        yield " | ".join([f"| {_title(grid.columns, column)}", _title(grid.rows, row), seeds, *shown]) + " |"


def _figure(cell: dict[str, str] | None, scale: float) -> str:
    if cell is None:
        return "–"
    spread = f" ± {scale * float(cell['std']):.2f}" if cell["std"] else ""
    paper = " ± ".join(filter(None, (cell["printed mean"], cell["printed std"])))
    return f"{scale * float(cell['mean']):.2f}{spread}" + (f" ({paper})" if paper else "")


def _title(lines: tuple[Line, ...], key: str) -> str:
    return next((line.title for line in lines if line.key == key), key)


def _docstring(target: str) -> str:
    """What mkdocstrings reads from the source: the docstring, the arguments, their types and defaults."""
    return f"::: {target}"


def _cell(text: str) -> str:
    """Text for a cell of a Markdown table."""
    return " ".join(text.split()).replace("|", "\\|")


def _code(language: str, content: str) -> str:
    return f"```{language}\n{content.strip()}\n```"
