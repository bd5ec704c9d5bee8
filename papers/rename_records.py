"""Give the committed records the ids that today's commands ask for, after a class was renamed or a default changed.

    python -m papers.rename_records [reports]

Each record says all that its run was given, defaults included, so its id follows from the record alone. Also renames
the runs in the grids of the budgets, and says which options of the records no signature knows any more.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine.identity import completed, formerly, relocated, run_id, unknown_options
from reporting.arguments import run_command
from storage.errors import ReportError
from storage.files import write_text
from storage.records import Line, compact, read_store
from storage.run_store import RunFolder


def rename_records(reports: Path) -> dict[str, str]:
    """Old id -> new id of every record below a folder."""
    folders = sorted({file.parent for file in reports.glob("*/runs-*.jsonl.gz")})
    names: dict[str, str] = {}
    unknown: Counter[str] = Counter()
    for folder in folders:
        environments = {run.id: run.read_environment() for run in read_store(folder) if not isinstance(run, RunFolder)}

        def change(line: Line, environments: dict[str, Any] = environments) -> Line:
            config = completed(formerly(relocated(line["config"])))
            unknown.update(unknown_options(config))
            names[line["id"]] = run_id(config, environments[line["id"]].get("inputs"))
            return {**line, "id": names[line["id"]], "config": config}

        compact(folder, change)
    for file in sorted(reports.glob("*/grid.json")):
        write_text(file, _renamed(file.read_text(), names))
    for option, number in sorted(unknown.items()):
        print(f"{option}: in {number} records, and no option any more", file=sys.stderr)
    return names


def _renamed(text: str, names: dict[str, str]) -> str:
    return re.sub(r'"[^"\s]+-[0-9a-f]{10}"', lambda match: f'"{names.get(match[0][1:-1], match[0][1:-1])}"', text)


def main(words: Sequence[str]) -> None:
    if len(words) > 1:
        raise ReportError(f"{words[1]}: allowed: one folder")
    names = rename_records(Path(words[0] if words else "reports"))
    print(f"{len(names)} records, {sum(old != new for old, new in names.items())} with another id")


if __name__ == "__main__":
    run_command(main, __doc__, least=0)
