"""Small files of labelled texts."""

import csv

TEXTS = [f"a text of some words, number {number}" for number in range(12)]
TITLES = [f"title {number}" for number in range(12)]
LABELS = ["red", "green", "blue"] * 4
SPARSE = [*[f"{text}, and a remark that is much longer than these are" for text in TEXTS[:4]], *8 * [""]]


def write(path, header, rows, encoding="utf-8", delimiter=","):
    with path.open("w", newline="", encoding=encoding) as file:
        csv.writer(file, delimiter=delimiter).writerows([header, *rows])
    return str(path)
