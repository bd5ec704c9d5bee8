"""Bytes become lines of text: encodings, guesses and what is no text."""

from types import SimpleNamespace

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

from datamodules.builders.user_files import Csv
from storage.errors import InputError
from storage.tables import open_table
from tasks.predict import read_rows
from tests.storage.tables.both_paths import predicted, trained


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
        (b"BZh11AY&SY", "FILE: found bzip2, allowed: text"),
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


@pytest.mark.parametrize(
    ("encoding", "text", "likely"),
    [
        ("cp1251", "Хороший фильм, актёры играют прекрасно, а доставка заняла две недели", "cp1251"),
        ("cp1250", "Świetny film, gorąco polecam, ale przesyłka była źle zapakowana, żenująca obsługa", "cp1250"),
        ("cp1250", "Výborný film, vřele doporučuji, ale zásilka přišla poškozená a špatně zabalená", "cp1250"),
        ("gbk", "这部电影非常好看，演员演技一流，快递太慢了，包装破损，不推荐购买", "gb18030"),
        ("shift_jis", "とても面白い映画でした。配達が遅くて商品が壊れていました", "shift_jis"),
        ("mac_roman", "Sehr schöner Film, äußerst empfehlenswert, große Enttäuschung über die Qualität", "mac_roman"),
        ("cp1252", "Sehr schöner Film, äußerst empfehlenswert, große Enttäuschung über die Qualität", None),
        ("cp1252", "Très bon film, à voir absolument, très déçu de la qualité, l’emballage abîmé, cœur", None),
        ("cp1252", "El envío llegó tarde y el paquete estaba dañado, qué decepción, niño", None),
        ("cp1252", "As informações não são boas, condições péssimas, a atenção ao cliente também", None),
        ("cp1252", "Erittäin hyvä elokuva, suosittelen lämpimästi, lähetys tuli myöhässä", None),
        ("cp1252", "The café was great – we’ll be back", None),
    ],
)
def test_the_likely_encoding_is_named_where_text_is_not_utf_8(tmp_path, caplog, encoding, text, likely):
    path, ascii_rows = tmp_path / "a.tsv", "plain\n" * 20_000  # more than the sample
    for content in (f"text\n{text}\nso\n", f"text\n{ascii_rows}{text}\nso\n"):
        caplog.clear()
        path.write_bytes(content.encode(encoding))
        try:
            table = open_table(path)
            assert len(list(table.rows)) == content.count("\n") - 1 and table.likely_encoding == likely
            said = caplog.text
        except InputError as error:  # bytes that cp1252 has not
            said = str(error)
        assert (f"encoding={likely}, which it looks to be" if likely else "(encoding=NAME says another)") in said


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


@pytest.mark.parametrize("content", [bytes(100), "text,label\nan apple,fruit\n".encode("utf-16-le")])
def test_what_is_no_text_is_told_from_its_first_bytes(tmp_path, content):
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(InputError, match="a.csv:1: byte 0x00 at position .* is no text, allowed: .* encoding=NAME"):
        list(open_table(tmp_path / "a.csv").rows)
    (tmp_path / "a.csv").write_bytes(b"text,label\nan apple,fruit\nap\0ple,fruit\n")
    with pytest.raises(InputError, match="a.csv:3: byte 0x00 at position 3 is no text, allowed: "):
        list(open_table(tmp_path / "a.csv").rows)


def test_an_endless_line_is_refused_before_it_fills_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr("storage.tables.text_lines.MAX_LINE", 1000)
    (tmp_path / "a.csv").write_text("text,label\n" + 2000 * "a")
    with pytest.raises(InputError, match="a.csv:2: a line of 1,000 bytes or more, allowed: shorter ones"):
        list(open_table(tmp_path / "a.csv").rows)
