"""cRT, MiSLAS and DisAlign as modules: what each stage trains, mixes and predicts with."""

from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from lightning_modules.base import derived_seed
from lightning_modules.encoders.resnet import SmallResNetEncoder
from lightning_modules.methods.supervised.crt import CRTModule
from lightning_modules.methods.supervised.disalign import DisAlignModule
from lightning_modules.methods.supervised.mislas import MiSLASModule
from lightning_modules.schedules import constant
from losses import CrossEntropy, GeneralisedReweightingLoss, LabelAwareSmoothingLoss
from tests.lightning_modules.methods.supervised.test_queue import COUNTS, Encoder, at_step, state, step

KINDS = {
    "crt": (CRTModule, CrossEntropy),
    "mislas": (MiSLASModule, LabelAwareSmoothingLoss),
    "disalign": (DisAlignModule, GeneralisedReweightingLoss),
}
LEARNS = {  # in the second stage
    "crt": {"classifier.weight", "classifier.bias"},
    "mislas": {"classifier.weight", "classifier.bias", "scale"},
    "disalign": {"confidence.weight", "confidence.bias", "magnitude", "margin"},
}
every_method = pytest.mark.parametrize("method", KINDS)


class NormalisedEncoder(Encoder):
    """With batch normalisation and dropout, as encoders of images and of texts have them."""

    def __init__(self):
        super().__init__()
        self.norm, self.drop = nn.BatchNorm1d(self.hidden_size), nn.Dropout(0.5)

    def forward(self, input_ids, attention_mask):
        return self.drop(self.norm(super().forward(input_ids, attention_mask)))


def build(method, encoder=Encoder, **options):
    torch.manual_seed(0)
    kind, loss = KINDS[method]
    optimizer = partial(torch.optim.SGD, lr=0.1)
    module = kind(encoder(), loss(), COUNTS, optimizer, constant, method, dropout=0.0, **options)
    module.trainer = SimpleNamespace(
        global_step=0, estimated_stepping_batches=10, num_training_batches=4, accumulate_grad_batches=1, optimizers=[]
    )
    return module


def make_batch(start=0, size=6):
    rows = torch.arange(start, start + size)
    tokens = {"input_ids": rows[:, None], "attention_mask": torch.ones(size, 1, dtype=torch.long)}
    return {**tokens, "labels": rows % 3, "indices": rows, "num_views": 1}


def with_features(module, batch):
    tokens = ("input_ids", "attention_mask")
    rest = {key: value for key, value in batch.items() if key not in tokens}
    return rest | {"features": module.encoder(batch["input_ids"], batch["attention_mask"]).detach()}


@every_method
def test_what_each_stage_moves(method):
    module = build(method)
    for number, expected in ((6, {"encoder.table.weight", *LEARNS["crt"]}), (7, LEARNS[method])):
        at_step(module, number)
        if number == 7 and method == "disalign":  # at its start the calibration does not depend on the confidence
            nn.init.normal_(module.margin)
        before = state(module)
        losses = step(module, make_batch())
        assert losses["stage"].item() == (1 if number == 6 else 2)
        assert {name for name in before if not torch.equal(before[name], state(module)[name])} == expected


def test_crt_begins_its_classifier_anew_and_the_others_keep_it():
    for method in KINDS:
        module = at_step(build(method), 7)
        before = module.classifier.weight.detach().clone()
        module.begin_second_stage()
        assert torch.equal(module.classifier.weight, before) == (method != "crt")
        assert module.classifier.weight.any() == (method != "crt")


@every_method
@pytest.mark.parametrize("weighting", ["class_balanced", "inverse_frequency", "none"])
def test_rows_of_the_second_stage_are_drawn_or_weighted(method, weighting):
    if method == "disalign" and weighting != "none":
        return
    module = build(method, classifier_weighting=weighting)
    assert module.rows_afterwards == ("class_balanced" if weighting == "class_balanced" else None)


@pytest.mark.parametrize(("accumulated", "expected"), [(1, 28), (3, 56)])
def test_batches_of_the_first_stage(accumulated, expected):
    """28 of 40 steps: of one batch each, or of three, the fourth batch of an epoch being a step of its own."""
    module = build("crt")
    module.trainer.estimated_stepping_batches, module.trainer.accumulate_grad_batches = 40, accumulated
    assert module.batches_before == expected


def test_crt_steps_are_cross_entropy_in_both_stages():
    module, batch = build("crt"), make_batch()
    embeddings = module.encoder.table(batch["input_ids"][:, 0])
    expected = functional.cross_entropy(module.classifier(embeddings), batch["labels"])
    torch.testing.assert_close(module.training_losses(batch)["loss"], expected)
    nn.init.normal_(at_step(module, 8).classifier.weight)
    expected = functional.cross_entropy(module.classifier(embeddings), batch["labels"])
    torch.testing.assert_close(module.training_losses(batch)["loss"], expected)


