"""`task=auto`: which method for these texts, how good, how sure, and the model, within so many minutes."""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from omegaconf import DictConfig, OmegaConf

from datamodules.class_descriptions import names_of, read_descriptions
from engine.command_line import importing, seconds_so_far
from engine.identify import compose_config
from reporting.auto.commands import evaluate_line, predict_line, run_word
from reporting.escape import for_terminal
from storage.command_words import shell_line, value_word
from storage.errors import InputError, short_list
from storage.files import expanded
from storage.run_store import COMMAND, DATA, RunFolder
from storage.tables.file_names import FORMATS, packing
from tasks.auto.candidates.declarations import by_name, check_names
from tasks.auto.comparison.clock import Clock
from tasks.auto.question import is_answered
from tasks.auto.reading.guesses import GUESS, LISTS, NoLabels
from tasks.auto.reading.labelled import POOL, Labelled, label_more_line, why_no_more_labels
from tasks.auto.reading.table import read_labelled, read_texts

PASSED_ON = ("encoder", "paths", "seed")  # words that the runs of the candidates get too, and of the trainer's
MOST_WARNINGS = 5  # that are printed
LONGEST_NAME = 60  # characters of a file's name that its folder has too: names of folders have 255 bytes
OF_TRAINER = ("trainer.num_threads", "trainer.precision", "trainer.accelerator")
OF_FILE = (
    *("text_column", "label_column", "encoding", "header", "delimiter", "sheet"),
    *("markup", "unlabelled", "class_descriptions", "label_separator", "missing"),
)
READING = ("encoding", "markup", "header", "delimiter", "sheet", "missing")  # of a second file, too
OF_RUNS = tuple(
    f"dataset.{key}" for key in ("max_length", "singleton_classes", "most_unlabelled", "many_above", "few_below")
)
OF_LABELS = (  # and what task=cluster does not read
    *("methods", "test", "prefer", "precision", "label_separator", "unlabelled", "class_descriptions", "missing"),
)
OWN = ("task", "input", "test", "minutes", "methods", "prefer", "precision", "force", *OF_FILE)


def auto(config: DictConfig, overrides: list[str]) -> Path:
    """As `answered`; of a file in which no column looks like labels the topics, as `task=cluster` finds them."""
    try:
        return answered(config, overrides)
    except NoLabels as error:
        if error.lacks_texts or any(_typed(overrides, key) for key in OF_LABELS):
            raise
        return _topics(config, overrides, error)


def _topics(config: DictConfig, overrides: Sequence[str], error: NoLabels) -> Path:
    """The folder of a clustering of the texts, done by a line that is printed."""
    columns = {} if error.text == "text" else {"text_column": error.text}
    typed = {key: config[key] for key in ("encoding", "delimiter", "sheet", "markup") if _typed(overrides, key)}
    typed |= {} if config.header else {"header": False}
    dataset = {"train": config.input} | columns | typed
    words = ["task=cluster", "method=sbert_words", "dataset=csv"]
    words += [f"dataset.{key}={value_word(value)}" for key, value in dataset.items()]
    words += ["method.num_clusters=auto", *passed_on(overrides), *(["force=true"] if config.force else [])]
    print(for_terminal(f"{error.why}; topics of the texts: {COMMAND} {shell_line(words)}"), flush=True)
    with importing():
        from tasks.cluster import cluster

    return cluster(compose_config(words), words)


