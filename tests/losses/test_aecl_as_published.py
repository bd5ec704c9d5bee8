"""experiment=aecl_as_published gives the numbers of the published code, its broadcast included."""

import json
from pathlib import Path

import pytest
import torch
from hydra.utils import instantiate

from engine.identify import compose_config

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = {case["id"]: case for case in json.loads((ROOT / "tests/golden/aecl.json").read_text())["cases"]}
VECTORS, LOGITS = "similarity_guided_eq6_7_9_tau0.5", "cluster_contrastive_eq10_11_tau1.0"


def inputs(name, key):
    return torch.tensor([GOLDEN[name]["inputs"][f"{key}{view}"] for view in (0, 1)], dtype=torch.float64)


def test_stage_3_of_the_published_code(monkeypatch):
    config = compose_config(["experiment=aecl_as_published", "dataset=searchsnippets"])
    loss = instantiate(config.loss)
    # the golden clusters of L_I are not the arg max of the golden logits
    clusters, instance = torch.tensor(GOLDEN[VECTORS]["inputs"]["argmax_labels"]), loss.instance.forward
    monkeypatch.setattr(loss.instance, "forward", lambda z, h, s, _: instance(z, h, s, clusters))
    parts = loss(3, *(inputs(VECTORS, key) for key in "ZHS"), inputs(LOGITS, "logits"))

    published = {name: GOLDEN[name]["expected"] for name in (VECTORS, LOGITS, "balance_entropy_eq13")}
    guided, contrast = (published[name]["published_loss_py_value"] for name in (VECTORS, LOGITS))
    evenness = published["balance_entropy_eq13"]["published_ne_loss"]
    pseudo, entropy = GOLDEN["pseudo_ce_eq12"]["expected"], GOLDEN["row_entropy_eq5"]["expected"]
    assert parts["instance"].item() == pytest.approx(guided, abs=1e-10, rel=0)
    assert parts["cluster"].item() == pytest.approx(contrast, abs=1e-10, rel=0)
    total = contrast + 10 * guided + 5 * pseudo - 0.01 * entropy + 0.18 * evenness
    assert parts["loss"].item() == pytest.approx(total, abs=1e-10, rel=0)
    stages = config.method.stage1_epochs, config.method.stage2_epochs, config.trainer.max_epochs
    assert stages == (11, 1, 70) and config.method.attention == "encoder_layer"
