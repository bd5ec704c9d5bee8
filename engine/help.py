"""`run.py --help`, one screen; `--help NAME` on a group or a task (or `task=NAME`); `--help key=value` with the
whole config.

Hydra would list the groups by composing once for each, and would import the classes, and PyTorch with them. Here what a
choice is comes from the comment of its file, or is read from the source of the class that it names.
"""

from __future__ import annotations

import ast
import re
import shutil
import textwrap
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

import yaml

from engine.allowed_targets import CONF
from storage.errors import InputError, short, short_list
from storage.run_store import COMMAND

WIDEST = 120


def version() -> str:
    """Of Kontrast: as the checkout says, or as installed."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed

    project = CONF.parent / "pyproject.toml"
    if project.is_file():
        return tomllib.loads(project.read_text())["project"]["version"]
    try:
        return installed("kontrast")
    except PackageNotFoundError:
        return "unknown"


def show_help(words: Sequence[str]) -> None:
    """Print the help that the words ask for.

    Raises:
        InputError: a word that is no task, no group and no override.
    """
    words = [word for word in words if not word.startswith("-")]
    if words and all(word.startswith("task=") for word in words):
        print("\n".join(_about_task(word.removeprefix("task=")) for word in words).replace("python run.py", COMMAND))
        return
    names = [word for word in words if "=" not in word and not word.startswith(("~", "+"))]
    if words and not names:
        text = composed(words)
    elif names:
        text = "\n".join(map(_about, names))
    else:
        text = yaml.safe_load((CONF / "hydra" / "default.yaml").read_text("utf-8"))["help"]["template"].rstrip()
    print(text.replace("python run.py", COMMAND), flush=True)


def composed(words: Sequence[str]) -> str:
    """The config of a command line."""
    from omegaconf import OmegaConf

    from engine.identify import compose_config

    text = OmegaConf.to_yaml(compose_config(words), resolve=True)
    return f"Config as this command line composes it; any line can be set by key=value\n\n{text}"


def _about(name: str) -> str:
    groups, tasks = dict(config_groups(CONF)), task_names()
    if name in groups:
        lines = [(choice, meaning(CONF / name / f"{choice}.yaml")) for choice in groups[name]]
        return _table(f"{name}=NAME, one of", lines)
    if name in tasks:
        return _about_task(name)
    raise InputError(
        f"--help {short(name)}: allowed: a task ({short_list(tasks, 20)}), or a group ({', '.join(groups)})"
    )


def _about_task(name: str) -> str:
    if name not in (tasks := task_names()):
        raise InputError(f"--help task={short(name)}: allowed: {short_list(tasks, 20)}")
    keys = list(task_keys(name))
    return _table(f"task={name}, its keys" if keys else f"task={name}: {_what(name)}", keys)


def _table(title: str, lines: Sequence[tuple[str, str]]) -> str:
    width = min(max((len(name) for name, _ in lines), default=0), 40) + 4
    columns = min(shutil.get_terminal_size((100, 24)).columns, WIDEST)
    wrapped = [
        textwrap.fill(f"  {name:{width - 2}}{what}".rstrip(), columns, subsequent_indent=" " * width)
        for name, what in lines
    ]
    return "\n".join([title, *wrapped])


def meaning(file: Path) -> str:
    """What a choice is, in a line: the comment at the head of its file, or the docstring of what it names."""
    text = file.read_text("utf-8")
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        if "@package" not in line:
            return line.lstrip("# ").rstrip()
    target = re.search(r"^\s*_target_:\s*([\w.]+)", text, re.MULTILINE)
    return _docstring(target[1]) if target else ""


def _docstring(target: str) -> str:
    """First line of the docstring of a module, class or function of ours, which is not imported."""
    place = CONF.parent / target.replace(".", "/")
    if place.with_suffix(".py").is_file():
        return _first_line(ast.parse(place.with_suffix(".py").read_text("utf-8")))
    files = (
        [place.parent.with_suffix(".py")] if place.parent.with_suffix(".py").is_file() else place.parent.glob("*.py")
    )
    for file in files:
        for node in ast.parse(file.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == place.name:
                return _first_line(node)
    return target


def _first_line(node: ast.Module | ast.ClassDef | ast.FunctionDef) -> str:
    return (ast.get_docstring(node) or "").partition("\n")[0]


def task_names() -> list[str]:
    """As the comment beside `task` in conf/config.yaml lists them."""
    line = next(line for line in _top_lines() if line.startswith("task:"))
    return re.findall(r"\w+", line.partition("#")[2])


def task_keys(task: str) -> Iterator[tuple[str, str]]:
    """Keys of a task with their defaults, those of the node of its name too, and what the comment beside each says."""
    groups = re.findall(r"^  - (\w+): \w+( #.*)", _top(), re.MULTILINE)
    lines = [*_top_lines(), *(f"{group}: NAME{comment}" for group, comment in groups)]
    lines = [line for line in lines if re.search(rf"#.*\b{task}\b[\w, ]*:", line)]
    if node := re.search(rf"^{task}: .*\n((?:  .*\n?)+)", _top(), re.MULTILINE):
        lines += [f"{task}.{line.strip()}" for line in node[1].splitlines()]
    for line in lines:
        key, _, comment = line.partition("#")
        yield key.strip().replace(": ", "=", 1), _about_one(task, comment.strip())


def _about_one(task: str, comment: str) -> str:
    """What a comment such as `predict, drift: …; evaluate, auto: …` says of a task; all of it where it names none."""
    names = "|".join(task_names())
    _, *clauses = re.split(rf"(?:^|; )((?:(?:{names})(?:, )?)+): ", comment)
    by_tasks = dict(zip(clauses[::2], clauses[1::2], strict=True))
    return next((what for tasks, what in by_tasks.items() if task in tasks.split(", ")), comment)


def _what(task: str) -> str:
    """What a task does, in a line: the docstring of its function, or of the module that brings it in from elsewhere."""
    targets = f"tasks.{task}.{task}", f"tasks.{task}"
    return next(line for target in targets if (line := _docstring(target)) != target)


def _top() -> str:
    return (CONF / "config.yaml").read_text("utf-8")


def _top_lines() -> list[str]:
    return [line for line in _top().splitlines() if re.match(r"\w+: .*#", line)]


def config_groups(conf: Path) -> Iterator[tuple[str, list[str]]]:
    """Each group below `conf` with its choices, by name, without Hydra's own."""
    folders = (folder for folder in conf.rglob("*") if folder.is_dir())
    names = sorted(folder.relative_to(conf).as_posix() for folder in folders)
    for name in names:
        choices = sorted(file.stem for file in (conf / name).glob("*.yaml"))
        if choices and name.partition("/")[0] != "hydra":
            yield name, choices
