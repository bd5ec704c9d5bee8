"""Whether the encoder can read the texts at all: one that learned English knows few pieces of other languages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tasks.auto.reading.guesses import words_in

SAMPLE, CHARACTERS = 500, 300  # texts, spread over all, and of each its beginning: soon cut into tokens
MOST_UNKNOWN, MOST_TOKENS = 0.03, 2.5  # above those of English texts: docs/lab/auto.md
ANOTHER = "sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2"  # as docs/quick_start.md says


@dataclass(frozen=True)
class Legibility:
    """What an encoder's tokenizer makes of texts: the share of tokens that are unknown to it, and tokens a word."""

    unknown_tokens: float
    tokens_a_word: float


def legibility(tokenizer: Any, texts: Sequence[str]) -> Legibility:
    """Of some of the texts; a token that is unknown stands for a word or more."""
    spread = np.linspace(0, len(texts) - 1, min(SAMPLE, len(texts))).astype(int)
    beginnings = [texts[row][:CHARACTERS] for row in spread]
    ids = [token for tokens in tokenizer(beginnings, add_special_tokens=False)["input_ids"] for token in tokens]
    words = sum(map(words_in, beginnings))
    return Legibility(ids.count(tokenizer.unk_token_id) / max(len(ids), 1), len(ids) / max(words, 1))


def hardly_read(read: Legibility, encoder: str, source: str | None = None, is_folder: bool = False) -> str | None:
    """What to say of texts that the encoder hardly reads, and which other one to take; None where it reads them.

    Args:
        source: the repository or folder that it comes from; a folder goes before a repository.
    """
    if read.unknown_tokens > MOST_UNKNOWN:
        why = f"{100 * read.unknown_tokens:.0f} % of their tokens are unknown to it"
    elif read.tokens_a_word > MOST_TOKENS:
        why = f"it cuts their words into {read.tokens_a_word:.1f} tokens each"
    else:
        return None
    line = f"encoder={encoder}{f' ({source})' if source else ''} hardly reads these texts, {why}"
    if source == ANOTHER:
        return line
    other = f"{'encoder.path=null ' if is_folder else ''}encoder.repo={ANOTHER} encoder.sha256=null"
    return f"{line}; {other} takes one that knows many languages"
