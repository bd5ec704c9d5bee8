"""The central comparison on a GPU in one go: GPU tests, tuning on equal terms, then fresh seeds, as much as fits.

    make gpu-campaign [DRY_RUN=1] [ARGS="minutes=40 jobs=4 …"]
    python -m papers.campaign [dry_run=1] [minutes=40] [jobs=4] [budget=evidence|all_labels] [column=NAME,…]
                             [row=NAME,…] [runs=DIR] [records=DIR] [searches=DIR] [trainer=gpu|cpu] [paths.data=… …]

Cells, rows and seeds are those of BUDGET=evidence on SharpReCL's Table 2, main rows first, or of BUDGET=all_labels on
the table of that name. Each cell is searched (`search=halving`, on seeds 100 to 102), then what won is run on the
budget's seeds. Stopped, or out of time, the same line goes on. GPU tests that this machine or environment would skip
are named with the reason, first and last; without a GPU nothing is run, but with `trainer=cpu`, which tunes and runs on
the CPU. The record of each search is kept in reports/searches, from where the budget has the same runs.
`column=ohsumed,trec_50` asks for these data sets alone, `row=ce,sharprecl` for these methods.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from engine.identify import compose_run
from engine.overrides import SHARED_WORDS
from launching.sweep import NOT_STARTED, run_jobs
from papers.grid import Cell, cells, load_budget, load_grid
from papers.paper_report import read_stores
from papers.searches import Record, keep_search, read_searches, search_of, settings_of
from reporting.arguments import flag, run_command
from reporting.tables import SweepJob
from storage.command_words import shell_line
from storage.errors import ReportError
from storage.records import add_records
from storage.run_store import list_runs

ROOT = Path(__file__).resolve().parents[1]
TABLES = {"evidence": "sharprecl_2", "all_labels": "all_labels"}  # by budget
TRAINERS = ("gpu", "cpu")
GPU_TESTS = ("tests/test_gpu.py", "tests/tasks/test_images.py::test_cifar_from_the_archive_to_figures")
SHARE_OF_TUNING = 0.5  # of the time that is left after the tests


@dataclass(frozen=True)
class Options:
    """The command line."""

    minutes: float = 40.0
    jobs: int = 4
    budget: str = "evidence"
    column: tuple[str, ...] = ()
    row: tuple[str, ...] = ()
    runs: Path = Path("runs")
    records: Path = Path("reports/records")
    searches: Path = Path("reports/searches")
    dry_run: bool = False
    trainer: str = "gpu"
    passed_on: tuple[str, ...] = ()


def parse(words: Sequence[str]) -> Options:
    """Raises ReportError: a word that is unknown or malformed."""
    passed = tuple(word for word in words if word.startswith("paths."))
    if bare := [word for word in words if "=" not in word]:
        raise ReportError(f"{bare[0]}: found a word without a value; allowed: KEY=VALUE, as dry_run=1")
    values = dict(word.partition("=")[::2] for word in words if word not in passed)
    kinds: dict[str, Callable[[str], Any]] = {"minutes": float, "jobs": int}
    kinds |= {"runs": Path, "records": Path, "searches": Path, "dry_run": partial(flag, "dry_run"), "trainer": str}
    kinds |= {"budget": str, "column": _names, "row": _names}
    if unknown := [key for key in values if key not in kinds]:
        raise ReportError(f"{unknown[0]}: unknown; allowed: {', '.join(kinds)}, paths.…")
    if (trainer := values.get("trainer", "gpu")) not in TRAINERS:
        raise ReportError(f"trainer: found {trainer}, allowed: {', '.join(TRAINERS)}")
    if (budget := values.get("budget") or "evidence") not in TABLES:
        raise ReportError(f"budget: found {budget}, allowed: {', '.join(TABLES)}")
    try:
        options = Options(**{key: kinds[key](value) for key, value in values.items() if value}, passed_on=passed)
        if not (options.jobs > 0 and options.minutes > 0):
            raise ValueError("found a number that is not above 0")
        return options
    except ReportError:
        raise
    except ValueError as error:
        raise ReportError(f"{' '.join(words)}: {error}; allowed: minutes and jobs as numbers above 0") from error


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


def planned(options: Options) -> list[Cell]:
    """The cells, of some columns and rows or of all, those of the main rows first.

    Raises ReportError: no cell is in such a column or row.
    """
    grid, budget = load_grid(TABLES[options.budget]), load_budget(options.budget)
    chosen = [cell for cell in cells(grid, budget) if cell.skipped is None]
    for axis, names in (("column", options.column), ("row", options.row)):
        known = {getattr(cell, axis) for cell in chosen}
        if unknown := [name for name in names if name not in known]:
            raise ReportError(f"{axis}: found {unknown[0]}, allowed: {', '.join(sorted(known))}")
        chosen = [cell for cell in chosen if getattr(cell, axis) in (names or known)]
    return sorted(chosen, key=lambda cell: cell.priority)


def tuning_line(cell: Cell) -> tuple[str, ...]:
    """What searches for the settings of a cell."""
    return (*cell.overrides, "search=halving")


def tuning_lines(options: Options) -> list[tuple[str, ...]]:
    """What is left to search; fewer searches than jobs have several runs at a time each."""
    lines = [tuning_line(cell) for cell in planned(options) if tuned(cell, options) is None]
    return [(*line, f"search.n_jobs={max(1, options.jobs // len(lines))}") for line in lines]


def finished_searches(options: Options) -> list[Record]:
    """The kept ones, and those that are through in the run store."""
    files = sorted((options.runs / "searches").glob("halving-*/search.json"))
    return [*read_searches(options.searches), *(json.loads(file.read_text(encoding="utf-8")) for file in files)]


def tuned(cell: Cell, options: Options) -> tuple[str, ...] | None:
    """The settings that won for a cell, as overrides; None before its search is through."""
    record = search_of(cell, finished_searches(options))
    return None if record is None else settings_of(record)


def keep_searches(options: Options) -> None:
    """Keep the record of every search that is through, but of code that no commit holds."""
    records = finished_searches(options)
    for cell in planned(options):
        if (record := search_of(cell, records)) is None:
            continue
        if record.get("changed"):
            print(f"search not kept, of code that no commit holds: {record['line']}", file=sys.stderr)
        else:
            keep_search(cell, record, options.searches)


def evaluation_lines(options: Options) -> list[tuple[str, ...]]:
    """The runs of every cell whose search is through, the first seed of all before the second."""
    lines = []
    for cell in planned(options):
        if (settings := tuned(cell, options)) is not None:
            lines += [(seed, (*cell.overrides, *settings, f"seed={seed}")) for seed in cell.seeds]
    return [line for _, line in sorted(lines, key=lambda entry: entry[0])]


def missing(lines: Sequence[tuple[str, ...]], options: Options) -> list[tuple[str, ...]]:
    """Those that neither the run store nor the records hold finished."""
    done = read_stores([options.records, options.runs]) if options.records.is_dir() else read_stores([options.runs])
    return [line for line in lines if compose_run(line).id(_seed(line)) not in done]


def _seed(line: Sequence[str]) -> int:
    return int(line[-1].partition("=")[2])


@dataclass(frozen=True)
class GpuParts:
    """What this machine and environment have of what the GPU tests need."""

    gpu: bool
    nccl: bool
    bf16: bool
    bitsandbytes: bool
    faiss: bool

    @classmethod
    def here(cls) -> GpuParts:
        import faiss
        import torch

        gpu = torch.cuda.is_available()
        return cls(
            gpu,
            nccl=gpu and torch.distributed.is_nccl_available(),
            bf16=gpu and torch.cuda.is_bf16_supported(),
            bitsandbytes=importlib.util.find_spec("bitsandbytes") is not None,
            faiss=hasattr(faiss, "get_num_gpus") and faiss.get_num_gpus() > 0,
        )

    def skipped(self) -> list[str]:
        """The parts that are not tested here, each with the reason."""
        if not self.gpu:
            return ["every GPU test: torch finds no NVIDIA GPU"]
        reasons = {
            "NCCL with one process": not self.nccl and "this torch has no NCCL",
            "bf16": not self.bf16 and "this GPU does not compute in bf16",
            "LoRA in 4 bits": not self.bitsandbytes and "the package bitsandbytes is missing",
            "faiss on the GPU": not self.faiss and "this faiss sees no GPU",
        }
        return [f"{part}: {reason}" for part, reason in reasons.items() if reason]


def say_skipped(parts: GpuParts) -> None:
    """A line a part that is not tested; one where all are."""
    for line in parts.skipped() or ["nothing"]:
        print(f"skipped of the GPU tests: {line}", flush=True)


def show(options: Options, parts: GpuParts) -> None:
    """What would be done, in order."""
    print("1. tests: NCCL with one process, bf16, LoRA in 4 bits, faiss on the GPU, images laid out as CIFAR-100")
    say_skipped(parts)
    chosen = planned(options)
    for cell in chosen:
        state = "tuned already" if tuned(cell, options) is not None else "tunes"
        print(f"2. {state}: python run.py {shell_line(tuning_line(cell))}")
    runs = sum(len(cell.seeds) for cell in chosen)
    print(f"3. {runs} runs with what won, {len(chosen[0].seeds)} seeds a cell")
    print(f"records in {options.records}, searches in {options.searches}")
    print(f"{options.jobs} at a time, {options.minutes:g} minutes in all; the same line goes on")


def main(words: Sequence[str]) -> int:
    options = parse(words)
    parts = GpuParts.here()
    if options.dry_run:
        show(options, parts)
        return 0
    on_gpu = options.trainer == "gpu"
    if on_gpu and not parts.gpu:
        raise ReportError("trainer=gpu: torch finds no NVIDIA GPU here; allowed: dry_run=1, or trainer=cpu")
    started = time.monotonic()
    say_skipped(parts)
    tests = [sys.executable, "-m", "pytest", "-q", "-rs", "-n0", "-m", "", *GPU_TESTS]  # slow ones too
    if on_gpu and (code := subprocess.call(tests, cwd=ROOT)):
        return code
    os.environ[SHARED_WORDS] = "1"
    arguments = ["logger=csv", "rival=null", *options.passed_on, f"paths.runs={options.runs.absolute()}"]
    arguments += ["trainer=gpu"] if on_gpu else []

    def left() -> float:
        return 60 * options.minutes - (time.monotonic() - started)

    tuning = _run(arguments, tuning_lines(options), options, "tuning", SHARE_OF_TUNING * left())
    keep_searches(options)
    if _were_stopped(tuning):
        return _end(tuning, parts)
    lines = evaluation_lines(options)
    keep_records(lines, options)  # those of a start that was killed
    outcomes = _run(arguments, missing(lines, options), options, "evaluation", left())
    keep_records(lines, options)
    return _end([*tuning, *outcomes], parts)


def keep_records(lines: Sequence[tuple[str, ...]], options: Options) -> None:
    """Add to the records what the run store holds finished of these runs."""
    wanted = {compose_run(line).id(_seed(line)) for line in lines}
    added, refused = add_records([run for run in list_runs(options.runs) if run.id in wanted], options.records)
    print(f"{len(added)} records added to {options.records}, {len(refused)} refused (uncommitted code)", flush=True)


def _were_stopped(outcomes: Sequence[SweepJob]) -> bool:
    return any(outcome.status == "interrupted" for outcome in outcomes)


def _end(outcomes: Sequence[SweepJob], parts: GpuParts) -> int:
    """Name what failed; the exit status."""
    failed = [outcome for outcome in outcomes if outcome.status not in ("finished", NOT_STARTED)]
    for outcome in failed:
        print(f"{outcome.status}: {outcome.overrides} ({outcome.error})", file=sys.stderr)
    say_skipped(parts)
    return 1 if failed else 0


def _run(
    arguments: Sequence[str], lines: Sequence[Sequence[str]], options: Options, name: str, seconds: float
) -> list[SweepJob]:
    if not lines:
        return []
    folder = options.runs / "sweeps" / f"campaign-{name}"
    script = str(ROOT / "run.py")
    return run_jobs(arguments, lines, folder, options.jobs, script=script, stop_after=seconds, warm=True)


if __name__ == "__main__":
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    run_command(main, __doc__, least=0)
