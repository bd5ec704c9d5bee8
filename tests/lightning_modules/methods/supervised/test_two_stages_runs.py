"""BBN, MiSLAS, DisAlign, cRT and tau-norm from the command line: the rows they learn from, and what is refused."""

from pathlib import Path

import numpy as np
import pytest
from lightning.pytorch import Callback

from engine.plan import Plan, instantiate_partial
from tests.engine.plans import composed, findings


class Labels(Callback):
    """Labels and stage of every batch of training."""

    def __init__(self):
        self.labels, self.stages = [], []

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        self.labels.append(batch["labels"].numpy())
        self.stages.append(int(outputs.get("stage", 0)))


@pytest.fixture
def labels_of(files, store, small, tmp_path):
    """Train a line; the labels of its batches and their stages."""

    def call(*line):
        plan = Plan.make(composed(*files, *store, *small, "callbacks=none", *line))
        datamodule, labels = plan.datamodule(plan.corpus()), Labels()
        build = instantiate_partial(plan.config.trainer)
        trainer = build(run_folder=Path(tmp_path), callbacks=[labels], logger=False, plugins=[])
        trainer.limit_val_batches, trainer.enable_checkpointing = 0, False
        trainer.fit(plan.module(datamodule), datamodule)
        return labels.labels, labels.stages

    return call


@pytest.mark.slow
@pytest.mark.parametrize("accumulated", [1, 3])
def test_the_second_stage_learns_from_balanced_draws(labels_of, accumulated):
    line = ["method=crt", "sampler.batch_size=8", "trainer.max_epochs=8", "method.representation_share=0.33"]
    labels, stages = labels_of(*line, f"trainer.accumulate_grad_batches={accumulated}")
    first, second = (np.concatenate([y for y, s in zip(labels, stages, strict=True) if s == k]) for k in (1, 2))
    share_of_rarest = 8 / 68
    assert np.bincount(first).min() / len(first) == pytest.approx(share_of_rarest, abs=0.04)
    assert np.bincount(second) / len(second) == pytest.approx([0.25] * 4, abs=0.07)
    assert stages == sorted(stages)
    # not a batch too early or too late: until then every epoch holds each row once
    per_epoch, switch = len(labels) // 8, stages.index(2)
    assert switch % per_epoch  # within an epoch
    epochs = [np.concatenate(labels[k * per_epoch : (k + 1) * per_epoch]) for k in range(switch // per_epoch)]
    assert all(np.array_equal(np.bincount(epoch), np.bincount(epochs[0])) for epoch in epochs)


@pytest.mark.slow
def test_both_draws_stand_in_every_batch_of_bbn(labels_of):
    labels, _ = labels_of("method=bbn", "sampler.batch_size=8", "trainer.max_epochs=5")
    first, second = (np.concatenate([np.split(y, 2)[half] for y in labels]) for half in (0, 1))
    sizes = np.bincount(first)
    assert len(first) % 5 == 0 and np.all(sizes % 5 == 0)  # each row once an epoch
    expected = (1 / sizes) / (1 / sizes).sum()
    assert np.bincount(second) / len(second) == pytest.approx(expected, abs=0.08)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["bbn", "mislas", "disalign", "crt", "tau_norm"])
def test_over_a_frozen_encoder_and_exported(fit, solve, use, tmp_path, method):
    frozen = [f"method={method}", "encoder.train=frozen"]
    result = solve(*frozen) if method == "tau_norm" else fit(*frozen, "sampler.batch_size=16")
    assert result.metrics["status"] == "finished"
    exported = use("export", result, f"output={tmp_path / 'exported'}")
    if method in ("bbn", "disalign"):
        assert exported.error.startswith(f"task=export: method={method}")
    else:
        assert exported.code == 0, exported.err


@pytest.mark.parametrize(
    ("line", "finding"),
    [
        (["method=tau_norm", "protocol=published"], "protocol: found published; allowed with method=tau_norm"),
        (["method=tau_norm", "method.exponent=test"], "method.exponent: found 'test'"),
        (["method=tau_norm", "+method.classifier_bias=true"], "method.classifier_bias"),
        (["method=disalign", "+method.classifier_weighting=class_balanced"], "method.classifier_weighting"),
        (["method=mislas", "method.num_views=2"], "method.num_views: found 2; allowed: 1"),
        (["method=mislas", "loss=cross_entropy"], "loss: found cross_entropy; allowed with method=mislas"),
        (["method=mislas", "loss.head_smoothing=1"], "loss.head_smoothing: found 1"),
        (["method=bbn", "method.schedule_by=batch"], "method.schedule_by: found 'batch'; allowed: step, epoch"),
        (["method=crt", "method.classifier_weighting=all"], "method.classifier_weighting: found 'all'"),
    ],
)
def test_bad_options_are_one_line(line, finding):
    assert any(finding in single for single in findings(" ".join(line)))
