"""The head that generates, against the whole model of transformers: loss, likelihoods, greedy answers, parsing."""

import pytest
import torch
from transformers import T5ForConditionalGeneration

from lightning_modules.encoders.transformer import PretrainedEncoder
from lightning_modules.heads.text_to_text import TextToText
from lightning_modules.methods.supervised.ce import CrossEntropyModule
from losses import CrossEntropy
from tests.t5 import tiny_t5

NAMES = ["fruit", "wild_animal", "wild"]
TEXTS = ["the apple near a pear", "tiger tiger", "a crow with the goat of old", "rain"]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return PretrainedEncoder("t5", "none", path=str(tiny_t5(tmp_path_factory.mktemp("t5"))))


@pytest.fixture
def parts(encoder):
    """parts(options) -> the head, the states and the mask of TEXTS, the whole model and its inputs; in eval mode and in
    double precision, in which two ways of summing agree on every processor."""

    def build(**options):
        half, head = TextToText(**options).build(encoder, NAMES)
        batch = encoder.tokenizer()(TEXTS, return_tensors="pt", padding=True)
        whole = T5ForConditionalGeneration.from_pretrained(encoder.folder()).double().eval()
        inputs = {"input_ids": batch["input_ids"], "attention_mask": batch["attention_mask"]}
        return head.double().eval(), half.double().eval().states(**inputs), batch["attention_mask"], whole, inputs

    return build


def targets_of(encoder, labels):
    words = [NAMES[label].replace("_", " ") for label in labels]
    ids = encoder.tokenizer()(words, return_tensors="pt", padding=True)["input_ids"]
    return ids.masked_fill(ids == 0, -100)


def test_the_loss_is_that_of_the_whole_model_over_all_tokens(parts, encoder):
    head, states, mask, whole, inputs = parts()
    labels = [0, 1, 2, 1]
    expected = whole(**inputs, labels=targets_of(encoder, labels)).loss
    assert head.loss(states, mask, torch.tensor(labels)).item() == pytest.approx(expected.item(), abs=1e-6)


def test_scores_are_log_likelihoods_of_the_words_with_their_end(parts, encoder):
    head, states, mask, whole, inputs = parts()
    scores = head(states, mask)
    for row in range(len(TEXTS)):
        for label in range(len(NAMES)):
            targets = targets_of(encoder, [label])
            first = {name: tensor[row : row + 1] for name, tensor in inputs.items()}
            expected = -whole(**first, labels=targets).loss.item() * int((targets != -100).sum())
            assert scores[row, label].item() == pytest.approx(expected, abs=1e-5)


def test_first_tokens_are_compared_at_the_first_step(parts, encoder):
    with pytest.raises(ValueError, match="classes of the same first token among fruit, wild animal, wild"):
        parts(scores="first_token")
    words = ["fruit", "animal", "metal"]
    head, states, mask, whole, inputs = parts(scores="first_token", label_words=words)
    logits = whole(**inputs, decoder_input_ids=torch.zeros(len(TEXTS), 1, dtype=torch.long)).logits[:, 0]
    columns = [encoder.tokenizer()(word)["input_ids"][0] for word in words]
    torch.testing.assert_close(head(states, mask), logits[:, columns].float())


def test_answers_are_those_of_generate(parts, encoder):
    head, states, mask, whole, inputs = parts(max_new_tokens=6)
    ids = whole.generate(**inputs, max_new_tokens=6, do_sample=False, num_beams=1)
    texts = encoder.tokenizer().batch_decode(ids, skip_special_tokens=True)
    assert head.answers(states, mask).tolist() == [head.class_of(text) for text in texts]


@pytest.mark.parametrize(
    ("answer", "number"),
    [("fruit", 0), (" Fruit salad", 0), ("wild", 2), ("wild animal", 1), ("wild animals", 2), ("fruits", -1), ("", -1)],
)
def test_what_an_answer_means(parts, answer, number):
    assert parts()[0].class_of(answer) == number
    assert parts(unparsable="first_class")[0].class_of(answer) == max(number, 0)


def test_words_that_do_not_fit_are_refused(encoder, tiny_encoder_dir):
    with pytest.raises(ValueError, match="head.label_words: found 2; allowed: 3, one a class"):
        TextToText(label_words=["a", "b"]).build(encoder, NAMES)
    with pytest.raises(ValueError, match="classes of the same tokens among fruit, fruit, wild"):
        TextToText(label_words=["fruit", "fruit", "wild"]).build(encoder, NAMES)
    with pytest.raises(ValueError, match=r"found encoder=bert \(bert\); allowed: t5"):
        TextToText().build(PretrainedEncoder("bert", "none", path=str(tiny_encoder_dir)), NAMES)


@pytest.mark.slow
def test_it_learns_to_answer_and_learns_at_the_rate_of_the_encoder(encoder):
    torch.manual_seed(0)
    half, head = TextToText().build(encoder, NAMES)
    module = CrossEntropyModule(half, CrossEntropy(), torch.tensor([1, 1, 2]), None, None, "ce")
    module.use_head(head)
    assert all("lr" not in group for group in module.parameter_groups())
    names = [name for name, _ in module.named_parameters()]
    assert len(names) == len(set(names)) and not any("classifier.model.encoder" in name for name in names)
    tokens = encoder.tokenizer()(TEXTS, return_tensors="pt", padding=True)
    labels = torch.tensor([0, 1, 2, 1])
    batch = {**tokens, "labels": labels, "indices": torch.arange(4), "num_views": 1}
    optimizer = torch.optim.Adam(module.parameters(), lr=3e-3)
    for _ in range(60):
        optimizer.zero_grad()
        loss = module.training_losses(batch)["loss"]
        loss.backward()
        optimizer.step()
    module.eval()
    output = module._generated(batch, answers=True)
    assert output["predictions"].tolist() == labels.tolist() == output["logits"].argmax(1).tolist()
