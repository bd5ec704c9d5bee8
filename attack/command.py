"""Command lines in processes forked from a warm one, which may be stopped; and what came of each."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from launching.jobs import WarmProcess, WarmStarter

ROOT = Path(__file__).resolve().parents[1]
RUN, PREPARE = str(ROOT / "run.py"), str(ROOT / "attack" / "prepare.py")  # all of a run, or what comes before training
LIMIT = 60  # seconds that a command on these tiny files may take
POLL = 0.02
INNARDS = re.compile(  # what Python and Hydra say of themselves, which tells a person nothing
    r"Error in call to target|full_key:|\b(Type|Key|Attribute|Index|Runtime)Error\b|object has no attribute|"
    r"positional argument|unexpected keyword argument|unsupported operand|object is not (callable|iterable)"
)
LONGEST = 4100  # characters of a refusal's line


@dataclass(frozen=True)
class Outcome:
    """How a command line ended: exit code, what it printed, seconds; a kill by the limit is `code` None."""

    code: int | None
    text: str
    seconds: float

    @property
    def kind(self) -> str:
        """One of `KINDS`."""
        if self.code is None:
            return "over 60 s"
        if "Traceback (most recent call last)" in self.text:
            return "traceback"
        if "a fault of Kontrast's own" in self.text:
            return "own fault"
        if self.code == 0:
            return "accepted"
        said = [line for line in self.text.splitlines() if line.startswith("error: ")]
        if self.code != 2 or not said or max(map(len, said)) > LONGEST or any(map(INNARDS.search, said)):
            return "unclear"
        return "refused"


KINDS = ("accepted", "refused", "unclear", "traceback", "own fault", "silent", "over 60 s", "executed")
GOOD = ("accepted", "refused")


class Shell:
    """Types command lines, one at a time; `close` ends the warm process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {
            **os.environ,
            **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
            "HF_HUB_OFFLINE": "1",
            "WANDB_MODE": "offline",
            "MPLBACKEND": "Agg",
            "TOKENIZERS_PARALLELISM": "false",
        }
        self.starter = WarmStarter(folder, self.environment)
        self.log = folder / "command.log"

    def close(self) -> None:
        self.starter.close()

    def start(self, words: Sequence[str], script: str = RUN) -> WarmProcess:
        return self.starter.start([script, *words], self.environment, self.log)

    def run(self, words: Sequence[str], script: str = RUN) -> Outcome:
        """Type a line and wait, at most `LIMIT` seconds."""
        started = time.monotonic()
        process = self.start(words, script)
        while (code := process.poll()) is None and time.monotonic() - started < LIMIT:
            time.sleep(POLL)
        if code is None:
            stop(process, signal.SIGKILL)
        return Outcome(code, self.log.read_text(errors="replace"), time.monotonic() - started)

    def run_until(self, words: Sequence[str], seconds: float, number: signal.Signals) -> Outcome:
        """Type a line and send it a signal after so many seconds, unless it has ended."""
        started = time.monotonic()
        process = self.start(words)
        while process.poll() is None and time.monotonic() - started < seconds:
            time.sleep(POLL / 4)
        if process.poll() is None:
            stop(process, number)
        return Outcome(process.poll(), self.log.read_text(errors="replace"), time.monotonic() - started)


def stop(process: WarmProcess, number: signal.Signals) -> None:
    """Send a signal and wait for the end; after `LIMIT` seconds SIGKILL."""
    started = time.monotonic()
    while process.poll() is None:
        try:
            os.kill(process.pid, number)
        except ProcessLookupError:
            pass
        while process.poll() is None and time.monotonic() - started < LIMIT:
            time.sleep(POLL)
        number = signal.SIGKILL
