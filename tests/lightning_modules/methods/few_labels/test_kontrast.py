"""method=kontrast: what it learns from, what it predicts by, and what it refuses."""

import json
import shutil
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from torch import nn

from attack.toy import TOPICS
from callbacks.time_limit import LOOKED_AT, TimeLimit
from engine.plan import Plan
from lightning_modules.heads.co_training import CoTrained
from lightning_modules.heads.stacking import comparable
from lightning_modules.methods.few_labels import kontrast
from lightning_modules.methods.few_labels.kontrast import KontrastModule
from lightning_modules.methods.few_labels.labelled_pairs import LabelledPairs
from storage.run_store import RunFolder
from tests.command_lines import best_weights, rows
from tests.engine.plans import composed


@pytest.fixture
def names(tmp_path):
    path = tmp_path / "names.yaml"
    path.write_text("".join(f"{topic}: {', '.join(words[:4])}\n" for topic, words in TOPICS.items()))
    return f"dataset.class_descriptions={path}"


SHORT = ["method=kontrast", "trainer.least_steps=0"]
VOTE = ["retrieval.num_neighbours=[3]", "retrieval.temperature=[1]", "retrieval.lam=[0.3]"]


@pytest.mark.slow
def test_names_and_texts_alone_train_the_encoder(fit, use, names, toy_csv, tmp_path):
    run = fit(*SHORT, "dataset.labels=0", names, "sampler.batch_size=8", "trainer.max_epochs=2")
    assert run.metrics["class_counts"] == [0, 0, 0, 0] and run.metrics["epochs"] == 2
    history = rows(run.folder / "history.csv")
    assert [int(row["step"]) for row in history] == [9, 18]  # 68 texts, none of which has a label
    weights = best_weights(run.folder)
    assert weights["classifier.weight"].abs().sum() > 0 and any(name.startswith("encoder.") for name in weights)
    assert "targets" not in weights
    stored = [row["prediction"] for row in rows(run.folder / "predictions.csv") if row["split"] == "test"]
    assert use("predict", run, f"input={toy_csv['test']}", f"output={tmp_path}/p.csv").code == 0
    assert [row["prediction"] for row in rows(tmp_path / "p.csv")] == stored
    assert use("evaluate", run).code == 0
    again = fit(*SHORT, "dataset.labels=0", names, "sampler.batch_size=8", "trainer.max_epochs=2", "force=true")
    assert torch.equal(best_weights(again.folder)["words.weight"], weights["words.weight"])