def answered(config: DictConfig, overrides: Sequence[str]) -> Path:
    """Answer the question that `config` asks; returns the folder of the answer.

    Stopped at any moment, the same line goes on with what has ended; with more `minutes`, a finished one goes on too.

    Raises:
        ValueError: a file that cannot be read or says too little, an option that would do nothing; one line.
    """
    words = passed_on(overrides)
    check_names(config.methods)
    clock = Clock(config.minutes, seconds_so_far() / 60)
    data = _read(config, overrides, clock)
    check_names(config.methods, data.several, bool(data.unlabelled))
    test = None if config.test is None else _read_test(config, data, clock)
    folder = RunFolder(Path(config.paths.runs) / _name_of(config, data, words))
    with folder.lock():
        if config.force:
            folder.clear()
        if is_answered(folder, config):
            print(f"{folder.id} is answered already; more minutes go on, force=true begins anew")
        else:
            with importing():
                from tasks.auto.answer import answer

            answer(config, words, data, folder, clock)
        model = RunFolder(folder.path / "model")
        if test is not None and model.has("metrics.json"):
            with importing():
                from tasks.auto.model.judged import judge

            try:
                judge(folder, model, *test, words)
            except ValueError as error:  # after all those minutes, the answer is there
                print(f"warning: test={config.test}: the model is not judged by it: {for_terminal(str(error))}")
    for line in next_lines(folder, data):
        print(for_terminal(line))
    return folder.path


def passed_on(overrides: Sequence[str]) -> list[str]:
    """The words that candidates' runs get too. Raises InputError: a word that would do nothing."""
    words = []
    for override in overrides:
        key = re.split(r"[=.@/]", override.lstrip("+~"))[0]
        if key in PASSED_ON or override.startswith(OF_TRAINER):
            words.append(override)
        elif key not in (*OWN, "dataset"):
            allowed = ", ".join((*OWN, *PASSED_ON, *OF_TRAINER, "dataset"))
            raise InputError(f"{override}: task=auto chooses it (methods=[…] names candidates); allowed: {allowed}")
        if override.startswith(("encoder.train", "encoder.num_top_layers")):
            raise InputError(f"{override}: task=auto compares frozen and trained; allowed: methods=[…]")
    return words


def _typed(overrides: Sequence[str], key: str) -> bool:
    return any(override.startswith(f"{key}=") for override in overrides)


def _read(config: DictConfig, overrides: Sequence[str], clock: Clock) -> Labelled:
    names_dataset = any(re.match(r"dataset[=.]", override) for override in overrides)
    options = [word for word in overrides if word.startswith("dataset.")]
    if config.input is not None and options and not _typed(overrides, "dataset"):
        raise InputError(f"{options[0]}: has no effect with input=FILE; allowed with dataset=NAME")
    if (config.input is None) != names_dataset:
        raise InputError("input: task=auto needs a file, input=FILE, or a data set, dataset=NAME, and not both")
    if config.input is None:
        return _of_dataset(config, overrides, clock)
    clock.say(f"reading {config.input}")
    columns: dict[str, Any] = {
        key: config[key] if _typed(overrides, key) else None for key in ("text_column", "label_column")
    }
    separator = config.label_separator if _typed(overrides, "label_separator") else GUESS
    reading: dict[str, Any] = {key: config[key] for key in READING}
    words = passed_on(overrides)
    data = read_labelled(config.input, **columns, separator=separator, **reading, words=words)
    text, label = data.about["text_columns"][0], data.about["label_column"]
    if config.unlabelled is not None:
        data.unlabelled += read_texts(config.unlabelled, text, **reading)
        data.notes.append(f"{len(data.unlabelled):,} texts without a label, those of {config.unlabelled} among them")
        data.about["unlabelled"] = config.unlabelled
    data.leave_out_labelled()
    if config.class_descriptions is not None:
        names = sorted(data.rows_of_label())
        file = expanded(config.class_descriptions)
        data.describe(names, read_descriptions(file, names, key="class_descriptions"))
    guessed = ", guessed (text_column=, label_column= say others)" if data.about["guessed"] else ""
    guessed += f", text_column={alone} reads that alone" if (alone := data.about["alone"]) else ""
    encoding = f"; {data.about['encoding']}" if data.about["encoding"] else ""
    delimiter = f", delimiter {mark!r}" if (mark := data.about["delimiter"]) else ""
    sheet = f"; sheet {name!r}" if (name := data.about["sheet"]) else ""
    how = f"{guessed}{encoding}{delimiter}{sheet}"
    clock.say(f"{len(data.labels):,} labelled rows; text {text!r}, label {label!r}{how}")
    if data.several:
        between = "as lists" if (typed := data.about["label_separator"]) == LISTS else f"with {typed!r} between"
        between += ", guessed (label_separator=null: one label a text)" if separator == GUESS else ""
        data.notes.insert(0, f"several labels a text, {'a column each' if data.about['flags'] else between}")
    for note in data.notes:
        clock.say(note)
    return data.checked()


