"""Command lines of run.py: inside this process, or in processes of their own that may be killed."""

import csv
import io
import json
import os
import runpy
import signal
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import torch

import tasks.fit
from storage.run_store import may_differ

RUN_PY = Path(__file__).resolve().parents[1] / "run.py"


@dataclass
class Result:
    """What a command line gave."""

    code: int
    out: str
    err: str

    @property
    def folder(self) -> Path:
        """The last line on stdout; the command must have succeeded."""
        assert self.code == 0, self.err
        return Path(self.out.splitlines()[-1])

    @property
    def metrics(self) -> dict:
        return json.loads((self.folder / "metrics.json").read_text())

    @property
    def error(self) -> str:
        """The one line of a refusal."""
        assert self.code not in (0, 1), self.err or "the command did not fail"
        # before it, what was being done, where stdout is for the predictions
        (line,) = (line for line in self.err.strip().splitlines() if not line.endswith(": loading PyTorch"))
        assert line.startswith("error: ")
        return line.removeprefix("error: ")


def command(arguments: list[str], stdin: str = "") -> Result:
    """`python run.py ARGUMENTS` inside this process."""
    out, err, before = io.StringIO(), io.StringIO(), (sys.argv, sys.stdin, dict(os.environ))
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    hook = sys.unraisablehook
    sys.argv, sys.stdin = [str(RUN_PY), *arguments], io.TextIOWrapper(io.BytesIO(stdin.encode()))
    tasks.fit._SAID.clear()  # warnings are said once a process, and this stands for a new one
    try:
        with redirect_stdout(out), redirect_stderr(err):
            runpy.run_path(str(RUN_PY), run_name="__main__")
        code = 0
    except SystemExit as exit_:
        code = int(exit_.code or 0)
    finally:
        sys.argv, sys.stdin = before[:2]
        os.environ.clear()
        os.environ.update(before[2])
        for number, handler in handlers.items():
            signal.signal(number, handler)
        sys.unraisablehook = hook
    return Result(code, out.getvalue(), err.getvalue())


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))



def outcome(run: Path) -> tuple[dict, str, str]:
    """All of a run that must not depend on when and how often it was started."""
    metrics = json.loads((run / "metrics.json").read_text())
    kept = {key: value for key, value in metrics.items() if not may_differ(key)}
    return kept, (run / "predictions.csv").read_text(), (run / "history.csv").read_text()


def best_weights(run: Path) -> dict[str, torch.Tensor]:
    return torch.load(run / "checkpoints" / "best.ckpt", weights_only=True)["state_dict"]


def same_weights(first: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return first.keys() == other.keys() and all(torch.equal(first[name], other[name]) for name in first)
