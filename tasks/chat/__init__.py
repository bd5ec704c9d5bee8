"""Ask a chat model for the classes of the test split: `task=chat chat=gpt35`."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from hydra.utils import instantiate
from omegaconf import DictConfig
from rich.progress import Progress

from datamodules.texts.datamodule import TextDataModule
from engine.identity import run_id
from engine.label_kind import refuse_several_labels
from engine.plan import Plan
from reporting.metrics import class_scores, thirds
from reporting.tables import summary_table
from storage.errors import InputError
from storage.files import replacing
from storage.run_store import RunFolder
from tasks.chat.client import Answers, ChatModel, answers_to, parse_label
from tasks.fit import record_once, run_names, seconds_before

UNPARSABLE = ""  # in predictions.csv: the answer named no class, or several
# `encoder` to tokenise by, and `method` to choose rows for: without names of classes none is without a label
READ = ("task", "chat", "dataset", "imbalance", "protocol", "seed", "encoder", "method", "paths")
OF_TASK = {"chat": ("force",), "chat_export": ("output",)}


def chat(config: DictConfig, overrides: list[str]) -> Path:
    """Label the test split by the chat model, write its figures, and return the run's folder.

    Every answer is kept below `paths.cache`; typed again after a stop, only what is missing is asked for. An answer
    that names no class counts as an error, in accuracy and in F1.

    Raises:
        ValueError: no model chosen, no key, no test rows, a word that would do nothing, or a server that gives no
            answer.
    """
    plan, model = _plan_and_model(config, overrides)
    run = RunFolder(Path(config.paths.runs) / run_id(_identity(plan), plan.inputs()))
    with run.lock():
        record_once(run, config, _names(plan, model), lambda: _ask(plan, model, run))
    summary_table(run.read_metrics()).show()
    print(f"answers that name no class: {run.read_metrics()['unparsable']}")
    return run.path


def chat_export(config: DictConfig, overrides: list[str]) -> Path:
    """Write the fine-tuning files of a chat model, `train.jsonl` and `val.jsonl`, and `kontrast.json` with their facts.

    Rows, split and thinning are those that every method would train on.

    Raises:
        ValueError: no model chosen, no `output`, or a word that would do nothing.
    """
    if config.output is None:
        raise ValueError("output: task=chat_export needs the folder to write to, output=FOLDER")
    plan, model = _plan_and_model(config, overrides)
    corpus = plan.corpus()
    refuse_several_labels("chat", corpus)
    datamodule = plan.datamodule(corpus, num_views=1)
    folder, rows = Path(config.output), {}
    for split in ("train", "val"):
        if split in datamodule.indices and not (split == "val" and datamodule.protocol.name == "published"):
            texts, labels = texts_and_labels(datamodule, split)
            names = datamodule.label_names
            rows[split] = len(texts)
            with replacing(folder / f"{split}.jsonl") as file:
                for text, label in zip(texts, labels, strict=True):
                    answer = {"role": "assistant", "content": names[label]}
                    line = {"messages": [*model.messages(text, names), answer]}
                    file.write((json.dumps(line, ensure_ascii=False) + "\n").encode())
        else:  # of another protocol
            (folder / f"{split}.jsonl").unlink(missing_ok=True)
    facts = {"dataset": plan.dataset.name, "seed": config.seed, "rows": rows, "label_names": datamodule.label_names}
    with replacing(folder / "kontrast.json") as file:
        file.write((json.dumps(facts, indent=2) + "\n").encode())
    return folder


def texts_and_labels(datamodule: TextDataModule, split: str) -> tuple[list[str], list[int]]:
    """Texts and class indices of a split, in its order."""
    return datamodule.texts(split), datamodule.labels[split].tolist()


def _plan_and_model(config: DictConfig, overrides: Sequence[str]) -> tuple[Plan, ChatModel]:
    read = (*READ, *OF_TASK[config.task])
    for override in overrides:
        if re.split(r"[=.@/]", override.lstrip("+~"))[0] not in read:
            raise InputError(f"{override}: task={config.task} trains no method; allowed: {', '.join(read)}")
    if config.get("chat") is None:
        raise ValueError("chat: no model chosen; allowed: chat=gpt35, with chat.base_url and chat.model for any other")
    return Plan.make(config, overrides), instantiate(config.chat)


def _identity(plan: Plan) -> dict[str, Any]:
    """What decides the answers: the data and the question, and no method of ours."""
    plain = plan.plain
    asked = ("name", "model", "base_url", "prompt", "temperature", "max_answer_tokens")
    question = {key: plain["chat"][key] for key in asked}
    return {"method": question} | {key: plain[key] for key in ("dataset", "imbalance", "protocol", "seed")}


def _names(plan: Plan, model: ChatModel) -> dict[str, Any]:
    """What identifies the run in tables."""
    return run_names(plan) | {"method": model.name, "encoder": model.model}


def _ask(plan: Plan, model: ChatModel, run: RunFolder) -> None:
    started, earlier = time.perf_counter(), seconds_before(run)
    corpus = plan.corpus()
    refuse_several_labels("chat", corpus)
    datamodule = plan.datamodule(corpus, num_views=1)
    if "test" not in datamodule.indices:
        allowed = "dataset.test=FILE, or protocol.fold=NUMBER with protocol=kfold"
        raise InputError(f"dataset: task=chat found no test rows to ask about, allowed: {allowed}")
    texts, labels = texts_and_labels(datamodule, "test")
    label_names = list(datamodule.label_names)
    questions = [model.messages(text, label_names) for text in texts]
    answers, num_asked = [""] * len(texts), 0
    with Answers(Path(plan.plain["paths"]["cache"]) / "chat.sqlite") as stored, Progress(transient=True) as progress:
        bar = progress.add_task(f"asking {model.model}", total=len(texts))
        for number, answer, is_new in answers_to(model, questions, stored):
            answers[number], num_asked = answer, num_asked + is_new
            progress.advance(bar)
    parsed = [parse_label(answer, label_names) for answer in answers]
    rows = [
        ("test", number, label_names[label], UNPARSABLE if prediction is None else label_names[prediction], answer)
        for number, (label, prediction, answer) in enumerate(zip(labels, parsed, answers, strict=True))
    ]
    run.write_csv("predictions.csv", rows, ("split", "index", "label", "prediction", "answer"))
    counts = datamodule.class_counts.tolist()
    scores = scores_with_errors(labels, parsed, len(label_names), counts)
    figures = {f"test/{name}": value for name, value in scores.items()}
    facts = {
        "unparsable": parsed.count(None),
        "asked": num_asked,
        "class_counts": counts,
        "label_names": label_names,
        "seconds/total": earlier + time.perf_counter() - started,
    }
    run.finish(figures | facts)


def scores_with_errors(
    labels: list[int], predictions: list[int | None], num_classes: int, class_counts: list[int]
) -> dict[str, float]:
    """Accuracy, macro-F1 and macro-F1 by thirds, where None, an answer that names no class, is a miss of its class."""
    references = np.array(labels)
    predicted = np.array([num_classes if prediction is None else prediction for prediction in predictions])
    scores = class_scores(references, predicted, num_classes + 1)
    f1, occurs = scores.f1[:num_classes], (scores.references + scores.predictions)[:num_classes] > 0
    figures = {"accuracy": float((references == predicted).mean()), "macro_f1": float(f1[occurs].mean())}
    for name, classes in thirds(class_counts).items():
        present = classes[scores.references[classes] > 0]
        if present.size:
            figures[f"macro_f1_{name}"] = float(f1[present].mean())
    return figures
