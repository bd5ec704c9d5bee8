"""Two principal components of rows drawn over a split."""

from types import SimpleNamespace

import numpy as np
import torch
from sklearn.decomposition import PCA

from callbacks import embeddings
from callbacks.embeddings import EmbeddingMap
from storage.run_store import RunFolder


def test_the_points_are_the_components_of_scikit_learn(tmp_path, monkeypatch):
    monkeypatch.setattr(embeddings, "SHOWN_ROWS", 30)
    rows = torch.randn(40, 6, generator=torch.Generator().manual_seed(0))
    callback = EmbeddingMap(RunFolder(tmp_path), {"test": 40}, seed=3)
    trainer = SimpleNamespace(is_global_zero=True, world_size=1)
    callback.on_test_epoch_start(trainer, None)
    for indices in torch.randperm(40, generator=torch.Generator().manual_seed(1)).split(7):  # in any order
        callback.on_test_batch_end(trainer, None, {"indices": indices, "embeddings": rows[indices]}, None, 0)
    callback.on_test_epoch_end(trainer, None)
    table = RunFolder(tmp_path).read_csv("embedding_map.csv", "split", "index", "x", "y")
    drawn = [int(row["index"]) for row in table]
    assert {row["split"] for row in table} == {"test"} and drawn == sorted(set(drawn)) and len(drawn) == 30
    assert drawn[-1] > 30  # and not the first
    expected = PCA(2).fit_transform(rows[drawn].double().numpy())
    points = np.array([[float(row["x"]), float(row["y"])] for row in table])
    np.testing.assert_allclose(np.abs(points), np.abs(expected), rtol=2e-3, atol=1e-3)
