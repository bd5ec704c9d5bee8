"""The rounds of active learning: query, label, train, evaluate."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from active_learning import strategies
from active_learning.experiment import ActiveLearning
from active_learning.selection import PROBABILITIES, Selection, Strategy, label_by_label, needed_by, takes_one_class
from active_learning.strategies import random as at_random
from callbacks.open_logs import close_logs, log_outcome
from clustering.kmeans import unit_rows
from datamodules.streams import QUERY_STREAM
from engine.composition import target_class
from engine.environment import environment, write_environment
from engine.finished import load_module
from engine.identity import run_id
from engine.plan import Plan, instantiate_partial
from labelling.answers import Label, in_table
from labelling.desk import NEIGHBOURS, Suggestion
from lightning_modules.base import ClassifierModule, derived_seed
from reporting.metrics import non_uniformity
from storage.run_store import RunFolder, damage_named
from tasks.active.curve import (
    Round,
    curve_keys,
    figures,
    fit_no_class,
    is_label,
    labelled,
    line,
    report,
    reported_split,
    right_of,
    round_run,
    trained_rounds,
    write_curve,
)
from tasks.active.people import Code, People
from tasks.active.pool import Pool
from tasks.fit import record_once, run_names, trained_run


def learn(config: DictConfig, overrides: list[str], people: People | None) -> Path:
    """All rounds, and the report; returns the folder. `people` answer in place of the data set.

    Raises:
        ValueError: a protocol that would use labels nobody paid for, or `people` who are waited for.
    """
    plan = Plan.make(config, overrides)
    if (protocol := plan.plain["protocol"]["name"]) not in ("few_shot", "published", "fixed"):
        raise ValueError(f"protocol: found {protocol}, allowed with active: few_shot, published, fixed")
    if (budget := plan.plain["active"]["budget"]) < _min_labels(plan):
        raise ValueError(f"active.budget: found {budget}; allowed: at least {_min_labels(plan)}, to train on")
    if protocol != "few_shot" and plan.plain["active"]["validation_size"] is not None:
        chooses = "test" if protocol == "published" else "nothing"
        raise ValueError(f"active.validation_size: under protocol={protocol} {chooses} validates; allowed there: null")
    run = RunFolder(Path(config.paths.runs) / run_id(plan.plain, plan.inputs()))
    with run.lock():
        record_once(run, config, run_names(plan), lambda: _run_rounds(plan, run, people))
    with damage_named(run):
        report(run)
    return run.path


def _run_rounds(plan: Plan, run: RunFolder, people: People | None) -> None:
    pool = Pool(plan)
    if plan.plain["protocol"]["name"] == "fixed" and "test" not in pool.corpus.splits:
        raise ValueError("protocol: found fixed without test rows, which leaves nothing to draw the curve by; allowed: "
                         "few_shot, or dataset.test=FILE")  # fmt: skip
    if pool.has_several:
        _refuse_of_one_class(plan)
    write_environment(run, environment(plan, pool.corpus), goes_on=run.has("state.json"))
    if people:
        people.use({place: pool.texts[place] for place in pool.distinct.tolist()}, pool.label_names)
        pool.label_names = people.label_names
    rounds = _rounds(plan, pool, run, people)
    # a stop may have come between a state and its curve
    write_curve(run, rounds, pool.texts, pool.label_names, pool.separator)
    outcome = figures(rounds, run, plan.plain["active"].get("cold_start") == "names")
    run.finish(outcome)
    _log(plan, run, rounds, outcome)


def _refuse_of_one_class(plan: Plan) -> None:
    """Raises ValueError: a strategy that asks by the one class of a text, where texts have several."""
    if takes_one_class(instantiate(plan.config.active.strategy)):
        fitting = [name for name in strategies.__all__ if not takes_one_class(getattr(strategies, name))]
        raise ValueError(f"active: found {plan.plain['active']['name']}, which takes one class a text; allowed where "
                         f"texts have several: {', '.join(fitting)}")  # fmt: skip


def _log(plan: Plan, run: RunFolder, rounds: list[Round], outcome: dict[str, Any]) -> None:
    """The whole curve into one run of `logger`, over the labels, once it is there; its rounds log nothing."""
    if not plan.config.get("logger"):
        return
    try:
        logger = instantiate_partial(plan.config.logger)(run=run, config=plan.plain)
        for round_ in trained_rounds(rounds):
            logger.log_metrics(round_.figures, step=round_.figures["labels"])
        log_outcome(run, run_names(plan) | outcome)
    finally:
        close_logs()


def _rounds(plan: Plan, pool: Pool, run: RunFolder, people: People | None) -> list[Round]:
    experiment: ActiveLearning = instantiate(plan.config.active)
    rounds = [Round(**state) for state in run.read_json("state.json")] if (run.path / "state.json").exists() else []
    while True:
        is_changed = False
        if people:
            is_changed = _take_changes(rounds, people)
            people.say("choosing texts", _points(run, rounds))  # here, so that the last point is shown too
        if not rounds or rounds[-1].is_done:
            new_round = _new_round(plan, experiment, pool, rounds, run, people)
            if new_round is None and people:
                is_changed |= _take_changes(rounds, people)
            if new_round is None and is_changed:  # while the last one was trained, or instead of others
                new_round = Round([], [], [], [])
            if new_round is None:
                break
            rounds.append(new_round)
            _save(run, rounds)
        last = rounds[-1]
        if last.labels is None:
            last.labels = _answers(pool, rounds, run, people)
            _save(run, rounds)
        if people:
            _take_changes(rounds, people)
        if len(labelled(rounds)[0]) >= _min_labels(plan):
            if people:
                people.say(f"learning from {len(labelled(rounds)[0])} labels")
            _train(plan, experiment, pool, rounds)
        last.is_done = True
        _save(run, rounds)
        write_curve(run, rounds, pool.texts, pool.label_names, pool.separator)
        if experiment.keep_weights == "last":
            trained = trained_rounds(rounds)  # one without a new label is the run of the one before
            _drop_weights(run, [r for r in trained if round_run(run, r).id != round_run(run, trained[-1]).id])
        print(line(run, rounds), file=sys.stderr)
    if not trained_rounds(rounds):
        number = len(labelled(rounds)[0])
        raise ValueError(
            f"active: found {number} labelled texts and none left to ask for; allowed: at least {_min_labels(plan)}"
        )
    for round_ in trained_rounds(rounds)[0 if experiment.keep_weights == "all" else -1 :]:
        _with_weights(round_run(run, round_), plan)
    return rounds


def _min_labels(plan: Plan) -> int:
    """Labels that a training takes: two in a batch, and one that validates where labels do."""
    return 3 if plan.plain["protocol"]["name"] == "few_shot" else 2


def _drop_weights(run: RunFolder, rounds: list[Round]) -> None:
    """But those that another curve, which shares the run, keeps: of all its rounds, or of that with which it ended."""
    kept = set()
    for curve in (RunFolder(file.parent) for file in run.path.parent.glob("*/state.json")):
        kept.add(curve.read_metrics().get("last_run"))
        if curve.has("config.yaml") and (curve.read_config().get("active") or {}).get("keep_weights") == "all":
            kept |= {state["run"] for state in curve.read_json("state.json")}
    for round_run_ in (round_run(run, round_) for round_ in rounds):
        if round_run_.id not in kept:
            (round_run_.checkpoints / "best.ckpt").unlink(missing_ok=True)


def _save(run: RunFolder, rounds: list[Round]) -> None:
    run.write_json("state.json", [vars(round_) for round_ in rounds])


def _take_changes(rounds: list[Round], people: People) -> bool:
    """Take what people say of the texts of all rounds by now; whether they have changed an answer."""
    before = [round_.labels for round_ in rounds]
    for round_ in rounds:
        if round_.labels is not None:
            pairs = zip(round_.positions, round_.labels, strict=True)
            round_.labels = [people.class_by_now(position, label) for position, label in pairs]
    return before != [round_.labels for round_ in rounds]


def _new_round(
    plan: Plan, experiment: ActiveLearning, pool: Pool, rounds: list[Round], run: RunFolder, people: People | None
) -> Round | None:
    """The next texts, with labels where people have given them already; None where the budget is spent, no text is
    left, or the person has had enough."""
    started = time.perf_counter()
    if people is None:
        queried = _query(plan, experiment, pool, rounds, run, 1)
        if queried is None:
            return None
        indices, scores, reasons = queried[0]
        return Round(indices.tolist(), scores.tolist(), list(reasons), seconds=time.perf_counter() - started)
    taken = frozenset(position for round_ in rounds for position in round_.positions)
    size = min(experiment.size_of(len(rounds)), experiment.budget - len(labelled(rounds)[0]))
    ready = people.answered(taken)
    if size < 1 and rounds:
        return None
    if sum(is_label(people.class_of(position)) for position in ready) >= size or (
        ready and not people.is_asked_while_training
    ):
        return _answered_round(people, ready)
    queried = _query(plan, experiment, pool, rounds, run, people.ahead, frozenset(ready))
    seconds = time.perf_counter() - started  # without those in which a person is waited for
    if queried is None and not people.is_asked_while_training:
        return None
    suggestions = _suggestions(pool, rounds, *queried) if queried else {}
    if people.is_asked_while_training:
        ready = people.collect(run, suggestions, size, taken)
        return _answered_round(people, ready, seconds) if ready else None
    positions, shown = list(suggestions), list(suggestions.values())
    guesses = [[shown_.guess, shown_.probability] for shown_ in shown if shown_.guess is not None]
    return Round(positions, [s.score for s in shown], [s.reason for s in shown], seconds=seconds, guesses=guesses)


def _answered_round(people: People, positions: list[int], seconds: float = 0.0) -> Round:
    """A round of texts that have their answers."""
    shown = [people.reason_of(position) for position in positions]
    labels = [people.class_of(position) for position in positions]
    return Round(positions, [s.score for s in shown], [s.reason for s in shown], labels, seconds=seconds)


def _points(run: RunFolder, rounds: list[Round]) -> list[dict[str, Any]]:
    """The learning curve as texts that are labelled right."""
    points = []
    for round_ in trained_rounds(rounds):
        right, of, split = right_of(run, round_)
        points.append({"labels": round_.figures["labels"], "right": right, "of": of, "split": split})
    return points


def _query(
    plan: Plan, experiment: ActiveLearning, pool: Pool, rounds: list[Round], run: RunFolder, ahead: int,
    also_asked: frozenset[int] = frozenset(),
) -> tuple[Selection, dict[str, Any]] | None:  # fmt: skip
    """The next texts to label, and what the strategy was told; None where the budget is spent or no text is left.

    The strategy is asked `ahead` times, each time for as many as the round takes, among what is left then.
    """
    known, labels = labelled(rounds)
    asked = [position for round_ in rounds for position in round_.positions]
    unlabelled = np.setdiff1d(pool.distinct, np.array([*asked, *also_asked], dtype=np.int64))
    size = min(experiment.size_of(len(rounds)), experiment.budget - len(known))
    if size < 1 or not len(unlabelled):
        return None
    number, trained = len(rounds), trained_rounds(rounds)
    strategy = at_random if number < experiment.seed_rounds else experiment.strategy
    needed = needed_by(strategy)
    inputs: dict[str, Any] = {
        "unlabelled": unlabelled,
        "labelled": known,
        "labels": None if pool.has_several else np.array(labels, dtype=np.int64),
        "num_classes": len(pool.label_names),
        "num_labels": len(pool.label_names) if pool.has_several else 1,
        "query_size": size,
        "rng": np.random.default_rng([plan.plain["seed"], number, QUERY_STREAM]),
        "probabilities": None,
        "mc_probabilities": None,
        "guesses": pool.guesses if experiment.cold_start and not trained else None,
    }
    outputs: dict[str, Any] = {}
    if not trained and "embeddings" in needed:
        outputs = {"embeddings": pool.pretrained_embeddings}
    elif trained and needed & {"embeddings", "probabilities", "mc_probabilities"}:
        module = _round_module(round_run(run, trained[-1]), plan)
        seed = derived_seed(plan.plain["seed"], "passes", number)
        outputs = pool.model_outputs(module, needed, experiment.mc_passes, seed)
    inputs |= {name: _of_all_classes(rows, name, inputs["num_classes"]) for name, rows in outputs.items()}
    told = {name: value for name, value in inputs.items() if name in needed}
    if pool.has_several:
        told |= {name: label_by_label(told[name]) for name in PROBABILITIES & told.keys() if told[name] is not None}
    selection = _in_turn(strategy, told, ahead)
    if plan.plain["active"]["oracle"] in ("prompt", "browser") and trained and "probabilities" not in outputs:
        module = _round_module(round_run(run, trained[-1]), plan)
        inputs |= pool.model_outputs(module, places=[*selection.indices.tolist(), *known.tolist()])
    if pool.has_several and trained:
        inputs["threshold"] = round_run(run, trained[-1]).read_metrics()["threshold"]
    return selection, inputs


def _in_turn(strategy: Strategy, told: dict[str, Any], times: int) -> Selection:
    """What a strategy chooses first, then of what that leaves, and so on: many texts at once are not its first ones and
    more (it makes as many clusters)."""
    selection = strategy(**told)
    left = np.setdiff1d(told["unlabelled"], selection.indices)
    if times == 1 or not len(left):
        return selection
    told = told | {"unlabelled": left}
    if "labelled" in told and "labels" not in told:  # by then they are
        told["labelled"] = np.concatenate([told["labelled"], selection.indices])
    indices, scores, reasons = _in_turn(strategy, told, times - 1)
    return Selection(
        np.concatenate([selection.indices, indices]),
        np.concatenate([selection.scores, scores]),
        [*selection.reasons, *reasons],
    )


def _of_all_classes(rows: np.ndarray, name: str, num_classes: int) -> np.ndarray:
    """An output of a model, with probability 0 for the classes that a person has added since."""
    missing = num_classes - rows.shape[-1]
    if missing <= 0 or name == "embeddings":
        return rows
    return np.pad(rows, [(0, 0)] * (rows.ndim - 1) + [(0, missing)])


def _suggestions(
    pool: Pool, rounds: list[Round], selection: Selection, told: Mapping[str, Any]
) -> dict[int, Suggestion]:
    """Why each chosen text was chosen, what the model says of it, and which labelled texts are nearest to it."""
    positions, reasons, scores = selection.indices.tolist(), list(selection.reasons), selection.scores.tolist()
    suggestions = {p: Suggestion(reason, score) for p, reason, score in zip(positions, reasons, scores, strict=True)}
    names = list(pool.label_names)
    if (probabilities := told["probabilities"]) is not None:
        for position in positions:
            guess, probability = _guess(probabilities[position], names, told.get("threshold"))
            suggestions[position] = replace(suggestions[position], guess=guess, probability=probability)
    known, labels = labelled(rounds)
    if (embeddings := told.get("embeddings")) is not None and len(known):
        near = unit_rows(embeddings[positions]) @ unit_rows(embeddings[known]).T
        for row, position in enumerate(positions):
            best_few = np.argsort(-near[row], kind="stable")[:NEIGHBOURS]
            neighbours = tuple((pool.texts[known[i]], _shown(labels[i], names), float(near[row, i])) for i in best_few)
            suggestions[position] = replace(suggestions[position], neighbours=neighbours)
    return suggestions


def _guess(probabilities: np.ndarray, names: Sequence[str], threshold: Any) -> tuple[Label, float]:
    """What the model would answer, and the probability of that; with a threshold, or one a class, a text may have
    several classes, each with a probability of its own."""
    if threshold is None:
        best = int(probabilities.argmax())
        return names[best], float(probabilities[best])
    limits = np.broadcast_to(threshold, len(probabilities)) if np.ndim(threshold) == 0 else np.asarray(threshold)
    limits = np.pad(limits, (0, len(probabilities) - len(limits)), constant_values=1.0)  # of classes added since
    applies = probabilities > limits
    guess = tuple(sorted(names[c] for c in np.flatnonzero(applies).tolist()))  # names may have classes added since
    return guess, float(np.where(applies, probabilities, 1 - probabilities).prod())


def _shown(label: Code, names: Sequence[str]) -> str:
    return in_table(tuple(names[c] for c in label), None) if isinstance(label, list) else names[label]


def _round_module(run: RunFolder, plan: Plan) -> ClassifierModule:
    """The trained module of a round."""
    return load_module(run, Plan.make(_with_weights(run, plan)))[0]


def _with_weights(run: RunFolder, plan: Plan) -> DictConfig:
    """The config of a round's run, which is trained again where another curve, that shares it, dropped its weights."""
    round_config = OmegaConf.create(run.read_config())
    round_config.paths = plan.config.paths
    if not (run.checkpoints / "best.ckpt").is_file():
        if start := round_config.get("start_from"):
            _with_weights(RunFolder(run.path.parent / start), plan)
        round_config.force = True
        with redirect_stdout(sys.stderr):
            trained_run(Plan.make(round_config))
    return round_config


