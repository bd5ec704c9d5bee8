"""The multi-head normalised classifier against loops from the formula."""

import pytest
import torch

from lightning_modules.heads.causal_norm import causal_norm_weight, unit_parts


def make(size=4):
    generator = torch.Generator().manual_seed(0)
    draw = [torch.randn(*shape, 6, dtype=torch.float64, generator=generator) for shape in ((size,), (3,), ())]
    return [tensor.requires_grad_() for tensor in draw]


def fast(x, weight, direction, heads, strength):
    return unit_parts(x, heads) @ causal_norm_weight(weight, direction, heads, 16.0, 0.25, strength).T


def slow(x, weight, direction, heads, strength):
    size, logits = x.shape[1] // heads, torch.zeros(len(x), len(weight), dtype=torch.float64)
    for i, row in enumerate(x):
        for c, of_class in enumerate(weight):
            for k in range(heads):
                part, w, d = (v[k * size : (k + 1) * size] for v in (row, of_class, direction))
                unit = d / d.norm()
                cosine = part @ unit / part.norm()
                effect = part / part.norm() - strength * cosine * unit
                logits[i, c] += 16 / heads * (w / (w.norm() + 0.25)) @ effect
    return logits


@pytest.mark.parametrize("heads", [1, 2, 3])
@pytest.mark.parametrize("strength", [0.0, 1.0, 3.0])
def test_slow_reference(heads, strength):
    torch.testing.assert_close(fast(*make(), heads, strength), slow(*make(), heads, strength), atol=1e-12, rtol=0)


def test_gradcheck():
    x, weight, direction = make()
    assert torch.autograd.gradcheck(lambda *parts: fast(*parts, 2, 1.5), (x, weight, direction))


def test_before_any_batch_nothing_is_taken_away():
    x, weight, direction = make()
    nothing = torch.zeros_like(direction)
    torch.testing.assert_close(fast(x, weight, nothing, 2, 3.0), fast(x, weight, direction, 2, 0.0))
    assert fast(torch.zeros_like(x), weight, nothing, 2, 3.0).eq(0).all()
