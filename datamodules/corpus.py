"""A prepared data set on disk: Arrow files, memory-mapped, built once and checked at each start."""

import errno
import hashlib
import itertools
import json
import logging
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from datamodules.builders.base import Dataset, Row, checked_file
from datamodules.cards import card, digests
from datamodules.class_descriptions import nearly_alike
from datamodules.labels import class_counts, has_several_labels, label_array, without_label
from datamodules.sources import HashMemory, fetch
from datamodules.splits import stratified_split
from storage.errors import InputError, short
from storage.files import file_sha256, replacing_folder
from storage.tables import is_missing, label_name

FORMAT = 1
SPLITS = ("train", "val", "test")
CHUNK_ROWS, CHUNK_CHARACTERS = 16_384, 1 << 24
NO_LABEL = -1  # in the label column: a train row without one
UNLABELLED = ""  # among names of labels, which none has
LARGER = 1.1  # times the share of rows that was wanted as test rows, above which the rule says why
SMALL = 32 << 20  # bytes; files up to this size are hashed at each start
log = logging.getLogger(__name__)


class Corpus:
    """A prepared data set.

    Attributes:
        name: name of the data set.
        folder: where its files lie.
        label_names: class index -> name, sorted (numbers by value).
        fingerprint: SHA-256 over all rows in order.
        splits: those of ``train``, ``val``, ``test`` that it has.
        card: statistics and facts, see `datamodules.cards.card`.
    """

    name: str
    folder: Path
    label_names: tuple[str, ...]
    fingerprint: str
    splits: tuple[str, ...]
    card: dict[str, Any]

    def __init__(self, folder: Path, meta: dict[str, Any]) -> None:
        self.folder = Path(folder)
        self.meta = meta
        self.name = meta["name"]
        self.label_names = tuple(meta["label_names"])
        self.fingerprint = meta["fingerprint"]
        self.splits = tuple(meta["files"])
        self.card = meta.get("card", {})

    @classmethod
    def open(cls, folder: Path) -> "Corpus":
        """Open a prepared folder.

        Raises:
            InputError: the folder is damaged; the line says how.
        """
        if (damage := _damage(folder)) is not None:
            raise InputError(f"{folder}: {damage}")
        return cls(folder, _read_meta(folder))

    @property
    def multilabel(self) -> bool:
        """Whether a text has any number of labels, none included, in place of one."""
        return has_several_labels(self.table("train"))

    @property
    def is_labelled(self) -> bool:
        """Whether train rows have labels; where none has, the names of the classes may be known all the same."""
        return not bool(without_label(self.table("train")).all())

    def table(self, split: str) -> pa.Table:
        """Rows of a split, memory-mapped: ``text`` string (or what another kind of data has: the first column, see
        `datamodules.cards.contents`), ``label`` int32 (index into ``label_names``; -1: none) or,
        where texts have several, an ascending list of int32 (null where they are not known), and ``aug`` string
        (nullable) where the source ships augmented texts.

        Raises:
            InputError: the data set has no such split.
        """
        if split not in self.splits:
            raise InputError(f"{self.name}: no split {split!r}; there are {', '.join(self.splits)}")
        return _read(self.folder / f"{split}.arrow")


def prepare(
    dataset: Dataset, folder: Path, mirror: Path | None, all_rows: bool = False, reads_labels: bool = True
) -> Corpus:
    """The data set's corpus below ``folder``: opened where it is there and sound, else built.

    Safe when several processes do it at once. Nothing half-written is ever left under the final name.

    Args:
        dataset: what to prepare.
        folder: folder of prepared data sets; downloaded sources go to its ``sources``.
        mirror: folder of source files, OWNER/REPO/COMMIT/PATH.
        all_rows: all rows of all splits as one split, ``train``, in the order of the source; all may be without labels
            (-1, and ``label_names`` is empty), or of one class.
        reads_labels: whether options about labels may be advised; a clustering takes none.

    Raises:
        InputError: a bad row, bad splits, sources that cannot be had, a full disk.
    """
    folder = Path(folder)
    with _disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        final = folder / f"{dataset.name}-{_digest(dataset, folder, all_rows)}"
        if _damage(final) is None:
            return Corpus(final, _read_meta(final))
        from filelock import FileLock

        with FileLock(folder / f".{final.name}.lock"):
            if not final.exists() or (damage := _damage(final)) is not None:
                if final.exists():
                    log.warning("%s: %s; building it again", final, damage)
                files = fetch(dataset.sources, mirror, folder / "sources")
                with replacing_folder(final) as temporary:
                    _build(dataset, files, temporary, all_rows, reads_labels)
        return Corpus(final, _read_meta(final))