def _read_test(config: DictConfig, data: Labelled, clock: Clock) -> tuple[Labelled, int]:
    """The test file, and how many of its rows have a text of the input."""
    from tasks.auto.model.judged import read_test, rows_shared

    test = read_test(config.test, data)
    shared = rows_shared(test, data)
    clock.say(f"test={config.test}: {len(test.labels):,} labelled rows, {shared:,} of them with a text of the input")
    return test, shared


def _of_dataset(config: DictConfig, overrides: Sequence[str], clock: Clock) -> Labelled:
    """The train rows of a data set; all its rows where it ships no test rows."""
    for key in OF_FILE:
        if _typed(overrides, key):
            raise InputError(f"{key}: has no effect with dataset={config.dataset.name}; allowed with input=FILE")
    for key in OF_RUNS:
        if _typed(overrides, key):
            raise InputError(f"{key}: has no effect, task=auto chooses it; allowed with task=fit")
    clock.say(f"reading the data set {config.dataset.name}: loading PyTorch")
    from datamodules.labels import label_array, without_label
    from tasks.auto.candidates.plans import plan_of

    words = [word for word in overrides if re.match(r"(dataset|paths)[=.]", word)]
    plan = plan_of([*words, "task=auto", "method=logistic"])  # the task, for not every kind of data goes with it
    whole = not plan.dataset.ships_test_rows
    corpus = plan.corpus(whole=whole)
    table, names = corpus.table("train"), corpus.label_names
    data = Labelled(f"dataset {corpus.name}", several=corpus.multilabel, markup=plan.dataset.markup)
    has_label = ~without_label(table)
    if budget := plan.dataset.budget:
        labelled = np.flatnonzero(has_label)
        labels = label_array(table, len(names))[labelled]
        kept = labelled[budget.select(labels, config.seed, names)]
        has_label[np.setdiff1d(labelled, kept)] = False
    rows = zip(table["text"].to_pylist(), table["label"].to_pylist(), has_label, strict=True)
    for number, (text, label, is_labelled) in enumerate(rows, 1):
        if not is_labelled:
            data.unlabelled.append(text)
            continue
        data.texts.append(text)
        data.labels.append(tuple(names[part] for part in label) if data.several else names[label])
        data.lines.append(number)
    if lacking := [name for name in names if name not in data.rows_of_label()]:
        data.notes.append(f"no labelled row of {short_list(lacking)}: never predicted")
    if (described := plan.dataset.describe_classes(names)) is not None and described != names_of(names):
        data.describe(names, described)
    how_read = _how_read(plan.plain["dataset"], plan.dataset.learned_columns)
    data.about = {"path": data.file, "format": "data set", **how_read}
    if "test" in corpus.splits and not whole:
        data.notes.append("its test rows are not read")
    data.leave_out_labelled()
    return data.checked()


def _how_read(dataset: Mapping[str, Any], columns: Mapping[str, str]) -> dict[str, Any]:
    """How the files of a data set are read, by its config and their `columns`, as `Labelled.about` has it: so are new
    ones."""
    typed = {key: dataset[key] for key in ("encoding", "delimiter", "sheet") if dataset.get(key) is not None}
    typed |= {"header": False} if dataset.get("header") is False else {}
    return {
        "text_columns": [columns.get("text", "text")],
        "label_column": columns.get("label", "label"),
        "label_separator": dataset.get("label_separator"),
        "encoding": typed.get("encoding"),
        "delimiter": typed.get("delimiter"),
        "sheet": typed.get("sheet"),
        "typed": typed,
        "guessed": [],
    }


