"""Active learning: rounds of query, label, train, evaluate. `active=NAME` beside any method, data set and encoder."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from active_learning.experiment import ActiveLearning
from active_learning.selection import needed_by
from active_learning.strategies import random as at_random
from callbacks.open_logs import close_logs, log_outcome
from datamodules.corpus import Corpus
from datamodules.datamodule import predict_loader
from engine.finished import load_module
from engine.identity import run_id
from engine.label_kind import refuse_several_labels
from engine.plan import Plan, instantiate_partial
from lightning_modules.base import ClassifierModule, derived_seed
from reporting.curves import lines_figure
from reporting.metrics import non_uniformity
from reporting.tables import Table
from storage.run_store import RunFolder, damage_named
from tasks.active.oracle import NO_LABEL, FileOracle
from tasks.active.prompt import PromptOracle
from tasks.fit import record_once, run_names, trained_run

METRICS = ("accuracy", "macro_f1")


def active(config: DictConfig, overrides: list[str]) -> Path:
    """Do the rounds that `config.active` describes, and report the learning curve; returns the folder.

    Every round is a run of its own in the run store, with the labelled rows in its config; the state of the rounds is
    written after each query. Typed again after a stop, the same texts are chosen and the same curve comes out.

    Raises:
        ValueError: a protocol that would use labels nobody paid for, or an oracle that waits for a person.
    """
    plan = Plan.make(config, overrides)
    if (protocol := plan.plain["protocol"]["name"]) not in ("few_shot", "published"):
        raise ValueError(f"protocol: found {protocol}, allowed with active: few_shot, published")
    if (budget := plan.plain["active"]["budget"]) < _min_labels(plan):
        raise ValueError(f"active.budget: found {budget}; allowed: at least {_min_labels(plan)}, to train on")
    if protocol == "published" and plan.plain["active"]["validation_size"] is not None:
        raise ValueError("active.validation_size: protocol=published validates on test; allowed there: null")
    run = RunFolder(Path(config.paths.runs) / run_id(plan.plain, plan.inputs()))
    with run.lock():
        record_once(run, config, run_names(plan), lambda: _run_rounds(plan, run))
    with damage_named(run):
        _report(run)
    return run.path


@dataclass
class Round:
    """One query: positions in the pool and their classes (of `NO_LABEL` where there is none), why, what came of it."""

    positions: list[int]
    scores: list[float]
    reasons: list[str]
    labels: list[int] | None = None
    run: str | None = None  # none yet, or too few labels to train
    figures: dict[str, float] = field(default_factory=dict)
    is_done: bool = False
    seconds: float = 0.0


class Pool:
    """The training texts that may be asked for, each once: of equal texts the first stands for all."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        may_use_gpu = plan.plain["trainer"]["accelerator"] in ("auto", "gpu") and torch.cuda.is_available()
        self.device = torch.device("cuda" if may_use_gpu else "cpu")
        corpus = plan.corpus()
        refuse_several_labels("active", corpus)
        self.rows = _pool_rows(plan, corpus)
        table = corpus.table("train").take(self.rows)
        self.texts: list[str] = table.column("text").to_pylist()
        self.labels = table.column("label").to_numpy().astype(np.int64)
        self.label_names = list(corpus.label_names)
        first = {text: place for place, text in reversed(list(enumerate(self.texts)))}
        self.distinct = np.array(sorted(first.values()), dtype=np.int64)

    @cached_property
    def pretrained_embeddings(self) -> np.ndarray:
        """Of the encoder before any training, (N, D)."""
        encoder = self.plan.encoder.load().eval().to(self.device)
        return self._predict(lambda batch: {"e": encoder(batch["input_ids"], batch["attention_mask"])})["e"]

    def model_outputs(self, module: ClassifierModule, needed: frozenset[str], passes: int, seed: int) -> dict[str, Any]:
        """Probabilities, embeddings and, where needed, probabilities with dropout on, of the whole pool."""
        module.to(self.device)

        def forward(batch: dict[str, Any]) -> dict[str, torch.Tensor]:
            outputs = module(batch)
            return {"embeddings": outputs["embeddings"], "probabilities": outputs["logits"].double().softmax(1)}

        outputs: dict[str, Any] = self._predict(forward)
        if "mc_probabilities" in needed:
            torch.manual_seed(seed)
            module.train()
            outputs["mc_probabilities"] = np.stack([self._predict(forward)["probabilities"] for _ in range(passes)])
            module.eval()
        return outputs

    @torch.inference_mode()
    def _predict(self, forward: Callable[[dict[str, Any]], dict[str, torch.Tensor]]) -> dict[str, np.ndarray]:
        """What `forward` returns for batches of the pool, (N, width), in row order."""
        plan = self.plan
        parts: dict[str, np.ndarray] = {}
        loader = predict_loader(self.texts, plan.encoder.tokenizer(), plan.dataset.max_length, plan.sampler())
        for batch in loader:
            places = batch["indices"].numpy()
            moved = {k: v.to(self.device) if isinstance(v, torch.Tensor) else v for k, v in batch.items()}
            for name, output in forward(moved).items():
                rows = output.cpu().numpy()
                if name not in parts:
                    parts[name] = np.empty((len(self.texts), rows.shape[1]), dtype=rows.dtype)
                parts[name][places] = rows
        return parts


