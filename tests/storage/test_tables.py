"""What is written is read back; training and prediction accept and refuse the same, with file and line."""

import gzip
import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

from datamodules.builders.user_files import Csv, Jsonl
from datamodules.corpus import prepare
from storage.errors import InputError
from storage.tables import check_output, check_replaces, is_visible, open_table, sheet_names, write_table
from tasks.predict import read_as_learned, read_rows

CHARACTER = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
TEXT = st.text(CHARACTER, min_size=1).filter(is_visible)
CELL = st.text(CHARACTER, max_size=20)
NAME = TEXT.filter(lambda name: name not in ("text", "label"))
VALUE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | CELL,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(CELL, inner, max_size=3),
    max_leaves=5,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("tables")


def trained(path: Path) -> list[tuple]:
    """Rows as training gets them."""
    reader = Jsonl if "json" in path.name else Csv
    return [(row["text"], row["label"], row["where"]) for row in reader(train=str(path)).rows({})["train"]]


def predicted(path: Path) -> list[tuple]:
    """Rows as prediction gets them."""
    config = OmegaConf.create({"text_column": "text", "input": str(path), "header": True})
    table = read_rows(config, SimpleNamespace(dataset=Csv(train=str(path))), "input")
    return [(row["text"], row["label"], where) for where, row in table.rows]


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


@settings(deadline=None)
@given(data=st.data(), name=st.sampled_from(["a.csv", "a.tsv.gz", "a.csv.gz", "a.tsv"]))
def test_cells_come_back_by_both_paths(folder, data, name):
    more = data.draw(st.lists(NAME, max_size=2, unique=True))
    columns = data.draw(st.permutations(["text", "label", *more]))
    cells = st.fixed_dictionaries({**dict.fromkeys(columns, CELL), "text": TEXT})
    table = data.draw(st.lists(cells, min_size=1, max_size=4))
    write_table(folder / name, iter(table), columns)
    rows = list(open_table(folder / name).rows)
    assert [row for _, row in rows] == table and len({where for where, _ in rows}) == len(table)
    assert trained(folder / name) == predicted(folder / name)
    assert [(text, label) for text, label, _ in trained(folder / name)] == [(r["text"], r["label"]) for r in table]


@settings(deadline=None)
@given(table=st.lists(st.dictionaries(CELL, VALUE, max_size=3), min_size=1, max_size=4), name=st.sampled_from(
    ["a.json", "a.jsonl", "a.jsonl.gz", "a.json.gz", "a.ndjson"]))  # fmt: skip
def test_values_come_back_and_later_keys_are_kept(folder, table, name):
    table = [{"text": "x", "label": "y", **row} for row in table]
    write_table(folder / name, iter(table), None)
    assert [row for _, row in open_table(folder / name).rows] == table
    opened = (gzip.open if name.endswith("gz") else open)(folder / name, "rt", encoding="utf-8")
    with opened as file:
        content = file.read()
    assert (
        json.loads(content)
        if ".json" in name and "jsonl" not in name and "nd" not in name
        else [json.loads(line) for line in content.split("\n") if line]
    ) == table
    write_table(folder / "flat.csv", iter(table), None)
    flat = open_table(folder / "flat.csv")
    keys = list(dict.fromkeys(key for row in table for key in row))
    assert list(flat.columns) == keys and len(list(flat.rows)) == len(table)


@settings(deadline=None)
@given(words=st.lists(st.text("aé“€ñß ", min_size=1).filter(str.strip), min_size=1, max_size=5))
@example(["a", "café “hier”"])
def test_windows_text_is_read_as_such_by_both_paths(folder, words):
    assume(not any(is_utf8(word.encode("cp1252")) for word in words if not word.isascii()))  # by chance
    path = folder / "windows.csv"
    path.write_bytes("".join(["text,label\n", *(f"{word},x\n" for word in words)]).encode("cp1252"))
    assert [row[0] for row in trained(path)] == [row[0] for row in predicted(path)] == words


