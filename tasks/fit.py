"""Train, select, test: the default task."""

from __future__ import annotations

import json
import logging
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
import yaml
from omegaconf import DictConfig, OmegaConf

from callbacks.checkpoint import AtomicCheckpointIO, WaitingCheckpointIO
from callbacks.embeddings import EmbeddingMap, EmbeddingPicture
from callbacks.evaluation_rows import ModelOutputs
from callbacks.open_logs import close_logs, log_outcome
from callbacks.time_limit import OutOfTime
from datamodules.datamodule import DataModule
from engine import rivals
from engine.environment import environment, write_environment
from engine.finished import DESCRIPTIONS, SOLVED, WORDS, load_weights
from engine.identity import completed, run_id
from engine.information import information_of
from engine.plan import Plan, instantiate_partial
from engine.processes import run_processes
from engine.results import report, results_for
from engine.retrieval import need_neighbours, retrieval_figures
from engine.trainer import LEAST_STEPS, on_processor
from engine.world import World, is_first_process
from lightning_modules.base import ClassifierModule
from lightning_modules.encoders.words import WordEncoder
from storage.errors import ReportError, Stopped
from storage.run_store import RunFolder, find_run, first_line
from tasks.sure import COPIES

BEFORE = "reads_before"  # in metrics.json: the marks of the run that one started from
LOCK_SECONDS = 2.0  # in which another process that only looks at a run has let it go
ROOMS = Path(__file__).resolve().parents[1]
_SAID: set[str] = set()  # warnings that reached the terminal
log = logging.getLogger(__name__)


def fit(config: DictConfig, overrides: list[str]) -> Path:
    """Do the run that `config` describes, unless the run store holds it finished; returns its folder.

    Interrupted at any moment, the same call goes on from the last checkpoint and ends with the same figures.
    """
    plan = Plan.make(config, overrides)
    run = trained_run(plan)
    if World.of(plan.plain["trainer"]).holds_run:
        report(run)
    return run.path


def trained_run(plan: Plan, is_part: bool = False) -> RunFolder:
    """The finished run of a plan: the one that lies in the run store, or one that is done now.

    Args:
        is_part: of another task, whose line does not repeat it: that it is finished already goes unsaid.
    """
    config = plan.config
    run = RunFolder(Path(config.paths.runs) / run_id(plan.plain, plan.inputs()))
    world = World.of(plan.plain["trainer"])
    if not world.holds_run:
        if config.force or run.status != "finished":
            _run_training(plan, run, world)
        return run
    with _held(plan, run, world):
        record_once(run, config, run_names(plan), lambda: _run_training(plan, run, world), is_said=not is_part)
    return run


@contextmanager
def _held(plan: Plan, run: RunFolder, world: World) -> Iterator[None]:
    """The lock of a run. Processes that wait for this one would wait in vain for it: where another holds it, or the
    folder cannot be written to, all of them end with that line."""
    is_needed = plan.config.force or run.status != "finished"
    with ExitStack() as stack:
        try:
            stack.enter_context(run.lock(wait=LOCK_SECONDS if world.is_joined and is_needed else True))
        except ReportError as error:
            if world.is_joined and is_needed:
                _run_training(plan, run, world, refusal=str(error))
            raise
        yield


def record_once(
    run: RunFolder, config: DictConfig, names: dict[str, Any], work: Callable[[], object], is_said: bool = True
) -> None:
    """Do the work of a run, unless it is finished and not to be repeated; its record says how it went.

    Call it inside the run's lock; `names` identify the run in tables; `work` ends with `RunFolder.finish`, and what it
    does after that may be lost. That it is finished already goes unsaid without `is_said`.
    """
    if config.force:
        run.clear()
    if run.status == "finished":
        run.drop_last_checkpoint()  # a kill may have come between
        if is_said:
            print(f"{run.id} is finished already; force=true repeats it")
        return
    started, earlier = time.perf_counter(), seconds_before(run)
    try:  # from the first write on: a stop right after it is recorded too
        plain: Any = OmegaConf.to_container(config, resolve=True)
        whole = completed(plain)  # it stays this run when a default changes
        run.write_text("config.yaml", yaml.safe_dump(whole, sort_keys=False, allow_unicode=True))
        run.write_metrics(names, status="running", error=None)
        work()
    except Exception as error:
        if run.status != "finished":  # with more time a run out of time goes on
            status = "interrupted" if isinstance(error, OutOfTime) else "failed"
            run.write_metrics(status=status, error=first_line(error))
        raise
    except BaseException as stop:  # Ctrl-C, SIGTERM, and the exit that Lightning turns them into
        if run.status != "finished":
            run.write_metrics({"seconds/total": earlier + time.perf_counter() - started}, status="interrupted")
        if isinstance(stop, Stopped):
            raise
        raise KeyboardInterrupt from None


