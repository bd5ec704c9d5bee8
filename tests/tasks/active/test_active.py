"""Active learning on the toy pool: the curve, what was chosen, kills between phases, a person as the oracle."""

import csv
import json
import shutil
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import yaml

from active_learning import strategies
from active_learning.selection import needed_by
from labelling.answers import Answer
from labelling.desk import AT_RANDOM
from tasks.active.people import InTerminal
from tasks.active.rounds import _in_turn
from tests.active_learning.pools import pool
from tests.command_lines import best_weights, rows

STRATEGIES = [
    path.stem for path in sorted((Path(__file__).parents[3] / "conf" / "active").glob("*.yaml")) if path.stem != "_base"
]
SHORT = ["method=scl_hnm", "active.query_size=8", "active.budget=24", "trainer.max_epochs=3"]
THINNED_TO_ALL = ["imbalance=counts", "imbalance.counts={fruit:32}", "dataset.labels=68"]


@pytest.fixture
def learn(fit):
    return lambda *arguments, stdin="": fit(*SHORT, *arguments, stdin=stdin)


@pytest.mark.slow
def test_a_curve_from_the_first_query_to_the_budget(learn):
    result = learn("active=rep_clun")
    curve, chosen = rows(result.folder / "curve.csv"), rows(result.folder / "chosen.csv")
    assert [row["labels"] for row in curve] == ["8", "16", "24"]
    assert len({row["position"] for row in chosen}) == 24 and all(row["reason"] for row in chosen)
    metrics = result.metrics
    assert metrics["status"] == "finished" and metrics["active"] == "rep_clun" and metrics["protocol"] == "few_shot"
    heights = [float(row["test/accuracy"]) for row in curve]
    area = (heights[0] + 2 * heights[1] + heights[2]) / 4
    assert metrics["active/area_accuracy"] == pytest.approx(area)
    assert "area under the curve" in result.out and (result.folder / "curve.svg").exists()
    # a round is a run: what it labelled, a fifth of it to choose the epoch
    kept = json.loads((result.folder.parent / curve[-1]["run"] / "kept_indices.json").read_text())
    assert (len(kept["train"]), len(kept["val"])) == (19, 5)
    assert sorted(kept["train"] + kept["val"]) == sorted(int(row["position"]) for row in chosen)


def _json(path):
    return json.loads(path.read_text())


def _yaml(path):
    return yaml.safe_load(path.read_text())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "thinned"),
    [("ce", []), ("kontrast", []), ("kontrast", ["imbalance.ir=2"]), ("kontrast", THINNED_TO_ALL)],
)
def test_of_a_pool_that_a_budget_left_the_rows_asked_for_train(learn, method, thinned):
    """And of a method that reads them, the others are texts without a label."""
    line = ["active=random", "active.budget=16", "dataset.labels=30", "trainer.max_epochs=1", "trainer.least_steps=0"]
    result = learn(*line, f"method={method}", *thinned)
    chosen, curve = (rows(result.folder / name) for name in ("chosen.csv", "curve.csv"))
    place = result.folder.parent / curve[-1]["run"]
    kept, config = (read(place / name) for read, name in ((_json, "kept_indices.json"), (_yaml, "config.yaml")))
    texts = [row["text"] for row in rows(Path(config["dataset"]["train"]))]
    asked = [texts[row] for row in kept["train"] + kept.get("val", [])]
    assert sorted(asked) == sorted(row["text"] for row in chosen)
    assert not set(kept["train"]) & set(kept["unlabelled"]) and len(kept["unlabelled"]) > (14 if thinned else 30)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy_runs(learn, strategy):
    result = learn(f"active={strategy}", "active.budget=16", "trainer.max_epochs=1", "method=ce")
    assert len(rows(result.folder / "chosen.csv")) == 16


