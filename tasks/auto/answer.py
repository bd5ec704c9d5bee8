"""From the rows of a question to its answer: encoding, candidates, report, model. Needs PyTorch."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from omegaconf import DictConfig, OmegaConf

from clustering.kmeans import unit_rows
from datamodules.labels import class_counts, label_array, without_label
from engine.finished import MODEL
from engine.plan import Plan
from reporting.auto.evidence import OWN_TEST
from reporting.auto.report import write_report
from storage.files import replacing
from storage.run_store import DATA, QUESTION, RunFolder
from tasks.auto.candidates.cheap import pure_vote
from tasks.auto.candidates.declarations import FROZEN_BCE, Candidate, chosen
from tasks.auto.candidates.embeddings import Embeddings, encoded, seconds_per_text
from tasks.auto.candidates.plans import data_words, encoder_name, plan_of, protocol_words, unlabelled_words
from tasks.auto.comparison.clock import Clock, minutes_of
from tasks.auto.comparison.durations import finished
from tasks.auto.comparison.order import compare, fit_folds
from tasks.auto.comparison.study import Study
from tasks.auto.model.further_rows import keep_time, with_further_rows
from tasks.auto.model.last_fit import NotFitted, brief_steps, fit_on_all_rows, longer_steps
from tasks.auto.question import compared
from tasks.auto.reading.labelled import Labelled
from tasks.auto.reading.legibility import hardly_read, legibility
from tasks.auto.reading.rows import (
    ALL_ROWS,
    MOST_ROWS,
    facts,
    max_length_for,
    notes_of_length,
    notes_of_sample,
    regimes_of,
    sampled,
    texts_cut,
    write_rows,
)
from tasks.sure import ASKED, CHOSEN

LEAST_ROWS = 200  # that an encoder is worth while for
ROWS_OF_WORDS = 5000  # that are taken without one
ENCODE_SHARE = 0.4  # of the minutes, at the most, for encoding the rows
MOST_OF_REST = 0.6  # of the time left, that encoding may take where small classes forbid to draw fewer rows
ENCODER_SECONDS = 10.0  # to load an encoder and time it


def answer(config: DictConfig, words: Sequence[str], data: Labelled, folder: RunFolder, clock: Clock) -> None:
    """Fill the folder; what of it is there from an earlier start is kept."""
    name = folder.id.removeprefix("auto-").rpartition("-")[0]
    earlier, before = folder.read_metrics(), compared(folder, config.minutes)
    is_fitted = before is not None and earlier.get("status") == "finished"
    used = (earlier.get("minutes") or {}).get("used") or 0.0
    clock = Clock(config.minutes, used + clock.used)
    if before is not None:
        clock = Clock(before["minutes"], before["compared_minutes"])
        clock.say("all candidates are compared already; left are the report and the fit on all rows")
    elif used:
        clock.say(f"going on where an earlier start ended, which used {minutes_of(60 * used)}")
    folder.write_metrics(status="running")
    rows = folder.path / "rows.parquet"
    longest = min(max_length_for(data.texts), plan_of([*words, "method=logistic"]).encoder.max_length())
    base = [*words, *data_words(rows, name, longest, data.markup, _described(folder, data))]
    speed, most_rows = _speed_and_rows(base, data, folder, clock)
    drawn = _sampled_again(data, most_rows, config.seed, folder)
    if not rows.exists():
        write_rows(folder, drawn)
    methods = None if config.methods is None else list(config.methods)
    study = _study(base, drawn, data, reads_unlabelled(drawn, methods), speed, folder, clock)
    counts = class_counts(study.labels, study.num_classes)
    regimes = regimes_of(counts, len(study.labels), len(drawn.unlabelled), study.several)
    candidates = chosen(regimes, methods, study.several)
    keep_time(clock, candidates, drawn, data)
    if before is None:
        fit_folds(study, candidates)
        _ask(folder, config, clock, study, name)
        compare(study, candidates)
        _foretell_last_fit(study)
        compared_minutes = clock.used
    else:
        study.recall(before["repeats"])
        if before.get("prefer") != config.prefer:
            _try_again(study)
        compared_minutes = before["compared_minutes"]
    _ask(folder, config, clock, study, name, compared_minutes)
    clock.say("comparing, and writing the report")
    if not is_fitted:
        (folder.path / MODEL / OWN_TEST).unlink(missing_ok=True)  # of a model that is fitted anew
    recommended = write_report(folder.path)["recommended"]
    _drop_another_model(folder)
    may_give_way = recommended is not None and study.by_name[recommended].kind == "trained" and _has_untrained(study)
    clock.report = clock.report if may_give_way else 0.0  # a second one is written then
    of_all_rows = partial(with_further_rows, study, drawn=drawn, data=data, seed=config.seed)
    _fit_recommended(study, of_all_rows, is_fitted)
    _ask(folder, config, clock, study, name, compared_minutes)
    folder.write_metrics(status="finished", minutes={"asked": clock.minutes, "used": clock.used})
    clock.say(f"done in {minutes_of(60 * clock.used)}")


def _described(folder: RunFolder, data: Labelled) -> Path | None:
    """The file of what the labels mean; None where nothing but their names says it."""
    if data.descriptions:
        folder.write_json("class_descriptions.json", data.descriptions)
    return folder.path / "class_descriptions.json" if data.descriptions else None


def _speed_and_rows(base: Sequence[str], data: Labelled, folder: RunFolder, clock: Clock) -> tuple[float | None, int]:
    """Seconds to encode a text, None where no encoder is run, and how many rows there is time for."""
    is_encoded = _is_encoded(folder)
    speed = _speed(base, data, clock, is_encoded)
    seconds = min(ENCODE_SHARE * 60 * clock.minutes, MOST_OF_REST * clock.left)  # a large file took some to read
    affordable = 0 if speed is None else int(seconds / speed)
    if affordable < min(LEAST_ROWS, len(data.labels)) and not is_encoded:  # more rows without an encoder say more
        return None, ROWS_OF_WORDS
    return speed, affordable


def _is_encoded(folder: RunFolder) -> bool:
    """Whether an earlier start encoded the rows: the cache has them, whatever time is left."""
    return folder.has("embeddings.npy")


def _speed(base: Sequence[str], data: Labelled, clock: Clock, is_encoded: bool) -> float | None:
    """Seconds to encode a text; None where the texts are not encoded yet and there is no time for an encoder at all."""
    if clock.left < ENCODER_SECONDS and not is_encoded:
        clock.say("no time to load the encoder: candidates without one alone")
        return None
    return seconds_per_text(plan_of([*base, "method=prototypes"]), data.texts)


def _sampled_again(data: Labelled, most: int, seed: int, folder: RunFolder) -> Labelled:
    """The same rows as an earlier start drew, which `rows.parquet` says, or a drawing."""
    if not folder.has("rows.parquet"):
        return sampled(data, most, seed)
    import pyarrow.parquet as pq

    table = pq.read_table(folder.path / "rows.parquet")
    if data.unlabelled:
        kept = folder.path / "unlabelled.parquet"
        data = replace(data, unlabelled=pq.read_table(kept)["text"].to_pylist() if kept.exists() else [])
    if len(table) == len(data.labels):
        return data
    texts, labels, lines = (table[column].to_pylist() for column in ("text", "label", "line"))
    labels = [tuple(label) for label in labels] if data.several else labels
    now = min(most, MOST_ROWS)
    note, *more = notes_of_sample(data, labels, now < MOST_ROWS and now <= len(table))
    if now > len(table):
        note += f"; these minutes would do for about {min(now, len(data.labels)):,}: force=true starts anew with them"
    return replace(data, texts=texts, labels=labels, lines=lines, notes=[*data.notes, note, *more])


def reads_unlabelled(data: Labelled, methods: Sequence[str] | None) -> bool:
    """Whether a candidate that will be tried learns from the texts without a label."""
    regimes = regimes_of(np.ones(2, int), len(data.labels), len(data.unlabelled), data.several)
    return bool(data.unlabelled) and any(c.reads_unlabelled for c in chosen(regimes, methods, data.several))


def _study(
    base: Sequence[str],
    drawn: Labelled,
    data: Labelled,
    has_others: bool,
    speed: float | None,
    folder: RunFolder,
    clock: Clock,
) -> Study:
    """The study of the rows drawn from `data`, encoded where there is time for it, with those texts without a label if
    `has_others`; `data.json` says what they are."""
    unlabelled = unlabelled_words(folder.path / "unlabelled.parquet") if has_others else []
    frozen = [*FROZEN_BCE, *protocol_words("logistic", None)] if drawn.several else ["method=prototypes", *unlabelled]
    plan = plan_of([*base, *frozen])
    corpus = plan.corpus(whole=True)
    names, table = corpus.label_names, corpus.table("train")
    labels = label_array(table, len(names))[~without_label(table)].astype(np.int64)
    about = facts(drawn, names, labels, data if len(drawn.labels) < len(data.labels) else None)
    kind = "labels, the rarest" if drawn.several else "classes, the smallest"
    smallest = class_counts(labels, len(names)).min()
    clock.say(f"{len(labels):,} rows, {len(names)} {kind} of {smallest}; {about['regime']}")
    for note in about["notes"]:
        if note not in data.notes:  # which are said already
            clock.say(note)
    texts = len(labels) + (len(drawn.unlabelled) if has_others else 0)
    embeddings = _embeddings(plan, names, texts, speed, folder, clock)
    limit = plan.dataset.max_length
    cut = texts_cut(drawn.texts, limit) if embeddings is None else int(embeddings.is_cut.sum())
    for note in notes_of_length(cut, len(labels), limit):
        clock.say(note)
        about["notes"].append(note)
    about |= {"most_tokens": limit, "cut_texts": cut}
    if embeddings is not None:
        read = legibility(plan.encoder.tokenizer(), drawn.texts)
        encoder = plan.plain["encoder"]
        path = encoder.get("path")
        hardly = hardly_read(read, encoder["name"], path or encoder.get("repo"), path is not None)
        about |= {**asdict(read), "hardly_read": hardly}
        if hardly:
            clock.say(hardly)
    folder.write_json(DATA, about)
    return Study(folder, clock, base, names, labels, drawn.texts, embeddings, unlabelled)


def _embeddings(
    plan: Plan, names: Sequence[str], texts: int, speed: float | None, folder: RunFolder, clock: Clock
) -> Embeddings | None:
    """Those of all texts of the plan, in the folder too; None without an encoder or without the time for it."""
    if speed is None:
        return None
    needed = minutes_of(texts * speed)
    if texts * speed > MOST_OF_REST * clock.left and not _is_encoded(folder):
        clock.say(f"encoding {texts:,} texts takes about {needed}, too long: candidates without an encoder alone")
        return None
    clock.say(f"encoding {texts:,} texts, about {needed}")
    embeddings = encoded(plan, names, speed)
    rows = unit_rows(embeddings.rows).astype(np.float32)
    rows[embeddings.is_cut] = 0  # a beginning says of no text that it stands twice
    with replacing(folder.path / "embeddings.npy") as file:
        np.save(file, rows)
    return embeddings


def _fit_recommended(study: Study, of_all_rows: Callable[[Candidate], Study], is_fitted: bool) -> None:
    """`model/`; where it is there already, from the same folds, it gets the threshold of this answer."""
    metrics, model = study.run.read_metrics(), RunFolder(study.run.path / MODEL)
    if recommended := metrics.get("recommended"):
        rule = metrics.get("abstention") or {}
        threshold = rule.get("threshold")
        if recommended == "neighbours" and threshold is not None and not study.several:
            threshold = pure_vote(threshold, study.num_classes)  # the model answers with the vote itself
        more = {"candidate": recommended, CHOSEN: threshold, ASKED: rule.get("precision")}
        if is_fitted and model.has("metrics.json"):  # of another recommendation it would be gone
            model.write_metrics(more)
            return
        candidate, entry = study.by_name[recommended], study.entries[recommended]
        whole, is_told = of_all_rows(candidate), entry.learns_for_longer
        study.clock.say(f"fitting {entry.title} on {_rows_in_words(study, whole)}")
        try:
            fit_on_all_rows(whole, candidate, more | {"rows": len(whole.labels)}, _has_untrained(study))
        except NotFitted as error:
            _give_way(study, candidate, str(error))
            _fit_recommended(study, of_all_rows, is_fitted=False)
            return
        if entry.learns_for_longer != is_told:
            write_report(study.run.path)


def _has_untrained(study: Study) -> bool:
    """Whether a candidate that trains no encoder can be recommended."""
    entries = (study.entries[candidate.name] for candidate in finished(study) if candidate.kind != "trained")
    return any(entry.can_be_recommended for entry in entries)


def _try_again(study: Study) -> None:
    """Let what gave way in an earlier answer, and what was barred with it, be recommended again."""
    for name, entry in study.entries.items():
        entry.not_fitted, entry.can_be_recommended = None, study.by_name[name].kind != "counts"
    study.write()


def _give_way(study: Study, candidate: Candidate, why: str) -> None:
    """Recommend what trains no encoder, in the report too."""
    entry = study.entries[candidate.name]
    study.clock.say(f"{entry.title}, on all rows: {why}; what trains no encoder takes its place")
    entry.not_fitted = why
    for other in finished(study):
        study.entries[other.name].can_be_recommended &= other.kind != "trained"
    study.write()
    write_report(study.run.path)
    _drop_another_model(study.run)


def _rows_in_words(study: Study, whole: Study) -> str:
    """Of those that a model is fitted to."""
    number, in_file = len(whole.labels), study.run.read_json(DATA)["sampled_from"]
    return "all rows" if in_file in (None, number) else f"{number:,} of {in_file:,} rows"


def _foretell_last_fit(study: Study) -> None:
    """Enter which candidates would learn for longer on all rows, which the choice has to know."""
    for candidate in finished(study):
        entry = study.entries[candidate.name]
        entry.learns_for_longer = longer_steps(study, candidate) is not None
        entry.pair_steps = brief_steps(study, candidate) if candidate.brief_of else None
    study.write()


def _drop_another_model(folder: RunFolder) -> None:
    """Leave no model beside a page that no longer recommends it: a last fit that is stopped would keep it there."""
    model = RunFolder(folder.path / MODEL)
    if model.has("metrics.json") and model.read_metrics().get("candidate") != folder.read_metrics().get("recommended"):
        shutil.rmtree(model.path)
        (folder.path / ALL_ROWS).unlink(missing_ok=True)


def _ask(
    folder: RunFolder, config: DictConfig, clock: Clock, study: Study, name: str, compared_minutes: float | None = None
) -> None:
    question: dict[str, Any] = {
        "input": config.input or f"dataset={config.dataset.name}",
        "name": name,
        "minutes": clock.minutes,
        "used_minutes": clock.used,
        "compared_minutes": compared_minutes,
        "precision": config.precision,
        "prefer": config.prefer,
        "methods": None if config.methods is None else OmegaConf.to_container(config.methods),
        "seed": config.seed,
        "folds": study.folds,
        "repeats": study.repeats,
        "pair_steps": study.pair_steps,
        "encoder": encoder_name(config.encoder),
    }
    folder.write_json(QUESTION, question)
