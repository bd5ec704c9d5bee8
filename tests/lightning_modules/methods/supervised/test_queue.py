"""PaCo, GPaCo, TSC, KCL, DSCL and GML as modules: queue, momentum encoder, targets, stages; equal on every process."""

from functools import partial
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional
from transformers import BertConfig, BertModel

from lightning_modules.encoders.resnet import SmallResNetEncoder
from lightning_modules.encoders.transformer import TextEncoder
from lightning_modules.methods.supervised.dscl import DSCLModule
from lightning_modules.methods.supervised.gml import GMLModule
from lightning_modules.methods.supervised.kcl import KCLModule
from lightning_modules.methods.supervised.paco import PaCoModule
from lightning_modules.methods.supervised.tsc import TSCModule
from lightning_modules.schedules import linear_warmup
from losses import (
    DecoupledContrastiveLoss,
    GaussianMixtureLoss,
    KPositiveContrastiveLoss,
    ParametricContrastiveLoss,
    TargetedContrastiveLoss,
)
from tests.losses.two_processes import in_two_processes

COUNTS = torch.tensor([90, 30, 5])
METHODS = {
    "paco": (PaCoModule, ParametricContrastiveLoss),
    "gpaco": (PaCoModule, ParametricContrastiveLoss),
    "tsc": (TSCModule, TargetedContrastiveLoss),
    "kcl": (KCLModule, KPositiveContrastiveLoss),
    "dscl": (DSCLModule, DecoupledContrastiveLoss),
    "gml": (GMLModule, GaussianMixtureLoss),
}
TWO_STAGES = ("tsc", "kcl", "dscl")


class Encoder(nn.Module):
    """Knows the texts by number."""

    hidden_size, frozen = 8, False

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(60, self.hidden_size)

    def forward(self, input_ids, attention_mask):
        return self.table(input_ids[:, 0])


def build(method, total_steps=10, frozen=False, loss=None, encoder=None, **options):
    torch.manual_seed(0)
    if encoder is None:
        encoder = Encoder()
        encoder.frozen = frozen
    kind, default = METHODS[method]
    if method == "gpaco":
        options = {"momentum": None, **options}
    options = {"dropout": 0.0, "queue_size": 7, "projection_size": 4, "num_views": 2, **options}
    optimizer = partial(torch.optim.SGD, lr=0.1)
    scheduler = partial(linear_warmup, warmup_ratio=0.5)
    module = kind(encoder, loss or default(), COUNTS, optimizer, scheduler, method, **options)
    module.trainer = SimpleNamespace(
        global_step=0,
        global_rank=0,
        estimated_stepping_batches=total_steps,
        optimizers=[],
        strategy=None,
        current_epoch=0,
    )
    return module


def at_step(module, step):
    module.trainer.global_step = step
    return module


def make_batch(start=0, size=5):
    first = torch.arange(start, start + size)
    return {
        "input_ids": torch.cat([first, first + 30])[:, None],
        "attention_mask": torch.ones(2 * size, 1, dtype=torch.long),
        "labels": first % 3,
        "indices": first,
        "num_views": 2,
    }


def step(module, batch):
    """One step of plain gradient descent on everything that has a gradient."""
    module.zero_grad()
    losses = module.training_losses(batch)
    losses["loss"].backward()
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.grad is not None:
                parameter -= 0.1 * parameter.grad
    return losses


def state(module):
    return {name: tensor.clone() for name, tensor in module.state_dict().items()}


def test_the_queue_is_a_ring_and_the_oldest_leave_first():
    module = build("paco", queue_size=4, projection_size=1)
    rows = torch.arange(1.0, 12)[:, None]
    assert [len(part) for part in module.queued()] == [0, 0]
    module.enqueue(rows[:3], torch.tensor([0, 1, 2]))
    keys, labels = module.queued()
    assert keys.flatten().tolist() == [1, 2, 3] and labels.tolist() == [0, 1, 2]
    module.enqueue(rows[3:5], torch.tensor([0, 1]))
    assert module.queue.flatten().tolist() == [5, 2, 3, 4] and module.queue_labels.tolist() == [1, 1, 2, 0]
    module.enqueue(rows[5:11], torch.arange(6) % 3)  # more than it holds: the last four
    assert sorted(module.queue.flatten().tolist()) == [8, 9, 10, 11]
    assert module.queue[module.queue_position].item() == 8  # what leaves next


@pytest.mark.parametrize("method", METHODS)
def test_no_queue_at_all(method):
    assert step(build(method, queue_size=0), make_batch())["loss"].isfinite()


