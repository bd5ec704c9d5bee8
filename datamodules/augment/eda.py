"""`augment=eda`: easy data augmentation (Wei & Zou 2019, "EDA: Easy Data Augmentation Techniques...", §2).

Readings taken: a view has one of the four operations, drawn with equal chance; a word is what stands between blanks, so
punctuation and case stay (the published code drops both); synonyms come from Open English WordNet, of one word, as
for `augment=wordnet`; n = alpha * (words of the text), at least 1. A text of one word is only replaced or added to.
"""

import random
from dataclasses import dataclass
from typing import Annotated

from datamodules.augment.base import WORD, below, draw, with_capitals_of
from datamodules.augment.wordnet import OfSynonyms


@dataclass
class EDA(OfSynonyms):
    """Synonym replacement, random insertion, random swap, or random deletion.

    Args:
        alpha: share of the words that the operation touches; also the chance that deletion drops a word. The paper
            recommends 0.05 for 500 to 2,000 train texts and 0.1 for more.
    """

    alpha: Annotated[float, ">= 0", "<= 1"] = 0.1

    name = "eda"

    def change(self, text: str, rng: random.Random) -> str:
        words = text.split()
        if self.alpha == 0 or not words:
            return text
        operation = (self._replace, self._insert, self._swap, self._delete)[below(4, rng)]
        return " ".join(operation(words, max(1, int(self.alpha * len(words))), rng))

    def _with_synonyms(self, words: list[str]) -> list[int]:
        return [place for place, word in enumerate(words) if (match := WORD.search(word)) and self.synonyms(match[0])]

    def _synonym(self, word: str, rng: random.Random) -> str:
        synonyms = self.synonyms(word)
        return with_capitals_of(word, synonyms[below(len(synonyms), rng)])

    def _replace(self, words: list[str], number: int, rng: random.Random) -> list[str]:
        places = self._with_synonyms(words)
        for place in (places[i] for i in draw(len(places), number, rng)):
            words[place] = WORD.sub(lambda match: self._synonym(match[0], rng), words[place], count=1)
        return words

    def _insert(self, words: list[str], number: int, rng: random.Random) -> list[str]:
        matches = (WORD.search(words[place]) for place in self._with_synonyms(words))
        sources = [match[0] for match in matches if match]
        for _ in range(number if sources else 0):
            word = sources[below(len(sources), rng)].lower()
            words.insert(below(len(words) + 1, rng), self._synonym(word, rng))
        return words

    def _swap(self, words: list[str], number: int, rng: random.Random) -> list[str]:
        for _ in range(number if len(words) > 1 else 0):
            first, second = draw(len(words), 2, rng)
            words[first], words[second] = words[second], words[first]
        return words

    def _delete(self, words: list[str], number: int, rng: random.Random) -> list[str]:
        return [word for word in words if rng.random() >= self.alpha] or [words[below(len(words), rng)]]
