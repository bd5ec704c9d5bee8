"""Two processes, each with its share of a batch, against one process with all of it."""

import pytest
import torch
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

from losses import SharpReCLLoss, draw_samples, gather, supervised_contrastive
from tests.losses.two_processes import in_two_processes

CLASSES = 3
SHARES = {"equal": [6, 6], "unequal": [5, 7]}


class Model(torch.nn.Module):
    """An encoder and prototypes, which enter the loss after the gather."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.encoder = torch.nn.Linear(5, 4, dtype=torch.float64)
        self.prototypes = torch.nn.Parameter(torch.randn(CLASSES, 4, dtype=torch.float64))

    def forward(self, x):
        return F.normalize(self.encoder(x), dim=1), F.normalize(self.prototypes, dim=1)


def batch():
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(12, 5, dtype=torch.float64, generator=generator)
    return x, torch.randint(CLASSES, (12,), generator=generator)


def losses(model, x, labels):
    """(supervised contrastive, SharpReCL) over the global batch, as the methods compute them."""
    embeddings, prototypes = model(x)
    labels = torch.cat((gather(labels), torch.arange(CLASSES)))
    embeddings = torch.cat((gather(embeddings), prototypes))
    samples = draw_samples(embeddings, labels, CLASSES, 3, 4, 6, 0.5, generator=torch.Generator().manual_seed(2))
    sharprecl = SharpReCLLoss(0.3).from_samples(embeddings, labels, samples, torch.tensor([9, 4, 2]))
    return supervised_contrastive(embeddings, labels, 0.3), sharprecl


def results(model, x, labels):
    actual = []
    for which in range(2):
        model.zero_grad()
        loss = losses(model, x, labels)[which]
        loss.backward()
        actual.append((loss.item(), [parameter.grad.clone() for parameter in model.parameters()]))
    return actual


def views(x):
    """The global batch with a second view, and the gradient of a sum that weighs every place differently."""
    both = torch.cat([x, -x]).requires_grad_()
    gathered = gather(both, num_views=2)
    (gathered[:, 0] * torch.arange(len(gathered))).sum().backward()
    return gathered.detach(), both.grad


def worker(rank, shares, folder):
    mine = [share.split(shares)[rank] for share in batch()]
    torch.save(results(DistributedDataParallel(Model()), *mine), f"{folder}/{rank}.pt")
    torch.save(views(mine[0]), f"{folder}/views-{rank}.pt")


@pytest.mark.slow
@pytest.mark.parametrize("shares", SHARES.values(), ids=SHARES)
def test_two_processes_equal_one(tmp_path, shares):
    in_two_processes(worker, tmp_path, shares, str(tmp_path))
    expected, (view_major, view_grad) = results(Model(), *batch()), views(batch()[0])
    for rank in range(2):
        gathered, grad = torch.load(tmp_path / f"views-{rank}.pt", weights_only=True)
        assert torch.equal(gathered, view_major)
        own = torch.cat([view.split(shares)[rank] for view in view_grad.split(12)])
        assert torch.equal(grad, 2 * own)  # of both processes; DistributedDataParallel takes the mean
        for (value, grads), (expected_value, expected_grads) in zip(
            torch.load(tmp_path / f"{rank}.pt", weights_only=True), expected, strict=True
        ):
            assert value == pytest.approx(expected_value, abs=1e-12)
            for grad, expected_grad in zip(grads, expected_grads, strict=True):
                assert expected_grad.abs().max() > 1e-4
                assert torch.allclose(grad, expected_grad, atol=1e-12, rtol=0)


def test_identity_in_one_process():
    x = torch.randn(3, 2)
    assert gather(x) is x
