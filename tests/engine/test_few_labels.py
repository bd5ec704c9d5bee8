"""Names, few labels and texts without any, through whole runs."""

import json
from collections import Counter

import numpy as np
import pytest

from attack.toy import TOPICS
from engine.plan import Plan
from tests.command_lines import rows
from tests.engine.plans import composed


@pytest.mark.slow
def test_labels_are_thinned_and_the_rest_is_text_without_label(solve, use, toy_csv, tmp_path):
    kept = {}
    for number in (4, 12):
        result = solve("method=prototypes", f"dataset.labels={number}")
        indices = json.loads((result.folder / "kept_indices.json").read_text())
        kept[number] = set(indices["train"])
        assert len(indices["train"]) == number and "val" not in indices
        assert sorted(indices["train"] + indices["unlabelled"]) == list(range(68))
        assert result.metrics["solver/steps"] > 0
        assert sum(result.metrics["class_counts"]) == number
    assert kept[4] < kept[12]
    few = solve("method=prototypes", "dataset.labels=12", "dataset.most_unlabelled=5")
    few_indices = json.loads((few.folder / "kept_indices.json").read_text())
    assert set(few_indices["train"]) == kept[12] and len(few_indices["unlabelled"]) == 5
    anew = ["dataset.most_unlabelled=5", f"paths.cache={tmp_path}/anew", f"paths.runs={tmp_path}/anew"]
    again = solve("method=prototypes", "dataset.labels=12", *anew)  # where they alone are encoded
    sizes = sorted(len(np.load(file)) for file in (tmp_path / "anew" / "features").glob("*.npy"))
    assert sizes == [17, 24] and again.metrics["test/macro_f1"] == few.metrics["test/macro_f1"]
    assert use("predict", result, f"input={toy_csv['test']}", f"output={tmp_path}/p.csv").code == 0
    stored = [row["prediction"] for row in rows(result.folder / "predictions.csv") if row["split"] == "test"]
    assert [row["prediction"] for row in rows(tmp_path / "p.csv")] == stored
    assert use("evaluate", result).code == 0


def test_names_alone(solve, use, toy_csv, tmp_path):
    descriptions = tmp_path / "names.yaml"
    descriptions.write_text("fruit: apple, pear\nmetal: iron, gold\nanimal: horse, crow\nweather: rain, frost\n")
    line = ["method=nearest_name", "dataset.labels=0"]
    named = solve(*line, f"dataset.class_descriptions={descriptions}")
    assert named.metrics["class_counts"] == [0, 0, 0, 0]
    bare = solve(*line)
    assert named.folder != bare.folder
    predictions = [Counter(row["prediction"] for row in rows(run.folder / "predictions.csv")) for run in (named, bare)]
    assert predictions[0] != predictions[1]
    descriptions.unlink()  # the run holds what it learned
    assert use("predict", named, f"input={toy_csv['test']}", f"output={tmp_path}/p.csv").code == 0
    stored = [row["prediction"] for row in rows(named.folder / "predictions.csv") if row["split"] == "test"]
    assert [row["prediction"] for row in rows(tmp_path / "p.csv")] == stored


NEIGHBOURS = ["retrieval=knn", "retrieval.num_neighbours=[3]", "retrieval.temperature=[1]", "retrieval.lam=[0.3]"]


def write_rows(path, table, columns=("text", "label")):
    path.write_text("\n".join([",".join(columns), *(",".join(row) for row in table)]) + "\n")


@pytest.mark.slow
def test_texts_of_a_file_and_rows_with_an_empty_label_are_learned_from(solve, toy_csv, tmp_path):
    """And the figures differ for it; a text that is also in test is left out, whether the corpus drops it or not, and
    one that has a label elsewhere."""
    labelled = [(row["text"], row["label"]) for row in rows(toy_csv["train"])]
    held_out = rows(toy_csv["test"])[0]["text"].upper().replace(" ", "  ")  # case and spaces aside
    write_rows(tmp_path / "train.csv", [*labelled[:20], *((text, "") for text, _ in labelled[20:40])])
    (tmp_path / "more.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in (
        *(text for text, _ in labelled[40:]), held_out, labelled[0][0].upper())))  # fmt: skip
    line = ["method=prototypes", f"dataset.train={tmp_path}/train.csv", "dataset.empty_label=unlabelled"]
    runs = {}
    for kind, more in {
        "rows": [],
        "file": [f"dataset.unlabelled={tmp_path}/more.jsonl"],
        "clean": [f"dataset.unlabelled={tmp_path}/more.jsonl", "dataset.deduplicate=leaks"],
    }.items():
        runs[kind] = solve(*line, *more)
        for where in ("in test or validation", "among those with one"):
            said = f": 1 texts without a label are also {where}; left out\n"
            assert runs[kind].err.count(said) == (kind != "rows")
    indices = {kind: json.loads((run.folder / "kept_indices.json").read_text()) for kind, run in runs.items()}
    assert all(split["train"] == list(range(20)) for split in indices.values())
    sizes = {kind: len(split["unlabelled"]) for kind, split in indices.items()}
    assert sizes == {"rows": 20, "file": 20 + 28, "clean": 20 + 28}
    scores = [rows(run.folder / "predictions.csv") for run in runs.values()]
    assert scores[0] != scores[1]