def _pool_rows(plan: Plan, corpus: Corpus) -> np.ndarray:
    """Rows of the train table that are the pool: all where some have no label, else those that `imbalance` leaves."""
    labels = corpus.table("train").column("label").to_numpy()
    if unlabelled := int((labels < 0).sum()):
        if plan.plain["active"]["oracle"] == "labels":
            raise ValueError(
                f"active.oracle: found labels, but {unlabelled} of {len(labels)} texts of the pool have none; "
                f"allowed: file, prompt"
            )
        if (plan.plain.get("imbalance") or {}).get("ir") is not None:
            raise ValueError("imbalance.ir: a pool without labels cannot be thinned by class; allowed: null")
        return np.arange(len(labels))
    datamodule = plan.datamodule(corpus, num_views=1)
    parts = ["train"] if plan.plain["protocol"]["name"] == "published" else ["train", "val"]
    return np.sort(np.concatenate([datamodule.indices[part] for part in parts]))


def _run_rounds(plan: Plan, run: RunFolder) -> None:
    pool = Pool(plan)
    rounds = _rounds(plan, pool, run)
    _write_curve(run, rounds, pool)  # a stop may have come between a state and its curve
    figures = _figures(rounds, run)
    run.finish(figures)
    _log(plan, run, rounds, figures)


def _log(plan: Plan, run: RunFolder, rounds: list[Round], figures: dict[str, Any]) -> None:
    """The whole curve into one run of `logger`, over the labels, once it is there; its rounds log nothing."""
    if not plan.config.logger:
        return
    try:
        logger = instantiate_partial(plan.config.logger)(run=run, config=plan.plain)
        for round_ in _trained_rounds(rounds):
            logger.log_metrics(round_.figures, step=round_.figures["labels"])
        log_outcome(run, run_names(plan) | figures)
    finally:
        close_logs()


def _rounds(plan: Plan, pool: Pool, run: RunFolder) -> list[Round]:
    experiment: ActiveLearning = instantiate(plan.config.active)
    rounds = [Round(**state) for state in run.read_json("state.json")] if (run.path / "state.json").exists() else []
    while True:
        started = time.perf_counter()
        if not rounds or rounds[-1].is_done:
            new_round = _query(plan, experiment, pool, rounds, run)
            if new_round is None:
                break
            rounds.append(new_round)
            _save(run, rounds)
        last = rounds[-1]
        if last.labels is None:
            last.labels = _answers(experiment, pool, rounds, run)
            _save(run, rounds)
        if len(_labelled(rounds)[0]) >= _min_labels(plan):
            _train(plan, experiment, pool, rounds)
        last.is_done, last.seconds = True, time.perf_counter() - started
        _save(run, rounds)
        _write_curve(run, rounds, pool)
        if experiment.keep_weights == "last":
            _drop_weights(run, _trained_rounds(rounds)[:-1])
        print(_line(rounds), file=sys.stderr)
    if not _trained_rounds(rounds):
        number = len(_labelled(rounds)[0])
        raise ValueError(
            f"active: found {number} labelled texts and none left to ask for; allowed: at least {_min_labels(plan)}"
        )
    return rounds


def _min_labels(plan: Plan) -> int:
    """Labels that a training takes: two in a batch, and one that validates unless test does."""
    return 2 if plan.plain["protocol"]["name"] == "published" else 3


def _trained_rounds(rounds: list[Round]) -> list[Round]:
    return [round_ for round_ in rounds if round_.run is not None]


