"""The attack tells good from bad, and a short one finds nothing."""

import random
from collections import Counter
from types import SimpleNamespace
from typing import Annotated, Literal

import pytest

from attack.__main__ import Attack, main
from attack.command import Outcome
from attack.damage import DAMAGES
from attack.kills import content, difference
from attack.settings import settings, wrong


@pytest.mark.parametrize(
    ("code", "text", "kind"),
    [
        (0, "runs/ce", "accepted"),
        (2, "fit: loading PyTorch\nerror: loss.tau: found 0", "refused"),
        (2, "", "unclear"),
        (2, "error: " + 5000 * "x", "unclear"),
        (2, "error: loss: Error in call to target 'losses.X': TypeError('x')", "unclear"),
        (1, "error: something", "unclear"),
        (-11, "", "unclear"),
        (1, "Traceback (most recent call last):\nerror: a fault of Kontrast's own", "traceback"),
        (1, "error: a fault of Kontrast's own", "own fault"),
        (None, "", "over 60 s"),
    ],
)
def test_outcomes_are_told_apart(code, text, kind):
    assert Outcome(code, text, 1.0).kind == kind


@pytest.mark.parametrize(
    ("value", "hint", "is_wrong"),
    [
        (0, Annotated[int, ">= 1"], True),
        (1, Annotated[int, ">= 1"], False),
        (1.0e19, Annotated[int, ">= 1"], True),
        (float("nan"), float, True),
        ("a", float | None, True),
        (None, float | None, False),
        (None, float, True),
        (True, int, True),
        ("b", Literal["a"], True),
        ("a", Literal["a"] | int, False),
        ([1], list[int], False),
        ([1], int, True),
        ("../../x", str, False),
    ],
)
def test_what_a_hint_can_certainly_not_hold(value, hint, is_wrong):
    assert (wrong(value, hint) is not None) == is_wrong


@pytest.mark.slow
def test_an_attack_is_the_same_for_a_seed_and_another_for_another():
    drawn = [[settings(random.Random(f"{seed} {case}")) for case in range(30)] for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_every_damage_changes_a_file():
    text = b"text,label\r\nan apple,fruit\r\nthe iron,metal\r\n"
    for name, damage in DAMAGES.items():
        assert any(damage(text, random.Random(seed)) != text for seed in range(5)), name


def test_a_result_that_a_kill_changed_is_named(tmp_path):
    for name in ("a/x/y.csv", "b/x/y.csv"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("1")
    assert difference(content(tmp_path / "a"), content(tmp_path / "b")) is None
    (tmp_path / "b/x/y.csv").write_text("2")
    (tmp_path / "b/.z.tmp").write_text("")
    assert difference(content(tmp_path / "a"), content(tmp_path / "b")) == "other content: .z.tmp, x/y.csv"


def test_a_base_line_that_fails_is_a_failure_and_nothing_is_compared_with_it(monkeypatch, capsys):
    attack = Attack.__new__(Attack)
    attack.seed, attack.first, attack.counts = 0, 0, Counter()
    attack.place = SimpleNamespace(store=lambda *_: [])
    monkeypatch.setattr(attack, "_around", lambda base: [])
    monkeypatch.setattr(attack, "_figures", lambda words: (Outcome(2, "error: loss.tau: found 0", 1.0), {}))
    attack.effects(1)
    assert attack.failures == 1 and "base of effects 0" in capsys.readouterr().out


def test_words_that_it_does_not_know():
    with pytest.raises(SystemExit, match="error: minutes: unknown"):
        main(["minutes=3"])


@pytest.mark.slow
def test_a_short_attack_finds_nothing(tmp_path, capsys):
    attack = Attack(tmp_path / "attack", seed=20)
    try:
        attack.settings(12)
        attack.files(8)
        attack.kills(2)
    finally:
        attack.shell.close()
    assert attack.failures == 0, capsys.readouterr().out
    assert attack.counts["refused"] + attack.counts["accepted"] == 20 and attack.counts["refused"] > 8
    assert attack.counts["survived"] == 2
