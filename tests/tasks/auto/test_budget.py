"""Minutes: what is left of them, which candidates they go to, and a run that cannot end."""

from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from scipy.sparse import csr_matrix
from sklearn.metrics import f1_score

from callbacks import time_limit
from engine.identify import compose_run
from engine.identity import completed
from engine.plan import Plan
from reporting.auto.report import write_report
from reporting.auto.sentence import FINE_TUNED, at_least
from storage.errors import InputError
from storage.run_store import RunFolder
from tasks.auto import answer, passed_on, safe_name, stem_of
from tasks.auto.answer import reads_unlabelled
from tasks.auto.candidates.declarations import CANDIDATES, OF_SEVERAL, by_name, check_names, chosen
from tasks.auto.candidates.embeddings import Embeddings, encoded, seconds_per_text
from tasks.auto.candidates.folds import FoldOutcome
from tasks.auto.candidates.plans import encoder_name, plan_of, protocol_words
from tasks.auto.comparison import learning_curve, order, trained, untrained
from tasks.auto.comparison.clock import Clock
from tasks.auto.comparison.durations import foretold_training, solving_seconds
from tasks.auto.comparison.study import Entry, Study, enough_folds
from tasks.auto.comparison.trained import better_half, those_that_can_end
from tasks.auto.model import further_rows, last_fit
from tasks.auto.model.last_fit import longer_steps, words_of_all_rows
from tasks.auto.reading.labelled import Labelled
from tasks.auto.reading.legibility import ANOTHER, hardly_read, legibility
from tasks.auto.reading.rows import facts, notes_of_length, regimes_of, sampled, texts_cut
from tests.reporting.auto.folders import CANDIDATES as TOLD
from tests.reporting.auto.folders import write_folder


def embeddings_of(number: int, seconds: float) -> Any:
    """Of so many texts, each encoded in so many seconds."""
    rows, counts = np.empty((number, 2)), np.empty((number, 0))
    of_texts = {"rows": rows, "counts": counts, "unlabelled": [], "names": None, "encoder": "minilm", "blocks": 6}
    return SimpleNamespace(seconds_per_text=seconds, size_mib=1.0, **of_texts)


def test_what_is_left_counts_earlier_starts_and_what_is_kept():
    now = [100.0]
    clock = Clock(10, used=4, now=lambda: now[0])
    assert clock.left == 6 * 60 - 24 and clock.used == 4
    now[0] += 60
    clock.keep(30)
    clock.keep(10)
    assert clock.left == 5 * 60 - 24 - 30 and clock.used == 5
    for rows, classes, kept in ((100_000, 4, 24), (20_000, 1_000, 40), (100_000, 1_000, 120)):
        clock.expect_report(rows, classes)
        assert clock.left == 5 * 60 - kept - 30


def test_candidates_follow_the_data_and_come_cheapest_first():
    names = [c.name for c in chosen(regimes_of(np.array([900, 800]), 1700), None)]
    assert names[0] == "majority" and "logistic" in names and not {"sharprecl", "scl_ce"} & set(names)
    rare = chosen(regimes_of(np.array([186, 70, 30, 14]), 300), None)
    assert {"sharprecl", "scl_ce", "logit_adjusted"} <= {c.name for c in rare}
    assert [c.cost for c in rare] == sorted(c.cost for c in rare)
    assert [c.name for c in chosen([], ["ce", "logistic"])] == ["majority", "logistic", "ce"]
    several = [c.name for c in chosen([], None, several=True)]
    assert {"majority", "tfidf_linear", "logistic", "neighbours", "linear_words", "bce", "knn_mltc"} <= set(several)
    for check in (check_names, lambda names: chosen([], names)):
        with pytest.raises(InputError, match="methods: found 'svm'; allowed: majority, tfidf_linear"):
            check(["svm"])
    check_names(["bce", "ce"])
    for alone in ([], ["majority"]):
        with pytest.raises(InputError, match=r"methods: found \[(majority)?\]; allowed, one at least: tfidf_linear, "):
            check_names(alone)
    with pytest.raises(InputError, match="methods: found 'ce'; allowed: majority, tfidf_linear, .*bce"):
        check_names(["ce"], several=True)
    with pytest.raises(InputError, match="methods: kontrast reads texts without a label, found none; allowed with"):
        check_names(["kontrast"], several=False, has_unlabelled=False)


def test_a_label_that_is_mistyped_once_makes_no_classes_imbalanced():
    assert regimes_of(np.array([100, 1, 100, 100]), 301) == ["few rows"]
    assert regimes_of(np.array([100, 2, 100, 100]), 302) == ["few rows", "imbalanced"]
    assert regimes_of(np.array([3, 1, 1]), 5) == ["few rows"]


def test_a_class_of_one_row_is_not_what_more_labels_would_bring():
    labels = np.array([0, 0, 1, 1, 2, 2, 3])
    study: Any = SimpleNamespace(labels=labels, several=False, num_classes=4, class_counts=np.bincount(labels))
    answers = np.array([0, 0, 1, 0, 2, 2, 0])
    expected = f1_score(labels, answers, average=None)[:3].mean()
    assert learning_curve._figures(study, np.arange(7), answers) == pytest.approx((expected, 5 / 7))
    bits = np.eye(4, dtype=int)
    study = SimpleNamespace(labels=bits[labels], several=True, num_classes=4, class_counts=np.bincount(labels))
    assert learning_curve._figures(study, np.arange(7), bits[answers])[0] == pytest.approx(expected)


def test_labels_that_are_called_alike_are_said_with_their_rows():
    labels = ["positive"] * 6 + ["postive"] + ["negative"] * 4 + ["Negative"] * 2
    data = Labelled("a.csv", [f"text {n}" for n in range(13)], labels, list(range(13)))
    names, codes = np.unique(labels, return_inverse=True)
    about = facts(data, names.tolist(), codes, None)
    assert [entry.get("alike") for entry in about["classes"]] == [["negative"], ["Negative"], ["postive"], ["positive"]]
    alike = "are classes of their own, though they are called alike"
    assert about["notes"][1:] == [f"'positive' (6 rows) and 'postive' (1 row) {alike}",
                         f"'Negative' (2 rows) and 'negative' (4 rows) {alike}",
                         "one spelling in the file makes one class of those that are called alike"]  # fmt: skip


