"""Methods as scikit-learn's estimators. A fit is a run: a second one with the same rows and settings reads it."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, ClusterMixin
from sklearn.utils.validation import check_is_fitted, column_or_1d

from kontrast.runs import HALF, checked_texts, config_of, overrides, unseeded, with_threads, written
from storage.errors import InputError, short, short_list
from storage.run_store import RunFolder
from storage.tables import label_name, label_text

ALL_ROWS = ("protocol=kfold", "protocol.fold=null", "dataset.singleton_classes=keep_in_train")
LISTS = (list, tuple, set, frozenset, np.ndarray)
OWN = (
    *("task", "run", "input", "search", "sweep", "active"),
    *("dataset", "dataset__train", "dataset__val", "dataset__test", "dataset__text_column", "dataset__label_column"),
    *("dataset__label_separator", "dataset__label_names", "dataset__header", "dataset__encoding"),
)  # never a setting of `fit`
OPENING = ("paths__", "trainer__num_threads")  # settings that count where nothing is trained
LACKING = -1  # the place of a label that a run lacks: the last, behind those that it has


class _Settings(BaseEstimator):
    """Parameters are the method, the encoder, and any setting of the command line, with `__` for its dots."""

    def __init__(self, method: str, encoder: str | None, **settings: Any) -> None:
        self.method, self.encoder, self.settings = method, encoder, settings

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {"method": self.method, "encoder": self.encoder, **self.settings}

    def set_params(self, **params: Any) -> Self:
        for name, value in params.items():
            if name in ("method", "encoder"):
                setattr(self, name, value)
            else:
                self.settings = {**self.settings, name: value}
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string, tags.input_tags.two_d_array = True, False
        return tags

    def _words(self, columns: Mapping[str, Sequence[Any]], *more: str) -> list[str]:
        """The command line of a fit. Raises InputError: a setting that would stand in its place, or a loaded run."""
        if taken := [name for name in self.settings if name in OWN]:
            raise InputError(f"{taken[0]}: found {short(str(self.settings[taken[0]]))}; allowed: what X and y are")
        if getattr(self, "_is_loaded", False):
            raise InputError(f"run {self.run_}: it was loaded to predict; allowed: fit of a {type(self).__name__}(…)")
        words = [f"method={self.method}", *([] if self.encoder is None else [f"encoder={self.encoder}"])]
        words += overrides(self._choices(True))
        paths = config_of([*words, "dataset=csv", "dataset.train=rows"]).paths
        words += ["dataset=csv", *overrides({"dataset__train": str(written(columns, Path(paths.data)).resolve())})]
        return [*words, *more, *overrides(self._choices(False))]

    def __getstate__(self) -> Any:
        """Without the model in memory, which is read from the run's folder again when it is asked."""
        return {name: value for name, value in super().__getstate__().items() if name != "_model"}

    def _opened(self) -> Any:
        """The model of the run. Raises InputError: its folder is gone."""
        if not hasattr(self, "_model"):
            if not Path(self.folder_).is_dir():
                raise InputError(f"{self.folder_}: no such folder, and it holds the model; allowed: the run's folder")
            words = overrides({key: value for key, value in self.settings.items() if key.startswith(OPENING)})
            self._take(*_open(self.folder_, words))
        return self._model

    def _texts_to_learn(self, X: Any) -> list[str]:
        return checked_texts(X, self.settings.get("dataset__markup", "keep"))

    def _texts_to_read(self, X: Any) -> list[str]:
        return checked_texts(X, self._markup, self._text_column if getattr(self, "_is_loaded", False) else None)

    def _own_threads(self) -> AbstractContextManager[None]:
        return with_threads(self.settings.get("trainer__num_threads"))

    def _take(self, run: RunFolder, plan: Any) -> None:
        raise NotImplementedError

    def _choices(self, of_groups: bool) -> dict[str, Any]:
        """Settings that choose a group's file come before those of its keys."""
        return {key: value for key, value in self.settings.items() if ("__" not in key) == of_groups}