def _run_training(plan: Plan, run: RunFolder, world: World, refusal: str = "") -> None:
    """Do the run in this process or in several, or tell all of them why not."""
    if world.size == 1:
        run_and_log(plan, run, _train)
    else:
        run_processes(_train_in_process, (dict(plan.plain), str(run.path)), world, run.id, refusal)


def _train_in_process(plain: dict[str, Any], folder: str) -> None:
    run = RunFolder(folder, writes=is_first_process())
    run_and_log(Plan.make(OmegaConf.create(plain)), run, _train)


def run_and_log(plan: Plan, run: RunFolder, train: Callable[[Plan, RunFolder], dict[str, Any]]) -> None:
    """Finish the run with the figures of `train(plan, run)`; the outcome goes to `logger` after that."""
    try:
        with _RunLog(run.path / "run.log") if run.writes else nullcontext():
            figures = train(plan, run)
            run.finish(figures)
            log_outcome(run, run_names(plan) | figures)
    finally:
        close_logs()  # or the next job of a sweep would log into this run


def seconds_before(run: RunFolder) -> float:
    """Seconds of a run's earlier starts, as far as they were stopped and not killed."""
    return run.metric("seconds/total", (int, float)) if run.read_metrics().get("seconds/total") is not None else 0.0


def run_names(plan: Plan) -> dict[str, Any]:
    """What identifies a run in tables."""
    plain = plan.plain
    names = {group: (plain.get(group) or {}).get("name") for group in ("method", "dataset", "encoder", "protocol")}
    names |= {group: plain[group]["name"] for group in ("head", "active") if plain.get(group)}
    return names | {"seed": plain["seed"], "imbalance/ir": (plain.get("imbalance") or {}).get("ir")}


def _train(plan: Plan, run: RunFolder) -> dict[str, Any]:
    started = time.perf_counter()
    earlier = seconds_before(run) if run.last_checkpoint.is_file() else 0.0  # otherwise it begins again
    pl.seed_everything(plan.config.seed, verbose=False)
    corpus = plan.corpus()
    datamodule = plan.datamodule(corpus)
    if plan.plain.get("retrieval"):
        need_neighbours(datamodule)
    run.write_json("kept_indices.json", datamodule.indices)
    if "val" in datamodule.indices and run.writes:
        run.write_json(COPIES, datamodule.copies("val"))
    if isinstance(plan.encoder, WordEncoder) and run.writes:
        plan.encoder.save(run.path / WORDS)
    module = plan.module(datamodule)
    module.run_id = run.id
    _say_that_loss_chooses(plan, module, datamodule)
    trainer = watched_trainer(plan, run, datamodule)
    _say_that_steps_decide(plan, trainer)
    write_environment(run, environment(plan, corpus, trainer), goes_on=run.last_checkpoint.is_file())
    prepared = time.perf_counter()

    module.selection_split = "test" if datamodule.protocol.name == "published" else "val"
    if module.is_solved:
        training_figures = _solve(run, module, datamodule)
    else:
        training_figures = _train_by_epochs(plan, run, module, datamodule, trainer)
    trained = time.perf_counter()

    metrics = measure(plan, run, module, datamodule)
    seconds = {
        "seconds/prepare": prepared - started,
        "seconds/fit": trained - prepared,
        "seconds/total": earlier + time.perf_counter() - started,
    }
    reads = module.information("unlabelled" in datamodule.indices) + (run.read_metrics().get(BEFORE) or "")
    about = {"reads": "".join(sorted({*reads})), "augment": datamodule.augment_report}
    split = "test" if "test/accuracy" in metrics else "val"
    rival = _rival_figures(plan, module, datamodule, split) if run.writes else {}
    return metrics | training_figures | rival | about | seconds