@pytest.mark.slow
def test_two_processes_learn_from_names_alone_what_one_learns(fit, names, tmp_path, tiny_encoder_dir):
    """Without dropout: begun, labelled anew half-way and refitted alike, and every text trains once an epoch."""
    config = json.loads((shutil.copytree(tiny_encoder_dir, tmp_path / "encoder") / "config.json").read_text())
    still = config | {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    (tmp_path / "encoder" / "config.json").write_text(json.dumps(still))
    line = [*SHORT, "dataset.labels=0", names, "trainer.max_epochs=4", "method.dropout=0", "trainer.precision=32"]
    # a head that has hardly learned says the same of all texts, and the last digit would decide what EM makes of it
    line += [f"encoder.path={tmp_path / 'encoder'}", "sampler.batch_size=8", "method.head_lr=3e-2"]
    one, two = fit(*line), fit(*line, "trainer=ddp_cpu", f"paths.runs={tmp_path / 'two'}")
    assert two.metrics["class_counts"] == [0, 0, 0, 0] and two.metrics["reads"] == "NU"
    assert [row["step"] for row in rows(two.folder / "history.csv")][-1:] == ["36"]
    assert two.metrics["solver/steps"] == one.metrics["solver/steps"]
    weights = [best_weights(run.folder) for run in (one, two)]
    for name in ("classifier.weight", "words.weight"):
        torch.testing.assert_close(weights[1][name], weights[0][name], rtol=1e-3, atol=1e-3, msg=name)


@pytest.mark.slow
def test_few_labels_of_a_thinned_set_and_names_learn_from_what_the_thinning_left(fit, names):
    line = [*SHORT, names, "dataset.labels=8", "trainer.max_epochs=1", "sampler.batch_size=16"]
    whole, thinned = fit(*line), fit(*line, "imbalance.ir=8")
    kept = [json.loads((run.folder / "kept_indices.json").read_text()) for run in (whole, thinned)]
    assert [sum(run.metrics["class_counts"]) for run in (whole, thinned)] == [8, 8]
    assert len(kept[0]["unlabelled"]) == 68 - 8 and 8 < len(kept[1]["unlabelled"]) < 60
    assert set(kept[1]["unlabelled"]) <= {*kept[0]["unlabelled"], *kept[0]["train"]}
    assert thinned.metrics["reads"] == "NU"
    best = best_weights(thinned.folder)
    assert all(torch.isfinite(best[name]).all() for name in ("words.weight", "classifier.bias", "classifier.weight"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ["protocol=clean"],  # every label, a validation split
        ["protocol=clean", "imbalance.ir=4", "method.use_names=false"],
        ["dataset.labels=12", "method.use_names=false", "method.relabel=false", "method.refit=false"],
        ["dataset.labels_per_class=2", "encoder.train=top_layers", "encoder.num_top_layers=1"],
        ["dataset.labels_per_class=8", "trainer=ddp_cpu", "sampler.batch_size=8"],
        ["protocol=few_shot", "active=random", "active.budget=12", "active.query_size=6"],
        ["dataset.labels=20", "retrieval=knn", "retrieval.num_neighbours=[3]", "protocol=few_shot"],
        ["dataset.labels=20", "retrieval=knn", *VOTE],
    ],
    ids=lambda words: " ".join(words[-3:]),
)
def test_what_it_goes_with(fit, words):
    line = [*SHORT, "trainer.max_epochs=2", "sampler.batch_size=16", *words]
    assert fit(*line).metrics["status"] == "finished"


@pytest.mark.slow
def test_rounds_of_active_learning_read_the_rest_of_the_pool(fit):
    line = [*SHORT, "trainer.max_epochs=1", "active=random", "active.budget=6", "active.query_size=6"]
    result = fit(*line)
    assert result.metrics["reads"] == "NU" and "kontrast (N U) · random" in result.out
    kept = json.loads((result.folder.parent / result.metrics["last_run"] / "kept_indices.json").read_text())
    assert len(kept["train"]) + len(kept["val"]) == 6 and len(kept["unlabelled"]) == 68 - 6
    assert not set(kept["unlabelled"]) & {*kept["train"], *kept["val"]}


@pytest.mark.slow
def test_a_run_that_starts_from_one_that_read_names_has_read_them(fit):
    line = [*SHORT, "dataset.labels=20", "trainer.max_epochs=1", "sampler.batch_size=16"]
    first = fit(*line).folder.name
    assert fit(*line, "method.use_names=false", f"start_from={first}").metrics["reads"] == "NU"


@pytest.mark.slow
def test_few_texts_are_gone_through_as_often_as_it_takes(fit):
    run = fit("method=kontrast", "dataset.labels=12", "sampler.batch_size=16", "trainer.least_steps=18")
    assert run.metrics["epochs"] == 4  # of five steps each; the config says two
    assert "targets" not in best_weights(run.folder)


@pytest.mark.slow
@pytest.mark.parametrize(("relabel", "epochs"), [("false", 3), ("true", 4)])
def test_labels_by_pairs_and_those_of_half_way_survive_a_resume(fit, monkeypatch, tmp_path, relabel, epochs):
    line = [*SHORT, "dataset.labels_per_class=8", f"method.relabel={relabel}", f"trainer.max_epochs={epochs}"]
    line += ["sampler.batch_size=16", "optimizer.lr=1e-3", "callbacks.last.every_seconds=0"]
    whole = best_weights(fit(*line).folder)
    other = best_weights(fit(*line, "method.pair_steps=0").folder)
    assert any(not torch.equal(whole[name], other[name]) for name in whole)

    start = KontrastModule.on_train_epoch_start

    def stopped(self):
        if self.current_epoch == epochs - 1:
            raise KeyboardInterrupt
        start(self)

    again = [*line, f"paths.runs={tmp_path / 'again'}"]
    with monkeypatch.context() as patch:
        patch.setattr(KontrastModule, "on_train_epoch_start", stopped)
        assert fit(*again).code == 130
    patched = []
    with monkeypatch.context() as patch:
        patch.setattr(KontrastModule, "_learn_pairs", lambda *_: patched.append("again"))
        resumed = best_weights(fit(*again).folder)
    assert not patched and all(torch.equal(whole[name], resumed[name]) for name in whole)


@pytest.mark.slow
def test_pairs_that_cannot_end_in_time_are_not_learned_to_the_end(fit, monkeypatch, tmp_path):
    steps_done = []
    monkeypatch.setattr(TimeLimit, "on_train_batch_end", lambda *_: steps_done.append("an epoch"))
    step = TimeLimit.on_step_beforehand
    monkeypatch.setattr(TimeLimit, "on_step_beforehand", lambda *args: (steps_done.append(args[1:]), step(*args)))
    limit = ["+callbacks.time_limit._target_=callbacks.time_limit.TimeLimit", "+callbacks.time_limit.seconds=0.01"]
    line = [*SHORT, "dataset.labels_per_class=8", "sampler.batch_size=16", "method.pair_steps=8"]
    stopped = fit(*line, *limit)
    assert "training would take about" in stopped.error
    assert RunFolder(next((tmp_path / "runs").iterdir())).status == "interrupted"
    assert steps_done == [(done, 4 * 4 + 8) for done in range(1, LOOKED_AT + 1)]


@pytest.mark.slow
@pytest.mark.parametrize(("budget", "all_classes"), [("dataset.labels_per_class=4", True), ("dataset.labels=2", False)])
def test_a_solved_head_begins_as_regression_on_the_labels_or_where_a_class_has_none_on_guesses(
    fit, names, tmp_path, budget, all_classes
):
    still = ["optimizer.lr=1e-12", "method.head_lr=1e-12", "optimizer.weight_decay=0", "trainer.max_epochs=1"]
    parts = ["method.solve_head=true", "method.refit=false", "method.relabel=false", "method.pair_steps=0"]
    run = fit(*SHORT, budget, names, *still, *parts, "sampler.batch_size=16")
    (features,) = (np.load(file) for file in (tmp_path / "cache/features").glob("*.npy") if len(np.load(file)) == 68)
    weights = best_weights(run.folder)
    logits = features @ weights["classifier.weight"].numpy().T + weights["classifier.bias"].numpy()
    if not all_classes:
        assert len(np.unique(logits.argmax(1))) == 4
        return
    kept = json.loads((run.folder / "kept_indices.json").read_text())["train"]
    topics, table = sorted(TOPICS), rows(tmp_path / "train.csv")
    labels = [topics.index(table[row]["label"]) for row in kept]
    features = features / np.sqrt(np.square(features[kept]).sum(1).mean())
    model = LogisticRegression(C=10, max_iter=5000, tol=1e-8).fit(features[kept], labels)
    expected = model.decision_function(features)
    centred = [values - values.mean(1, keepdims=True) for values in (logits, expected)]
    np.testing.assert_allclose(*centred, rtol=0.02, atol=0.02)


@pytest.mark.parametrize(("labelled", "suffices"), [([12, 12, 8], True), ([12, 12, 7], False), ([16, 16, 0], False)])
def test_pairs_wait_for_labels_of_every_class(labelled, suffices):
    labels = torch.cat([torch.repeat_interleave(torch.arange(3), torch.tensor(labelled)), torch.full((40,), -1)])
    assert KontrastModule._pairs_suffice(SimpleNamespace(num_classes=3), labels) == suffices


@pytest.mark.parametrize(
    ("words", "is_even", "steps"),
    [
        (["dataset.labels_per_class=8"], True, (3, 60)),
        (["dataset.labels=12"], False, (0, 0)),
        (["dataset.labels=12", "method.word_steps=0"], True, (0, 0)),
        ([], True, (0, 0)),
    ],
)
def test_figures_say_whether_words_and_pairs_took_part(small, files, store, monkeypatch, capsys, words, is_even, steps):
    def said(rows, _, labels, start, *__):
        return CoTrained(start.scores(rows), labels >= 0 if is_even else None)

    monkeypatch.setattr(kontrast, "co_trained", said)
    plan = Plan.make(composed("method=kontrast", *files, *store, *small, *words))
    datamodule = plan.datamodule(plan.corpus())
    module = plan.module(datamodule)
    splits = {}
    for split in ("train", "unlabelled") if words else ("train",):
        ids, labels = datamodule.token_rows(split)
        splits[split] = (ids, torch.randn(len(labels), module.encoder.hidden_size)), labels
    figures = module.begin(splits)
    assert (figures["solver/word_steps"], figures["solver/pair_steps"]) == steps
    assert ("names and pairs are not read; allowed: method=prototypes" in capsys.readouterr().err) == (not words)


def test_a_class_that_a_fold_withholds_is_no_likelier_than_any_other():
    """Its only row is in fold 0, and regression on the others, which has a free bias, is all but sure that it is not
    there."""
    labels, folds = torch.tensor([2, 0, 1, 0, 1, 0, 1, 0, 1]), torch.tensor([0, 0, 0, 0, 0, 1, 1, 1, 1])
    rows = torch.randn(9, 5, generator=torch.Generator().manual_seed(0))
    encoder = SimpleNamespace(parameters=list)
    module = SimpleNamespace(encoder=encoder, embedded_splits=lambda *_: {"train": (rows, labels)})
    pairs = LabelledPairs(module, None, labels, 3, lambda: None)
    pairs.train = lambda *_: None
    scores = pairs.held_out_scores(folds, steps=1)
    withheld = scores[folds == 0]
    assert torch.equal(withheld[:, 2], withheld[:, :2].amin(1)) and len(scores[folds == 1].unique()) == 12


def test_held_out_scores_have_one_scale_where_words_take_part_in_some_folds_alone():
    rows, labels = torch.zeros(60, 5), torch.arange(60) % 3
    said = torch.randn(60, 3, generator=torch.Generator().manual_seed(0))
    scales = iter([1.0, 1000.0, 1.0, 1.0])
    module = SimpleNamespace(seed=0, num_classes=3, discriminant=lambda *_: None)
    module._first_scores = lambda *_: CoTrained(next(scales) * said, None)
    tokens = [np.array([number]) for number in range(60)]
    assert torch.allclose(KontrastModule._held_out_scores(module, rows, None, tokens, labels)[1], comparable(said))


def test_pairs_without_a_scaler_of_gradients_take_no_half_precision():
    encoder = nn.Embedding(4, 3)
    trainer = SimpleNamespace(precision="16-mixed", gradient_clip_val=None)  # and no context to encode in
    module = SimpleNamespace(
        encoder=encoder,
        seed=0,
        device="cpu",
        trainer=trainer,
        parameter_groups=lambda: [{"params": encoder.parameters()}],
        optimizer=partial(torch.optim.SGD, lr=1.0),
        train=lambda: None,
        encode=lambda function, ids, _: function(ids[:, 0]),
    )
    ids, labels = torch.arange(4)[:, None], torch.tensor([0, 0, 1, 1])
    rows = {"input_ids": ids, "attention_mask": ids, "labels": labels}
    data = SimpleNamespace(
        sampler=SimpleNamespace(batch_size=4),
        text_batch=lambda _, places: {name: values[places] for name, values in rows.items()},
    )
    before = encoder.weight.detach().clone()
    LabelledPairs(module, data, labels, 2, lambda: None).train(torch.ones(4, dtype=torch.bool), 1, "fold 0")
    assert not torch.equal(encoder.weight, before)


@pytest.mark.parametrize("reads_words", [True, False])
def test_after_training_the_encoder_goes_half_way_back_and_discriminant_and_words_predict(
    small, files, store, monkeypatch, reads_words
):
    line = ["dataset.labels=20", "method.use_names=false", "method.label_rows=1", "method.pair_steps=0"]
    line += [] if reads_words else ["method.word_steps=0"]
    plan = Plan.make(composed("method=kontrast", *files, *store, *small, *line))
    datamodule = plan.datamodule(plan.corpus())
    module, generator = plan.module(datamodule).eval(), torch.Generator().manual_seed(0)
    rows = {split: datamodule.token_rows(split) for split in ("train", "unlabelled")}
    directions = torch.randn(4, module.encoder.hidden_size, generator=generator)
    embedded = {}
    for split, (_, labels) in rows.items():
        noise = torch.randn(len(labels), module.encoder.hidden_size, generator=generator)
        topics = labels if split == "train" else torch.arange(len(labels)) % 4
        embedded[split] = 2 * directions[topics] + noise, labels
    splits = {split: ((rows[split][0], values), labels) for split, (values, labels) in embedded.items()}
    module.begin(splits)
    began = [parameter.detach().clone() for parameter in module.encoder.parameters()]
    with torch.no_grad():
        for parameter in module.encoder.parameters():
            parameter.add_(1.0)
    module.set_classifier(0.02 * directions, torch.zeros(4))
    monkeypatch.setattr(module, "embedded_splits", lambda _: embedded)
    module.before_solving(datamodule)
    for now, before in zip(module.encoder.parameters(), began, strict=True):
        torch.testing.assert_close(now.detach(), before + 0.5)
    figures = module.solve(splits)
    assert figures == {"solver/last_words": int(reads_words)}
    assert bool(module.words.weight.any()) == reads_words == ("words" in module.prediction_head())
    embeddings, labels = (torch.cat([embedded[split][part] for split in rows]) for part in (0, 1))
    said = module._last_guesses
    sure = [scores.softmax(1).amax(1).mean().item() for scores in (said, module.logits(embeddings))]
    if reads_words:
        tokens = [ids for split in rows for ids in rows[split][0]]
        sure[1] = (module.logits(embeddings) + _words_by_loops(module, tokens)).softmax(1).amax(1).mean().item()
    assert sure[1] == pytest.approx(sure[0], abs=1e-4)
    assigned = torch.where(labels >= 0, labels, said.argmax(1))
    shrinkage = embeddings.shape[1] / (embeddings.shape[1] + len(embeddings))
    model = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=shrinkage).fit(embeddings, assigned)
    ours, expected = (
        comparable(torch.as_tensor(z)) for z in (module.logits(embeddings), model.decision_function(embeddings))
    )
    if not reads_words:  # whose bias is in that of both
        torch.testing.assert_close(ours, expected, rtol=0.02, atol=0.02)