def is_utf8(body: bytes) -> bool:
    try:
        return bool(body.decode())
    except UnicodeDecodeError:
        return False


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"text,label\ncaf\xe9,x\np\xc3\xa8re,x\n", "FILE:3: UTF-8, and lines before are not; allowed: one"),
        (b"text,label\np\xc3\xa8re,x\ncaf\xe9,x\n", "FILE:3: byte 0xe9 at position 4 is not UTF-8, allowed: UTF-8"),
        (b"PK\x03\x04\xff\xff", "FILE: found a ZIP archive, as XLSX is, allowed: text, as CSV; XLSX or Parquet"),
        (b"\x1f\x8b\x08\x00", "FILE: found gzip, allowed: text, as CSV; XLSX or Parquet under a name that ends so"),
        (b"text,label\n\x81a,x\n", "FILE:2: byte 0x81 at position 1 is not UTF-8, allowed: UTF-8 text"),
    ],
)
def test_no_guess_where_it_could_be_wrong(tmp_path, content, message):
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(InputError) as error:
        trained(tmp_path / "a.csv")
    assert str(error.value).startswith(message.replace("FILE", str(tmp_path / "a.csv")))


def test_the_guess_is_said_and_a_name_overrules_it(tmp_path, caplog):
    path = tmp_path / "a.csv"
    path.write_bytes("text,label\nkaf\u010d,x\n".encode("latin2"))
    assert trained(path) == [("kafè", "x", f"{path}:2")]
    guess = f"{path}:2: byte 0xe8 at position 4 is not UTF-8; the file is read as cp1252 (encoding=NAME says another)"
    assert caplog.messages == [guess]
    caplog.clear()
    options = {"train": str(path), "encoding": "latin2"}
    assert [row["text"] for row in Csv(**options).rows({})["train"]] == ["kaf\u010d"]
    config = OmegaConf.create({"text_column": "text", "input": str(path), "encoding": "latin2", "header": True})
    table = read_rows(config, SimpleNamespace(dataset=Csv(train=str(path))), "input")
    assert [row["text"] for _, row in table.rows] == ["kaf\u010d"] and not caplog.messages
    assert Csv(**options).identity() != Csv(train=str(path)).identity()
    with pytest.raises(InputError, match="dataset.encoding: found 'latin-99', allowed: an encoding of text"):
        Csv(train=str(path), encoding="latin-99")


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
    ("content", "options", "rows"),
    [
        ("text,label\rred,x\rblue,y\r", {}, [("red", "x"), ("blue", "y")]),
        ("text;label\nred, or so;x\n", {}, [("red, or so", "x")]),
        ("text\tlabel\nred\tx\n", {}, [("red", "x")]),
        ("\ufefftext,label\r\nrød,x\r\n".encode("utf-16-le"), {}, [("rød", "x")]),
        ("\ufefftext,label\nrød,x".encode("utf-16-be"), {}, [("rød", "x")]),
        ("\ufefftext,label\nrød,x".encode("utf-32-le"), {}, [("rød", "x")]),
    ],
)
def test_what_is_guessed_is_said_in_a_line(tmp_path, caplog, content, options, rows):
    path = tmp_path / "a.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert [row[:2] for row in trained(path)] == [row[:2] for row in predicted(path)] == rows
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 2 and said[0].startswith(f"{path}: read ") and "\n" not in said[0]


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


def test_text_that_is_not_utf_8_is_read_as_the_run_learned_it(tmp_path, caplog):
    path = tmp_path / "a.csv"
    path.write_bytes("text\nпривет\n".encode("cp1251"))
    config = OmegaConf.create({"text_column": "text", "input": str(path), "header": True})
    plan = SimpleNamespace(dataset=Csv(train=str(path), encoding="cp1251"))
    assert [row["text"] for _, row in read_rows(config, plan, "input").rows] == ["привет"]
    assert "the file is read as cp1251 (encoding=NAME says another)" in caplog.text
    path.write_text("text\nпривет\n", encoding="utf-8")
    assert [row["text"] for _, row in read_rows(config, plan, "input").rows] == ["привет"]


