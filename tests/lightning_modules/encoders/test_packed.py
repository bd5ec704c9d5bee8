"""Tokens without their padding: the states of the padded model, and of a text the same bits in any company."""

import pytest
import torch
from transformers import (
    BertConfig,
    BertModel,
    CamembertConfig,
    CamembertModel,
    DistilBertConfig,
    DistilBertModel,
    RobertaConfig,
    RobertaModel,
    XLMRobertaConfig,
    XLMRobertaModel,
)

from lightning_modules.encoders.prepacked import PrepackedLinear, can_prepack
from lightning_modules.encoders.transformer import TextEncoder

SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
LENGTHS = [40, 39, 17, 16, 9, 8, 7, 3, 2]
MODELS = {
    "bert": lambda: BertModel(BertConfig(vocab_size=50, **SIZES)),
    "roberta": lambda: RobertaModel(RobertaConfig(vocab_size=50, max_position_embeddings=60, **SIZES)),
    "camembert": lambda: CamembertModel(CamembertConfig(vocab_size=50, max_position_embeddings=60, **SIZES)),
    "xlm-roberta": lambda: XLMRobertaModel(XLMRobertaConfig(vocab_size=50, max_position_embeddings=60, **SIZES)),
}


def texts() -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids and mask (9, 40); of the paddings the ids are the model's own, 1 or 0, and must not matter."""
    tokens = torch.randint(3, 50, (len(LENGTHS), 40), generator=torch.Generator().manual_seed(0))
    mask = (torch.arange(40) < torch.tensor(LENGTHS)[:, None]).long()
    return tokens * mask + (1 - mask), mask


@pytest.fixture(params=MODELS)
def model(request):
    torch.manual_seed(0)
    return MODELS[request.param]().eval()


@torch.inference_mode()
def test_states_are_those_of_the_padded_model(model):
    tokens, mask = texts()
    encoder = TextEncoder(model, "mean", "full", 1).eval()
    expected = encoder.states(tokens, mask) * mask[..., None], encoder(tokens, mask)
    encoder.prepare_to_predict(bf16=False)
    assert encoder.packed is not None
    torch.testing.assert_close(encoder.states(tokens, mask), expected[0], rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(encoder(tokens, mask), expected[1], rtol=1e-5, atol=1e-6)


@torch.inference_mode()
def test_bf16_weights_give_what_autocast_gives(model):
    tokens, mask = texts()
    encoder = TextEncoder(model, "mean", "full", 1).eval()
    with torch.autocast("cpu", torch.bfloat16):
        expected = encoder(tokens, mask)
        encoder.prepare_to_predict(bf16=True)
        torch.testing.assert_close(encoder(tokens, mask), expected, rtol=0, atol=0.02)
        together = [encoder(tokens[rows], mask[rows]) for rows in ([0, 3, 8], [5], [1, 2, 4, 6, 7])]
    alone = torch.empty_like(expected)
    alone[[0, 3, 8, 5, 1, 2, 4, 6, 7]] = torch.cat(together)
    torch.testing.assert_close(alone, expected, rtol=0, atol=0.02)


@pytest.mark.skipif(not can_prepack(), reason="no products in bfloat16 on this processor")
@pytest.mark.parametrize("gelu", [False, True])
@torch.inference_mode()
def test_a_prepacked_layer_is_the_layer_rounded_once(gelu):
    layer = torch.nn.Linear(96, 40)
    inputs = torch.randn(2, 7, 96, generator=torch.Generator().manual_seed(0)).to(torch.bfloat16)
    weight, bias = (values.to(torch.bfloat16).float() for values in (layer.weight, layer.bias))
    expected = inputs.float() @ weight.T + bias
    expected = torch.nn.functional.gelu(expected) if gelu else expected
    actual = PrepackedLinear(layer.weight, layer.bias, gelu)(inputs)
    assert actual.dtype == torch.bfloat16
    torch.testing.assert_close(actual.float(), expected, rtol=2**-8, atol=1e-4)


def test_what_cannot_go_without_padding_stays_as_it_is(model):
    pooled = TextEncoder(model, "cls", "full", 1)
    pooled.prepare_to_predict(bf16=True)
    config = DistilBertConfig(vocab_size=50, dim=32, n_layers=1, n_heads=4, hidden_dim=64)
    other = TextEncoder(DistilBertModel(config), "mean", "full", 1)
    other.prepare_to_predict(bf16=True)
    assert pooled.packed is None and other.packed is None
    assert {parameter.dtype for part in (pooled, other) for parameter in part.parameters()} == {torch.float32}