def test_texts_that_are_in_test_are_not_learned_from_where_test_is_not_read(toy_csv, tmp_path):
    """As in the trials of a search, whose winner is read on test."""
    (tmp_path / "more.csv").write_text("text\n" + rows(toy_csv["test"])[0]["text"] + "\na further text\n")
    files = [f"dataset.{split}={path}" for split, path in toy_csv.items()]
    line = ["method=kontrast", "dataset=csv", "protocol=clean", *files, f"dataset.unlabelled={tmp_path}/more.csv"]
    plan = Plan.make(composed(*line, "protocol.read_test=false", f"paths.data={tmp_path}/data"))
    datamodule = plan.datamodule(plan.corpus())
    assert "test" not in datamodule.indices and len(datamodule.indices["unlabelled"]) == 1


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (["dataset.labels=99"], "dataset.labels: found 99, allowed: 0 to 68"),
        (["dataset.labels=-1"], "dataset.labels: found -1; allowed: "),
        (["protocol=clean"], "protocol: found clean; allowed with method=prototypes: fixed"),
        (["encoder.train=full"], "encoder.train: found full; allowed with method=prototypes: frozen"),
        (["loss=cross_entropy"], "loss: "),
        (["method=kontrast", "dataset.labels=0", "protocol=clean"], "protocol: found clean without a labelled row"),
        (["method=ce", "dataset.unlabelled=X"], "dataset.unlabelled: has no effect; method=ce does not read texts"),
        (["method=ce", "dataset.labels=9", "dataset.most_unlabelled=9"], "dataset.most_unlabelled: has no effect; "),
        (["method=ce", "dataset.class_descriptions=X"], "dataset.class_descriptions: has no effect; method=ce"),
        (["dataset.unlabelled=/none.csv"], "dataset.unlabelled=/none.csv: no such file"),
        (["dataset.class_descriptions=/none.csv"], "dataset.class_descriptions=/none.csv: no such file"),
        (["dataset.unlabelled=TMP/bad.csv"], "TMP/bad.csv:1: no column 'text' (the text column of dataset.unlabelled)"),
        (["dataset.unlabelled=TMP/none.csv"], "TMP/none.csv: no rows, allowed: at least one text"),
        (["dataset.unlabelled=TMP/blank.csv"], "TMP/blank.csv:2: found an empty text"),
        (
            ["dataset.train=TMP/part.csv", "dataset.empty_label=unlabelled", "dataset.label_names=[metal,fruit]",
             "dataset.test=null", "dataset.singleton_classes=keep_in_train", *NEIGHBOURS],
            "retrieval: found no validation or test rows to measure neighbours on; allowed: null, or some",
        ),
        (
            ["dataset.train=TMP/empty.csv", "dataset.empty_label=unlabelled", "dataset.label_names=[metal,fruit]",
             "dataset.test=TMP/two.csv", *NEIGHBOURS],
            "retrieval: needs rows with a label, found none; allowed: null, or some labels",
        ),
        (
            ["method=setfit_pairs", "dataset.train=TMP/empty.csv", "dataset.empty_label=unlabelled",
             "dataset.label_names=[metal,fruit]", "dataset.test=TMP/two.csv"],
            "dataset: no train row has a label, and method=setfit_pairs learns from labels; allowed: some labels, or a "
            "method that reads the names of the classes: ",
        ),
        (
            ["method=kontrast", "dataset.train=TMP/empty.csv", "dataset.empty_label=unlabelled",
             "dataset.label_names=[metal,fruit]", "dataset.test=TMP/same.csv"],
            "dataset: no row has a label, and the 2 texts without one are also in test or validation; allowed: ",
        ),
        *(
            (
                [*words.split(" with "), "dataset.label_names=[fruit,metal,snow,animal,weather]"],
                f"dataset: no train row has the label 'snow', and {words} needs rows of every class; allowed: ",
            )
            for words in ("method=sharprecl with loss=sharprecl", "method=acl with loss=acl")
        ),
        (["dataset.train=TMP/part.csv"], "TMP/part.csv:4: found an empty label, allowed: a name or a number"),
    ],
)
def test_bad_input(solve, tmp_path, line, message):
    write_rows(tmp_path / "bad.csv", [("x",)], ["title"])
    write_rows(tmp_path / "none.csv", [], ["text"])
    write_rows(tmp_path / "blank.csv", [(" ",)], ["text"])
    write_rows(tmp_path / "part.csv", [("iron", "metal"), ("pear", "fruit"), ("gold", "")])
    write_rows(tmp_path / "two.csv", [("iron", "metal"), ("pear", "fruit")])
    write_rows(tmp_path / "empty.csv", [("silver", ""), ("plum", "")])
    write_rows(tmp_path / "same.csv", [("silver", "metal"), ("plum", "fruit")])
    line = [word.replace("TMP", str(tmp_path)) for word in line]
    assert solve("method=prototypes", *line).error.startswith(message.replace("TMP", str(tmp_path)))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["crt", "hybrid_sc", "tsc"])