def test_with_very_many_classes_what_solves_nothing_comes_first_and_the_solver_of_words_is_not_feared(tmp_path):
    """A fold of TF-IDF took 9 s; where no step is solved, 2 s."""
    labels, texts = np.repeat(np.arange(1000), 3), [f"ten words of a text that is number {n}" for n in range(3000)]
    embeddings: Any = SimpleNamespace(names=None, rows=np.empty((3000, 384)), seconds_per_text=0.01)
    names = [f"class {n}" for n in range(1000)]
    study = Study(RunFolder(tmp_path), Clock(3), [], names, labels, texts, embeddings)
    untrained = [c for c in chosen([], None) if c.kind != "trained"]
    foretold = {c.name: solving_seconds(study, c) for c in sorted(untrained, key=partial(solving_seconds, study))}
    assert list(foretold)[:1] == ["majority"] and list(foretold)[-3:] == ["tfidf_linear", "logistic", "linear_words"]
    assert foretold["prototypes"] == 0 and 5 < foretold["tfidf_linear"] < 20


def test_where_texts_have_several_labels_the_sum_with_words_is_not_feared(tmp_path):
    """On Reuters a fold of it took 2.8 s, of logistic regression 1.5 s and of TF-IDF 2.3 s."""
    embeddings: Any = SimpleNamespace(names=None, rows=np.empty((994, 384)), seconds_per_text=0.01)
    labels, texts = np.zeros((994, 54), int), [f"{n} " + 89 * "word " for n in range(994)]
    study = Study(RunFolder(tmp_path), Clock(2), [], [f"label {n}" for n in range(54)], labels, texts, embeddings)
    several = by_name(several=True)
    foretold = [solving_seconds(study, several[name]) for name in ("linear_words", "logistic", "tfidf_linear")]
    assert np.allclose(foretold, [3.8, 1.5, 2.3], atol=0.3)


def test_a_loss_that_reads_class_sizes_is_left_out_where_a_fold_has_none_of_a_class(tmp_path):
    labels, embeddings = np.repeat([0, 1, 2], [40, 12, 1]), embeddings_of(53, 0.01)
    study = Study(RunFolder(tmp_path), Clock(3), [], ["a", "b", "c"], labels, list(map(str, range(53))), embeddings)
    candidate = by_name(False)["logit_adjusted"]
    study.enter([candidate])
    assert not trained._train_fold(study, candidate, 0, [])
    assert study.entries["logit_adjusted"].reason.startswith("all rows of a class lie in one fold")
    labels[-1] = 1
    assert not Study(study.run, Clock(3), [], ["a", "b"], labels, study.texts, embeddings).lacks_class


def test_texts_without_a_label_are_read_where_a_candidate_learns_from_them():
    few, many = (Labelled("a.csv", ["x"] * 4, list("abab"), [2] * 4, ["u"] * number) for number in (3, 40))
    assert reads_unlabelled(many, None) and not reads_unlabelled(few, None)
    assert not reads_unlabelled(many, ["logistic"]) and reads_unlabelled(few, ["kontrast"])


def test_words_that_would_do_nothing_are_refused():
    assert passed_on(["task=auto", "input=a.csv", "encoder=tiny", "seed=1"]) == ["encoder=tiny", "seed=1"]
    for word in ("method=ce", "trainer.max_epochs=3", "encoder.train=frozen", "loss.tau=1", "callbacks=none"):
        with pytest.raises(InputError, match=word):
            passed_on([word])
    assert safe_name("Kunden Mails (neu)") == "Kunden_Mails_neu"
    assert safe_name("отзывы 客户.2023") == "отзывы_客户.2023"
    stems = {"tickets.2023.csv": "tickets.2023", "a/b.CSV.gz": "b", "v1.2": "v1.2", "notes.txt": "notes"}
    assert {file: stem_of(file) for file in stems} == stems


def test_sampling_keeps_small_classes_and_the_order_of_the_file(monkeypatch):
    labels = ["a"] * 900 + ["b"] * 90 + ["c"] * 4
    data = Labelled("f.csv", [str(n) for n in range(994)], labels, list(range(994)))
    part = sampled(data, 100, seed=0)
    assert [part.labels.count(name) for name in "abc"] == [91, 10, 4] and part.lines == sorted(part.lines)
    read = "105 of 994 rows, drawn at random, are compared, and what fine-tunes learns from them alone"
    assert part.notes[0] == f"{read}, as many as fit into the minutes; with more minutes force=true draws anew"
    assert [note.split(":")[0] for note in part.notes[1:]] == ["of 'c' they hold more than their share"]
    assert sampled(data, 994, seed=0) is data
    monkeypatch.setattr("tasks.auto.reading.rows.MOST_ROWS", 100)
    assert sampled(data, 500, seed=0).notes[0] == read


def test_facts_of_a_sample_know_how_many_rows_of_each_class_the_file_has():
    labels = ["spam"] * 40 + ["Spam"] * 30 + ["ham"] * 300
    whole = Labelled("f.csv", [str(n) for n in range(370)], labels, list(range(370)))
    part = sampled(whole, 100, seed=0)
    names, codes = np.unique(part.labels, return_inverse=True)
    about = facts(part, names.tolist(), codes, whole)
    assert about["sampled_from"] == 370
    assert [entry["rows_in_file"] for entry in about["classes"]] == [30, 300, 40]
    assert any("'Spam' (30 rows) and 'spam' (40 rows) are" in note for note in about["notes"])
    assert "rows_in_file" not in facts(part, names.tolist(), codes, None)["classes"][0]


