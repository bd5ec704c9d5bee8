"""Data modules over a corpus in memory."""

import pytest

from datamodules.imbalance import Exponential
from datamodules.samplers import LengthGrouped
from datamodules.texts.datamodule import TextDataModule
from tests.datamodules.fake_corpus import CLEAN, FakeCorpus, wordpiece


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return wordpiece(tmp_path_factory.mktemp("tokenizer"))


@pytest.fixture
def make(tokenizer, tmp_path):
    def build(corpus=None, ready=True, **options):
        settings = {
            "augment": None,
            "imbalance": Exponential(),
            "sampler": LengthGrouped(batch_size=8, eval_batch_size=5),
            "protocol": CLEAN,
            "num_views": 1,
            "max_length": 16,
            "seed": 0,
            "cache_dir": tmp_path / "cache",
        }
        data = TextDataModule(corpus or FakeCorpus(), tokenizer, **(settings | options))
        if ready:
            data.prepare_data()
            data.setup()
        return data

    return build
