"""Augmentations by pretrained models, on tiny random ones saved to disk."""

import pytest
import torch
import transformers

from datamodules.augment.pretrained import BackTranslation, Contextual, in_batches
from storage.errors import InputError

SIZE = {"vocab_size": 400, "pad_token_id": 0}
TEXTS = ["apple pear and copper", "rain or snow", "of the", "", "horse tiger rabbit eagle", "apple pear and copper"]


@pytest.fixture(scope="module")
def folders(tiny_encoder_dir, tmp_path_factory):
    """Folders of a masked language model and of two translation models, with the tokenizer of the tests."""
    torch.manual_seed(0)
    bert = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
    marian = {"d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "decoder_start_token_id": 0}
    marian |= {
        f"{part}_{name}": 2 if "heads" in name else 64
        for part in ("encoder", "decoder")
        for name in ("attention_heads", "ffn_dim")
    }
    marian |= {"eos_token_id": 3, "forced_eos_token_id": 3}
    models = {"mlm": transformers.BertForMaskedLM(transformers.BertConfig(**SIZE, **bert))}
    for name in ("there", "back"):
        models[name] = transformers.MarianMTModel(transformers.MarianConfig(**SIZE, **marian))
    root = tmp_path_factory.mktemp("models")
    for name, model in models.items():
        model.save_pretrained(root / name)
        transformers.AutoTokenizer.from_pretrained(tiny_encoder_dir).save_pretrained(root / name)
    return {name: str(root / name) for name in models}


@pytest.fixture
def contextual(folders):
    augmentation = Contextual(path=folders["mlm"], rate=0.5, top_k=50)
    augmentation.prepare(None, None, None)
    return augmentation


@pytest.fixture
def translation(folders):
    built = BackTranslation(path=folders["there"], back_path=folders["back"], num_beams=3, max_new_tokens=6)
    built.prepare(None, None, None)
    return built


def test_words_in_context_replace_words_and_nothing_else(contextual):
    views = contextual.augment(TEXTS, seed=0)
    assert views[2] == "of the" and views[3] == ""  # no word to replace
    for old, new in zip(TEXTS, views, strict=True):
        assert len(new.split()) == len(old.split())
        changed = [(a, b) for a, b in zip(old.split(), new.split(), strict=True) if a != b]
        assert all(b.isalpha() and len(b) > 2 and a not in ("and", "or") for a, b in changed)
    assert sum(old != new for old, new in zip(TEXTS, views, strict=True)) >= 3


@pytest.mark.parametrize("kind", ["contextual", "translation"])
def test_seed_and_text_decide_and_not_the_order(kind, request):
    augmentation = request.getfixturevalue(kind)
    views = augmentation.augment(TEXTS, seed=0)
    assert views == augmentation.augment(TEXTS, seed=0) and views[0] == views[-1]
    assert views[::-1] == augmentation.augment(TEXTS[::-1], seed=0)
    assert any(augmentation.augment(TEXTS, seed=seed) != views for seed in range(1, 5))
    assert len(augmentation.fingerprint()) == 20


def test_translation_gives_a_text_for_a_text(translation):
    views = translation.augment(TEXTS[:3], seed=0)
    assert all(view.strip() for view in views) and views != TEXTS[:3]


def test_a_rate_of_zero_changes_nothing(folders):
    augmentation = Contextual(path=folders["mlm"], rate=0.0)
    augmentation.prepare(None, None, None)
    assert augmentation.augment(TEXTS, seed=0) == TEXTS


def test_other_weights_are_another_fingerprint(folders, contextual, tmp_path):
    torch.manual_seed(9)
    other = transformers.AutoModelForMaskedLM.from_pretrained(folders["mlm"])
    torch.nn.init.normal_(other.get_input_embeddings().weight)
    other.save_pretrained(tmp_path)
    transformers.AutoTokenizer.from_pretrained(folders["mlm"]).save_pretrained(tmp_path)
    second = Contextual(path=str(tmp_path), rate=0.5, top_k=50)
    second.prepare(None, None, None)
    assert second.content() != contextual.content()


def test_batches_are_of_like_length_and_each_text_once():
    seen = []

    def change(batch):
        seen.append(batch)
        return [text.upper() for text in batch]

    assert in_batches(["ccc", "a", "bb", "a"], 2, change) == ["CCC", "A", "BB", "A"]
    assert seen == [["a", "bb"], ["ccc"]]


def test_nothing_found_is_one_line(folders, tmp_path):
    with pytest.raises(InputError, match=r"augment.path: no copy of nobody/nothing .* augment.path=FOLDER"):
        Contextual(repo="nobody/nothing").prepare(None, None, None)
    with pytest.raises(InputError, match=r"augment.back_path: no config.json"):
        BackTranslation(path=folders["there"], back_path=str(tmp_path)).prepare(None, None, None)
