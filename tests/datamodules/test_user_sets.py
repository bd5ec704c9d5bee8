"""Sets of several labels whose files the user brings, on made-up files in their exact format."""

import gzip

import pytest

from datamodules.corpus import prepare
from storage.errors import InputError
from tests.datamodules.test_builders import as_sets, dataset, expected_splits, rows_of

TEXTS = "we study codes over finite fields\nneural networks that read papers\na theorem\n"
LABELS = "cs.it math.it\ncs.lg cs.ai stat.ml\nmath.co\n"


def write(folder, splits, texts=TEXTS, labels=LABELS):
    for split in splits:
        (folder / f"text_{split}").write_text(texts)
        (folder / f"label_{split}").write_text(labels)
    return str(folder)


def test_aapd_is_the_users_train_file_and_the_official_other_ones(mirror, expected_data, tmp_path):
    corpus = prepare(dataset("aapd", folder=write(tmp_path, ["train"])), tmp_path / "data", mirror)
    expected = expected_splits(expected_data / "aapd_valid_test")
    for split in ("val", "test"):
        assert rows_of(corpus, split) == as_sets(expected[split])
    assert [row["label"] for row in rows_of(corpus, "train")] == [
        ["cs.it", "math.it"],
        ["cs.ai", "cs.lg", "stat.ml"],
        ["math.co"],
    ]
    assert len(corpus.label_names) == 54 and corpus.card["splits"]["test"]["rows"] == 1000


def test_rcv1_reads_pairs_of_files_packed_or_not(tmp_path):
    folder = write(tmp_path, ["train", "val", "test"], TEXTS + "\n", LABELS + "\n")
    corpus = prepare(dataset("rcv1", folder=folder), tmp_path / "data", None)
    assert corpus.multilabel and corpus.splits == ("train", "val", "test")
    assert rows_of(corpus, "val")[0] == {"text": "we study codes over finite fields", "label": ["cs.it", "math.it"]}
    assert corpus.card["splits"]["train"]["rows"] == 3
    (tmp_path / "text_test").unlink()
    (tmp_path / "text_test.gz").write_bytes(gzip.compress(TEXTS.encode()))
    again = prepare(dataset("rcv1", folder=folder), tmp_path / "data", None)
    assert again.fingerprint == corpus.fingerprint


@pytest.mark.parametrize(
    ("texts", "labels", "finding"),
    [
        (TEXTS, "cs.it\n", r"label_train: found 1 lines, allowed: one for each line of text_train"),
        ("one\n", LABELS, r"text_train: found 1 lines, allowed: one for each line of label_train"),
        (TEXTS.replace("a theorem", " "), LABELS, r"text_train:3: found an empty text"),
    ],
)
def test_files_that_do_not_fit_are_named(texts, labels, finding, tmp_path):
    folder = write(tmp_path, ["train", "val", "test"], texts, labels)
    with pytest.raises(InputError, match=finding):
        prepare(dataset("rcv1", folder=folder), tmp_path / "data", None)


def test_missing_files_are_named_with_where_to_get_them(tmp_path):
    with pytest.raises(InputError, match=r"found no label_val to read, allowed: .*text_train, .*lancopku/SGM"):
        (tmp_path / "text_val").touch()
        prepare(dataset("rcv1", folder=write(tmp_path, ["train"])), tmp_path / "data", None)
    with pytest.raises(InputError, match=r"found no text_train .*: a folder with text_train, label_train, from"):
        prepare(dataset("aapd", folder=str(tmp_path / "none")), tmp_path / "data", None)


def test_mpqa_type_is_the_table_of_its_recipe(tmp_path):
    table = tmp_path / "mpqa_type_train.csv"
    table.write_text(
        "input,output\nhate | We don't hate the sinners,sentiment\n"
        '"criticised | He said, he criticised it",sentiment arguing\n'
        "will | They will agree,intention agreement intention\n"
    )
    corpus = prepare(dataset("mpqa_type", train=str(table), test=str(table)), tmp_path / "data", None)
    assert corpus.label_names == ("agreement", "arguing", "intention", "sentiment")
    assert [row["label"] for row in rows_of(corpus, "train")] == [
        ["sentiment"],
        ["arguing", "sentiment"],
        ["agreement", "intention"],
    ]
    assert corpus.card["paper"]["train"] == 4248


