"""The labelled rows of a large file that were not compared: a model that trains no encoder learns from them too, as far
as there is time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import vstack

from tasks.auto.candidates.declarations import Candidate
from tasks.auto.candidates.embeddings import encoded_texts
from tasks.auto.candidates.plans import plan_of, with_rows
from tasks.auto.comparison.clock import Clock
from tasks.auto.comparison.durations import longest_fold
from tasks.auto.comparison.study import Study
from tasks.auto.model.last_fit import AFTER_SECONDS
from tasks.auto.reading.labelled import Labelled
from tasks.auto.reading.rows import ALL_ROWS, rows_drawn, write_rows

SHARE = 0.15  # of the minutes, kept for them
MOST_ROWS = 200_000  # that a model learns from: embeddings and words of more would take GiB
WORTH = 1.1  # times the rows of the comparison, below which these suffice
SLOWER = 1.2  # times as long as told


def keep_time(clock: Clock, candidates: Sequence[Candidate], drawn: Labelled, data: Labelled) -> None:
    """Keep a share of the minutes for the rows of `data` that were not drawn, where a candidate can learn from them."""
    are_some = len(drawn.labels) < len(data.labels) and any(map(_takes_them, candidates))
    clock.further_rows = 60 * SHARE * clock.minutes if are_some else 0.0


def _takes_them(candidate: Candidate) -> bool:
    """Whether it is fitted in a time that grows as its rows do; neighbours are compared with each other."""
    return candidate.kind in ("embeddings", "words") and candidate.name not in ("nearest_name", "neighbours")


def with_further_rows(study: Study, candidate: Candidate, drawn: Labelled, data: Labelled, seed: int) -> Study:
    """The study of as many rows of `data` as there is time to fit the candidate to, those that were drawn first; the
    same study where these are all, or where the candidate cannot take more."""
    study.clock.further_rows = 0.0
    if not _takes_them(candidate):
        return study
    number = min(_affordable(study, candidate), len(data.labels), MOST_ROWS)
    if number < WORTH * len(study.labels):
        return study
    lines = set(drawn.lines)
    further = [row for row in rows_drawn(data, number, seed) if data.lines[row] not in lines]
    texts, labels = [data.texts[row] for row in further], [data.labels[row] for row in further]
    words, embeddings = study.words, study.embeddings
    if candidate.kind == "words":
        all_lines = [*drawn.lines, *(data.lines[row] for row in further)]
        all_texts, all_labels = [*drawn.texts, *texts], [*drawn.labels, *labels]
        whole = replace(data, texts=all_texts, labels=all_labels, lines=all_lines, unlabelled=[])
        words = with_rows(words, write_rows(study.run, whole, ALL_ROWS))
    elif embeddings is not None:
        plan = plan_of([*study.words, "method=prototypes"])
        more, counts, is_cut = encoded_texts(plan, texts, embeddings.counts.shape[1])
        embeddings = replace(
            embeddings,
            rows=np.concatenate([embeddings.rows, more]),
            counts=vstack([embeddings.counts, counts], format="csr"),
            is_cut=np.concatenate([embeddings.is_cut, is_cut]),
        )
    classes = np.concatenate([study.labels, _classes(study, labels)])
    names, texts = study.label_names, [*study.texts, *texts]
    return Study(study.run, study.clock, words, names, classes, texts, embeddings, study.unlabelled)


def _affordable(study: Study, candidate: Candidate) -> int:
    """How many rows the candidate can be fitted to in the time that is left, encoding of the further ones included."""
    rows = len(study.labels)
    of_fold = rows * (study.folds - 1) / study.folds
    solving = SLOWER * longest_fold(study, candidate) / of_fold
    encoding = 0.0
    if candidate.kind == "embeddings" and study.embeddings is not None:
        encoding = SLOWER * study.embeddings.seconds_per_text
    left = study.clock.left_with_fit - AFTER_SECONDS
    return int((left + encoding * rows) / (solving + encoding)) if left > 0 else 0


def _classes(study: Study, labels: Sequence[str | tuple[str, ...]]) -> NDArray[np.int64]:
    """(n,) class indices, or (n, C) of 0 and 1."""
    index = {name: number for number, name in enumerate(study.label_names)}
    if not study.several:
        return np.array([index[str(label)] for label in labels], np.int64)
    table = np.zeros((len(labels), study.num_classes), np.int64)
    for row, of_text in enumerate(labels):
        table[row, [index[name] for name in of_text]] = 1
    return table
