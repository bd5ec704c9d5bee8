"""`make setup`, with pip and the weights stood in for, and the Python that `make` takes."""

import importlib.util
import os
import shutil
import subprocess
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def setup(tmp_path, monkeypatch):
    """scripts/environment.py, on an empty project."""
    spec = importlib.util.spec_from_file_location("environment", ROOT / "scripts/environment.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    (tmp_path / "requirements.lock").write_text("a==1\n")
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "VENV", tmp_path / ".venv")
    monkeypatch.setattr(module, "STAMP", tmp_path / ".venv/.ready")
    monkeypatch.setattr(module, "LOCKS", {"cpu": tmp_path / "requirements.lock"})
    monkeypatch.setattr(module, "check_weights", lambda path: None)
    monkeypatch.setattr("sys.argv", ["environment.py"])
    create = venv.create
    monkeypatch.setattr(venv, "create", lambda path, clear, with_pip: create(path, clear=clear))
    return module


def pip(returncode: int, monkeypatch, leaves: Path) -> None:
    """A pip that writes a file and ends so."""
    real = subprocess.run

    def run(line, **options):
        if "pip" not in line:
            return real(line, **options)
        leaves.write_text("")
        return subprocess.CompletedProcess(line, returncode)

    monkeypatch.setattr(subprocess, "run", run)


def test_an_interrupted_setup_is_done_anew(setup, monkeypatch, capsys):
    half, whole = setup.VENV / "half", setup.VENV / "whole"
    pip(1, monkeypatch, half)
    with pytest.raises(SystemExit, match="type the same command again"):
        setup.main()
    assert half.exists()
    pip(0, monkeypatch, whole)
    setup.main()
    assert whole.exists() and not half.exists()

    capsys.readouterr()
    setup.main()
    assert whole.exists() and not capsys.readouterr().out  # nothing was to do


def test_another_lock_means_a_new_environment(setup, monkeypatch):
    old, new = setup.VENV / "old", setup.VENV / "new"
    pip(0, monkeypatch, old)
    setup.main()
    setup.LOCKS["cpu"].write_text("a==2\n")
    pip(0, monkeypatch, new)
    setup.main()
    assert new.exists() and not old.exists()


@pytest.mark.parametrize(
    ("python", "words", "is_new"),
    [
        ("exit 1", [], True),  # what it was made with is gone
        ("echo 3.9", [], False),
        ("echo 3.9", ["--this-python"], True),  # another was typed
    ],
)
def test_the_environment_of_another_python(setup, monkeypatch, python, words, is_new):
    old, new = setup.VENV / "old", setup.VENV / "new"
    pip(0, monkeypatch, old)
    setup.main()
    (setup.VENV / "bin/python").unlink()
    (setup.VENV / "bin/python").write_text(f"#!/bin/sh\n{python}\n")
    (setup.VENV / "bin/python").chmod(0o755)
    monkeypatch.setattr("sys.argv", ["environment.py", *words])
    pip(0, monkeypatch, new)
    setup.main()
    assert (new.exists(), old.exists()) == (is_new, not is_new)


def test_what_needs_a_gpu_installs_nothing_without_one(setup, monkeypatch, tmp_path):
    setup.LOCKS["gpu"] = setup.LOCKS["cpu"]
    monkeypatch.setattr("sys.argv", ["environment.py", "gpu", "--with-device"])
    monkeypatch.setattr(setup, "DRIVERS", (tmp_path / "driver",))
    with pytest.raises(SystemExit, match="no NVIDIA GPU here"):
        setup.main()
    assert not setup.VENV.exists()
    (tmp_path / "driver").touch()
    pip(0, monkeypatch, tmp_path / "installed")
    setup.main()
    assert setup.STAMP.read_text().startswith("gpu ")


def make_with(
    pythons: dict[str, tuple[int, int]], folder: Path, *words: str
) -> subprocess.CompletedProcess:
    """`make` where the only Pythons are these; each prints its name instead of setting up."""
    for name, version in pythons.items():
        ready = "exit 0" if (3, 11) <= version < (3, 14) else "exit 1"
        (folder / name).write_text(f'#!/bin/sh\ncase "$1" in -c) {ready};; *) echo {name} "$@";; esac\n')
        (folder / name).chmod(0o755)
    for tool in ("make", "sh"):
        (folder / tool).symlink_to(shutil.which(tool))
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHON", "MAKEFLAGS")}
    command = ["make", "--no-print-directory", "-f", ROOT / "Makefile", *(words or ("setup", "EXTRAS=cpu"))]
    return subprocess.run(command, env=environment | {"PATH": str(folder)}, cwd=folder, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("pythons", "taken"),
    [
        ({"python3.11": (3, 11), "python3.13": (3, 13)}, "python3.11"),
        ({"python3.13": (3, 13), "python3": (3, 9)}, "python3.13"),
        ({"python3.12": (3, 10), "python3": (3, 12)}, "python3"),  # a name may belong to no working Python
    ],
)
def test_make_takes_the_python_that_is_there(pythons, taken, tmp_path):
    assert make_with(pythons, tmp_path).stdout == f"{taken} scripts/environment.py cpu\n"


@pytest.mark.parametrize(
    ("words", "variant"), [([], " gpu --with-device"), (["DRY_RUN=1"], ""), (["DRY_RUN=0"], " gpu --with-device")]
)
def test_the_gpu_campaign_sets_up_the_gpu_environment_but_for_its_dry_run(words, variant, tmp_path):
    result = make_with({"python3.11": (3, 11)}, tmp_path, "gpu-campaign", *words)
    assert result.stdout.splitlines()[0] == f"python3.11 scripts/environment.py{variant}"


def test_auto_without_a_file_sets_nothing_up(tmp_path):
    result = make_with({"python3.11": (3, 11)}, tmp_path, "auto")
    assert result.returncode and not result.stdout and "no file; type make auto DATA=my.csv MINUTES=20" in result.stderr


def test_a_python_that_is_typed_is_that_of_the_environment(tmp_path):
    result = make_with({"python3.11": (3, 11), "python3.12": (3, 12)}, tmp_path, "setup", "PYTHON=python3.12")
    assert result.stdout == "python3.12 scripts/environment.py --this-python\n"


def test_after_a_race_that_fails_the_others_go_on(tmp_path):
    python = tmp_path / ".venv/bin/python"
    for file in (python, tmp_path / "benchmarks/first.py", tmp_path / "benchmarks/second.py"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    python.write_text('#!/bin/sh\necho "$2"\ntest "$2" != benchmarks.first\n')
    python.chmod(0o755)
    result = make_with({"python3.11": (3, 11)}, tmp_path, "bench")
    assert result.stdout.splitlines()[1:] == ["benchmarks.first", "benchmarks.second"]
    assert result.returncode and result.stderr.startswith("failed: first\n")


def test_make_says_in_one_line_what_is_missing(tmp_path):
    result = make_with({"python3": (3, 10)}, tmp_path)
    assert result.returncode and not result.stdout
    (line,) = result.stderr.splitlines()
    assert "no Python 3.11, 3.12 or 3.13 here: install one" in line
