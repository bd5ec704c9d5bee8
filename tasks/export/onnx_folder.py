"""`format=onnx`: a graph from token ids to probabilities, for onnxruntime in any language."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from engine.plan import Plan
from tasks.export.classifier import Classifier, as_probabilities, sample_texts

MODEL = "model.onnx"
INPUTS = ["input_ids", "attention_mask"]
OPSET = 17
SMALLEST = 0.01  # of the largest channel: no channel counts as smaller
LOAD = """
import json
import numpy as np
import onnxruntime
from tokenizers import Tokenizer

about = json.load(open("{folder}/kontrast.json"))
tokenizer = Tokenizer.from_file("{folder}/tokenizer.json")  # cuts and pads as in training
session = onnxruntime.InferenceSession("{folder}/model.onnx")
tokens = tokenizer.encode_batch(["a text"])
inputs = {{
    "input_ids": np.array([row.ids for row in tokens]),
    "attention_mask": np.array([row.attention_mask for row in tokens]),
}}
(probabilities,) = session.run(["probabilities"], inputs)
"""
HOW_TO_LOAD = {
    "one": LOAD + """print([about["label_names"][best] for best in probabilities.argmax(1)])\n""",
    "several": LOAD
    + """for above in probabilities > np.array(about["threshold"]):
    print([about["label_names"][number] for number in np.flatnonzero(above)])\n""",
    "libraries": "onnxruntime and tokenizers",
}


def check(plan: Plan) -> None:
    """Raises ValueError where the extra is not installed."""
    try:
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
    except ImportError as error:
        raise ValueError("format=onnx: needs onnx and onnxruntime; pip install '.[export]'") from error


class _Graph(nn.Module):
    def __init__(self, classifier: Classifier) -> None:
        super().__init__()
        self.model, self.several_labels = classifier.model(), classifier.thresholds is not None
        # plain products: onnxruntime fuses them itself, and knows them better than a traced fused kernel
        self.model.encoder.set_attn_implementation("eager")

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> tuple[Tensor, Tensor]:
        embeddings = self.model.embed(input_ids, attention_mask)
        logits = self.model.classify(embeddings, input_ids, attention_mask)
        return as_probabilities(logits, self.several_labels), embeddings


class _EvenLinear(nn.Module):
    """A linear layer whose inputs lose less where they are rounded to 8 bits, by one step size for all of a batch.

    Channels that are large get smaller by a factor that the weights take back (Xiao et al., SmoothQuant, ICML'23, eq. 3
    and 4; here by the square root of the inputs alone).

    Args:
        linear: the layer.
        largest: (in,) largest absolute input of each channel.
    """

    inverse: Tensor

    def __init__(self, linear: nn.Linear, largest: Tensor) -> None:
        super().__init__()
        factors = largest.clamp_min(SMALLEST * float(largest.max())).sqrt()
        self.weight, self.bias = nn.Parameter(linear.weight * factors), linear.bias
        self.register_buffer("inverse", 1 / factors)

    def forward(self, states: Tensor) -> Tensor:
        return nn.functional.linear(states * self.inverse, self.weight, self.bias)


def _even_out(classifier: Classifier) -> None:
    """Every linear layer of the encoder as an `_EvenLinear`, by what it takes of some texts."""
    largest: dict[str, Tensor] = {}

    def watch(name: str) -> Callable[[nn.Module, tuple[Tensor]], None]:
        def keep(_: nn.Module, inputs: tuple[Tensor]) -> None:
            largest[name] = inputs[0].abs().flatten(0, -2).amax(0)

        return keep

    layers = {name: part for name, part in classifier.encoder.named_modules() if type(part) is nn.Linear}
    hooks = [layer.register_forward_pre_hook(watch(name)) for name, layer in layers.items()]
    texts, tokenizer = sample_texts(classifier.label_names), classifier.tokenizer
    tokens = tokenizer(texts, padding=True, truncation=True, max_length=classifier.max_length, return_tensors="pt")
    classifier.model()(**{name: tokens[name] for name in INPUTS})
    for hook in hooks:
        hook.remove()
    for name in largest:
        classifier.encoder.set_submodule(name, _EvenLinear(layers[name], largest[name]))


def write(classifier: Classifier, folder: Path, quantize: str | None) -> None:
    """The graph, with 8-bit weights and activations where `quantize` is int8, and the tokenizer."""
    tokens = torch.tensor([[5, 6, 7, 8], [5, 6, 7, 8]])
    mask = torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0]])
    with warnings.catch_warnings(), torch.no_grad():
        if quantize == "int8":
            _even_out(classifier)
        warnings.simplefilter("ignore")  # the old tracer is deprecated; the new one takes six times longer
        torch.onnx.export(
            _Graph(classifier).eval(),
            (tokens, mask),
            str(folder / MODEL),
            input_names=INPUTS,
            output_names=["probabilities", "embeddings"],
            dynamic_axes={name: {0: "rows", 1: "tokens"} for name in INPUTS}
            | {name: {0: "rows"} for name in ("probabilities", "embeddings")},
            opset_version=OPSET,
            dynamo=False,
        )
    if quantize == "int8":
        _quantize(folder / MODEL)
    tokenizer = classifier.tokenizer.backend_tokenizer
    tokenizer.enable_truncation(classifier.max_length)
    pad = classifier.tokenizer.pad_token
    tokenizer.enable_padding(pad_id=classifier.tokenizer.pad_token_id, pad_token=pad)
    tokenizer.save(str(folder / "tokenizer.json"))


def _quantize(model: Path) -> None:
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    logging.disable(logging.WARNING)  # advice on graphs of pictures
    try:
        quantize_dynamic(model, model, weight_type=QuantType.QInt8, per_channel=True)
    finally:
        logging.disable(logging.NOTSET)
    graph = onnx.load(model)
    del graph.graph.value_info[:]  # by these shapes onnxruntime fuses sums into a LayerNorm that takes six times longer
    onnx.save(graph, model)


def probabilities(folder: Path, texts: list[str]) -> np.ndarray:
    """Of the classes (N, C), by the folder alone."""
    import onnxruntime
    from tokenizers import Tokenizer

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(str(folder / MODEL), options)
    rows = Tokenizer.from_file(str(folder / "tokenizer.json")).encode_batch(texts)
    columns = ([row.ids for row in rows], [row.attention_mask for row in rows])
    inputs = {name: np.array(values) for name, values in zip(INPUTS, columns, strict=True)}
    return session.run(["probabilities"], inputs)[0]
