"""Docstrings of the installed libraries: real text that every installation already holds.

A row is the first sentence of the docstring of a public function, class or method; its class is the part of the
library where the definition stands (``scipy.stats``, ``torch.nn``, ...). Sources are read with ``ast``, never imported.

Readings taken:

* Public: no leading underscore in the name of the definition or of a class around it. Private modules are read, since
  libraries define public functions in them; test folders are not.
* A sentence that names its own library ("... of a PyTorch module") is left out, because the name alone would give the
  class away. Words of the class itself ("distributed", "metric") stay: they are what the text is about.
* A text that occurs in two classes is left out; within a class its first occurrence stays. Texts are compared
  case-folded, so that none is in both train and test.
* Rows stand in the order of the SHA-256 of their text; the first fifth of each class is its test part.

The rows depend on the versions of the four libraries alone, which the lock fixes; the parts read are pure Python and
the same in the CPU and CUDA builds.
"""

import ast
import hashlib
import logging
import re
import warnings
from collections import Counter
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

from datamodules.builders.base import Row, TextDataset
from storage.errors import InputError

PARTS = {  # library -> its subpackages that are classes
    "numpy": "lib ma polynomial",
    "scipy": "cluster integrate interpolate linalg ndimage optimize signal sparse spatial special stats",
    "sklearn": "cluster decomposition ensemble feature_extraction linear_model metrics model_selection neighbors "
    "preprocessing svm",
    "torch": "ao autograd cuda distributed distributions fx nn optim utils",
}
REFERENCE = {"numpy": "2.4.6", "scipy": "1.17.1", "sklearn": "1.9.1", "torch": "2.13.0"}  # the versions of the lock
DISTRIBUTION = {"sklearn": "scikit-learn"}  # where it has another name than the library
OTHER_NAMES = {"sklearn": "scikit-learn", "torch": "pytorch"}  # what the texts call the library
NOT_READ = {"tests", "test", "testing", "conftest.py", "setup.py"}
MIN_WORDS = 4
TEST_FRACTION = 0.2

MARKUP = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r":[\w:+-]+:`([^`<]+?)\s*<[^`>]*>`", r"\1"),  # :ref:`text <target>` -> text
        (r":[\w:+-]+:`[~!]?(?:\w+\.)*([^`']*)[`']", r"\1"),  # :class:`~package.Name` -> Name
        (r"\[([^\]]+)\]\([^)]*\)", r"\1"),  # [text](address) -> text
        (r"\[[^\]\s]{1,12}\]_", ""),  # citation [1]_
        (r"`+([^`]*)`+_{0,2}", r"\1"),
        (r"(?<!\w)\*{1,2}(\w[^*]*?)\*{1,2}(?!\w)", r"\1"),  # *emphasis*
        (r"\|(\w+)\|", r"\1"),  # |substitution|
        (r"\s+", " "),
    )
)
PARAGRAPH_END = re.compile(
    r"\n\s*\n|\s:(?:param|return|raise)"
    r"|(?:^|\n)\s*(?:Args?|Arguments|Parameters|Returns|Yields|Examples?)(?::|\s*\n|\s\w+ \()"
)
SENTENCE_END = re.compile(r"(?<!e\.g)(?<!i\.e)(?<!etc)(?<!vs)(?<!cf)\.(?=\s|$)")
NOT_PROSE = re.compile(r"[\\`]|://|>>>|::|---|:[a-z]+:|^\W|^[\w.]+\(")  # formulas, addresses, code, signatures

log = logging.getLogger(__name__)


class Docstrings(TextDataset):
    """First sentences of docstrings; 33 classes, long-tailed.

    Raises:
        InputError: a library or one of its parts is not installed.
    """

    licence = "BSD-3-Clause (numpy, scipy, scikit-learn, torch); the texts stay where they are installed"
    origin = "docstrings of the installed numpy, scipy, scikit-learn and torch"
    differences = "no paper uses it; 80/20 split per class, by a digest of the text"

    def identity(self) -> dict[str, Any]:
        return super().identity() | {"versions": versions()}

    def about(self) -> dict[str, Any]:
        differences = "; ".join([self.differences, *_other_versions()])
        return super().about() | {"versions": versions(), "differences": differences}

    def rows(self, files: dict[str, Path]) -> dict[str, Iterator[Row]]:
        for other in _other_versions():
            log.warning("dataset=docstrings: %s", other)
        train, test = split(distinct(labelled_sentences()))
        return {"train": iter(train), "test": iter(test)}


