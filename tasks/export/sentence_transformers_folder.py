"""`format=sentence_transformers`: the embeddings that the classifier sees, and the classifier beside them.

transformers would load an encoder as a classifier by adding a random one. The encoder therefore lies in a folder of its
own, and its weights in a file that transformers opens for `variant="embeddings"` alone; `sentence_bert_config.json` has
sentence-transformers ask for it.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch

from engine.plan import Plan
from tasks.export.classifier import Classifier, as_probabilities

TRANSFORMER, POOLING = "0_Transformer", "1_Pooling"
VARIANT = "embeddings"  # in the name of the weights
MODES = {"mean": "mean_tokens", "first_token": "cls_token", "last_token": "lasttoken"}  # their name of each pooling
HOW_TO_LOAD = {
    "one": """
import json
from safetensors.numpy import load_file
from sentence_transformers import SentenceTransformer

names = json.load(open("{folder}/kontrast.json"))["label_names"]
classifier = load_file("{folder}/classifier.safetensors")
embeddings = SentenceTransformer("{folder}").encode(["a text"])
logits = embeddings @ classifier["weight"].T + classifier.get("bias", 0)
print([names[best] for best in logits.argmax(1)])
""",
    "several": """
import json
import numpy as np
from safetensors.numpy import load_file
from sentence_transformers import SentenceTransformer

about = json.load(open("{folder}/kontrast.json"))
classifier = load_file("{folder}/classifier.safetensors")
embeddings = SentenceTransformer("{folder}").encode(["a text"])
logits = embeddings @ classifier["weight"].T + classifier.get("bias", 0)
for above in 1 / (1 + np.exp(-logits)) > np.array(about["threshold"]):
    print([about["label_names"][number] for number in np.flatnonzero(above)])
""",
    "libraries": "sentence-transformers and safetensors",
}


def check(plan: Plan) -> None:
    """Raises ValueError where its embeddings are none that the library knows."""
    if plan.encoder.pooling not in MODES:
        allowed = f"{', '.join(MODES)}, or format=transformers"
        raise ValueError(
            f"encoder.pooling: found {plan.encoder.pooling}; allowed with format=sentence_transformers: {allowed}"
        )


def write(classifier: Classifier, folder: Path, quantize: str | None) -> None:
    """Transformer, tokenizer, pooling, and `classifier.safetensors`.

    Raises:
        ValueError: embeddings whose parts have unit length each, which the library has no module for; words that count
            beside the embedding.
    """
    from safetensors.torch import save_file

    if classifier.reads_words:
        raise ValueError(
            f"format: found sentence_transformers; allowed with method={classifier.method}: transformers, onnx"
        )
    if classifier.embedding_parts > 1:
        raise ValueError(
            f"format: found sentence_transformers; allowed with method={classifier.method}: transformers, onnx, or "
            f"method.num_heads=1"
        )
    classifier.encoder.save_pretrained(folder / TRANSFORMER, variant=VARIANT)
    classifier.tokenizer.save_pretrained(folder / TRANSFORMER)
    loading = {"max_seq_length": classifier.max_length, "model_args": {"variant": VARIANT}}
    _json(folder / TRANSFORMER / "sentence_bert_config.json", loading)
    size = classifier.encoder.config.hidden_size
    modes = {f"pooling_mode_{name}": name == MODES[classifier.pooling] for name in MODES.values()}
    (folder / POOLING).mkdir()
    _json(folder / POOLING / "config.json", {"word_embedding_dimension": size, **modes})
    modules = [("Transformer", TRANSFORMER), ("Pooling", POOLING)]
    if classifier.unit_norm_embeddings:
        modules.append(("Normalize", "2_Normalize"))
        (folder / "2_Normalize").mkdir()
    _json(
        folder / "modules.json",
        [
            {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{name}"}
            for number, (name, path) in enumerate(modules)
        ],
    )
    _json(folder / "config_sentence_transformers.json", {"similarity_fn_name": "cosine"})
    save_file(classifier.head, folder / "classifier.safetensors")


def _json(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n")


def probabilities(folder: Path, texts: list[str]) -> np.ndarray:
    """Of the classes (N, C), by the folder alone."""
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError as error:
        raise ValueError("format=sentence_transformers: pip install sentence-transformers") from error
    from safetensors.torch import load_file

    about, head = json.loads((folder / "kontrast.json").read_text()), load_file(folder / "classifier.safetensors")
    embeddings = torch.from_numpy(SentenceTransformer(str(folder), device="cpu").encode(texts))
    logits = embeddings @ head["weight"].T + head.get("bias", torch.zeros(()))
    logits = torch.nn.functional.normalize(logits, dim=-1) if about["unit_norm_logits"] else logits
    return as_probabilities(logits, "threshold" in about).numpy()
