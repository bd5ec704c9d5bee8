"""The geometry of a split, collected over batches."""

import pytest
import torch

from callbacks.geometry import Geometry
from reporting.geometry import geometry


def test_figures_are_those_of_the_whole_split(setting):
    watcher = setting.build(Geometry, neighbours=3)
    trainer = setting.trainer([watcher])
    with pytest.raises(KeyError):
        watcher.split_figures("test")
    trainer.test(setting.Tiny(), setting.loader(), verbose=False)
    rows = torch.stack([setting.loader().dataset[index]["features"] for index in range(12)]).numpy()
    expected = geometry(rows, torch.arange(12).numpy() % 3, neighbours=3)
    assert watcher.split_figures("test") == pytest.approx(expected) and len(expected) == 4
    trainer.validate(setting.Tiny(), setting.loader(), verbose=False)
    assert watcher.split_figures("val") == watcher.split_figures("test")
