"""Kontrast from Python: classifiers and clusterings with scikit-learn's conventions, over the same run store.

The rooms (losses, engine, tasks …) stand beside this package in a checkout, and inside it, in `_rooms`, once installed:
an installed Kontrast then claims no name but its own until it is imported.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kontrast.answer import Answer, auto
    from kontrast.estimators import TextClassifier, TextClusterer, load

_HERE = Path(__file__).resolve().parent
ROOMS = _HERE / "_rooms" if (_HERE / "_rooms").is_dir() else _HERE.parent
_NO_ROOMS = ("benchmarks", "kontrast", "tests")  # beside them in a checkout: nothing here imports these
_PLACES = {
    **dict.fromkeys(["TextClassifier", "TextClusterer", "load"], "kontrast.estimators"),
    **dict.fromkeys(["Answer", "auto"], "kontrast.answer"),
}

__all__ = ["Answer", "TextClassifier", "TextClusterer", "auto", "load"]


def _open_rooms() -> None:
    """Make the rooms importable. Raises ImportError where a package of another project has the name of one."""
    rooms = {file.parent.name for file in ROOMS.glob("*/__init__.py")} - set(_NO_ROOMS)
    for name in sorted(rooms & sys.modules.keys()):
        for place in _places(sys.modules[name]):
            if not Path(place).resolve().is_relative_to(ROOMS):
                raise ImportError(f"kontrast: a module {name!r} of another project is loaded ({place}); allowed: none")
    if str(ROOMS) not in sys.path:
        sys.path.insert(0, str(ROOMS))


def _places(module: ModuleType) -> list[str]:
    """The file of a module; of a folder without `__init__.py`, which has none, all that it joins."""
    file = getattr(module, "__file__", None)
    return [file] if file else list(getattr(module, "__path__", ()))


_open_rooms()


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return importlib.import_module("engine.help").version()
    if name not in _PLACES:
        raise AttributeError(f"module 'kontrast' has no attribute {name!r}")
    return getattr(importlib.import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__, "__version__"])
