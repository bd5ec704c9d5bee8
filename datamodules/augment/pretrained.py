"""Augmentations by a pretrained model of the hub: words in context, and translation there and back."""

import hashlib
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from datamodules.augment.base import STOP_WORDS, WORD, Augmentation, Fetch, below, draw, text_rng, with_capitals_of
from datamodules.augment.embedding import WORD_START, stem
from storage.errors import InputError


def model_folder(key: str, repo: str, path: str | None) -> Path:
    """Folder of a model: `path`, or the hub's snapshot, from its cache where it is there.

    Raises:
        InputError: no such folder, or neither cache nor hub has it.
    """
    if path is not None:
        if not (Path(path) / "config.json").is_file():
            raise InputError(f"{key}: no config.json in {path!r}; allowed: a Hugging Face model folder")
        return Path(path)
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    patterns = ["*.json", "*.txt", "*.spm", "*.model", "*.safetensors"]
    for local in (True, False):
        try:
            return Path(snapshot_download(repo, allow_patterns=patterns, local_files_only=local))
        except (LocalEntryNotFoundError, HfHubHTTPError, OSError):
            continue
    raise InputError(
        f"{key}: no copy of {repo} in the hub's cache and the hub is out of reach; "
        f"download it elsewhere and give its folder as {key}=FOLDER"
    )


def folder_digest(folder: Path) -> str:
    """sha256 over the weights, in name order; the first 16 digits."""
    digest = hashlib.sha256()
    for file in sorted(folder.glob("*.safetensors")):
        with file.open("rb") as stream:
            while block := stream.read(1 << 22):
                digest.update(block)
    return digest.hexdigest()[:16]


def in_batches(texts: list[str], size: int, change: Callable[[list[str]], list[str]]) -> list[str]:
    """`change` over batches of texts of like length; equal texts are changed once, order is kept."""
    distinct = sorted(dict.fromkeys(texts), key=lambda text: (len(text), text))
    changed: dict[str, str] = {}
    for start in range(0, len(distinct), size):
        batch = distinct[start : start + size]
        changed.update(zip(batch, change(batch), strict=True))
    return [changed[text] for text in texts]


@dataclass
class Contextual(Augmentation):
    """`augment=contextual`: words replaced by what a masked language model expects in their place.

    All chosen words of a text are masked at once; each gets one of the model's `top_k` whole words there, drawn by
    their probability. Function words, inflections of the word itself and pieces of words are left out.
    A view depends on seed and text, up to the rounding of the model's products in a batch.

    Args:
        repo: of the model on the hub.
        path: folder of the model; null: the hub.
        rate: share of the words that are replaced, in [0, 1]; at least one is, unless it is 0.
        top_k: how many of the model's candidates a replacement is drawn from.
        batch_size: texts in one pass of the model.
    """

    repo: str = "google-bert/bert-base-uncased"
    path: str | None = None
    rate: Annotated[float, ">= 0", "<= 1"] = 0.3
    top_k: Annotated[int, ">= 1"] = 10
    batch_size: Annotated[int, ">= 1"] = 32

    name = "contextual"

    def prepare(
        self, tokenizer: Any, token_embeddings: Callable[[], np.ndarray], fetch: Fetch, cache: Path | None = None
    ) -> None:
        from transformers import AutoModelForMaskedLM, AutoTokenizer

        folder = model_folder("augment.path", self.repo, self.path)
        self._tokenizer = AutoTokenizer.from_pretrained(folder)
        if self._tokenizer.mask_token is None:
            raise InputError(f"augment.path: the tokenizer in {folder} has no mask; allowed: a masked language model")
        self._model = AutoModelForMaskedLM.from_pretrained(folder).eval()
        self._content = folder_digest(folder)
        self._words = self._words_of_tokens()

    def content(self) -> str:
        return self._content

    def _words_of_tokens(self) -> list[str | None]:
        """The word that each token is, None where it is none that may replace another."""
        tokens = self._tokenizer.convert_ids_to_tokens(list(range(len(self._tokenizer))))
        is_word_piece = any(token.startswith("##") for token in tokens)
        words: list[str | None] = []
        for token in tokens:
            starts = not token.startswith("##") if is_word_piece else token.startswith(WORD_START)
            word = self._tokenizer.convert_tokens_to_string([token]).strip()
            fits = starts and word.isalpha() and len(word) > 2 and word.lower() not in STOP_WORDS
            words.append(word if fits else None)
        return words

    def augment(self, texts: list[str], seed: int, aug_column: list[str | None] | None = None) -> list[str]:
        return in_batches(texts, self.batch_size, lambda batch: self._change(batch, seed))

    def _change(self, texts: list[str], seed: int) -> list[str]:
        rngs = [text_rng(text, seed) for text in texts]
        matches_of_texts = [self._sampled_matches(text, rng) for text, rng in zip(texts, rngs, strict=True)]
        masked = [self._masked(text, matches) for text, matches in zip(texts, matches_of_texts, strict=True)]
        predictions = self._predict(masked)
        return [self._filled(*row) for row in zip(texts, matches_of_texts, predictions, rngs, strict=True)]

    def _sampled_matches(self, text: str, rng: random.Random) -> list:
        words = [match for match in WORD.finditer(text) if match.group().lower() not in STOP_WORDS]
        if not words or self.rate == 0:
            return []
        number = max(1, int(self.rate * len(words) + rng.random()))
        return [words[place] for place in sorted(draw(len(words), number, rng))]

    def _masked(self, text: str, matches: list) -> str:
        parts, end = [], 0
        for match in matches:
            parts += [text[end : match.start()], self._tokenizer.mask_token]
            end = match.end()
        return "".join(parts) + text[end:]

    def _predict(self, texts: list[str]) -> Iterator[list[tuple[list[int], list[float]]]]:
        """For each text, for each of its masks: the model's best tokens and their probabilities."""
        import torch

        batch = self._tokenizer(texts, return_tensors="pt", padding=True, truncation=True)
        with torch.inference_mode():
            logits = self._model(**batch).logits[:, :, : len(self._words)].float()  # a model may have spare tokens
        number = min(4 * self.top_k, logits.shape[2])  # some are no whole words
        for ids, row in zip(batch["input_ids"], logits, strict=True):
            best = row[ids == self._tokenizer.mask_token_id].softmax(1).topk(number)
            yield list(zip(best.indices.tolist(), best.values.tolist(), strict=True))

    def _filled(self, text: str, matches: list, predictions: list, rng: random.Random) -> str:
        parts, end = [], 0
        # a text cut at the model's length has fewer masks than words were chosen: the others stay
        for match, (tokens, weights) in zip(matches, predictions, strict=False):
            parts += [text[end : match.start()], self._sampled_word(match.group(), tokens, weights, rng)]
            end = match.end()
        return "".join(parts) + text[end:]

    def _sampled_word(self, word: str, tokens: list[int], weights: list[float], rng: random.Random) -> str:
        candidates = ((self._words[token], weight) for token, weight in zip(tokens, weights, strict=True))
        pairs = [(other, weight) for other, weight in candidates if other and stem(other) != stem(word)][: self.top_k]
        if not pairs:
            return word
        remaining = rng.random() * sum(weight for _, weight in pairs)
        for other, weight in pairs:
            remaining -= weight
            if remaining < 0:
                return with_capitals_of(word, other)
        return with_capitals_of(word, pairs[-1][0])


