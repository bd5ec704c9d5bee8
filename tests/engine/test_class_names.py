"""The class names that come with the data sets, held against their texts with the real encoder."""

from pathlib import Path

import numpy as np
import pytest
import torch

from datamodules.builders.json_array import json_array_rows
from datamodules.builders.sgm import AAPD
from datamodules.class_descriptions import KNOWN
from datamodules.labels import label_array
from engine.identify import compose_config
from engine.plan import Plan
from lightning_modules.heads.discriminant import nearest_prototype
from lightning_modules.methods.few_labels.class_names import ClassNames

# what anybody would tell the stars of, for the set whose files the user brings
REVIEWS = {
    1: ["Terrible. It broke on the first day and nobody answers", "Complete garbage, I want my money back, avoid it"],
    2: ["Disappointed. It works a little, but feels cheap and is already loose", "Not good, I would not buy it again"],
    3: ["It is okay. Nothing special, some good and some bad sides", "Average, does the job, but I expected more"],
    4: ["Good product, I like it, only the cable is short", "Works well and looks nice, a scratch on the lid"],
    5: ["Absolutely love it! The best I ever bought", "Perfect, excellent quality, I recommend it to everybody"],
}
ROWS = 300
MAX_LENGTH = 64


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(file.stem for file in KNOWN.glob("*.yaml")))
@torch.inference_mode()
def test_names_belong_to_their_labels(name, mirror, data_dir, tmp_path):
    """The nearest name is right far more often than chance, and a class's texts are nearer to its name than others."""
    folders = [f"paths.data={data_dir}", f"paths.cache={tmp_path}", f"paths.source_mirror={mirror}"]
    if name == "amazon_reviews":
        lines = [f'{stars},"{text}",Review,en' for stars, texts in REVIEWS.items() for text in texts]
        (tmp_path / "train.csv").write_text("\n".join(["stars,review_body,review_title,language", *lines]))
        folders += [f"dataset.train={tmp_path}/train.csv", f"dataset.test={tmp_path}/train.csv"]
    if name == "aapd":  # its train rows the user brings; here its official validation rows stand for them
        rows = list(json_array_rows(AAPD.sources[0].local(Path(mirror))))
        (tmp_path / "text_train").write_text("\n".join(row["text"] for row in rows))
        (tmp_path / "label_train").write_text("\n".join(" ".join(row["label"]) for row in rows))
        folders += [f"dataset.folder={tmp_path}"]
    plan = Plan.make(compose_config(["method=nearest_name", f"dataset={name}", *folders]))
    corpus, encoder, tokenizer = plan.corpus(), plan.encoder.load().eval(), plan.encoder.tokenizer()
    table, classes = corpus.table("train"), len(corpus.label_names)
    labels = label_array(table, classes)
    labels = labels if labels.ndim == 2 else np.eye(classes, dtype=np.uint8)[labels]
    rng = np.random.default_rng(0)
    drawn = [rng.permutation(np.flatnonzero(column))[: max(3, ROWS // classes)] for column in labels.T]
    rows = np.unique(np.concatenate(drawn))
    texts = sorted(zip(table["text"].take(rows).to_pylist(), labels[rows].tolist(), strict=True), key=_length)
    own = np.array([label for _, label in texts], bool)
    options = {"padding": True, "truncation": True, "max_length": MAX_LENGTH, "return_tensors": "pt"}
    parts = [tokenizer([text for text, _ in texts[i : i + 32]], **options) for i in range(0, len(texts), 32)]
    embeddings = torch.cat([encoder(part["input_ids"], part["attention_mask"]) for part in parts])
    embeddings = torch.nn.functional.normalize(embeddings, dim=1)
    anchors = ClassNames(plan.dataset.describe_classes(corpus.label_names), tokenizer)(encoder)
    nearest = nearest_prototype(embeddings, torch.full((len(texts),), -1), anchors, classes, origin=embeddings.mean(0))
    scores = (embeddings @ nearest.weight.T + nearest.bias).numpy()
    right, chance = own[np.arange(len(own)), scores.argmax(1)].mean(), own.mean()
    assert (right - chance) / (1 - chance) > 0.2
    is_nearer = [scores[own[:, c], c].mean() > scores[~own[:, c], c].mean() for c in range(classes)]
    assert np.mean(is_nearer) > 0.95


def _length(row):
    return len(row[0])


def test_names_that_the_encoder_cannot_tell_apart_are_not_used(capsys):
    """Of a script that is not in its vocabulary every word is the same token."""
    plan = Plan.make(compose_config(["method=nearest_name", "dataset=csv", "dataset.train=none.csv"]))
    assert plan.class_names(["sport", "ስፖርት", "politics"]) is not None
    assert plan.class_names(["sport", "ስፖርት", "ፖለቲካ"]) is None
    assert "encoder=minilm reads 'ስፖርት' and 'ፖለቲካ' as the same tokens, names are not used" in capsys.readouterr().err
