"""`make setup`, with pip and the weights stood in for."""

import importlib.util
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

    def run(line):
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