@pytest.mark.parametrize(
    ("encoding", "texts"),
    [
        ("shift_jis", ["日本、ソ", "予定"]),
        ("cp866", ["привет", "Рп"]),
        ("cp1250", ["ťažký", "é"]),
        *((name, ["ça, où", "Zürich"]) for name in ("cp850", "mac_roman", "utf-16-le", "utf-16-be", "utf-32-le")),
    ],
)
def test_each_encoding_that_a_run_learned_is_that_of_new_texts(tmp_path, encoding, texts):
    path, plan = tmp_path / "a.csv", SimpleNamespace(dataset=Csv(train="a.csv", encoding=encoding))
    config = OmegaConf.create({"text_column": "text", "input": str(path), "header": True})
    for written in (encoding, "utf-8", "utf-8-sig", "utf-16"):
        path.write_text("".join(f'"{text}"\n' for text in ["text", *texts]), encoding=written)
        assert [row["text"] for _, row in read_rows(config, plan, "input").rows] == texts, written


@pytest.mark.parametrize(("encoding", "bad"), [("utf-8", b"\xff"), ("cp1252", b"\x81"), ("utf-16-le", b"\x00\xd8")])
def test_bytes_that_are_none_of_the_encoding_are_named_by_their_line(tmp_path, encoding, bad):
    lines = ["text,label\n", *(f"text {n},x\n" for n in range(99))]
    before, after = ("".join(part).encode(encoding) for part in (lines[:50], lines[50:]))
    for content, number in ((before + bad + after, 51), (before + after + bad, 101)):
        (tmp_path / "a.csv").write_bytes(content)
        with pytest.raises(InputError, match=f"a.csv:{number}: not {encoding.upper()} from here on, allowed: one enc"):
            list(open_table(tmp_path / "a.csv", encoding=encoding).rows)


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


def test_the_first_sheet_that_holds_rows_from_its_first_row_on(tmp_path, caplog):
    import openpyxl

    book = openpyxl.Workbook()
    sheet = book.create_sheet("Data")
    for place, row in enumerate([("text", "label"), ("a", "x")]):
        for column, value in enumerate(row, 1):
            sheet.cell(3 + place, column, value)
    book.save(tmp_path / "a.xlsx")
    assert list(open_table(tmp_path / "a.xlsx").rows) == [(f"{tmp_path}/a.xlsx:4", {"text": "a", "label": "x"})]
    assert "the first of 2 sheets that holds rows is read, 'Data'; sheet=NAME reads another" in caplog.text
    sheet["A1"] = "Answers of spring"
    book.save(tmp_path / "a.xlsx")
    with pytest.raises(InputError, match="a.xlsx:3: more cells than the 1 columns of the first row, 1; allowed"):
        list(open_table(tmp_path / "a.xlsx").rows)


def test_a_sheet_is_chosen_by_its_name(tmp_path, caplog, monkeypatch):
    import openpyxl

    opened, load = [], openpyxl.load_workbook
    monkeypatch.setattr(openpyxl, "load_workbook", lambda *a, **more: opened.append(load(*a, **more)) or opened[-1])
    file, book = tmp_path / "a.xlsx", openpyxl.Workbook()
    for title in ("Spring", "2024"):
        sheet = book.create_sheet(title)
        for row in (("text", "label"), (f"in {title}", "x")):
            sheet.append(row)
    book.save(file)
    config = OmegaConf.create({"text_column": "text", "input": str(file), "header": True, "sheet": "2024"})
    dataset = Csv(train=str(file), sheet="2024", unlabelled=str(file))
    table = read_rows(config, SimpleNamespace(dataset=dataset), "input")
    assert table.sheet == "2024" and [row["text"] for _, row in table.rows] == ["in 2024"]
    for rows in (dataset.table(file).rows, ((row["where"], row) for row in dataset.unlabelled_rows())):
        assert [row["text"] for _, row in rows] == ["in 2024"]
    assert not caplog.text and sheet_names(file) == ["Sheet", "Spring", "2024"]
    with pytest.raises(InputError, match="a.xlsx: found no sheet 'x', allowed: 'Sheet', 'Spring', '2024'$"):
        open_table(file, sheet="x")
    with pytest.raises(InputError, match="a.xlsx: the sheet is empty, allowed: a header line and rows"):
        open_table(file, sheet="Sheet")
    assert len(opened) > 4 and all(book._archive.fp is None for book in opened), "all are closed again"
    config.input = str(tmp_path / "a.csv")
    (tmp_path / "a.csv").write_text("text,label\nred,x\n")
    with pytest.raises(InputError, match="a.csv: sheet='2024' has no effect, allowed with XLSX"):
        read_rows(config, SimpleNamespace(dataset=dataset), "input")
    dataset.table(Path(config.input))  # it is that of another file there


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