class TextClassifier(ClassifierMixin, _Settings):
    """A method that learns classes from labelled texts.

    `fit` trains on all rows but those that the method's protocol takes for validation, 15 %; the run's figures are of
    those. Methods with a protocol of their own (nearest_name, prototypes) set a fifth aside as test rows.

    Args:
        method: a name of `conf/method`.
        encoder: a name of `conf/encoder`; None: minilm, or what the method brings.
        settings: any key of the command line, dots as `__`: `seed=1`, `loss__tau=0.5`, `trainer__max_epochs=3`,
            `paths__runs="elsewhere"`, `sampler="class_balanced"`.

    Attributes:
        classes_: (C,) sorted labels; of several labels a text the columns of `y`.
        run_: id of the run, for the command line too.
        folder_: the run's folder.
    """

    def __init__(self, method: str = "ce", encoder: str | None = None, **settings: Any) -> None:
        super().__init__(method, encoder, **settings)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags

    def fit(self, X: Any, y: Any) -> TextClassifier:
        """Train on texts and their labels: lists, arrays or Series of one each, or where the method takes several an
        array or frame (N, C) of 0 and 1. A column without a 1 is warned of, and never predicted.

        Raises:
            InputError: texts or labels that cannot be used; one line.
            ConfigError: a setting that is unknown, out of range, or would do nothing.
        """
        from tasks.fit import trained_run

        texts, labels = self._texts_to_learn(X), _array(y)
        if labels.ndim not in (1, 2) or len(labels) != len(texts):
            raise InputError(f"y: found shape {labels.shape}, allowed: a label, or 0s and 1s, for each of {len(texts)}")
        classes, rows = _of_several(y, labels) if labels.ndim == 2 else _of_one(labels)
        names = [label_name(str(label), "y") for label in classes]  # as a table of rows is read
        if labels.ndim == 1:
            names, one_of_each = _in_order(labels_by_name(zip(names, classes, strict=True)))
            classes = np.array(one_of_each, classes.dtype)
        lacking = [names[place] for place in np.flatnonzero((labels == 0).all(axis=0))] if labels.ndim == 2 else []
        learned = [name for name in names if name not in lacking]
        if len(learned) < 2 or len(set(names)) < len(names):
            raise InputError(f"y: found the labels {short_list(learned)}, allowed: at least 2 that differ as text")
        if lacking:  # as a fold may lack a rare label
            shown = f"y: no text has the label {short_list(lacking)}, which is never predicted"
            warnings.warn(shown, UserWarning, stacklevel=2)
        columns = {"text": texts, "label": rows}
        words = self._words(columns)
        if config_of(words).protocol.name == "clean" and not {"protocol", "protocol__name"} & self.settings.keys():
            words = self._words(columns, *ALL_ROWS)
        with unseeded():
            run = trained_run(_plan(words))
        self._take(*_open(run.path, words))
        return self._answer_in(names, classes, lacking)

    def _answer_in(self, names: Sequence[str], classes: NDArray[Any], lacking: Sequence[str] = ()) -> TextClassifier:
        """Itself, answering with `classes` (C,) for the run's labels of these names, but never those that it lacks."""
        own_names = list(map(label_text, self._names))  # those of an older run may be `True`
        places = (LACKING if name in lacking else own_names.index(label_text(name)) for name in names)
        self._order = np.array(list(places))
        self.classes_ = classes
        return self

    def _take(self, run: RunFolder, plan: Any) -> None:
        from engine.finished import shown_id
        from tasks.predict import classifier_predictor

        self._model, self._markup = classifier_predictor(run, plan, explain=False), _markup_of(plan)
        self._text_column = plan.dataset.learned_columns.get("text", "text")
        self._names = list(self._model.label_names)
        self.run_, self.folder_ = shown_id(run), run.path.absolute()  # wherever it is unpickled

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probabilities (N, C), columns as `classes_`."""
        check_is_fitted(self, "classes_")
        from tasks.predict import pieces

        model = self._opened()
        with self._own_threads():
            scores = np.concatenate([model.scores(piece)[0] for piece in pieces(self._texts_to_read(X))])
        scores = np.pad(np.asarray(scores, np.float64), ((0, 0), (0, 1)))  # 0 of what the run lacks
        probabilities = scores[:, self._order]
        if model.threshold is None:  # computed in float32, they add up to 1 but for its rounding
            probabilities /= probabilities.sum(axis=1, keepdims=True)
        return probabilities

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of each text, (N,); of several labels (N, C) of 0 and 1, columns as `classes_`."""
        probabilities = self.predict_proba(X)
        if (threshold := self._opened().threshold) is None:
            return self.classes_[probabilities.argmax(axis=1)]
        thresholds = np.append(np.broadcast_to(threshold, len(self._names)), 1.0)
        return (probabilities > thresholds[self._order]).astype(np.int64)