def test_what_is_cut_is_said_and_stands_twice_by_its_whole_text_alone(tmp_path, monkeypatch):
    texts = ["word " * 300, "word " * 256, "short"]
    assert [texts_cut(texts, limit) for limit in (128, 256)] == [2, 1]
    assert notes_of_length(2, 3, 128) == ["2 of 3 texts have more than 128 tokens: their first 128 are read"]
    assert notes_of_length(0, 3, 128) == []
    rows: Any = SimpleNamespace(names=None, rows=np.ones((3, 4), np.float32), is_cut=np.array([True, True, False]))
    monkeypatch.setattr(answer, "encoded", lambda *_: rows)
    answer._embeddings(None, ["a"], 3, 1e-3, RunFolder(tmp_path), Clock(1))
    assert np.load(tmp_path / "embeddings.npy").any(axis=1).tolist() == [False, False, True]


@pytest.mark.parametrize(
    ("name", "several", "seconds", "rows"),
    [
        ("logistic", False, 7.13, 100),  # 4 s to write it; of a row 0.01 s to encode and 0.02 to solve, a fifth more
        ("logistic", False, 90, 200),
        ("logistic", True, 90, 200),
        ("logistic", False, 5, 40),  # so few more are not worth while
        ("tfidf_linear", False, 6.41, 100),
        ("nearest_name", False, 90, 40),
        ("neighbours", False, 90, 40),  # which would take four times as long for twice the rows
        ("ce_half", False, 90, 40),
    ],
)
def test_what_trains_no_encoder_learns_from_rows_that_were_not_compared(
    tmp_path, monkeypatch, name, several, seconds, rows
):
    labels = [(("a", "b")[row % 2],) if several else ("a", "b")[row % 2] for row in range(200)]
    data = Labelled("f.csv", [f"text {row}" for row in range(200)], labels, list(range(2, 202)), several=several)
    drawn = sampled(data, 40, seed=3)
    codes = np.array([label in ("b", ("b",)) for label in drawn.labels], int)
    codes = np.eye(2, dtype=int)[codes] if several else codes
    clock = Clock(seconds / 60, now=lambda: 0.0)
    candidate = by_name(several)[name]
    further_rows.keep_time(clock, [candidate], drawn, data)
    is_kept = name not in ("nearest_name", "neighbours", "ce_half")
    assert clock.left_with_fit == pytest.approx((0.85 if is_kept else 1) * seconds - clock.report)
    clock.report = 0.0
    nothing = csr_matrix((40, 3))
    rows_drawn = np.ones((40, 2)), nothing, np.zeros(40, bool)
    of_drawn = Embeddings(*rows_drawn, np.empty((0, 2)), nothing[:0], None, 0.01, 1.0, "tiny", 2)
    study = Study(RunFolder(tmp_path), clock, ["dataset.train=rows"], ["a", "b"], codes, drawn.texts, of_drawn)
    outcome: Any = SimpleNamespace(seconds_fit=0.02 * 32, run_id="")
    study.keep(name, 0, 0, outcome)
    encoded = []

    def encoded_texts(plan, texts, vocabulary_size):
        encoded.extend(texts)
        return np.ones((len(texts), 2)), csr_matrix((len(texts), vocabulary_size)), np.zeros(len(texts), bool)

    monkeypatch.setattr(further_rows, "plan_of", lambda words: None)
    monkeypatch.setattr(further_rows, "encoded_texts", encoded_texts)
    whole = further_rows.with_further_rows(study, candidate, drawn, data, seed=3)
    label_of = dict(zip(data.texts, data.labels, strict=True))
    classes = [("a", "b")[row.argmax() if several else row] for row in whole.labels]
    assert len(set(whole.texts)) == len(whole.texts) == rows and classes == [label_of[text][0] for text in whole.texts]
    if name == "tfidf_linear":
        table = pq.read_table(tmp_path / "all_rows.parquet")
        assert table["text"].to_pylist() == whole.texts.tolist() and not encoded
        assert whole.words == [f"dataset.train='{tmp_path / 'all_rows.parquet'}'"]
    else:
        assert [*drawn.texts, *encoded] == whole.texts.tolist() and len(whole.embeddings.rows) == rows


@pytest.mark.parametrize("fold", [2, None])
def test_the_plan_of_a_fold_is_the_one_that_its_words_compose(fold):
    words = ["dataset=trec", "method=ce", *protocol_words("ce", fold, folds=3, repeat=1)]
    words += ["+callbacks.time_limit._target_=callbacks.time_limit.TimeLimit", "+callbacks.time_limit.seconds=12.5"]
    plain = plan_of(words).plain
    assert plain == completed(compose_run(tuple(words)).config)
    assert (plain["protocol"]["fold"], plain["protocol"]["repeat"]) == (fold, 1)


def test_texts_of_which_the_beginning_alone_is_encoded_are_told_by_their_tokens(store, toy_csv, tiny_encoder_dir):
    words = ["dataset=csv", f"dataset.train={toy_csv['train']}", f"encoder.path={tiny_encoder_dir}", *store]
    words += ["encoder.sha256=null", "method=prototypes", "trainer.precision=32"]
    texts = plan_of(words).corpus(whole=True).table("train")["text"].to_pylist()
    lengths = [len(ids) for ids in plan_of(words).encoder.tokenizer()(texts)["input_ids"]]
    limit = max(lengths)
    plan = plan_of([*words, f"dataset.max_length={limit}"])
    first, again = (encoded(plan, None, 1.0) for _ in range(2))
    assert first.is_cut.tolist() == [length == limit for length in lengths]
    assert first.seconds_per_text < 1 == again.seconds_per_text  # which encodes nothing


def test_the_encoder_is_timed_where_it_will_work(monkeypatch):
    class Elsewhere:
        """Takes tokens from the device that it was moved to."""

        def eval(self):
            return self

        def to(self, device):
            self.device = device
            return self

        def __call__(self, *inputs):
            assert {tensor.device for tensor in inputs} == {self.device}
            return torch.zeros(1)

    monkeypatch.setattr(Plan, "device", torch.device("meta"))
    plan = plan_of(["dataset=trec", "method=prototypes"])
    monkeypatch.setattr(plan.encoder, "load", lambda seed: Elsewhere())
    assert seconds_per_text(plan, ["a text", "another"]) > 0


