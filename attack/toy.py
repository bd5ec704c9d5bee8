"""The smallest thing that trains: four separable classes in a CSV file, and a random two-layer BERT."""

from __future__ import annotations

import csv
import random
from pathlib import Path

TOPICS = {  # words of one topic never occur in another: a linear classifier separates them
    "fruit": "apple pear plum cherry grape melon peach lemon fig mango".split(),
    "metal": "iron copper zinc nickel silver gold lead tin cobalt chrome".split(),
    "animal": "horse tiger rabbit eagle salmon beetle whale otter crow goat".split(),
    "weather": "rain snow hail fog storm thunder breeze frost cloud drought".split(),
}
FILLERS = "the a of with near some very one more old new".split()
SIZES = {"train": (32, 16, 12, 8), "test": (6, 6, 6, 6)}


def sentence(topic: str, rng: random.Random) -> str:
    """A sentence of six to ten words, three of them from the topic."""
    words = rng.sample(TOPICS[topic], 3) + rng.choices(FILLERS, k=rng.randint(3, 7))
    rng.shuffle(words)
    return " ".join(words)


def write_csv_files(folder: Path) -> dict[str, Path]:
    """{"train", "test"}: CSV files with columns text,label; classes of 32, 16, 12 and 8 train rows."""
    rng, files = random.Random(0), {}
    for split, counts in SIZES.items():
        topics = [topic for topic, count in zip(TOPICS, counts, strict=True) for _ in range(count)]
        rows = [(sentence(topic, rng), topic) for topic in topics]
        rng.shuffle(rows)
        files[split] = folder / f"{split}.csv"
        with files[split].open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([("text", "label"), *rows])
    return files


def write_encoder(folder: Path) -> Path:
    """A random two-layer BERT of width 32 with its own WordPiece tokenizer, as a folder in Hugging Face format."""
    import torch
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast
    from transformers.utils import logging

    logging.disable_progress_bar()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    # a vocabulary of our own: a trained one differs from process to process in how ties are broken
    words = sorted({word for words in (*TOPICS.values(), FILLERS) for word in words})
    letters = [chr(code) for code in range(ord("a"), ord("z") + 1)]
    pieces = [*letters, *(f"##{letter}" for letter in letters), *(f"##{a}{b}" for a in letters for b in letters)]
    vocabulary = list(dict.fromkeys([*special, *words, *pieces]))[:400]
    tokenizer = Tokenizer(models.WordPiece({token: i for i, token in enumerate(vocabulary)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(token, tokenizer.token_to_id(token)) for token in ("[CLS]", "[SEP]")],
    )
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), special, strict=True))
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=64, **names).save_pretrained(folder)
    config = BertConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
        pad_token_id=0,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        BertModel(config).save_pretrained(folder)
    return folder


def small_options(encoder: Path) -> list[str]:
    """Overrides for the tiny encoder, which learns something in a few short epochs."""
    return [
        "logger=csv",
        f"encoder.path={encoder}",
        "encoder.sha256=null",
        "dataset.max_length=32",
        "trainer.max_epochs=2",
        "trainer.precision=32",
        "optimizer.lr=1e-2",
        "method.head_lr=1e-2",
    ]
