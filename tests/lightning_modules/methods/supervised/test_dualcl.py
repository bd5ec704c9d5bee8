"""DualCL: what the encoder reads, what stands for a label, and that the order of labels can be made to say nothing."""

import pytest
import torch
from transformers import RobertaConfig, RobertaModel

from lightning_modules.encoders.transformer import PretrainedEncoder, TextEncoder
from lightning_modules.methods.supervised.dualcl import DualCLModule
from losses import DualContrastiveLoss

PIECES = [[10], [11, 12], [13, 14, 15]]
COUNTS = torch.tensor([5, 3, 2])


@pytest.fixture
def build(tiny_encoder_dir):
    def make(pieces=PIECES, **options):
        encoder = PretrainedEncoder("test", "nobody/nothing", path=str(tiny_encoder_dir)).load()
        loss = DualContrastiveLoss()
        return DualCLModule(encoder, loss, COUNTS, None, None, "dualcl", label_pieces=pieces, **options).eval()

    return make


@pytest.fixture
def batch(tiny_encoder_dir):
    tokenizer = PretrainedEncoder("test", "nobody/nothing", path=str(tiny_encoder_dir)).tokenizer()
    built = tokenizer(["an apple and a pear", "iron"], return_tensors="pt", padding=True)
    return {key: built[key] for key in ("input_ids", "attention_mask")}


def test_the_encoder_reads_labels_before_the_text_and_a_label_is_the_mean_of_its_pieces(build, batch):
    module = build()
    separator = int(batch["input_ids"][0, batch["attention_mask"][0].sum() - 1])
    ids = [
        [row[0], *sum(PIECES, []), separator, *row[1 : int(mask.sum())]]
        for row, mask in zip(batch["input_ids"].tolist(), batch["attention_mask"], strict=True)
    ]
    z, theta = module.represent(batch)
    for row, tokens in enumerate(ids):
        hidden = module.encoder.model(torch.tensor([tokens])).last_hidden_state[0]
        torch.testing.assert_close(z[row], hidden[0], atol=1e-5, rtol=1e-5)
        expected = torch.stack([hidden[1], hidden[2:4].mean(0), hidden[4:7].mean(0)])
        torch.testing.assert_close(theta[row], expected, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(module(batch)["logits"][row], theta[row] @ z[row])


@pytest.mark.parametrize("positions", ["shared", "consecutive"])
def test_with_shared_positions_the_order_of_labels_says_nothing(build, batch, positions):
    order = [2, 0, 1]
    logits = build(label_positions=positions)(batch)["logits"][:, order]
    permuted = build([PIECES[c] for c in order], label_positions=positions)(batch)["logits"]
    assert torch.allclose(logits, permuted, atol=1e-5) == (positions == "shared")


def test_learned_labels_start_at_the_mean_of_their_pieces_and_take_one_position_each(build, batch):
    module = build(label_tokens="learned")
    table = module.encoder.model.get_input_embeddings().weight
    torch.testing.assert_close(module.learned_labels[1], table[[11, 12]].mean(0))
    assert module.prefix_length == 4 and module.learned_labels.requires_grad
    assert module.information(False) == "N", "where they start is what the classes are called"


def test_labels_that_take_too_many_positions_are_refused(build, batch):
    limit = build().encoder.model.config.max_position_embeddings
    module = build([[10], [11], [12] * limit])
    with pytest.raises(ValueError, match="dataset.max_length: text and labels take .* allowed"):
        module(batch)


def test_positions_that_roberta_keeps_for_padding_are_none_for_tokens():
    size = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    model = RobertaModel(RobertaConfig(vocab_size=50, max_position_embeddings=20, pad_token_id=1, **size))
    encoder = TextEncoder(model, "mean", "full", 1)
    module = DualCLModule(encoder, DualContrastiveLoss(), COUNTS, None, None, "dualcl", label_pieces=PIECES)
    ids = torch.full((1, 18 - module.prefix_length), 7)
    assert module({"input_ids": ids, "attention_mask": torch.ones_like(ids)})["logits"].shape == (1, 3)
    longer = torch.full((1, 19 - module.prefix_length), 7)
    with pytest.raises(ValueError, match="take 19 positions, allowed: 18"):
        module({"input_ids": longer, "attention_mask": torch.ones_like(longer)})


def test_scores_are_in_full_precision_where_the_encoder_computes_in_bfloat16(build, batch):
    module = build()
    with torch.autocast("cpu", torch.bfloat16):
        output = module(batch)
        z, theta = module.represent(batch)
    assert torch.equal(output["logits"], torch.einsum("bd,bcd->bc", z, theta))
