"""What is written is read back, and nothing else is written over."""

import gzip
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.errors import InputError
from storage.tables import check_output, check_replaces, is_visible, open_table, write_table
from tests.storage.tables.both_paths import predicted, trained

CHARACTER = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
TEXT = st.text(CHARACTER, min_size=1).filter(is_visible)
CELL = st.text(CHARACTER, max_size=20)
NAME = TEXT.filter(lambda name: name not in ("text", "label"))
VALUE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | CELL,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(CELL, inner, max_size=3),
    max_leaves=5,
)


@settings(deadline=None)
@given(data=st.data(), name=st.sampled_from(["a.csv", "a.tsv.bz2", "a.csv.gz", "a.tsv.xz"]))
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


@pytest.mark.parametrize("name", ["a.xlsx", "a.parquet", "a.json.zip", "a.csv.zst", "a.html", ""])
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
