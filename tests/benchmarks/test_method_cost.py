"""The methods whose steps are timed."""

from benchmarks.method_cost import methods


def test_methods_are_timed_that_train_on_labelled_texts():
    timed = set(methods())
    assert {"ce", "sharprecl", "two_heads_words"} <= timed
    assert not timed & {"kontrast", "linear_words", "logistic", "nearest_name", "prototypes", "tfidf_linear", "bce"}