@pytest.mark.parametrize(("blocks", "half"), [(6, "3"), (12, "6"), (1, "1")])
def test_half_of_an_encoder_is_half_of_its_blocks(blocks, half):
    assert f"encoder.num_top_layers={half}" in by_name(several=False)["setfit_brief"].words_of(blocks)


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ({}, "minilm"),
        ({"path": "/models/mine/"}, "mine"),
        ({"path": "."}, Path.cwd().name),
        ({"repo": "sentence-transformers/all-mpnet-base-v2"}, "all-mpnet-base-v2"),
    ],
)
def test_an_encoder_is_called_by_what_was_typed_of_it(typed, name):
    assert encoder_name(compose_run(("encoder=minilm",)).config["encoder"] | typed) == name


def test_a_datastore_of_neighbours_counts_as_part_of_the_model(tmp_path):
    embeddings: Any = SimpleNamespace(rows=np.empty((1000, 2**10)), counts=None, seconds_per_text=0.01, size_mib=50.0)
    labels = np.zeros((1000, 24), int)
    study = Study(RunFolder(tmp_path), Clock(3), [], list(map(str, range(24))), labels, ["a"] * 1000, embeddings)
    sizes = [study._size(by_name(several=True)[name]) for name in ("bce", "knn_mltc", "neighbours")]
    assert sizes == pytest.approx([50 + 4 * 24 / 2**10, 54, 54])


def test_sampling_keeps_rare_labels_where_texts_have_several():
    labels = [("a", "b")] * 900 + [("a",)] * 90 + [("c",), ("a", "c")] * 3
    data = Labelled("f.csv", [str(n) for n in range(996)], labels, list(range(996)), several=True)
    part = sampled(data, 100, seed=0)
    assert part.rows_of_label()["c"] == 6 and 100 <= len(part.labels) <= 116 and part.lines == sorted(part.lines)


@pytest.mark.parametrize(("threshold", "shown"), [(0.97461, "0.9747"), (0.99998, "0.99998"), (1.0, "1"), (0.5, "0.5")])
def test_a_threshold_is_shown_rounded_up(threshold, shown):
    assert at_least(threshold) == shown


def test_texts_that_the_encoder_hardly_reads_are_said():
    """A tokenizer that knows words of ASCII, letters of Russian and no emoji."""

    class Tokenizer:
        unk_token_id = 0

        def __call__(self, texts, add_special_tokens):
            words = (text.split() for text in texts)
            of_word = {True: lambda word: [1], False: lambda word: [2] * len(word) if word.isalpha() else [0]}
            return {"input_ids": [[i for word in own for i in of_word[word.isascii()](word)] for own in words]}

    english, russian = ["a few plain words"] * 3000, ["немного простых слов"] * 40
    read = legibility(Tokenizer(), english)
    assert (read.unknown_tokens, read.tokens_a_word, hardly_read(read, "minilm")) == (0.0, 1.0, None)
    assert "it cuts their words into 6.0 tokens each; " in hardly_read(legibility(Tokenizer(), russian), "minilm")
    with_emoji = legibility(Tokenizer(), ["\U0001f600 great", *english[:5]])
    assert hardly_read(with_emoji, "minilm").startswith("encoder=minilm hardly reads these texts, 5 % of their tokens")
    assert "; encoder.path=null encoder.repo=" in hardly_read(with_emoji, "minilm", "/models/one", is_folder=True)
    told = hardly_read(with_emoji, "minilm", ANOTHER)
    assert told.startswith(f"encoder=minilm ({ANOTHER}) hardly reads these texts, ") and "encoder.repo" not in told


def test_the_sentence_calls_fine_tuned_what_trains_the_encoder():
    candidates = [*CANDIDATES, *OF_SEVERAL]
    assert {c.kind == "trained" for c in candidates if c.cost >= FINE_TUNED} == {True}
    assert "trained" not in {c.kind for c in candidates if c.cost < FINE_TUNED}


def test_a_run_that_cannot_end_is_not_trained_on(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time_limit.time, "monotonic", lambda: now[0])
    trainer = SimpleNamespace(max_epochs=10, current_epoch=0, num_training_batches=20)

    def steps(seconds, number):
        limit = time_limit.TimeLimit(None, None, seconds=200.0)
        limit.on_train_start(trainer, None)
        for step in range(number):
            now[0] += seconds
            limit.on_train_batch_end(trainer, None, {}, {}, step)

    steps(0.9, 20)
    with pytest.raises(time_limit.OutOfTime, match="training would take about 220 s, allowed: 200 s"):
        steps(1.1, 6)


@pytest.mark.parametrize(("rows", "dropped"), [(60, "scl_ce"), (1500, "ce")])
def test_the_worst_goes_first_where_enough_rows_say_so_and_the_dearest_where_few_do(tmp_path, rows, dropped):
    study = Study(RunFolder(tmp_path), Clock(1), [], ["a", "b"], np.arange(rows) % 2, list(map(str, range(rows))), None)
    candidates = [c for c in CANDIDATES if c.name in ("ce_half", "ce", "scl_ce")]
    study.entries = {c.name: Entry(c.name, c.title, [], c.cost) for c in candidates}
    for candidate, seconds, figure in zip(candidates, (4.0, 4.0, 6.0), (0.8, 0.5, 0.9), strict=True):
        outcome: Any = SimpleNamespace(seconds_fit=seconds, validation_macro_f1=figure, run_id="")
        study.keep(candidate.name, 0, 0, outcome)
    left = those_that_can_end(study, candidates, 0)
    assert [c.name for c in candidates if c not in left] == [dropped]


def test_a_brief_round_comes_first_of_all_that_train():
    names = [c.name for c in chosen(["imbalanced"], None) if c.kind == "trained"]
    assert names[:2] == ["setfit_brief", "ce_half"] and "sharprecl" in names


