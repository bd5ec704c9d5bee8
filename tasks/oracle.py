"""A person as the oracle: a CSV goes out with empty labels, and comes back filled."""

from __future__ import annotations

import csv
from pathlib import Path

from reporting.run_store import csv_text, write_text

HEADER = ("position", "text", "label")
NO_LABEL = ("skip", "ambiguous")  # what may stand in place of a class


class FileOracle:
    """Texts to label, in `file`, with the columns position, text and label.

    Args:
        file: written where it does not hold these texts, read where it does.
    """

    def __init__(self, file: Path) -> None:
        self.file = file

    def answers(self, positions: list[int], texts: list[str], label_names: list[str], skipped: int) -> list[int]:
        """Class of each text, `skipped` where it was left out.

        Raises:
            ValueError: there are labels to fill in, or one is no class; nothing that was filled in is lost.
        """
        rows, asked = self._read(), list(map(str, positions))
        found = [row["position"] for row in rows]
        if not set(found) & set(asked):  # no file yet, or an earlier round's
            write_text(self.file, csv_text(((*pair, "") for pair in zip(positions, texts, strict=True)), HEADER))
            raise ValueError(f"active.oracle: {len(positions)} texts to label in {self.file}; {self._how(label_names)}")
        if sorted(found) != sorted(asked):  # a row was deleted, doubled or added: never write over what was filled in
            odd = sorted((set(found) ^ set(asked)) or {name for name in found if found.count(name) > 1})
            raise ValueError(f"{self.file}: found {len(found)} rows, allowed: each of the {len(asked)} asked for once; "
                             f"see position {', '.join(odd)}")  # fmt: skip
        empty = sum(not row["label"].strip() for row in rows)
        if empty:
            raise ValueError(f"active.oracle: {empty} of {len(rows)} labels are missing in {self.file}; "
                             f"{self._how(label_names)}")  # fmt: skip
        answers = {
            row["position"]: self._class_of(line, row["label"].strip(), label_names, skipped)
            for line, row in enumerate(rows, 2)
        }
        return [answers[position] for position in asked]  # a spreadsheet may have sorted the rows

    def _read(self) -> list[dict[str, str]]:
        if not self.file.exists():
            return []
        with self.file.open(encoding="utf-8-sig", newline="") as lines:
            rows = list(csv.DictReader(lines))
        missing = [name for name in HEADER if rows and rows[0].get(name) is None]
        if missing:
            raise ValueError(f"{self.file}: no column {', '.join(missing)}; allowed: {', '.join(HEADER)}")
        return [row | {"label": row["label"] or ""} for row in rows]

    def _class_of(self, line: int, label: str, label_names: list[str], skipped: int) -> int:
        if label in NO_LABEL:
            return skipped
        if label not in label_names:
            raise ValueError(f"{self.file}:{line}: found {label!r}; allowed: {', '.join([*label_names, *NO_LABEL])}")
        return label_names.index(label)

    def _how(self, label_names: list[str]) -> str:
        allowed = ", ".join([*label_names, *NO_LABEL])
        return f"fill the column label ({allowed}) and type the same line again"