def _digest(dataset: Dataset, folder: Path, all_rows: bool) -> str:
    """Digest of all that decides the content: options, source hashes, contents of the user's files, formats."""
    memory = HashMemory(folder / "sources" / "verified.json")
    content = {
        "format": FORMAT,
        "options": dataset.identity(),
        "sources": [file.sha256 for file in dataset.sources],
        "own_files": [memory.sha256(path) for path in dataset.own_files()],
    } | ({"whole": True} if all_rows else {})
    if dataset.unlabelled is not None:
        content["unlabelled"] = memory.sha256(checked_file(dataset.unlabelled, "dataset.unlabelled"))
    memory.save()
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]


Parts = dict[str, tuple[pa.Table, np.ndarray]]  # split -> staged table, mask of its rows


def _build(dataset: Dataset, files: dict[str, Path], folder: Path, all_rows: bool, reads_labels: bool) -> None:
    """Stage the rows as they come, decide which belong to which split, write those for good; meta.json comes last."""
    staging = folder / "staged"
    staging.mkdir()
    codes: dict[str, int] = {}  # label -> number in order of appearance
    parts: Parts = {}
    first: dict[str, dict[str, str]] = {}  # split -> label -> where it came first
    labels_optional = dataset.label_names is not None or dataset.empty_label == "unlabelled"
    is_told = reads_labels and dataset.kind == "text" and dataset.own_files()  # the others have no such key
    also = ", or dataset.empty_label=unlabelled" if is_told else ""
    for split, rows in ({"train": dataset.all_rows(files)} if all_rows else dataset.rows(files)).items():
        if split == "train":
            rows = itertools.chain(rows, dataset.unlabelled_rows())
        checks = {
            "labels_optional": all_rows or (split == "train" and labels_optional),
            "several_labels": dataset.several_labels,
            "also": also if split == "train" else "",
        }
        first[split] = _stage(dataset, f"{dataset.name} {split}", rows, staging / f"{split}.arrow", codes, **checks)
        table = _read(staging / f"{split}.arrow")
        parts[split] = table, np.ones(len(table), bool)
    _check_same_kind(dataset.name, parts)
    split_rule = "none, all rows together" if all_rows else _hold_out_test(dataset, parts, list(codes))
    removed = _deduplicate(dataset, parts)
    takes_empty = dataset.takes_unlabelled and labels_optional
    if all_rows and codes and not takes_empty and (where := first["train"].get(UNLABELLED)):
        raise InputError(f"{where}: found no label, allowed: a label in every row or in none{also}")
    label_names = _label_names(dataset, parts, list(codes), first, least=0 if all_rows else 2)
    if not all_rows and dataset.own_files():
        _warn_of_alike(dataset.name, label_names)

    indices = {name: index for index, name in enumerate(label_names)}
    index = np.array([indices.get(name, -1) for name in codes], np.int32)
    fingerprint = hashlib.sha256()
    for split in sorted(parts, key=SPLITS.index):
        fingerprint.update(f"{split}\n".encode())
        _write(*parts[split], index, label_names, folder / f"{split}.arrow", fingerprint)
    splits = sorted(parts, key=SPLITS.index)
    del table, parts
    shutil.rmtree(staging)

    meta = {
        "name": dataset.name,
        "label_names": label_names,
        "fingerprint": fingerprint.hexdigest(),
        "files": {split: _file_facts(folder / f"{split}.arrow") for split in splits},
        "about": dataset.about() | {"split_rule": split_rule, "removed": removed},
    }
    meta["card"] = card(Corpus(folder, meta))
    meta["checksum"] = _checksum(meta)
    (folder / "meta.json").write_text(json.dumps(meta, indent=1, ensure_ascii=False), encoding="utf-8")


