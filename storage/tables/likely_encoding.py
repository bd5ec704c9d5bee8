"""Which encoding text that is no UTF-8 looks to be in, to be named to a person: no text is read so by itself."""

from __future__ import annotations

import re

GUESS = "cp1252"  # what is not UTF-8 and has no mark: Latin-1 as Windows writes it
OF_OTHER_SCRIPTS = (
    *("cp1251", "koi8_r", "cp1253", "cp1255", "cp1256"),
    *("gb18030", "big5", "shift_jis", "euc_jp", "euc_kr"),
)
OF_LATIN = (GUESS, "cp1250", "mac_roman", "cp850")
MANY = 0.2  # of the letters, from which those beyond ASCII are of another script than Latin
FEW = 0.04  # of the letters beyond ASCII within words, up to which the encoding is right though they are none
WITHIN_WORDS = re.compile(r"(?<=[a-z])[^\x00-\x7f](?=[a-z])")
BETWEEN_WORDS = "’‘–—…·\xad\xa0"  # which may stand between letters in any text
NOT_WESTERN = "šž"  # in cp1252, but in no language that is mostly written so


def likely_encoding(sample: bytes) -> str | None:
    """The encoding other than `GUESS` that a sample looks to be in, by its name in Python; None where like none."""
    beyond = len(re.findall(rb"[\x80-\xff]", sample))
    if beyond > MANY * (beyond + len(re.findall(rb"[A-Za-z]", sample))):
        from charset_normalizer import from_bytes

        best = from_bytes(sample, cp_isolation=[*OF_OTHER_SCRIPTS, GUESS]).best()
        return best.encoding if best is not None and best.encoding in OF_OTHER_SCRIPTS else None
    shares = {encoding: _strange_share(sample.decode(encoding, "replace"), encoding) for encoding in OF_LATIN}
    best_of_latin = min(OF_LATIN, key=shares.__getitem__)
    return best_of_latin if shares[best_of_latin] <= FEW < shares[GUESS] else None


def _strange_share(text: str, encoding: str) -> float:
    """Of what stands within words of plain letters, and is no such letter itself, how much is no small letter."""
    within = [letter for letter in WITHIN_WORDS.findall(text) if letter not in BETWEEN_WORDS]
    strange = [letter for letter in within if not letter.islower() or (encoding == GUESS and letter in NOT_WESTERN)]
    return len(strange) / max(len(within), 1)
