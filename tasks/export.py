"""Write a finished run as a folder that plain transformers and safetensors code can load."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from engine.finished import load_module, open_run
from lightning_modules.encoders.lora import plain_model
from lightning_modules.encoders.words import WordEncoder
from storage.files import replacing_folder, write_errors
from storage.run_store import RunFolder

README = """# {run}

Exported by Kontrast. Load it with transformers and safetensors alone:

```python
import json, torch
from safetensors.torch import load_file
from transformers import AutoModel, AutoTokenizer

folder = "{folder}"
about = json.load(open(f"{{folder}}/kontrast.json"))
tokenizer = AutoTokenizer.from_pretrained(folder)
encoder = AutoModel.from_pretrained(folder).eval()
classifier = load_file(f"{{folder}}/classifier.safetensors")

batch = tokenizer(["a text"], return_tensors="pt", padding=True, truncation=True, max_length=about["max_length"])
with torch.inference_mode():
    {pooling}{unit_norm}
    logits = embedding @ classifier["weight"].T + classifier.get("bias", 0)
{prediction}
```
"""
POOLING = {
    "mean": (
        "hidden, mask = encoder(**batch).last_hidden_state, batch['attention_mask'].unsqueeze(-1)\n"
        "    embedding = (hidden * mask).sum(1) / mask.sum(1)"
    ),
    "last_token": (
        "hidden, last = encoder(**batch).last_hidden_state, batch['attention_mask'].sum(1) - 1\n"
        "    embedding = hidden[torch.arange(len(hidden)), last]"
    ),
    "first_token": "embedding = encoder(**batch).last_hidden_state[:, 0]",
    "cls": "embedding = encoder(**batch).pooler_output",
}
ONE_LABEL = """print([about["label_names"][i] for i in logits.argmax(-1)])"""
LABEL_SETS = """\
above = logits.sigmoid() > torch.tensor(about["threshold"])
print([[name for name, is_found in zip(about["label_names"], row) if is_found] for row in above])"""
UNIT_NORM = "\n    embedding = torch.nn.functional.normalize(embedding, dim=-1)"


def export(config: DictConfig, overrides: list[str]) -> Path:
    """Write encoder and tokenizer in Hugging Face layout, `classifier.safetensors` (weight (C, D), bias (C,)), facts.

    The classifier is the one of prediction: what a method changes of its logits at inference is folded into it.

    Raises:
        ValueError: the run is not there or not finished, or `output` is a folder with something else in it.
    """
    from safetensors.torch import save_file

    run, plan = open_run(config)
    if isinstance(plan.encoder, WordEncoder):
        raise ValueError(f"task=export: found encoder={plan.encoder.name}; allowed: transformers")
    if plan.plain.get("head"):
        raise ValueError(f"task=export: found head={plan.plain['head']['name']}; allowed: null, a linear classifier")
    folder = _checked_folder(config.output, run)
    module, label_names = load_module(run, plan)
    head = {name: tensor.contiguous() for name, tensor in module.prediction_head().items()}
    metrics = run.read_metrics()
    about = {
        "run": run.id,
        "method": module.name,
        "label_names": label_names,
        "pooling": plan.encoder.pooling,
        "unit_norm_embeddings": module.unit_norm_embeddings,
        "max_length": plan.dataset.max_length,
        **({"threshold": metrics["threshold"]} if module.multilabel else {}),
        "metrics": {k: v for k, v in metrics.items() if k.startswith("test/")},
    }
    readme = README.format(
        run=run.id,
        folder=folder,
        pooling=POOLING[plan.encoder.pooling],
        unit_norm=UNIT_NORM if module.unit_norm_embeddings else "",
        prediction=LABEL_SETS if module.multilabel else ONE_LABEL,
    )
    with write_errors(folder), replacing_folder(folder) as temporary:
        model: Any = plain_model(module.encoder.model)
        model.save_pretrained(temporary)
        plan.encoder.tokenizer().save_pretrained(temporary)
        save_file(head, temporary / "classifier.safetensors")
        (temporary / "README.md").write_text(readme)
        (temporary / "kontrast.json").write_text(json.dumps(about, indent=2) + "\n")
    return folder


def _checked_folder(output: str | None, run: RunFolder) -> Path:
    if output == "":
        raise ValueError("output: found '', allowed: a folder, or null for one in the run")
    folder = Path(output) if output else run.path / "export"
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"output: {folder} is no folder; allowed: a new or empty folder")
    if folder.exists() and any(folder.iterdir()) and not (folder / "kontrast.json").exists():
        raise ValueError(f"output: {folder} holds something else; allowed: a new or empty folder")
    return folder
