"""Methods that learn clusters, on vectors in groups: stages, pseudo-labels, attention, what a checkpoint keeps."""

import json
from functools import partial
from pathlib import Path

import lightning.pytorch as pl
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from clustering.scores import clustering_scores
from lightning_modules.methods.clustering.aecl import AECLModule
from lightning_modules.methods.clustering.rstc import RSTCModule
from lightning_modules.methods.clustering.sample_attention import BareAttention, EncoderLayerAttention
from lightning_modules.methods.clustering.sccl import SCCLModule
from lightning_modules.methods.clustering.self_train import SIF, SelfTrainModule
from lightning_modules.schedules import constant
from losses import (
    AECLLoss,
    ClassAwareClusteringLoss,
    RSTCLoss,
    SCCLLoss,
    StudentTClusteringLoss,
    sharpened_targets,
    student_t_log_assignments,
)

FILE = Path(__file__).resolve().parents[3] / "golden" / "aecl.json"
GOLDEN = {case["id"]: case for case in json.loads(FILE.read_text(encoding="utf-8"))["cases"]}
TEXTS, SIZE, GROUPS = 60, 32, 3


class Bag(nn.Module):
    """An encoder that averages word vectors; group g uses words 10 g to 10 g + 9."""

    frozen = False
    hidden_size = SIZE

    def __init__(self):
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        centres, spread = (torch.randn(GROUPS, number, SIZE, generator=generator) for number in (1, 10))
        self.words = nn.Parameter((centres + 0.7 * spread).flatten(0, 1))

    def token_embeddings(self):
        return self.words.detach()

    def forward(self, input_ids, attention_mask):
        weights = attention_mask[..., None].float()
        return (self.words[input_ids] * weights).sum(1) / weights.sum(1)


class Texts(pl.LightningDataModule):
    """60 texts of 4 words in 3 groups; the second view has other words of the group."""

    def __init__(self, num_views=2):
        super().__init__()
        generator = torch.Generator().manual_seed(1)
        self.groups = torch.arange(TEXTS) % GROUPS
        self.ids = 10 * self.groups[:, None] + torch.randint(10, (num_views, TEXTS, 4), generator=generator)
        self.indices = {"train": np.arange(TEXTS), "val": np.arange(TEXTS)}
        self.num_views = num_views

    def batch(self, rows, views):
        ids = self.ids[:views, rows].flatten(0, 1)
        mask = torch.ones_like(ids)
        return {"input_ids": ids, "attention_mask": mask, "indices": rows, "labels": torch.full_like(rows, -1)}

    def loader(self, rows, views):
        return torch.utils.data.DataLoader([self.batch(part, views) for part in rows.split(20)], batch_size=None)

    def train_dataloader(self):
        return self.loader(torch.arange(TEXTS).view(3, 20).T.flatten(), self.num_views)

    def val_dataloader(self):
        return self.loader(torch.arange(TEXTS).flip(0), 1)


def build(method, loss, **options):
    torch.manual_seed(0)
    optimizer = partial(torch.optim.AdamW, lr=1e-3, weight_decay=0.0)
    arguments = {"num_clusters": GROUPS, "head_lr": 3e-3} | options
    return method(Bag(), loss, optimizer, constant, name=method.__name__, **arguments)


class Stages(pl.Callback):
    def __init__(self):
        self.losses, self.stages, self.labels = [], [], []

    def on_train_epoch_end(self, trainer, module):
        self.losses.append(trainer.callback_metrics["train/loss"].item())
        self.stages.append(trainer.callback_metrics.get("train/stage", torch.tensor(0)).item())
        self.labels.append(module.pseudo_labels)


def fit(module, epochs, data=None, **options):
    seen = Stages()
    trainer = pl.Trainer(
        max_epochs=epochs, accelerator="cpu", logger=False, enable_progress_bar=False, enable_model_summary=False,
        limit_val_batches=0, callbacks=[seen], **{"enable_checkpointing": False} | options,
    )  # fmt: skip
    data = data or Texts(module.num_views)
    trainer.fit(module, data, **({"ckpt_path": module.resumes_at} if hasattr(module, "resumes_at") else {}))
    return seen, data


def accuracy(module, data):
    clusters = module.eval().all_outputs(lambda batch: module(batch)["logits"]).argmax(1)
    return clustering_scores(data.groups.numpy(), clusters.numpy())["acc"]


# attention


