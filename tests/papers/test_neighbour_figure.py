"""A test text among its neighbours: who is near, what they share, and the figure of a run."""

import numpy as np
import pytest

from papers import neighbour_figure as module


def test_neighbours_come_nearest_first_with_what_they_share():
    vectors = np.array([[3.0, 0], [1, 0], [2, 0], [0, 9]])
    labels = np.array([[1, 1, 1, 1], [0, 1, 0, 0], [1, 1, 0, 0], [0, 0, 0, 1]])
    rows, shared = module.neighbourhood(np.zeros(2), np.array([1, 1, 1, 1]), vectors, labels, 3)
    assert rows.tolist() == [[0, 0], [1, 0], [2, 0], [3, 0]]
    assert shared.tolist() == [module.TEXT, 1, 2, 3], "four shared labels are three or more"
    assert len(module.neighbourhood(np.zeros(2), np.ones(4), vectors, labels, 80)[1]) == 5


@pytest.mark.parametrize("word", ["row=abc", "row=-1", "neighbours=0"])
def test_a_number_that_is_none_is_named(word):
    with pytest.raises(ValueError, match=f"^{word}: allowed: a whole number, "):
        module.main(["figure", "run", word])


@pytest.mark.slow
def test_a_figure_of_a_run(fit, store, tmp_path):
    run = fit("method=ce", "retrieval=knn", "trainer.max_epochs=1").folder
    drawn = module.draw(tmp_path / "figure", [run.name], None, 20, store)
    assert drawn.suffix == ".svg" and "ce, test row 0" in drawn.read_text()
    with pytest.raises(ValueError, match="row: found 99, allowed: 0 to 23"):
        module.draw(tmp_path / "figure", [run.name], 99, 20, store)
