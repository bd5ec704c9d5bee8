"""`augment=wordnet`: words replaced by synonyms from Open English WordNet.

Readings taken: no sense is disambiguated, so a synonym comes from any synset of any part of speech of the word, with
equal chance; only synonyms of one word are used. A word that is no lemma is read as a regular form of one (plural or
-s, -ed, -ing, as in WordNet's morphy) and its synonyms, of a noun or verb accordingly, get the same ending by the
regular rules; irregular forms stay as they are.
"""

import gzip
import hashlib
import json
import random
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import numpy as np

from datamodules.augment.base import STOP_WORDS, Augmentation, Fetch, cached, replace_words
from datamodules.augment.wordnet_files import FILES

Lexicon = dict[str, dict[str, list[str]]]  # lemma -> part of speech (n, v, a, r) -> synonyms

# A field of a synset other than the two that matter: leaving these out makes the parser three times as fast.
OTHER_FIELD = re.compile(r"(?m)^  (?!members:|partOfSpeech:|[- ])\S.*\n(?:(?:  [- ].*)?\n)*")
ONE_WORD = re.compile(r"[a-z]+(?:-[a-z]+)*")
ENDINGS = (  # (ending, what stands in its place in the lemma, parts of speech, ending that the synonyms get)
    ("ies", "y", "nv", "s"),
    ("es", "", "nv", "s"),
    ("es", "e", "nv", "s"),
    ("s", "", "nv", "s"),
    ("ied", "y", "v", "ed"),
    ("ed", "e", "v", "ed"),
    ("ed", "", "v", "ed"),
    ("ing", "e", "v", "ing"),
    ("ing", "", "v", "ing"),
)


def build_lexicon(files: Iterable[Path]) -> Lexicon:
    """Lexicon of the synset files: for each lemma and part of speech the other members of its synsets, in the order of
    the files; adjective satellites count as adjectives."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    lexicon: Lexicon = {}
    for file in files:
        for synset in yaml.load(OTHER_FIELD.sub("", file.read_text(encoding="utf-8")), Loader=loader).values():
            pos = "a" if synset["partOfSpeech"] == "s" else synset["partOfSpeech"]
            for lemma in synset["members"]:
                for other in synset["members"]:
                    if other != lemma and other not in (synonyms := lexicon.setdefault(lemma, {}).setdefault(pos, [])):
                        synonyms.append(other)
    return lexicon


def lexicon_digest() -> str:
    """Names the content of the lexicon: its source files decide it."""
    return hashlib.sha256("".join(file.sha256 for file in FILES).encode()).hexdigest()[:16]


def load_lexicon(fetch: Fetch, cache: Path | None) -> Lexicon:
    """The lexicon: read from ``cache``, else built from its source files (about ten seconds)."""

    def build() -> Lexicon:
        files = fetch(FILES)
        return build_lexicon(files[file.path] for file in FILES)

    def load(path: Path) -> Lexicon:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            return json.load(file)

    def save(lexicon: Lexicon, binary: BinaryIO) -> None:
        with gzip.open(binary, "wt", encoding="utf-8", compresslevel=6) as file:
            json.dump(lexicon, file, ensure_ascii=False)

    return cached(cache and cache / "lexicon" / f"oewn-{lexicon_digest()}.json.gz", load, build, save)


class Synonyms:
    """Synonyms of a word form: of one word, lower case, inflected as the word is."""

    def __init__(self, lexicon: Lexicon) -> None:
        self.lexicon = lexicon
        self.cache: dict[str, tuple[str, ...]] = {}

    def __call__(self, word: str) -> tuple[str, ...]:
        """Synonyms of ``word``, in the order of the lexicon; none for function words and single letters."""
        word = word.lower()
        if word not in self.cache:
            skip = len(word) < 2 or word in STOP_WORDS
            self.cache[word] = () if skip else tuple(dict.fromkeys(s for s in self._find(word) if s != word))
        return self.cache[word]

    def _find(self, word: str) -> Iterator[str]:
        if word in self.lexicon:
            yield from self._synonyms_of(word, "nvar")
            return
        for ending, instead, pos, new_ending in ENDINGS:
            for lemma in self._lemmas(word, ending, instead):
                for part_of_speech in pos:
                    yield from (inflect(synonym, new_ending) for synonym in self._synonyms_of(lemma, part_of_speech))

    def _lemmas(self, word: str, ending: str, instead: str) -> Iterator[str]:
        if word.endswith(ending):
            stem = word.removesuffix(ending)
            yield stem + instead
            if not instead and ending != "s" and stem[-1:] == stem[-2:-1]:  # stopped -> stop
                yield stem[:-1]

    def _synonyms_of(self, lemma: str, parts_of_speech: str) -> Iterator[str]:
        entry = self.lexicon.get(lemma, {})
        return (s for pos in parts_of_speech for s in entry.get(pos, ()) if ONE_WORD.fullmatch(s))


def inflect(lemma: str, ending: str) -> str:
    """``lemma`` with the regular ending ``s``, ``ed`` or ``ing``.

    >>> [inflect("carry", "s"), inflect("stop", "ed"), inflect("make", "ing"), inflect("box", "s")]
    ['carries', 'stopped', 'making', 'boxes']
    """
    if ending == "s":
        if re.search(r"[^aeiou]y$", lemma):
            return lemma[:-1] + "ies"
        return lemma + ("es" if re.search(r"(s|x|z|ch|sh)$", lemma) else "s")
    if ending == "ed" and re.search(r"[^aeiou]y$", lemma):
        return lemma[:-1] + "ied"
    if lemma.endswith("ie") and ending == "ing":
        return lemma[:-2] + "ying"
    if lemma.endswith("e") and (ending == "ed" or not lemma.endswith(("ee", "oe", "ye"))):
        return lemma[:-1] + ending
    if re.fullmatch(r"[^aeiou]*[aeiou][^aeiouwxy]", lemma):  # one syllable: the consonant doubles
        return lemma + lemma[-1] + ending
    return lemma + ending


class OfSynonyms(Augmentation):
    """An augmentation that reads synonyms."""

    def prepare(
        self, tokenizer: Any, token_embeddings: Callable[[], np.ndarray], fetch: Fetch, cache: Path | None = None
    ) -> None:
        self.synonyms = Synonyms(load_lexicon(fetch, cache))

    def content(self) -> str:
        return lexicon_digest()


@dataclass
class WordNet(OfSynonyms):
    """Synonym replacement.

    Args:
        rate: share of the words with synonyms that are replaced, in [0, 1]; at least one word is, unless it is 0.
    """

    rate: Annotated[float, ">= 0", "<= 1"] = 0.3

    name = "wordnet"

    def change(self, text: str, rng: random.Random) -> str:
        return replace_words(text, self.rate, self.synonyms, rng)