def _words_by_loops(module, texts):
    """Scores (N, C) of the words: TF-IDF with logarithmic counts, of unit length, times their weights."""
    scores = []
    for ids in texts:
        numbers = {int(token): (ids == token).sum() for token in ids}
        values = {token: (1 + np.log(n)) * float(module.inverse_frequency[token]) for token, n in numbers.items()}
        length = np.sqrt(sum(value**2 for value in values.values()))
        scores.append(sum(value / length * module.words.weight[:, token] for token, value in values.items()))
    return torch.stack(scores)


def test_a_run_of_when_the_discriminant_stood_beside_the_head_predicts_what_it_did(small, files, store):
    plan = Plan.make(composed("method=kontrast", *files, *store, *small))
    module = plan.module(plan.datamodule(plan.corpus()))
    weights = {key: value.clone() for key, value in module.state_dict().items()}
    beside = {"refit_weight": torch.ones_like(weights["classifier.weight"]), "refit_bias": torch.ones(4)}
    words = ("words.weight", "inverse_frequency")
    checkpoint = {"state_dict": {key: value for key, value in weights.items() if key not in words} | beside}
    module.on_load_checkpoint(checkpoint)
    module.load_state_dict(checkpoint["state_dict"])
    torch.testing.assert_close(module.classifier.weight, weights["classifier.weight"] + 1)
    torch.testing.assert_close(module.classifier.bias, weights["classifier.bias"] + 1)
    assert set(module.prediction_head()) == {"weight", "bias"}  # words that it never had say nothing


