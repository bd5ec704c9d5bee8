"""Tags and entities in texts that were once pages or mails: told, and taken out on request."""

from __future__ import annotations

import html
import re

MARKUP = re.compile(r"</?[a-zA-Z][^<>]*>|&(?:[a-zA-Z]{2,8}|#\d{1,6}|#x[0-9a-fA-F]{1,6});")
_UNSEEN = re.compile(r"<!--.*?-->|<(script|style)\b[^<>]*>.*?</\1\s*>", re.DOTALL | re.IGNORECASE)
_TAG = re.compile(r"</?[a-zA-Z][^<>]*>")
_SPACES = re.compile(r"[^\S\n]+")


def without_markup(text: str) -> str:
    """A text without tags, comments, scripts and styles, its entities as the characters that they stand for.

    What comes out holds no markup: cleaned again, it stays what it is. A text of markup alone comes out empty.
    """
    cleaned = _SPACES.sub(" ", html.unescape(_TAG.sub(" ", _UNSEEN.sub(" ", text)))).strip()
    return cleaned if cleaned == text else without_markup(cleaned)