@pytest.mark.parametrize(
    ("regimes", "is_tried"),
    [(["few rows"], False), (["few rows", "imbalanced"], False), ([], True), (["many unlabelled"], True)],
)
def test_cross_entropy_gives_way_to_pairs_where_these_are_tried(regimes, is_tried):
    names = [candidate.name for candidate in chosen(regimes, None)]
    assert ("ce_half" in names) == is_tried and ("setfit_half" in names) == ("few rows" in regimes)
    assert "ce_half" in [candidate.name for candidate in chosen(regimes, ["ce_half", "setfit_half"])]


@pytest.mark.parametrize(
    ("seconds", "most", "begun", "steps"),
    [
        (220, 80, "setfit_half", 80),
        (180, 64, "setfit_half", 64),  # the first steps say that more would not end
        (180, 0, "setfit_brief", 48),
        (180, 80, "setfit_half", 64),
        (145, 80, "setfit_half", 48),
        (80, 80, "setfit_brief", 48),
    ],
)
def test_pairs_are_trained_for_as_long_as_there_is_time(tmp_path, monkeypatch, seconds, most, begun, steps):
    """Six runs of `setfit_half` are told to take 200, 166 or 131 s, of `setfit_brief` 57 s."""
    embeddings = embeddings_of(100, 1e-2)
    labels, texts, clock = np.arange(100) % 2, list(map(str, range(100))), Clock(seconds / 60, now=lambda: 0.0)
    study = Study(RunFolder(tmp_path), clock, [], ["a", "b"], labels, texts, embeddings)
    candidates = [c for c in CANDIDATES if c.name.startswith("setfit_") and "half" in c.name or c.brief_of]
    study.enter(candidates)
    study.run.write_json("question.json", {})

    def read(study, candidate, fold, more=()):
        if candidate.name == "setfit_half" and study.pair_steps > most:
            raise time_limit.OutOfTime(30.0, 5.0)
        held_out = np.arange(20 * fold, 20 * (fold + 1))
        scores = np.eye(2)[labels[held_out]]
        study.save(candidate.name, 0, fold, FoldOutcome(held_out, scores, np.nan, 2.0, 1.0, logits=scores))
        return True

    monkeypatch.setattr(trained, "read_run", read)
    trained.try_trained(study, candidates)
    assert study.entries[begun].status == "finished" and study.pair_steps == steps
    assert Study(study.run, clock, [], ["a", "b"], labels, texts, embeddings).pair_steps == steps  # a later start
    brief = study.entries["setfit_brief"]
    if begun == "setfit_half":
        why = "setfit_half trains alike for longer, and there is time for it"
        assert (brief.status, brief.reason) == ("dropped", why)  # the sentence says of what is skipped: no time
    assert study.entries[begun].is_known_to_gain


@pytest.mark.parametrize(
    ("minutes", "largest", "unlabelled", "folds"),
    [(1.8, 50, [], 3), (2.5, 50, [], 5), (1.8, 80, [], 3), (1.8, 50, ["dataset.unlabelled=a"], 5)],
)
def test_fewer_folds_leave_time_to_learn_for_longer_where_that_is_known_to_gain(
    tmp_path, minutes, largest, unlabelled, folds
):
    """Three folds of `setfit_brief` and 80 steps on all rows are told to take 54 s, five folds 75 s."""
    embeddings = embeddings_of(100, 1e-2)
    labels, texts, clock = (np.arange(100) >= largest).astype(int), [str(n) for n in range(100)], Clock(minutes)
    study = Study(RunFolder(tmp_path), clock, [], ["a", "b"], labels, texts, embeddings, unlabelled)
    order.fit_folds(study, chosen(regimes_of(study.class_counts, 100), None))
    assert study.folds == folds


@pytest.mark.parametrize(
    ("largest", "unlabelled", "begins"), [(50, [], False), (80, [], False), (50, ["dataset.unlabelled=a"], True)]
)
def test_time_to_learn_for_longer_on_all_rows_is_kept_where_that_is_known_to_gain(
    tmp_path, monkeypatch, largest, unlabelled, begins
):
    """After the folds of `setfit_brief` 42 s are left: 80 steps of pairs take 22, a fold of `ce_half` 9."""
    now = [0.0]
    embeddings = embeddings_of(100, 1e-2)
    labels, texts = (np.arange(100) >= largest).astype(int), list(map(str, range(100)))
    clock = Clock(77 / 60, now=lambda: now[0])
    study = Study(RunFolder(tmp_path), clock, [], ["a", "b"], labels, texts, embeddings, unlabelled)
    brief, other = (by_name(False)[name] for name in ("setfit_brief", "ce_half"))
    study.enter([brief, other])

    def read(study, candidate, fold, more=()):
        seconds = {"setfit_brief": 6.0, "ce_half": 6.0}[candidate.name]
        now[0] += seconds
        held_out = np.arange(fold, 100, 5)
        scores = np.eye(2)[labels[held_out]]
        study.save(candidate.name, 0, fold, FoldOutcome(held_out, scores, 0.5, seconds, 1.0, logits=scores))
        return True

    monkeypatch.setattr(trained, "read_run", read)
    trained.try_trained(study, [brief])
    trained.try_trained(study, [other])
    assert study.entries["setfit_brief"].status == "finished"
    assert (study.entries["ce_half"].status == "finished") == begins


