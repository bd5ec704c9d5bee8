"""CSV and TSV: delimiters, headers, quotes and what spreadsheets write."""

from types import SimpleNamespace

import pytest
from omegaconf import OmegaConf

from datamodules.builders.user_files import Csv
from storage.errors import InputError
from storage.tables import open_table
from tasks.predict import read_rows


def test_what_a_spreadsheet_writes_of_columns_and_rows_that_are_empty(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("text,label,,\none,a,,\n,,,\ntwo,b,,\n")
    assert list(open_table(file).rows) == [
        (f"{file}:2", {"text": "one", "label": "a"}), (f"{file}:4", {"text": "two", "label": "b"})]  # fmt: skip
    file.write_text("text,label,,\none,a,,more\n")
    with pytest.raises(InputError, match="a.csv:2: 4 fields, allowed: 2 as in the first line"):
        list(open_table(file).rows)
    (tmp_path / "old.xls").write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(500))
    with pytest.raises(InputError, match="old.xls: found an old Excel file, allowed: text, as CSV; XLSX or Parquet"):
        list(open_table(tmp_path / "old.xls").rows)


@pytest.mark.parametrize(
    ("content", "delimiter"),
    [
        ("text;label;note, misc\nred, or so;x;n\nblue;y;m\n", ";"),
        ('text;label,x\n"red, or so";x\n', ";"),  # by commas the quotes hold a whole row
        ("text;label|x\nred;y\n", ";"),
        ("text,label;x\nred,y\n", ","),
        ("text;a,label\nred;b,x\n", ","),  # both fit
        ("text;label,x\nred\n", ","),  # neither does
        ("text;label,x\n", ","),
        ("a;b, c\n" + 100 * "red;x\n" + '"blue\nand, or\n' + 100 * "so\n" + '";y\n', ";"),
        ("a;b, c\n" + 48 * "red;x\n" + '"blue\nand, or\nso";y\n', ";"),  # what is compared ends inside a field
    ],
)
def test_where_a_header_has_two_marks_that_counts_which_splits_the_rows_alike(tmp_path, caplog, content, delimiter):
    path = tmp_path / "a.csv"
    path.write_text(content)
    assert open_table(path).delimiter == delimiter
    assert len(caplog.messages) == (delimiter != ",")
    assert Csv(train=str(path)).table(path).delimiter == delimiter


def test_a_delimiter_that_is_named_is_taken_or_refused(tmp_path):
    path, dataset = tmp_path / "a.csv", SimpleNamespace(dataset=Csv(train="a.csv", delimiter="|"))
    path.write_text("text\tlabel,x\nred, or so\ty,z\n")

    def rows(**options):
        config = OmegaConf.create({"text_column": "text", "input": str(path), "header": True, **options})
        return [row["text"] for _, row in read_rows(config, dataset, "input").rows]

    assert rows(delimiter="tab") == ["red, or so"]
    with pytest.raises(InputError, match="no column 'text' .*, allowed with delimiter '|'"):  # that of the run
        rows()
    for mark in ("::", "x", '"', "\n"):
        with pytest.raises(InputError, match="^delimiter: found .*, allowed: one character, no letter"):
            rows(delimiter=mark)
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "red"}')
    assert rows() == ["red"]
    with pytest.raises(InputError, match=r"a.jsonl: delimiter=';' has no effect, allowed with CSV and TSV"):
        rows(delimiter=";")


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("sep=;\ntext;label\na, b;x\n", 3),
        ("\n\ntext,label\n\"a, b\",x\n", 4),
        ('text, label\n"a, b", "x"\n', 2),
        ('label, text\nx, "a, b"\n', 2),
    ],
)
def test_what_stands_above_a_header_or_after_a_delimiter(tmp_path, content, line):
    (tmp_path / "a.csv").write_text(content)
    assert list(open_table(tmp_path / "a.csv").rows) == [(f"{tmp_path}/a.csv:{line}", {"text": "a, b", "label": "x"})]


@pytest.mark.parametrize(
    ("row", "text"),
    [
        (r'"he said \"hi\", and left",x', 'he said "hi", and left'),
        (r'"5\",6\" tall",x', '5",6" tall'),
        ('"a\nsecond \\"line\\"",x', 'a\nsecond "line"'),
        (r'"C:\new \"dir\"",x', r'C:\new "dir"'),  # a backslash elsewhere is one
        (r'"\"",x', '"'),
        (r'"ends \"so\\",x', 'ends "so\\'),
    ],
)
def test_quotes_after_backslashes_are_those_of_the_text_where_nothing_else_can_be_read(tmp_path, caplog, row, text):
    path = tmp_path / "a.csv"
    path.write_text(f'text,label\n"one\ntwo",x\n{row}\n"so, so",y\n"a \\"b\\"",z\n')
    read = list(open_table(path).rows)
    assert [values["text"] for _, values in read] == ["one\ntwo", text, "so, so", 'a "b"']
    assert [values["label"] for _, values in read] == ["x", "x", "y", "z"]
    last = 6 + row.count("\n")
    assert [where for where, _ in read] == [f"{path}:{line}" for line in (2, 4, last - 1, last)]
    assert caplog.messages == [f'{path}:4: here and below \\" is a quote within a field, as Spark and MySQL write it']


def test_quotes_after_backslashes_may_stand_in_a_first_row_without_a_header(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('\n"he said \\"hi\\", and left",x\n"a \\"b\\"",y\n')
    rows = [(f"{path}:{line}", *texts) for line, *texts in [(2, 'he said "hi", and left', "x"), (3, 'a "b"', "y")]]
    assert [(where, *values.values()) for where, values in open_table(path, header=False).rows] == rows


def test_a_backslash_before_a_quote_that_ends_its_field_is_one(tmp_path, caplog):
    path = tmp_path / "a.csv"
    path.write_text('text,label\n"C:\\",x\n"D:\\",y\n')
    assert [row["text"] for _, row in open_table(path).rows] == ["C:\\", "D:\\"] and not caplog.messages
    path.write_text('text,label\n"C:\\",x\n"a \\"b\\"",y\n')  # which are both in no file
    with pytest.raises(InputError, match="a.csv:3: not CSV"):
        list(open_table(path).rows)


def test_tabs_between_fields_whose_quotes_are_text(tmp_path):
    path = tmp_path / "a.tsv"
    texts = ['"good', 'so "bad" it is', '"quoted" start', 'an end"']
    path.write_text("".join(f"{text}\t{label}\n" for text, label in zip(["text", *texts], "label", strict=True)))
    with pytest.raises(InputError, match="a.tsv:2: not CSV .* or delimiter=bare_tab where they are part of"):
        list(open_table(path).rows)
    dataset = Csv(train=str(path), label_column="l", delimiter="bare_tab")
    assert [row["text"] for _, row in dataset.table(path).rows] == texts
    path.write_text("text\tlabel\na\tb\tc\n")
    with pytest.raises(InputError, match="a.tsv:2: 3 fields, allowed: 2 as in the first line$"):
        list(open_table(path, delimiter="bare_tab").rows)
