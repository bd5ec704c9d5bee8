"""Every YAML is valid; every value that a key can get is taken, or refused in one line."""

import inspect
import math
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import yaml
from hydra.utils import get_object, instantiate
from hypothesis import given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

from engine.allowed_targets import CONF
from engine.validation import SUPPLIED, ConfigError, Paths, Top, mismatch, signature, validate
from tests.engine.plans import composed, findings

FILES = sorted(path.relative_to(CONF).with_suffix("") for path in CONF.rglob("*.yaml") if path.parent != CONF)
# what has no default and must be given with the choice
REQUIRED = {
    "dataset/csv": ["dataset.train=train.csv"],
    "dataset/jsonl": ["dataset.train=train.jsonl"],
    "dataset/aapd": ["dataset.folder=aapd"],
    "dataset/rcv1": ["dataset.folder=rcv1"],
    "dataset/mpqa_type": ["dataset.train=mpqa_type_train.csv"],
    "dataset/mpqa_polarity": ["dataset.train=mpqa_polarity_train.csv"],
    "dataset/mpqa_intensity": ["dataset.train=mpqa_intensity_train.csv"],
    "dataset/amazon_reviews": ["dataset.train=train.csv"],
    "dataset/hub": ["dataset.path=some/name"],
    "dataset/image_folder": ["dataset.root=images"],
    "imbalance/counts": ["imbalance.counts=[5,3]"],
    "imbalance/listed": ["imbalance.rows=[0,1,2]"],
}
ALONE = {"dataset", "loss", "augment", "imbalance", "protocol", "sampler", "retrieval", "active", "chat", "head"}
PATHS = {"runs": "runs", "data": "data", "cache": "cache", "source_mirror": None}
# only composed with a method and a data set of their own, nodes of Hydra's, or composed in test_composition.py
NOT_COMPOSED = {"all_methods", "hydra", "method_active", "method_dataset", "method_protocol", "method/base", "method"}


RAW = {"dataset", "loss", "augment", "imbalance", "protocol", "sampler", "retrieval"}  # whole without a composition


def config_of(file: Path) -> Any:
    """The file alone, or the config that it composes to."""
    node = OmegaConf.load(CONF / f"{file}.yaml")
    if str(file.parent) in RAW and "_target_" in node:
        given = [override.partition(".")[2] for override in REQUIRED.get(str(file), [])]
        return OmegaConf.create({str(file.parent): OmegaConf.merge(node, OmegaConf.from_dotlist(given))})
    return composed(f"{file.parent}={file.name}", *REQUIRED.get(str(file), []))


def plain(config: Any) -> dict:
    return OmegaConf.to_container(config, resolve=True)


@pytest.mark.slow
@pytest.mark.parametrize("group", sorted({str(file.parent) for file in FILES} - NOT_COMPOSED))
def test_every_file_of_a_group_is_valid(group: str) -> None:
    for file in [file for file in FILES if str(file.parent) == group and not file.name.startswith("_")]:
        config = config_of(file)
        validate({"task": "fit", "paths": PATHS} | plain(config))
        if group in ALONE and (config.get(group) or {}).get("_target_"):
            assert instantiate(config[group]) is not None


def targets() -> list[tuple[str, Any]]:
    """Every key of the groups' nodes with what its node names, from the files as they are: composing takes long."""
    nodes: dict[str, Any] = {}
    for file in FILES:
        group, text = str(file.parent).removesuffix("/base"), (CONF / f"{file}.yaml").read_text(encoding="utf-8")
        content = yaml.safe_load(text) or {}
        node = content.get(group, {}) if text.startswith("# @package _global_") else content
        for key, child in _nodes(group.replace("/", "."), node):
            nodes.setdefault(f"{key} {child['_target_']}", (key, get_object(child["_target_"])))
    return list(nodes.values())


def _nodes(key: str, node: Any) -> Any:
    if isinstance(node, dict):
        if "_target_" in node:
            yield key, node
        for name, child in node.items():
            yield from _nodes(f"{key}.{name}", child)


@cache
def annotated_keys() -> list[tuple[str, Any, str, inspect.Parameter]]:
    """Group, target, name and parameter of every key that a config can set."""
    keys = []
    for key, target in [*targets(), ("", Top), ("paths", Paths)]:
        for name, parameter in signature(target)[0].items():
            if name not in SUPPLIED.get(key.partition(".")[0], ()):
                keys.append((key, target, name, parameter))
    return keys


