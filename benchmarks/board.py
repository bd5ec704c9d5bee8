"""Seconds until the page of a store of many runs shows its table, in the machine's own chromium.

    python -m benchmarks.board [--runs 2000] [--rows 500]

The runs are made up: a data set and 500 predicted test rows each. A new browser profile opens the page five times.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np
from playwright.sync_api import Browser, sync_playwright

from benchmarks._measure import spread
from reporting.board.build import write_board
from storage.run_store import RunFolder

LABELS = ["business", "science", "sport", "world"]
DRAWN = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
REPEATS = 5


def write_run(store: Path, number: int, rows: int) -> None:
    """A finished run of made-up predictions."""
    rng = np.random.default_rng(number)
    run = RunFolder(store / f"ce-made_up-{number:010x}")
    run.path.mkdir()
    truth = rng.integers(0, len(LABELS), rows)
    said = np.where(rng.random(rows) < 0.8, truth, rng.integers(0, len(LABELS), rows))
    pairs = enumerate(zip(truth.tolist(), said.tolist(), strict=True))
    columns = ("split", "index", "label", "prediction", "probability")
    cells = [("test", index, LABELS[label], LABELS[guess], 0.5) for index, (label, guess) in pairs]
    run.write_csv("predictions.csv", cells, columns)
    run.write_text("config.yaml", f"seed: {number}\n")
    run.write_json("environment.json", {"command": f"python run.py method=ce seed={number}"})
    figures = {"test/accuracy": float(np.mean(truth == said)), "label_names": LABELS}
    run.write_metrics(status="finished", method="ce", dataset="made_up", seed=number, **figures)


def seconds_to_open(browser: Browser, page: Path) -> float:
    """From the address to the table as it is drawn."""
    with browser.new_context(viewport={"width": 1400, "height": 900}) as context:
        start = time.perf_counter()
        tab = context.new_page()
        tab.goto(page.as_uri())
        assert tab.locator("tbody tr").count()
        tab.evaluate(DRAWN)
        return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--rows", type=int, default=500)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary, sync_playwright() as playwright:
        store = Path(temporary)
        for number in range(options.runs):
            write_run(store, number, options.rows)
        page = write_board(store, store / "data")
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        times = [seconds_to_open(browser, page) for _ in range(REPEATS)]
        browser.close()
        print(f"{options.runs:,} runs, {page.stat().st_size / 1e6:.1f} MB: open in {spread(times)} s")


if __name__ == "__main__":
    main()
