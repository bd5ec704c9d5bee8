"""LoRA through peft: small matrices beside the weights of an encoder are trained, the weights rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import torch
from torch import nn


class LoRA:
    """Low-rank adaptation (Hu et al., ICLR 2022): W x + alpha / rank B A x, B zero at the start.

    Args:
        rank: of A and B.
        alpha: scale of the update.
        dropout: on the input of A.
        targets: names of the linear layers, as peft takes them; None: what peft names for the architecture (the
            query and value projections, mostly).
    """

    def __init__(
        self,
        rank: Annotated[int, ">= 1"] = 8,
        alpha: Annotated[float, "> 0"] = 16.0,
        dropout: Annotated[float, ">= 0", "< 1"] = 0.05,
        targets: Sequence[str] | None = None,
    ) -> None:
        self.rank, self.alpha, self.dropout, self.targets = rank, alpha, dropout, targets

    def wrap(self, model: Any, seed: int) -> nn.Module:
        """The model with adapters, which alone have gradients; A is drawn from `seed`.

        Raises:
            ValueError: peft is not installed, knows no targets for the architecture, or finds none of those given.
        """
        try:
            from peft import LoraConfig, get_peft_model
        except ModuleNotFoundError as error:
            raise ValueError("encoder.lora: needs the package peft; pip install '.[lora]'") from error
        targets = list(self.targets) if self.targets is not None else None
        alpha: Any = self.alpha  # peft's types want a whole number, its formula does not
        config = LoraConfig(r=self.rank, lora_alpha=alpha, lora_dropout=self.dropout, target_modules=targets)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            try:
                return get_peft_model(model, config)
            except ValueError as error:
                kind, linear = model.config.model_type, ", ".join(_linear_names(model))
                shown = "null" if targets is None else ", ".join(targets)
                raise ValueError(f"encoder.lora.targets: found {shown}; allowed with {kind}: {linear}") from error


def plain_model(model: Any) -> nn.Module:
    """The transformer itself, adapters merged into its weights where there are any."""
    return model.merge_and_unload() if hasattr(model, "merge_and_unload") else model


def base_model(model: Any) -> nn.Module:
    """The transformer below its adapters, which stay."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def _linear_names(model: nn.Module) -> list[str]:
    names = (name.split(".")[-1] for name, module in model.named_modules() if isinstance(module, nn.Linear))
    return list(dict.fromkeys(names))
