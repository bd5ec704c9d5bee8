"""Texts of several labels, whose words tell them."""

import csv
import random

import pytest

from attack.toy import FILLERS, TOPICS

SETS = [(), ("fruit",), ("animal",), ("fruit", "animal"), ("metal", "weather"), ("metal", "weather"), ("metal",)]


@pytest.fixture
def topic_files(tmp_path, tiny_encoder_dir):
    """`topic_files(train=12, test=3)`: words of a command line for texts of none, one or two of four topics, so many of
    each set, and for the tiny encoder."""

    def write(**copies):
        rng, words = random.Random(0), ["dataset=csv", "dataset.label_separator=|", "dataset.max_length=32"]
        for split, number in copies.items():
            with (tmp_path / f"{split}.csv").open("w", newline="") as file:
                table = csv.writer(file)
                table.writerow(("text", "label"))
                for topics in SETS * number:
                    said = [word for topic in topics for word in rng.sample(TOPICS[topic], 3)]
                    table.writerow((" ".join([*said, *rng.choices(FILLERS, k=3)]), "|".join(topics)))
            words.append(f"dataset.{split}={tmp_path / split}.csv")
        return [*words, f"encoder.path={tiny_encoder_dir}", "encoder.sha256=null", "logger=csv"]

    return write
