"""`format=transformers`: a folder for `pipeline("text-classification")` and `AutoModelForSequenceClassification`.

No class of transformers itself pools and classifies as the runs do, and one that nearly fits would be loaded with a
random classifier. The folder therefore names a model type of its own and holds the code for it: without
`trust_remote_code=True` transformers refuses it.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import torch

from engine.plan import Plan
from tasks.export import modeling_kontrast
from tasks.export.classifier import Classifier, as_probabilities

HOW_TO_LOAD = {
    "one": """
from transformers import pipeline

classify = pipeline("text-classification", "{folder}", trust_remote_code=True)
print([answer["label"] for answer in classify(["a text"], truncation=True)])
""",
    "several": """
from transformers import pipeline

classify = pipeline("text-classification", "{folder}", trust_remote_code=True)
config = classify.model.config
for answer in classify(["a text"], truncation=True, top_k=None):
    scores = {{label["label"]: label["score"] for label in answer}}
    above = zip(config.id2label.values(), config.thresholds)
    print([name for name, threshold in above if scores[name] > threshold])
""",
    "libraries": "transformers",
}


def check(plan: Plan) -> None:
    """Every encoder of transformers fits."""


def write(classifier: Classifier, folder: Path, quantize: str | None) -> None:
    """Weights, config, tokenizer and the code."""
    model = classifier.model()
    code = Path(modeling_kontrast.__file__)
    model.config.auto_map = {
        "AutoConfig": f"{code.stem}.KontrastConfig",
        "AutoModelForSequenceClassification": f"{code.stem}.KontrastForSequenceClassification",
    }
    model.save_pretrained(folder)
    classifier.tokenizer.save_pretrained(folder)
    shutil.copyfile(code, folder / code.name)


def probabilities(folder: Path, texts: list[str]) -> np.ndarray:
    """Of the classes (N, C), by the folder alone."""
    from transformers import PreTrainedTokenizerFast

    model = modeling_kontrast.KontrastForSequenceClassification.from_pretrained(folder).eval()
    batch = PreTrainedTokenizerFast.from_pretrained(folder)(texts, return_tensors="pt", padding=True, truncation=True)
    with torch.inference_mode():
        logits = model(batch["input_ids"], batch["attention_mask"]).logits
    return as_probabilities(logits, model.config.thresholds is not None).numpy()
