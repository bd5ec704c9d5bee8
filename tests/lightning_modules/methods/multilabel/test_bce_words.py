"""method=bce_words: what the sum consists of, and a whole run whose files, served answers and export agree."""

import json

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from attack.toy import TOPICS
from lightning_modules.heads.label_stack import label_stack, random_folds
from tests.command_lines import command, rows


@pytest.fixture
def run(store, topic_files):
    """`run("method.use_names=false")`."""
    line = ["method=bce_words", *topic_files(train=12, test=3), *store]
    return lambda *words: command([*line, *words])


@pytest.fixture
def texts():
    """Embeddings, words that tell nothing, and 6 labels, an axis each; the last one has no row."""
    rng = np.random.default_rng(0)
    labels = (rng.random((80, 6)) < 0.3).astype(int)
    rows = labels + rng.normal(scale=0.3, size=labels.shape)
    labels[:, 5] = 0
    return rows / np.linalg.norm(rows, axis=1, keepdims=True), csr_matrix((rng.random((80, 12)) < 0.3) * 1.0), labels


def folds(rows):
    return random_folds([np.array([row]) for row in range(rows)], np.random.default_rng(0))


def test_a_label_without_a_row_is_found_by_its_name_alone(texts):
    with_names, without = (label_stack(*texts, names, folds(80)) for names in (np.eye(6), None))
    assert not without.on_embeddings.weight[5].any() and not without.on_words.weight[5].any()
    assert with_names.figures["weight_names"] > 0 and with_names.on_embeddings.weight[5].argmax() == 5
    with pytest.raises(ValueError, match="train split: found 1 rows, allowed: two at least"):
        label_stack(*(part[:1] for part in texts), None, folds(1))
    with pytest.raises(ValueError, match="train split: found copies of one text"):
        label_stack(*texts, None, np.zeros(80, int))


def test_the_parts_are_weighed_by_rows_that_they_have_not_seen(texts):
    """A word of its own for each row is right for every row that was seen, and says nothing of others."""
    embeddings, _, labels = texts
    figures = label_stack(embeddings, csr_matrix(np.eye(80)), labels, None, folds(80)).figures
    assert 0 <= figures["weight_words"] < 0.1 * figures["weight_embeddings"]


def test_a_held_out_row_has_no_say_in_what_is_said_of_it(texts):
    """Its labels turned round, and those of a copy, change the weights of the parts alone, which all rows choose."""
    places = np.where(np.arange(80) == 8, 7, np.arange(80))
    embeddings, words, labels = (part[places] for part in texts)
    of_copies = random_folds(list(places[:, None]), np.random.default_rng(2))  # which would deal the two out apart
    other = labels.copy()
    other[7:9] = 1 - labels[7:9]
    before, after = (label_stack(embeddings, words, bits, None, of_copies).held_out for bits in (labels, other))
    assert np.corrcoef(before[7], after[7])[0, 1] > 0.98
    assert np.mean((before > 0) == labels) > 0.85


@pytest.mark.slow
def test_a_run_its_predictions_its_evaluation_and_its_export_agree(run, use, tmp_path):
    result = run("method.threshold=global")
    metrics = result.metrics
    assert metrics["reads"] == "N" and metrics["solver/weight_words"] > 0
    assert metrics["test/micro_f1"] > 0.8 and 0 < metrics["threshold"] < 1
    stored = [row for row in rows(result.folder / "predictions.csv") if row["split"] == "test"]
    assert use("predict", result, f"input={tmp_path}/test.csv", f"output={tmp_path}/p.csv").code == 0
    for row, expected in zip(rows(tmp_path / "p.csv"), stored, strict=True):
        assert json.loads(row["prediction"]) == json.loads(expected["prediction"])
    assert use("evaluate", result).code == 0
    evaluated = json.loads((result.folder / "evaluation.json").read_text())
    assert evaluated["test/micro_f1"] == metrics["test/micro_f1"]
    for form in ("transformers", "onnx"):  # each is compared with the run as it is written
        assert use("export", result, f"format={form}", f"output={tmp_path}/{form}").code == 0
    refused = use("export", result, "format=sentence_transformers", f"output={tmp_path}/embeddings").error
    assert refused.endswith("allowed with method=bce_words: transformers, onnx")


@pytest.mark.slow
def test_names_are_left_out_where_that_is_said_or_labels_are_codes(run, tmp_path):
    withheld = run("method.use_names=false")
    assert withheld.metrics["reads"] == "" and "solver/weight_names" not in withheld.metrics
    for split in ("train", "test"):
        file = tmp_path / f"{split}.csv"
        text = file.read_text()
        for code, topic in enumerate(TOPICS):
            text = text.replace(f",{topic}", f",{code}").replace(f"|{topic}", f"|{code}")
        file.write_text(text)
    coded = run()
    assert coded.metrics["reads"] == "" and "labels are codes (0, 1, " in coded.err


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("encoder.train=full", "encoder.train: found full; allowed with method=bce_words: frozen"),
        ("retrieval=knn", "retrieval: has no effect with method=bce_words; allowed: retrieval=null"),
        ("method.threshold=2.0", "method.threshold: found 2.0"),
        ("method.use_names=perhaps", "method.use_names: found 'perhaps'; allowed: true or false"),
    ],
)
def test_bad_input(run, line, message):
    assert run(line).error.startswith(message)
