"""Turn what goes wrong at the command line into one line and an exit code."""

from __future__ import annotations

import argparse
import gc
import json
import os
import re
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from engine.allowed_targets import CONF
from engine.world import is_first_process
from launching.interrupts import ignore_interrupts
from launching.jobs import RESULT_VARIABLE
from storage.command_words import in_shell_quotes, quoted
from storage.errors import Stopped, nearest
from storage.files import NO_SPACE, is_stdout, write_text

SHARED_WORDS = "KONTRAST_SHARED_WORDS"  # set where words are said to several methods: idle ones are then allowed
FAULT, INPUT_ERROR, INTERRUPTED = 1, 2, 130
# groups that a config names whether or not there is such a file
OPTIONAL = ("all_methods", "method_dataset", "method_protocol", "method_active")
OF_THE_SWEEP = ("hydra", "paths")  # groups that say how and where it runs, before there is a job
OF_TEXT = (
    *("input", "output", "unlabelled", "test", "class_descriptions", "add", "run", "text_column", "label_column"),
    *(f"dataset.{key}" for key in ("train", "val", "test", "unlabelled", "class_descriptions", "name")),
    *("dataset.text_column", "dataset.label_column", "active.answers_from", "active.answers", "sheet", "dataset.sheet"),
    *("paths.runs", "paths.data", "paths.cache", "paths.source_mirror", "encoder.path"),
)  # keys of names that people gave their files, sheets and columns
OF_LIST = ("methods",)  # keys of lists whose brackets may be left out
EXTRAS = {"faiss": "'.[cpu]', or '.[gpu]'", "optuna": "'.[sweep]'", "submitit": "'.[sweep]'"}  # module -> extra
LONGEST_WORD, SHOWN = 1000, 200  # characters of a word, and of one that is longer those that are printed
LONGEST_LINE = 4000  # characters of an error that are printed, whatever the input held

_starts: list[float] = []  # when the command of this process was typed, until its first job asks


@contextmanager
def counted_from(start: float) -> Iterator[None]:
    """The command was typed at this time of `time.monotonic`."""
    _starts.append(start)
    try:
        yield
    finally:
        _starts.clear()


def seconds_so_far() -> float:
    """Since the command was typed; 0 for the later jobs of a process, and in one that is no command."""
    return time.monotonic() - _starts.pop() if _starts else 0.0


@contextmanager
def importing() -> Iterator[None]:
    """What is imported stays, and looking for garbage in it took a quarter of a prediction."""
    is_new = "torch" not in sys.modules  # a later job of this process may have left garbage
    gc.disable()
    try:
        yield
    finally:
        if is_new:
            gc.freeze()
        gc.enable()


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
        if _is_of_composing(error):
            return _fail(f"{_first_unreadable()}: cannot be read; allowed: key=value, group=choice")
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


def announce(config: Mapping[str, Any]) -> None:
    """Say what is about to be done, before the libraries are loaded, which takes seconds."""
    if not is_first_process() or config.get("task") in ("auto", "runs", "board"):  # which say it themselves
        return
    names = [str(config.get("task")), *([f"run {config['run']}"] if config.get("run") else _group_names(config))]
    output = config.get("output")
    to_stderr = isinstance(output, str) and is_stdout(output)  # stdout then holds the predictions alone
    print(f"{' · '.join(names)}: loading PyTorch", flush=True, file=sys.stderr if to_stderr else sys.stdout)


def _group_names(config: Mapping[str, Any]) -> Iterator[str]:
    for group in ("method", "active", "dataset", "encoder", "head"):
        node = config.get(group)
        if isinstance(node, Mapping) and node.get("name"):
            yield str(node["name"])
    yield f"seed {config.get('seed')}"


def without_null_groups(arguments: list[str]) -> list[str]:
    """`GROUP=null`, which Hydra refuses, as the `~GROUP` that it takes for the same."""
    groups = [argument.removesuffix("=null") for argument in arguments]
    pairs = zip(arguments, groups, strict=True)
    return [f"~{group}" if group != argument and (CONF / group).is_dir() else argument for argument, group in pairs]


def with_keys_of_each_job(arguments: list[str]) -> list[str]:
    """In a sweep over a group, `GROUP.key=value` as `GROUP.key=choice(value)`, a sweep over one value.

    Hydra sets what is not swept in the default choices first, which need not have the key. Not of `OF_THE_SWEEP`.
    """
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    def is_sweep(word: str) -> bool:
        try:
            return OverridesParser.create().parse_override(word).is_sweep_override()
        except HydraException:  # an option, or what Hydra refuses in its own words
            return False

    def is_group(name: str) -> bool:
        return name not in ("", *OF_THE_SWEEP) and (CONF / name).is_dir()

    if not any(is_group(argument.partition("=")[0]) and is_sweep(argument) for argument in arguments):
        return arguments
    words = []
    for argument in arguments:
        key, _, value = argument.partition("=")
        alone = f"{key}=choice({value})"
        of_group = "." in key and is_group(key.partition(".")[0])
        words.append(alone if of_group and not is_sweep(argument) and is_sweep(alone) else argument)
    return words


