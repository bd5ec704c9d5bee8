"""The documentation site: pages made from the code, links that fit, nothing fetched from elsewhere."""

import csv
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import site_pages

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built strictly: a dead link, a wrong docstring or an unknown LaTeX command fails."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    built = subprocess.run(
        command, cwd=ROOT, text=True, capture_output=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


@pytest.mark.slow
def test_a_method_has_its_docstring_formula_configuration_and_figures(site):
    page = (site / "methods" / "sharprecl.html").read_text(encoding="utf-8")
    with (ROOT / "reports/cpu/cells.csv").open(encoding="utf-8") as lines:
        cell = next(c for c in csv.DictReader(lines) if (c["table"], c["row"]) == ("sharprecl_2", "sharprecl"))
    assert "weight of the contrastive term" in page and "<math" in page
    assert "lightning_modules.methods.supervised.sharprecl.SharpReCLModule" in page
    assert f"{100 * float(cell['mean']):.2f} ± {100 * float(cell['std']):.2f} ({cell['printed mean']}" in page


@pytest.mark.slow
def test_every_method_has_a_page(site):
    pages = {path.stem for path in (site / "methods").glob("*.html")}
    assert pages == {"index", *(path.stem for path in (ROOT / "conf/method").glob("*.yaml"))}


@pytest.mark.slow
def test_no_page_fetches_anything_from_elsewhere(site):
    fetched = re.compile(r'<(?:script|img|iframe|link rel="?(?:stylesheet|preconnect))[^>]* (?:src|href)="?https?:')
    pages = [path for path in site.rglob("*.html") if "reports" not in path.parts]
    assert len(pages) > 30
    assert [path.name for path in pages if fetched.search(path.read_text(encoding="utf-8"))] == []


def test_a_new_method_gets_its_page_by_its_configuration_alone(tmp_path, monkeypatch, request):
    shutil.copytree(ROOT / "conf", tmp_path / "conf")
    known = (ROOT / "conf/method/ce.yaml").read_text(encoding="utf-8")
    (tmp_path / "conf/method/novel.yaml").write_text(
        known.replace("plain cross-entropy fine-tuning", "what is new").replace("name: ce", "name: novel")
    )
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/formulas.md").write_text("# Formulas\n\n## New: `method=novel`\n\n$$x$$\n\n## Other\n\n$$y$$\n")
    monkeypatch.setattr(site_pages, "ROOT", tmp_path)
    for module in ("choices", "identify"):
        monkeypatch.setattr(f"engine.{module}.CONF", tmp_path / "conf")
    request.addfinalizer(site_pages.targets.cache_clear)
    site_pages.targets.cache_clear()
    page = site_pages.method_page("novel")
    assert page.startswith("# novel\n\nwhat is new\n") and "name: novel" in page
    assert "$$x$$" in page and "$$y$$" not in page and "No run of this method" in page
    assert "| [`novel`](novel.md) | supervised | what is new |" in site_pages.methods_index()


@pytest.mark.parametrize(
    ("link", "source", "page", "expected"),
    [
        ("docs/data.md", "README.md", "index.md", "data.md"),
        ("../README.md", "docs/data.md", "data.md", "index.md"),
        ("../reports/cpu/tables.md", "docs/results.md", "results.md", "reports/cpu/tables.md"),
        ("formulas.md#acl", "docs/results.md", "methods/acl.md", "../formulas.md#acl"),
        ("#acl", "docs/formulas.md", "methods/acl.md", "../formulas.md#acl"),
        ("#acl", "docs/formulas.md", "formulas.md", "#acl"),
        ("https://example.org/a.md", "README.md", "index.md", "https://example.org/a.md"),
    ],
)
def test_a_link_of_the_repository_becomes_one_of_the_site(link, source, page, expected):
    assert site_pages.site_links(f"[a]({link})", source, page) == f"[a]({expected})"


def test_formulas_become_mathml_and_unknown_commands_are_said(caplog):
    page = '<p>with <span class="arithmatex">\\(a &lt; b\\)</span></p>'
    assert "<math" in site_pages.on_page_content(page, None, None, None) and not caplog.records
    site_pages.mathml(r"\nosuchcommand", block=False)
    assert "nosuchcommand" in caplog.text