def test_a_class_without_train_rows_is_no_obstacle_to_methods_that_weigh_rows_by_their_own_class(fit, method):
    names = "dataset.label_names=[fruit,metal,snow,animal,weather]"
    run = fit(f"method={method}", names, "trainer.max_epochs=2", "method.classifier_weighting=inverse_frequency")
    assert run.metrics["class_counts"][2] == 0 and run.metrics["status"] == "finished"


def test_no_label_and_no_name_says_what_to_do(solve, tmp_path):
    write_rows(tmp_path / "codes.csv", [("iron", "1"), ("pear", "2"), ("gold", "1"), ("plum", "2")])
    files = [f"dataset.{split}={tmp_path}/codes.csv" for split in ("train", "test")]
    result = solve("method=prototypes", *files, "dataset.labels=0")
    allowed = "names (dataset.class_descriptions=FILE), some labels, or task=cluster for topics"
    wanted = f"error: dataset.labels: found 0, and no names to read; allowed: {allowed}"
    assert result.code == 2 and result.err.splitlines()[-1] == wanted


@pytest.mark.slow
def test_a_trained_method_sees_the_thinned_labels_alone(fit, toy_csv):
    """Validation rows come out of the budget too, where some are shipped as well."""
    line = ["method=ce", "dataset.labels_per_class=4", "trainer.max_epochs=1"]
    result = fit(*line)
    indices = json.loads((result.folder / "kept_indices.json").read_text())
    assert len(indices["train"]) + len(indices["val"]) == 16 and len(indices["unlabelled"]) == 52
    shipped = fit(*line, f"dataset.val={toy_csv['test']}")
    assert json.loads((shipped.folder / "kept_indices.json").read_text()) == indices


@pytest.mark.slow
def test_a_text_to_which_no_label_applies_is_labelled_and_one_that_nobody_looked_at_is_not(solve, tmp_path):
    fruits, metals = TOPICS["fruit"], TOPICS["metal"]  # numbers are one unknown token, and all would be copies
    table = [(f"{fruits[n % 10]} {metals[n // 10]}", ["a", "b", "a/b", ""][n % 4]) for n in range(60)]
    write_rows(tmp_path / "train.csv", table)
    line = ["method=bce_words", f"dataset.train={tmp_path}/train.csv", f"dataset.test={tmp_path}/train.csv"]
    line.append("dataset.label_separator=/")
    run = solve(*line, "dataset.labels=40")
    kept = json.loads((run.folder / "kept_indices.json").read_text())
    learned = [table[row][1] for row in (*kept["train"], *kept["val"])]
    assert len(learned) == 40 and "" in learned
    refused = solve(*line, "dataset.label_names=[a,b]").error
    assert refused.startswith("dataset: 15 of 60 train rows have no label, allowed: a label for each")
    with_separator = solve(*line, "dataset.label_names=[a/b,c]").error
    problem = "dataset.label_names: found 'a/b' beside dataset.label_separator=/"
    assert with_separator == f"{problem}, allowed: names without it"
