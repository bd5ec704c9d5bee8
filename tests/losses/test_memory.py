"""No loss builds a tensor larger than B x (B + vectors beside the batch), forward or backward."""

import pytest
import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

import losses

B, C, QUEUE, D = 96, 5, 64, 7
COUNTS = torch.tensor([50, 20, 10, 5, 2])


class Largest(TorchDispatchMode):
    """Remembers the most elements that any tensor made under it has."""

    def __init__(self):
        super().__init__()
        self.numel = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        output = function(*args, **(kwargs or {}))
        sizes = [leaf.numel() for leaf in tree_flatten(output)[0] if isinstance(leaf, torch.Tensor)]
        self.numel = max(self.numel, *sizes) if sizes else self.numel
        return output


def unit(rows, seed):
    return F.normalize(torch.randn(rows, D, generator=torch.Generator().manual_seed(seed)), dim=1)


def sharprecl(z, labels):
    rows, labels = torch.cat([z, unit(C, 3)]), torch.cat([labels, torch.arange(C)])
    samples = losses.draw_samples(rows, labels, C, 4, 6, 20, 0.5, generator=torch.Generator().manual_seed(0))
    return losses.SharpReCLLoss(0.3).from_samples(rows, labels, samples, COUNTS)


def calls():
    keys, centres, queue = unit(B, 1), unit(C, 2), unit(QUEUE, 4)
    queue_labels, seen, classes = torch.arange(QUEUE) % C, torch.ones(C, dtype=torch.bool), torch.arange(C)
    logits = torch.randn(B, C, generator=torch.Generator().manual_seed(5))
    generator = torch.Generator().manual_seed(6)
    kcl = losses.KPositiveContrastiveLoss()
    own_and_queue, their_labels = torch.cat([keys, queue]), torch.cat([torch.arange(B) % C, queue_labels])
    h, attention = torch.stack([unit(B, 7), unit(B, 8)]), torch.full((2, B, B), 1 / B)
    # {loss: (call, columns beside the batch)}
    return {
        "scl": (lambda z, y: losses.SupervisedContrastiveLoss()(z, y), 0),
        "scl_hnm": (lambda z, y: losses.HardNegativeContrastiveLoss()(z, y), 0),
        "info_nce": (lambda z, y: losses.InfoNCELoss()(z, keys), B),  # both views are anchors: 2B x 2B
        "similarity_guided": (lambda z, y: losses.SimilarityGuidedLoss()(torch.stack([z, keys]), h, attention, y), B),
        "simcse": (lambda z, y: losses.SimCSELoss()(z, keys), 0),
        "sharprecl": (sharprecl, C + 6 + 20),
        "acl": (lambda z, y: losses.ACLLoss()(z, y, centres, seen, COUNTS), C),
        "bcl": (lambda z, y: losses.BalancedContrastiveLoss()(z, y, centres), C),
        "psc": (lambda z, y: losses.PrototypicalContrastiveLoss()(z, y, centres), 0),
        "spcl": (lambda z, y: losses.SupervisedPrototypicalContrastiveLoss()(z, y, centres, classes), C),
        "dualcl": (lambda z, y: losses.DualContrastiveLoss()(z, keys, y), 0),
        "paco": (lambda z, y: losses.ParametricContrastiveLoss()(z, logits, y, queue, queue_labels, COUNTS), QUEUE),
        "kcl": (lambda z, y: kcl(z, y, keys, queue, queue_labels, generator), QUEUE),
        "dscl": (lambda z, y: losses.DecoupledContrastiveLoss()(z, y, keys, queue, queue_labels), QUEUE),
        "gml": (lambda z, y: losses.GaussianMixtureLoss()(z, y, own_and_queue, their_labels, COUNTS), QUEUE),
        "proco": (lambda z, y: losses.ProCoLoss()(z, y, 0.9 * centres, COUNTS), 0),
        "tsc": (
            lambda z, y: losses.TargetedContrastiveLoss()(z, y, keys, queue, queue_labels, centres, generator),
            QUEUE,
        ),
    }


@pytest.mark.parametrize("name", calls())
def test_the_largest_tensor(name):
    loss, beside = calls()[name]
    anchors = {"info_nce": 2 * B, "similarity_guided": 2 * B, "sharprecl": B + C}.get(name, B)
    z, labels = unit(B, 0).requires_grad_(), torch.arange(B) % C
    with Largest() as seen:
        loss(z, labels).backward()
    assert z.grad.any()
    assert B * D <= seen.numel <= anchors * (B + beside)


def test_contrast_of_clusters_makes_no_tensor_of_pairs_times_texts():
    logits = torch.randn(2, B, 2 * C, generator=torch.Generator().manual_seed(9)).requires_grad_()
    with Largest() as seen:
        losses.ClusterContrastiveLoss()(logits[0], logits[1]).backward()
    assert logits.grad.any()
    assert B * 2 * C <= seen.numel <= B * 4 * C
