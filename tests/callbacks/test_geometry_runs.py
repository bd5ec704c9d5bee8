"""callbacks=geometry: the figures join the run's metrics, and change nothing else."""

import pytest

pytestmark = pytest.mark.slow


def test_geometry_stands_beside_accuracy(fit):
    plain, measured = (
        fit("method=ce", "trainer.max_epochs=1"),
        fit("method=ce", "trainer.max_epochs=1", "callbacks=geometry"),
    )
    names = ("alignment", "uniformity", "neighbourhood_purity", "silhouette")
    added = {f"{split}/{name}" for split in ("val", "test") for name in names}
    assert set(measured.metrics) - set(plain.metrics) == added
    assert 0 <= measured.metrics["test/alignment"] <= 4
    assert measured.metrics["test/uniformity"] <= 0
    assert 0 <= measured.metrics["test/neighbourhood_purity"] <= 1
    assert measured.metrics["test/accuracy"] == pytest.approx(plain.metrics["test/accuracy"], abs=0)
