"""Plans of runs, and the encoder that they name."""

from pathlib import Path

import pytest

from engine.identify import compose_run
from engine.identity import completed
from tasks.auto.candidates.plans import encoder_name, plan_of, protocol_words


@pytest.mark.parametrize("fold", [2, None])
def test_the_plan_of_a_fold_is_the_one_that_its_words_compose(fold):
    words = ["dataset=trec", "method=ce", *protocol_words("ce", fold, folds=3, repeat=1)]
    words += ["+callbacks.time_limit._target_=callbacks.time_limit.TimeLimit", "+callbacks.time_limit.seconds=12.5"]
    plain = plan_of(words).plain
    assert plain == completed(compose_run(tuple(words)).config)
    assert (plain["protocol"]["fold"], plain["protocol"]["repeat"]) == (fold, 1)


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ({}, "minilm"),
        ({"path": "/models/mine/"}, "mine"),
        ({"path": "."}, Path.cwd().name),
        ({"repo": "sentence-transformers/all-mpnet-base-v2"}, "all-mpnet-base-v2"),
    ],
)
def test_an_encoder_is_called_by_what_was_typed_of_it(typed, name):
    assert encoder_name(compose_run(("encoder=minilm",)).config["encoder"] | typed) == name
