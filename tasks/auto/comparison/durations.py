"""How many seconds one fold of a candidate takes: as long as its folds took so far, or foretold from the size of what
is solved or trained and the pace of the candidates before it. They decide what there is time for."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from lightning_modules.heads.row_space import MOST_ROWS
from lightning_modules.methods.few_labels.class_names import TEMPLATES
from tasks.auto.candidates.declarations import Candidate
from tasks.auto.candidates.folds import ONE_SPLIT_FROM
from tasks.auto.candidates.plans import INNER_SHARE
from tasks.auto.comparison.runs import run_words
from tasks.auto.comparison.study import PAIR_STEPS, Study, enough_folds

STEP_COST = 2.5  # of a text in a training step, in encodings of one
HALF_COST = 0.36  # of that, where the upper half of the encoder trains
START_SECONDS = 2.5  # of a training run, besides its steps
USUAL_PACE = 1.3  # times, what training takes longer than it is told to before a step is done, on the mean
SECONDS_A_PRODUCT = 4e-10  # of one row, class and dimension in a step of a solver
USUAL_BATCH = 32  # texts in a training step, where a candidate says nothing else
WORD_COST = 20  # of a word, which lies apart from the next, in dimensions
ROW_COST = 0.5  # of a row, where words are solved by their products, in dimensions
STEPS_OF_WORDS, STEPS_OF_EMBEDDINGS = 20, 50  # of a solver for each row of a class, over all its settings: few rows
MOST_STEPS_OF_WORDS, MOST_STEPS_OF_EMBEDDINGS = 600, 2000  # are soon solved
STEPS_OF_ALL_TEXTS = {"discriminant_unlabelled": 200, "words_unlabelled": 800}  # of four fits, three in inner folds
LABEL_STEPS_OF_WORDS, LABEL_STEPS_OF_EMBEDDINGS = 60, 180  # of several labels a text, each solved by itself


def solving_seconds(study: Study, candidate: Candidate) -> float:
    """Seconds of a fold without training: the shortest so far, or foretold at the pace of what was solved before.

    The shortest, for the first one loads and caches what the others find.
    """
    shortest = {
        name: min(outcome.seconds_fit for outcome in outcomes.values()) for name, outcomes in study.outcomes.items()
    }
    if candidate.name in shortest:
        return shortest[candidate.name]
    foretold = {name: _foretold_solving(study, study.by_name[name]) for name in shortest}
    paces = [shortest[name] / seconds for name, seconds in foretold.items() if seconds]
    return _foretold_solving(study, candidate) * (float(np.median(paces)) if paces else 1.0)


def _foretold_solving(study: Study, candidate: Candidate) -> float:
    """Seconds of a fold, told from the size of what is solved; 0 where nothing is."""
    if study.embeddings is not None and candidate.name in STEPS_OF_ALL_TEXTS:
        size = len(study.labels) + len(study.embeddings.unlabelled)
        product = SECONDS_A_PRODUCT * size * study.num_classes * study.embeddings.rows.shape[1]
        return STEPS_OF_ALL_TEXTS[candidate.name] * product
    if candidate.kind != "words" and (study.embeddings is None or candidate.name not in ("logistic", "linear_words")):
        return 0.0
    product = SECONDS_A_PRODUCT * len(study.labels) * study.num_classes  # of all rows and one dimension
    words = WORD_COST * sum(len(text.split()) for text in study.texts) / len(study.texts)
    of_words, of_embeddings = _solver_steps(study)
    if candidate.kind == "words":
        return of_words * product * words
    assert study.embeddings is not None
    width = study.embeddings.rows.shape[1]
    if candidate.name == "logistic":
        return of_embeddings * product * width
    if study.several:
        return product * (of_embeddings * width + of_words * words)
    width += ROW_COST * min(words, len(study.labels)) if len(study.labels) <= MOST_ROWS else words
    return of_embeddings * product * width


def _solver_steps(study: Study) -> tuple[float, float]:
    """Of a solver over words and over embeddings, with all settings."""
    if study.several:
        return LABEL_STEPS_OF_WORDS, LABEL_STEPS_OF_EMBEDDINGS
    rows = len(study.labels) / study.num_classes  # of a class
    of_embeddings = min(STEPS_OF_EMBEDDINGS * rows, MOST_STEPS_OF_EMBEDDINGS)
    of_embeddings /= 2 if len(study.labels) >= ONE_SPLIT_FROM else 1  # no inner folds
    return min(STEPS_OF_WORDS * rows, MOST_STEPS_OF_WORDS), of_embeddings


def longest_fold(study: Study, candidate: Candidate) -> float:
    """Seconds of its longest fold so far."""
    return max((o.seconds_fit for o in study.outcomes.get(candidate.name, {}).values()), default=0.0)


def mean_fold(study: Study, candidate: Candidate) -> float:
    """Seconds of its folds so far, on the mean: the first one is slower than the others, which a loaded machine may be
    too."""
    seconds = [outcome.seconds_fit for outcome in study.outcomes.get(candidate.name, {}).values()]
    return sum(seconds) / len(seconds) if seconds else 0.0


def folds_left(study: Study, candidate: Candidate) -> int:
    """How many of its folds are not there yet."""
    return sum(study.known(candidate.name, 0, fold) is None for fold in range(study.folds))


def folds_wanted(study: Study, candidate: Candidate) -> int:
    """How many more folds it needs to be compared; one where it has those and others are left."""
    left = folds_left(study, candidate)
    return max(enough_folds(candidate, study.folds, len(study.labels)) - (study.folds - left), min(left, 1))


def refits(study: Study, candidate: Candidate) -> float:
    """Folds of the candidate that its fit on all rows takes as long as; where few rows train, it has as many steps."""
    if candidate.kind != "trained" or study.embeddings is None:
        return study.folds / (study.folds - 1)
    return foretold_training(study, candidate, None) / foretold_training(study, candidate, 0)


def finished(study: Study) -> list[Candidate]:
    """Candidates that may be recommended as they are."""
    return [study.by_name[name] for name, entry in study.entries.items() if entry.status == "finished"]


def refit_seconds(study: Study, candidates: Sequence[Candidate]) -> float:
    """Of the fit on all rows of the dearest of these."""
    return max((longest_fold(study, candidate) * refits(study, candidate) for candidate in candidates), default=0.0)


def longer_seconds(study: Study, candidates: Sequence[Candidate], steps: int = PAIR_STEPS[0]) -> float:
    """Of the fit on all rows with so many steps of pairs, of those of these whose folds have fewer and which were
    measured to be better by it."""
    briefs = [c for c in candidates if c.brief_of in study.by_name and study.entries[c.name].is_known_to_gain]
    seconds = (pace_of(study, c) * foretold_training(study, longer_of(study, c), None, steps) for c in briefs)
    return max(seconds, default=0.0)


def longer_of(study: Study, candidate: Candidate) -> Candidate:
    """What it is a brief version of, or itself."""
    return study.by_name[candidate.brief_of] if candidate.brief_of else candidate


def pace_of(study: Study, candidate: Candidate) -> float:
    """How many times as long its folds took as they were foretold to."""
    return longest_fold(study, candidate) / foretold_training(study, candidate, 0)


def training_seconds(study: Study, candidate: Candidate, fold: int) -> float:
    """Of one fold: as those so far, or what its steps cost at the pace of the others that were trained."""
    if known := mean_fold(study, candidate):
        return known
    paces = [
        seconds / foretold_training(study, study.by_name[name], fold)
        for name, seconds in seconds_of_trained(study).items()
    ]
    return foretold_training(study, candidate, fold) * (float(np.median(paces)) if paces else 1.0)


def seconds_of_trained(study: Study) -> dict[str, float]:
    """Of a fold of each candidate that began to train, by name: of its longest, or told from its first steps."""
    trained = [name for name in study.outcomes if study.by_name[name].kind == "trained"]
    return study.told_seconds | {name: longest_fold(study, study.by_name[name]) for name in trained}


def foretold_training(
    study: Study, candidate: Candidate, fold: int | None, pair_steps: int | None = None
) -> float:
    """Seconds of one fold, or of all rows, told from the encoder's speed; the study has embeddings.

    Args:
        pair_steps: in place of the study's.
    """
    assert study.embeddings is not None
    views = 2 if candidate.name in ("sharprecl", "scl_ce") else 1
    half = HALF_COST if "encoder.train=top_layers" in candidate.words else 1.0
    texts = texts_in_training(study, candidate, fold, pair_steps)
    if candidate.method == "pairs_words" and study.has_names:  # sentences beside the rows, at most as many
        texts *= 1 + min(len(TEMPLATES) * study.num_classes / len(study.labels), 1)
    return START_SECONDS + STEP_COST * half * views * texts * study.embeddings.seconds_per_text


def texts_in_training(
    study: Study, candidate: Candidate, fold: int | None, pair_steps: int | None = None
) -> float:
    """Rows times epochs of one fold, or of all rows; arguments as of `foretold_training`."""
    assert study.embeddings is not None
    words = run_words(study, candidate, fold, pair_steps)
    rows = (1 - INNER_SHARE if candidate.validates else 1) * len(study.labels)
    rows *= 1 if fold is None else (study.folds - 1) / study.folds
    if candidate.reads_unlabelled:
        rows += len(study.embeddings.unlabelled)
    least = _number(words, "trainer.least_steps", 0) * _number(words, "sampler.batch_size", USUAL_BATCH)
    return max(_number(words, "trainer.max_epochs", 1), math.ceil(least / rows)) * rows


def _number(words: Sequence[str], key: str, default: int) -> int:
    """What an override sets."""
    return next((int(word.split("=")[1]) for word in words if word.startswith(f"{key}=")), default)
