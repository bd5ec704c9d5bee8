"""Parts of a config that do not go together are refused by the plan; what a message advises is accepted."""

import re
from types import SimpleNamespace
from unittest import mock

import pytest
from hydra import compose, initialize_config_dir
from hydra.utils import get_object
from omegaconf import OmegaConf

from engine.allowed_targets import CONF
from engine.choices import choices
from engine.composition import serves
from engine.finished import _own_config
from engine.identify import compose_run
from engine.identity import completed, run_id
from engine.overrides import with_brackets, with_keys_of_each_job, with_literal_texts
from engine.plan import Plan
from engine.validation import validate
from tasks.active import active
from tasks.active.people import options_of
from tests.engine.plans import bare, composed, findings, refused, without_defaults

TASKS = {"classification": "fit", "clustering": "cluster"}
# a line; what it is refused for; which of what is allowed is typed, as a whole line
REFUSED = [
    ("method=ce loss=scl", "loss: found scl; allowed with method=ce: balanced_softmax, class_balanced, cross_entropy"),
    ("method=sharprecl loss=cross_entropy", "loss: found cross_entropy; allowed with method=sharprecl: sharprecl"),
    ("method=acl loss=scl", "loss: found scl; allowed with method=acl: acl"),
    ("method=hybrid_sc loss=simcse", "loss: found simcse; allowed with method=hybrid_sc: psc, scl"),
    ("method=post_hoc_logit_adjustment loss=balanced_softmax", "loss: found balanced_softmax; allowed with method="),
    ("method=ldam_drw loss=cross_entropy", "loss: found cross_entropy; allowed with method=ldam_drw: ldam"),
    ("task=cluster method=sccl loss=rstc", "loss: found rstc; allowed with method=sccl: sccl"),
    ("loss=null", "loss: found null; allowed with method=sharprecl: sharprecl"),
    ("~loss", "loss: found null; allowed with method=sharprecl: sharprecl"),
    ("method=ce optimizer=null", "optimizer: found null; allowed: adamw"),
    ("augment=null", "augment: found null; allowed with method.num_views > 1: back_translation, contextual, dropout"),
    ("method=dualcl encoder.train=frozen", "encoder.train: found frozen; allowed with method=dualcl: full, top_layers"),
    ("method=spcl encoder.train=frozen", "encoder.train: found frozen; allowed with method=spcl: full, top_layers"),
    ("protocol=transductive method=ce", "protocol: found transductive; allowed with method=ce: clean, few_shot"),
    ("protocol.mode=min", "protocol.mode: found min; allowed with protocol.monitor=val/macro_f1: max"),
    ("protocol.monitor=val/loss", "protocol.mode: found max; allowed with protocol.monitor=val/loss: min"),
    ("protocol.monitor=val/f2", "protocol.monitor: found 'val/f2'; allowed: val/"),
    ("callbacks.best=null", "callbacks.best: found null; a run is tested with the weights it keeps"),
    ("method=setfit_pairs protocol=kfold", "protocol.monitor: found 'val/macro_f1'; allowed with method=setfit_pairs"),
    ("+callbacks.x._target_=callbacks.timing.Timing", "callbacks.x: found what callbacks.timing is already; allowed: "),
    ("method=kontrast retrieval=knn", "protocol: found fixed, without rows to choose one of 275 votes by; allowed "),
    ("method=kontrast retrieval=knn dataset.labels=0", "retrieval: needs rows with a label, found dataset.labels=0"),
    ("method=setfit_pairs protocol=kfold protocol.monitor=null protocol.val_fraction=0 retrieval=knn",
     "protocol.val_fraction: found 0, without rows to choose one of 275 votes by; allowed "),
    ("callbacks=null", "callbacks.best: found null; a run is tested with the weights it keeps"),
    ("head=text_to_text", "head=text_to_text: found method=sharprecl; allowed: "),
    ("head=text_to_text method=ce loss=focal", "loss: found focal; allowed with head=text_to_text: cross_entropy"),
    ("head=text_to_text method=ce encoder.train=frozen", "encoder.train: found frozen"),
    ("task=cluster method=tfidf_kmeans retrieval=knn", "retrieval: has no effect with method=tfidf_kmeans; allowed: "),
    ("task=cluster method=tfidf_kmeans sampler=shuffle", "sampler: has no effect with method=tfidf_kmeans; allowed: "),
    ("task=cluster method=sccl imbalance=step imbalance.ir=5", "imbalance: has no effect with method=sccl; allowed: "),
    ("method=ce start_from=last", "start_from: found last, another run once this one is finished; "),
]
CLUSTERING = [  # refused alike; not every message advises a word
    ("task=cluster method=ce", "method: found ce, for classification; allowed with task=cluster: "),
    ("task=fit method=sbert_kmeans", "method: found sbert_kmeans, for clustering; allowed with task=fit: "),
    ("task=cluster method=bow_kmeans augment=eda", "augment: has no effect with method=bow_kmeans"),
    ("task=cluster method=bow_kmeans encoder=minilm", "encoder: has no effect with method=bow_kmeans"),
    ("task=cluster method=sbert_kmeans start_from=ID", "start_from: has no effect with method=sbert_kmeans"),
    ("task=cluster method=sbert_kmeans sampler=class_balanced", "sampler: draws by labels, which clustering"),
    ("task=cluster method=bow_kmeans trainer.max_epochs=3", "trainer.max_epochs: has no effect; "),
    ("task=cluster method=bow_kmeans protocol=clean", "protocol: found clean; allowed with method=bow_kmeans"),
    ("task=cluster method=sbert_kmeans encoder.train=full", "encoder.train: found full; allowed with method="),
    ("task=fit method=ce protocol=transductive", "protocol: found transductive; allowed with method=ce: clean, "),
    ("task=cluster method=bow_kmeans method.num_clusters=1", "method.num_clusters: found 1; allowed: "),
    ("task=cluster method=self_train augment=eda", "augment: has no effect; allowed with method.num_views>1"),
    ("task=cluster method=self_train method.layer_sizes=foo", "method.layer_sizes: found 'foo'; allowed: a list"),
    ("task=cluster method=self_train method.layer_sizes=[8,0]", "method.layer_sizes: found [8, 0]; allowed: a"),
    ("task=cluster method=self_train method.layer_sizes=[]", "method.layer_sizes: found []; allowed: a list, not"),
    ("task=cluster method=aecl callbacks=default ~callbacks.best", "callbacks.early_stopping: serves"),
    ("method=ce dataset.labels=0", "dataset.labels: found 0, and method=ce learns from labels; allowed: >= 1, or a "
     "method that reads the names of the classes: kontrast, nearest_name, prototypes, prototypes_words"),
    ("method=setfit_pairs dataset.labels=0", "dataset.labels: found 0, and method=setfit_pairs learns from labels; "),
    ("method=kontrast_labels dataset=reuters21578 method.threshold=global", "method.threshold: found global, without "),
    ("method=bce_words dataset=reuters21578 dataset.labels=0", "dataset.labels: found 0, and method=bce_words learns "),
    ("method=ce dataset=digits dataset.labels=0", "dataset.labels: found 0, and method=ce learns from labels; "),
]


