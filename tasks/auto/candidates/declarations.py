"""What is tried on whose text: declarations, cheapest first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from storage.errors import InputError

Kind = Literal["counts", "words", "embeddings", "trained"]


@dataclass(frozen=True)
class Candidate:
    """A way to classify.

    Attributes:
        name: short id, which `methods=[…]` takes.
        title: in words; {encoder} is the encoder's name.
        kind: what it reads; "trained" trains the encoder, the others none. Folds of "trained" are runs.
        cost: rank of dearness, 0 the cheapest.
        words: overrides of the run that it stands for; {half} is half of the encoder's blocks (`words_of`). Without
            `trainer.max_epochs` among them a schedule is chosen by the number of rows, and of pairs by the time
            (`takes_pair_steps`).
        regimes: of the data that it is tried on by itself; empty: all.
        reads_unlabelled: whether it learns from texts without a label too.
        needs_all_classes: whether its loss reads the class sizes, none of which may be 0.
        reads_words: whether it reads words beside the embeddings.
        parts: other candidates that it is the sum of, over the same encoder.
        brief_of: the candidate that trains the encoder alike for more than a few steps. That one is taken in its place
            where the time suffices; otherwise the brief one comes before all that train for longer, so that one ends.
        outdone_by: the candidate that was measured to be better in the same time. Where that one is tried, this one is
            not.
    """

    name: str
    title: str
    kind: Kind
    cost: int
    words: tuple[str, ...]
    regimes: tuple[str, ...] = ()
    reads_unlabelled: bool = False
    needs_all_classes: bool = False
    reads_words: bool = False
    parts: tuple[str, ...] = ()
    brief_of: str = ""
    outdone_by: str = ""

    @property
    def method(self) -> str:
        """The method of the run that it stands for."""
        return next(word.removeprefix("method=") for word in self.words if word.startswith("method="))

    def words_of(self, blocks: int | None) -> list[str]:
        """Its overrides over an encoder of so many blocks; None: without the number that trains, for none is run."""
        if blocks is None:
            return [word for word in self.words if "{half}" not in word]
        return [word.format(half=max(blocks // 2, 1)) for word in self.words]

    @property
    def votes(self) -> bool:
        """Whether neighbours have a say in what a trained encoder answers."""
        return self.kind == "trained" and "retrieval=knn" in self.words

    @property
    def is_exportable(self) -> bool:
        """Whether other libraries can hold its model: words alone and neighbours need Kontrast."""
        return self.kind in ("embeddings", "trained") and self.name != "neighbours" and not self.votes

    @property
    def takes_pair_steps(self) -> bool:
        """Whether it learns from pairs for as many steps as there is time for."""
        return self.method == "pairs_words" and not any(word.startswith("trainer.") for word in self.words)

    @property
    def is_known_to_gain(self) -> bool:
        """Whether it was measured, of one label a text, how much better it is than those that train no encoder."""
        return self.kind == "trained" and not self.reads_unlabelled

    @property
    def validates(self) -> bool:
        """Whether some of the rows it is fitted on are held out, to choose by; otherwise all of them train."""
        return "protocol.val_fraction=0" not in self.words


CHOOSES_NOTHING = ("protocol.monitor=null", "protocol.val_fraction=0")
HALF = ("encoder.train=top_layers", "encoder.num_top_layers={half}")
PAIRS = ("method=pairs_words", *CHOOSES_NOTHING)
CANDIDATES = (
    Candidate("majority", "always the largest class", "counts", 0, ("method=logistic",)),
    Candidate("tfidf_linear", "TF-IDF of words with logistic regression", "words", 1, ("method=tfidf_linear",)),
    Candidate("nearest_name", "{encoder}, nearest class name", "embeddings", 2, ("method=nearest_name",)),
    Candidate("logistic", "{encoder} with logistic regression", "embeddings", 2, ("method=logistic",)),
    Candidate("prototypes", "{encoder} with class means", "embeddings", 2, ("method=prototypes",)),
    Candidate(
        "discriminant_unlabelled",
        "{encoder} with class means, refined on the texts without a label",
        "embeddings",
        3,
        ("method=prototypes",),
        ("many unlabelled",),
        reads_unlabelled=True,
    ),
    Candidate("neighbours", "{encoder} with nearest neighbours", "embeddings", 2, ("method=logistic", "retrieval=knn")),
    Candidate(
        "linear_words",
        "{encoder} and TF-IDF of words, linear classifiers added",
        "embeddings",
        3,
        ("method=linear_words",),
        reads_words=True,
        parts=("logistic", "prototypes", "tfidf_linear"),
    ),
    Candidate(
        "words_unlabelled",
        "{encoder} and TF-IDF of words, each labelling for the other the texts without a label",
        "embeddings",
        3,
        ("method=prototypes_words",),
        ("many unlabelled",),
        reads_unlabelled=True,
        reads_words=True,
    ),
    Candidate(
        "setfit_brief",
        "{encoder}, upper half fine-tuned briefly on pairs of texts, then linear classifiers, words too",
        "trained",
        4,
        (*PAIRS, *HALF, "trainer.max_epochs=1", "trainer.least_steps=16"),
        reads_words=True,
        brief_of="setfit_half",
    ),
    Candidate("ce_half", "{encoder}, upper half fine-tuned, cross-entropy", "trained", 4, ("method=ce", *HALF),
              outdone_by="setfit_half"),
    Candidate(
        "setfit_half",
        "{encoder}, upper half fine-tuned on pairs of texts, then linear classifiers, words too",
        "trained",
        4,
        (*PAIRS, *HALF),
        ("few rows",),
        reads_words=True,
    ),
    Candidate(
        "setfit_pairs",
        "{encoder}, fine-tuned on pairs of texts, then linear classifiers, words too",
        "trained",
        5,
        (*PAIRS, "trainer.max_epochs=30"),
        ("few rows",),
        reads_words=True,
    ),
    Candidate("ce", "{encoder}, fine-tuned, cross-entropy", "trained", 5, ("method=ce",)),
    Candidate(
        "logit_adjusted",
        "{encoder}, fine-tuned, logit-adjusted cross-entropy",
        "trained",
        5,
        ("method=logit_adjusted",),
        ("imbalanced",),
        needs_all_classes=True,
    ),
    Candidate("scl_ce", "{encoder}, fine-tuned, supervised contrast", "trained", 6, ("method=scl_ce",), ("few rows",)),
    Candidate(
        "kontrast",
        "{encoder}, fine-tuned on labels and on guesses for the texts without a label",
        "trained",
        6,
        ("method=kontrast", "trainer.max_epochs=2"),
        ("many unlabelled",),
        reads_words=True,
        reads_unlabelled=True,
    ),
    Candidate(
        "sharprecl",
        "{encoder}, fine-tuned, SharpReCL",
        "trained",
        7,
        ("method=sharprecl",),
        ("imbalanced",),
        needs_all_classes=True,
    ),
)
FROZEN_BCE = ("method=bce", "encoder.train=frozen")
BY_LOSS = "protocol.loss_below=300"  # F1 of several labels hangs on a threshold, which early epochs have none for
OF_SEVERAL = (  # labels a text
    Candidate("majority", "always the commonest labels", "counts", 0, FROZEN_BCE),
    Candidate("tfidf_linear", "TF-IDF of words with logistic regression, label by label", "words", 1,
              ("method=tfidf_labels",)),
    Candidate("logistic", "{encoder} with logistic regression, label by label", "embeddings", 2, FROZEN_BCE),
    Candidate("neighbours", "{encoder} with nearest neighbours", "embeddings", 2, (*FROZEN_BCE, "retrieval=knn")),
    Candidate("linear_words", "{encoder}, TF-IDF of words and names of the labels, linear classifiers added",
              "embeddings", 3, ("method=bce_words",), reads_words=True),
    Candidate("bce_half", "{encoder}, upper half fine-tuned, binary cross-entropy", "trained", 4,
              ("method=bce", *HALF, BY_LOSS)),
    Candidate("bce", "{encoder}, fine-tuned, binary cross-entropy", "trained", 5, ("method=bce", BY_LOSS)),
    Candidate(
        "knn_mltc",
        "{encoder}, fine-tuned, contrast by shared labels, with nearest neighbours",
        "trained",
        6,
        ("method=knn_mltc", "method.threshold=global", "retrieval=knn", "retrieval.metric=macro_f1", BY_LOSS),
    ),
    Candidate(
        "kontrast_labels",
        "{encoder}, fine-tuned on labels and on what words and embeddings guess for the texts without a label",
        "trained",
        6,
        ("method=kontrast_labels", "trainer.max_epochs=3", "trainer.least_steps=160", BY_LOSS),
        ("many unlabelled",),
        reads_unlabelled=True,
        reads_words=True,
    ),
)  # fmt: skip


def by_name(several: bool) -> dict[str, Candidate]:
    """All candidates for texts of one label each, or of several."""
    return {candidate.name: candidate for candidate in (OF_SEVERAL if several else CANDIDATES)}


def check_names(methods: Sequence[str] | None, several: bool | None = None, has_unlabelled: bool = True) -> None:
    """Raises InputError: a name that is no candidate, or one that reads texts without a label where there are none, or
    none that can be recommended; None where it is not known yet how many labels texts have."""
    candidates = by_name(False) | by_name(True) if several is None else by_name(several)
    allowed = [name for name, candidate in candidates.items() if has_unlabelled or not candidate.reads_unlabelled]
    if idle := [name for name in methods or () if name in candidates and name not in allowed]:
        raise InputError(f"methods: {idle[0]} reads texts without a label, found none; allowed with unlabelled=FILE")
    if unknown := [name for name in methods or () if name not in allowed]:
        raise InputError(f"methods: found {unknown[0]!r}; allowed: {', '.join(allowed)}")
    if methods is not None and all(candidates[name].kind == "counts" for name in methods):
        useful = ", ".join(name for name in allowed if candidates[name].kind != "counts")
        raise InputError(f"methods: found [{', '.join(methods)}]; allowed, one at least: {useful}")


def chosen(regimes: Sequence[str], methods: Sequence[str] | None, several: bool = False) -> list[Candidate]:
    """The candidates to try, in the order in which they are: those that are named, or those that suit the regimes.

    `majority` is always among them: without it no figure means anything.

    Raises:
        InputError: a name that is none.
    """
    candidates = by_name(several)
    if methods is None:
        suited = {c.name: c for c in candidates.values() if not c.regimes or set(c.regimes) & set(regimes)}
        return [candidate for candidate in suited.values() if candidate.outdone_by not in suited]
    check_names(methods, several)
    # what is asked for by name is compared, and not taken in the place of another
    return [replace(c, brief_of="") for c in candidates.values() if c.name in methods or c.name == "majority"]