def _drop_weights(run: RunFolder, rounds: list[Round]) -> None:
    for round_ in rounds:
        (_round_run(run, round_).checkpoints / "best.ckpt").unlink(missing_ok=True)


def _round_run(run: RunFolder, round_: Round) -> RunFolder:
    """The run of a round that was trained."""
    return RunFolder(run.path.parent / str(round_.run))


def _save(run: RunFolder, rounds: list[Round]) -> None:
    run.write_json("state.json", [vars(round_) for round_ in rounds])


def _labelled(rounds: list[Round]) -> tuple[np.ndarray, np.ndarray]:
    pairs = [pair for round_ in rounds for pair in zip(round_.positions, round_.labels or [], strict=False)]
    pairs = [(position, label) for position, label in pairs if label >= 0]
    positions, labels = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    return positions, labels


def _query(plan: Plan, experiment: ActiveLearning, pool: Pool, rounds: list[Round], run: RunFolder) -> Round | None:
    """The next texts to label; None where the budget is spent or no text is left."""
    labelled, labels = _labelled(rounds)
    queried = np.array([position for round_ in rounds for position in round_.positions], dtype=np.int64)
    unlabelled = np.setdiff1d(pool.distinct, queried)
    size = min(experiment.size_of(len(rounds)), experiment.budget - len(labelled))
    if size < 1 or not len(unlabelled):
        return None
    number, trained = len(rounds), _trained_rounds(rounds)
    strategy = at_random if number < experiment.seed_rounds else experiment.strategy
    needed = needed_by(strategy)
    inputs: dict[str, Any] = {
        "unlabelled": unlabelled,
        "labelled": labelled,
        "labels": labels,
        "num_classes": len(pool.label_names),
        "query_size": size,
        "rng": np.random.default_rng([plan.plain["seed"], number, 7]),
        "probabilities": None,
        "mc_probabilities": None,
    }
    if not trained and "embeddings" in needed:
        inputs["embeddings"] = pool.pretrained_embeddings
    elif trained and needed & {"embeddings", "probabilities", "mc_probabilities"}:
        module = _round_module(_round_run(run, trained[-1]), plan)
        seed = derived_seed(plan.plain["seed"], "passes", number)
        inputs |= pool.model_outputs(module, needed, experiment.mc_passes, seed)
    selection = strategy(**{name: value for name, value in inputs.items() if name in needed})
    return Round(selection.indices.tolist(), selection.scores.tolist(), list(selection.reasons))


def _round_module(run: RunFolder, plan: Plan) -> ClassifierModule:
    """The trained module of a round; trained again where another curve, which shares the run, dropped its weights."""
    round_config = OmegaConf.create(run.read_config())
    round_config.paths = plan.config.paths
    if not (run.checkpoints / "best.ckpt").is_file():
        round_config.force = True
        with redirect_stdout(sys.stderr):
            trained_run(Plan.make(round_config))
    return load_module(run, Plan.make(round_config))[0]


def _answers(experiment: ActiveLearning, pool: Pool, rounds: list[Round], run: RunFolder) -> list[int]:
    round_ = rounds[-1]
    if experiment.oracle == "labels":
        return pool.labels[round_.positions].tolist()
    texts = [pool.texts[position] for position in round_.positions]
    oracle = FileOracle(run.path / "to_label.csv")
    if experiment.oracle == "prompt":
        oracle = PromptOracle(oracle.file, experiment.budget, len(_labelled(rounds)[0]))
    return oracle.answers(round_.positions, texts, pool.label_names)


def _train(plan: Plan, experiment: ActiveLearning, pool: Pool, rounds: list[Round]) -> None:
    """Train on all that is labelled: a run of its own, found again where it is finished."""
    labelled, labels = _labelled(rounds)
    round_config = OmegaConf.create(dict(plan.plain))
    round_config.active, round_config.logger, round_config.force = None, None, False
    rows = {"_target_": "datamodules.imbalance.Listed", "rows": pool.rows[labelled].tolist()}
    if plan.plain["active"]["oracle"] != "labels":
        rows["labels"] = labels.tolist()
    round_config.imbalance = rows
    if experiment.validation_size is not None:
        round_config.protocol.val_fraction = max(min(experiment.validation_size, len(labelled) - 2), 1) / len(labelled)
    if not experiment.reset_weights and (before := _trained_rounds(rounds[:-1])):
        round_config.start_from = before[-1].run
    with redirect_stdout(sys.stderr):
        finished = trained_run(Plan.make(round_config))
    metrics = finished.read_metrics()
    split = _reported_split(metrics)  # without test rows, the few that chose the epoch
    rounds[-1].run = finished.id
    rounds[-1].figures = {
        "labels": len(labelled),
        **{f"{split}/{metric}": metrics[f"{split}/{metric}"] for metric in METRICS},
        "non-uniformity": non_uniformity(np.bincount(labels, minlength=len(pool.label_names))),
    }


