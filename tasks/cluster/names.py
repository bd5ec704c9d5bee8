"""What the clusters of a run are called: by their words, by a list of candidate names, or by a chat model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from hydra.utils import instantiate
from numpy.typing import NDArray

from clustering.kmeans import unit_rows
from clustering.topics import name_of
from engine.assign import Assigner, name_of_words
from engine.plan import Plan
from storage.run_store import RunFolder
from tasks.chat.client import Answers, ChatModel, answers_to
from tasks.cluster.space import Space

LONGEST, LONGEST_TEXT = 80, 500  # characters of a name, and of a text that is shown for one
QUESTION = "These texts and words are of one group of similar texts. Answer with a name for the group, 1 to 4 words."


def group_names(
    plan: Plan,
    run: RunFolder,
    space: Space,
    clusters: Sequence[dict[str, str]],
    sizes: NDArray[np.int64],
    merged: Sequence[Sequence[str]],
) -> list[str]:
    """A name for each cluster, in the order of `space.clusters`, and for the group that each of `space.steps` makes.

    A chat model is asked for those of clusters alone; groups are then called by their words.

    Args:
        plan: says whether there are candidates (`cluster.names`) or a model to ask (`chat`).
        run: the finished run.
        space: of the run.
        clusters: its rows of `clusters.csv`, in the same order.
        sizes: (C,) texts in each.
        merged: words of the groups.

    Raises:
        ValueError: both are there; the chat model gives no answer.
    """
    candidates = plan.plain["cluster"]["names"]
    if plan.config.get("chat") is not None:
        if candidates:
            raise ValueError("cluster.names: has no effect with chat, which names them; allowed: one of the two")
        names = _asked(plan, clusters)
    elif candidates:
        return _nearest(Assigner(run, plan), space, sizes, candidates)
    else:
        names = [name_of_words(row) for row in clusters]
    return names + [name_of(words, number) for number, words in enumerate(merged, len(names))]


def _nearest(assigner: Assigner, space: Space, sizes: NDArray[np.int64], candidates: Sequence[str]) -> list[str]:
    """The candidate with the largest cosine to each centre, both less the mean of all centres.

    What all texts of the set share says nothing of one cluster.
    """
    embedded = assigner.vectors(candidates)
    vectors = np.asarray(embedded.todense() if hasattr(embedded, "todense") else embedded)
    middle = space.centres.mean(axis=0) if len(space.centres) > 1 else 0
    centred = [unit_rows(rows - middle) for rows in (_centres_of_groups(space, sizes), vectors)]
    return [candidates[best] for best in (centred[0] @ centred[1].T).argmax(axis=1)]


def _centres_of_groups(space: Space, sizes: NDArray[np.int64]) -> NDArray[np.float32]:
    """Mean of the texts of each cluster and of each group that a step makes, (2 C - 1, D)."""
    centres, weights = list(space.centres), sizes.tolist()
    for pair in space.steps.tolist():
        own = [weights[group] for group in pair]
        centres.append(np.average([centres[group] for group in pair], axis=0, weights=own))
        weights.append(sum(own))
    return np.array(centres, np.float32)


def _asked(plan: Plan, clusters: Sequence[dict[str, str]]) -> list[str]:
    model: ChatModel = instantiate(plan.config.chat)
    questions = []
    for row in clusters:
        texts = [row[f"central{n}"][:LONGEST_TEXT] for n in ("", "_2", "_3")]
        user = {"role": "user", "content": "\n".join([row["words"], *texts])}
        questions.append([{"role": "system", "content": QUESTION}, user])
    names = [""] * len(questions)
    with Answers(Path(plan.plain["paths"]["cache"]) / "chat.sqlite") as stored:
        for number, answer, _ in answers_to(model, questions, stored):
            names[number] = " ".join(answer.split()).strip("\"'`*.")[:LONGEST]
    return [name or f"cluster {row['cluster']}" for name, row in zip(names, clusters, strict=True)]
