"""Kontrast from Python: classifiers and clusterings with scikit-learn's conventions, over the same run store.

The rooms (losses, engine, tasks …) stand beside this package in a checkout, and inside it, in `_rooms`, once installed:
an installed Kontrast then claims no name but its own until it is imported.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable
from pathlib import Path
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
    """Make the rooms importable, behind all else. Raises ImportError where another project's module of the name of one
    is loaded."""
    _refuse_others(_rooms() & sys.modules.keys())
    if str(ROOMS) not in sys.path:
        sys.path.append(str(ROOMS))


def _rooms() -> set[str]:
    return {file.parent.name for file in ROOMS.glob("*/__init__.py")} - set(_NO_ROOMS)


def _refuse_others(names: Iterable[str]) -> None:
    """Raises ImportError where one of these rooms is, or would be, a module of another project. There can be one of a
    name in a process; were it ours, the script's own `import tasks` would get another module, and nobody would know."""
    for name in sorted(names):
        for place in _places(name):
            if not Path(place).resolve().is_relative_to(ROOMS):
                how = "is loaded" if name in sys.modules else "comes first on the path"
                raise ImportError(
                    f"kontrast: a module {name!r} of another project {how} ({place}); allowed: none of a name that "
                    f"Kontrast has, as in another folder, or the command `kontrast`, which runs beside it"
                )


def _places(name: str) -> Iterable[str]:
    """The file of a module; of a folder without `__init__.py`, which has none, all that it joins."""
    if (module := sys.modules.get(name)) is not None:
        file, folders = getattr(module, "__file__", None), getattr(module, "__path__", None)
    else:
        spec = importlib.util.find_spec(name)
        file, folders = spec and spec.origin, spec and spec.submodule_search_locations
    return [file] if file else folders or ()


_open_rooms()


def __getattr__(name: str) -> Any:
    if name not in (*_PLACES, "__version__"):
        raise AttributeError(f"module 'kontrast' has no attribute {name!r}")
    _refuse_others(_rooms())
    if name == "__version__":
        return importlib.import_module("engine.help").version()
    return getattr(importlib.import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__, "__version__"])