def _stage(
    dataset: Dataset, source: str, rows: Iterable[Row], path: Path, codes: dict[str, int], **checks: Any
) -> dict[str, str]:
    """Check the rows and write them with the numbers of ``codes``, -1 for none.

    Returns where each label came first, and under ``UNLABELLED`` where a row came first that has none and is not of
    the file of texts without labels.
    """
    first: dict[str, str] = {}
    writer, has_aug = None, False
    for chunk in _chunks(dataset, source, rows, **checks):
        for row in chunk:
            if row["label"] is None and not row.get("unlabelled"):
                first.setdefault(UNLABELLED, row["where"])
            for name in row["label"] or ():
                codes.setdefault(name, len(codes))
                first.setdefault(name, row["where"])
        numbers = [None if row["label"] is None else [codes[name] for name in row["label"]] for row in chunk]
        columns = {
            dataset.column: _inputs(chunk, dataset.column),
            "label": pa.array(numbers, pa.list_(pa.int32()))
            if chunk[-1]["multilabel"]
            else pa.array([number[0] if number else NO_LABEL for number in numbers], pa.int32()),
        }
        if has_aug := has_aug if writer else "aug" in chunk[0]:
            columns["aug"] = _strings(chunk, "aug")
        batch = pa.record_batch(columns)
        writer = writer or pa.ipc.new_file(str(path), batch.schema)
        writer.write_batch(batch)
    if writer is None:
        raise InputError(f"{source}: no rows; at least one is needed")
    writer.close()
    return first


def _chunks(
    dataset: Dataset, source: str, rows: Iterable[Row], labels_optional: bool, several_labels: bool | None, also: str
) -> Iterator[list[Row]]:
    """Checked rows in lists that are bounded in rows and in characters or bytes; ``label`` becomes a tuple of names."""
    chunk: list[Row] = []
    characters = 0
    multilabel = several_labels
    for number, row in enumerate(rows, 1):
        where = row.setdefault("where", f"{source} row {number}")
        dataset.check_input(row[dataset.column], where)
        if not isinstance(row.get("aug"), str | None):
            raise InputError(f"{where}: found augmented text {short(row['aug'])}, allowed: a string or nothing")
        optional = labels_optional or row.get("unlabelled", False)
        is_list = isinstance(row["label"], list | tuple)
        if not (optional and is_missing(row["label"])):
            multilabel = is_list if multilabel is None else multilabel
            if is_list != multilabel:
                kinds = "one label", "a list of labels"
                problem = f"found {kinds[not multilabel]}, allowed: {kinds[multilabel]}"
                raise InputError(f"{where}: {problem}, as in the rows before")
        row["multilabel"] = bool(multilabel)
        row["label"] = _names(row["label"], where, optional, also)
        chunk.append(row)
        characters += len(row[dataset.column])
        if len(chunk) == CHUNK_ROWS or characters >= CHUNK_CHARACTERS:
            multilabel = row["multilabel"]  # rows without a label are of the kind that is written with them
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk


def _names(label: Any, where: str, optional: bool, also: str) -> tuple[str, ...] | None:
    """The labels of a row, each once: of a list all, else one; None where it has no label, if that is optional, else
    what is ``also`` allowed is said."""
    if isinstance(label, list | tuple):
        return tuple(dict.fromkeys(label_name(name, where) for name in label))
    if optional and is_missing(label):
        return None
    return (label_name(label, where, also if is_missing(label) else ""),)


def _inputs(chunk: list[Row], column: str) -> pa.Array:
    """Texts and paths as strings; what is bytes, all of one length, as it is."""
    if isinstance(first := chunk[0][column], bytes):
        return pa.array([row[column] for row in chunk], pa.binary(len(first)))
    return _strings(chunk, column)


def _strings(chunk: list[Row], column: str) -> pa.Array:
    try:
        if column != "aug":
            return pa.array([row[column] for row in chunk], pa.string())
        return pa.array([aug if (aug := row.get("aug")) and not aug.isspace() else None for row in chunk], pa.string())
    except UnicodeEncodeError:
        for row in chunk:
            try:
                (row[column] or "").encode()
            except UnicodeEncodeError as error:
                raise InputError(
                    f"{row['where']}: {column} holds half a surrogate pair, allowed: Unicode text"
                ) from error
        raise


