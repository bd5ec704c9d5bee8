"""The blocks below those that train: run once, remembered, and no other result for it."""

from copy import deepcopy

import pytest
import torch
import transformers

from lightning_modules.encoders.transformer import TextEncoder

SIZE = {"vocab_size": 50, "hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 2, "intermediate_size": 64}
FAMILIES = {
    "bert": lambda: transformers.BertModel(transformers.BertConfig(**SIZE)),
    "roberta": lambda: transformers.RobertaModel(transformers.RobertaConfig(pad_token_id=0, **SIZE)),
    "mpnet": lambda: transformers.MPNetModel(transformers.MPNetConfig(pad_token_id=0, **SIZE)),
    "distilbert": lambda: transformers.DistilBertModel(
        transformers.DistilBertConfig(vocab_size=50, dim=32, n_layers=4, n_heads=2, hidden_dim=64)
    ),
    "llama": lambda: transformers.LlamaModel(transformers.LlamaConfig(**SIZE)),
}


def build(family: str = "bert", number: int = 2) -> TextEncoder:
    torch.manual_seed(0)
    model = FAMILIES[family]()
    model.config.use_cache = False
    return TextEncoder(model, "mean", "top_layers", number)


def batch(*lengths: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(sum(lengths))
    mask = (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).long()
    return {"input_ids": torch.randint(1, 50, mask.shape, generator=generator) * mask, "attention_mask": mask}


@pytest.mark.parametrize("number", [1, 2, 4])
@pytest.mark.parametrize("family", FAMILIES)
def test_embeddings_and_gradients_are_those_of_the_whole_model(family: str, number: int) -> None:
    plain, quick = build(family, number).eval(), build(family, number).eval()
    first, other = batch(3, 7, 5), batch(2, 9)
    assert quick.top_layers.remember([first, other])
    for each in (first, other):
        expected, actual = plain(**each), quick(**each)
        torch.testing.assert_close(actual, expected, atol=2e-3, rtol=2e-3)
        for encoder, embeddings in ((plain, expected), (quick, actual)):
            encoder.zero_grad()
            embeddings.square().sum().backward()
        for (name, left), (_, right) in zip(plain.named_parameters(), quick.named_parameters(), strict=True):
            assert (left.grad is None) == (right.grad is None), name
            if left.grad is not None:
                torch.testing.assert_close(right.grad, left.grad, atol=2e-2, rtol=2e-2)


def test_blocks_below_are_not_run_again() -> None:
    encoder, seen = build(), []
    encoder.top_layers.remember([batch(3, 7, 5)])
    for index, block in enumerate(encoder.model.encoder.layer):
        block.intermediate.register_forward_hook(lambda *_, index=index: seen.append(index))
    encoder(**batch(3, 7, 5))
    assert seen == [2, 3]
    encoder(**batch(4))  # a new text
    assert seen == [2, 3, 0, 1, 2, 3]


def test_a_text_that_comes_twice_is_run_and_counted_once() -> None:
    encoder, seen = build(), []
    encoder.model.encoder.layer[0].register_forward_hook(lambda *_: seen.append(0))
    inputs = batch(3, 7, 5)
    size = 2 * (3 + 7 + 5) * SIZE["hidden_size"]  # float16
    twice = {key: torch.cat([value, value]) for key, value in inputs.items()}
    assert encoder.top_layers.remember([twice, inputs, inputs], largest=size)
    assert seen == [0, 0], "the first batch runs a second time, as a check, and none after it"
    assert sum(state.nbytes for state in encoder.top_layers.remembered.values()) == size
    assert not encoder.top_layers.remember([batch(2, 9)], largest=size)


def test_other_pads_and_another_order_find_the_same_texts() -> None:
    encoder = build().eval()
    inputs = batch(3, 7, 5)
    encoder.top_layers.remember([inputs])
    short = {name: value[[2, 0], :5] for name, value in inputs.items()}
    assert encoder.top_layers.recall(**dict(zip(("tokens", "mask"), short.values(), strict=True))) is not None
    torch.testing.assert_close(encoder(**short), encoder(**inputs)[[2, 0]])


def test_dropout_acts_where_weights_train_and_nowhere_else() -> None:
    encoder = build().train()
    modes = {name: module.training for name, module in encoder.model.named_modules() if "dropout" in name.lower()}
    assert modes and all(mode == ("layer.2." in name or "layer.3." in name) for name, mode in modes.items())
    assert encoder.training and not encoder.eval().model.encoder.layer[3].training


def test_the_weights_saved_are_those_of_the_whole_model() -> None:
    encoder = build()
    names = set(encoder.state_dict())
    encoder.top_layers.remember([batch(3, 7, 5)])
    encoder(**batch(3, 7, 5))
    assert set(encoder.state_dict()) == names and "model.encoder.layer.3.output.dense.weight" in names
    twin = deepcopy(encoder)  # of momentum encoders
    assert twin.top_layers.top[0] is twin.model.encoder.layer[2]


def test_the_top_does_not_run_to_be_remembered() -> None:
    encoder, below, top = build(), [], []
    encoder.model.encoder.layer[0].register_forward_hook(lambda *_: below.append(0))
    encoder.model.encoder.layer[-1].register_forward_hook(lambda *_: top.append(0))
    encoder.top_layers.remember([batch(3, 7, 5), batch(2, 9), batch(4, 8)])
    assert (len(below), len(top)) == (4, 2), "the first batch is checked: whole, and from what is remembered"


def test_nothing_is_remembered_where_it_would_not_serve() -> None:
    model = transformers.T5EncoderModel(
        transformers.T5Config(vocab_size=50, d_model=32, d_kv=16, d_ff=64, num_layers=4, num_heads=2)
    )
    encoder = TextEncoder(model, "mean", "top_layers", 2).eval()
    expected = encoder(**batch(3, 7, 5))
    assert not encoder.top_layers.remember([batch(3, 7, 5)])
    assert torch.equal(encoder(**batch(3, 7, 5)), expected)
    encoder = build()
    assert not encoder.top_layers.remember([batch(3, 7, 5)], largest=100) and not encoder.top_layers.remembered
    assert encoder.training and encoder.model.encoder.layer[3].training