@pytest.mark.parametrize(("line", "message"), [*REFUSED, *CLUSTERING], ids=lambda value: value.split(":")[0])
def test_what_does_not_go_together_is_one_line(line: str, message: str) -> None:
    (finding,) = findings(line)
    assert finding.startswith(message)
    if (line, message) in REFUSED:
        what_it_advises_is_accepted(line, finding)


def what_it_advises_is_accepted(line: str, finding: str) -> None:
    """The key with the first value that is allowed, typed behind the line in place of what was refused."""
    key, allowed = finding.partition(":")[0], finding.rpartition("allowed")[2].rpartition(": ")[2]
    if key == "callbacks.best":
        key, allowed = "callbacks", allowed.rpartition("=")[2]
    if key == "head=text_to_text":
        key = "method"
    advised = re.split(r", | \(", allowed)[0].removeprefix(f"{key}=")
    words = [(word, word.lstrip("~").partition("=")[0]) for word in line.split()]
    kept = [word for word, name in words if name != key and not name.startswith(f"{key}.")]
    assert [actual for actual in findings(" ".join([*kept, f"{key}={advised}"])) if actual.startswith(key)] == []


@pytest.mark.parametrize(("method", "allowed"), [("kontrast_labels", "folds, a number"), ("bce", "a number")])
def test_folds_are_advised_where_the_method_has_them(method: str, allowed: str) -> None:
    protocol = "protocol=kfold protocol.val_fraction=0"
    (finding,) = findings(f"method={method} dataset=reuters21578 {protocol} method.threshold=global")
    assert f"under protocol=kfold; allowed: {allowed} above 0" in finding


def test_no_thinning_is_a_plan() -> None:
    assert findings("method=ce imbalance=null") == findings("method=ce ~imbalance") == []


@pytest.mark.parametrize("method", choices("method"))
def test_a_method_says_what_it_takes_and_is_the_same_run_with_every_default(method: str) -> None:
    kind, serves_ = get_object(choices("method")[method]), serves({"_target_": choices("method")[method]})
    assert "losses" in vars(kind) or any("losses" in vars(parent) for parent in kind.__mro__[1:-1])
    config = composed(f"method={method}", f"task={TASKS[serves_]}")
    assert refused(config) == []
    plain = OmegaConf.to_container(config, resolve=True)
    validate(completed(plain))
    assert run_id(completed(plain)) == run_id(plain)
    assert Plan.make(OmegaConf.create(without_defaults(plain))).plain == Plan.make(config).plain
    if serves_ == "classification":
        config.dataset.labels = 0
        lines = refused(config)
        assert len(lines) == kind.needs_labels and all("dataset.labels: " in line for line in lines)


