"""Write a finished run as a folder that other libraries load by themselves."""

from __future__ import annotations

import json
import os
import sys
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
import torch
from omegaconf import DictConfig

from engine.finished import load_module, open_run
from engine.plan import Plan
from lightning_modules.encoders.words import WordEncoder
from storage.errors import short
from storage.files import replacing_folder, write_errors
from storage.run_store import RunFolder
from tasks.export import onnx_folder, sentence_transformers_folder, transformers_folder
from tasks.export.card import Card
from tasks.export.classifier import Classifier, classifier_of, sample_texts
from tasks.predict import Encoded

FORMATS = {
    "transformers": transformers_folder,
    "onnx": onnx_folder,
    "sentence_transformers": sentence_transformers_folder,
}
# what exports write, of those from before they list it: files and folders, at any depth
KNOWN_NAMES = (
    *("README.md", "kontrast.json", "config.json", "modeling_kontrast.py", "model.onnx", "model.onnx[._]data"),
    *("model*.safetensors", "model*.safetensors.index*.json", "classifier.safetensors", "modules.json"),
    *("0_Transformer", "1_Pooling", "2_Normalize", "config_sentence_transformers.json", "sentence_bert_config.json"),
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.txt"),
    *("vocab.json", "merges.txt", "spiece.model", "sentencepiece.bpe.model", "tokenizer.model", "chat_template.jinja"),
    *("__pycache__", "*.pyc"),
)
FACTS = "kontrast.json"
CLOSE = 1e-3  # between the probabilities of the run and of the folder


def export(config: DictConfig, overrides: list[str]) -> Path:
    """Write `output`: weights and tokenizer in `format`, `kontrast.json` with the facts, a model card.

    `transformers` (pipeline, AutoModelForSequenceClassification), `onnx` (onnxruntime), or `sentence_transformers`
    (embeddings, and the classifier beside them). Before the folder gets its name it is loaded as its card says, and
    must give the probabilities that the run gives.

    Raises:
        ValueError: the run is not there or not finished, or `output` is a folder with something else in it; the run
            predicts by more than an encoder and a linear classifier; the folder would predict otherwise than the run.
    """
    form = FORMATS[config.format]
    if config.quantize is not None and config.format != "onnx":
        raise ValueError(f"quantize: found {config.quantize}; allowed with format={config.format}: null")
    run, plan = open_run(config)
    _check_exportable(run, plan, model_alone="retrieval=none" in overrides or "~retrieval" in overrides)
    form.check(plan)
    folder = _checked_folder(config.output, run)
    module, label_names = load_module(run, plan)
    head = module.prediction_head()
    encoded = Encoded(module, plan, as_loaded=True)  # as the folder has it
    texts = sample_texts(label_names)
    expected = module.probabilities(torch.from_numpy(encoded(texts)[0])).numpy()
    classifier = classifier_of(run, plan, module, head, label_names)
    with write_errors(folder), replacing_folder(folder) as temporary:
        form.write(classifier, temporary, config.quantize)
        about = Card(run, plan, classifier, form.HOW_TO_LOAD, folder, config.quantize)
        (temporary / "README.md").write_text(about.text())
        facts = _facts(classifier, config) | {"files": [*_files(temporary), FACTS]}
        (temporary / FACTS).write_text(json.dumps(facts, indent=2) + "\n")
        probabilities = form.probabilities(temporary, texts)
        difference = float(np.abs(probabilities - expected).max())
        if config.quantize is not None:
            print(f"int8: probabilities of {len(texts)} texts differ by at most {difference:.4f}", file=sys.stderr)
        elif difference > CLOSE:
            raise ValueError(
                f"task=export: method={module.name} predicts by more than an encoder and a linear classifier (the "
                f"folder's probabilities differ by up to {difference:.3f}); allowed: task=serve"
            )
    return folder


def _check_exportable(run: RunFolder, plan: Plan, model_alone: bool) -> None:
    if isinstance(plan.encoder, WordEncoder):
        raise ValueError(f"task=export: found encoder={plan.encoder.name}; allowed: transformers")
    if plan.plain.get("head"):
        raise ValueError(f"task=export: found head={plan.plain['head']['name']}; allowed: null, a linear classifier")
    if plan.config.get("retrieval") and not model_alone:
        raise ValueError(
            "task=export: the run predicts with its neighbours, which no exported folder holds; allowed: task=serve, "
            "or retrieval=none for the model without them"
        )
    if model_alone and (candidate := run.read_metrics().get("candidate")) and run.read_config().get("retrieval"):
        raise ValueError(
            f"retrieval: found none; this model of task=auto, {candidate}, answers by its neighbours or has thresholds "
            "for what they say; allowed: task=serve"
        )


def _facts(classifier: Classifier, config: DictConfig) -> dict:
    return {
        "run": classifier.run,
        "method": classifier.method,
        "format": config.format,
        "quantize": config.quantize,
        "label_names": classifier.label_names,
        "pooling": classifier.pooling,
        "unit_norm_embeddings": classifier.unit_norm_embeddings,
        "embedding_parts": classifier.embedding_parts,
        "unit_norm_logits": classifier.unit_norm_logits,
        "max_length": classifier.max_length,
        **({"threshold": classifier.thresholds} if classifier.thresholds is not None else {}),
        **({"abstention": classifier.abstention} if classifier.abstention is not None else {}),
        "metrics": classifier.metrics,
    }


def _checked_folder(output: str | None, run: RunFolder) -> Path:
    if output == "":
        raise ValueError("output: found '', allowed: a folder, or null for one in the run")
    folder = Path(output) if output else run.path / "export"
    if output == "-" or (os.path.lexists(folder) and not os.path.isdir(folder)):
        raise ValueError(f"output: {short(str(folder))} is no folder; allowed: a new or empty folder")
    names = [path.name for path in folder.iterdir()] if folder.exists() else []
    allowed = "allowed: a new or empty folder, or an earlier export"
    if names and (FACTS not in names or any(name.startswith(".") for name in names)):
        raise ValueError(f"output: {folder} holds something else; {allowed}")
    if names and (others := _others(folder)):  # the folder is replaced whole
        raise ValueError(f"output: {folder} holds {short(others[0])}, which no export wrote; {allowed}")
    return folder


def _files(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir())


def _others(folder: Path) -> list[str]:
    """Files in an earlier export that it did not write, as far as that is known."""
    try:
        listed = json.loads((folder / FACTS).read_text()).get("files")
    except (ValueError, AttributeError):  # a file of that name that is none of ours
        return [FACTS]
    if listed is not None:
        return [name for name in _files(folder) if name not in listed and "__pycache__" not in Path(name).parts]
    return [name for name in _files(folder) if not all(map(_is_known, Path(name).parts))]


def _is_known(name: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in KNOWN_NAMES)
