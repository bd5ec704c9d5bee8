"""What the parts of a config must agree on, checked before anything is built.

A method says by class attributes what it takes of the other groups (`lightning_modules.base.EncoderModule`), a callback
and a sampler what they serve. Nothing here names a method.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args

from hydra.utils import get_object, instantiate

from callbacks.checkpoint import BestCheckpoint
from datamodules.samplers import ByClass
from engine.choices import choice_name, choices, choices_of_classes
from engine.trainer import trainer_findings
from engine.validation import ConfigError, signature
from lightning_modules.base import MONITORED, EncoderModule
from lightning_modules.encoders.words import WordEncoder
from storage.run_store import LAST, first_line

SERVES = {"fit": "classification", "cluster": "clustering"}  # the kind of method that a task takes
NEEDED = ("paths", "dataset", "method", "protocol", "trainer")
NEEDED_UNLESS_UNUSED = ("encoder", "optimizer", "scheduler", "sampler")

Plain = Mapping[str, Any]


def check_composition(plain: Plain) -> None:
    """Hold the nodes of a resolved config, each of which fits its own signature, against each other.

    Raises:
        ConfigError: all findings at once; where the method is none for the task or a group is missing, that alone.
    """
    for findings in (_missing_groups, _task_findings, _findings):
        if lines := list(findings(plain)):
            raise ConfigError("\n".join(lines))


def check_kinds(plain: Plain) -> None:
    """Refuse what does not take the kind of data that the data set holds: texts, images, or another.

    What a node names says by a class attribute `kinds` what it takes, a data set by `tasks` which tasks take it; that
    comes before all else, for the options of what does not fit are nobody's concern.

    Raises:
        ConfigError: the first that does not fit.
    """
    dataset: Any = plain.get("dataset")
    if is_node(dataset) and (finding := next(_kind_findings(plain, target_class(dataset)), None)):
        raise ConfigError(finding)


def _kind_findings(plain: Plain, dataset: Any) -> Iterator[str]:
    held = f"dataset={plain['dataset'].get('name')}, which holds {dataset.kind}s"
    if dataset.tasks is not None and plain["task"] not in dataset.tasks:
        yield f"task: found {plain['task']}; allowed with {held}: {', '.join(dataset.tasks)}"
    for group, node in sorted(plain.items(), key=lambda item: item[0] != "method"):
        if is_node(node) and not _takes(target_class(node), dataset.kind):
            fits = ", ".join(_choices_for(group, dataset.kind))
            name = node.get("name") or choice_name(group, node["_target_"])
            yield f"{group}: found {name}; allowed with {held}: {fits or 'null'}"


def _choices_for(group: str, kind: str, without: Sequence[str] = ()) -> list[str]:
    targets = choices(group).items()
    return [name for name, target in targets if name not in without and _takes(get_object(target), kind)]


def _takes(part: Any, kind: str) -> bool:
    kinds = getattr(part, "kinds", None)
    return kinds is None or kind in kinds


def is_node(value: Any) -> bool:
    """Whether a value of a config names something to call."""
    return isinstance(value, Mapping) and "_target_" in value


def target_class(node: Plain) -> Any:
    """What a node names."""
    return get_object(node["_target_"])


def serves(node: Plain) -> str:
    """Which tasks take a method: "classification" or "clustering"."""
    return getattr(target_class(node), "serves", "classification")


def is_module(method: Plain) -> bool:
    """Whether a method is a module that is trained."""
    return issubclass(target_class(method), EncoderModule)


def unused_groups(method: Plain) -> tuple[str, ...]:
    """Groups that a method with these options does not read."""
    unused = getattr(target_class(method), "unused_groups", ())
    return unused(method) if callable(unused) else unused


def _missing_groups(plain: Plain) -> Iterator[str]:
    unused = unused_groups(plain["method"]) if plain.get("method") else NEEDED_UNLESS_UNUSED
    for group in (*NEEDED, *(group for group in NEEDED_UNLESS_UNUSED if group not in unused)):
        if not plain.get(group):
            yield f"{group}: found null; allowed: {', '.join(choices(group))}"


def _task_findings(plain: Plain) -> Iterator[str]:
    wanted, kind = SERVES.get(plain["task"]), serves(plain["method"])
    if wanted and kind != wanted:
        kinds = {name: serves({"_target_": target}) for name, target in choices("method").items()}
        allowed = ", ".join(name for name, kind in kinds.items() if kind == wanted)
        yield f"method: found {plain['method']['name']}, for {kind}; allowed with task={plain['task']}: {allowed}"


def _findings(plain: Plain) -> Iterator[str]:
    yield from _method_findings(plain)
    if plain["dataset"].get("labels") == 0:
        yield from label_findings(plain, "dataset.labels: found 0", ">= 1")
    yield from _callback_findings(plain)
    yield from _protocol_findings(plain)
    yield from _threshold_findings(plain)
    yield from _view_findings(plain)
    if plain.get("head"):
        yield from _head_findings(plain)
    yield from trainer_findings(plain)
    if plain["trainer"].get("gradient_cache_chunk") is not None and plain.get("encoder"):
        if getattr(target_class(plain["encoder"]), "reads_whole_batches", False):
            encoder = f"encoder={plain['encoder']['name']}, which normalises over the batch"
            yield f"trainer.gradient_cache_chunk: allowed with {encoder}: null"
    if plain.get("retrieval"):
        yield from _retrieval_findings(plain)
    if plain.get("start_from") == LAST:  # the same line typed again would be another run
        yield f"start_from: found {LAST}, another run once this one is finished; allowed: null, or a run's id"


def _method_findings(plain: Plain) -> Iterator[str]:
    """What the method's class says of the other groups."""
    node, method = plain["method"], target_class(plain["method"])
    name, unused = f"method={node['name']}", unused_groups(plain["method"])
    loss = target_class(plain["loss"]) if plain.get("loss") else type(None)
    if method.losses and not issubclass(loss, method.losses):
        choice = choice_name("loss", plain["loss"]["_target_"]) if plain.get("loss") else "null"
        yield f"loss: found {choice}; allowed with {name}: {choices_of_classes('loss', method.losses)}"
    if plain["protocol"]["name"] not in method.protocols:
        yield f"protocol: found {plain['protocol']['name']}; allowed with {name}: {', '.join(method.protocols)}"
    if plain.get("encoder") and "encoder" not in unused and plain["encoder"]["train"] not in method.encoder_training:
        allowed = ", ".join(method.encoder_training)
        yield f"encoder.train: found {plain['encoder']['train']}; allowed with {name}: {allowed}"
    sampler = plain.get("sampler")
    if serves(node) == "clustering" and sampler and issubclass(target_class(sampler), ByClass):
        yield "sampler: draws by labels, which clustering does not see; allowed: length_grouped, shuffle"
    if getattr(method, "trains_unlabelled", False) and sampler and issubclass(target_class(sampler), ByClass):
        yield f"sampler: draws by labels, which {name} has not of every text; allowed: length_grouped, shuffle"
    for group in unused:
        value = plain.get(group)
        if any(v is not None for v in value.values()) if isinstance(value, Mapping) else value is not None:
            yield f"{group}: has no effect with {name}; allowed: {group}=null"