def _array(y: Any) -> NDArray[Any]:
    """Labels, or columns of 0 and 1, as NumPy has them; a column alone, with scikit-learn's warning, as its labels.

    Raises:
        InputError: lists of labels, which are no columns.
    """
    try:
        labels = np.asarray(y, object) if _mixes_texts(y) else np.asarray(y)
        if labels.ndim == 2 and labels.shape[1] == 1:
            labels = column_or_1d(labels, warn=True)
        has_lists = labels.ndim == 1 and any(isinstance(label, LISTS) for label in labels)
    except ValueError:  # of several lengths
        has_lists = True
    if has_lists:
        raise InputError(
            "y: found lists of labels, allowed: one label a text, or an array (N, C) of 0 and 1, "
            "which scikit-learn's MultiLabelBinarizer makes of lists"
        )
    return labels


def _mixes_texts(y: Any) -> bool:
    """Whether a list holds texts beside other labels, of which NumPy would make texts too, and of NaN a class."""
    return isinstance(y, list | tuple) and len({isinstance(label, str) for label in y}) > 1


def _of_one(labels: NDArray[Any]) -> tuple[NDArray[Any], list[str]]:
    """Sorted classes (C,), and the name of each row's.

    Raises:
        InputError: a label that is missing or is no Unicode text, labels of several types.
    """
    import pandas as pd

    if len(missing := np.flatnonzero(pd.isna(labels))):
        raise InputError(f"y[{missing[0]}]: found {labels[missing[0]]}, allowed: a label of each text")
    if (broken := next((place for place, label in enumerate(labels) if HALF.search(str(label))), None)) is not None:
        raise InputError(f"y[{broken}]: found half a surrogate pair, allowed: Unicode text")
    try:
        classes, places = np.unique(labels, return_inverse=True)
    except TypeError as error:
        kinds = sorted({type(label).__name__ for label in labels})
        raise InputError(f"y: found labels of the types {', '.join(kinds)}, allowed: of one type") from error
    return classes, [str(classes[place]) for place in places]