@pytest.mark.slow
def test_names_stand_for_the_model_in_the_first_round_alone(learn, tmp_path):
    line = ["active=class_balanced", "active.cold_start=names", "active.budget=16", "trainer.max_epochs=1"]
    result = learn(*line)
    reasons = [row["reason"].rpartition("; ")[2] for row in rows(result.folder / "chosen.csv")]
    assert {reason.removesuffix(" by the names")[:-1] for reason in reasons[:8]} == {"class "}
    assert {reason[:-1] for reason in reasons[8:]} == {"predicted class "}
    assert [reason[6] for reason in reasons[:8]] == [*"0123"] * 2
    assert result.metrics["reads"] == "N" and "scl_hnm (N) · class_balanced" in result.out
    run = json.loads((result.folder.parent / result.metrics["last_run"] / "metrics.json").read_text())
    assert run["reads"] == "", "of texts that have labels it knows these alone"
    codes = learn(*line, pool_of(tmp_path / "pool.csv", [(f"plum {i}", i % 3) for i in range(30)]), "dataset.test=null")
    assert "active.cold_start: found names, but no names of classes to read" in codes.err


@pytest.mark.slow
def test_two_runs_agree_to_the_bit(learn, tmp_path):
    files = [learn("active=badge", f"paths.runs={tmp_path / name}").folder for name in ("one", "two")]
    for name in ("curve.csv", "chosen.csv"):
        assert (files[0] / name).read_text() == (files[1] / name).read_text()


@pytest.mark.slow
def test_an_interrupt_changes_nothing(learn, tmp_path):
    """The kills of every phase are in test_active_kills.py."""
    import tasks.active.rounds

    whole = learn("active=entropy", f"paths.runs={tmp_path / 'whole'}").folder
    with mock.patch.object(tasks.active.rounds, "_train", side_effect=KeyboardInterrupt):
        stopped = learn("active=entropy")
    assert stopped.code == 130 and "type the same command again" in stopped.err
    again = learn("active=entropy").folder
    for name in ("curve.csv", "chosen.csv"):
        assert (again / name).read_text() == (whole / name).read_text()


@pytest.mark.parametrize("strategy", [strategies.rep, strategies.coreset])
@pytest.mark.parametrize("left", [54, 18])
def test_a_person_is_asked_first_what_the_strategy_chooses(strategy, left):
    state = pool()
    told = {name: (state | {"rng": None})[name] for name in needed_by(strategy)}
    told["unlabelled"] = told["unlabelled"][:left]
    alone, ahead = (_in_turn(strategy, told | {"rng": np.random.default_rng(0)}, times) for times in (1, 3))
    assert ahead.indices[:7].tolist() == alone.indices.tolist() and ahead.reasons[:7] == alone.reasons
    assert len(set(ahead.indices.tolist())) == len(ahead.reasons) == len(ahead.scores) == min(21, left)


def pool_of(path, texts):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *texts])
    return f"dataset.train={path}"


@pytest.mark.slow
def test_a_pool_smaller_than_the_query_is_asked_for_whole_and_equal_texts_once(learn, tmp_path):
    texts = [("apple pear", "fruit"), ("iron zinc", "metal")] * 5 + [(f"plum {i}", "fruit") for i in range(6)]
    pool = pool_of(tmp_path / "pool.csv", texts)
    result = learn("active=margin", "active.query_size=20", pool, pool.replace("train", "test"))
    chosen = rows(result.folder / "chosen.csv")
    assert sorted(row["text"] for row in chosen) == sorted({text for text, _ in texts})
    assert result.metrics["labels"] == 8 and result.metrics["rounds"] == 1


@pytest.mark.slow
@pytest.mark.parametrize("options", [["active=rep_clun"], ["active=cal", "method=ce", "active.query_size=2"]])
def test_labels_that_are_all_equal(learn, tmp_path, options):
    """One class seen, two never: the curve is defined; a query too small to train on is followed by the next."""
    pool = pool_of(tmp_path / "pool.csv", [(f"plum {i}", "fruit") for i in range(20)])
    test = pool_of(tmp_path / "test.csv", [("plum", "fruit"), ("iron", "metal")]).replace("train", "test")
    names = "dataset.label_names=[metal,fruit,never]"
    result = learn("active.query_size=4", *options, "active.budget=8", "trainer.max_epochs=1", pool, test, names)
    curve = rows(result.folder / "curve.csv")
    assert [int(row["labels"]) for row in curve] == ([4, 8] if "active=rep_clun" in options else [4, 6, 8])
    assert all(float(row["non-uniformity"]) == pytest.approx(4 / 3) for row in curve)
    assert {row["label"] for row in rows(result.folder / "chosen.csv")} == {"fruit"}
    assert float(curve[-1]["test/macro_f1"]) <= float(curve[-1]["test/accuracy"])


