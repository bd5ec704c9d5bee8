"""Tables that people have, read and written row by row: CSV, TSV, JSON, JSON Lines, XLSX and Parquet.

Training, prediction and all else read with `open_table`, so what one accepts the other does too. A fault names file and
line.
"""

from storage.tables.cells import (
    JOIN,
    MAX_FIELD,
    checked_text,
    composed,
    date_text,
    emptying,
    flagged,
    folded,
    is_blank,
    is_flag,
    is_missing,
    is_text,
    is_visible,
    label_name,
    label_text,
    labels_of,
    no_values,
    text_columns,
    text_of,
    trim,
)
from storage.tables.delimited import TAB, checked_delimiter
from storage.tables.file_names import STDIN, TEXT_FORMATS, check_source, format_of
from storage.tables.json_rows import parsed_json
from storage.tables.reading import open_table
from storage.tables.table import Row, Table
from storage.tables.text_lines import TextLines, checked_encoding
from storage.tables.writing import check_is_other, check_output, check_replaces, csv_writer, write_table
from storage.tables.xlsx import sheet_names

__all__ = [
    "JOIN",
    "MAX_FIELD",
    "STDIN",
    "TAB",
    "TEXT_FORMATS",
    "Row",
    "Table",
    "TextLines",
    "check_is_other",
    "check_output",
    "check_replaces",
    "check_source",
    "checked_delimiter",
    "checked_encoding",
    "checked_text",
    "composed",
    "csv_writer",
    "date_text",
    "emptying",
    "flagged",
    "folded",
    "format_of",
    "is_blank",
    "is_flag",
    "is_missing",
    "is_text",
    "is_visible",
    "label_name",
    "label_text",
    "labels_of",
    "no_values",
    "open_table",
    "parsed_json",
    "sheet_names",
    "text_columns",
    "text_of",
    "trim",
    "write_table",
]