def label_findings(plain: Plain, problem: str, allowed: str) -> Iterator[str]:
    """No label at all, which is the problem of a method that has nothing else to learn from."""
    method = target_class(plain["method"])
    if not getattr(method, "needs_labels", False):
        return
    methods = ", ".join(_without_labels(target_class(plain["dataset"]).kind, method.multilabel))
    others = f", or a method that reads the names of the classes: {methods}" if methods else ""
    yield f"{problem}, and method={plain['method']['name']} learns from labels; allowed: {allowed}{others}"


def absent_class_findings(plain: Plain, counts: Sequence[int], names: Sequence[str]) -> Iterator[str]:
    """Classes without a train row, which are the problem of a method or loss that needs some of each."""
    loss = plain.get("loss")
    loss_is_read = loss and plain["method"].get("representation_share") != 1  # it belongs to the second stage
    nodes = [target_class(node) for node in (plain["method"], loss if loss_is_read else None) if node]
    if all(counts) or not any(getattr(node, "needs_every_class", False) for node in nodes):
        return
    absent = ", ".join(repr(name) for name, count in zip(names, counts, strict=True) if not count)
    by_loss = f" with loss={choice_name('loss', loss['_target_'])}" if loss else ""
    yield (
        f"dataset: no train row has the label {absent}, and method={plain['method']['name']}{by_loss} needs rows of "
        "every class; allowed: more labels, or another method, such as ce"
    )