def test_a_pool_of_which_too_little_can_be_labelled(learn, tmp_path):
    pool = pool_of(tmp_path / "pool.csv", [(f"plum {i}", "fruit") for i in range(4)])  # of which one becomes test
    inputs = [pool, "dataset.test=null", "dataset.label_names=[metal,fruit]", "active.oracle=prompt"]
    result = learn("active=random", "active.query_size=2", *inputs, stdin="2s\na\n")
    assert result.code == 2
    assert "round 1: 1 labels, too few to train" in result.err
    assert "active: found 1 labelled texts and none left to ask for; allowed: at least 3" in result.err


@pytest.mark.slow
def test_a_person_fills_a_file(learn, tmp_path):
    options = ["active=entropy", "active.oracle=file", "active.budget=16"]
    first = learn(*options)
    assert first.code == 2 and "8 texts to label in" in first.err and "fill the column label" in first.err
    (file,) = tmp_path.glob("runs/*/to_label.csv")
    assert "0 of 8" not in learn(*options).err and "8 of 8 labels are missing" in learn(*options).err

    def fill(labels):
        built = rows(file)
        with file.open("w", newline="") as stream:
            writer = csv.DictWriter(stream, built[0].keys())
            writer.writeheader()
            writer.writerows(row | {"label": label} for row, label in zip(built, labels, strict=True))
        return built

    fill(["fruit"] * 7 + ["fruits"])
    assert (
        "to_label.csv:9: found 'fruits'; allowed: animal, fruit, metal, weather, skip, ambiguous" in learn(*options).err
    )
    asked = fill(["fruit", "metal"] * 3 + ["skip", "metal"])
    assert "8 texts to label" in learn(*options).err  # of the next round: the budget counts labels
    assert not {row["text"] for row in rows(file)} & {row["text"] for row in asked}
    (first_round,) = (run for run in tmp_path.glob("runs/*") if (run / "kept_indices.json").exists())
    counts = json.loads((first_round / "metrics.json").read_text())["class_counts"]
    assert counts[0] == counts[3] == 0 and sum(counts) == 6  # as the person said; one of the seven validates
    fill(["animal"] * 8)
    assert "1 texts to label" in learn(*options).err
    fill(["weather"])
    done = learn(*options)
    assert done.metrics["labels"] == 16
    assert [row["label"] for row in rows(done.folder / "chosen.csv")][:8] == ["fruit", "metal"] * 3 + ["skip", "metal"]


NAMES = "dataset.label_names=[weather,metal,fruit,animal]"


