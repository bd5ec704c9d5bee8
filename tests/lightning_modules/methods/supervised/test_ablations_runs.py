"""ACL, its ablations and those of SharpReCL, from the command line to the files of a run."""

import pytest
import torch

from tests.command_lines import best_weights, rows

pytestmark = pytest.mark.slow

def test_a_method_without_pairs_is_refused(fit):
    assert "callbacks.gradient_conflict" in fit("method=ce", "callbacks=gradient_conflict").error


def test_acl_end_to_end(fit, use):
    groups = ["method.few_below=10", "method.many_above=20"]
    result = fit("method=acl", "callbacks=gradient_conflict", "trainer.max_epochs=3", *groups)
    history = rows(result.folder / "history.csv")
    assert float(history[-1]["train/loss"]) < float(history[0]["train/loss"])
    assert {"train/contrastive", "train/classification"} <= set(history[0])
    weights = best_weights(result.folder)
    assert weights["is_seen"].all() and "views" not in weights
    lines = rows(result.folder / "gradient_conflict.csv")
    assert {line["epoch"] for line in lines} == {"0", "1", "2"} and {line["conflicts"] for line in lines} == {"0"}
    evaluated = use("evaluate", result)
    assert evaluated.code == 0, evaluated.err


CONTRASTING = ["sharprecl", "scl_ce", "scl_hnm", "simcse", "spcl", "hybrid_sc", "bcl", "paco", "gpaco"]


@pytest.mark.parametrize("method", CONTRASTING)
def test_conflicts_are_counted_for_every_method_that_contrasts_the_batch(fit, method):
    result = fit(f"method={method}", "callbacks=gradient_conflict", "trainer.max_epochs=1", "sampler.batch_size=16")
    lines = rows(result.folder / "gradient_conflict.csv")
    assert len(lines) == 4 and all(int(line["pairs"]) > 0 for line in lines)
    shares = [int(line["conflicts"]) / int(line["pairs"]) for line in lines]
    if method in ("simcse", "paco", "gpaco"):  # one repels texts of a class, the others weigh positives by 0.01
        assert max(shares) > 0
    else:
        assert min(shares) < 0.5


@pytest.mark.parametrize("experiment", ["acl_baseline", "acl_scl_uniform"])
def test_ablations_of_acl_train(fit, experiment):
    result = fit(f"experiment={experiment}", "trainer.max_epochs=1")
    assert result.metrics["status"] == "finished"
    assert ("train/contrastive" in rows(result.folder / "history.csv")[0]) == (experiment != "acl_baseline")


def test_an_ablation_of_sharprecl_keeps_the_weights_of_its_own(fit):
    """A step of each of the others is in test_sharprecl_ablations.py."""
    weights = best_weights(fit("experiment=sharprecl_wo_cls", "trainer.max_epochs=1").folder)
    assert not torch.equal(weights["prototype_weights"], weights["classifier.weight"])
