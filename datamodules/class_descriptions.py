"""What the classes of a data set are called and what they are about."""

from __future__ import annotations

import csv
import io
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from storage.errors import InputError, short
from storage.plain_yaml import load_yaml
from storage.tables import TextLines, folded, label_text, parsed_json

KNOWN = Path(__file__).parent / "class_names"
STEM = "(?:label|class|cls|category|cat|topic|cluster|group|type|level|grade|star|tag|intent)"
NUMBERED = rf"(?:{STEM}[-_. ]?|[A-Z]{{0,2}}[-_.]?|[+\u2212])\d+(?:[-_.]\d+)*"
CODE = re.compile(rf"{NUMBERED}|{STEM}[-_. ][A-Z]|[A-Z]|[IVX]+|true|false", re.IGNORECASE)


def is_code(label: str) -> bool:
    """Whether a label says nothing by itself: `3`, `C01`, `1.2`, `LABEL_0`, `group_2`, `class A`, `A`, `IV`, `true`."""
    return CODE.fullmatch(label.strip()) is not None


def spelt_out(label: str) -> str:
    """A label as words: `sci_tech` and `sciTech` are `sci tech`."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", label)
    return re.sub(r"[_\-./]+", " ", words).strip() or label


def names_of(label_names: Sequence[str]) -> tuple[str, ...] | None:
    """The labels as words, which are the names of the classes; None where half of them or more are codes."""
    codes = sum(map(is_code, label_names))
    return None if 2 * codes >= len(label_names) else tuple(map(spelt_out, label_names))


def called_alike(descriptions: Sequence[str]) -> tuple[int, int] | None:
    """Two classes whose descriptions differ in case and white space at most; None where there are none."""
    first: dict[str, int] = {}
    for place, text in enumerate(map(folded, descriptions)):
        if first.setdefault(text, place) != place:
            return first[text], place
    return None


def nearly_alike(label_names: Sequence[str]) -> set[tuple[int, int]]:
    """Pairs of labels, by place, whose words differ in case, white space and one letter at most: another, or left out.

    One of them may be the other, mistyped. Digits, letters that are words by themselves, and codes say something else.
    """
    words = [folded(spelt_out(name)) for name in label_names]
    names = {word: place for place, word in enumerate(words) if not is_code(label_names[place])}
    first: dict[str, int] = {}
    lacking: dict[tuple[int, str], int] = {}
    pairs = set()
    for place, word in enumerate(words):
        others = {first.setdefault(word, place)}
        for at, letter in enumerate(word if word in names else ""):
            if letter.isalpha() and word[max(at - 1, 0) : at + 2].strip() != letter:
                rest = word[:at] + word[at + 1 :]
                others |= {names.get(rest, place), lacking.setdefault((at, rest), place)}
        pairs |= {(min(place, other), max(place, other)) for other in others if other != place}
    return pairs


def known_descriptions(dataset: str, label_names: Sequence[str]) -> tuple[str, ...] | None:
    """The descriptions that come with a data set, in the order of `label_names`; None where it has none.

    Raises:
        InputError: a label without a description.
    """
    file = KNOWN / f"{dataset}.yaml"
    if not file.is_file():
        return names_of(label_names)
    return _matched(yaml.safe_load(file.read_text(encoding="utf-8")), label_names, file.name, others_allowed=True)


def read_descriptions(
    file: Path, label_names: Sequence[str], names_suffice: bool = False, key: str = "dataset.class_descriptions"
) -> tuple[str, ...]:
    """The descriptions of a YAML or JSON file, {label: description}, or of a CSV with columns label and description.

    Args:
        file: YAML, JSON or CSV.
        label_names: the labels of the data set.
        names_suffice: whether a label that is missing is described by its name, which a line on stderr says.
        key: that was typed, for messages.

    Raises:
        InputError: no such file, not of its format or empty; labels that the data set has not, labels missing, or two
            that are described alike.
    """
    where = f"{key}={file}"
    try:
        text = "".join(TextLines(file))
        suffix = file.suffix.lower()
        if suffix == ".csv":
            content: Any = _csv_pairs(text, where)
        elif suffix == ".json":
            content = parsed_json(text, where, "JSON") if text.strip() else None
        else:
            content = load_yaml(text, words=True)
    except (ValueError, csv.Error) as error:
        if isinstance(error, InputError):
            raise
        reason = " ".join(str(error).split())[:120]
        raise InputError(f"{where}: cannot be read ({reason}); allowed: YAML, JSON or CSV") from error
    if not isinstance(content, Mapping) or not content:
        kind = "nothing" if not content else type(content).__name__
        raise InputError(f"{where}: found {kind}; allowed: a description of each label, LABEL: DESCRIPTION")
    if names_suffice and (missing := [name for name in label_names if name not in _labels(content)]):
        print(f"{where}: no description of {', '.join(map(short, missing))}; the name stands for it", file=sys.stderr)
        content = {**content, **{name: spelt_out(name) for name in missing}}
    return _matched(content, label_names, where)


def _labels(content: Mapping[Any, Any]) -> list[str]:
    return [label_text(label) for label in content]


def _csv_pairs(text: str, where: str) -> dict[str, str]:
    rows = [row for row in csv.reader(io.StringIO(text, newline=None), strict=True) if any(map(str.strip, row))]
    if rows and [cell.strip().lower() for cell in rows[0]] == ["label", "description"]:
        rows = rows[1:]
    pairs: dict[str, str] = {}
    for number, row in enumerate(rows, 1):
        if len(row) != 2:
            raise InputError(f"{where}: row {number} has {len(row)} fields; allowed: label,description")
        if (label := label_text(row[0])) in pairs:
            raise InputError(f"{where}: label {short(label)} twice; allowed: once")
        pairs[label] = row[1]
    return pairs


def _matched(
    content: Mapping[Any, Any], label_names: Sequence[str], where: str, others_allowed: bool = False
) -> tuple[str, ...]:
    descriptions = dict(zip(_labels(content), content.values(), strict=True))
    if not others_allowed and (unknown := [label for label in descriptions if label not in label_names]):
        allowed = ", ".join(map(short, label_names[:20]))
        raise InputError(f"{where}: found label {short(unknown[0])}, which the data set has not; allowed: {allowed}")
    if missing := [name for name in label_names if name not in descriptions]:
        raise InputError(f"{where}: no description of {', '.join(map(short, missing[:5]))}; allowed: one of each label")
    texts = tuple(descriptions[name] for name in label_names)
    if bad := [name for name, text in zip(label_names, texts, strict=True) if not _is_text(text)]:
        raise InputError(f"{where}: the description of {short(bad[0])} is empty or no text; allowed: words")
    words = [str(text).strip() for text in texts]
    if (alike := called_alike(words)) is not None:
        pair = " and ".join(short(label_names[place]) for place in alike)
        raise InputError(f"{where}: {pair} are described alike; allowed: descriptions that differ")
    return tuple(words)


def _is_text(value: Any) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool) and bool(str(value).strip(" ,\t\n"))