@pytest.mark.slow
def test_a_pool_without_labels_is_labelled_by_a_person(fit, toy_csv, tmp_path):
    pool, test = tmp_path / "pool.csv", f"dataset.test={toy_csv['test']}"
    texts = [row["text"] for row in rows(toy_csv["train"])]
    pool.write_text("text\n" + "".join(f"{text}\n" for text in texts))
    options = ["method=ce", "active=rep", "active.query_size=4", "active.budget=4", "trainer.max_epochs=1"]

    def ask(*arguments, stdin=""):
        return fit(*options, f"dataset.train={pool}", *arguments, stdin=stdin)

    assert "no column 'label'" in ask("dataset.test=null", "active.oracle=file").error
    assert "allowed: file, prompt, browser" in ask(NAMES, test, "active.oracle=labels").error
    by_people = [NAMES, test, "active.oracle=prompt"]  # before whom all this is said
    assert "imbalance.ir: found 2 where texts of the pool have no label" in ask(*by_people, "imbalance.ir=2").error
    counts = ask(*by_people, "imbalance=counts", "imbalance.counts={metal:1}").error
    assert "imbalance: found Counts where texts of the pool have no label, which cannot be thinned by class" in counts
    assert "dataset.labels: found 9 where texts of the pool have no label" in ask(*by_people, "dataset.labels=9").error
    first = ask(NAMES, test, "active.oracle=file")
    assert "4 texts to label" in first.error and "texts of the pool" not in first.err
    (asked,) = tmp_path.glob("runs/*/to_label.csv")
    held_out = [row["text"] for row in rows(asked)][:2]  # texts that would be asked for, as test texts
    leaking = tmp_path / "leaking.csv"
    leaking.write_text("text,label\n" + "".join(f"{text.upper()},fruit\n" for text in held_out) + "a pear,metal\n")
    told = ask(NAMES, f"dataset.test={leaking}", "active.oracle=file")
    assert "2 texts of the pool are also in test or validation: not asked for" in told.err
    (other,) = {*tmp_path.glob("runs/*/to_label.csv")} - {asked}
    assert not set(held_out) & {row["text"] for row in rows(other)}
    shutil.rmtree(other.parent)
    missing = f"{len(texts)} of {len(texts)} train rows have no label"
    assert missing in fit("method=ce", f"dataset.train={pool}", NAMES, test).error
    answers = ["weather", "metal", "fruit", "fruit"]
    by_file = [NAMES, test, "active.oracle=file"]
    (file,) = tmp_path.glob("runs/*/to_label.csv")
    lines = file.read_text().splitlines()
    file.write_text("".join(f"{line}{label}\n" for line, label in zip(lines, ["", *answers], strict=True)))
    by_keys = [NAMES, "dataset.test=null", "active.oracle=prompt", f"active.answers={tmp_path / 'keys.jsonl'}"]
    stopped = ask(*by_keys, stdin="12q")  # asked before anything is loaded, which takes no model
    assert stopped.code == 130 and "the same line goes on" in stopped.err and "error" not in stopped.err
    for result, split in ((ask(*by_file), "test"), (ask(*by_keys, stdin="33\n"), "val")):
        (curve,) = rows(result.folder / "curve.csv")
        assert 0 <= float(curve[f"{split}/accuracy"]) <= 1 and len(curve) == 5
        assert result.metrics[f"{split}/accuracy"] == float(curve[f"{split}/accuracy"])
        assert [row["label"] for row in rows(result.folder / "chosen.csv")] == answers
        if split == "val":  # two of an earlier start
            reasons = [row["reason"] for row in rows(result.folder / "chosen.csv")]
            assert reasons == ["labelled before"] * 2 + [AT_RANDOM] * 2
        assert ("say little" in result.out) == (split == "val")


@pytest.mark.slow
def test_answers_outlive_the_run_that_they_were_given_to(fit, toy_csv, tmp_path, monkeypatch):
    """A larger budget, another strategy and a file from elsewhere go on with every answer there is."""
    pool = tmp_path / "pool.csv"
    pool.write_text("text\n" + "".join(f"{row['text']}\n" for row in rows(toy_csv["train"])))
    chosen = tmp_path / "mine.csv"

    def ask(*arguments, stdin=""):
        options = ["method=ce", "active.query_size=4", "trainer.max_epochs=1", "active.oracle=prompt", "logger=null"]
        return fit(*options, f"dataset.train={pool}", "dataset.test=null", NAMES, *arguments, stdin=stdin)

    first = ask("active=random", "active.budget=4", stdin="1234\n")
    assert [row["label"] for row in rows(first.folder / "chosen.csv")] == ["weather", "metal", "fruit", "animal"]
    assert "of 1 val texts right" in first.err  # and not a share of one
    with monkeypatch.context() as patched:
        patched.setattr(InTerminal, "begin", lambda people: pytest.fail("a finished curve asks nobody"))
        assert ask("active=random", "active.budget=4").folder == first.folder
    second = ask("active=entropy", "active.budget=8", stdin="4n32\n1\n")
    labels = [row["label"] for row in rows(second.folder / "chosen.csv")]
    assert labels[:4] == ["weather", "metal", "fruit", "animal"] and "no class fits" in labels[4:]
    assert [row["reason"] for row in rows(second.folder / "chosen.csv")][:4] == ["labelled before"] * 4
    assert second.metrics["labels"] == 8 and len({row["text"] for row in rows(second.folder / "chosen.csv")}) == 9
    chosen.write_text((second.folder / "chosen.csv").read_text())
    other = ["active=rep", "active.budget=8", f"active.answers={tmp_path / 'other.jsonl'}"]
    third = ask(*other, f"active.answers_from={chosen}")
    assert third.metrics["labels"] == 8 and "9 of 9 answers are new" in third.err
    chosen.write_text("text,label\nplum,banana\n")
    wrong = ask(*other, "seed=1", f"active.answers_from={chosen}")
    assert f"active.answers_from={chosen}: found the label 'banana'; allowed: weather, metal, fruit" in wrong.error


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["active=random", "active.port=8000"], "active.port: has no effect; allowed with active.oracle=browser"),
        (["active=random", "active.answers=a.jsonl"], "allowed with active.oracle=file|prompt|browser"),
        (["active=entropy", "protocol=clean"], "protocol: found clean, allowed with active: few_shot, published"),
        (["active=entropy", "active.query_size=200"], "active.query_size: found 200; allowed: a number or a list"),
        (["active=entropy", "active.query_size=[8,0]"], "active.query_size: found [8, 0]; allowed: a number or a list"),
        (["active=entropy", "active.oracle=friend"], "active.oracle: found 'friend'; allowed: labels, file, prompt"),
        (["active=entropy", "active.query_size=2", "active.budget=2"], "active.budget: found 2; allowed: at least 3"),
        (["active=guess"], "guess"),
        (["active=random", "protocol=fixed"], "protocol: found fixed; allowed with method=scl_hnm"),
        (["active=entropy", "active.cold_start=names"], "found names, which active=entropy would not read"),
        (["active=class_balanced", "active.cold_start=names", "active.seed_rounds=1"], "which active.seed_rounds=1 wo"),
        (["active=random", "active.validation_size=7"], "active.validation_size: found 7; allowed: up to"),
    ],
)
def test_what_cannot_be_is_one_line(learn, options, message):
    result = learn(*options)
    assert result.code == 2 and message in result.error