def versions() -> dict[str, str]:
    return {library: installed_version(library) for library in PARTS}


def _other_versions() -> list[str]:
    return [
        f"{library} {version} is installed, so the rows are not those of the reference, made with {REFERENCE[library]}"
        for library, version in versions().items()
        if version != REFERENCE[library]
    ]


def installed_version(library: str) -> str:
    """Version of ``library`` without its build (``2.13.0+cpu`` -> ``2.13.0``)."""
    return _distribution(library).version.partition("+")[0]


def _distribution(library: str) -> metadata.Distribution:
    name = DISTRIBUTION.get(library, library)
    try:
        return metadata.distribution(name)
    except metadata.PackageNotFoundError:
        raise InputError(f"dataset=docstrings: {name} is not installed, expected {name} {REFERENCE[library]}") from None


def labelled_sentences() -> Iterator[tuple[str, str]]:
    """(sentence, class) of all parts, in the order of `PARTS`, of the files' paths, and of the lines."""
    for library, parts in PARTS.items():
        root = Path(str(_distribution(library).locate_file(library)))
        own_name = re.compile(rf"\b({library}|{OTHER_NAMES.get(library, library)})\b", re.IGNORECASE)
        for part in parts.split():
            paths = sorted((root / part).rglob("*.py"), key=lambda path: path.as_posix())
            if not paths:
                raise InputError(f"dataset=docstrings: {library} {installed_version(library)} has no part {part!r}, "
                                 f"expected {library} {REFERENCE[library]}")  # fmt: skip
            for path in paths:
                if NOT_READ.isdisjoint(path.relative_to(root).parts):
                    for docstring in docstrings(_parse(path).body):
                        sentence = first_sentence(docstring)
                        if sentence and not own_name.search(sentence):
                            yield sentence, f"{library}.{part}"


def _parse(path: Path) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # other people's invalid escapes
        return ast.parse(path.read_bytes())


def docstrings(body: list[ast.stmt]) -> Iterator[str]:
    """Docstrings of the public definitions of ``body``, a class before its methods."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            yield ast.get_docstring(node) or ""
            if isinstance(node, ast.ClassDef):
                yield from docstrings(node.body)


def first_sentence(docstring: str) -> str | None:
    """First sentence of ``docstring`` without reST or Markdown, or None where it is not plain English prose: printable
    ASCII, at least four words of two letters, no formula, address, signature or code."""
    sentence = PARAGRAPH_END.split(docstring.strip(), maxsplit=1)[0]
    for pattern, replacement in MARKUP:
        sentence = pattern.sub(replacement, sentence)
    sentence = SENTENCE_END.split(sentence.strip(), maxsplit=1)[0].rstrip(" :;,")
    words = re.findall(r"[A-Za-z]{2,}", sentence)
    plain = sentence.isascii() and sentence.isprintable() and not NOT_PROSE.search(sentence)
    return sentence if plain and len(words) >= MIN_WORDS else None


def distinct(sentences: Iterator[tuple[str, str]]) -> list[tuple[str, str]]:
    """The first of each case-folded text, without the texts of more than one class."""
    first = {(text.casefold(), label): text for text, label in reversed(list(sentences))}
    classes = Counter(folded for folded, _ in first)
    return [(text, label) for (folded, label), text in first.items() if classes[folded] == 1]


def split(sentences: list[tuple[str, str]]) -> tuple[list[Row], list[Row]]:
    """(train, test) rows, in the order of the texts' SHA-256; a fifth of each class, rounded, is test."""
    ordered = sorted(sentences, key=lambda row: hashlib.sha256(row[0].encode()).digest())
    to_test = {label: round(TEST_FRACTION * count) for label, count in Counter(label for _, label in ordered).items()}
    parts: tuple[list[Row], list[Row]] = ([], [])
    for text, label in ordered:
        parts[to_test[label] > 0].append({"text": text, "label": label})
        to_test[label] -= 1
    return parts
