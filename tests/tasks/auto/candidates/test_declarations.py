"""Which candidates are tried on which data, and in which order."""

import numpy as np
import pytest

from reporting.auto.sentence import FINE_TUNED
from storage.errors import InputError
from tasks.auto.candidates.declarations import CANDIDATES, OF_SEVERAL, by_name, check_names, chosen
from tasks.auto.reading.rows import regimes_of


def test_candidates_follow_the_data_and_come_cheapest_first():
    names = [c.name for c in chosen(regimes_of(np.array([900, 800]), 1700), None)]
    assert names[0] == "majority" and "logistic" in names and not {"sharprecl", "scl_ce"} & set(names)
    rare = chosen(regimes_of(np.array([186, 70, 30, 14]), 300), None)
    assert {"sharprecl", "scl_ce", "logit_adjusted"} <= {c.name for c in rare}
    assert [c.cost for c in rare] == sorted(c.cost for c in rare)
    assert [c.name for c in chosen([], ["ce", "logistic"])] == ["majority", "logistic", "ce"]
    several = [c.name for c in chosen([], None, several=True)]
    assert {"majority", "tfidf_linear", "logistic", "neighbours", "linear_words", "bce", "knn_mltc"} <= set(several)
    for check in (check_names, lambda names: chosen([], names)):
        with pytest.raises(InputError, match="methods: found 'svm'; allowed: majority, tfidf_linear"):
            check(["svm"])
    check_names(["bce", "ce"])
    for alone in ([], ["majority"]):
        with pytest.raises(InputError, match=r"methods: found \[(majority)?\]; allowed, one at least: tfidf_linear, "):
            check_names(alone)
    with pytest.raises(InputError, match="methods: found 'ce'; allowed: majority, tfidf_linear, .*bce"):
        check_names(["ce"], several=True)
    with pytest.raises(InputError, match="methods: kontrast reads texts without a label, found none; allowed with"):
        check_names(["kontrast"], several=False, has_unlabelled=False)


def test_a_brief_round_comes_first_of_all_that_train():
    names = [c.name for c in chosen(["imbalanced"], None) if c.kind == "trained"]
    assert names[:2] == ["setfit_brief", "ce_half"] and "sharprecl" in names


@pytest.mark.parametrize(
    ("regimes", "is_tried"),
    [(["few rows"], False), (["few rows", "imbalanced"], False), ([], True), (["many unlabelled"], True)],
)
def test_cross_entropy_gives_way_to_pairs_where_these_are_tried(regimes, is_tried):
    names = [candidate.name for candidate in chosen(regimes, None)]
    assert ("ce_half" in names) == is_tried and ("setfit_half" in names) == ("few rows" in regimes)
    assert "ce_half" in [candidate.name for candidate in chosen(regimes, ["ce_half", "setfit_half"])]


@pytest.mark.parametrize(("blocks", "half"), [(6, "3"), (12, "6"), (1, "1")])
def test_half_of_an_encoder_is_half_of_its_blocks(blocks, half):
    assert f"encoder.num_top_layers={half}" in by_name(several=False)["setfit_brief"].words_of(blocks)


def test_the_sentence_calls_fine_tuned_what_trains_the_encoder():
    candidates = [*CANDIDATES, *OF_SEVERAL]
    assert {c.kind == "trained" for c in candidates if c.cost >= FINE_TUNED} == {True}
    assert "trained" not in {c.kind for c in candidates if c.cost < FINE_TUNED}