def _say_that_loss_chooses(plan: Plan, module: ClassifierModule, datamodule: DataModule) -> None:
    if datamodule.protocol.monitor != plan.plain["protocol"]["monitor"] and not module.is_solved:
        rows = len(datamodule.indices["val"])
        print(
            f"{rows} validation rows: the lowest loss on them chooses the epoch (protocol.loss_below)", file=sys.stderr
        )


def _say_that_steps_decide(plan: Plan, trainer: pl.Trainer) -> None:
    """Where few rows make more epochs than a person has typed."""
    is_typed = any(word.lstrip("+").startswith("trainer.max_epochs=") for word in plan.words)
    number, least_steps = (plan.plain["trainer"].get(key) for key in ("max_epochs", "least_steps"))
    if is_typed and isinstance(number, int) and (trainer.max_epochs or 0) > number:
        print(
            f"trainer.least_steps={least_steps}: {trainer.max_epochs} epochs in place of trainer.max_epochs={number}; "
            "trainer.least_steps=0 takes the number as it is",
            file=sys.stderr,
        )


def _rival_figures(plan: Plan, module: ClassifierModule, datamodule: DataModule, split: str) -> dict[str, Any]:
    """What the simple method that a run is held against reaches on a split; nothing where the run is that itself."""
    is_rival = module.is_solved and type(module).solve is ClassifierModule.solve
    if is_rival or split not in datamodule.indices:
        return {}
    measured = rivals.rival_metrics(plan, datamodule, module, split)
    if rivals.LEFT_OUT in measured:
        return {"rival_left_out": measured[rivals.LEFT_OUT]}
    figures: dict[str, Any] = {f"{split}/{name}": value for name, value in measured.items()}
    if figures and rivals.reads_other(plan):
        figures["rival_reads"] = plan.encoder.simplest(plan.dataset).name
    return figures


def _train_by_epochs(
    plan: Plan, run: RunFolder, module: ClassifierModule, datamodule: DataModule, trainer: pl.Trainer
) -> dict[str, Any]:
    """Train epoch by epoch, from the last whole one where there is one; the selected epoch's weights are loaded."""
    last = run.last_checkpoint
    started_from = ""
    # resumed, too, where what it began with tells texts their labels; the weights of the last epoch come after
    if plan.plain.get("start_from") and (module.trains_unlabelled or not last.is_file()):
        started_from = _start_from(plan, module, run)
    figures: dict[str, Any] = {}
    if module.trains_unlabelled:
        names = [split for split in datamodule.learning_splits if split != "val"]
        encoder = module.encoder.eval() if started_from else None  # names are read by these weights, so texts are too
        start = plan.features(datamodule, encoder, names, started_from=started_from)
        embeddings = {split: torch.from_numpy(values[0]) for split, values in start.items()}
        tokens = {split: datamodule.token_rows(split) for split in names}  # type: ignore[attr-defined]  # of texts
        figures |= module.begin({split: ((ids, embeddings[split]), y) for split, (ids, y) in tokens.items()})
    trainer.fit(module, datamodule, ckpt_path=last if last.is_file() else None, weights_only=True)
    solved = load_weights(module, run, plan)
    if module.solved_after_training and solved is None:  # an earlier start may have come so far
        module.to(plan.device).before_solving(datamodule)  # the trainer left it behind
        splits: dict[str, Any] = dict(module.embedded_splits(datamodule))
        if module.solved_from == "both":
            tokens = {name: datamodule.token_rows(name)[0] for name in splits}  # type: ignore[attr-defined]  # of texts
            splits = {name: ((tokens[name], rows), labels) for name, (rows, labels) in splits.items()}
        solved = module.cpu().solve(splits)
        _save_best(run, module, solved)
    return figures | (solved or {}) | {"epochs": trainer.current_epoch}


def _solve(run: RunFolder, module: ClassifierModule, datamodule: Any) -> dict[str, Any]:
    """Solve the classifier on the features of a frozen encoder; every process of a run does the same."""
    reader = {"tokens": "token_rows", "both": "token_and_feature_rows"}.get(module.solved_from, "feature_rows")
    rows = getattr(datamodule, reader)  # of tokens where the data are texts
    figures = module.solve({split: rows(split) for split in datamodule.learning_splits})
    _save_best(run, module, figures)
    return {"epochs": 0} | figures