def recipe_table(path, rows):
    path.write_text("input,output\n" + "".join(f"{text},{output}\n" for text, output in rows))
    return str(path)


def test_mpqa_intensity_takes_the_first_label_of_a_field(tmp_path):
    outputs = ["low", "low medium", "medium high", "high low", "medium  low", "low medium high"]
    table = recipe_table(tmp_path / "mpqa_intensity_train.csv", [(f"a | text {n}", o) for n, o in enumerate(outputs)])
    corpus = prepare(dataset("mpqa_intensity", train=table, test=table), tmp_path / "data", None)
    assert corpus.label_names == ("low", "low medium", "medium", "medium high", "high")
    labels = [row["label"] for row in rows_of(corpus, "train")]
    assert labels == ["low", "low medium", "medium high", "high", "medium", "low medium"]


def test_mpqa_polarity_refuses_or_drops_what_is_no_class(tmp_path):
    rows = [("hate | We hate it", "negative"), ("said | He", "neutral positive"), ("love | So", "positive negative")]
    table = recipe_table(tmp_path / "mpqa_polarity_train.csv", rows)
    with pytest.raises(InputError, match=r"train.csv:3: label 'neutral positive' is not among .*: negative, positive"):
        prepare(dataset("mpqa_polarity", train=table, test=table), tmp_path / "data", None)
    corpus = prepare(dataset("mpqa_polarity", train=table, test=table, others="drop"), tmp_path / "data", None)
    assert [(row["text"], row["label"]) for row in rows_of(corpus, "train")] == [
        ("hate | We hate it", "negative"),
        ("love | So", "positive"),
    ]


AMAZON = ",review_id,product_id,reviewer_id,stars,review_body,review_title,language,product_category"


def reviews(path, languages, stars=(1, 2, 3, 4, 5)):
    lines = [AMAZON]
    for language in languages:
        lines += [f'{n},en_{n},p,r,{n},"It was, well, ""{n}""",Title {n},{language},toy' for n in stars]
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def test_amazon_reviews_of_one_language_cut_and_drawn(tmp_path):
    languages = {"train": ["de", "en", "en"], "val": ["en"] * 4 + ["fr"], "test": ["en"]}
    files = {split: reviews(tmp_path / f"{split}.csv", actual) for split, actual in languages.items()}
    corpus = prepare(dataset("amazon_reviews", **files, val_rows=10), tmp_path / "data", None)
    assert corpus.label_names == ("1", "2", "3", "4", "5")
    assert rows_of(corpus, "test")[2] == {"text": 'Title 3 | It was, well, "3"', "label": "3"}
    assert [corpus.card["splits"][split]["rows"] for split in ("train", "val", "test")] == [10, 10, 5]
    assert set(corpus.card["splits"]["val"]["class_counts"].values()) == {2}
    short = prepare(dataset("amazon_reviews", **files, max_characters=12, val_rows=None), tmp_path / "data", None)
    assert rows_of(short, "train")[0]["text"] == "Title 1 | It" and short.card["splits"]["val"]["rows"] == 20


def test_stars_of_amazon_reviews_are_spelt_out_and_other_labels_are_not(tmp_path):
    train = reviews(tmp_path / "train.csv", ["en"])
    stars = dataset("amazon_reviews", train=train)
    names = [description.split(",")[0] for description in stars.describe_classes(("1", "3", "5"))]
    assert names == ["one star", "three stars", "five stars"]
    of_column = dataset("amazon_reviews", train=train, label_column="product_category")
    assert of_column.describe_classes(("home_kitchen", "toy")) == ("home kitchen", "toy")
    assert of_column.describe_classes(("10", "20")) is None


def test_amazon_reviews_in_another_language_are_named(tmp_path):
    train = reviews(tmp_path / "train.csv", ["de", "fr"])
    with pytest.raises(InputError, match=r"train.csv: no row in 'en' \(dataset.language\), there are: de, fr"):
        prepare(dataset("amazon_reviews", train=train), tmp_path / "data", None)
    (tmp_path / "train.csv").write_text("stars,review_body,language\n1,It broke,en\n")
    with pytest.raises(InputError, match=r"train.csv:1: no column 'review_title'"):
        prepare(dataset("amazon_reviews", train=train), tmp_path / "data", None)