def _answers(pool: Pool, rounds: list[Round], run: RunFolder, people: People | None) -> list[Code]:
    """Classes of the texts of the last round, or numbers of `NO_LABEL`."""
    round_ = rounds[-1]
    if people is None:
        return [pool.labels[position] for position in round_.positions]
    taken = frozenset(position for earlier in rounds[:-1] for position in earlier.positions)
    guesses = round_.guesses or [[None, None]] * len(round_.positions)
    asked = zip(round_.positions, round_.reasons, round_.scores, guesses, strict=True)
    suggestions = {
        position: Suggestion(reason, score, tuple(guess) if isinstance(guess, list) else guess, probability)
        for position, reason, score, (guess, probability) in asked
    }
    people.collect(run, suggestions, len(round_.positions), taken)
    return [people.class_of(position) for position in round_.positions]


def _train(plan: Plan, experiment: ActiveLearning, pool: Pool, rounds: list[Round]) -> None:
    """Train on all that is labelled: a run of its own, found again where it is finished."""
    known, labels = labelled(rounds)
    round_config = OmegaConf.create(dict(plan.plain))
    round_config.active, round_config.logger, round_config.force = None, None, False
    rows: dict[str, Any] = {"_target_": "datamodules.imbalance.Listed", "rows": pool.rows[known].tolist()}
    if getattr(target_class(plan.plain["method"]), "reads_unlabelled", False):
        others = np.delete(pool.rows, fit_no_class(rounds))  # which would be given a class, and learned from
        is_all = pool.is_whole and pool.unlabelled is None and len(others) == len(pool.rows)
        rows["unlabelled"] = "rest" if is_all else others.tolist()
    if pool.unlabelled is not None:  # a round does not thin: labels drawn by the budget would be others
        round_config.dataset.labels, round_config.dataset.labels_per_class = None, None
        if "unlabelled" in rows:
            rows["unlabelled"] += pool.unlabelled.tolist()
    if plan.plain["active"]["oracle"] != "labels":
        rows["labels"] = labels
    if plan.plain["dataset"].get("label_names") is not None:
        round_config.dataset.label_names = list(pool.label_names)  # those that a person added, too
    round_config.imbalance = rows
    if experiment.validation_size is not None:
        round_config.protocol.val_fraction = max(min(experiment.validation_size, len(known) - 2), 1) / len(known)
    before = trained_rounds(rounds[:-1])
    if not experiment.reset_weights and before and _has_the_classes(plan, before[-1], pool):
        round_config.start_from = before[-1].run
        _with_weights(RunFolder(Path(plan.config.paths.runs) / str(before[-1].run)), plan)
    with redirect_stdout(sys.stderr):
        finished = trained_run(Plan.make(round_config))
    metrics = finished.read_metrics()
    split = reported_split(metrics)  # without test rows, the few that chose the epoch
    rounds[-1].run = finished.id
    rounds[-1].figures = {
        "labels": len(known),
        **{key: metrics[key] for key in curve_keys(split, pool.has_several) if key in metrics},
        "non-uniformity": non_uniformity(_class_counts(labels, len(pool.label_names))),
    }


def _class_counts(labels: Sequence[Code], num_classes: int) -> np.ndarray:
    numbers = [number for label in labels for number in (label if isinstance(label, list) else [label])]
    return np.bincount(np.array(numbers, dtype=np.int64), minlength=num_classes)


def _has_the_classes(plan: Plan, before: Round, pool: Pool) -> bool:
    """Whether the model of a round has all classes: one that a person added since begins a new one."""
    run = RunFolder(Path(plan.config.paths.runs) / str(before.run))
    return len(run.metric("label_names", list, str)) == len(pool.label_names)