def _save_best(run: RunFolder, module: ClassifierModule, figures: Mapping[str, Any]) -> None:
    """Write the weights of now, a solution with these figures, as those of the run."""
    checkpoint: dict[str, Any] = {"state_dict": module.state_dict(), SOLVED: json.dumps(figures, default=float)}
    module.on_save_checkpoint(checkpoint)
    if run.writes:
        AtomicCheckpointIO().save_checkpoint(checkpoint, run.checkpoints / "best.ckpt")


def _start_from(plan: Plan, module: ClassifierModule, started: RunFolder) -> str:
    """Load the weights of the run that `start_from` names into `module`, which keeps its own name and `state_of_rows`.

    The metrics of `started`, the run that begins so, keep what the other learned from: it may be gone when this one is
    resumed.

    Returns:
        The id of the run that `start_from` names.

    Raises:
        ValueError: no run that fits.
    """
    run, own_id = find_run(plan.config.paths.runs, plan.plain["start_from"], "start_from"), module.run_id
    if run.status != "finished":
        raise ValueError(f"start_from={run.id}: its status is {run.status}; allowed: a finished run")
    metrics, names = run.read_metrics(), run_names(plan)
    for key in ("method", "encoder", "head"):
        if (own := metrics.get(key)) != (expected := names.get(key)):
            raise ValueError(f"start_from={run.id}: found {key}={own}; allowed: {key}={expected}")
    if (own := len(run.metric("label_names", list, str))) != module.num_classes:
        raise ValueError(f"start_from={run.id}: found {own} classes; allowed: {module.num_classes}")
    _check_same_part_trains(run, plan)
    load_weights(module, run, plan, keep=module.state_of_rows)
    module.run_id = own_id
    if started.writes:
        started.write_metrics({BEFORE: information_of(run)})
    return run.id


def _check_same_part_trains(run: RunFolder, plan: Plan) -> None:
    """Raises ValueError: the run changed layers that are frozen here, where they are read as they came."""
    own, other = ({key: node.get(key) for key in ("train", "num_top_layers")}
                  for node in (plan.plain["encoder"], run.read_config()["encoder"]))  # fmt: skip
    if own["train"] == "full" or other["train"] == "frozen" or own == other:
        return
    if own["train"] == other["train"] == "top_layers" and own["num_top_layers"] > other["num_top_layers"]:
        return
    raise ValueError(
        f"start_from={run.id}: found encoder.train={other['train']}, whose weights encoder.train={own['train']} would "
        "leave out; allowed: full, or as in that run"
    )


def measure(
    plan: Plan, run: RunFolder, module: ClassifierModule, datamodule: DataModule, keep_store: bool = False
) -> dict[str, Any]:
    """Figures of the weights in `module`: validation, then the one reading of test; the predictions are written.

    Under the published protocol there is no validation split, and test has chosen the epoch. Where folds hold out
    neither, there are no figures. With `retrieval` a datastore is built, or with `keep_store` that of the run is used.
    """
    splits = [split for split in ("val", "test") if split in datamodule.indices]
    if datamodule.protocol.name == "published":
        splits.remove("val")
    results = results_for(run, module, datamodule)
    measuring = [callback for callback in _callbacks(plan, run, datamodule) if hasattr(callback, "split_figures")]
    shown = EmbeddingMap(run, {split: len(datamodule.indices[split]) for split in splits}, plan.config.seed)
    callbacks: list[pl.Callback] = [results.collector, shown, *measuring]
    if (plan.plain.get("logger") or {}).get("embedding_picture"):
        callbacks.append(EmbeddingPicture(run, datamodule.label_names))
    outputs = ModelOutputs() if plan.plain.get("retrieval") else None
    callbacks += [outputs] if outputs else []
    build_trainer = instantiate_partial(plan.config.trainer)
    trainer = build_trainer(run_folder=run.path, callbacks=callbacks, logger=False, plugins=[])
    figures: dict[str, Any] = {
        "class_counts": datamodule.class_counts.tolist(),
        "label_names": list(datamodule.label_names),
    }
    if getattr(plan.dataset, "class_descriptions", None) is not None:
        figures[DESCRIPTIONS] = plan.dataset.describe_classes(datamodule.label_names)
    for split in splits:
        loader = datamodule.test_dataloader() if split == "test" else datamodule.val_dataloader()
        getattr(trainer, "test" if split == "test" else "validate")(module, loader, verbose=False)
        scores = results.figures(split)
        for callback in measuring:
            scores |= callback.split_figures(split)
        figures |= {f"{split}/{name}": value for name, value in scores.items()}
    if outputs:
        started = time.perf_counter()
        trainer.predict(module, datamodule.row_loader("train"), return_predictions=False)
        model = (time.perf_counter() - started) / len(datamodule.indices["train"])
        if run.writes:
            figures |= retrieval_figures(plan, run, module, datamodule, results, outputs, keep_store)
            search = figures["seconds/retrieval_search_per_text"]
            figures |= {"seconds/model_per_text": model, "seconds/retrieval_per_text": model + search}
    if splits:
        return figures | results.finish()
    threshold = getattr(module, "threshold", None)  # a number that no row had to choose holds without any
    return figures | ({"threshold": threshold} if isinstance(threshold, float) else {})


