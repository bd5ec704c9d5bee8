"""A tiny T5 with random weights and a tokenizer of its own, on disk."""

from pathlib import Path

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast, T5Config, T5ForConditionalGeneration

from attack.toy import FILLERS, TOPICS


def tiny_t5(folder: Path) -> Path:
    """Save config, weights and tokenizer; every word of the toy data is a token, the names of two classes are two."""
    special = ["<pad>", "</s>", "<unk>"]
    words = [*special, "fruit", "metal", "wild", "animal", "weather", *FILLERS]
    words = list(dict.fromkeys([*words, *(word for topic in TOPICS.values() for word in topic)]))
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    names = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=64, **names).save_pretrained(folder)
    config = T5Config(
        vocab_size=len(words),
        d_model=32,
        d_kv=16,
        d_ff=64,
        num_layers=2,
        num_heads=2,
        pad_token_id=0,
        eos_token_id=1,
        decoder_start_token_id=0,
        tie_word_embeddings=False,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        T5ForConditionalGeneration(config).save_pretrained(folder)
    return folder
