"""A curve whose process is killed in every phase of a round ends as if nothing had happened."""

import signal
from functools import partial

import pytest

from tests.command_lines import best_weights, rows, same_weights
from tests.own_process import die_at_call

pytestmark = pytest.mark.slow

# what is killed, and at which call within a process
PHASES = {
    "query": ("tasks.active.pool:Pool.model_outputs", 1),
    "label": ("tasks.active.rounds:_answers", 1),
    "train": ("lightning_modules.base:ClassifierModule.on_train_batch_start", 4),  # in the second epoch
    "evaluate": ("tasks.fit:measure", 1),
    "report": ("tasks.active.rounds:write_curve", 1),
}


def test_killed_in_each_phase_of_the_last_round(start, fit, tmp_path):
    """Five processes die one after another, each a phase later; the sixth ends with the curve of an undisturbed run."""
    options = ["method=scl_hnm", "active=badge", "active.query_size=8", "active.budget=16", "trainer.max_epochs=3"]
    for phase, place in PHASES.items():
        process = start(*options, dies=partial(die_at_call, *place))
        process.join()
        assert process.exitcode == -signal.SIGKILL, phase
    again = fit(*options)
    assert "round 1" not in again.err and "round 2" not in again.err  # nothing was left to do but to report
    whole = fit(*options, f"paths.runs={tmp_path / 'whole'}")
    for name in ("curve.csv", "chosen.csv"):
        assert (again.folder / name).read_text() == (whole.folder / name).read_text()
    last = rows(whole.folder / "curve.csv")[-1]["run"]
    assert same_weights(*(best_weights(result.folder.parent / last) for result in (again, whole)))
