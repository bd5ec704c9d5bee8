"""Estimates of time come from measured runs, the nearest kind first."""

import copy

import pytest
import yaml

from papers.estimates import START_SECONDS, Stopwatch
from storage.run_store import RunFolder

CONFIG = {
    "method": {"name": "ce", "num_views": 1},
    "dataset": {"name": "toy"},
    "imbalance": {"ir": None},
    "encoder": {"name": "minilm", "train": "full"},
    "trainer": {"accelerator": "cpu", "max_epochs": 2},
    "seed": 0,
}


def config(**changes):
    changed = copy.deepcopy(CONFIG)
    for key, value in changes.items():
        node, _, leaf = key.rpartition("__")
        (changed[node] if node else changed)[leaf] = value
    return changed


@pytest.fixture
def runs(tmp_path):
    def add(name, seconds, rows=100, total=None, **changes):
        run = RunFolder(tmp_path / name)
        run.write_text("config.yaml", yaml.safe_dump(config(**changes)))
        metrics = {"seconds/train": seconds, "seconds/total": seconds if total is None else total}
        run.write_metrics(metrics, status="finished", class_counts=[rows // 2, rows - rows // 2])
        return run

    return add


def test_other_seeds_of_the_same_config_come_first(runs):
    watch = Stopwatch([runs("a", 100, seed=1), runs("b", 120, seed=2), runs("c", 900, method__name="acl")])
    assert watch.estimate(config(seed=7)).seconds == 110
    assert watch.estimate(config(seed=7)).source == "2 of the same config"


def test_then_the_same_method_then_texts_a_second(runs):
    watch = Stopwatch([runs("a", START_SECONDS + 100, rows=100)])
    near = watch.estimate(config(optimizer={"lr": 1}))
    assert (near.seconds, near.source) == (START_SECONDS + 100, "1 of the same method")
    more = watch.estimate(config(method__name="acl", method__num_views=4))
    assert more.seconds == pytest.approx(START_SECONDS + 400) and "texts a second" in more.source
    assert watch.estimate(config(dataset__name="other")).seconds is None
    told = Stopwatch([runs("a", START_SECONDS + 100)], {("other", "None"): 50})
    assert told.estimate(config(dataset__name="other")).seconds == pytest.approx(START_SECONDS + 50)


def test_a_resumed_run_counts_all_its_starts(runs):
    assert Stopwatch([runs("a", 100, total=30)]).estimate(config(seed=3)).seconds == 100


def test_another_encoder_says_nothing(runs):
    watch = Stopwatch([runs("a", 100)])
    assert watch.estimate(config(encoder__train="frozen")).seconds is None


def test_curves_are_estimated_from_curves_alone_and_their_rounds_count_for_nothing(runs):
    entropy, random = {"name": "entropy"}, {"name": "random"}
    listed = {"_target_": "datamodules.imbalance.Listed", "rows": [1, 2]}
    measured = [runs("round", 9, rows=4, imbalance=listed), runs("plain", 50), runs("curve", 700, active=entropy)]
    watch = Stopwatch(measured)
    assert watch.estimate(config(active=entropy, seed=3)).seconds == 700
    assert watch.estimate(config(active=random)).source == "1 curves on the same data"
    assert watch.estimate(config(seed=3)).seconds == 50
    assert Stopwatch([runs("plain", 50)]).estimate(config(active=random)).seconds is None


def test_a_clustering_leaves_the_known_training_rows_alone(runs):
    measured, clustering = runs("a", START_SECONDS + 100), runs("b", 5, method__name="sbert_kmeans")
    clustering.write_json("metrics.json", {"status": "finished", "seconds/total": 5, "cluster/texts": 200})
    told = Stopwatch([measured, clustering])
    assert told.rows == {("toy", "None"): 100}


def test_runs_until_convergence_and_on_fewer_labels_say_nothing_of_other_runs(runs):
    thinned = {"name": "toy", "labels": 10}
    runs_at_hand = [
        runs("a", START_SECONDS + 100, rows=100),
        runs("b", 900, rows=100, trainer__max_epochs="enough"),
        runs("c", START_SECONDS + 1, rows=10, dataset=thinned),
    ]
    told = Stopwatch(runs_at_hand).estimate(config(method__name="acl", method__num_views=2))
    assert told.seconds == pytest.approx(START_SECONDS + (200 + 20) / 2)
