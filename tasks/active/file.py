"""A person as the oracle: a CSV goes out with empty labels, and comes back filled."""

from __future__ import annotations

from pathlib import Path

from labelling.answers import NO_LABEL, Label, check_no_word, classes_of, from_table
from storage.files import write_text
from storage.run_store import csv_text
from storage.tables import open_table

HEADER = ("position", "text", "label")


class FileOracle:
    """Texts to label, in `file`, with the columns position, text and label.

    Args:
        file: written where it does not hold these texts, read where it does.
        separator: what stands between the classes of a text, where texts have several; else None.
    """

    def __init__(self, file: Path, separator: str | None = None) -> None:
        self.file, self.separator = file, separator

    def answers(self, positions: list[int], texts: list[str], label_names: list[str]) -> list[Label]:
        """Class of each text, or all its classes; a word of `NO_LABEL` where it was left out.

        Raises:
            ValueError: there are labels to fill in, or one is no class; nothing that was filled in is lost.
        """
        is_new = not self._fits(positions)
        rows = self.asked(positions, texts)
        if is_new:
            raise ValueError(f"active.oracle: {len(rows)} texts to label in {self.file}; {self._how(label_names)}")
        empty = sum(not row["label"] for row in rows)
        if empty:
            raise ValueError(f"active.oracle: {empty} of {len(rows)} labels are missing in {self.file}; "
                             f"{self._how(label_names)}")  # fmt: skip
        answers = self.checked(rows, label_names)
        return [answers[str(position)] for position in positions]  # a spreadsheet may have sorted the rows

    def asked(self, positions: list[int], texts: list[str]) -> list[dict[str, str]]:
        """The rows of the file, which is written first where it holds an earlier round's texts or none.

        Raises:
            ValueError: a row was deleted, doubled or added: what was filled in is never written over.
        """
        asked = list(map(str, positions))
        if not self._fits(positions):
            self.write([{"position": name, "text": text, "label": ""} for name, text in zip(asked, texts, strict=True)])
        rows = self._read()
        answered = [row["position"] for row in rows]
        if sorted(answered) != sorted(asked):
            odd = sorted((set(answered) ^ set(asked)) or {name for name in answered if answered.count(name) > 1})
            allowed = f"each of the {len(asked)} asked for once; see position {', '.join(odd)}"
            raise ValueError(f"{self.file}: found {len(answered)} rows, allowed: {allowed}")
        return rows

    def checked(self, rows: list[dict[str, str]], label_names: list[str]) -> dict[str, Label]:
        """Position -> label of the rows that hold one. Raises ValueError: one that is no class, with its line.

        Args:
            rows: those of `asked`: the cells, and `where` the row begins.
            label_names: the classes.
        """
        check_no_word(label_names)
        labels = {}
        for row in rows:
            if not row["label"]:
                continue
            label = labels[row["position"]] = from_table(row["label"], self.separator)
            if unknown := [name for name in classes_of(label) if name not in label_names]:
                allowed = ", ".join([*label_names, *NO_LABEL])
                raise ValueError(f"{row['where']}: found {unknown[0]!r}; allowed: {allowed}")
        return labels

    def write(self, rows: list[dict[str, str]]) -> None:
        """The file anew, whole or not at all."""
        write_text(self.file, csv_text(([row[name] for name in HEADER] for row in rows), HEADER))

    def _fits(self, positions: list[int]) -> bool:
        return bool({row["position"] for row in self._read()} & set(map(str, positions)))

    def _read(self) -> list[dict[str, str]]:
        if not self.file.exists() or not self.file.stat().st_size:
            return []
        table = open_table(self.file)  # a spreadsheet may have changed the encoding and the delimiter
        for name in HEADER:
            table.need(name, "as it was written")
        return [{**row, "label": row["label"].strip(), "where": where} for where, row in table.rows]

    def _how(self, label_names: list[str]) -> str:
        allowed = ", ".join([*label_names, *NO_LABEL])
        several = "" if self.separator is None else f"; several with {self.separator} between them"
        return f"fill the column label ({allowed}{several}) and type the same line again"