def test_spreadsheets_and_parquet(tmp_path):
    import openpyxl
    import pyarrow as pa
    import pyarrow.parquet as pq

    book = openpyxl.Workbook()
    for line in (["text", "label", "year", None], ["red", 1.0, 2020], [], ["blue", "b", True, None]):
        book.active.append(line)
    book.save(tmp_path / "a.xlsx")
    assert trained(tmp_path / "a.xlsx") == predicted(tmp_path / "a.xlsx")
    assert [row for _, row in open_table(tmp_path / "a.xlsx").rows] == [
        {"text": "red", "label": "1", "year": "2020"}, {"text": "blue", "label": "b", "year": "TRUE"}]  # fmt: skip
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


def test_formulas_that_no_program_has_calculated_are_no_empty_cells(tmp_path, caplog):
    """As libraries write them. A formula whose value is an empty text is one; a column that nobody filled has none."""
    import zipfile

    import openpyxl

    book, refused = openpyxl.Workbook(), "holds formulas without values; allowed: values .open and save the file"
    for row in [("text", "label", "note"), *((f"text {n}", f'=IF(A{n}="","","x")', None) for n in range(2, 5))]:
        book.active.append(row)
    book.save(tmp_path / "a.xlsx")
    with pytest.raises(InputError, match=f"a.xlsx: column 'label' {refused}"):
        trained(tmp_path / "a.xlsx")
    assert len(predicted(tmp_path / "a.xlsx")) == 3  # which reads no label
    assert [record.getMessage() for record in caplog.records] == [
        f"{tmp_path}/a.xlsx: column 'label': formulas without values are read as empty cells (saved by a spreadsheet "
        "program they have one)"
    ]
    with zipfile.ZipFile(tmp_path / "a.xlsx") as whole, zipfile.ZipFile(tmp_path / "calculated.xlsx", "w") as changed:
        for part in whole.namelist():
            changed.writestr(part, whole.read(part).replace(b'"><f>', b'" t="str"><f>'))
    rows = [row for _, row in open_table(tmp_path / "calculated.xlsx").rows]
    assert rows == [{"text": f"text {n}", "label": "", "note": ""} for n in range(2, 5)]
    for row in book.active.iter_rows(min_row=2):
        row[0].value = "=B2"
    book.save(tmp_path / "all.xlsx")
    with pytest.raises(InputError, match=f"all.xlsx: column 'text' {refused}"):
        list(open_table(tmp_path / "all.xlsx").rows)
    for cell in book.active[1]:
        cell.value = f"={cell.coordinate}" if cell.column == 2 else cell.value
    book.save(tmp_path / "headless.xlsx")
    assert "column_2" in open_table(tmp_path / "headless.xlsx", header=False).uncalculated


def test_errors_of_a_spreadsheet_are_empty_cells_and_its_escapes_are_characters(tmp_path, caplog):
    import zipfile

    import openpyxl

    book = openpyxl.Workbook()
    for row in [("text", "label"), ("a_x000D_\nb_x005F_x000D_ _xD83D_", "#N/A"), ("#N/A", "#REF!"), ("c", "=1/0")]:
        book.active.append(row)
    book.active["A3"].data_type = "s"  # typed as a text
    book.save(tmp_path / "a.xlsx")
    with zipfile.ZipFile(tmp_path / "a.xlsx") as whole, zipfile.ZipFile(tmp_path / "b.xlsx", "w") as changed:
        for part in whole.namelist():
            content = whole.read(part).replace(b'<c r="B4"><f>1/0</f><v', b'<c r="B4" t="e"><f>1/0</f><v>#DIV/0!</v')
            changed.writestr(part, content.replace(b"</v />", b"</v>"))
    rows = [tuple(row.values()) for _, row in open_table(tmp_path / "b.xlsx").rows]
    assert rows == [("a\r\nb_x005F_x000D_ _xD83D_", ""), ("#N/A", ""), ("c", "")]
    assert [record.getMessage() for record in caplog.records] == [
        f"{tmp_path}/b.xlsx:2: a cell that holds an error, as #N/A, is read as an empty one; the sheet has 3 of these"
    ]