def _write_curve(run: RunFolder, rounds: list[Round], pool: Pool) -> None:
    if trained := _trained_rounds(rounds):
        lines = ([*round_.figures.values(), round_.run] for round_ in trained)
        run.write_csv("curve.csv", lines, [*trained[0].figures, "run"])
    names = dict(enumerate(pool.label_names)) | {number: word for word, number in NO_LABEL.items()}
    chosen = (
        (number, position, names[label], score, reason, pool.texts[position])
        for number, round_ in enumerate(rounds)
        for position, label, score, reason in zip(
            round_.positions, round_.labels or [], round_.scores, round_.reasons, strict=True
        )
    )
    run.write_csv("chosen.csv", chosen, ("round", "position", "label", "score", "reason", "text"))


def _figures(rounds: list[Round], run: RunFolder) -> dict[str, Any]:
    """Of each point of the curve, ``active/accuracy@K``; its mean height over the labels; all of the last round's."""
    trained = _trained_rounds(rounds)
    points, last = [round_.figures for round_ in trained], _round_run(run, trained[-1]).read_metrics()
    labels, split = [point["labels"] for point in points], _reported_split(points[0])
    figures: dict[str, Any] = {key: value for key, value in last.items() if key.startswith(f"{split}/")}
    figures |= {"last_run": trained[-1].run, "rounds": len(rounds), "labels": labels[-1]}
    figures |= {"seconds/total": sum(round_.seconds for round_ in rounds)}
    figures["active/non_uniformity"] = points[-1]["non-uniformity"]
    for metric in METRICS:
        heights = [point[f"{split}/{metric}"] for point in points]
        figures[f"active/area_{metric}"] = area_under(labels, heights)
        figures |= {f"active/{metric}@{number}": height for number, height in zip(labels, heights, strict=True)}
    return figures


def _reported_split(figures: Mapping[str, Any]) -> str:
    """The split that a curve shows."""
    return "test" if "test/accuracy" in figures else "val"


def area_under(labels: Sequence[float], heights: list[float]) -> float:
    """Mean height of the curve through the points, by trapezia; of one point its height."""
    width = labels[-1] - labels[0]
    return float(np.trapezoid(heights, labels) / width) if width else heights[-1]


def _line(rounds: list[Round]) -> str:
    figures, head = rounds[-1].figures, f"round {len(rounds)}: {len(_labelled(rounds)[0])} labels"
    if not figures:
        return f"{head}, too few to train"
    split = _reported_split(figures)
    return f"{head}, {split} accuracy {100 * figures[f'{split}/accuracy']:.2f} %"


def _report(run: RunFolder) -> None:
    metrics, rows = run.read_metrics(), run.read_csv("curve.csv")
    split = _reported_split(rows[0])
    keys = ("method", "active", "dataset", "encoder", "head")
    title = " · ".join(str(metrics[key]) for key in keys if key in metrics)
    title += f" · seed {metrics['seed']} · protocol {metrics['protocol']} · {split} split, %"
    columns = (*(f"{split}/{metric}" for metric in METRICS), "non-uniformity")
    cells = tuple((row["labels"], *(f"{100 * float(row[key]):.2f}" for key in columns)) for row in rows)
    Table(title, ("labels", "accuracy", "macro-F1", "non-uniformity"), cells).show()
    if split == "val":
        print("no test rows: these are figures of the few labelled rows that chose the epoch, and say little")
    print(
        f"area under the curve: accuracy {100 * metrics['active/area_accuracy']:.2f}, "
        f"macro-F1 {100 * metrics['active/area_macro_f1']:.2f}"
    )
    lines: dict[str, dict[float, list[float]]] = {
        name: {int(row["labels"]): [float(row[key])] for row in rows}
        for name, key in zip(("accuracy", "macro-F1"), columns, strict=False)
    }
    lines_figure({title: lines}, "labels", "%", run.path / "curve")
