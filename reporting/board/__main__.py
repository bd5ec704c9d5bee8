"""Write the page of a run store.

python -m reporting.board RUNS [DATA]     DATA: the folder of prepared data sets, for the texts; by default data
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from reporting.arguments import run_command
from reporting.board.build import write_board


def main(words: Sequence[str]) -> int:
    store, data = (*words, "data")[:2]
    print(write_board(Path(store), Path(data)))
    return 0


if __name__ == "__main__":
    run_command(main, __doc__, least=1)