def _name_of(config: DictConfig, data: Labelled, words: Sequence[str]) -> str:
    """`auto-NAME-ID`, the same for the same rows of a file and the same candidates, whatever the minutes are and what
    of the answer is wished for."""
    name = config.dataset.name if config.input is None else stem_of(config.input)
    asked = [word for word in words if not word.startswith(("paths.", "trainer.num_threads"))]
    plain: Any = OmegaConf.to_container(config)
    usual = {"prefer": "quality", "precision": 0.95}  # once told folders apart, which keep their names
    options = {"methods": plain["methods"], **usual, "seed": plain["seed"], "markup": data.markup}
    digest = hashlib.sha256(json.dumps([sorted(asked), options], sort_keys=True, default=str).encode())
    for text, label in zip(data.texts, data.labels, strict=True):
        digest.update(f"{len(text)}:{text}{len(label)}:{label}".encode())  # a tuple of labels is written with its marks
    for label, description in data.descriptions.items():
        digest.update(f"{label!r}: {description!r}".encode())
    for text in data.unlabelled:
        digest.update(f"{len(text)}:{text}".encode())
    where = Path(data.file).name.encode(), np.array(data.lines, np.int64).tobytes()  # rows stand, as tables say
    digest.update(b"".join(where))
    return f"auto-{safe_name(name)}-{digest.hexdigest()[:10]}"


def stem_of(file: str) -> str:
    """The name of a file without what says its format: `tickets.2023` of `tickets.2023.csv.gz`."""
    path = Path(file)
    path = path if packing(path) is None else Path(path.stem)
    return path.stem if path.suffix.lower() in (*FORMATS, ".txt") else path.name


def safe_name(name: str) -> str:
    """A name for folders, letters of any script in it."""
    return re.sub(r"[^\w.]+", "_", unicodedata.normalize("NFC", name))[:LONGEST_NAME].strip("._") or "data"


def _lines_to_label_more(data: Labelled) -> list[str]:
    if (why := why_no_more_labels(data)) is not None:
        return [f"no line to label more with active learning: {why}"]
    is_named = data.about.get("unlabelled") or data.about.get("unlabelled_rows")
    pool = "" if is_named else f", of texts without a label in a file {POOL}"
    return [*([f"to label more{pool}{data.once_deleted}:"] if pool + data.once_deleted else []), label_more_line(data)]


def next_lines(folder: RunFolder, data: Labelled) -> list[str]:
    """What to type next, ready to paste; and the answer in a sentence."""
    from reporting.auto.sentence import of_own_test  # with pandas, which no refusal needs

    metrics = folder.read_metrics()
    lines = ["", metrics["sentence"]] if metrics.get("sentence") else [""]
    lines += [of_own_test(metrics["test"])] if metrics.get("test") else []
    warnings = metrics.get("warnings") or []
    lines += [f"warning: {line}" for line in warnings[:MOST_WARNINGS]]
    lines += [f"more warnings, {len(warnings) - MOST_WARNINGS}: metrics.json"] if len(warnings) > MOST_WARNINGS else []
    if (folder.path / "model" / "metrics.json").is_file():
        lines += [predict_line(folder.path, data.about), f"{COMMAND} task=serve {run_word(folder.path)}"]
        lines += [] if metrics.get("test") else [evaluate_line(folder.path)]
        recommended = by_name(data.several).get(metrics["recommended"])
        if recommended is not None and recommended.is_exportable:  # for transformers' pipeline
            lines.append(f"{COMMAND} task=export {run_word(folder.path)}")
    is_sampled = folder.has(DATA) and folder.read_json(DATA).get("sampled_from")  # it has more labels than are read
    if not is_sampled and data.about["format"] != "data set":
        lines += _lines_to_label_more(data)
    if folder.has("index.html"):
        lines.append(f"the report: {folder.path / 'index.html'}")
    return lines
