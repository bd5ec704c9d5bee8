"""The table of docs/data.md says what the cards of the data sets say."""

import re
from pathlib import Path

import pytest
from hydra.utils import instantiate
from omegaconf import OmegaConf

from datamodules.corpus import prepare
from engine.allowed_targets import CONF

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "data.md").read_text(encoding="utf-8")
ROWS = {
    name: cells.split(" | ")[1:7]
    for name, cells in re.findall(r"^\| `(\w+)` \| (.*) \|$", PAGE, re.MULTILINE)
}


FROM_THE_USER = {"csv", "jsonl", "hub", "aapd", "rcv1", "amazon_reviews"}
FROM_THE_USER |= {"mpqa_type", "mpqa_polarity", "mpqa_intensity"}
IMAGES = {"digits", "cifar10", "cifar100", "image_folder"}  # docs/images.md


def test_every_built_in_set_has_a_row():
    assert set(ROWS) == {path.stem for path in (CONF / "dataset").glob("*.yaml")} - FROM_THE_USER - IMAGES


FAST = {"trec", "r52"}


@pytest.mark.parametrize("name", [pytest.param(name, marks=[] if name in FAST else pytest.mark.slow) for name in ROWS])
def test_a_row_agrees_with_the_card(name, data_dir, request):
    mirror = None if name == "docstrings" else request.getfixturevalue("mirror")
    config = OmegaConf.load(CONF / "dataset" / f"{name}.yaml")
    splits = prepare(instantiate(config.get("dataset", config)), data_dir, mirror).card["splits"]
    train, test = splits["train"], splits["test"]
    stated = [float(cell.replace(",", "")) for cell in ROWS[name]]
    card = [train["rows"], test["rows"], train["classes"], round(train["ir"], 1), train["duplicates"]]
    assert stated == [*card, test["leaks_exact"]]