@pytest.mark.slow
def test_a_round_may_go_on_from_the_last_weights(learn, fit):
    still = ["active=random", "active.budget=16", "trainer.max_epochs=1", "optimizer.lr=1e-9", "method.head_lr=1e-9"]
    options = ["active.reset_weights=false", "active.validation_size=3", "active.keep_weights=all"]
    curve = rows(learn(*still, *options).folder / "curve.csv")
    first, second = (learn(*still, *options).folder.parent / row["run"] for row in curve)
    kept = [json.loads((run / "kept_indices.json").read_text()) for run in (first, second)]
    assert [(len(single["train"]), len(single["val"])) for single in kept] == [(5, 3), (13, 3)]
    moved = [_distance(first, second), _distance(first, fit("method=scl_hnm", "seed=1", *still[2:]).folder)]
    assert moved[0] < 1e-6 < 1e-2 < moved[1]


@pytest.mark.slow
def test_a_curve_goes_on_from_a_round_whose_weights_another_curve_dropped(learn):
    line = ["active.budget=16", "trainer.max_epochs=1", "active.reset_weights=false"]
    first, second = (learn(f"active={name}", *line) for name in ("random", "entropy"))
    assert (first.code, second.code) == (0, 0), second.err
    assert [rows(result.folder / "curve.csv")[0]["run"] for result in (first, second)] == 2 * [
        rows(first.folder / "curve.csv")[0]["run"]
    ]


def _distance(single, other):
    weights = [best_weights(run)["classifier.weight"] for run in (single, other)]
    return float((weights[0] - weights[1]).abs().max())


@pytest.mark.slow
def test_a_start_that_does_not_fit_is_one_line(fit):
    run = fit("method=scl_hnm", "trainer.max_epochs=1").folder.name
    assert f"start_from={run}: found method=scl_hnm; allowed: method=ce" in fit("method=ce", f"start_from={run}").error
    assert "start_from=nobody: no such run" in fit("method=ce", "start_from=nobody").error


@pytest.mark.slow
def test_query_sizes_in_turn_and_the_figures_of_each_point(learn, use, toy_csv, tmp_path):
    result = learn("active=entropy", "active.query_size=[4,8]", "active.budget=16", "callbacks=geometry")
    curve, metrics = rows(result.folder / "curve.csv"), result.metrics
    assert [row["labels"] for row in curve] == ["4", "12", "16"]
    for row in curve:
        assert metrics[f"active/accuracy@{row['labels']}"] == float(row["test/accuracy"])
        assert metrics[f"active/macro_f1@{row['labels']}"] == float(row["test/macro_f1"])
    last = json.loads((result.folder.parent / curve[-1]["run"] / "metrics.json").read_text())
    assert metrics["test/alignment"] == last["test/alignment"] and metrics["test/accuracy"] == last["test/accuracy"]
    actual = use("predict", result, f"input={toy_csv['test']}", f"output={tmp_path / 'predicted.csv'}")
    assert actual.code == 0 and len(rows(tmp_path / "predicted.csv")) == 24  # by the last round
    assert metrics["active/non_uniformity"] == float(curve[-1]["non-uniformity"]) and metrics["seconds/total"] > 0


