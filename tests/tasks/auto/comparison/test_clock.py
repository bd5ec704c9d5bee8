"""Minutes: what is left of them, and a run that cannot end."""

from types import SimpleNamespace

import pytest

from callbacks import time_limit
from tasks.auto.comparison.clock import Clock


def test_what_is_left_counts_earlier_starts_and_what_is_kept():
    now = [100.0]
    clock = Clock(10, used=4, now=lambda: now[0])
    assert clock.left == 6 * 60 - 24 and clock.used == 4
    now[0] += 60
    clock.keep(30)
    clock.keep(10)
    assert clock.left == 5 * 60 - 24 - 30 and clock.used == 5
    for rows, classes, kept in ((100_000, 4, 24), (20_000, 1_000, 40), (100_000, 1_000, 120)):
        clock.expect_report(rows, classes)
        assert clock.left == 5 * 60 - kept - 30


def test_a_run_that_cannot_end_is_not_trained_on(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time_limit.time, "monotonic", lambda: now[0])
    trainer = SimpleNamespace(max_epochs=10, current_epoch=0, num_training_batches=20)

    def steps(seconds, number):
        limit = time_limit.TimeLimit(None, None, seconds=200.0)
        limit.on_train_start(trainer, None)
        for step in range(number):
            now[0] += seconds
            limit.on_train_batch_end(trainer, None, {}, {}, step)

    steps(0.9, 20)
    with pytest.raises(time_limit.OutOfTime, match="training would take about 220 s, allowed: 200 s"):
        steps(1.1, 6)
