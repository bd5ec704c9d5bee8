"""Runs that are killed, interrupted or started twice end as if nothing had happened."""

import os
import random
import signal
import time
from functools import partial

import pytest

from tests.command_lines import outcome, rows
from tests.own_process import assert_equal, die_at_write, status, the_run, wait_for

EPOCHS = 6
STATES = "callbacks.last.every_seconds=0"  # a state after each epoch, however short
FIT = ["method=sharprecl", f"trainer.max_epochs={EPOCHS}", "callbacks.early_stopping.patience=1", STATES]


@pytest.mark.slow
@pytest.mark.parametrize("choice", ["method=sharprecl", "method=ce", "method=ce encoder.train=top_layers"])
def test_killed_at_every_kind_of_write_a_run_ends_with_the_same_bits(fit, start, tmp_path, choice):
    line = [*choice.split(), *FIT[1:]]
    undisturbed = fit(*line, f"paths.runs={tmp_path}/undisturbed")
    assert undisturbed.metrics["epochs"] < EPOCHS  # early stopping acts
    rng = random.Random(choice)
    kills, number = 0, 1
    while True:
        process = start(*line, dies=partial(die_at_write, number, rng.choice(["before", "after"])))
        process.join()
        if process.exitcode == 0:
            break
        assert process.exitcode == -signal.SIGKILL, (tmp_path / "output.err").read_text()
        kills, number = kills + 1, number + rng.randint(1, 2)
    assert kills >= 5
    assert_equal(the_run(tmp_path), undisturbed.folder)


@pytest.mark.slow
def test_killed_in_training_after_an_epoch_and_in_the_test(fit, start, tmp_path):
    undisturbed = fit(*FIT, f"paths.runs={tmp_path}/undisturbed").folder
    process = start(*FIT)
    wait_for(lambda: len(list(tmp_path.glob("runs/*/history.csv"))) == 1, process)
    run = the_run(tmp_path)
    time.sleep(random.random() / 10)
    process.kill()
    process.join()
    assert status(run) == "running" and len(rows(run / "history.csv")) < EPOCHS

    process = start(*FIT)
    wait_for(lambda: (run / "predictions.csv").exists(), process)
    process.kill()
    process.join()
    assert process.exitcode == -signal.SIGKILL

    assert start(*FIT).join() is None
    assert_equal(run, undisturbed)


QUEUE = ["method.queue_size=50", "trainer.max_epochs=6"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "line",
    [
        ["method=tsc", *QUEUE],  # queue, key modules, targets, two stages
        ["method=paco", *QUEUE],
        ["method=bbn"],  # two draws a step
        ["method=two_heads_words"],
        ["method=crt"],
        ["method=mislas"],  # a second stage with draws of its own
    ],
    ids=lambda line: line[0],
)
def test_killed_in_training_what_a_method_keeps_of_its_own_goes_on(fit, start, tmp_path, line):
    line = ["sampler.batch_size=8", "trainer.max_epochs=4", STATES, *line]
    undisturbed = fit(*line, f"paths.runs={tmp_path}/undisturbed").folder
    process = start(*line)
    wait_for(lambda: any(tmp_path.glob("runs/*/checkpoints/last.ckpt")), process)
    process.kill()
    process.join()
    run = the_run(tmp_path)
    assert status(run) == "running" and len(rows(run / "history.csv")) < len(rows(undisturbed / "history.csv"))
    assert start(*line).join() is None
    assert_equal(run, undisturbed)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
@pytest.mark.parametrize("epochs", [0, 2])
def test_an_interrupted_run_says_so_and_goes_on(fit, start, tmp_path, number, epochs):
    undisturbed = fit(*FIT, f"paths.runs={tmp_path}/undisturbed").folder
    process = start(*FIT)

    def is_due() -> bool:
        runs = list(tmp_path.glob("runs/*/metrics.json"))
        history = list(tmp_path.glob("runs/*/history.csv"))
        return bool(runs) and (epochs == 0 or (bool(history) and len(rows(history[0])) >= epochs))

    wait_for(is_due, process)
    os.kill(process.pid, number)
    process.join()
    run = the_run(tmp_path)
    assert process.exitcode == 130, (tmp_path / "output.err").read_text()
    assert status(run) == "interrupted"
    (line,) = (tmp_path / "output.err").read_text().splitlines()
    assert line == "error: interrupted; type the same command again to go on"
    start(*FIT).join()
    assert_equal(run, undisturbed)


@pytest.mark.slow
def test_two_processes_that_start_one_run_train_it_once(fit, start, tmp_path):
    processes = [start(*FIT, name=name) for name in ("one", "two")]
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0]
    outputs = [(tmp_path / f"{name}.out").read_text() for name in ("one", "two")]
    assert sum(f"epoch 1/{EPOCHS}" in output for output in outputs) == 1
    assert sum("finished already" in output for output in outputs) == 1
    assert {output.splitlines()[-1] for output in outputs} == {str(the_run(tmp_path))}


@pytest.mark.slow
def test_two_runs_that_prepare_the_same_data_at_once(start, tmp_path):
    processes = [start(*FIT, f"seed={seed}", name=str(seed)) for seed in range(3)]
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert len([path for path in (tmp_path / "data").glob("csv-*") if path.is_dir()]) == 1
    assert {status(run) for run in (tmp_path / "runs").iterdir() if run.is_dir()} == {"finished"}


@pytest.mark.slow
def test_a_checkpoint_of_another_run_and_a_truncated_one_are_refused(fit, start, tmp_path):
    process = start(*FIT)
    wait_for(lambda: any(tmp_path.glob("runs/*/checkpoints/last.ckpt")), process)
    process.kill()
    process.join()
    run = the_run(tmp_path)
    last = run / "checkpoints" / "last.ckpt"
    whole = last.read_bytes()

    last.write_bytes(whole[: len(whole) // 2])
    assert "last.ckpt: cannot be read" in fit(*FIT).error
    assert status(run) == "failed"

    last.write_bytes(whole)
    undisturbed = fit(*FIT, f"paths.runs={tmp_path}/undisturbed").folder
    other = fit(*FIT, "seed=7", "trainer.max_epochs=1").folder
    last.write_bytes((other / "checkpoints" / "best.ckpt").read_bytes())
    assert "checkpoint: found one of run " + other.name in fit(*FIT).error
    last.write_bytes(whole)
    assert fit(*FIT).code == 0
    assert outcome(run) == outcome(undisturbed)