def _check_same_kind(name: str, parts: Parts) -> None:
    several = has_several_labels(parts["train"][0])
    for split, (table, _) in parts.items():
        if has_several_labels(table) != several:
            kinds = "one label a text", "lists of labels"
            raise InputError(f"{name} {split}: found {kinds[not several]}, allowed: {kinds[several]}, as in train")


def _hold_out_test(dataset: Dataset, parts: Parts, names: list[str]) -> str:
    """Make a test split from train where the source ships none; returns the rule in words."""
    if "test" in parts:
        return "as the source ships it"
    if dataset.test_fraction is None:
        raise InputError(f"{dataset.name}: no test rows")
    table, keep = parts["train"]
    unlabelled = without_label(table)
    if unlabelled.any() and not dataset.takes_unlabelled:
        return "no test split: the source ships none, and train has rows without a label"
    labelled, labels = np.flatnonzero(~unlabelled), label_array(table, len(names))
    rng = np.random.default_rng(dataset.split_seed)
    _, test = stratified_split(labels[labelled], dataset.test_fraction, rng, dataset.singleton_classes, names)
    if not len(test):
        return "no test split: the source ships none, and no class has two rows with a label"
    keep[labelled[test]] = False
    parts["test"] = table, ~keep
    share = len(test) / len(labelled)
    larger = ", one at least of each class" if share > LARGER * dataset.test_fraction else ""
    rule = f"{share:.0%} stratified test split of the train rows by seed {dataset.split_seed}{larger}"
    log.warning("%s ships no test split: %s", dataset.name, rule)
    return f"{rule} (the source ships none)"


def _deduplicate(dataset: Dataset, parts: Parts) -> dict[str, int]:
    """Drop train rows from their mask as ``dataset.deduplicate`` says; returns how many. Of two the labelled stays."""
    mode = dataset.deduplicate
    removed = {"duplicates": 0, "leaks": 0}
    if mode == "none":
        return removed
    digests_of = {split: digests(table)[0] for split, (table, _) in parts.items()}
    train, unlabelled = parts["train"][1], without_label(parts["train"][0])
    if mode in ("train", "all"):
        rows = np.flatnonzero(train)
        rows = rows[np.argsort(unlabelled[rows], kind="stable")]
        _, firsts = np.unique(digests_of["train"][rows], return_index=True)
        train[np.delete(rows, firsts)] = False
        removed["duplicates"] = len(rows) - len(firsts)
    if mode in ("leaks", "all") and len(parts) > 1:
        held_out = np.concatenate([digests_of[split][parts[split][1]] for split in parts if split != "train"])
        leaks = train & np.isin(digests_of["train"], held_out)
        train[leaks] = False
        removed["leaks"] = int(leaks.sum())
        if number := int((leaks & unlabelled).sum()):
            log.warning("%s: %d texts without a label are also in test or validation; left out", dataset.name, number)
    return removed


def _label_names(
    dataset: Dataset, parts: Parts, names: list[str], first: dict[str, dict[str, str]], least: int
) -> list[str]:
    """The names that are given, or those of the train labels, at least so many, sorted; numbers by value.

    Where texts have several labels, those of the other splits too.
    """
    name = dataset.name
    labels_of = {
        split: {names[code] for code in np.flatnonzero(class_counts(label_array(table, len(names))[keep], len(names)))}
        for split, (table, keep) in parts.items()
    }
    if dataset.label_names is not None:
        _refuse_others(name, labels_of, first, dataset.label_names, "is not among dataset.label_names")
        return list(dataset.label_names)
    train = labels_of.pop("train")
    if not train and least:
        raise InputError(f"{name} train: no row has a label, allowed: at least 2 classes")
    if len(train) < least:
        raise InputError(f"{name} train: one class only ({', '.join(train)}), allowed: at least 2 classes")
    if has_several_labels(parts["train"][0]):
        if unseen := sorted(set().union(*labels_of.values()) - train):
            log.warning("%s: no train row has the label %s; it counts in the figures", name, ", ".join(unseen))
        return sorted(train.union(*labels_of.values()), key=_by_value)
    _refuse_others(name, labels_of, first, sorted(train), "does not occur in train")
    return sorted(train, key=_by_value)


