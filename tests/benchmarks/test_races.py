"""What `make bench` relies on: each race of the folder takes no words."""

import argparse
import importlib
import inspect
from pathlib import Path

import pytest

import benchmarks

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