def is_multirun(arguments: Sequence[str]) -> bool:
    """Whether a command line sweeps: by -m, or by a file of `conf/sweep`."""
    return bool({"-m", "--multirun"} & set(arguments)) or any(word.startswith("sweep=") for word in arguments)


def known_mode(arguments: Sequence[str]) -> AbstractContextManager:
    """Within it, Hydra does not compose a config once more only to read `hydra.mode`, where the words say what that is:
    half of what a command takes before its task begins."""
    from unittest.mock import patch

    from hydra._internal.hydra import Hydra

    # a file of one's own may sweep too, an experiment or one of a folder that an option names
    if any(re.match(r"-|[+~]*(sweep|experiment|hydra)\b", word) for word in arguments):
        return nullcontext()
    return patch.object(Hydra, "get_mode", return_value=None)


def with_literal_texts(arguments: list[str]) -> list[str]:
    """Names of files and columns that Hydra's grammar does not read as texts in its quotes: `données.csv`, which it
    cannot read, `0`, `true` or `[x]`, ` text`, of which it drops the space, and but in a sweep `Smith, John.csv`, which
    it takes for two values.

    Texts, a name in quotes for instance, and null stay as they are.
    """
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    sweeps = is_multirun(arguments)

    def is_literal(word: str) -> bool:
        try:
            override = OverridesParser.create().parse_override(word)
        except HydraException:
            return False
        if override.is_sweep_override():
            return sweeps
        value = word.partition("=")[2]
        is_whole = value == value.strip() or value[0] in "'\""
        return override.value() is None or (isinstance(override.value(), str) and is_whole)

    pairs = [argument.partition("=") for argument in arguments]
    return [
        f"{key}={quoted(value)}" if key in OF_TEXT and value and not is_literal(argument) else argument
        for argument, (key, _, value) in zip(arguments, pairs, strict=True)
    ]


def with_brackets(arguments: list[str]) -> list[str]:
    """`methods=logistic,ce` as `methods=[logistic,ce]`; not in a sweep, where a comma stands between jobs."""
    if is_multirun(arguments):
        return arguments
    bare = re.compile(rf"({'|'.join(OF_LIST)})=(?!\[|null\Z)([\w, -]+)")
    return [f"{match[1]}=[{match[2]}]" if (match := bare.fullmatch(word)) else word for word in arguments]


def check_pair(arguments: list[str]) -> None:
    """Refuse a choice of `OPTIONAL` that does not exist, which Hydra would pass over.

    Raises:
        ValueError: a choice that is no file of its group.
    """
    for group in OPTIONAL:
        names = sorted(file.stem for file in (CONF / group).glob("*.yaml"))
        for words in (argument.removeprefix(f"{group}=") for argument in arguments if argument.startswith(f"{group}=")):
            for name in (word.strip() for word in words.split(",")):
                if name not in names:
                    allowed = f"{', '.join(names)}{nearest(name, names)}"
                    raise ValueError(f"{group}={name}: unknown choice; allowed: {allowed}")


def check_sweep(arguments: list[str]) -> None:
    """Refuse a sweep in a process that was started with others for one run.

    Raises:
        ValueError: -m under torchrun, srun with several tasks, or Ray Train.
    """
    processes = int(os.environ.get("WORLD_SIZE") or os.environ.get("SLURM_STEP_NUM_TASKS") or 1)
    if {"-m", "--multirun"} & set(arguments) and processes > 1:
        raise ValueError(
            f"-m: found {processes} processes that were started for one run; a sweep starts those of its jobs itself; "
            f"allowed: one process, with trainer=ddp for jobs of several"
        )


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


def _is_of_composing(error: Exception) -> bool:
    """Whether Hydra stumbled over the command line itself, before it called anything of ours."""
    frames = traceback.extract_tb(error.__traceback__)
    return "hydra" in Path(frames[-1].filename).parts and not {"run_job", "run_task"} & {frame.name for frame in frames}


def _first_unreadable() -> str:
    """The first word of the command line with which it cannot be composed."""
    from engine.identify import compose_config

    words = [word for word in sys.argv[1:] if word[0] != "-"]
    for number, word in enumerate(words, 1):
        try:
            compose_config(words[:number])
        except Exception:
            return word
    return " ".join(words)


