"""How long a run trains."""

import pytest

from engine.trainer import ENOUGH_STEPS, EPOCHS, build_trainer


@pytest.mark.parametrize(
    ("options", "batches", "epochs"),
    [
        ({"max_epochs": "enough"}, 2, -(-ENOUGH_STEPS // 2)),
        ({"max_epochs": "enough", "accumulate_grad_batches": 2}, 2, ENOUGH_STEPS),
        ({"max_epochs": "enough"}, 500, EPOCHS),
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
