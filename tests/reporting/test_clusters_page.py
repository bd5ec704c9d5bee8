"""The page of a clustering in a browser: the level that was asked for, with sizes, purity and names of groups."""

import re
import subprocess

import pytest

from reporting.clusters.build import clusters_page
from tests.browser import CHROMIUM, in_a_browser


def cluster(number, name, labels, near):
    parts = {"words": [name, "word"], "central": [f"a text of {name}"], "far": 1}
    return {"number": number, "name": name, "labels": labels, "near": near, **parts}


CONTENT = {
    **{"run": "r", "dataset": "d", "method": "m", "scores": {}, "texts": 20, "labels": ["x", "<b>y</b>"], "in_none": 1},
    "clusters": [
        cluster(4, "red", [[0, 9], [1, 1]], [1]),
        cluster(1, "green", [[1, 6]], [2]),
        cluster(0, "blue", [[0, 3]], [1]),
    ],
    "steps": [[1, 2], [0, 3]],
    "merged": [{"name": "cold", "words": ["sea", "grass"]}, {"name": "all", "words": ["light"]}],
    "points": [[0, 0, 0, 0, 0, "first"], [1, 2, 1, 1, 1, "<i>second</i>"], [2, 1, 3, -1, 1, "third"]],
    **{"far": 4, "outliers": [[3, "third"], [1, "<i>second</i>"]], "level": 2},
}


@pytest.mark.slow
@in_a_browser
def test_groups_of_a_level_are_listed_with_their_purity(tmp_path):
    (tmp_path / "index.html").write_text(clusters_page(CONTENT), encoding="utf-8")
    options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000", "--dump-dom"]
    address = (tmp_path / "index.html").as_uri()
    shown = subprocess.run([str(CHROMIUM), *options, address], capture_output=True, text=True, check=True, timeout=120)
    body = re.search(r"<tbody>(.*?)</tbody>", shown.stdout, re.DOTALL)[1]
    cells = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in re.findall(r"<tr.*?</tr>", body, re.DOTALL)]
    plain = [[re.sub(r"<[^>]+>", "", cell) for cell in row] for row in cells]
    assert [row[:5] for row in plain] == [
        ["red", "10", "90 %", "x", "1"],
        ["cold 2 clusters", "9", "67 %", "&lt;b&gt;y&lt;/b&gt;", "2"],
    ]
    assert [row[5] for row in plain] == ["red word", "sea grass"]
    assert "&lt;i&gt;second&lt;/i&gt;<span" in shown.stdout and "third<span" in shown.stdout


@pytest.mark.slow
@in_a_browser
@pytest.mark.parametrize("width", [1400, 400])
def test_the_page_is_not_wider_than_its_window(tmp_path, browser, width):
    (tmp_path / "index.html").write_text(clusters_page(CONTENT), encoding="utf-8")
    tab = browser.new_context(viewport={"width": width, "height": 900}).new_page()
    tab.goto((tmp_path / "index.html").as_uri())
    tab.locator("#groups tbody button").first.click()
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