EDGES = st.sampled_from([0, 1, -1, 2**63, 10**30, 1e19, 1e-320, math.inf, math.nan, True, "", "1", "../../x", "\ud800"])
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=200) | EDGES
VALUES = SCALARS | st.lists(SCALARS, max_size=3) | st.dictionaries(st.text(max_size=3), SCALARS, max_size=2)


@settings(max_examples=1500, deadline=None)
@given(st.data())
def test_a_value_is_taken_or_refused_in_one_line_that_names_it(data: st.DataObject) -> None:
    key, target, name, parameter = data.draw(st.sampled_from(annotated_keys()), label="key")
    value = data.draw(VALUES)
    problem = mismatch(value, parameter.annotation)
    if problem is not None:
        assert problem and "\n" not in problem
    if isinstance(value, bool) and mismatch(None, parameter.annotation) in ("a whole number", "a number"):
        assert problem
    if isinstance(value, float) and not math.isfinite(value) and parameter.annotation is not Any:
        assert problem, f"{key}.{name} of {target} takes {value}"


def test_every_default_is_allowed_by_its_own_annotation() -> None:
    wrong = [
        f"{key}.{name}={parameter.default!r}"
        for key, _, name, parameter in annotated_keys()
        if parameter.default is not parameter.empty
        and mismatch(
            list(parameter.default) if isinstance(parameter.default, tuple) else parameter.default, parameter.annotation
        )
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("overrides", "finding"),
    [
        ("loss.tau=0", "loss.tau: found 0; allowed: a number > 0"),
        ("loss.tau=inf", "loss.tau: found inf; allowed: a number > 0"),
        ("loss.tau='1'", "loss.tau: found '1'; allowed: a number > 0"),
        ("method.K=1.5", "method.K: found 1.5; allowed: a whole number >= 1"),
        ("method.K=true", "method.K: found True; allowed: a whole number >= 1"),
        ("sampler.batch_size=1e19", "sampler.batch_size: found 1e+19; allowed: a whole number >= 2"),
        ("trainer.num_threads=100000", "trainer.num_threads: found 100000; allowed: a whole number >= 1 and <= 1024"),
        ("trainer.max_epochs=10000000000000000000", "trainer.max_epochs: found 10000000000000000000; allowed: a whole"),
        ("trainer.max_steps=0", "trainer.max_steps: found 0; allowed: a whole number >= 1 or -1"),
        ("encoder.pooling=max", "encoder.pooling: found 'max'; allowed: mean, cls, first_token"),
        (
            "imbalance=listed imbalance.rows=[]",
            "imbalance.rows: found []; allowed: a list, not empty, of a whole number",
        ),
        (
            "imbalance=listed imbalance.rows=[1.5]",
            "imbalance.rows: found [1.5]; allowed: a list, not empty, of a whole",
        ),
        ("imbalance=counts imbalance.counts=[]", "imbalance.counts: found []; allowed: a list, not empty, of a whole"),
        ("dataset=csv dataset.train=x dataset.label_names=abc", "dataset.label_names: found 'abc'; allowed: a list"),
        ("dataset.name=../../x", "dataset.name: found '../../x'; allowed: text that matches"),
        ("+optimizer.betas=abc", "optimizer.betas: found 'abc'; allowed: a list of 2: a number"),
        ("+callbacks.x=5", "callbacks.x: found 5; allowed: null, or a node with a _target_"),
        ("method=ce +nonsense=null", "nonsense: unknown key of the config; allowed: add, "),
        ("+encoder.lora={a:1}", "encoder.lora: found {'a': 1}; allowed: LoRA or null"),
        ("method=ce +loss.b=1", "loss.b: unknown key of losses.CrossEntropy"),
        ("method=ce +optimizer.betas=[1,2,3]", "optimizer.betas: found [1, 2, 3]; allowed: a list of 2: "),
        ("+method.seed=3", "method.seed: unknown key of "),
        (
            "scheduler._target_=torch.optim.lr_scheduler.StepLR",
            "scheduler._target_: found 'torch.optim.lr_scheduler.StepLR'; allowed: one that takes total_steps",
        ),
        ("scheduler._target_=torch.optim.lr_scheduler.OneCycleLR ~scheduler.warmup_ratio", "scheduler.max_lr: missing"),
        (
            "method=ce active=rep_clun dataset=agnews +active.strategy.num_labels=3",
            "active.strategy.num_labels: unknown key of active_learning.strategies.rep_clun; allowed: max_rows, starts",
        ),
        (
            "method=ce active=class_balanced dataset=agnews +active.strategy.strategy.query_size=3",
            "active.strategy.strategy.query_size: unknown key of active_learning.strategies.entropy; allowed: none",
        ),
        ("+method.k=3", "method.k: unknown key of "),
        ("~method.name", "method.name: missing; allowed: text"),
        ("~paths.runs", "paths.runs: missing; allowed: text"),
        ("output=''", "output: found ''; allowed: text that matches"),
        ("head=text_to_text method=ce head.unparsable=guess", "head.unparsable: found 'guess'; allowed: error, first_"),
        ("head=text_to_text method=ce trainer.gradient_cache_chunk=4", "trainer.gradient_cache_chunk: allowed with"),
        ("method=simcse method.num_views=1", "method.num_views: found 1; allowed: 2"),
        ("method=paco method.queue_size=-1", "method.queue_size: found -1; allowed: a whole number >= 0"),
        ("method=paco method.momentum=1", "method.momentum: found 1; allowed: a number >= 0 and < 1 or null"),
        ("method=tsc method.momentum=null", "method.momentum: found None; allowed: a number >= 0 and < 1"),
        ("method=gpaco method.num_views=3", "method.num_views: found 3; allowed: 2"),
        ("method=gpaco loss.label_smoothing=1", "loss.label_smoothing: found 1; allowed: a number >= 0 and < 1"),
        ("method=tsc method.representation_share=2", "method.representation_share: found 2; allowed: a number >= 0 "),
        ("method=bcl method.views=both", "method.views: found 'both'; allowed: shared, separate"),
        ("method=focal loss.gamma=-1", "loss.gamma: found -1; allowed: a number >= 0"),
        ("method=dice loss.reading=both", "loss.reading: found 'both'; allowed: per_sample, batch"),
        ("method=ldam_drw method.reweight_from=2", "method.reweight_from: found 2; allowed: a number >= 0 and <= 1"),
        ("method=ldam_drw +method.classifier_bias=true", "method.classifier_bias: found True; allowed: False"),
        ("method=scl_ce method.mu=1.5", "method.mu: found 1.5; allowed: a number >= 0 and <= 1"),
        (
            "method=dualcl method.label_tokens=some",
            "method.label_tokens: found 'some'; allowed: class_names, names, learned",
        ),
    ],
)
def test_a_bad_value_is_one_line_with_key_value_and_what_is_allowed(overrides: str, finding: str) -> None:
    (line,) = findings(overrides)
    assert line.startswith(finding)