def explain(error: Exception, words: Sequence[str]) -> str:
    """One line for an error of Hydra or OmegaConf over these words: the key, what was found, what is allowed."""
    from hydra.errors import InstantiationException, OverrideParseException
    from omegaconf import MissingMandatoryValue

    text = str(error).strip()
    if isinstance(error, InstantiationException) and isinstance(error.__cause__, ValueError):
        return str(error.__cause__)
    if isinstance(error, InstantiationException) and (match := re.search(r"full_key: (\S+)", text)):
        return f"{match[1]}: {error.__cause__ or text.splitlines()[0]}; allowed: what its _target_ takes"
    if isinstance(error, OverrideParseException):
        key, mark, value = error.override.partition("=")
        literally = in_shell_quotes(f"{key}={quoted(value)}")
        hint = f"; what is no plain word or number needs two kinds of quotes: {literally}" if mark else ""
        return f"{error.override}: not of the form key=value{hint}"
    if isinstance(error, MissingMandatoryValue) and error.full_key:
        return f"{error.full_key}: missing; allowed: {error.full_key}=VALUE"
    if getattr(error, "options", None) is not None or "Available options in" in text:
        return _unknown_choice(error, text)
    if match := re.search(r"resolving interpolation '([^']+)', possible interpolation keys: (.*)", text):
        chosen = match.group(2).split(", ")
        group = next(name for name in re.findall(r"\{(\w+)\}", match.group(1)) if name not in chosen)
        return f"{group}: found null; allowed: {', '.join(sorted(file.stem for file in (CONF / group).glob('*.yaml')))}"
    if word := next((word for word in words if "${" in word and "nterpolation" in text), None):
        reason = re.sub(r"^\w+ raised while resolving interpolation: ", "", text.splitlines()[0])
        return f"{word}: {reason}; allowed: a value, or ${{KEY}} of a key that there is"
    if match := re.search(r"Ambiguous value for argument '([^']+)'", text):
        return f"{match.group(1)}: found several values; allowed: one, or a sweep over them with -m"
    for pattern in (r"Could not override '([^']+)'", r"Key '[^']+' is not in struct\s+full_key: (\S+)"):
        if match := re.search(pattern, text):
            return _unknown_key(match.group(1), words)
    if match := re.search(r"Could not append to config\. An item is already at '([^']+)'", text):
        return f"+{match.group(1)}: the key exists already; write {match.group(1)}=… without the plus"
    return " ".join(line.strip() for line in text.splitlines() if line.strip())


def _unknown_choice(error: Exception, text: str) -> str:
    missing = getattr(error, "missing_cfg_file", None) or re.findall(r"Could not find '([^']+)'", text)[0]
    options = getattr(error, "options", None)
    if options is None:
        options = re.findall(r"^\t(\S+)$", text, re.MULTILINE)
    group, _, choice = str(missing).removesuffix(".yaml").rpartition("/")
    return f"{group}={choice}: unknown choice; allowed: {', '.join(sorted(options))}{nearest(choice, options)}"


def _unknown_key(key: str, words: Sequence[str]) -> str:
    parent, _, name = key.rpartition(".")
    keys = _keys_under(parent, words)
    where = f"under {parent}" if parent else "at the top"
    if keys is None and key.startswith("hydra."):
        return f"{key}: unknown key of Hydra itself; allowed: see python run.py --hydra-help"
    if keys is None:
        return f"{key}: unknown key; there is no group {parent!r} in this config"
    if not keys:
        return f"{key}: unknown key; {parent} is null here; allowed: {parent}=NAME first"
    return f"{key}: unknown key; allowed {where}: {', '.join(keys)}{nearest(name, keys)}"


def _keys_under(parent: str, words: Sequence[str]) -> list[str] | None:
    """The keys of a node in the config as composed from the group choices among the words alone."""
    from hydra.errors import HydraException
    from omegaconf import DictConfig, OmegaConf

    from engine.identify import compose_config

    plain = [word for word in words if re.fullmatch(r"\w+=\w+|~\w+", word)]
    choices = [word for word in plain if (CONF / word.lstrip("~").split("=")[0]).is_dir()]
    try:
        config = compose_config(choices)
        node = OmegaConf.select(config, parent) if parent else config
    except (HydraException, ValueError):
        return None
    if node is None and (CONF / parent).is_dir():
        return []
    return [str(key) for key in node if key != "_target_"] if isinstance(node, DictConfig) else None


def without_group(words: Sequence[str], group: str) -> list[str]:
    """The overrides but those that set, add or delete a group or its keys."""
    return [word for word in words if not re.match(rf"[~+]*{re.escape(group)}\b", word)]
