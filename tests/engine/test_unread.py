"""A key on the command line that no code of the run reads is an error, and only then."""

import pytest
from omegaconf import OmegaConf

from engine.help import task_keys, task_names
from engine.overrides import SHARED_WORDS
from engine.plan import Plan
from engine.unread import declared, unread
from engine.validation import ConfigError, Top
from tests.engine.plans import composed

SHOTS = ("many_above", "few_below")


def refused(line: str) -> list[str]:
    """Keys that a command line is refused for as without effect."""
    words = line.split()
    try:
        Plan.make(composed(*words), words)
    except ConfigError as error:
        return [finding.partition(":")[0] for finding in str(error).splitlines() if "has no effect" in finding]
    return []


@pytest.mark.parametrize(
    ("line", "keys"),
    [
        ("text_column=body", ["text_column"]),
        ("input=x.csv output=y.csv", ["input", "output"]),
        ("add=x.csv explain=true label_column=y", ["add", "explain", "label_column"]),
        ("method=ce augment=eda", ["augment"]),
        ("method=ce augment.rate=0.5", ["augment.rate"]),
        ("method=ce method.num_views=2 augment.rate=0.5", []),
        ("augment.rate=0.5", []),
        ("encoder.num_top_layers=1", ["encoder.num_top_layers"]),
        ("encoder.num_top_layers=1 encoder.train=top_layers", []),
        ("encoder.train=frozen optimizer.lr=1e-3", ["optimizer.lr"]),
        ("encoder.train=frozen optimizer.weight_decay=0.1", []),
        ("encoder.train=frozen callbacks.early_stopping=null", ["callbacks.early_stopping"]),
        ("encoder.train=frozen callbacks.early_stopping=null trainer.max_epochs=3", []),
        ("method=ce encoder.train=frozen optimizer.weight_decay=0.1", ["optimizer.weight_decay"]),
        ("method=ce encoder.train=frozen trainer.max_epochs=3", ["trainer.max_epochs"]),
        ("method=ce encoder.train=frozen method.num_views=2 method.classifier_bias=false trainer.precision=32", []),
        ("method=ce encoder.train=frozen sampler.eval_batch_size=9 sampler.batch_size=8", ["sampler.batch_size"]),
        ("method=ce encoder.train=frozen sampler=m_per_class", ["sampler"]),
        ("method=logistic +method.head_lr=1e-2 +method.dropout=0.2", ["method.head_lr", "method.dropout"]),
        ("method=logistic scheduler=constant callbacks=geometry", ["scheduler"]),
        ("method=logistic callbacks.early_stopping.patience=2", ["callbacks.early_stopping.patience"]),
        ("method=bce encoder.train=frozen method.initial_probability=0.5", ["method.initial_probability"]),
        ("method=knn_mltc encoder.train=frozen method.initial_probability=0.5 method.head_lr=1e-3", []),
        ("method=prototypes trainer.max_epochs=3 method.max_steps=2", ["trainer.max_epochs"]),
        ("method=nearest_name +method.head_lr=1 sampler=class_balanced", ["method.head_lr", "sampler"]),
        ("method=scl_ce encoder.train=frozen augment=source trainer.max_epochs=3 sampler=m_per_class", ["augment"]),
        ("method=class_balanced loss.gamma=1", ["loss.gamma"]),
        ("active=class_balanced dataset.class_descriptions=names.yaml", ["dataset.class_descriptions"]),
        ("active=class_balanced dataset.class_descriptions=names.yaml active.cold_start=names", []),
        ("method=class_balanced loss.gamma=1 loss.base=focal", []),
        ("loss.effective_number_beta=0.9 loss.class_weight=none", ["loss.effective_number_beta"]),
        ("method=dice loss.absent_classes=false", ["loss.absent_classes"]),
        ("method=spcl method.curriculum=none method.curriculum_start=0.2", ["method.curriculum_start"]),
        ("method=spcl method.dropout=0.2 method.head_lr=1e-2", ["method.dropout", "method.head_lr"]),
        ("method=dualcl method.dropout=0.2 method.head_lr=1e-2", ["method.head_lr"]),
        ("method=dualcl method.label_tokens=learned method.head_lr=1e-2", []),
        ("method=tsc method.dropout=0.2", ["method.dropout"]),
        ("method=tsc method.dropout=0.2 method.representation_share=0.5", []),
        ("method=tsc method.dropout=0.2 active=bald dataset=agnews", []),
        (
            "method=ce head=text_to_text method.dropout=0.2 method.head_lr=1e-2 method.classifier_bias=false",
            ["method.dropout", "method.head_lr", "method.classifier_bias"],
        ),
        ("task=cluster method=sbert_kmeans method.max_words=9", ["method.max_words"]),
        ("task=cluster method=bow_kmeans trainer.max_epochs=3", ["trainer.max_epochs"]),
        ("chat=gpt35", ["chat"]),
        ("cluster.level=3 cluster.names=[a]", ["cluster.level", "cluster.names"]),
        ("task=cluster method=sbert_kmeans chat=gpt35 cluster.level=3", []),
        ("protocol.val_from=unthinned", ["protocol.val_from"]),
        ("protocol.read_test=false", []),
        ("method=ce active=bald dataset=agnews protocol.read_test=false", ["protocol.read_test"]),
        ("method=gml method.mu=0 loss.tau=0.1", ["loss.tau"]),
        ("method=sharprecl method.mu=0 method.K=9 method.num_views=3 loss.tau=3", ["method.K", "loss.tau"]),
        ("method=simcse method.mu=0 loss.tau=3", ["loss.tau"]),
        ("method=dualcl method.mu=0 loss.tau=3", ["loss.tau"]),
        ("method=bcl method.mu=0 loss.tau=3 method.projection_size=3", ["loss.tau", "method.projection_size"]),
        ("method=scl_hnm method.alpha=0 loss.num_hard_negatives=3", ["loss.num_hard_negatives"]),
        ("method=scl_hnm loss=scl method.alpha=0 loss.tau=3", ["loss.tau"]),
        ("method=scl_ce method.mu=0 loss.tau=3", ["loss.tau"]),
        ("method=scl_ce loss.tau=3", []),
        ("method=knn_mltc method.gamma=0 loss.tau=3", ["loss.tau"]),
        ("retrieval=knn retrieval.index=flat retrieval.probes=8", ["retrieval.probes"]),
        ("retrieval=knn retrieval.index=hnsw retrieval.probes=8", ["retrieval.probes"]),
        ("retrieval=knn retrieval.probes=8", []),
        ("method=spcl loss.decoupled=true loss.margin=0.1", ["loss.margin"]),
        (
            "method=ldam_drw method.reweight_from=1 loss.average=rows method.schedule_by=step",
            ["loss.average", "method.schedule_by"],
        ),
        ("task=cluster method=aecl loss.guided=false loss.positives=all loss.rows=own", ["loss.positives"]),
        ("task=cluster method=aecl method.stage2_epochs=0 method.unit_length=false", ["method.unit_length"]),
        ("task=cluster method=aecl method.unit_length=false", []),
        ("task=cluster method=aecl loss.pseudo_weight=0 loss.threshold=0.5", ["loss.threshold"]),
        ("task=cluster method=aecl loss.instance_weight=0 loss.guided=false", ["loss.guided"]),
        ("task=cluster method=ccssl loss.instance_weight=0 loss.contrast_threshold=0.5", ["loss.contrast_threshold"]),
        ("task=cluster method=aecl loss.row_entropy_weight=0 loss.entropies=as_printed", []),
        (
            "task=cluster method=aecl loss.row_entropy_weight=0 loss.balance_weight=0 loss.entropies=as_printed",
            ["loss.entropies"],
        ),
        ("method=acl method.alpha=0 method.centre_momentum=0.5", ["method.centre_momentum"]),
        ("task=cluster method=rstc method.sizes=uniform method.size_weight=1", ["method.size_weight"]),
        ("method=crt method.representation_share=1 method.classifier_weighting=none", ["method.classifier_weighting"]),
        ("protocol.val_from=unthinned imbalance.ir=9", []),
        ("dataset={} method={}", ["dataset", "method"]),
        ("method=ce active=bald active.mc_passes=5 dataset=agnews", []),
        (
            "method=ce active=subsample active.strategy.strategy._target_=active_learning.strategies.bald "
            "active.mc_passes=5 dataset=agnews",
            [],
        ),
        ("method=ce active=discriminative active.mc_passes=5 dataset=agnews", ["active.mc_passes"]),
        ("rival=null", []),
        ("method=prototypes rival=null", []),
        ("method=logistic rival=logistic", ["rival"]),
        ("method=ce encoder.train=frozen rival=null", ["rival"]),
        ("method=bce rival=null dataset=reuters21578", []),
        ("method=bce encoder.train=frozen rival=null dataset=reuters21578", ["rival"]),
        ("method=scl_hnm active=rep_clun rival=null dataset=agnews", []),
        ("method=prototypes dataset=agnews dataset.labels=0 rival=null", ["rival"]),
        ("method=bce encoder=cnn dataset=reuters21578 rival=null", ["rival"]),
        ("task=cluster method=bow_kmeans dataset.labels=9", ["dataset.labels"]),
        ("task=cluster method=sccl dataset.many_above=9 dataset.few_below=3", [f"dataset.{key}" for key in SHOTS]),
        ("task=cluster method=sccl dataset.labels_per_class=9", ["dataset.labels_per_class"]),
        ("method=prototypes dataset.class_descriptions=x.yaml", []),
        ("method=nearest_name dataset.class_descriptions=x.yaml", []),
        (
            "method=prototypes method.use_names=false dataset.class_descriptions=x.yaml",
            ["dataset.class_descriptions"],
        ),
        ("method=bce_words method.use_names=false dataset.class_descriptions=x.yaml", ["dataset.class_descriptions"]),
        (
            "method=kontrast protocol=few_shot method.use_names=false dataset.class_descriptions=x.yaml active=random "
            "active.oracle=browser",
            [],
        ),
        ("method=ce dataset.class_descriptions=x.yaml active=random active.oracle=browser", []),
        ("method=ce dataset.class_descriptions=x.yaml active=random", ["dataset.class_descriptions"]),
        (
            "method=ce active=random active.oracle=browser dataset.unlabelled=x.csv dataset.most_unlabelled=9",
            ["dataset.most_unlabelled"],
        ),
        ("method=dualcl dataset.class_descriptions=x.yaml", []),
        ("method=dualcl method.label_tokens=names dataset.class_descriptions=x.yaml", ["dataset.class_descriptions"]),
        ("method=kontrast loss.q=0.5", []),
        ("method=kontrast encoder.train=frozen loss.q=0.5 loss.label_weight=2", ["loss.q", "loss.label_weight"]),
        (
            "method=nearest_name dataset.unlabelled=x.csv dataset.most_unlabelled=9",
            ["dataset.unlabelled", "dataset.most_unlabelled"],
        ),
        ("method=nearest_name method.max_steps=1 dataset.unlabelled=x.csv", []),
        ("method=prototypes method.max_steps=0 dataset.unlabelled=x.csv", ["dataset.unlabelled"]),
        ("method=prototypes_words method.max_steps=0 dataset.unlabelled=x.csv", []),
        ("method=kontrast method.max_steps=0 dataset.unlabelled=x.csv", []),
        ("seed=3 trainer.max_epochs=2 loss.tau=0.5 +optimizer.eps=1e-7", []),
    ],
)
def test_what_nothing_reads_is_refused(line: str, keys: list[str]) -> None:
    assert refused(line) == keys


def test_the_help_names_the_tasks_that_read_a_key() -> None:
    keys = {task: {line.partition("=")[0] for line, _ in task_keys(task)} for task in task_names()}
    for key, condition in declared("", Top):
        assert {task for task in keys if key in keys[task]} == set(condition.removeprefix("task=").split("|")), key


def test_words_that_are_shared_by_methods_may_be_idle_for_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SHARED_WORDS, "1")
    assert refused("method=logistic trainer.max_epochs=3") == []


def test_the_keys_that_a_config_does_not_read_are_known_without_a_command_line() -> None:
    plain = OmegaConf.to_container(composed("method=ce"), resolve=True)
    assert {"augment", "text_column", "encoder.num_top_layers"} <= unread(plain).keys()
    assert not {"method", "loss", "encoder", "optimizer.lr"} & unread(plain).keys()
