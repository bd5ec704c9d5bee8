"""Training steps without padding: outputs and gradients of the padded model, and dropout of the asked share."""

import pytest
import torch

from lightning_modules.encoders.packed_training import quick_dropout
from lightning_modules.encoders.transformer import TextEncoder
from tests.lightning_modules.encoders.test_packed import MODELS, texts


def without_dropout(model: torch.nn.Module) -> torch.nn.Module:
    for part in model.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.0
    return model


@pytest.mark.parametrize("training", ["full", "top_layers"])
@pytest.mark.parametrize("kind", MODELS)
def test_embeddings_and_gradients_are_those_of_the_padded_model(kind, training):
    torch.manual_seed(0)
    encoder = TextEncoder(without_dropout(MODELS[kind]()), "mean", training, 1).train()
    tokens, mask = texts()
    gradients = []
    for encoder.trains_packed in (False, True):
        encoder.zero_grad()
        embeddings = encoder(tokens, mask)
        embeddings.square().sum().backward()
        gradients.append((embeddings, {name: p.grad for name, p in encoder.named_parameters() if p.grad is not None}))
    torch.testing.assert_close(gradients[1][0], gradients[0][0], rtol=1e-5, atol=1e-6)
    expected, actual = gradients[0][1], gradients[1][1]
    assert expected.keys() == actual.keys() and expected
    for name, gradient in expected.items():
        torch.testing.assert_close(actual[name], gradient, rtol=1e-4, atol=1e-5, msg=name)


def test_a_text_without_a_token_and_a_long_one():
    torch.manual_seed(0)
    encoder = TextEncoder(without_dropout(MODELS["bert"]()), "mean", "full", 1).train()
    mask = (torch.arange(40) < torch.tensor([3, 40, 0])[:, None]).long()
    torch.testing.assert_close(encoder(mask, mask), encoder.eval()(mask, mask), rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_dropout_is_drawn_anew_in_every_block_that_trains_and_repeats_by_its_seed():
    torch.manual_seed(0)
    encoder = TextEncoder(MODELS["bert"](), "mean", "top_layers", 1).train()
    assert encoder.trains_packed
    torch.manual_seed(1)
    first, second = encoder(*texts()), encoder(*texts())
    torch.manual_seed(1)
    assert torch.equal(encoder(*texts()), first) and not torch.allclose(first, second)
    still = encoder.eval()(*texts())
    mean = torch.stack([encoder.train()(*texts()) for _ in range(200)]).mean(0)
    torch.testing.assert_close(mean, still, rtol=0, atol=0.1)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5])
def test_quick_dropout_keeps_the_mean_and_drops_the_share(share):
    torch.manual_seed(0)
    values = torch.ones(1001, 997, requires_grad=True)
    dropped = quick_dropout(values, share)
    zero = dropped == 0
    assert zero.float().mean().item() == pytest.approx(share, abs=0.002)
    assert (zero.float().mean(dim=0) - share).abs().max() < 0.1  # no column is preferred
    torch.testing.assert_close(dropped[~zero], torch.full_like(dropped[~zero], 1 / (1 - share)))
    dropped.sum().backward()
    assert torch.equal(values.grad, dropped.detach())
    assert not quick_dropout(values, 1.0).any()
