"""`run.py` up to the first step of training: the config is checked, the data prepared, the module built."""

import os
import runpy
import sys

import tasks.fit
from attack.command import RUN


def _stop(*_: object, **__: object) -> None:
    sys.stdout.flush()
    os._exit(0)


vars(tasks.fit).update(_train_by_epochs=_stop, _solve=_stop)
if any(word.startswith("search=") for word in sys.argv):
    import tasks.search
    import tasks.search.halving

    vars(tasks.search).update(open_study=_stop)
    vars(tasks.search.halving).update(run_jobs=_stop)
sys.argv[0] = RUN
runpy.run_path(RUN, run_name="__main__")