@dataclass
class BackTranslation(Augmentation):
    """`augment=back_translation`: translated into another language and back.

    One of the `num_beams` best translations is drawn on each way. A view depends on seed and text, up to the rounding
    of the models' products in a batch.

    Args:
        repo, back_repo: of the two translation models on the hub.
        path, back_path: their folders; null: the hub.
        num_beams: of the beam search; 1 is greedy, and every seed gives the same view.
        max_new_tokens: longest translation.
        batch_size: texts in one pass.
    """

    repo: str = "Helsinki-NLP/opus-mt-en-de"
    back_repo: str = "Helsinki-NLP/opus-mt-de-en"
    path: str | None = None
    back_path: str | None = None
    num_beams: Annotated[int, ">= 1"] = 4
    max_new_tokens: Annotated[int, ">= 1"] = 128
    batch_size: Annotated[int, ">= 1"] = 16

    name = "back_translation"

    def prepare(
        self, tokenizer: Any, token_embeddings: Callable[[], np.ndarray], fetch: Fetch, cache: Path | None = None
    ) -> None:
        pivot = model_folder("augment.path", self.repo, self.path)
        back = model_folder("augment.back_path", self.back_repo, self.back_path)
        self._ways = [_translator(pivot), _translator(back)]
        self._content = folder_digest(pivot) + folder_digest(back)

    def content(self) -> str:
        return self._content

    def augment(self, texts: list[str], seed: int, aug_column: list[str | None] | None = None) -> list[str]:
        return in_batches(texts, self.batch_size, lambda batch: self._change(batch, seed))

    def _change(self, texts: list[str], seed: int) -> list[str]:
        rngs = [text_rng(text, seed) for text in texts]
        translated = texts
        for model, tokenizer in self._ways:
            translated = self._translate(translated, model, tokenizer, rngs)
        return [new.strip() or old for new, old in zip(translated, texts, strict=True)]

    def _translate(self, texts: list[str], model: Any, tokenizer: Any, rngs: list[random.Random]) -> list[str]:
        import torch

        batch = tokenizer(texts, return_tensors="pt", padding=True, truncation=True)
        with torch.inference_mode():
            ids = model.generate(
                **batch,
                do_sample=False,
                num_beams=self.num_beams,
                num_return_sequences=self.num_beams,
                max_new_tokens=self.max_new_tokens,
            )
        decoded = tokenizer.batch_decode(ids, skip_special_tokens=True)
        beams = [decoded[start : start + self.num_beams] for start in range(0, len(decoded), self.num_beams)]
        return [translations[below(self.num_beams, rng)] for translations, rng in zip(beams, rngs, strict=True)]


def _translator(folder: Path) -> tuple[Any, Any]:
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    return AutoModelForSeq2SeqLM.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