@pytest.mark.slow
def test_weights_of_earlier_rounds_are_dropped_and_made_again_where_another_curve_needs_them(learn, tmp_path):
    single, first_random = "active.budget=16", ["active.seed_rounds=1"]
    curve = rows(learn("active=entropy", single, *first_random).folder / "curve.csv")
    weights = [tmp_path / "runs" / row["run"] / "checkpoints" / "best.ckpt" for row in curve]
    assert [file.is_file() for file in weights] == [False, True]
    shared = rows(learn("active=margin", single, *first_random).folder / "curve.csv")
    alone = rows(learn("active=margin", single, *first_random, f"paths.runs={tmp_path / 'alone'}").folder / "curve.csv")
    assert shared[0]["run"] == curve[0]["run"] and shared == alone
    learn("active=entropy", "active.budget=8", *first_random)  # it ends with that run, which stays whole from here on
    learn("active=entropy", "active.budget=24", *first_random)
    assert [file.is_file() for file in weights] == [True, True]


@pytest.mark.slow
def test_all_weights_are_kept_of_rounds_that_other_curves_share(learn, tmp_path):
    line = ["active=entropy", "active.seed_rounds=1", "trainer.max_epochs=1"]
    last = learn(*line, "active.budget=16")
    every = learn(*line, "active.budget=16", "active.keep_weights=all")
    curve = rows(every.folder / "curve.csv")
    assert last.folder != every.folder and curve == rows(last.folder / "curve.csv")
    learn(*line, "active.budget=24")
    runs = [tmp_path / "runs" / row["run"] for row in curve]
    assert all((run / "checkpoints" / "best.ckpt").is_file() for run in runs)
    seconds = [json.loads((run / "metrics.json").read_text())["seconds/total"] for run in runs]
    assert every.metrics["seconds/total"] > 0.9 * sum(seconds), "rounds that were found count as what they took"


@pytest.mark.slow
def test_the_published_protocol_chooses_by_test_and_says_so(learn):
    result = learn("active=random", "protocol=published", "active.budget=8")
    assert "protocol published" in result.out and result.metrics["protocol"] == "published"


@pytest.mark.slow
def test_several_classes_a_text_are_asked_for(fit, toy_csv, tmp_path):
    files = {}
    for split in ("train", "test"):
        files[split] = tmp_path / f"{split}.csv"
        lines = [f"{row['text']},{row['label']}|long\n" if len(row["text"]) > 30 else f"{row['text']},{row['label']}\n"
                 for row in rows(toy_csv[split])]  # fmt: skip
        files[split].write_text("text,label\n" + "".join(lines))
    line = ["method=bce", 'dataset.label_separator="|"', "active.query_size=10",
            *(f"dataset.{split}={file}" for split, file in files.items())]  # fmt: skip
    result = fit(*line, "active=rep_clun", "active.budget=20")
    curve = rows(result.folder / "curve.csv")
    assert [row["labels"] for row in curve] == ["10", "20"] and "test/micro_f1" in curve[0]
    assert any("|" in row["label"] for row in rows(result.folder / "chosen.csv"))
    assert "active: found margin, which takes one class a text; allowed where" in fit(*line, "active=margin").error

    files["train"].write_text("text\n" + "".join(f"{row['text']}\n" for row in rows(toy_csv["train"])))
    person = [*line, "active=entropy", "active.budget=10", "active.oracle=prompt", "logger=null",
              "dataset.label_names=[weather,metal,fruit,animal,long]"]  # fmt: skip
    result = fit(*person, stdin="1\n" * 4 + "15\n" * 3 + "25\n" * 2 + "n" + "\n")
    assert sorted(row["label"] for row in rows(result.folder / "chosen.csv")) == sorted(
        ["weather"] * 4 + ["weather|long"] * 3 + ["metal|long"] * 2 + ["no class fits"]
    )