def test_the_brief_candidate_is_tried_after_all_where_the_longer_does_not_end(tmp_path, monkeypatch):
    """A fold of `setfit_half` was told to take 13 s and takes 30."""
    now = [0.0]
    embeddings = embeddings_of(100, 1e-2)
    labels, texts, clock = np.arange(100) % 2, list(map(str, range(100))), Clock(110 / 60, now=lambda: now[0])
    study = Study(RunFolder(tmp_path), clock, [], ["a", "b"], labels, texts, embeddings)
    candidates = [by_name(False)[name] for name in ("setfit_brief", "setfit_half")]
    study.enter(candidates)
    seconds = {"setfit_half": 30.0, "setfit_brief": 8.0}

    def read(study, candidate, fold, more=()):
        now[0] += seconds[candidate.name]
        held_out = np.arange(20 * fold, 20 * (fold + 1))
        scores = np.eye(2)[labels[held_out]]
        outcome = FoldOutcome(held_out, scores, np.nan, seconds[candidate.name], 1.0, logits=scores)
        study.save(candidate.name, 0, fold, outcome)
        return True

    monkeypatch.setattr(trained, "read_run", read)
    trained.try_trained(study, candidates)
    assert {name: entry.status for name, entry in study.entries.items()} == {
        "setfit_brief": "finished", "setfit_half": "skipped"
    }  # fmt: skip
    assert study.entries["setfit_brief"].reason is None


@pytest.mark.parametrize(
    ("candidate", "seconds", "epochs"),
    [
        *[("setfit_brief", left, epochs) for left, epochs in ((30, 26), (25, 21), (20, 16), (15, 11), (12, 8), (9, 1))],
        *[("setfit_half", left, epochs) for left, epochs in ((30, 26), (25, 21), (20, 16), (12, 16))],  # folds had 48
        ("setfit_pairs", 90, 30),
    ],
)
def test_all_rows_take_more_steps_of_pairs_where_there_is_time(tmp_path, candidate, seconds, epochs):
    """Of 100 rows in batches of 32, 80, 64, 48, 32 and 24 steps are to take at most 29, 25, 19, 14 and 11 s."""
    embeddings: Any = embeddings_of(100, 1e-2)
    labels, texts, clock = np.arange(100) % 2, list(map(str, range(100))), Clock(seconds / 60, now=lambda: 0.0)
    clock.report = 0.0
    study = Study(RunFolder(tmp_path), clock, [], ["a", "b"], labels, texts, embeddings)
    study.pair_steps = 48
    own = study.by_name[candidate]
    outcome: Any = SimpleNamespace(seconds_fit=foretold_training(study, own, 0))
    study.keep(candidate, 0, 0, outcome)
    steps = longer_steps(study, own)
    words, sharpness = words_of_all_rows(study, own, steps)
    assert f"trainer.max_epochs={epochs}" in words and (sharpness > 1) == (steps is not None)


@pytest.mark.parametrize("may_give_way", [False, True])
def test_steps_on_all_rows_that_take_longer_than_told_give_way_to_fewer(tmp_path, monkeypatch, capsys, may_give_way):
    """A machine that becomes slower overruns no minutes: at the least it takes the steps of the folds, unlimited where
    no other candidate can take its place."""
    embeddings: Any = embeddings_of(100, 1e-2)
    labels, texts, now = np.arange(100) % 2, list(map(str, range(100))), [0.0]
    study = Study(RunFolder(tmp_path), Clock(1, now=lambda: now[0]), [], ["a", "b"], labels, texts, embeddings)
    own = study.by_name["setfit_brief"]
    study.entries[own.name] = Entry(own.name, own.title, [], own.cost, learns_for_longer=True)
    study.keep(own.name, 0, 0, cast(Any, SimpleNamespace(seconds_fit=foretold_training(study, own, 0))))
    tried = []

    def plan_of(words):
        tried.append([word.split("=")[1] for word in words if word.startswith(("trainer.max_epochs", "+callbacks"))])
        return SimpleNamespace(datamodule=lambda corpus: None, corpus=lambda: None)

    def learned(*_):
        if len(tried) == 3 and not may_give_way:
            return "model"
        now[0] += 30 if len(tried) == 1 else 20
        raise time_limit.OutOfTime(100.0, 20.0)

    monkeypatch.setattr(last_fit, "plan_of", plan_of)
    monkeypatch.setattr(last_fit, "learned", learned)
    limit = "callbacks.time_limit.TimeLimit"
    if may_give_way:
        with pytest.raises(last_fit.NotFitted, match="^that would take about 2 min, 5 s were left$"):
            last_fit._learned_in_time(study, own, may_give_way)
    else:
        assert last_fit._learned_in_time(study, own)[1:] == ("model", 1.0)
    assert tried == [["26", limit, "52.80"], ["21", limit, "22.80"], ["1", *([limit, "7.00"] if may_give_way else [])]]
    assert capsys.readouterr().out.count("fewer") == 2 and not study.entries[own.name].learns_for_longer


def test_what_cannot_be_fitted_to_all_rows_gives_way_to_what_trains_no_encoder(tmp_path, monkeypatch):
    names = {"majority": 0.0, "logistic": 2.4, "ce": 9.0}
    entries = [(name, title, cost, names[name], *more) for name, title, cost, _, *more in TOLD if name in names]
    folder, fitted = RunFolder(write_folder(tmp_path / "auto-late", candidates=entries)), []
    folder.write_json("candidates.json", folder.read_json("candidates.json")[:-1])
    study = Study(folder, Clock(1), [], list("abcd"), np.arange(300) % 4, ["a"] * 300, None)
    study.recall(1)
    assert write_report(folder.path)["recommended"] == "ce"

    def fit(study, candidate, more, may_give_way):
        fitted.append((candidate.name, may_give_way))
        if candidate.name == "ce":
            raise last_fit.NotFitted("that would take about 9 min, 40 s were left")

    monkeypatch.setattr(answer, "fit_on_all_rows", fit)
    answer._fit_recommended(study, lambda candidate: study, is_fitted=False)
    metrics, page = folder.read_metrics(), (folder.path / "index.html").read_text()
    assert fitted == [("ce", True), ("logistic", True)]
    assert (metrics["recommended"], metrics["not_fitted"]) == ("logistic", "ce")
    assert "fine-tuned with cross-entropy, which would have been recommended, could not be" in metrics["sentence"]
    assert "that would take about 9 min, 40 s were left; the best that trains no encoder stands in its place" in page
    again = Study(folder, study.clock, [], list("abcd"), study.labels, study.texts, None)
    again.recall(1)  # stopped before `model/` was there
    assert not again.entries["ce"].can_be_recommended and again.entries["logistic"].can_be_recommended
    answer._try_again(again)  # with other wishes
    metrics = write_report(folder.path)
    assert (metrics["recommended"], metrics["not_fitted"]) == ("ce", None)
    assert "not be fitted" not in metrics["sentence"] and not again.entries["majority"].can_be_recommended


