"""Spreadsheets: sheets, formulas, errors, damage."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from omegaconf import OmegaConf

from datamodules.builders.user_files import Csv
from storage.errors import InputError
from storage.tables import open_table, sheet_names
from tasks.predict import read_rows
from tests.storage.tables.both_paths import predicted, trained


def test_the_first_sheet_that_holds_rows_from_its_first_row_on(tmp_path, caplog):
    import openpyxl

    book = openpyxl.Workbook()
    sheet = book.create_sheet("Data")
    for place, row in enumerate([("text", "label"), ("a", "x")]):
        for column, value in enumerate(row, 1):
            sheet.cell(3 + place, column, value)
    for name in ("a.xlsm", "a.xlsx"):
        book.save(tmp_path / name)
        assert list(open_table(tmp_path / name).rows) == [(f"{tmp_path}/{name}:4", {"text": "a", "label": "x"})]
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
    (tmp_path / "locked.xlsx").write_bytes(bytes.fromhex("d0cf11e0a1b11ae1") + bytes(504))  # OLE
    with pytest.raises(InputError, match="locked.xlsx: not an XLSX file, or protected by a password, allowed: XLSX$"):
        open_table(tmp_path / "locked.xlsx")
