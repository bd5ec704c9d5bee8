"""A corpus in memory, augmentations and a tokenizer for it."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from datamodules.augment.base import Augmentation

WORDS = [f"w{i}" for i in range(50)]
CLEAN = {"name": "clean", "val_fraction": 0.1, "monitor": "val/macro_f1", "mode": "max"}
PUBLISHED = {"name": "published", "val_fraction": 0.0, "monitor": "test/accuracy"}


class FakeCorpus:
    """In-memory stand-in for a prepared corpus: class c has ``sizes[c]`` train rows and 4 test rows."""

    name = "fake"

    def __init__(self, sizes=(60, 30, 10), val_rows=0, seed=0):
        rng = np.random.default_rng(seed)
        self.label_names = tuple(f"class {c}" for c in range(len(sizes)))
        labels = {"train": np.repeat(np.arange(len(sizes)), sizes), "test": np.repeat(np.arange(len(sizes)), 4)}
        if val_rows:
            labels["val"] = np.arange(val_rows) % len(sizes)
        self.tables = {split: self._table(rng.permutation(values), rng) for split, values in labels.items()}
        self.splits = tuple(self.tables)
        rows = {split: table.to_pylist() for split, table in self.tables.items()}
        self.fingerprint = hashlib.sha256(json.dumps(rows).encode()).hexdigest()

    @staticmethod
    def _table(labels, rng):
        texts = [" ".join(rng.choice(WORDS, rng.integers(1, 30))) for _ in labels]
        aug = [text.replace("w1", "w2") for text in texts]
        return pa.table({"text": texts, "label": pa.array(labels, pa.int32()), "aug": aug})

    def table(self, split):
        return self.tables[split]


class Reverse(Augmentation):
    """Turns the words round; the seed adds a word, so that views differ."""

    name = "reverse"

    def fingerprint(self):
        return "reverse-1"

    def augment(self, texts, seed, aug_column=None):
        assert aug_column is None or len(aug_column) == len(texts)
        return [" ".join([WORDS[seed % 50], *reversed(text.split())]) for text in texts]


class Longer(Reverse):
    """Makes some texts longer than they were."""

    def augment(self, texts, seed, aug_column=None):
        return [text * (1 + len(text) % 3) for text in texts]


def wordpiece(folder: Path) -> PreTrainedTokenizerFast:
    vocab = {token: i for i, token in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS])}
    backend = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
    backend.normalizer, backend.pre_tokenizer = normalizers.Lowercase(), pre_tokenizers.Whitespace()
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]"
    ).save_pretrained(folder)
    return PreTrainedTokenizerFast.from_pretrained(folder)
