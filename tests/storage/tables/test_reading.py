"""Tables of every format: training and prediction accept and refuse the same, with file and line."""

import io
import sys
from datetime import datetime
from types import SimpleNamespace

import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

from datamodules.builders.user_files import Csv, Jsonl
from datamodules.corpus import prepare
from storage.errors import InputError
from storage.tables import label_name, open_table
from tasks.predict import read_as_learned, read_rows
from tests.storage.tables.both_paths import predicted, trained

LINES = st.lists(
    st.sampled_from(
        [b"text,label", b"a,x", b'"b,x', b'"c ""d""",y', b"text\tlabel", b"text;label", b";", b"", b" ,x", b"\xff,x",
         b"\xef\xbb\xbf", b"text,label,label", b"e,x,", b'{"text": "a", "label": "x"}', b"[]", b"[", b"{", b'"', b"\r",
         b'{"text": "\\ud800", "label": 1}', b'{"text": 3, "label": 1}', b'{"label": 1}', b'{"text": "a", "text": "b"}',
         b'{"text": "a", "label": ' + b"9" * 5000 + b"}", b'{"text": "a", "label": ' + b"[" * 2000 + b"}", b"\x00",
         b"x" * 200_000, b'{"text": "a", "label": ' + b"[" * 300 + b"]" * 300 + b"}", b"caf\xc3\xa9,\xc3\xa9"]
    ),
    max_size=5,
)  # fmt: skip


@settings(deadline=None)
@given(lines=LINES, end=st.sampled_from([b"\n", b"\r\n", b"\r"]), name=st.sampled_from(["b.csv", "b.tsv", "b.jsonl"]))
@example([b"text,label", b"a,x", b"b,y"], b"\r", "b.csv")
@example([b"text,label", b"a,x", b"b\rc,y"], b"\n", "b.csv")
def test_bad_files_are_refused_alike_in_one_short_line(folder, lines, end, name):
    path = folder / name
    path.write_bytes(end.join(lines))
    results = []
    for read in (trained, predicted):
        try:
            rows = read(path)
            results.append([row for row in rows if isinstance(row[0], str) and row[0].strip()])
            assert results[-1] == rows or read is trained  # what training's next step refuses, an empty text
        except ValueError as error:
            message = str(error)
            assert message.startswith(str(path)) and "\n" not in message and len(message) < 1000, message
            results.append(message.split(" (")[0].split(",")[0])
        except KeyError:  # a row without a label: prediction needs none
            results.append(None)
    if None not in results and all(isinstance(result, list) for result in results):
        assert results[0] == results[1]


@pytest.mark.parametrize(
    ("name", "content", "header", "rows"),
    [
        ("a.json", '\n \n[{"a": "x"}]', True, [(": entry 1", {"a": "x"})]),
        ("a.txt", '\n{"a": "x"}\n', True, [(":2", {"a": "x"})]),
        ("a.csv", "\r\n\na,b\nc,d\n", False, [(f":{n}", {"column_1": a, "column_2": b}) for n, a, b in ["3ab", "4cd"]]),
        ("a.csv", " \na\n", False, [(":1", {"column_1": " "}), (":2", {"column_1": "a"})]),
    ],
)
def test_blank_lines_at_the_beginning_are_no_rows(tmp_path, name, content, header, rows):
    path = tmp_path / name
    path.write_text(content)
    read = open_table(path, header=header).rows
    assert [(where.removeprefix(str(path)), row) for where, row in read] == rows


