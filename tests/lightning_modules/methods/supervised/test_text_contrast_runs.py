"""SimCSE, SCL with cross-entropy, SCL-HNM, Hybrid-SC, DualCL and SPCL from the command line to predictions."""

import pytest

from tests.command_lines import best_weights

pytestmark = pytest.mark.slow

# z and theta are single positions, which a random encoder fills only in time
SLOWLY = ["sampler.batch_size=8", "trainer.max_epochs=14", "callbacks.early_stopping=null", "optimizer.lr=5e-3"]
RUNS = {
    "simcse": ["method=simcse", "augment=dropout"],
    "scl_ce": ["method=scl_ce"],
    "scl_hnm": ["method=scl_hnm"],
    "hybrid_sc": ["method=hybrid_sc"],
    "hybrid_psc": ["method=hybrid_sc", "loss=psc"],
    "dualcl": ["method=dualcl", *SLOWLY],
    "dualcl_learned": ["method=dualcl", "method.label_tokens=learned", *SLOWLY],
    "spcl": ["method=spcl", "method.pool_size=16", "method.num_drawn=4"],
    "spcl_centres": ["method=spcl", "method.centres_per_class=2"],
}
WITHOUT_LINEAR_HEAD = {"dualcl": "method=dualcl", "spcl_centres": "method.centres_per_class: found 2"}


@pytest.mark.parametrize("name", RUNS)
def test_it_learns(fit, use, tmp_path, name):
    result = fit("sampler.batch_size=16", "trainer.max_epochs=8", *RUNS[name])
    assert result.metrics["status"] == "finished" and result.metrics["method"] == RUNS[name][0].split("=")[1]
    assert result.metrics["test/accuracy"] >= 0.5  # four classes of one size
    exported = use("export", result, f"output={tmp_path / 'exported'}")
    if name in WITHOUT_LINEAR_HEAD:
        assert exported.code == 2 and WITHOUT_LINEAR_HEAD[name] in exported.err
    elif "dualcl" not in name:
        assert exported.code == 0 and (tmp_path / "exported" / "kontrast.json").exists()


def test_pools_and_centres_of_spcl_lie_in_the_checkpoint(fit):
    result = fit(*RUNS["spcl"], "sampler.batch_size=16")
    weights = best_weights(result.folder)
    assert weights["pool"].shape == (4, 16, 32) and weights["pool_filled"].min() >= 1
    assert weights["is_centre"].all() and weights["bank_labels"].min() >= 0