def _callbacks(plan: Plan, run: RunFolder, datamodule: DataModule) -> list[Any]:
    """Those with `split_figures` measure a split once the weights are chosen, the others watch training."""
    nodes = [node for node in (plan.config.get("callbacks") or {}).values() if node is not None]
    return [instantiate_partial(node)(run=run, protocol=datamodule.protocol) for node in nodes]


def watched_trainer(plan: Plan, run: RunFolder, datamodule: DataModule) -> pl.Trainer:
    """The trainer of a run, with its callbacks, its logger and checkpoints that are whole or absent."""
    config = plan.config
    callbacks = [callback for callback in _callbacks(plan, run, datamodule) if not hasattr(callback, "split_figures")]
    logger = instantiate_partial(config.logger)(run=run, config=plan.plain) if config.get("logger") else False
    return instantiate_partial(config.trainer)(
        run_folder=run.path,
        callbacks=callbacks,
        logger=logger,
        plugins=[WaitingCheckpointIO()],
        **({"batches": len(datamodule.train_dataloader())} if _asks_for_steps(plan.plain) else {}),
    )


def _asks_for_steps(plain: Mapping[str, Any]) -> bool:
    trainer = plain["trainer"]
    if trainer.get("max_epochs") == "by_size":
        return plain["encoder"]["train"] == "top_layers" and on_processor(trainer["accelerator"])
    return bool(trainer.get("least_steps")) or trainer.get("max_epochs") in LEAST_STEPS


class _RunLog:
    """Log lines and warnings of a run into its run.log as well; warnings of ours stay on stderr.

    Python writes them there itself only while no handler is set.
    """

    def __init__(self, file: Path) -> None:
        self.handlers: list[logging.Handler] = [logging.FileHandler(file)]
        self.handlers[0].setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))

    def __enter__(self) -> None:
        self.was_shown = warnings.showwarning
        logging.captureWarnings(True)
        root = logging.getLogger()
        if not any(getattr(handler, "stream", None) in (sys.stdout, sys.stderr) for handler in root.handlers):
            shown = logging.StreamHandler()
            shown.setLevel(logging.WARNING)
            shown.addFilter(_is_ours)
            self.handlers.append(shown)
        for handler in self.handlers:
            root.addHandler(handler)
        logging.getLogger("lightning.pytorch").addHandler(self.handlers[0])

    def __exit__(self, *_: object) -> None:
        for handler in self.handlers:
            logging.getLogger().removeHandler(handler)
        logging.getLogger("lightning.pytorch").removeHandler(self.handlers[0])
        if warnings.showwarning is not self.was_shown:  # they were not logged before
            logging.captureWarnings(False)
        self.handlers[0].close()


def _is_ours(record: logging.LogRecord) -> bool:
    """Whether a log line comes from a room of this project, the folders beside `tasks`, and is new to this process."""
    is_ours = (ROOMS / record.name.partition(".")[0] / "__init__.py").is_file()
    return is_ours and _is_new(record.getMessage())


def _is_new(message: str) -> bool:
    """Whether it was not said before, as rounds of active learning and folds would."""
    is_new = message not in _SAID
    _SAID.add(message)
    return is_new