@pytest.mark.slow
def test_every_label_trains_where_nothing_validates(fit, toy_csv, tmp_path):
    line = ["method=kontrast", "protocol=fixed", "active=random", "active.query_size=8", "active.budget=8"]
    result = fit(*line, "trainer.least_steps=0")
    (curve,) = rows(result.folder / "curve.csv")
    kept = json.loads((result.folder.parent / curve["run"] / "kept_indices.json").read_text())
    assert len(kept["train"]) == 8 and "val" not in kept and 0 <= float(curve["test/accuracy"]) <= 1
    refused = fit(*line, "active.validation_size=2").error
    assert "active.validation_size: under protocol=fixed nothing validates; allowed there: null" in refused
    pool = tmp_path / "pool.csv"
    pool.write_text("text\n" + "".join(f"{row['text']}\n" for row in rows(toy_csv["train"])))
    alone = [f"dataset.train={pool}", "dataset.test=null", NAMES, "active.oracle=file"]
    assert "protocol: found fixed without test rows" in fit(*line, *alone).error


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["learning", "choosing"])
def test_an_answer_that_is_changed_after_the_last_question_counts(fit, toy_csv, tmp_path, monkeypatch, moment):
    pool, answers = tmp_path / "pool.csv", tmp_path / "answers.jsonl"
    texts = [row["text"] for row in rows(toy_csv["train"])][:8]
    pool.write_text("text\n" + "".join(f"{text}\n" for text in texts))
    answers.write_text("".join(f"{json.dumps({'text': text, 'label': 'metal'})}\n" for text in texts))

    def say(people, stage, curve=None):
        if stage.startswith(moment) and curve != []:  # there was a round
            people.book.record(Answer(texts[0], "fruit"))

    monkeypatch.setattr(InTerminal, "say", say)
    result = fit("method=ce", "trainer.max_epochs=1", "active=random", "active.query_size=8", "active.budget=8",
                 "active.oracle=prompt", f"active.answers={answers}", f"dataset.train={pool}", "dataset.test=null",
                 "dataset.label_names=[metal,fruit]")  # fmt: skip
    assert sorted(row["label"] for row in rows(result.folder / "chosen.csv")) == ["fruit"] + ["metal"] * 7
    before, after = rows(result.folder / "curve.csv")
    assert before["labels"] == after["labels"] == "8" and before["run"] != after["run"] == result.metrics["last_run"]


@pytest.mark.slow
def test_a_class_that_a_person_added_is_described_by_its_name(fit, toy_csv, tmp_path):
    pool, names, answers = tmp_path / "pool.csv", tmp_path / "names.yaml", tmp_path / "answers.jsonl"
    texts = [row["text"] for row in rows(toy_csv["train"])]
    pool.write_text("text\n" + "".join(f"{text}\n" for text in texts))
    names.write_text("metal: iron, copper\nfruit: plum, pear\n")
    said = [{"text": text, "label": ("metal", "fruit", "fine arts")[i % 3]} for i, text in enumerate(texts[:9])]
    answers.write_text("".join(f"{json.dumps(line)}\n" for line in [{"class": "fine arts"}, *said]))
    line = ["method=kontrast", "trainer.least_steps=0", "trainer.max_epochs=1", "protocol=few_shot", "active=random",
            "active.query_size=9", "active.budget=9", "active.oracle=prompt", f"active.answers={answers}",
            f"dataset.train={pool}", "dataset.test=null", "dataset.label_names=[metal,fruit]",
            f"dataset.class_descriptions={names}"]  # fmt: skip
    result = fit(*line)
    (curve,) = rows(result.folder / "curve.csv")
    learnt = json.loads((result.folder.parent / curve["run"] / "metrics.json").read_text())
    assert learnt["label_names"] == ["metal", "fruit", "fine arts"]
    assert f"{names}: no description of 'fine arts'; the name stands for it" in result.err
    names.write_text(f"{names.read_text()}fine arts: painting, music\n")
    again = fit(*line)
    assert again.metrics["status"] == "finished" and "no description" not in again.err