def _without_labels(kind: str, multilabel: bool) -> Iterator[str]:
    """Methods for such data that need no label."""
    for name, target in choices("method").items():
        method = get_object(target)
        if getattr(method, "needs_labels", True) is False and method.multilabel == multilabel and _takes(method, kind):
            yield name


def _callback_findings(plain: Plain) -> Iterator[str]:
    if "callbacks" in unused_groups(plain["method"]):
        return
    callbacks = {name: node for name, node in (plain.get("callbacks") or {}).items() if node}
    kind = serves(plain["method"])
    for name, node in callbacks.items():
        if (served := getattr(target_class(node), "serves", kind)) != kind:
            yield f"callbacks.{name}: serves {served} alone; allowed with task={plain['task']}: callbacks.{name}=null"
    for number, (name, node) in enumerate(callbacks.items()):
        if first := next(
            (n for n, other in list(callbacks.items())[:number] if other["_target_"] == node["_target_"]), ""
        ):
            yield f"callbacks.{name}: found what callbacks.{first} is already; allowed: callbacks.{name}=null"
    keeps = [node for node in callbacks.values() if isinstance(target_class(node), type)]
    if kind == "classification" and not any(issubclass(target_class(node), BestCheckpoint) for node in keeps):
        yield "callbacks.best: found null; a run is tested with the weights it keeps; allowed: as in callbacks=none"


def _protocol_findings(plain: Plain) -> Iterator[str]:
    protocol, method = plain["protocol"], plain["method"]
    if protocol["name"] in ("fixed", "transductive"):  # nothing is monitored
        return
    if not getattr(target_class(method), "selected_by_epoch", True):
        if protocol["monitor"] is not None and protocol["name"] in target_class(method).protocols:
            yield (
                f"protocol.monitor: found {protocol['monitor']!r}; allowed with method={method['name']}, whose "
                "classifier is solved after the last epoch: null"
            )
        return
    split = "test" if protocol["name"] == "published" else "val"
    monitored = [f"{split}/{name}" for name in MONITORED]
    if protocol["monitor"] not in monitored:
        yield f"protocol.monitor: found {protocol['monitor']!r}; allowed: {', '.join(monitored)}"
        return
    better = "min" if protocol["monitor"].endswith("/loss") else "max"
    if protocol.get("mode", better) != better:
        yield f"protocol.mode: found {protocol['mode']}; allowed with protocol.monitor={protocol['monitor']}: {better}"


def _view_findings(plain: Plain) -> Iterator[str]:
    """Views that would not differ, and what an encoder whose vocabulary comes from the train rows cannot serve."""
    encoder = plain.get("encoder")
    if not encoder:
        return
    if encoder["train"] == "frozen" and encoder.get("path", "") is None:
        if not getattr(target_class(encoder), "has_weights", True):
            name, free = f"encoder={encoder['name']}", _without_weights()
            yield f"encoder.train: found frozen, and {name} has no weights; allowed: full, encoder.path=FILE, or {free}"
            return
    augment = None
    if plain["method"].get("num_views", 1) > 1:
        augment = choice_name("augment", plain["augment"]["_target_"]) if plain.get("augment") else "none"
    if augment is not None and not plain.get("augment"):
        augments = _choices_for("augment", target_class(plain["dataset"]).kind)
        yield f"augment: found null; allowed with method.num_views > 1: {', '.join(augments)}"
    elif augment is not None and encoder["train"] == "frozen" and target_class(plain["augment"]).draws_first:
        yield "encoder.train: found frozen, whose features are those of the rows alone; allowed with views: full"
    elif augment is not None and encoder["train"] == "frozen" and target_class(plain["augment"]).same_text:
        problem = f"augment={augment}: the views of a frozen encoder would be identical"
        kind = target_class(plain["dataset"]).kind
        makers = {name: get_object(choices("augment")[name]) for name in _choices_for("augment", kind)}
        fits = [name for name, maker in makers.items() if not (maker.same_text or maker.draws_first)]
        yield f"{problem}; allowed: {', '.join(['encoder.train=full', *(f'augment={name}' for name in fits)])}"
    if not issubclass(target_class(encoder), WordEncoder):
        return
    name = f"encoder={encoder['name']}"
    if augment == "embedding" and not encoder.get("path"):
        problem = f"augment=embedding: {name} starts from random word vectors, whose neighbours say nothing"
        others = _choices_for("augment", "text", without=["embedding"])
        yield f"{problem}; allowed: {', '.join(others)}, or encoder.path=FILE with word vectors"
    if serves(plain["method"]) == "clustering":
        yield f"encoder: found {encoder['name']}, allowed with task=cluster: a pretrained encoder"
    for key in ("active", "start_from"):
        if plain.get(key):
            yield f"{key}: {name} has a vocabulary of its own in every run; allowed: null, or a pretrained encoder"


