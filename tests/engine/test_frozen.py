"""A frozen encoder, or its frozen lower layers: what it makes of a text is computed once and kept."""

import json
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest
import torch

from engine.plan import Plan
from engine.trainer import HEAD_EPOCHS, HEAD_STEPS
from lightning_modules.encoders.top_layers import TopLayers
from lightning_modules.encoders.transformer import TextEncoder
from tasks.fit import _check_same_part_trains
from tests.command_lines import best_weights, outcome, rows


@pytest.fixture
def counted():
    """Counts the encoder's forward passes."""
    with mock.patch.object(TextEncoder, "forward", autospec=True, side_effect=TextEncoder.forward) as forward:
        yield forward


@pytest.mark.slow
def test_features_are_cached_and_a_damaged_cache_is_made_again(fit, counted, tmp_path):
    line = ["encoder.train=frozen", "trainer.max_epochs=3"]
    first = fit(*line)
    assert first.code == 0, first.err
    passes, expected = counted.call_count, outcome(first.folder)
    assert 0 < passes <= 4
    assert not [name for name in best_weights(first.folder) if name.startswith("encoder.")]
    files = sorted((tmp_path / "cache" / "features").glob("*.npy"))
    assert sorted(np.load(file).shape for file in files) == [(24, 32), (61, 32), (68, 32)]  # test, the view, train

    assert outcome(fit(*line, "force=true").folder) == expected
    assert counted.call_count == passes

    damages = (lambda data: data[: len(data) // 2], lambda data: b"", lambda data: b"x" + data[1:])
    for file, damage in zip(files, damages, strict=True):
        file.write_bytes(damage(file.read_bytes()))
    assert outcome(fit(*line, "force=true").folder) == expected
    assert counted.call_count == 2 * passes


@pytest.mark.slow
def test_every_draw_of_labels_reads_the_same_features(solve, counted, tmp_path):
    folders = [solve("method=prototypes", f"seed={seed}", f"dataset.labels={n}").folder for seed, n in ((0, 8), (1, 4))]
    assert len(list((tmp_path / "cache" / "features").glob("*.npy"))) == 2  # train and test
    features = np.concatenate([np.load(file) for file in (tmp_path / "cache" / "features").glob("*.npy")])
    assert len(features) == 92 and np.isfinite(features).all()
    kept = [set(json.loads((folder / "kept_indices.json").read_text())["train"]) for folder in folders]
    assert kept[0] != kept[1]
    assert counted.call_count == 2 + 2 * 1  # both tables; of each run the names


@pytest.mark.slow
def test_a_frozen_run_is_evaluated_and_predicts(fit, use, toy_csv, tmp_path):
    run = fit("encoder.train=frozen")
    assert use("evaluate", run).code == 0
    assert use("predict", run, f"input={toy_csv['test']}", f"output={tmp_path}/p.csv").code == 0
    stored = [row["prediction"] for row in rows(run.folder / "predictions.csv") if row["split"] == "test"]
    assert [row["prediction"] for row in rows(tmp_path / "p.csv")] == stored


@pytest.mark.parametrize("augment", ["dropout", "none"])
def test_equal_views_are_refused(fit, augment):
    error = fit("encoder.train=frozen", f"augment={augment}").error
    assert error.startswith(f"augment={augment}: the views of a frozen encoder would be identical")


def test_more_blocks_than_there_are(fit):
    error = fit("encoder.train=top_layers", "encoder.num_top_layers=9").error
    assert error == "encoder.num_top_layers: found 9; allowed: 1 to 2"


@pytest.mark.slow
@pytest.mark.parametrize("task", ["fit", "cluster"])
def test_below_layers_that_train_each_text_is_encoded_once(fit, cluster, task):
    recall, actual = TopLayers.recall, []

    def spy(self, tokens, mask):
        actual.append(recall(self, tokens, mask))
        return actual[-1]

    learn = {"fit": fit, "cluster": cluster}[task]
    line = {"fit": [], "cluster": ["method=sccl", "augment=dropout", "trainer.max_epochs=2", "sampler.batch_size=34"]}
    with mock.patch.object(TopLayers, "recall", spy):
        assert learn("encoder.train=top_layers", "encoder.num_top_layers=1", *line[task]).code == 0
    read_once = {"fit": 1, "cluster": 0}[task]  # batches of test, the last
    remembered = [states is not None for states in actual]
    assert remembered == [True] * (len(actual) - read_once) + [False] * read_once and len(actual) > read_once


@pytest.mark.slow
def test_where_labels_stand_in_the_input_no_text_is_encoded_beforehand(fit):
    with mock.patch.object(TopLayers, "remember") as remember:
        assert fit("method=dualcl", "encoder.train=top_layers", "trainer.max_epochs=1").code == 0
    remember.assert_not_called()


@pytest.mark.slow
def test_cross_entropy_over_a_frozen_encoder_is_solved(solve, use, toy_csv, tmp_path):
    run = solve("method=ce", "encoder.train=frozen")
    assert run.code == 0, run.err
    metrics = run.metrics
    assert metrics["epochs"] == 0 and metrics["solver/converged"]
    assert metrics["test/macro_f1"] > 0.8  # two epochs of steps stay at the majority class, 0.1
    assert use("predict", run, f"input={toy_csv['test']}", f"output={tmp_path}/p.csv").code == 0
    stored = [row["prediction"] for row in rows(run.folder / "predictions.csv") if row["split"] == "test"]
    assert [row["prediction"] for row in rows(tmp_path / "p.csv")] == stored


@pytest.mark.slow
def test_heads_over_few_rows_take_as_many_epochs_as_their_steps_take(solve):
    run = solve("method=ldam_drw", "encoder.train=frozen", "sampler.batch_size=4")
    assert run.metrics["epochs"] == HEAD_STEPS // 15 > HEAD_EPOCHS, "57 to 60 rows train"


def test_cached_features_are_those_of_all_that_the_encoder_reads_by(monkeypatch):
    monkeypatch.setattr(Plan, "device", torch.device("cpu"))
    ways = [{}, {"mean": (0.5,), "std": (1.0,)}, {"mean": (0.5,), "std": (0.5,)}, {"quantization": "4bit"}]
    sources = [SimpleNamespace(weights_hash=lambda: "a" * 64, pooling="mean", **way) for way in ways]
    assert len({object.__new__(Plan)._features_key(source) for source in sources}) == 4


@pytest.mark.parametrize(
    ("own", "other", "fits"),
    [
        (("full", 1), ("top_layers", 2), True),
        (("frozen", 1), ("full", 1), False),
        (("frozen", 1), ("top_layers", 1), False),
        (("top_layers", 1), ("full", 1), False),
        (("top_layers", 1), ("top_layers", 2), False),
        (("top_layers", 2), ("top_layers", 1), True),
        (("top_layers", 2), ("frozen", 2), True),
        (("frozen", 1), ("frozen", 1), True),
    ],
)
def test_a_run_starts_from_weights_that_it_reads(own, other, fits):
    nodes = [dict(zip(("train", "num_top_layers"), node, strict=True)) for node in (own, other)]
    run = SimpleNamespace(id="r", read_config=lambda: {"encoder": nodes[1]})
    plan = SimpleNamespace(plain={"encoder": nodes[0]})
    if fits:
        _check_same_part_trains(run, plan)
    else:
        with pytest.raises(ValueError, match=r"^start_from=r: found encoder.train="):
            _check_same_part_trains(run, plan)