def test_a_text_of_markup_alone_is_blank_where_markup_is_taken_out(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("text\n<b>red</b>\n<br>\n")
    config = OmegaConf.create({"text_column": "text", "input": str(path), "header": True})
    strips, keeps = (SimpleNamespace(dataset=Csv(train="a.csv", markup=markup)) for markup in ("strip", "keep"))
    assert strips.dataset.input_of({"text": "<b>red</b>"}, "text") == "red"
    with pytest.raises(InputError, match="a.csv:3: found an empty text"):
        list(read_rows(config, strips, "input").rows)
    assert len(list(read_rows(config, keeps, "input").rows)) == 2


def test_spreadsheets_and_parquet(tmp_path):
    import openpyxl
    import pyarrow as pa
    import pyarrow.parquet as pq

    book = openpyxl.Workbook()
    day = datetime(2020, 1, 2)
    later = day.replace(hour=3)
    for line in (["text", "label", "year", "on"], ["red", 1.0, 2020, day], [], ["blue", "b", True, later]):
        book.active.append(line)
    book.save(tmp_path / "a.xlsx")
    assert trained(tmp_path / "a.xlsx") == predicted(tmp_path / "a.xlsx")
    assert [row for _, row in open_table(tmp_path / "a.xlsx").rows] == [
        {"text": "red", "label": "1", "year": "2020", "on": "2020-01-02"},
        {"text": "blue", "label": "b", "year": "TRUE", "on": "2020-01-02T03:00:00"}]  # fmt: skip
    assert [label_name(label, "") for label in (day, day.date())] == ["2020-01-02"] * 2  # as Parquet has them
    assert [where for where, _ in open_table(tmp_path / "a.xlsx").rows] == [f"{tmp_path}/a.xlsx:{n}" for n in (2, 4)]
    pq.write_table(pa.table({"text": ["red", "blue"], "label": [1, 2]}), tmp_path / "a.parquet")
    assert trained(tmp_path / "a.parquet") == predicted(tmp_path / "a.parquet") == [
        ("red", 1, f"{tmp_path}/a.parquet:1"), ("blue", 2, f"{tmp_path}/a.parquet:2")]  # fmt: skip
    for name, finding in (("a.xlsx", "not an XLSX file"), ("a.parquet", "not a Parquet file")):
        (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:-20])
        for read in (trained, predicted):
            with pytest.raises(InputError, match=finding):
                read(tmp_path / name)
    openpyxl.Workbook().save(tmp_path / "empty.xlsx")
    with pytest.raises(InputError, match="empty.xlsx: the sheet is empty"):
        open_table(tmp_path / "empty.xlsx")


@pytest.mark.parametrize("name", ["a.csv", "a.xlsx", "a.parquet"])
def test_of_columns_of_one_name_the_later_have_a_number_as_pandas_gives_it(tmp_path, name, caplog):
    import openpyxl
    import pyarrow as pa
    import pyarrow.parquet as pq

    lines, path = (["text", "label", "text", "text.1", "text"], ["a", "x", "b", "c", "d"]), tmp_path / name
    (tmp_path / "a.csv").write_text("".join(",".join(line) + "\n" for line in lines))
    book = openpyxl.Workbook()
    for line in lines:
        book.active.append(line)
    book.save(tmp_path / "a.xlsx")
    pq.write_table(pa.table([[value] for value in lines[1]], names=lines[0]), tmp_path / "a.parquet")
    names = pd.read_csv(tmp_path / "a.csv").columns
    assert [row for _, row in open_table(path).rows] == [dict(zip(names, lines[1], strict=True))]
    where, hint = (path, "") if name == "a.parquet" else (f"{path}:1", "; header=false where these are no names")
    (said,) = [record.getMessage() for record in caplog.records]
    assert said == f"{where}: columns 1 and 3 are both called 'text'; column 3 is read as 'text.2', and 1 more{hint}"


@pytest.mark.parametrize(("name", "content"), [
    ("a.csv", '"red, or\nso",x\nblue,y\n'), ("a.tsv", '"red, or\nso"\tx\nblue\ty\n'), ("a.xlsx", None)])  # fmt: skip
def test_a_table_without_a_header_trains_and_predicts_by_position(tmp_path, name, content):
    import openpyxl

    path, book = tmp_path / name, openpyxl.Workbook()
    if content is None:
        for line in (["red, or\nso", "x", None], ["blue", "y"]):
            book.active.append(line)
        book.save(path)
    else:
        path.write_text(content)
    columns = {"text_column": "column_1", "label_column": "column_2"}
    trained = Csv(train=str(path), header=False, **columns).rows({})["train"]
    second = 2 if content is None else 3  # a row of a sheet has no lines
    expected = [("red, or\nso", "x", f"{path}:1"), ("blue", "y", f"{path}:{second}")]
    assert [(row["text"], row["label"], row["where"]) for row in trained] == expected
    config = OmegaConf.create({"text_column": "column_1", "input": str(path), "header": False})
    table = read_rows(config, SimpleNamespace(dataset=Csv(train=str(path))), "input")
    assert table.columns == ("column_1", "column_2")
    assert [(*row.values(), where) for where, row in table.rows] == expected


