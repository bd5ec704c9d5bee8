"""A curve whose process is killed in every phase of a round ends as if nothing had happened."""

import multiprocessing
import os
import pkgutil
import signal

import pytest

from tests.tasks.command_lines import best_weights, command, rows, same_weights

# what is killed, and at which call within a process
PHASES = {
    "query": ("tasks.active:Pool.seen_by", 1),
    "label": ("tasks.active:_answers", 1),
    "train": ("lightning_modules.base:ClassifierModule.on_train_batch_start", 4),  # in the second epoch
    "evaluate": ("tasks.fit:measure", 1),
    "report": ("tasks.active:_write_curve", 1),
}
context = multiprocessing.get_context("forkserver")
context.set_forkserver_preload(["tests.tasks.command_lines", "tasks.active", "transformers.models.bert.modeling_bert"])


def _run(arguments: list[str], dies: tuple[str, int] | None) -> None:
    if dies is not None:
        _die_at(*dies)
    os._exit(command(arguments).code)


def _die_at(name: str, call: int) -> None:
    """SIGKILL this process at the n-th call of a function."""
    module, _, path = name.partition(":")
    *owner, attribute = path.split(".")
    holder = pkgutil.resolve_name(":".join(filter(None, [module, ".".join(owner)])))
    original, calls = getattr(holder, attribute), 0

    def dying(*arguments, **options):
        nonlocal calls
        calls += 1
        if calls == call:
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*arguments, **options)

    setattr(holder, attribute, dying)


@pytest.mark.slow
def test_killed_in_each_phase_of_the_last_round(store, small, files, tmp_path):
    """Five processes die one after another, each a phase later; the sixth ends with the curve of an undisturbed run."""
    options = ["method=scl_hnm", "active=badge", "active.query_size=8", "active.budget=16", "trainer.max_epochs=3"]
    line = [*files, *store, *small, *options]
    for phase, dies in PHASES.items():
        process = context.Process(target=_run, args=(line, dies))
        process.start()
        process.join()
        assert process.exitcode == -signal.SIGKILL, phase
    again = command(line)
    assert "round 1" not in again.err and "round 2" not in again.err  # nothing was left to do but to report
    whole = command([*line, f"paths.runs={tmp_path / 'whole'}"])
    for name in ("curve.csv", "chosen.csv"):
        assert (again.folder / name).read_text() == (whole.folder / name).read_text()
    last = rows(whole.folder / "curve.csv")[-1]["run"]
    assert same_weights(*(best_weights(result.folder.parent / last) for result in (again, whole)))