@pytest.mark.parametrize("method", ["paco", "tsc", "gml"])
@pytest.mark.parametrize("frozen", [False, True])
def test_the_momentum_encoder_follows_at_its_pace(method, frozen):
    module = build(method, momentum=0.75, frozen=frozen)
    assert set(module.key_modules) == ({"project"} if frozen else {"encoder", "project"})
    before = state(module)
    step(module, make_batch())  # at the first step both are the same
    after = state(module)
    moved = [name for name in after if name.startswith("key_modules.")]
    assert all(torch.allclose(after[name], before[name], atol=1e-7) for name in moved)
    module.move_key_modules()
    for name in moved:
        query = name.removeprefix("key_modules.")
        expected = 0.75 * before[name] + 0.25 * after[query]
        torch.testing.assert_close(state(module)[name], expected)
    assert not any(parameter.requires_grad for parameter in module.key_modules.parameters())
    trained = {id(parameter) for group in module.parameter_groups() for parameter in group["params"]}
    assert not trained & {id(parameter) for parameter in module.key_modules.parameters()}


def test_queries_and_keys_have_one_memory_of_what_lies_below_layers_that_train():
    size = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
    model = BertModel(BertConfig(vocab_size=50, **size), add_pooling_layer=False)
    module = build("paco", momentum=0.75, encoder=TextEncoder(model, "mean", "top_layers", 1))
    ids = torch.randint(50, (4, 6))
    batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    assert module.encoder.top_layers.remember([batch])
    queries, keys = module.encoder.top_layers, module.key_modules["encoder"].top_layers
    assert keys.top is not queries.top and torch.equal(keys.recall(*batch.values()), queries.recall(*batch.values()))


def test_paco_contrasts_the_first_view_with_keys_and_queue():
    module = build("paco", momentum=0.5)
    step(module, make_batch(0))
    queue, queue_labels = module.queued()
    batch, labels = make_batch(5), make_batch(5)["labels"]
    expected_module = build("paco", momentum=0.5)
    expected_module.load_state_dict(module.state_dict())
    loss = module.training_losses(batch)["loss"]
    expected_module.move_key_modules()
    embeddings = expected_module.encoder.table(torch.arange(5, 10))
    encoder, project = expected_module.key_modules["encoder"], expected_module.key_modules["project"]
    keys = project(encoder.table(torch.arange(35, 40)))
    expected = ParametricContrastiveLoss()(
        expected_module.project(embeddings),
        expected_module.classifier(embeddings),
        labels,
        torch.cat([keys, queue]),
        torch.cat([labels, queue_labels]),
        COUNTS,
    )
    assert loss.item() == pytest.approx(expected.item(), abs=1e-6)
    assert torch.equal(module.queue_labels[5:], labels[:2]) and torch.equal(module.queue_labels[:3], labels[2:])


def test_gpaco_takes_both_views_as_anchors_and_queues_the_second():
    module = build("gpaco")
    assert not module.key_modules
    step(module, make_batch(0))
    queue, queue_labels = module.queued()
    batch, labels = make_batch(5), make_batch(5)["labels"].repeat(2)
    loss = module.training_losses(batch)["loss"]
    embeddings = module.encoder.table(batch["input_ids"][:, 0])
    z = module.project(embeddings)
    expected = ParametricContrastiveLoss()(z, module.classifier(embeddings), labels, queue, queue_labels, COUNTS)
    assert loss.item() == pytest.approx(expected.item(), abs=1e-6)
    torch.testing.assert_close(module.queue[[5, 6, 0, 1, 2]], z[5:].detach())


