"""What every augmentation offers, and what those that change words share."""

import hashlib
import json
import logging
import random
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, TypeVar

import numpy as np
from filelock import FileLock

from datamodules.sources import SourceFile
from storage.errors import ReportError
from storage.files import replacing

Fetch = Callable[[tuple[SourceFile, ...]], dict[str, Path]]
T = TypeVar("T")

log = logging.getLogger(__name__)

# Letters of any script, apostrophes inside; no part of an identifier or of something with digits.
WORD = re.compile(r"(?<!\w)[^\W\d_]+(?:['’][^\W\d_]+)*(?!\w)")

# Function words: their synonyms and neighbours change the grammar, not the wording.
STOP_WORDS = frozenset(
    """
    a about above across after again against all almost along already also although always am among an and another any
    are around as at away be became because become been before behind being below beneath beside between beyond both
    but by can cannot could did do does doing done down during each either else enough even ever every few for from
    further had has have having he hence her here hers herself him himself his how however i if in into is it its
    itself just least less many may me might mine more most much must my myself neither never no nor not now of off
    often on once one only onto or other others our ours ourselves out over own per perhaps quite rather same several
    shall she should since so some still such than that the their theirs them themselves then there thereby therefore
    these they this those though through thus to together too toward towards two under until up upon us very via was we
    well were what whatever when where whereas whether which while who whom whose why will with within without would
    yet you your yours yourself yourselves
    aren't can't couldn't didn't doesn't don't hadn't hasn't haven't he's i'm isn't it's shouldn't that's there's
    they're wasn't we're weren't what's won't wouldn't you're
    """.split()
)


@dataclass
class Augmentation:
    """A second view of a text.

    Subclasses are dataclasses: their fields are the options. A view depends on the seed and on the text alone, so
    neither on the other texts nor on their order; equal texts have equal views.
    """

    name: ClassVar[str]
    kinds: ClassVar[tuple[str, ...] | None] = ("text",)  # of data; None: all
    draws_first: ClassVar[bool] = False  # whether the first view is not the row itself
    version: ClassVar[int] = 1  # raise it when the same options give other texts
    same_text: ClassVar[bool] = False  # whether every view is the row itself

    def prepare(
        self,
        tokenizer: Any,
        token_embeddings: Callable[[], np.ndarray],
        fetch: Fetch,
        cache: Path | None = None,
    ) -> None:
        """Make ready to `augment`; called once before it.

        Args:
            tokenizer: the encoder's fast tokenizer.
            token_embeddings: gives the encoder's input embeddings, ``(vocabulary, width)``.
            fetch: gives verified source files, by path.
            cache: folder for what is worth keeping (lexicon, neighbour table); None keeps nothing.
        """

    def augment(self, texts: list[str], seed: int, aug_column: list[str | None] | None = None) -> list[str]:
        """One view of each text; never empty for a text that is not.

        Args:
            texts: the texts.
            seed: another seed gives another view.
            aug_column: augmented texts that the data set ships, one a text.
        """
        return [self.change(text, text_rng(text, seed)) for text in texts]

    def change(self, text: str, rng: random.Random) -> str:
        """One view of one text."""
        raise NotImplementedError

    def content(self) -> str:
        """Digest of the resource (lexicon, vocabulary) that decides the views besides the options."""
        return ""

    def fingerprint(self) -> str:
        """Digest of all that decides the views besides text and seed."""
        parts = [self.name, self.version, asdict(self), self.content()]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:20]


def text_rng(text: str, seed: int) -> random.Random:
    """Generator for one text. Only its ``random()`` is used: the one method whose values Python guarantees."""
    digest = hashlib.blake2b(f"{seed}\n{text}".encode(errors="surrogatepass"), digest_size=8).digest()
    return random.Random(int.from_bytes(digest))


def below(limit: int, rng: random.Random) -> int:
    """A whole number from 0 to ``limit - 1``."""
    return int(rng.random() * limit)


def draw(count: int, number: int, rng: random.Random) -> list[int]:
    """``number`` different positions below ``count``, in random order."""
    return sorted(range(count), key=lambda _: rng.random())[:number]


def replace_words(text: str, rate: float, candidates: Callable[[str], tuple[str, ...]], rng: random.Random) -> str:
    """Replace a share ``rate`` of the words that have ``candidates``, one at least (none where ``rate`` is 0).

    The number is rounded up or down at random, in proportion, so that the share holds on average.
    """
    words = [(match, options) for match in WORD.finditer(text) if (options := candidates(match.group()))]
    if not words or rate == 0:
        return text
    number = max(1, int(rate * len(words) + rng.random()))
    parts, end = [], 0
    for position in sorted(draw(len(words), number, rng)):
        match, options = words[position]
        parts += [text[end : match.start()], with_capitals_of(match.group(), options[below(len(options), rng)])]
        end = match.end()
    return "".join(parts) + text[end:]


def with_capitals_of(word: str, replacement: str) -> str:
    """``replacement`` with the capitals of ``word``."""
    if word.isupper() and len(word) > 1:
        return replacement.upper()
    return replacement[:1].upper() + replacement[1:] if word[:1].isupper() else replacement


def cached(
    path: Path | None, load: Callable[[Path], T], build: Callable[[], T], save: Callable[[T, BinaryIO], None]
) -> T:
    """What ``build`` gives, kept at ``path``; read from there where it is whole. Safe for processes side by side."""
    if path is None:
        return build()
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.with_name(f".{path.name}.lock")):
        if path.exists():
            try:
                return load(path)
            except Exception as error:  # whatever a damaged file makes its reader raise
                log.warning("%s is damaged (%s); making it again", path, type(error).__name__)
        value = build()
        try:
            with replacing(path) as file:
                save(value, file)
        except ReportError as error:  # it only costs time at the next start
            log.warning("%s could not be kept: %s", path, error)
        return value