def test_the_columns_of_json_lines_are_the_keys_of_the_first_objects(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"id": 1}\n{"body": "red", "id": 2}\n{"title": "t", "body": "blue"}\n')
    table = open_table(tmp_path / "a.jsonl")
    assert table.first_names() == ("id", "body", "title") and len(list(table.rows)) == 3


def test_a_spreadsheet_that_breaks_off_or_lies_about_its_size(tmp_path):
    """The size that it states is less than it holds; then an entity that unfolds, after a good row."""
    import zipfile

    import openpyxl

    book = openpyxl.Workbook()
    for row in [("text", "label"), ("an apple", "fruit"), ("the iron", "metal")]:
        book.active.append(row)
    book.save(tmp_path / "whole.xlsx")
    broken = b"<row r='3'><c r='A3' t='inlineStr'><is><t>&b;</t></is></c></row></sheetData>"
    changes = {
        "small.xlsx": lambda sheet: sheet.replace(b"A1:B3", b"A1:B2"),
        "broken.xlsx": lambda sheet: sheet.replace(b"</sheetData>", broken),
    }
    for name, change in changes.items():
        with zipfile.ZipFile(tmp_path / "whole.xlsx") as whole, zipfile.ZipFile(tmp_path / name, "w") as changed:
            for part in whole.namelist():
                content = whole.read(part)
                changed.writestr(part, change(content) if part.endswith("sheet1.xml") else content)
    assert [row["label"] for _, row in open_table(tmp_path / "small.xlsx").rows] == ["fruit", "metal"]
    with pytest.raises(InputError, match=r"broken.xlsx:\d+: damaged from here on, allowed: a whole XLSX file"):
        list(open_table(tmp_path / "broken.xlsx").rows)


@pytest.mark.parametrize("content", [bytes(100), "text,label\nan apple,fruit\n".encode("utf-16-le")])
def test_what_is_no_text_is_told_from_its_first_bytes(tmp_path, content):
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(InputError, match="a.csv:1: byte 0x00 at position .* is no text, allowed: .* encoding=NAME"):
        list(open_table(tmp_path / "a.csv").rows)
    (tmp_path / "a.csv").write_bytes(b"text,label\nan apple,fruit\nap\0ple,fruit\n")
    with pytest.raises(InputError, match="a.csv:3: byte 0x00 at position 3 is no text, allowed: "):
        list(open_table(tmp_path / "a.csv").rows)


def test_an_endless_line_is_refused_before_it_fills_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr("storage.tables.MAX_LINE", 1000)
    (tmp_path / "a.csv").write_text("text,label\n" + 2000 * "a")
    with pytest.raises(InputError, match="a.csv:2: a line of 1,000 bytes or more, allowed: shorter ones"):
        list(open_table(tmp_path / "a.csv").rows)


@pytest.mark.parametrize("name", ["a.xlsx", "a.parquet", "a.json.zip", "a.csv.bz2", "a.html", ""])
def test_output_is_what_its_name_says_or_refused(name):
    with pytest.raises(InputError, match=r"^output: found '.*', allowed: "):
        check_output(name)


@pytest.mark.parametrize("name", ["a.csv", "a.tsv.gz", "b", "-", "/dev/null", "texts.2", "a.JSONL"])
def test_output_names_that_are_fine(name):
    check_output(name)


@pytest.mark.parametrize("name", ["a.csv", "a.tsv.gz", "a.json", "a.jsonl", "a.txt", "a"])
def test_an_answer_is_replaced_and_no_other_file(tmp_path, name):
    file = tmp_path / name
    check_replaces(file, ["prediction"])
    write_table(file, iter([{"text;a": 'é, "x"', "prediction": "b"}]), None)
    check_replaces(file, ["prediction"])
    for content in (b"text,label\nhail,weather\n", b"\xff\x00", b'[{"text": "a"}]'):
        file.write_bytes(content)
        with pytest.raises(InputError, match="^output: found '.*, a file that holds something else"):
            check_replaces(file, ["prediction"])


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


def test_lists_that_are_all_empty_are_refused(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a", "label": []}\n{"text": "b", "label": []}\n')
    with pytest.raises(InputError, match="^user train: no row has a label, allowed: at least 2 classes$"):
        prepare(Jsonl(train=str(path), test=str(path)), tmp_path / "data", None)