def test_figures_of_a_test_file_are_of_the_model_that_is_recommended(tmp_path):
    folder = RunFolder(write_folder(tmp_path / "auto-own"))
    recommended, model = write_report(folder.path)["recommended"], RunFolder(folder.path / "model")
    own = {"file": "own.csv", "rows": 9, "rows_left_out_for_labels": 0, "rows_of_input": 0}
    own |= {f"{name}{end}": 0.5 for name in ("accuracy", "macro_f1") for end in ("", "_low", "_high")}
    for candidate in (recommended, "tfidf"):
        model.write_json("own_test.json", own | {"candidate": candidate})
        is_shown = write_report(folder.path)["test"] is not None
        assert is_shown == ("own.csv" in (folder.path / "index.html").read_text()) == (candidate == recommended)


def test_what_trains_for_longer_goes_on_where_it_was_stopped(tmp_path, monkeypatch):
    """Its first fold is there, though now there is less time than its folds are told to take."""
    embeddings = embeddings_of(100, 1e-2)
    labels, texts, clock = np.arange(100) % 2, list(map(str, range(100))), Clock(1.4, now=lambda: 0.0)
    study = Study(RunFolder(tmp_path), clock, [], ["a", "b"], labels, texts, embeddings)
    half, brief = (by_name(False)[name] for name in ("setfit_half", "setfit_brief"))
    assert trained.longer_first(study, [brief, half]) == [brief, half]
    scores = np.eye(2)[labels[:20]]
    outcome = FoldOutcome(np.arange(20), scores, np.nan, 2.0, 1.0, logits=scores)
    outcome.save(tmp_path / "folds" / "setfit_half-0-0.npz")
    assert trained.longer_first(study, [brief, half]) == [half, brief]
    assert [c.brief_of for c in chosen([], ["setfit_brief", "setfit_half"])] == ["", "", ""]  # both are asked for


def test_time_for_the_folds_of_a_candidate_that_began_is_kept(tmp_path, monkeypatch):
    """Otherwise first folds of several use it up, and none ends."""
    embeddings: Any = SimpleNamespace(names=None, seconds_per_text=1e-3, unlabelled=[], encoder="minilm", blocks=6)
    texts = list(map(str, range(100)))
    study = Study(RunFolder(tmp_path), Clock(1), [], ["a", "b"], np.arange(100) % 2, texts, embeddings)
    brief, half = (c for c in CANDIDATES if c.name in ("setfit_brief", "ce_half"))
    study.entries = {c.name: Entry(c.name, c.title, [], c.cost) for c in (brief, half)}
    outcome: Any = SimpleNamespace(seconds_fit=12.0, logits=[0], run_id="")
    study.keep(brief.name, 0, 0, outcome)
    begun = []
    monkeypatch.setattr(trained, "read_run", lambda study, candidate, *rest: begun.append(candidate.name) or True)
    assert not trained._train_fold(study, half, 0, [brief]) and not begun
    assert trained._train_fold(study, half, 0, []) and begun == ["ce_half"]


def test_what_has_no_validation_rows_is_judged_with_the_others_on_the_rows_held_out(tmp_path):
    """On validation rows, which chose its epoch, the first would look best."""
    labels = np.arange(1500) % 2
    study = Study(RunFolder(tmp_path), Clock(1), [], ["a", "b"], labels, list(map(str, range(1500))), None)
    candidates = [c for c in CANDIDATES if c.name in ("ce_half", "setfit_half")]
    study.entries = {c.name: Entry(c.name, c.title, [], c.cost) for c in candidates}
    rows = np.arange(300)
    for candidate, validation, wrong in zip(candidates, (0.95, np.nan), (60, 30), strict=True):
        scores = np.eye(2)[np.where(rows < wrong, 1 - labels[rows], labels[rows])]
        logits = np.empty((0, 0)) if candidate.validates else scores
        study.keep(candidate.name, 0, 0, FoldOutcome(rows, scores, validation, 4.0, 1.0, logits=logits))
    assert [c.name for c in better_half(study, candidates, 0)] == ["setfit_half"]
    assert study.entries["ce_half"].reason.endswith("macro-F1 80.0, the best of those trained 90.0")


@pytest.mark.parametrize(
    ("rows", "seconds", "folds"), [(6000, 60, 1), (6000, 80, 2), (6000, 100, 3), (300, 80, 0), (300, 95, 3)]
)
def test_a_candidate_counts_by_as_many_folds_as_fit_if_they_are_enough(tmp_path, monkeypatch, rows, seconds, folds):
    """A fold takes 20 s, the fit on all rows 30 s where there are three folds, 25 s where there are five. That time is
    left when the folds are through."""
    now = [0.0]
    labels, texts = np.arange(rows) % 2, list(map(str, range(rows)))
    embeddings = embeddings_of(rows, 1e-3)
    clock = Clock(seconds / 60, now=lambda: now[0])
    study = Study(RunFolder(tmp_path), clock, [], ["a", "b"], labels, texts, embeddings)
    candidates = [c for c in CANDIDATES if c.name in ("ce_half", "ce")]
    study.enter(candidates)
    size = rows // study.folds

    def read(study, candidate, fold, more=()):
        if candidate.name == "ce":
            raise time_limit.OutOfTime(100.0, 20.0)
        now[0] += 20
        held_out = np.arange(size * fold, size * (fold + 1))
        study.save(candidate.name, 0, fold, FoldOutcome(held_out, np.eye(2)[labels[held_out]], 0.9, 20.0, 1.0))
        return True

    monkeypatch.setattr(trained, "read_run", read)
    trained.try_trained(study, candidates)
    entry = study.entries["ce_half"]
    assert study.entries["ce"].status == "skipped"
    if not folds:
        assert entry.status == "skipped" and "other folds do not fit" in entry.reason
        return
    assert entry.status == "finished" and entry.macro_f1 == 1 and clock.left_with_fit >= 25
    which = f"{folds} of {study.folds} folds, {size * folds:,} of {rows:,} rows: no time for the others"
    assert entry.reason == (which if folds < study.folds else None)
    again = Study(RunFolder(tmp_path), clock, [], ["a", "b"], labels, texts, embeddings)
    again.enter(candidates)
    monkeypatch.setattr(trained, "read_run", partial(_kept, again))
    trained.try_trained(again, candidates)  # no time for more: what was there counts as before
    assert again.entries["ce_half"].reason == entry.reason and again.entries["ce_half"].macro_f1 == 1