def test_centres_of_paco_as_cosines_share_the_temperature_of_the_samples():
    loss = ParametricContrastiveLoss(tau=0.1)
    module = build("gpaco", loss=loss, cosine_scale=10.0, classifier_bias=False)
    batch, labels = make_batch(5), make_batch(5)["labels"].repeat(2)
    embeddings = module.encoder.table(batch["input_ids"][:, 0])
    cosines = functional.cosine_similarity(embeddings[:, None], module.classifier.weight[None], dim=2)
    queue = module.queued()
    assert len(queue[0]) == 0
    expected = loss(module.project(embeddings), cosines / 0.1, labels, *queue, COUNTS)
    assert module.training_losses(batch)["loss"].item() == pytest.approx(expected.item(), abs=1e-5)
    head = functional.normalize(embeddings, dim=1) @ module.prediction_head()["weight"].T
    assert module.unit_norm_embeddings and torch.allclose(head, 10 * cosines, atol=1e-5)
    with pytest.raises(ValueError, match="method.classifier_bias: found true, allowed: false with method.cosine_scale"):
        build("paco", cosine_scale=10.0)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_a_resumed_module_goes_on_to_the_bit(method):
    module = build(method)
    for number in range(4):
        step(at_step(module, number), make_batch(3 * number))
    other = build(method)
    other.load_state_dict(state(module))
    for number in range(4, 10):  # those of two stages go into its second stage within
        losses = [step(at_step(single, number), make_batch(2 * number))["loss"] for single in (module, other)]
        assert torch.equal(*losses)
    first, second = state(module), state(other)
    assert all(torch.equal(first[name], second[name]) for name in first)
    of_tsc = {"targets", "assignment", "centres", "is_seen"} if method == "tsc" else set()
    assert {"queue", "queue_labels", "queue_position"} | of_tsc <= first.keys()


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_features_take_the_place_of_tokens(method):
    module, batch = build(method, frozen=True), make_batch()
    with_features = {k: v for k, v in batch.items() if k not in ("input_ids", "attention_mask")}
    with_features["features"] = module.encoder.table(batch["input_ids"][:, 0]).detach()
    expected = build(method, frozen=True).training_losses(batch)["loss"]
    assert module.training_losses(with_features)["loss"].item() == pytest.approx(expected.item(), abs=1e-6)


def test_classes_get_the_targets_that_lie_nearest_in_sum():
    module = build("tsc", centre_momentum=0.0)
    wanted = torch.tensor([2, 0, 1])
    queries = nn.functional.normalize(module.targets[wanted] + 0.1, dim=1)
    module.assign(queries, torch.tensor([0, 1, 2]))
    assert torch.equal(module.assignment, wanted)
    torch.testing.assert_close(module.centres, queries)
    # two classes want one target: the sum decides, not who comes first
    near = module.targets[0]
    queries = nn.functional.normalize(torch.stack([near + 0.5 * module.targets[1], near, module.targets[2]]), dim=1)
    module.assign(queries, torch.tensor([0, 1, 2]))
    assert module.assignment.tolist() == [1, 0, 2]


def test_classes_are_assigned_anew_at_each_interval():
    module = build("tsc", assignment_interval=3, centre_momentum=0.0)
    labels, actual = torch.tensor([0, 1, 2]), []
    for number, order in enumerate(([0, 1, 2], [1, 2, 0], [1, 2, 0], [2, 0, 1])):
        at_step(module, number).assign(module.targets[order], labels)
        actual.append(module.assignment.tolist())
    assert actual == [[0, 1, 2], [0, 1, 2], [0, 1, 2], [2, 0, 1]]


@pytest.mark.parametrize("method", TWO_STAGES)
def test_the_first_stage_leaves_the_classifier_and_the_second_all_else(method):
    module = build(method, representation_share=0.5)
    assert module.representation_steps == 5
    step(module, make_batch(5))  # while the queue is empty there is nothing to tell a key from
    names = [name for name, _ in module.named_parameters()]
    for number, moves in ((4, False), (5, True)):
        before = state(module)
        losses = step(at_step(module, number), make_batch())
        assert losses["stage"].item() == (2 if moves else 1)
        changed = {name for name in names if not torch.equal(before[name], module.state_dict()[name])}
        if moves:
            assert changed == {"classifier.weight", "classifier.bias"}
            assert torch.equal(before["queue"], module.queue) and not module.encoder.training
        else:
            assert {"encoder.table.weight", "project.layers.0.weight"} <= changed
            assert not module.classifier.weight.any() and not module(make_batch())["logits"].any()


