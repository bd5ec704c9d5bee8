"""Turn what goes wrong in a command into one line and an exit code, and tell the launcher of a sweep."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from engine.hydra_errors import explain, first_unreadable, is_of_composing
from launching.interrupts import ignore_interrupts
from launching.jobs import RESULT_VARIABLE
from storage.errors import Stopped
from storage.files import NO_SPACE, write_text

FAULT, INPUT_ERROR, INTERRUPTED = 1, 2, 130
EXTRAS = {"faiss": "'.[cpu]', or '.[gpu]'", "optuna": "'.[sweep]'", "submitit": "'.[sweep]'"}  # module -> extra
LONGEST_WORD, SHOWN = 1000, 200  # characters of a word, and of one that is longer those that are printed
LONGEST_LINE = 4000  # characters of an error that are printed, whatever the input held


def exit_code(main: Callable[[], None]) -> int:
    """Run `main`; exit code 0, 2 for bad input (one line), 130 when interrupted, 1 for a fault of ours."""
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    from engine.processes import ProcessDied

    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra then raises instead of printing its own many lines
    argparse.ArgumentParser.error = _refuse_flag  # type: ignore[assignment,method-assign]
    try:
        _interrupts_uncovered(main)
        _flush()
    except (HydraException, OmegaConfBaseException) as error:
        return _fail(explain(error, sys.argv[1:]))
    except ValueError as error:
        return _fail(str(error))
    except OSError as error:
        is_stdout_broken = _close_broken_stdout() or error.errno in NO_SPACE  # `storage.files` names its own files
        if is_stdout_broken and error.filename is None:
            error.filename = "stdout"
        if isinstance(error, BrokenPipeError):
            return FAULT
        return _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except ProcessDied as error:
        return _fail(str(error), FAULT)
    except Stopped as stop:
        ignore_interrupts()
        print(stop, file=sys.stderr)
        report_job("failed", error=str(stop))
        return INTERRUPTED
    except KeyboardInterrupt:
        ignore_interrupts()
        return _fail("interrupted; type the same command again to go on", INTERRUPTED)
    except Exception as error:
        if is_of_composing(error):
            return _fail(f"{first_unreadable(sys.argv[1:])}: cannot be read; allowed: key=value, group=choice")
        if isinstance(error, ModuleNotFoundError) and (extra := EXTRAS.get(error.name or "")):
            return _fail(f"{error.name} is not installed, which this needs; pip install {extra}")
        traceback.print_exc()
        return _fail(f"a fault of Kontrast's own, please report it: {type(error).__name__}: {error}", FAULT)
    return 0


def _interrupts_uncovered(main: Callable[[], None]) -> None:
    """Run `main`; an error that came up while a library put things right after an interrupt is the interrupt, and so is
    the exit that a library made of it."""
    try:
        main()
    except (Exception, SystemExit) as error:
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, KeyboardInterrupt):
            cause = cause.__cause__ or cause.__context__
        if cause is not None:
            raise KeyboardInterrupt from error
        raise


def _refuse_flag(parser: argparse.ArgumentParser, message: str) -> None:
    raise ValueError(f"{message}; allowed: key=value, group=choice, -m for a sweep, --help")


def _flush() -> None:
    """Raises OSError where stdout cannot take what was printed, a full disk for instance."""
    if sys.stdout is not None:
        sys.stdout.flush()


def _close_broken_stdout() -> bool:
    """Let what stdout could not take go nowhere, else the interpreter tries it again when it ends; whether there was
    such a thing."""
    try:
        _flush()
        return False
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return True


def _fail(message: str, code: int = INPUT_ERROR) -> int:
    from reporting.escape import for_terminal

    for line in message.strip().splitlines() or ["unknown error"]:
        line = re.sub(rf"\S{{{LONGEST_WORD},}}", lambda word: f"{word[0][:SHOWN]}…", line)
        shown = line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]}…"
        print(f"error: {for_terminal(shown)}", file=sys.stderr)
    report_job("failed", error=message.strip())
    return code


def report_job(status: str, run: Path | None = None, error: str | None = None) -> None:
    """Tell the launcher of a sweep how its job ended, if one waits for it."""
    if target := os.environ.get(RESULT_VARIABLE):
        result = {"status": status, "run": str(run) if run else None, "error": error}
        write_text(target, json.dumps(result))