@pytest.mark.parametrize(
    ("seconds", "too_long", "folds", "status"), [(100, 9, 3, "finished"), (55, 9, 5, "skipped"), (55, 1, 5, "finished")]
)
def test_where_five_folds_cannot_be_trained_three_are_or_the_same_once_more(
    tmp_path, monkeypatch, seconds, too_long, folds, status
):
    """A fold takes 16 s as the fit on all rows does, and so do five folds of the other candidate; so many runs of five
    folds are told to take too long."""
    labels, texts = np.arange(100) % 2, list(map(str, range(100)))
    embeddings = embeddings_of(100, 1e-6)
    clock, tried = Clock(seconds / 60, now=lambda: 0.0), []
    study = Study(RunFolder(tmp_path), clock, [], ["a", "b"], labels, texts, embeddings)

    def solve(study, candidate, later=()):
        for fold in range(study.folds):
            rows = np.flatnonzero(np.arange(100) % study.folds == fold)
            outcome = FoldOutcome(rows, np.eye(2)[labels[rows]], 0.9, 16 / study.folds, 1.0)
            study.save(candidate.name, 0, fold, outcome)
        study.finish(candidate)

    def read(study, candidate, fold, more=()):
        tried.append((study.folds, fold))
        if study.folds == 5 and len(tried) <= too_long:
            raise time_limit.OutOfTime(11.0, 9.0)  # besides its start
        solve(study, candidate)
        return True

    monkeypatch.setattr(trained, "read_run", read)
    monkeypatch.setattr(order, "try_untrained", solve)
    for name in ("learning_curve", "repeat_folds"):
        monkeypatch.setattr(order, name, lambda *_: None)
    order.compare(study, [c for c in CANDIDATES if c.name in ("majority", "setfit_brief")])
    assert study.folds == folds and tried[:2] == [(5, 0), (folds, 0)]
    assert study.entries["setfit_brief"].status == status
    assert {file.stem for file in (tmp_path / "folds").glob("majority*")} == {f"majority-0-{n}" for n in range(folds)}


@pytest.mark.parametrize(("seconds", "finished"), [(45, ["linear_words"]), (80, ["logistic", "linear_words"])])
def test_a_part_of_a_sum_waits_where_there_is_time_for_one_of_them(tmp_path, monkeypatch, seconds, finished):
    """A fold of the part takes 4 s, of the sum 4.5: ten and a last fit do not fit into 45 s, one and five and it do."""
    labels, texts, spent = np.arange(100) % 2, list(map(str, range(100))), [0.0]
    parts = {"rows": np.ones((100, 384)), "counts": np.ones((100, 2)), "unlabelled": [], "names": None}
    embeddings: Any = SimpleNamespace(seconds_per_text=1e-6, size_mib=1.0, encoder="minilm", blocks=6, **parts)
    clock = Clock(seconds / 60, now=lambda: spent[0])
    study = Study(RunFolder(tmp_path), clock, [], ["a", "b"], labels, texts, embeddings)

    def solve(study, candidate, path, test):
        spent[0] += (cost := 4.5 if candidate.reads_words else 4.0)
        return FoldOutcome(test, np.eye(2)[labels[test]], 0.9, cost, 1.0)

    monkeypatch.setattr(untrained, "_cheap_outcome", solve)
    for name in ("learning_curve", "repeat_folds"):
        monkeypatch.setattr(order, name, lambda *_: None)
    candidates = [c for c in CANDIDATES if c.name in ("logistic", "linear_words")]
    order.compare(study, candidates)
    assert [c.name for c in candidates if study.is_finished(c)] == finished
    assert study.known("logistic", 0, 0) is not None and clock.left_with_fit >= 0


def test_what_is_calibrated_on_other_folds_needs_two():
    brief, half = (c for c in CANDIDATES if c.name in ("setfit_brief", "ce_half"))
    assert [enough_folds(c, 3, 9000) for c in (brief, half)] == [2, 1]
    sizes = ((5, 300), (3, 300), (5, 2000), (5, 150), (3, 90))
    assert [enough_folds(half, *size) for size in sizes] == [3, 2, 3, 4, 3]


def _kept(again, study, candidate, fold, more=()):
    outcome = again.known(candidate.name, 0, fold)
    if outcome is None:
        raise time_limit.OutOfTime(100.0, 1.0)
    again.keep(candidate.name, 0, fold, outcome)
    return True


@pytest.mark.parametrize(("run_id", "is_known"), [("pairs_words-a-1", True), ("setfit_pairs-a-1", False)])
def test_a_fold_of_a_version_that_learned_it_otherwise_is_learned_again(tmp_path, run_id, is_known):
    labels, scores = np.arange(100) % 2, np.eye(2)[np.zeros(50, int)]
    study = Study(RunFolder(tmp_path), Clock(1), [], ["a", "b"], labels, list(map(str, labels)), None)
    outcome = FoldOutcome(np.arange(50), scores, np.nan, 1.0, 1.0, run_id=run_id, logits=scores)
    study.save("setfit_brief", 0, 0, outcome)
    assert (study.known("setfit_brief", 0, 0) is not None) == is_known