@pytest.mark.slow
def test_over_a_frozen_encoder_few_labels_are_the_discriminant(solve):
    line = ["dataset.labels=8", "protocol=fixed"]
    ours, other = (solve(f"method={name}", "encoder.train=frozen", *line) for name in ("kontrast", "prototypes"))
    assert torch.equal(best_weights(ours.folder)["classifier.weight"], best_weights(other.folder)["classifier.weight"])


def test_over_a_frozen_encoder_many_labels_are_discriminant_and_regression(solve, tmp_path):
    run = solve("method=kontrast", "encoder.train=frozen", "protocol=fixed")
    (features,) = (
        array for file in (tmp_path / "cache" / "features").glob("*.npy") if len(array := np.load(file)) == 68
    )
    features = features / np.linalg.norm(features, axis=1, keepdims=True)
    topics = sorted(TOPICS)
    labels = np.array([topics.index(row["label"]) for row in rows(tmp_path / "train.csv")])
    scores = 0
    for model in (
        LinearDiscriminantAnalysis(solver="lsqr", shrinkage=features.shape[1] / (features.shape[1] + 68)),
        LogisticRegression(C=10, max_iter=5000, tol=1e-8),
    ):
        part = model.fit(features, labels).decision_function(features)
        scores = scores + part - part.mean(1, keepdims=True)  # softmax does not see a constant
    weights = best_weights(run.folder)
    assert not weights["words.weight"].any()
    logits = features @ weights["classifier.weight"].numpy().T + weights["classifier.bias"].numpy()
    np.testing.assert_allclose(logits - logits.mean(1, keepdims=True), scores, rtol=0.02, atol=0.02)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (["sampler=class_balanced"], "sampler: draws by labels, which method=kontrast has not of every text"),
        (["loss=cross_entropy"], "loss: found cross_entropy; allowed with method=kontrast: pseudo_labels"),
        (["method.fold_steps=9", "method.pair_steps=0"], "method.fold_steps: found 9 beside method.pair_steps=0"),
        (["method.num_views=2"], "method.num_views: found 2; allowed: 1"),
        (["dataset.labels=0", "method.use_names=false"], "dataset.labels: found 0 beside method.use_names=false"),
    ],
)
def test_bad_input(fit, line, message):
    assert fit("method=kontrast", *line).error.startswith(message)