def test_what_is_read_before_a_plan_may_stand_in_no_file() -> None:
    config = composed("method=ce", "active=class_balanced", "dataset=agnews")
    plain = OmegaConf.to_container(config, resolve=True)
    validate(completed(plain))
    run = SimpleNamespace(id="ce-agnews-0", read_config=lambda: completed(plain))
    assert _own_config(run, bare(config)).trainer.num_threads is None
    assert options_of(bare(config)) == completed(plain)["active"]
    with mock.patch("tasks.active.rounds.learn") as learn:
        active(bare(config), [])
    assert learn.call_args.args[2] is None, "labels answer from the data set"


def test_few_methods_learn_from_names_alone() -> None:
    kinds = {name: get_object(target) for name, target in choices("method").items()}
    read_names = {name for name, kind in kinds.items() if not getattr(kind, "needs_labels", True)}
    assert read_names == {"kontrast", "nearest_name", "prototypes", "prototypes_words"}


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ("dataset=trec,agnews dataset.deduplicate=train method=logistic", "dataset.deduplicate=choice(train)"),
        ("method=logistic,linear_words dataset.label_names=[a,b]", "dataset.label_names=choice([a,b])"),
        ("method=ce,bcl loss.tau=0.1,0.3", "loss.tau=0.1,0.3"),
        ("method=ce,bcl paths.runs=/tmp/runs", "paths.runs=/tmp/runs"),  # of the sweep, not of its jobs
        ("method=ce,bcl hydra.launcher.n_jobs=2", "hydra.launcher.n_jobs=2"),
        ("method=ce,bcl dataset.train=a=b.csv", "dataset.train=a=b.csv"),  # Hydra says what is wrong
        ("seed=0,1 loss.tau=0.1", "loss.tau=0.1"),
    ],
)
def test_a_sweep_over_a_group_leaves_its_keys_to_the_jobs(line: str, key: str) -> None:
    """Hydra would look for them in the default choice of the group."""
    words = with_keys_of_each_job(line.split())
    assert key in words and len(words) == len(line.split())


def test_the_home_folder_of_paths_is_told_by_us(monkeypatch) -> None:
    """The shell leaves it in `paths.runs=~/runs`."""
    typed, quoted = ["paths.runs=~/runs", "encoder.path=~/e5"], ["paths.runs='~/runs'", "encoder.path='~/e5'"]
    assert with_literal_texts(typed) == quoted
    monkeypatch.setenv("HOME", "/home/a")
    paths = compose_run(("paths.runs='~/runs'", "paths.cache='~/cache'", "paths.source_mirror=null")).config["paths"]
    assert paths == {"runs": "/home/a/runs", "data": "data", "cache": "/home/a/cache", "source_mirror": None}
    with initialize_config_dir(str(CONF), version_base="1.3"):
        sweep = compose("config", overrides=["paths.runs='~/runs'"], return_hydra_config=True).hydra.sweep
    assert sweep.dir.startswith("/home/a/runs/sweeps/")


def test_names_of_files_and_columns_are_taken_as_they_are_typed() -> None:
    typed = ["input=données.csv", "dataset.train=~/train (1).csv", "text_column=it's", "input='a b.csv'", "output=a&b"]
    quoted = ["input='données.csv'", "dataset.train='~/train (1).csv'", "text_column='it\\'s'", "input='a b.csv'"]
    others = ["loss.tau=é", "imbalance.rows=[1,2", "--help", "input=null"]
    assert with_literal_texts([*typed, *others]) == [*quoted, "output='a&b'", *others]
    assert with_literal_texts(["text_column= text", "sheet=Mai ", "sheet=' a'"]) == [
        "text_column=' text'", "sheet='Mai '", "sheet=' a'"]  # fmt: skip
    values = ["input=Smith, John.csv", "text_column=0", "label_column=true", "text_column=[x]"]
    alone = ["input='Smith, John.csv'", "text_column='0'", "label_column='true'", "text_column='[x]'"]
    assert with_literal_texts(values) == alone
    assert with_literal_texts(["-m", *values]) == ["-m", values[0], *alone[1:]]  # several, there


def test_a_list_of_names_may_lack_its_brackets_but_in_a_sweep():
    typed = ["methods=logistic", "methods=logistic,ce", "methods=[ce]", "methods=null", "prefer=speed"]
    assert with_brackets(typed) == ["methods=[logistic]", "methods=[logistic,ce]", *typed[2:]]
    assert with_brackets(["-m", *typed]) == ["-m", *typed]
