"""method=setfit_pairs: the head is scikit-learn's logistic regression on the trained embeddings."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from lightning_modules.methods.few_labels.setfit_pairs import SetFitPairsModule
from losses import CosinePairLoss
from tests.command_lines import rows


@pytest.fixture
def small(small):
    """Without the rate of a head that is trained."""
    return [word for word in small if not word.startswith("method.head_lr")]


def test_the_head_is_logistic_regression():
    encoder = torch.nn.Module()
    encoder.hidden_size = 4
    module = SetFitPairsModule(encoder, CosinePairLoss(), torch.ones(3), None, None, "setfit_pairs").eval()
    embeddings = 3 * torch.randn(30, 4, generator=torch.Generator().manual_seed(0))
    labels = (embeddings[:, 0] > 0).long() + (embeddings[:, 1] > 1).long()
    module.solve({"train": (embeddings, labels)})
    model = LogisticRegression(C=1.0, max_iter=1000, tol=1e-8).fit(embeddings.numpy(), labels.numpy())
    with torch.no_grad():
        probabilities = module.logits(embeddings).softmax(1).numpy()
    np.testing.assert_allclose(probabilities, model.predict_proba(embeddings.numpy()), atol=1e-3)


@pytest.mark.slow
def test_a_run_learns_and_predicts(fit, use, toy_csv, tmp_path):
    run = fit("method=setfit_pairs", "dataset.labels_per_class=8", "trainer.max_epochs=6")
    assert run.metrics["test/accuracy"] > 0.5 and run.metrics["epochs"] == 6
    stored = [row["prediction"] for row in rows(run.folder / "predictions.csv") if row["split"] == "test"]
    assert use("predict", run, f"input={toy_csv['test']}", f"output={tmp_path}/p.csv").code == 0
    assert [row["prediction"] for row in rows(tmp_path / "p.csv")] == stored


def test_it_chooses_nothing(fit):
    assert fit("method=setfit_pairs", "protocol=clean").error.startswith("protocol: found clean; allowed with")