@pytest.mark.slow
@pytest.mark.parametrize("weighting", ["inverse_frequency", "none"])
def test_rows_of_the_second_stage_weigh_as_under_a_balanced_sampler(weighting):
    module = at_step(build("tsc", representation_share=0.7, classifier_weighting=weighting), 9)
    nn.init.normal_(module.classifier.weight)
    batch = make_batch(0, 6)
    rows = nn.functional.cross_entropy(
        module.classifier(module.encoder.table(torch.arange(6))), batch["labels"], reduction="none"
    )
    weights = torch.tensor([125 / (3 * n) for n in COUNTS.tolist()])[batch["labels"]]
    expected = (rows * weights if weighting == "inverse_frequency" else rows).mean()
    assert module.training_losses(batch)["loss"].item() == pytest.approx(expected.item(), rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("weighting", ["inverse_frequency", "none"])
def test_the_solved_classifier_is_where_its_weighted_loss_is_least(weighting):
    module = build("tsc", representation_share=1.0, classifier_weighting=weighting)
    generator = torch.Generator().manual_seed(1)
    labels = torch.tensor([0] * 30 + [1] * 9 + [2] * 3)
    embeddings = torch.randn(42, 8, generator=generator) + labels[:, None]
    figures = module.solve({"train": (embeddings, labels), "val": (embeddings[::2], labels[::2])})
    weight, bias = module.classifier.weight.detach().double(), module.classifier.bias.detach().double()
    weight.requires_grad_(), bias.requires_grad_()
    length = embeddings.double().square().sum(1).mean()
    value = figures["solver/penalty"] / 2 * length * weight.square().sum()
    for row, label in zip(embeddings.double(), labels.tolist(), strict=True):
        share = 125 / (3 * COUNTS[label].item()) if weighting == "inverse_frequency" else 1.0
        value = value - share / 42 * (weight @ row + bias).log_softmax(0)[label]
    gradients = torch.autograd.grad(value, (weight, bias))
    assert all(gradient.abs().max() < 1e-4 for gradient in gradients) and figures["solver/converged"]


def test_each_stage_warms_up_and_decays():
    module = build("tsc", total_steps=10, representation_share=0.4, head_lr=0.1)
    schedule = module.configure_optimizers()["lr_scheduler"]["scheduler"]
    rates = []
    for _ in range(10):
        rates.append(schedule.get_last_lr()[0])
        schedule.optimizer.step()
        schedule.step()
    # half of each stage is warm-up: 2 of 4 steps, 3 of 6
    assert rates == pytest.approx([0.05, 0.1, 0.1, 0.05, 0.1 / 3, 0.2 / 3, 0.1, 0.1, 0.2 / 3, 0.1 / 3])


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_a_run_of_one_stage(share):
    module = build("tsc", representation_share=share)
    assert step(at_step(module, 0), make_batch())["stage"].item() == (1 if share else 2)
    assert module.configure_optimizers()


def test_the_second_stage_starts_the_classifier_anew():
    module = build("tsc", representation_share=0.5)
    optimizer = torch.optim.AdamW(module.parameters())
    module.trainer.optimizers = [optimizer]
    nn.init.ones_(module.classifier.weight)
    module.classifier.weight.sum().backward()
    optimizer.step()
    assert module.classifier.weight in optimizer.state
    at_step(module, 5).training_losses(make_batch())
    assert not module.classifier.weight.any() and module.classifier.weight not in optimizer.state
    nn.init.ones_(module.classifier.weight)
    at_step(module, 6).training_losses(make_batch())
    assert module.classifier.weight.all()


@pytest.mark.parametrize(("method", "stays"), [("kcl", True), ("dscl", False)])
def test_the_first_view_asks_and_the_second_is_its_key(method, stays):
    options = {"loss": KPositiveContrastiveLoss(num_positives=2)} if stays else {}
    module = build(method, momentum=0.5, **options)
    step(module, make_batch(0))
    copy = build(method, momentum=0.5, **options)
    copy.load_state_dict(module.state_dict())
    batch, (queue, queue_labels) = make_batch(5), module.queued()
    loss = module.training_losses(batch)["loss"]
    copy.move_key_modules()
    queries = copy.project(copy.encoder.table(torch.arange(5, 10)))
    keys = copy.key_modules["project"](copy.key_modules["encoder"].table(torch.arange(35, 40)))
    drawn = [copy.step_generator()] if stays else []
    expected = copy.loss(queries, batch["labels"], keys, queue, queue_labels, *drawn)
    assert loss.item() == pytest.approx(expected.item(), abs=1e-6)


def test_dscl_of_images_distils_regions_into_patches():
    def new(**options):
        return build("dscl", encoder=SmallResNetEncoder("resnet8", depth=8).load(), momentum=0.5, **options)

    pixels = torch.randint(256, (10, 3, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    batch = {"pixels": pixels, "labels": torch.arange(5) % 3, "num_views": 2}
    module, other, without = new(patch_weight=2.0), new(patches=1), new(patches=0)
    losses = module.training_losses(batch)
    assert losses["patch_distillation"].item() == 0  # over an empty queue all belong to their key
    losses = module.training_losses(batch)
    expected = losses["contrastive"] + 2 * losses["patch_distillation"]
    torch.testing.assert_close(losses["loss"], expected)
    assert set(without.training_losses(batch)) == {"loss", "stage"}
    losses["patch_distillation"].backward()
    assert module.encoder.network[0].weight.grad.abs().sum() > 0
    assert other.patches == 1 and module.patches == 5 and build("dscl").patches == 0
    for options, message in (({"patches": 2}, "patches: found 2"), ({"patch_weight": 1.0}, "patch_weight: found 1.0")):
        with pytest.raises(ValueError, match=message):
            build("dscl", **options)


def test_gml_adds_up_the_classified_first_view_and_its_mixtures():
    module = build("gml", momentum=0.5, mu=0.3)
    step(module, make_batch(0))
    copy = build("gml", momentum=0.5, mu=0.3)
    copy.load_state_dict(module.state_dict())
    batch, (queue, queue_labels) = make_batch(5), module.queued()
    labels, losses = batch["labels"], module.training_losses(batch)
    losses["loss"].backward()
    assert module.loss.log_tau.grad.abs() > 0
    copy.move_key_modules()
    embeddings = copy.encoder.table(torch.arange(5, 10))
    keys = copy.key_modules["project"](copy.key_modules["encoder"].table(torch.arange(35, 40)))
    cosines = nn.functional.cosine_similarity(embeddings[:, None], copy.classifier.weight[None], dim=2)
    classified = nn.functional.cross_entropy(30 * cosines + (COUNTS / COUNTS.sum()).log(), labels)
    mixture = copy.loss(
        copy.project(embeddings), labels, torch.cat([keys, queue]), torch.cat([labels, queue_labels]), COUNTS
    )
    assert losses["loss"].item() == pytest.approx((classified + 0.3 * mixture).item(), rel=1e-5)


def test_the_queue_of_gml_has_a_ring_for_each_class():
    module = build("gml", queue_size=10, least_keys=2, projection_size=1)
    assert module.shares.tolist() == [7, 2, 2]  # of 90, 30 and 5 rows
    rows, classes = torch.arange(1.0, 13)[:, None], torch.tensor([1, 0, 1, 0, 1, 2, 0, 0, 0, 0, 0, 0])
    module.enqueue(rows, classes)  # at once: of more than a share, the last
    keys, labels = module.queued()
    of_class = [sorted(keys[labels == c].flatten().tolist()) for c in range(3)]
    assert of_class == [[4, 7, 8, 9, 10, 11, 12], [3, 5], [6]]
    module.enqueue(torch.tensor([[20.0], [21.0], [22.0]]), torch.tensor([0, 2, 1]))  # over the oldest of each
    keys, labels = module.queued()
    of_class = [sorted(keys[labels == c].flatten().tolist()) for c in range(3)]
    assert of_class == [[7, 8, 9, 10, 11, 12, 20], [5, 22], [6, 21]]


def share_of(batch, rows):
    size = len(batch["labels"])
    both = torch.cat([torch.arange(size)[rows], size + torch.arange(size)[rows]])
    tokens = {key: batch[key][both] for key in ("input_ids", "attention_mask")}
    return {**tokens, "labels": batch["labels"][rows], "indices": batch["indices"][rows], "num_views": 2}


def worker(rank, folder):
    for method in METHODS:
        torch.save(distributed_results(method, rank), f"{folder}/{method}-{rank}.pt")


def distributed_results(method, rank=None):
    """Losses and end state of four steps, with gradients averaged over the processes where there are two."""
    module, losses = build(method), []
    for number in range(4):
        batch = make_batch(5 * number)
        if rank is not None:
            batch = share_of(batch, slice(0, 2) if rank == 0 else slice(2, 5))
        module.zero_grad()
        loss = at_step(module, number).training_losses(batch)["loss"]
        loss.backward()
        with torch.no_grad():
            for parameter in module.parameters():
                if parameter.grad is not None:
                    if rank is not None:
                        dist.all_reduce(parameter.grad)
                        parameter.grad /= 2
                    parameter -= 0.1 * parameter.grad
        losses.append(loss.item())
    return losses, state(module)


@pytest.mark.slow
def test_two_processes_hold_one_queue_and_equal_one_process(tmp_path):
    in_two_processes(worker, tmp_path, str(tmp_path))
    for method in METHODS:
        (losses, first), (_, second) = (torch.load(tmp_path / f"{method}-{rank}.pt") for rank in range(2))
        assert all(torch.equal(first[name], second[name]) for name in first), method
        expected_losses, expected = distributed_results(method)
        assert losses == pytest.approx(expected_losses, rel=1e-5)
        for name in expected:
            torch.testing.assert_close(first[name], expected[name], atol=1e-5, rtol=1e-4)
        assert method == "gml" or (first["queue_labels"] >= 0).all()
