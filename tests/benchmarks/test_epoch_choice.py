"""Drawings that are measured once, whatever is asked of them later."""

from argparse import Namespace

from benchmarks.epoch_choice import every_drawing


def test_a_line_answers_what_was_asked_for_it_alone(tmp_path):
    measured = []

    def lines(asked, settings=("trec:100:1",)):
        def measure(setting, drawing):
            measured.append((setting, drawing, *asked["epochs"]))
            return {"figures": asked["epochs"]}

        options = Namespace(settings=settings, drawings=1, results=tmp_path / "runs/lines.jsonl")
        return every_drawing(options, measure, asked)

    assert [line["figures"] for line in lines({"epochs": [6]})] == [[6]]
    assert [line["figures"] for line in lines({"epochs": [9]})] == [[9]]
    both = lines({"epochs": [6]}, ("cr:100:1", "trec:100:1"))
    assert [(line["setting"], line["figures"]) for line in both] == [("cr:100:1", [6]), ("trec:100:1", [6])]
    assert measured == [("trec:100:1", 0, 6), ("trec:100:1", 0, 9), ("cr:100:1", 0, 6)]
