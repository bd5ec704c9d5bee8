"""What rounds with answers say of the pool."""

from labelling.answers import NO_LABEL
from tasks.active.curve import Round, fit_no_class, labelled


def test_texts_that_fit_no_class_are_known():
    answers = [[1, NO_LABEL["no class fits"]], [NO_LABEL["skip"], [0, 2]], None]
    rounds = [Round([4 * n, 4 * n + 1], [0.0] * 2, [""] * 2, labels) for n, labels in enumerate(answers)]
    assert fit_no_class(rounds) == [1]
    assert labelled(rounds)[0].tolist() == [0, 5]
