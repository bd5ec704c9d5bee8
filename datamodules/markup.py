"""Tags and entities in texts that were once pages or mails: told, and taken out on request."""

from __future__ import annotations

import html
import re

MARKUP = re.compile(r"</?[a-zA-Z][^<>]*>|&(?:[a-zA-Z]{2,8}|#\d{1,6}|#x[0-9a-fA-F]{1,6});")
_OPENING = re.compile(r"<!--|<(script|style)\b[^<>]*>", re.IGNORECASE)
_CLOSING = {
    "": re.compile("-->"),
    **{name: re.compile(rf"</{name}\s*>", re.IGNORECASE) for name in ("script", "style")},
}  # of comments, scripts and styles
_ESCAPED_AGAIN = re.compile(r"&(?:(?:amp|#0*38|#x0*26);)+", re.IGNORECASE)
_TAG = re.compile(r"</?[a-zA-Z][^<>]*>")
_SPACES = re.compile(r"[^\S\n]+")


def without_markup(text: str) -> str:
    """A text without tags, comments, scripts and styles, its entities as the characters that they stand for.

    What comes out holds no markup: cleaned again, it stays what it is. A text of markup alone comes out empty.
    """
    while (cleaned := _cleaned_once(text)) != text:
        text = cleaned
    return cleaned


def _cleaned_once(text: str) -> str:
    unescaped = html.unescape(_ESCAPED_AGAIN.sub("&", _TAG.sub(" ", _without_unseen(text))))
    return _SPACES.sub(" ", unescaped).strip()


def _without_unseen(text: str) -> str:
    """Without comments, scripts and styles that end; in time that grows as the text does, whatever it holds."""
    parts, place, endless = [], 0, set()
    for opening in _OPENING.finditer(text):
        kind = (opening[1] or "").lower()
        if opening.start() < place or kind in endless:
            continue
        if closing := _CLOSING[kind].search(text, opening.end()):
            parts += [text[place : opening.start()], " "]
            place = closing.end()
        else:
            endless.add(kind)
    return "".join([*parts, text[place:]])
