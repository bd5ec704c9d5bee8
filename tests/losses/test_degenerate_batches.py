"""One contract for every loss: any batch gives a finite value and gradient, an empty one 0, and autocast float32."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import losses
from losses import (
    ACLLoss,
    AECLLoss,
    BalancedContrastiveLoss,
    BalancedSoftmaxLoss,
    BilateralLoss,
    BinaryCrossEntropy,
    ClassAwareClusteringLoss,
    ClassAwareContrastiveLoss,
    ClassBalancedLoss,
    ClusterContrastiveLoss,
    CosinePairLoss,
    CrossEntropy,
    DecoupledContrastiveLoss,
    DiceLoss,
    DualContrastiveLoss,
    FocalLoss,
    GaussianMixtureLoss,
    GeneralisedReweightingLoss,
    HardNegativeContrastiveLoss,
    InfoNCELoss,
    KPositiveContrastiveLoss,
    LabelAwareSmoothingLoss,
    LADELoss,
    LDAMLoss,
    LogitCompensatedCrossEntropy,
    MultiLabelContrastiveLoss,
    ParametricContrastiveLoss,
    PatchDistillationLoss,
    ProCoLoss,
    PrototypicalContrastiveLoss,
    PseudoLabelLoss,
    RSTCLoss,
    SCCLLoss,
    SharpReCLLoss,
    SimCSELoss,
    SimilarityGuidedLoss,
    SoftLabelLoss,
    StudentTClusteringLoss,
    SupervisedContrastiveLoss,
    SupervisedPrototypicalContrastiveLoss,
    TargetedContrastiveLoss,
    draw_samples,
)

CLASSES = 4
BATCHES = {
    "no row": [],
    "one row": [2],
    "one class": [1, 1, 1],
    "all different": [2, 0],
    "a row alone in its class": [0, 0, 3, 1],
}


class Batch:
    """What losses take, of unit rows; with `equal` all rows are one, with `scale` logits are as sure as that."""

    def __init__(self, labels: Sequence[int], dtype=torch.float64, equal=False, scale=1.0, queue=5):
        generator = torch.Generator().manual_seed(0)

        def rows(number, width=5, varied=True):
            drawn = torch.randn(number, width, generator=generator, dtype=torch.float64)
            return drawn if varied or not number else drawn[:1].repeat(number, 1)

        def unit(number):
            return F.normalize(rows(number, varied=not equal), dim=1)

        size = len(labels)
        self.labels = torch.tensor(labels, dtype=torch.long)
        self.label_sets = F.one_hot(self.labels, CLASSES)
        self.counts = torch.tensor([120, 30, 8, 2])
        self.is_seen = torch.tensor([True, True, False, True])
        self.keys, self.key_labels = unit(queue).to(dtype), torch.arange(queue) % CLASSES
        self.targets = unit(CLASSES).to(dtype)
        leaves = {
            "z": unit(size),
            "other": unit(size),
            "prototypes": unit(CLASSES),
            "logits": scale * rows(size, CLASSES),
            "more_logits": scale * rows(size, CLASSES),
        }
        self.leaves = {name: leaf.to(dtype).requires_grad_() for name, leaf in leaves.items()}
        vars(self).update(self.leaves)
        self.attention = rows(2 * size, size).reshape(2, size, size).softmax(2).to(dtype)

    @property
    def views(self):
        """(2, N, D)"""
        return torch.stack([self.z, self.other])

    @property
    def cluster_logits(self):
        """(2, N, M)"""
        return torch.stack([self.logits, self.more_logits])

    def cast(self, dtype):
        """The same with every floating tensor in `dtype`."""
        for name, value in vars(self).items():
            if isinstance(value, torch.Tensor) and value.is_floating_point():
                setattr(self, name, value.to(dtype))
        return self


def never(labels):
    return False


def empty(labels):
    return not labels


def fewer_than_two(labels):
    return len(labels) < 2


def no_pair(labels):
    """No class has two rows."""
    return len(set(labels)) == len(labels)


class Case(NamedTuple):
    """A loss, what it takes of a `Batch`, and of which labels there is nothing to learn: it is 0 and moves nothing."""

    loss: Callable
    arguments: Callable
    is_zero: Callable = empty

    def __call__(self, batch):
        value = self.loss(*self.arguments(batch))
        return value["loss"] if isinstance(value, dict) else value


class DrawnSharpReCL(SharpReCLLoss):
    """On both views and the prototypes, by drawn samples, as training does it."""

    def forward(self, z, labels, counts):
        generator = torch.Generator().manual_seed(0)
        samples = draw_samples(z.detach().double(), labels, CLASSES, n_pos=3, n_neg=5, generator=generator)
        return self.from_samples(z, labels, samples, counts)


CLASSIFICATION = {
    "balanced_softmax": BalancedSoftmaxLoss(),
    "cross_entropy": CrossEntropy(),
    "focal": FocalLoss(),
    "focal, root": FocalLoss(0.5),
    "lade": LADELoss(),
    "lade, of columns": LADELoss(importance="of_columns"),
    "generalised_reweighting": GeneralisedReweightingLoss(),
    "generalised_reweighting by rows": GeneralisedReweightingLoss(average="rows"),
    "label_aware_smoothing": LabelAwareSmoothingLoss(),
    "ldam": LDAMLoss(scale=4.0),
    "logit_compensated": LogitCompensatedCrossEntropy(),
    "logit_compensated, unit norm": LogitCompensatedCrossEntropy(unit_norm_logits=True),
    "dice batch, present": DiceLoss(0.3, 0.7, "batch", absent_classes=False),
    **{
        f"dice {reading}, squared={squared}": DiceLoss(0.3, 0.7, reading, squared)
        for reading in ("per_sample", "batch")
        for squared in (False, True)
    },
    **{
        f"class_balanced {base} by {average}": ClassBalancedLoss(0.99, base, 1.5, average)
        for base in ("cross_entropy", "focal", "sigmoid")
        for average in ("rows", "weights")
    },
}
SPCL = SupervisedPrototypicalContrastiveLoss


def one_label(b):
    return b.z, b.labels


def label_sets(b):
    return b.z, b.label_sets


def two_views(b):
    return b.z, b.other


def labelled_views(b):
    return b.z, b.other, b.labels


def with_prototypes(b):
    return b.z, b.labels, b.prototypes


def with_centres(b):
    return b.z, b.labels, b.prototypes, b.is_seen, b.counts


def with_a_queue(b):
    return b.z, b.logits, b.labels, b.keys, b.key_labels, b.counts


def with_keys(b):
    """Keys of the batch itself, and a queue behind them."""
    return b.z, b.labels, torch.cat([b.other, b.keys]), torch.cat([b.labels, b.key_labels]), b.counts


def queued(size):
    return lambda b: (b.z, b.labels, b.other, b.keys[:size], b.key_labels[:size])


def guided(b):
    return b.views, b.views.flip(0), b.attention, b.labels


def anchors(b):
    return torch.cat([b.z, b.other, b.prototypes]), torch.cat([b.labels, b.labels, torch.arange(CLASSES)]), b.counts


def targeted(size):
    return lambda b: (*queued(size)(b), b.targets, torch.Generator().manual_seed(0))


def staged(stage):
    return lambda b: (stage, b.views, b.views.flip(0), b.attention, b.cluster_logits, b.labels)


CASES = {
    **{name: Case(loss, lambda b: (b.logits, b.labels, b.counts)) for name, loss in CLASSIFICATION.items()},
    "bilateral": Case(BilateralLoss(), lambda b: (b.logits, b.labels, b.more_logits, b.labels.flip(0), 0.3)),
    "bce": Case(BinaryCrossEntropy(), lambda b: (b.logits, b.label_sets.to(b.logits))),
    "soft_labels": Case(SoftLabelLoss(), lambda b: (b.logits, b.label_sets.to(b.logits), b.labels % 2 == 0)),
    "pseudo_labels": Case(PseudoLabelLoss(), lambda b: (b.logits, b.labels, b.labels % 2 == 0)),
    # contrast within a batch
    "scl": Case(SupervisedContrastiveLoss(0.3), one_label, no_pair),
    "scl of sets": Case(SupervisedContrastiveLoss(0.05), label_sets, no_pair),
    "cosine pairs": Case(CosinePairLoss(), one_label),
    "scl_hnm": Case(HardNegativeContrastiveLoss(0.05), one_label, no_pair),
    "scl_hnm over all": Case(HardNegativeContrastiveLoss(0.05, anchors="all"), one_label, no_pair),
    "scl_hnm of sets": Case(HardNegativeContrastiveLoss(0.05), label_sets, no_pair),
    "multilabel": Case(MultiLabelContrastiveLoss(1.0), label_sets, no_pair),
    "multilabel, sum": Case(MultiLabelContrastiveLoss(1.0, reduction="sum"), label_sets, no_pair),
    "info_nce": Case(InfoNCELoss(0.5), two_views, fewer_than_two),
    "info_nce of originals": Case(InfoNCELoss(0.5, "originals"), two_views, fewer_than_two),
    "simcse": Case(SimCSELoss(0.3), two_views, fewer_than_two),
    "dualcl": Case(DualContrastiveLoss(0.3), labelled_views, no_pair),
    "dualcl over all": Case(DualContrastiveLoss(0.3, "others_and_one", "all"), labelled_views, no_pair),
    # contrast with classes
    "psc": Case(PrototypicalContrastiveLoss(0.3), with_prototypes),
    "psc over all": Case(PrototypicalContrastiveLoss(0.3, "all_classes"), with_prototypes),
    **{
        f"spcl decoupled={decoupled}": Case(
            SPCL(0.3, decoupled=decoupled), lambda b: (*with_prototypes(b), torch.arange(CLASSES))
        )
        for decoupled in (False, True)
    },
    **{
        f"bcl averaging={averaging} complement={complement}": Case(
            BalancedContrastiveLoss(0.07, averaging, complement), with_prototypes, empty if complement else no_pair
        )
        for averaging in (False, True)
        for complement in (False, True)
    },
    **{
        f"acl {weight} {denominator} centres={centres}": Case(
            ACLLoss(0.2, weight, denominator, centres), with_centres, empty if centres else no_pair
        )
        for weight, denominator, centres in [
            ("none", "effective_positive", True),
            ("inverse_frequency", "all_positives", False),
            ("mean_one_classes", "effective_positive", False),
            ("mean_one_negatives", "all_positives", True),
            ("batch_count", "effective_positive", True),
        ]
    },
    "acl before any centre": Case(
        ACLLoss(0.2), lambda b: (b.z, b.labels, b.prototypes, torch.zeros_like(b.is_seen), b.counts), no_pair
    ),
    "sharprecl": Case(DrawnSharpReCL(0.5), anchors, never),  # prototypes are anchors of every batch
    "sharprecl as printed": Case(
        DrawnSharpReCL(0.5, denominator="without_synthetic_positives", normaliser="printed"), anchors, never
    ),
    # contrast with a queue
    **{
        f"paco {options}": Case(ParametricContrastiveLoss(**options), with_a_queue)
        for options in (
            {},
            {"label_smoothing": 0.1, "adjustment_strength": 0.0},
            {"contrast_weight": 0.0},
            {"centre_weight": 0.0, "positive_weight": 1.0},
        )
    },
    "paco without keys": Case(
        ParametricContrastiveLoss(centre_weight=0.0, positive_weight=1.0),
        lambda b: (b.z, b.logits, b.labels, b.keys[:0], b.key_labels[:0], b.counts),
        no_pair,
    ),
    **{f"tsc with a queue of {size}": Case(TargetedContrastiveLoss(), targeted(size)) for size in (0, 1, 5)},
    **{
        f"kcl, surplus {surplus}, with a queue of {size}": Case(
            KPositiveContrastiveLoss(num_positives=1, surplus=surplus),
            lambda b, size=size: (*queued(size)(b), torch.Generator().manual_seed(0)),
        )
        for surplus in ("kept", "removed")
        for size in (0, 1, 5)
    },
    **{f"dscl with a queue of {size}": Case(DecoupledContrastiveLoss(), queued(size)) for size in (0, 1, 5)},
    **{
        f"patches with a queue of {size}": Case(
            PatchDistillationLoss(), lambda b, size=size: (b.z, b.other, b.other.roll(1, 0), b.keys[:size])
        )
        for size in (0, 1, 5)
    },
    "gml": Case(GaussianMixtureLoss(), with_keys),
    "proco": Case(ProCoLoss(), lambda b: (b.z, b.labels, 0.9 * b.targets, b.counts)),
    "proco of classes without and with one row": Case(
        ProCoLoss(), lambda b: (b.z, b.labels, b.targets * b.is_seen[:, None], b.counts)
    ),
    # clusters
    "student_t": Case(StudentTClusteringLoss(), lambda b: (b.z, b.prototypes)),
    "sccl": Case(SCCLLoss(), lambda b: (b.z, b.other, b.z, b.prototypes)),
    "rstc": Case(RSTCLoss(), lambda b: (b.z, b.other, b.cluster_logits, b.labels)),
    "cluster contrast": Case(ClusterContrastiveLoss(), lambda b: (b.logits, b.more_logits)),
    "class-aware contrast": Case(
        ClassAwareContrastiveLoss(threshold=0.5),
        lambda b: (b.views.flatten(0, 1), b.labels, torch.full((len(b.labels),), 0.9)),
        fewer_than_two,
    ),
    **{
        f"similarity-guided {options}": Case(SimilarityGuidedLoss(**options), guided, fewer_than_two)
        for options in ({}, {"guided": False}, {"directions": "log_each", "rows": "every"}, {"weight_floor": 0.1})
    },
    **{
        f"{name} stage {stage}": Case(loss, staged(stage))
        for name, loss in {"aecl": AECLLoss(), "ccssl": ClassAwareClusteringLoss()}.items()
        for stage in (1, 2, 3)
    },
}
every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def value_and_gradients(case, batch):
    value = case(batch)
    gradients = torch.autograd.grad(value, list(batch.leaves.values()), allow_unused=True)
    return value, [gradient for gradient in gradients if gradient is not None]


@every_case
def test_any_batch_is_finite_and_one_without_anything_to_learn_is_zero(case):
    for name, labels in BATCHES.items():
        for options in ({}, {"equal": True}, {"scale": 1e4}, {"scale": 0.0}, {"queue": 0}):
            batch = Batch(labels, **options)
            value, gradients = value_and_gradients(case, batch)
            where = f"{name}, {options}"
            assert value.isfinite() and all(gradient.isfinite().all() for gradient in gradients), where
            if case.is_zero(labels):
                assert value.item() == pytest.approx(0, abs=1e-12), where
                assert all(gradient.abs().max() < 1e-12 for gradient in gradients if gradient.numel()), where


@every_case
def test_half_precision_is_computed_in_float32(case):
    labels = [0, 2, 0, 1, 0, 2, 1, 3]
    expected = case(Batch(labels, torch.float32))
    with torch.autocast("cpu", torch.bfloat16):
        value = case(Batch(labels, torch.float32).cast(torch.bfloat16))
    assert value.dtype == torch.float32
    assert value.item() == pytest.approx(expected.item(), rel=0.05, abs=0.02)


def test_every_loss_is_held_to_it():
    exported = [getattr(losses, name) for name in losses.__all__]
    kinds = {kind for kind in exported if isinstance(kind, type) and issubclass(kind, nn.Module)}
    tested = {kind for case in CASES.values() for kind in type(case.loss).__mro__}
    assert kinds - tested == set()
