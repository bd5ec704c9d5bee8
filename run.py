"""Kontrast's command line: compose a config, validate it, do one task.

python run.py method=sharprecl dataset=ohsumed
python run.py -m method=sharprecl loss.tau=0.3,0.5 method.mu=0.5,1 imbalance.ir=10,20
python run.py task=predict run=ID input=new.csv output=pred.csv
"""

import atexit
import gc
import os
import signal
import sys
import time

STARTED = time.monotonic()
atexit.register(gc.freeze)  # or Python looks for garbage in all that was imported, some seconds, before it ends

# Until there is something to put away, Ctrl-C ends the process at once: no library's import is unwound.
INTERRUPTED = "error: interrupted; type the same command again to go on\n"
for number in (signal.SIGINT, signal.SIGTERM):
    if signal.getsignal(number) is not signal.SIG_IGN:  # as in what a shell starts in the background
        signal.signal(number, lambda *_: (os.write(2, INTERRUPTED.encode()), os._exit(130)))

import hydra  # noqa: E402
from omegaconf import DictConfig  # noqa: E402

# Before torch is loaded: threads that spin for long while they wait make it crawl beside any other busy process, and
# threads that sleep at once need twice the time where there is none.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("GOMP_SPINCOUNT", "10000")
os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # no advice on how to distribute

@hydra.main(version_base="1.3", config_path="conf", config_name="config")
def main(config: DictConfig) -> None:
    from hydra.core.hydra_config import HydraConfig

    from engine.exit_code import exit_code

    def run() -> None:
        from tasks.dispatch import run_task

        run_task(config, list(HydraConfig.get().overrides.task))

    if code := exit_code(run):
        sys.exit(code)  # inside the job: Hydra adds its own lines to an exception, not to an exit


if __name__ == "__main__":
    from engine.command_line import counted_from
    from engine.exit_code import exit_code
    from engine.overrides import (
        check_pair,
        check_sweep,
        is_multirun,
        known_mode,
        with_brackets,
        with_keys_of_each_job,
        with_literal_texts,
        without_null_groups,
    )

    sys.argv[1:] = without_null_groups(sys.argv[1:])
    if {"--version", "-V"} & set(sys.argv[1:]):
        from engine.help import version

        sys.exit(print("kontrast", version()))
    if {"--help", "-h"} & set(sys.argv[1:]):
        from engine.help import show_help

        sys.exit(exit_code(lambda: show_help(sys.argv[1:])))

    def checked() -> None:
        check_pair(sys.argv[1:])
        check_sweep(sys.argv[1:])
        sys.argv[1:] = with_literal_texts(with_brackets(sys.argv[1:]))
        if is_multirun(sys.argv[1:]):
            sys.argv[1:] = with_keys_of_each_job(sys.argv[1:])
        with known_mode(sys.argv[1:]), counted_from(STARTED):
            main()

    sys.exit(exit_code(checked))