def labels_by_name(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Labels by their names as a file has them; of several of one name, as "yes" and "yes ", the one that is it, or
    else the first."""
    by_name: dict[str, Any] = {}
    for name, label in pairs:
        if name not in by_name or label == name:
            by_name[name] = label
    return by_name


def _in_order(by_name: Mapping[str, Any]) -> tuple[list[str], list[Any]]:
    """Names and labels, sorted by label, or by name where labels of several types do not compare."""
    try:
        names = sorted(by_name, key=by_name.__getitem__)
    except TypeError:
        names = sorted(by_name)
    return names, [by_name[name] for name in names]


def answering(classifier: TextClassifier, by_name: Mapping[str, Any]) -> TextClassifier:
    """A classifier that was loaded, answering with these labels; of several a text with their names still."""
    if classifier._opened().threshold is not None:
        return classifier
    names, labels = _in_order({name: by_name[label_text(name)] for name in classifier._names})
    return classifier._answer_in(names, np.array(labels, object if _mixes_texts(labels) else None))


def _of_several(y: Any, labels: NDArray[Any]) -> tuple[NDArray[Any], list[list[str]]]:
    """Labels (C,), the columns of `y`, and the names of each row's. Raises InputError."""
    if not np.isin(labels, (0, 1)).all():
        value = labels[~np.isin(labels, (0, 1))][0]
        raise InputError(f"y: found {short(str(value))} in an array {labels.shape}, allowed there: 0 and 1")
    classes = np.asarray(getattr(y, "columns", np.arange(labels.shape[1])))
    if any(HALF.search(str(name)) for name in classes):
        raise InputError("y: found half a surrogate pair in the name of a column, allowed: Unicode text")
    return classes, [[str(label) for label in classes[np.flatnonzero(row)]] for row in labels]


class TextClusterer(ClusterMixin, _Settings):
    """A method that finds clusters of texts without labels.

    Args:
        method: a clustering of `conf/method`.
        encoder: a name of `conf/encoder`; None: minilm, or what the method brings.
        n_clusters: how many, or "auto" to estimate it, or to leave it to a method that takes no number.
        settings: as those of `TextClassifier`.

    Attributes:
        labels_: (N,) cluster of each text of `fit`, from 0 on; -1: an outlier.
        run_: id of the run.
        folder_: the run's folder; `clusters.csv` in it says what each cluster is about.
    """

    def __init__(
        self,
        method: str = "sbert_kmeans",
        encoder: str | None = None,
        n_clusters: int | str = "auto",
        **settings: Any,
    ) -> None:
        super().__init__(method, encoder, **settings)
        self.n_clusters = n_clusters

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {**super().get_params(deep), "n_clusters": self.n_clusters}

    def set_params(self, **params: Any) -> TextClusterer:
        self.n_clusters = params.pop("n_clusters", self.n_clusters)
        return super().set_params(**params)

    def fit(self, X: Any, y: Any = None) -> TextClusterer:
        """Cluster the texts. Raises as `TextClassifier.fit`."""
        from tasks.cluster import clustered_run

        if (drops := self.settings.get("dataset__deduplicate")) in ("train", "all"):
            raise InputError(f"dataset__deduplicate: found {drops}; allowed: none, for each text of X has its label")
        words = self._words({"text": self._texts_to_learn(X)}, "task=cluster", *self._number())
        with unseeded():
            run = clustered_run(_plan(words))
        self._take(*_open(run.path, words))
        return self

    def _number(self) -> list[str]:
        """The word for `n_clusters`, if the method takes one."""
        method = config_of([f"method={self.method}", "task=cluster", "dataset=csv", "dataset.train=rows"]).method
        if "num_clusters" in method:
            return [f"method.num_clusters={self.n_clusters}"]
        if self.n_clusters != "auto":
            allowed = f"allowed: 'auto', for method={self.method} itself says how many there are"
            raise InputError(f"n_clusters: found {self.n_clusters!r}, {allowed}")
        return []

    def _take(self, run: RunFolder, plan: Any) -> None:
        from engine.assign import Assigner

        self._model, self._markup = Assigner(run, plan), _markup_of(plan)
        self._text_column = plan.dataset.learned_columns.get("text", "text")
        self.labels_ = self._labels(np.array([int(row["cluster"]) for row in run.read_csv("predictions.csv")]))
        self.run_, self.folder_ = run.id, run.path.absolute()

    def predict(self, X: Any) -> NDArray[np.int64]:
        """The cluster of each text, (N,), -1 of an outlier."""
        from tasks.predict import pieces

        check_is_fitted(self, "run_")
        model = self._opened()
        with self._own_threads():
            clusters = [model.assign(piece)[0] for piece in pieces(self._texts_to_read(X))]
        return self._labels(np.concatenate(clusters))

    def _labels(self, clusters: NDArray[np.int64]) -> NDArray[np.int64]:
        """Outliers, the last cluster of a run, as scikit-learn has them."""
        return np.where(clusters < self._model.num_clusters, clusters, -1)


def _markup_of(plan: Any) -> str:
    """What becomes of tags and entities in the texts of a run; data sets that are no files of people keep them."""
    return plan.plain["dataset"].get("markup", "keep")


def _plan(words: Sequence[str]) -> Any:
    from engine.plan import Plan

    return Plan.make(config_of(words), list(words))


def _open(run: str | Path, words: Sequence[str]) -> tuple[RunFolder, Any]:
    """A finished run with the plan of its own config; of `words`, paths and threads count."""
    from engine.finished import open_run

    kept = [word for word in words if word.startswith(("paths.", "trainer.num_threads"))]
    return open_run(config_of(["task=predict", *overrides({"run": str(run)}), *kept]), clusters_too=True)


def load(run: str | Path, **settings: Any) -> TextClassifier | TextClusterer:
    """A finished run as a fitted estimator; labels are their names, strings, whatever they were.

    It predicts: its parameters are method and encoder alone, and a clone of it would learn by their defaults.

    Args:
        run: its id, the beginning of it, or its folder; a folder of `kontrast.auto` too.
        settings: `paths__runs` and the like, where it was not done in this folder; `trainer__num_threads`.

    Raises:
        ValueError: no such run, it is not finished, or a setting of training; one line.
    """
    if idle := [name for name in settings if not name.startswith(OPENING)]:
        raise InputError(f"{idle[0]}: has no effect on a finished run; allowed: paths__…, trainer__num_threads")
    folder, plan = _open(run, overrides(settings))
    choice = {"method": plan.plain["method"]["name"], "encoder": (plan.plain.get("encoder") or {}).get("name")}
    if plan.serves == "clustering":
        clusterer = TextClusterer(**choice, n_clusters=plan.plain["method"].get("num_clusters", "auto"), **settings)
        clusterer._take(folder, plan)
        clusterer._is_loaded = True
        return clusterer
    classifier = TextClassifier(**choice, **settings)
    classifier._take(folder, plan)
    classifier._is_loaded = True
    names = sorted(classifier._names)
    return classifier._answer_in(names, np.array(names))