def _without_weights() -> str:
    """Encoders that need none."""
    names = [name for name, target in choices("encoder").items() if getattr(get_object(target), "needs_none", False)]
    return ", ".join(f"encoder={name}" for name in names)


def _head_findings(plain: Plain) -> Iterator[str]:
    """What a head that generates does not go with."""
    head, encoder, method = f"head={plain['head']['name']}", plain["encoder"], plain["method"]
    losses = getattr(target_class(method), "losses_of_words", ())
    if not losses:
        kinds = {name: get_object(target) for name, target in choices("method").items()}
        allowed = ", ".join(name for name, kind in kinds.items() if getattr(kind, "losses_of_words", ()))
        yield f"{head}: found method={method['name']}; allowed: {allowed}"
    elif not issubclass(target_class(plain["loss"]), losses):
        choice = choice_name("loss", plain["loss"]["_target_"])
        yield f"loss: found {choice}; allowed with {head}: {choices_of_classes('loss', losses)}"
    for key in ("lora", "quantization"):
        if encoder.get(key) is not None:
            yield f"encoder.{key}: has no effect with {head}; allowed: null"
    if encoder["train"] == "frozen":
        yield f"encoder.train: found frozen, whose features hold no tokens; allowed with {head}: full, top_layers"
    if encoder.get("pooling") == "cls":
        yield f"encoder.pooling: found cls; allowed with {head}: mean, first_token, last_token"
    if plain["trainer"].get("gradient_cache_chunk") is not None:
        yield f"trainer.gradient_cache_chunk: allowed with {head}: null"


def _has_rows_that_choose(protocol: Mapping[str, Any]) -> bool:
    return protocol["name"] != "fixed" and (protocol["name"] != "kfold" or protocol["val_fraction"] > 0)


def _threshold_findings(plain: Plain) -> Iterator[str]:
    threshold, protocol = plain["method"].get("threshold"), plain["protocol"]
    if threshold in ("global", "per_label") and not _has_rows_that_choose(protocol):  # test rows would
        hint = signature(target_class(plain["method"]))[0]["threshold"].annotation
        by_folds = "folds, " if any("folds" in get_args(choice) for choice in get_args(hint)) else ""
        yield (
            f"method.threshold: found {threshold}, without rows to choose it by under protocol={protocol['name']}; "
            f"allowed: {by_folds}a number above 0 and below 1, or protocol=few_shot, clean"
        )


def _retrieval_findings(plain: Plain) -> Iterator[str]:
    try:
        retrieval = instantiate(plain["retrieval"])
    except Exception as error:  # Hydra wraps what a constructor raises
        yield first_line(error.__cause__ or error)
        return
    protocol = plain["protocol"]
    if _has_rows_that_choose(protocol) or "retrieval" in unused_groups(plain["method"]):
        return
    if plain["dataset"].get("labels") == 0:
        yield "retrieval: needs rows with a label, found dataset.labels=0; allowed: null, or some labels"
    elif retrieval.num_votes > 1:
        found, allowed = "protocol: found fixed", "few_shot, clean"
        if protocol["name"] == "kfold":
            found, allowed = "protocol.val_fraction: found 0", "0.15, another share above 0"
        yield (
            f"{found}, without rows to choose one of {retrieval.num_votes} votes by; allowed with retrieval=knn: "
            f"{allowed}, or one vote, as retrieval.num_neighbours=[5] retrieval.temperature=[1] retrieval.lam=[0.3]"
        )
    elif protocol["name"] == "kfold" and protocol["fold"] is None:
        yield "protocol.fold: found null, without rows to measure neighbours on; allowed with retrieval=knn: a fold"