@pytest.mark.parametrize("mixes_inputs", [False, True])
def test_mislas_mixes_rows_by_a_share_of_the_step(mixes_inputs):
    module, batch = at_step(build("mislas", mixup_alpha=0.5), 3), make_batch()
    embeddings, labels = module.encoder.table(batch["input_ids"][:, 0]), batch["labels"]
    rng = np.random.default_rng(derived_seed(0, "mixup", 3))
    share, order = rng.beta(0.5, 0.5), rng.permutation(6)
    expected = 0.0
    for i, j in enumerate(order):
        logits = module.classifier(share * embeddings[i] + (1 - share) * embeddings[j])
        log_p = logits.log_softmax(0)
        expected -= (share * log_p[labels[i]] + (1 - share) * log_p[labels[j]]).item() / 6
    given = with_features(module, batch) if mixes_inputs else batch
    assert module.training_losses(given)["loss"].item() == pytest.approx(expected, rel=1e-5)
    plain = build("mislas", mixup_alpha=0.0).training_losses(batch)["loss"]
    torch.testing.assert_close(plain, build("crt").training_losses(batch)["loss"])


def test_mislas_mixes_pixels_that_come_as_whole_numbers():
    encoder = SmallResNetEncoder("resnet8", depth=8).load()
    pixels, labels = torch.randint(256, (6, 3, 8, 8), dtype=torch.uint8), torch.arange(6) % 3
    module = at_step(build("mislas", lambda: encoder), 3)
    rng = np.random.default_rng(derived_seed(0, "mixup", 3))
    share, order = rng.beta(1.0, 1.0), torch.from_numpy(rng.permutation(6))
    mixed = share * pixels.double() + (1 - share) * pixels[order].double()
    log_p = module.classifier(encoder(mixed.float())).log_softmax(1)
    expected = -(share * log_p[range(6), labels] + (1 - share) * log_p[range(6), labels[order]]).mean()
    loss = module.training_losses({"pixels": pixels, "labels": labels, "num_views": 1})["loss"]
    torch.testing.assert_close(loss, expected)


def test_mislas_lets_batch_statistics_move_while_weights_rest():
    module, batch = at_step(build("mislas", NormalisedEncoder), 8), make_batch()
    before = state(module)
    embeddings = module.resting_embeddings(batch)
    rows = module.encoder.table(batch["input_ids"][:, 0])
    torch.testing.assert_close(embeddings, functional.batch_norm(rows, None, None, training=True))  # and no dropout
    after = state(module)
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert moved == {f"encoder.norm.{name}" for name in ("running_mean", "running_var", "num_batches_tracked")}
    still = at_step(build("crt", NormalisedEncoder), 8)
    before = state(still)
    still.resting_embeddings(batch)
    assert all(torch.equal(before[name], tensor) for name, tensor in state(still).items())


def test_mislas_predicts_with_scaled_classes():
    module, batch = build("mislas").eval(), make_batch()
    with torch.no_grad():
        module.scale.copy_(torch.tensor([2.0, 1.0, 0.5]))
    output, head = module(batch), module.prediction_head()
    torch.testing.assert_close(output["logits"], module.classifier(output["embeddings"]) * module.scale)
    torch.testing.assert_close(output["embeddings"] @ head["weight"].T + head["bias"], output["logits"])
    assert not any(value.requires_grad for value in head.values())


def test_disalign_calibrates_resting_logits():
    module, batch = at_step(build("disalign"), 8), make_batch()
    with torch.no_grad():
        module.magnitude.copy_(torch.tensor([0.5, 1.0, 2.0]))
        module.margin.copy_(torch.tensor([0.1, -0.2, 0.3]))
    embeddings = module.encoder.table(batch["input_ids"][:, 0])
    logits, share = module.classifier(embeddings), module.confidence(embeddings).sigmoid()
    calibrated = share * (module.magnitude * logits + module.margin) + (1 - share) * logits
    torch.testing.assert_close(module.eval()(batch)["logits"], calibrated)
    weights = torch.tensor([(125 / n) ** 1.2 for n in COUNTS.tolist()])
    expected = functional.cross_entropy(calibrated, batch["labels"], weight=weights)
    torch.testing.assert_close(module.training_losses(batch)["loss"], expected)
    with pytest.raises(ValueError, match="task=export: method=disalign"):
        module.prediction_head()


@every_method
def test_features_take_the_place_of_tokens_in_both_stages(method):
    for number in (2, 8):
        module, batch = at_step(build(method), number), make_batch()
        other = at_step(build(method), number)
        expected, actual = module.training_losses(batch), other.training_losses(with_features(other, batch))
        torch.testing.assert_close(actual["loss"], expected["loss"])


@every_method
def test_a_schedule_that_cannot_begin_anew_is_refused(method):
    module = build(method)
    module.scheduler = partial(torch.optim.lr_scheduler.OneCycleLR, max_lr=0.1)
    with pytest.raises(ValueError, match=f"^scheduler: found OneCycleLR, allowed with method={method}: a LambdaLR"):
        module.configure_optimizers()
