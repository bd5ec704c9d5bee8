"""Prepared data and token caches that were damaged are made again, with a warning; a run works from any folder."""

import subprocess
import sys

import pytest

from tests.command_lines import RUN_PY, outcome

pytestmark = pytest.mark.slow

DAMAGES = {
    "cut short": lambda data: data[: len(data) // 2],
    "altered": lambda data: data[:-20] + bytes(20 * [7]),
    "empty": lambda data: b"",
}


DAMAGED = [  # file, what happens to it, what the next run says
    ("data/csv-*/train.arrow", "cut short", "building it again"),
    ("data/csv-*/train.arrow", "altered", "building it again"),
    ("data/csv-*/meta.json", "empty", "building it again"),
    ("cache/tokens/*/ids.bin", "cut short", "is damaged, tokenising again"),
    ("cache/tokens/*/ids.bin", "altered", "is damaged, tokenising again"),
    ("cache/tokens/*/offsets.npy", "empty", "is damaged, tokenising again"),
    ("cache/tokens/*/meta.json", "cut short", "is damaged, tokenising again"),
]


def test_a_damaged_cache_is_found_and_made_again(fit, tmp_path):
    line = ["method=ce", "trainer.max_epochs=1"]
    whole_run = fit(*line).folder
    assert not any(warning in (whole_run / "run.log").read_text() for *_, warning in DAMAGED)
    for number, (pattern, damage, warning) in enumerate(DAMAGED):
        file = next(tmp_path.glob(pattern))
        whole = file.read_bytes()
        file.write_bytes(DAMAGES[damage](whole))
        run = fit(*line, f"paths.runs={tmp_path / str(number)}").folder
        assert outcome(run) == outcome(whole_run), (pattern, damage)
        assert warning in (run / "run.log").read_text(), (pattern, damage)
        assert file.read_bytes() == whole or pattern.startswith("data")  # that one names times


def test_a_run_started_in_another_folder(small, toy_csv, tmp_path):
    line = [sys.executable, str(RUN_PY), "dataset=csv", "method=ce", "trainer.max_epochs=1", *small]
    names = [f"dataset.{split}={path.name}" for split, path in toy_csv.items()]
    done = subprocess.run([*line, *names], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (run,) = [path for path in (tmp_path / "runs").iterdir() if path.is_dir()]
    assert done.stdout.splitlines()[-1] == f"runs/{run.name}"
    assert (run / "predictions.csv").exists() and any((tmp_path / "data").glob("csv-*"))
