"""How long a run trains."""

import pytest
from lightning.pytorch.callbacks import Callback, EarlyStopping
from lightning.pytorch.demos.boring_classes import BoringModel

from engine.trainer import ENOUGH_STEPS, EPOCHS, HEAD_EPOCHS, HEAD_STEPS, build_trainer
from tests.engine.plans import plain


@pytest.mark.parametrize(
    ("options", "batches", "epochs"),
    [
        ({"max_epochs": "enough"}, 2, -(-ENOUGH_STEPS // 2)),
        ({"max_epochs": "enough", "accumulate_grad_batches": 2}, 2, ENOUGH_STEPS),
        ({"max_epochs": "enough"}, 500, EPOCHS),
        ({"max_epochs": "converged"}, 7, -(-HEAD_STEPS // 7)),
        ({"max_epochs": "converged"}, 500, HEAD_EPOCHS),
        ({"max_epochs": "by_size"}, 0, 70),
        ({"max_epochs": "by_size"}, 7, 70),
        ({"max_epochs": "by_size"}, 50, 16),
        ({"max_epochs": "by_size"}, 250, 12),
        ({"max_epochs": 2}, 5, 2),
        ({"max_epochs": 2, "least_steps": 21}, 5, 5),
    ],
)
def test_batches_decide_on_epochs_unless_a_number_is_said(tmp_path, options, batches, epochs):
    trainer = build_trainer(tmp_path, [], False, [], precision=32, batches=batches, **options)
    assert trainer.max_epochs == epochs


class Validations(Callback):
    """The steps after which there was one."""

    def __init__(self):
        self.steps = []

    def on_validation_end(self, trainer, pl_module):
        self.steps.append(trainer.global_step)


@pytest.mark.parametrize(
    ("max_steps", "steps"), [(10, [10]), (64, [64]), (70, [64, 70]), (128, [64, 128]), (-1, [64, 128, 192])]
)
def test_the_last_step_is_validated_within_an_epoch_too(tmp_path, max_steps, steps):
    validations, options = Validations(), {"max_epochs": 3, "max_steps": max_steps, "precision": 32}
    build_trainer(tmp_path, [validations], False, [], **options).fit(BoringModel())
    assert validations.steps == steps  # of 64 in an epoch


@pytest.mark.parametrize(("max_epochs", "stops"), [("converged", 0), ("enough", 1)])
def test_heads_that_shall_come_to_rest_are_not_stopped_by_a_few_validation_rows(tmp_path, max_epochs, stops):
    trainer = build_trainer(tmp_path, [EarlyStopping("val/loss")], False, [], precision=32, max_epochs=max_epochs)
    assert len(trainer.early_stopping_callbacks) == stops


@pytest.mark.parametrize(
    ("words", "epochs", "head_lr"),
    [
        (["method=sharprecl"], EPOCHS, 1e-3),
        (["method=sharprecl", "encoder.train=top_layers"], EPOCHS, 1e-3),
        (["method=sharprecl", "encoder.train=frozen"], "converged", 3e-3),
        (["method=paco", "encoder.train=frozen", "trainer.max_epochs=2"], 2, 3e-3),
        (["method=paco"], 20, 1e-3),
        (["method=scl_hnm", "active=random", "dataset=agnews"], 30, 1e-3),
        (["method=scl_hnm", "active=random", "dataset=agnews", "encoder.train=frozen"], "converged", 3e-3),
        (["method=ce", "encoder.train=frozen"], EPOCHS, 1e-3),  # solved: neither is read
    ],
)
def test_heads_alone_take_more_steps_and_a_higher_rate(words, epochs, head_lr):
    config = plain(*words)
    assert (config["trainer"]["max_epochs"], config["method"]["head_lr"]) == (epochs, head_lr)