def _warn_of_alike(name: str, label_names: Sequence[str]) -> None:
    """Say which labels of people's files may be one, mistyped."""
    if pairs := sorted(nearly_alike(label_names)):
        first, second = (short(label_names[place]) for place in pairs[0])
        more = f" (of {len(pairs)} such pairs)" if len(pairs) > 1 else ""
        remedy = "one spelling in the file makes one class of them"
        log.warning("%s: labels %s and %s are called alike%s; %s", name, first, second, more, remedy)


def _refuse_others(
    name: str, labels_of: dict[str, set[str]], first: dict[str, dict[str, str]], allowed: Sequence[str], why: str
) -> None:
    for split, labels in labels_of.items():
        for label in sorted(labels.difference(allowed)):
            where = first.get(split, {}).get(label, f"{name} {split}")
            shown = ", ".join(allowed[:20]) + (", …" if len(allowed) > 20 else "")
            raise InputError(f"{where}: label {short(label)} {why}; allowed: {shown}")


def _by_value(name: str) -> tuple[bool, float, str]:
    try:
        return False, float(name), name
    except ValueError:
        return True, 0.0, name


def _write(
    table: pa.Table, keep: np.ndarray, index: np.ndarray, names: list[str], path: Path, fingerprint: "hashlib._Hash"
) -> None:
    """Write the kept rows with their final class indices, batch by batch, and feed them to the fingerprint."""
    with pa.ipc.new_file(str(path), table.schema) as writer:
        start = 0
        for batch in table.to_batches():
            selected = batch.filter(pa.array(keep[start : start + len(batch)]))
            start += len(batch)
            if not len(selected):
                continue
            index_of = np.append(index, np.int32(NO_LABEL))  # the last for NO_LABEL itself
            if pa.types.is_list(selected["label"].type):
                codes = selected["label"].to_pylist()
                labels = [None if row is None else np.sort(index_of[row]) for row in codes]
                label_column: Iterable[Any] = (
                    None if row is None else [names[label] for label in row] for row in labels
                )
            else:
                labels = index_of[selected["label"].to_numpy()]
                label_column = (None if label == NO_LABEL else names[label] for label in labels)
            selected = selected.set_column(1, "label", pa.array(labels, selected["label"].type))
            writer.write_batch(selected)
            augmented = selected["aug"].to_pylist() if "aug" in selected.schema.names else [None] * len(selected)
            rows = zip(_as_json(selected.column(0)), label_column, augmented, strict=True)
            fingerprint.update("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode())


def _as_json(inputs: pa.Array) -> list[Any]:
    values = inputs.to_pylist()
    return [hashlib.sha256(value).hexdigest() if isinstance(value, bytes) else value for value in values]


def _read(path: Path) -> pa.Table:
    with pa.memory_map(str(path)) as file:
        return pa.ipc.open_file(file).read_all()


def _file_facts(path: Path) -> dict[str, Any]:
    stat = path.stat()
    return {"bytes": stat.st_size, "mtime_ns": stat.st_mtime_ns, "sha256": file_sha256(path)}


def _checksum(meta: dict[str, Any]) -> str:
    body = {key: value for key, value in meta.items() if key != "checksum"}
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def _read_meta(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "meta.json").read_text(encoding="utf-8"))


def _damage(folder: Path) -> str | None:
    """What is wrong with a prepared folder, None where nothing is. Large files are hashed only when they changed."""
    try:
        meta = _read_meta(folder)
        if meta.get("checksum") != _checksum(meta):
            return "meta.json is altered"
        for split, facts in meta["files"].items():
            path = folder / f"{split}.arrow"
            stat = path.stat()
            if stat.st_size != facts["bytes"]:
                return f"{path.name} has {stat.st_size} of {facts['bytes']} bytes"
            suspect = stat.st_size <= SMALL or stat.st_mtime_ns != facts["mtime_ns"]
            if suspect and file_sha256(path) != facts["sha256"]:
                return f"{path.name} is altered"
    except FileNotFoundError as error:
        return f"{Path(error.filename).name} is missing"
    except (json.JSONDecodeError, UnicodeDecodeError, AttributeError, KeyError):
        return "meta.json is damaged"
    return None


@contextmanager
def _disk_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT) or "No space left on device" in str(error):
            raise InputError(
                f"{folder}: the disk is full; free some space or choose another folder (paths.data)"
            ) from error
        raise