def test_golden_bare_attention():
    case = GOLDEN["attention_eq1_2_3"]
    z, *weights = (torch.tensor(case["inputs"][key], dtype=torch.float64) for key in ("Z", "W_K1", "W_K2", "W_T"))
    attention = BareAttention(3).double()
    for layer, weight in zip((attention.first, attention.second, attention.value), weights, strict=True):
        layer.weight.data = weight.T
    h, similarity = attention(z)
    for actual, key in ((h, "H"), (similarity, "S")):
        expected = torch.tensor(case["expected"][key], dtype=torch.float64)
        assert torch.allclose(actual, expected, atol=1e-10, rtol=0)


def test_encoder_layer_is_that_of_torch():
    ours = EncoderLayerAttention(8, 16).double().eval()
    theirs = nn.TransformerEncoderLayer(8, 1, 16, activation="relu", norm_first=False, dtype=torch.float64).eval()
    projections = (ours.first, ours.second, ours.value)
    theirs.self_attn.in_proj_weight.data = torch.cat([layer.weight for layer in projections])
    theirs.self_attn.in_proj_bias.data = torch.cat([layer.bias for layer in projections])
    theirs.self_attn.out_proj.load_state_dict(ours.out.state_dict())
    for layer, number in ((theirs.linear1, 0), (theirs.linear2, 3)):
        layer.load_state_dict(ours.feedforward[number].state_dict())
    z = torch.randn(5, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    h, similarity = ours(z)
    expected = theirs.self_attn(z, z, z)[1]
    assert torch.allclose(h, theirs(z), atol=1e-10) and torch.allclose(similarity, expected, atol=1e-10)
    assert torch.allclose(similarity.sum(1), torch.ones(5).double())
    ours.train()
    dropped = ours(z)[1].sum(1)
    assert not torch.allclose(dropped, torch.ones(5).double())


@pytest.mark.parametrize("attention", ["encoder_layer", "bare", "none"])
def test_companions_count_through_the_attention_alone(attention):
    module = build(AECLModule, AECLLoss(), attention=attention).eval()
    data = Texts()
    few, many = (module(data.batch(torch.arange(number), 1)) for number in (5, 30))
    depends = not torch.allclose(few["logits"], many["logits"][:5], atol=1e-6)
    assert depends == module.depends_on_companions == (attention != "none")
    assert torch.allclose(few["embeddings"], many["embeddings"][:5], atol=1e-6)
    assert ("similarity" in few) == depends
    if depends:
        assert torch.allclose(few["similarity"].sum(1), torch.ones(5), atol=1e-6)


# AECL


def test_stage_lengths():
    def lengths(number, **options):
        return build(AECLModule, AECLLoss(), **options).stage_lengths(number)

    assert [lengths(number)[0] for number in (20000, 11109, 8000, 2472)] == [2, 10, 10, 20]
    reversed_ = [lengths(number, stage1_epochs="by_size_reversed")[0] for number in (20000, 8000, 2472)]
    assert reversed_ == [20, 10, 2]
    assert [lengths(100, num_clusters=number)[1] for number in (4, 20, 89, 152)] == [1, 1, 6, 6]
    assert lengths(100, stage1_epochs=3, stage2_epochs=4) == (3, 4)


def test_a_shortened_schedule_has_all_three_stages():
    def lengths(**options):
        module = build(AECLModule, AECLLoss(), **options)
        module.schedule_share = 12 / 70
        return module.stage_lengths(100)

    assert lengths(stage1_epochs=20, stage2_epochs=6) == (3, 1)
    assert lengths(stage1_epochs=2, stage2_epochs=0) == (1, 0)


@pytest.mark.parametrize(
    ("loss", "attention"), [(AECLLoss, "encoder_layer"), (AECLLoss, "bare"), (ClassAwareClusteringLoss, "none")]
)
def test_three_stages_find_the_groups(loss, attention):
    module = build(AECLModule, loss(), attention=attention, stage1_epochs=4, stage2_epochs=6, head_dropout=0.1)
    before = module.encoder.words.detach().clone()
    seen, data = fit(module, 16)
    assert seen.stages == [1] * 4 + [2] * 6 + [3] * 6
    assert seen.labels[3] is None and all(labels is seen.labels[4] for labels in seen.labels[4:])
    assert clustering_scores(data.groups.numpy(), seen.labels[4].numpy())["acc"] > 0.9
    assert accuracy(module, data) > 0.9
    assert not torch.equal(before, module.encoder.words)


@pytest.mark.parametrize(("first", "second", "stages"), [(0, 2, [2, 2, 3]), (2, 0, [1, 1, 3]), (0, 0, [3, 3, 3])])
def test_a_stage_left_out(first, second, stages):
    seen, _ = fit(build(AECLModule, AECLLoss(), stage1_epochs=first, stage2_epochs=second), 3)
    assert seen.stages == stages and (seen.labels[-1] is not None) == bool(second)


def test_the_clustering_network_rests_in_stage_1():
    module = build(AECLModule, AECLLoss(), stage1_epochs=2, stage2_epochs=1)
    module.second_stage, module.third_stage = 9, 9
    module.trainer = type("Trainer", (), {"current_epoch": 0, "global_step": 0})()
    module.training_losses(Texts().batch(torch.arange(20), 2))["loss"].backward()
    assert all(parameter.grad is None for parameter in module.head.parameters())
    assert all(parameter.grad is not None for parameter in module.attention.parameters())


def test_stages_that_leave_nothing_to_the_third_are_refused():
    with pytest.raises(ValueError, match=r"trainer.max_epochs: found 5, allowed: > 5, .*\(3 and 2\)"):
        fit(build(AECLModule, AECLLoss(), stage1_epochs=3, stage2_epochs=2), 5)


def test_a_run_that_stops_in_stage_2_goes_on_with_its_labels(tmp_path):
    def module():
        return build(AECLModule, AECLLoss(), stage1_epochs=1, stage2_epochs=3)

    whole = module()
    fit(whole, 6)
    stopped = module()
    checkpoints = pl.callbacks.ModelCheckpoint(tmp_path, save_last=True)
    trainer = pl.Trainer(
        max_epochs=6, accelerator="cpu", logger=False, enable_progress_bar=False, enable_model_summary=False,
        limit_val_batches=0, callbacks=[checkpoints, StopAfter(3)],
    )  # fmt: skip
    trainer.fit(stopped, Texts())
    resumed = module()
    resumed.resumes_at = tmp_path / "last.ckpt"
    seen, _ = fit(resumed, 6)
    assert len(seen.stages) == 3 and torch.equal(seen.labels[0], stopped.pseudo_labels)
    for name, value in whole.state_dict().items():
        assert torch.equal(value, resumed.state_dict()[name]), name


class StopAfter(pl.Callback):
    def __init__(self, epochs):
        self.epochs = epochs

    def on_train_epoch_end(self, trainer, module):
        trainer.should_stop = trainer.current_epoch + 1 >= self.epochs


# SCCL, RSTC, Self-Train


def test_sccl_starts_from_k_means_and_keeps_the_groups():
    module = build(SCCLModule, SCCLLoss())
    seen, data = fit(module, 8)
    assert accuracy(module, data) > 0.9 and seen.losses[-1] < seen.losses[0]
    batch = data.batch(torch.arange(6), 1)
    output = module(batch)
    expected = student_t_log_assignments(output["embeddings"], module.centres, 1.0)
    assert torch.equal(output["logits"], expected) and module.centres.detach().abs().max() > 0


def test_rstc_refreshes_its_labels_ever_more_rarely():
    module = build(RSTCModule, RSTCLoss(), kmeans_epochs=2, refreshes=3, head_dropout=0.1)
    seen, data = fit(module, 12)
    assert module.refresh_epochs() == {2, 3, 6}
    changes = [epoch for epoch in range(1, 12) if seen.labels[epoch] is not seen.labels[epoch - 1]]
    assert changes == [2, 3, 6] and accuracy(module, data) > 0.9


def test_sif_vectors_slow_reference():
    module = build(SelfTrainModule, StudentTClusteringLoss(), num_views=1, pretrain_epochs=1, layer_sizes=(6, 2))
    data = Texts(1)
    data.ids[0, :10, 3] = 0  # frequent words weigh less
    fit(module, 2, data)
    words = module.encoder.words.detach().double()
    ids = data.ids[0].tolist()
    counts = np.bincount(data.ids[0].flatten().numpy(), minlength=30)
    rows = [sum(SIF / (SIF + counts[i] / counts.sum()) * words[i] for i in text) / 4 for text in ids]
    averages = torch.stack(rows).numpy()
    direction = np.linalg.svd(averages)[2][0]
    expected = averages - averages @ direction[:, None] * direction
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    actual = module.vectors_of(data.batch(torch.arange(TEXTS), 1))
    assert np.abs(actual.numpy() - expected).max() < 1e-4


@pytest.mark.parametrize("vectors", ["sif", "sentence"])
def test_self_train_finds_the_groups_with_targets_of_the_whole_set(vectors):
    options = {"pretrain_epochs": 6, "refresh_interval": 2, "layer_sizes": (64, 4), "vectors": vectors}
    module = build(SelfTrainModule, StudentTClusteringLoss(), num_views=1, **options)
    before = module.encoder.words.detach().clone()
    seen, data = fit(module, 12)
    assert seen.stages == [1] * 6 + [2] * 6 and seen.losses[5] < seen.losses[0]
    changes = [epoch for epoch in range(6, 12) if seen.labels[epoch] is not seen.labels[epoch - 1]]
    assert changes == [6, 8, 10] and torch.equal(before, module.encoder.words)
    assert accuracy(module, data) > 0.8
    module.trainer.fit_loop.epoch_progress.current.processed = 12
    module.start_epoch()
    log_q = module.all_outputs(lambda batch: module(batch)["logits"])
    assert torch.allclose(module.pseudo_labels, sharpened_targets(log_q), atol=1e-5)


def test_self_train_sees_fixed_vectors():
    """Its encoder drops nothing while the rest trains."""
    module = build(SelfTrainModule, StudentTClusteringLoss(), num_views=1, vectors="sentence", layer_sizes=(6, 2))
    module.encoder.register_forward_hook(lambda encoder, _, output: F.dropout(output, training=encoder.training))
    batch = Texts(1).batch(torch.arange(9), 1)
    module.train()
    assert torch.equal(module.vectors_of(batch), module.vectors_of(batch))


@pytest.mark.parametrize(
    ("method", "loss", "options", "key"),
    [
        (RSTCModule, RSTCLoss, {"kmeans_epochs": 3}, "method.kmeans_epochs"),
        (SelfTrainModule, StudentTClusteringLoss, {"pretrain_epochs": 3, "num_views": 1}, "method.pretrain_epochs"),
    ],
)
def test_a_run_that_never_comes_to_its_point_is_refused(method, loss, options, key):
    with pytest.raises(ValueError, match=f"trainer.max_epochs: found 3, allowed: > 3, {key}"):
        fit(build(method, loss(), **options), 3)


def test_word_vectors_need_tokens(monkeypatch):
    monkeypatch.setattr(Bag, "frozen", True)
    with pytest.raises(ValueError, match="encoder.train: found frozen, allowed with method.vectors=sif"):
        build(SelfTrainModule, StudentTClusteringLoss(), num_views=1)


@pytest.mark.parametrize(("rms", "scale"), [(1.0, 1.0), (2.5, 2.5), (None, 3.0)])
def test_the_projector_sees_embeddings_of_one_length(rms, scale):
    module = build(AECLModule, AECLLoss(), embedding_rms=rms)
    embeddings = F.normalize(torch.randn(5, SIZE, generator=torch.Generator().manual_seed(0)), dim=1)
    expected = module.projector(embeddings * scale * (1 if rms is None else SIZE**0.5))
    assert torch.allclose(module.project(3.0 * embeddings), expected, atol=1e-5)


@pytest.mark.parametrize("number", [1, 7, 230])
def test_texts_of_like_length_are_encoded_together(number):
    """Order and values are those of one pass; no row sees more pads than its group needs."""
    module = build(SCCLModule, SCCLLoss())
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(1, 30, (number,), generator=generator)
    ids = torch.randint(30, (number, 30), generator=generator)
    mask = (torch.arange(30) < lengths[:, None]).long()
    batch = {"input_ids": ids, "attention_mask": mask}
    widths = []
    hook = module.encoder.register_forward_pre_hook(lambda _, inputs: widths.append(inputs[0].shape))
    actual = module.embed(batch)
    hook.remove()
    assert torch.allclose(actual, module.encoder(ids, mask), atol=1e-6)
    assert sum(rows for rows, _ in widths) == number and widths[0][1] == lengths.max()
    longest = [width for _, width in widths]
    assert len(widths) == -(-number // 100) and longest == sorted(longest, reverse=True)


def test_same_seed_same_bits():
    first, second = (build(AECLModule, AECLLoss(), stage1_epochs=1, stage2_epochs=1) for _ in range(2))
    for module in (first, second):
        fit(module, 3)
    assert all(torch.equal(value, second.state_dict()[name]) for name, value in first.state_dict().items())
    assert F.cosine_similarity(first.encoder.words, Bag().words).min() < 1
