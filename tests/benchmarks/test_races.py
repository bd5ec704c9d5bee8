"""What the races of the folder take, as `make bench` calls them, and what they count."""

import argparse
import importlib
import inspect
import re
import subprocess
from pathlib import Path

import pytest

import benchmarks
from benchmarks import aecl_epoch, frozen_sweep, query_strategies
from storage.run_store import RunFolder

RACES = sorted(file.stem for file in Path(benchmarks.__file__).parent.glob("[a-z]*.py"))


class Parsed(Exception):
    """Stops a race before it begins."""


@pytest.mark.slow
@pytest.mark.parametrize("race", RACES)
def test_a_race_takes_no_words(race, monkeypatch):
    parse_args = argparse.ArgumentParser.parse_args

    def parse(parser, words=None):
        parse_args(parser, [])
        raise Parsed

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse)
    main = importlib.import_module(f"benchmarks.{race}").main
    with pytest.raises(Parsed):
        main(*([[]] if inspect.signature(main).parameters else []))


def test_runs_that_failed_are_no_runs_of_the_sweep(monkeypatch, capsys):
    def sweep(command, cwd):
        (runs,) = (word.removeprefix("paths.runs=") for word in command if word.startswith("paths.runs="))
        for name, status in (("a", "finished"), ("b", "failed")):
            RunFolder(Path(runs) / name).write_metrics(status=status)
        return subprocess.CompletedProcess(command, 1)

    monkeypatch.setattr(subprocess, "run", sweep)
    monkeypatch.setattr("sys.argv", ["frozen_sweep"])
    assert frozen_sweep.main() == 1 and capsys.readouterr().out.startswith("1 runs in ")


def test_as_many_steps_of_a_stage_are_timed_as_were_asked_for(monkeypatch, capsys):
    shares = aecl_epoch.Shares()
    shares.seconds = {1: [(9.0, 0.0, 0.0)] * aecl_epoch.WARM_UP + [(1.0, 0.0, 0.0)] * 3 + [(9.0, 0.0, 0.0)]}
    monkeypatch.setattr(aecl_epoch, "measured", lambda *_: shares)
    monkeypatch.setattr("sys.argv", ["aecl_epoch", "--steps", "3"])
    aecl_epoch.main()
    assert re.search(r"^\| +1 \| +1000 \|", capsys.readouterr().out, re.MULTILINE)


def test_a_strategy_of_a_large_pool_has_the_threads_that_were_asked_for(monkeypatch):
    calls = []
    monkeypatch.setattr("faiss.omp_set_num_threads", lambda number: None)  # those of this process stay
    monkeypatch.setattr(query_strategies, "in_own_process", lambda *words: calls.append(words) or "1 2")
    monkeypatch.setattr("sys.argv", ["query_strategies", "--large", "--threads", "4", "--only", "random"])
    query_strategies.main()
    assert calls == [(query_strategies.MODULE, "--threads", "4", "--large-of", "random")]