@pytest.mark.parametrize("group", ["loss", "encoder", "dataset", "imbalance", "sampler", "protocol", "trainer"])
@pytest.mark.parametrize("word", ["_partial_=1", "_recursive_=false", "_convert_=all", "_args_=[1]"])
def test_keys_of_hydra_are_no_options(group: str, word: str) -> None:
    """They would change how a node is called, beside its signature."""
    (line,) = findings(f"+{group}.{word}")
    assert line.startswith(f"{group}.{word.partition('=')[0]}: found ")


def test_all_findings_come_at_once() -> None:
    assert len(findings("loss.tau=0 method.K=0 imbalance.ir=0")) == 3


def test_a_long_value_is_not_echoed_whole() -> None:
    (line,) = findings(f"encoder.pooling={'x' * 5000}")
    assert len(line) < 250


class OwnHint:
    """A node with hints of every kind, `Any` among them."""

    def __init__(self, anything: Any = 1, free: list[Any] = (), path: Path = Path("x"), first: Literal[1] = 1) -> None:
        pass


def test_hints_of_any_kind() -> None:
    hints = {name: parameter.annotation for name, parameter in signature(OwnHint)[0].items()}
    assert mismatch({"a": 1}, hints["anything"]) is mismatch([1, "a"], hints["free"]) is None
    assert mismatch("x/y", hints["path"]) is None and mismatch(True, hints["first"]) == "1"
    assert mismatch(None, Annotated[int, ">= 1"] | None) is None
    assert mismatch(0, Annotated[int | None, ">= 1"]) == "a whole number or null >= 1"


def test_a_config_of_an_older_run_without_newer_keys_is_still_valid() -> None:
    config = plain(composed())
    for name in ("add", "explain", "label_column"):
        del config[name]
    validate(config)
    del config["seed"], config["paths"]["cache"]
    with pytest.raises(ConfigError, match="paths.cache: missing"):
        validate(config)