@pytest.mark.parametrize(("name", "content"), [("a.jsonl", b'{"text": "red"}'), ("a.json", b"[]"), ("a.parquet", b"")])
def test_a_format_that_names_its_columns_takes_no_other_word(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=f"{name}: header=false has no effect, allowed with CSV, TSV and XLSX"):
        open_table(tmp_path / name, header=False)


def test_the_columns_of_json_lines_are_the_keys_of_the_first_objects(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"id": 1}\n{"body": "red", "id": 2}\n{"title": "t", "body": "blue"}\n')
    table = open_table(tmp_path / "a.jsonl")
    assert table.first_names() == ("id", "body", "title") and len(list(table.rows)) == 3


def test_lists_that_are_all_empty_are_refused(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a", "label": []}\n{"text": "b", "label": []}\n')
    with pytest.raises(InputError, match="^user train: no row has a label, allowed: at least 2 classes$"):
        prepare(Jsonl(train=str(path), test=str(path)), tmp_path / "data", None)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (b"a text\n", [("stdin:1", {"text": "a text"})]),
        (b'he said "hi, there', [("stdin:1", {"text": 'he said "hi, there'})]),
        (b"text\na text\n", [("stdin:2", {"text": "a text"})]),
        (b'{"text": "a"}\n{"text": "b", "n": 1}', [("stdin:1", {"text": "a"}), ("stdin:2", {"text": "b", "n": 1})]),
        (b"text\n", []),
    ],
)
def test_stdin(monkeypatch, given, expected):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
    assert list(open_table("-", plain_text="text").rows) == expected


JOINED = {"text_column": "title+body", "label_column": "kind"}
HEADLESS = {"text_column": "column_2", "label_column": "column_1", "header": False}


@pytest.mark.parametrize(
    ("learned", "typed", "given", "columns", "texts"),
    [
        (JOINED, [], "title,body,kind\na,b,x\n", ("title+body", "kind"), ["a\nb"]),
        (JOINED, [], '{"title": "a"}\n{"body": "b", "kind": "x"}\n', ("title+body", "kind"), ["a", "b"]),
        (JOINED, ["text_column=text"], "text,title,body,kind\nt,a,b,x\n", ("text", "kind"), ["t"]),
        (JOINED, [], "text,title\nt,a\n", ("text", "label"), ["t"]),
        (JOINED, [], "a text, of commas\n", ("text", "label"), ["a text, of commas"]),
        (HEADLESS, [], "x,a\ny,b\n", ("column_2", "column_1"), ["a", "b"]),
        (HEADLESS, [], '{"column_2": "a", "column_1": "x"}\n', ("column_2", "column_1"), ["a"]),
        (HEADLESS, ["header=true"], "text,label\na,x\n", ("text", "label"), ["a"]),
        (HEADLESS, [], "a text\n", ("text", "label"), ["a text"]),
    ],
)
def test_a_pipe_is_read_by_what_the_run_learned_from(monkeypatch, capsys, learned, typed, given, columns, texts):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given.encode())))
    config = OmegaConf.create({"text_column": "text", "label_column": "label", "input": "-", "header": True})
    plan = SimpleNamespace(dataset=Csv(train="a.csv", **learned))
    config, table = read_as_learned(config, plan, "input", typed, ("text", "label"))
    assert (config.text_column, config.label_column) == columns
    assert [plan.dataset.input_of(row, config.text_column) for _, row in table.rows] == texts
    said = capsys.readouterr().err
    assert (f"stdin: text_column={columns[0]}, as the run learned from\n" in said) == (columns[0] != "text")
    assert ("stdin: header=false, as the run learned from" in said) == (not config.header)
    assert config.header == (given != "x,a\ny,b\n")


def test_a_closed_stdin_is_one_line(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(InputError, match="^stdin: it is closed"):
        open_table("-")
