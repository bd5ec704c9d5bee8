"""Training the top blocks alone: what the blocks below make of a text never changes, so it is computed once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

LARGEST = 2**31  # bytes of hidden states that are remembered; where there are more, they are computed each time


class _Reached(Exception):
    """The top blocks are reached; holds the hidden states below them."""


def blocks_of(model: nn.Module) -> tuple[str, nn.ModuleList]:
    """The blocks of a transformer, its longest list of modules, and where they are in it."""
    lists = {name: module for name, module in model.named_modules() if isinstance(module, nn.ModuleList)}
    return max(lists.items(), key=lambda named: len(named[1]))


class TopLayers:
    """The last blocks of a transformer, which train, over the rest, which does not and stays in eval mode.

    Args:
        model: a `transformers` encoder.
        number: how many blocks train.

    Raises:
        ValueError: the model has fewer blocks.
    """

    def __init__(self, model: nn.Module, number: int) -> None:
        name, self.blocks = blocks_of(model)
        if number > len(self.blocks):
            raise ValueError(f"encoder.num_top_layers: found {number}; allowed: 1 to {len(self.blocks)}")
        self.model, self.number_below = model, len(self.blocks) - number
        self.parent, self.name = model.get_submodule(name.rpartition(".")[0]), name.rpartition(".")[2]
        self.top = self.blocks[self.number_below :]
        self.top.requires_grad_(True)
        self.remembered: dict[bytes, Tensor] = {}

    def train(self, mode: bool) -> None:
        """Dropout in the blocks that train; elsewhere it would be noise that no weight can answer."""
        self.model.eval()
        self.top.train(mode)

    @torch.inference_mode()
    def remember(self, batches: Iterable[dict[str, Any]], largest: int = LARGEST, bf16: bool = False) -> bool:
        """Keep the hidden states below the top of all texts of these batches of tokens, as float16, or none of them;
        with `bf16` computed as under autocast.

        Returns whether they are kept: not where they are larger than `largest` bytes, the model cannot begin at its top
        blocks (T5 makes the positions of all blocks in the first), or float16 cannot hold them.
        """
        was_training, remembered_bytes = self.top.training, sum(state.nbytes for state in self.remembered.values())
        self.train(False)
        for batch in batches:
            tokens, mask = batch["input_ids"], batch["attention_mask"]
            keys = _keys(tokens, mask)
            if all(key in self.remembered for key in keys):
                continue  # clustering evaluates the texts that it trains on
            with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
                states, first = self.below(tokens, mask), not self.remembered
            for key, state, length in zip(keys, states, mask.sum(1).tolist(), strict=True):
                if key not in self.remembered:
                    self.remembered[key] = state[:length].half()
                    remembered_bytes += self.remembered[key].nbytes
            exact = self.below(tokens[:2], mask[:2]) if first and bf16 else states[:2]
            if remembered_bytes > largest or (first and not self._serves(exact, tokens[:2], mask[:2])):
                self.remembered.clear()
                break
        self.train(was_training)
        return bool(self.remembered)

    def below(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """The hidden states (B, L, D) that the first of the top blocks takes; no block from there on is run."""

        def stop(block: nn.Module, args: tuple, kwargs: dict[str, Any]) -> None:
            raise _Reached(args[0] if args else kwargs["hidden_states"])

        hook = self.top[0].register_forward_pre_hook(stop, with_kwargs=True)
        try:
            self.model(input_ids=tokens, attention_mask=mask)
        except _Reached as reached:
            return reached.args[0]
        finally:
            hook.remove()
        raise AssertionError("the model ran past its own blocks")

    def _serves(self, states: Tensor, tokens: Tensor, mask: Tensor) -> bool:
        """Whether float16 holds the states, and the model begins at its top blocks: with these, so with all."""
        if not bool(states.half().isfinite().all()):
            return False
        full = self.model(input_ids=tokens, attention_mask=mask).last_hidden_state
        try:
            resumed = self.run(states, tokens, mask).last_hidden_state
        except (AttributeError, IndexError, TypeError, ValueError):
            return False
        is_token = mask.bool()
        return torch.allclose(resumed[is_token], full[is_token], atol=1e-4, rtol=1e-4)

    def recall(self, tokens: Tensor, mask: Tensor) -> Tensor | None:
        """Hidden states (B, L, D) below the top, float32, zero at pads; None if a text is not remembered."""
        if not self.remembered or tokens.device.type != "cpu":
            return None
        keys = _keys(tokens, mask)
        if any(key not in self.remembered for key in keys):
            return None
        rows = [self.remembered[key] for key in keys]
        states = torch.zeros(*tokens.shape, rows[0].shape[1])
        for row, state in zip(states, rows, strict=True):
            row[: len(state)] = state
        return states

    def run(self, states: Tensor, tokens: Tensor, mask: Tensor) -> Any:
        """The model's output from the hidden states (B, L, D) below its top blocks."""
        with self._without_the_rest(states):
            return self.model(input_ids=tokens, attention_mask=mask)

    @contextmanager
    def _without_the_rest(self, states: Tensor) -> Iterator[None]:
        def begin(block: nn.Module, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
            return (states, *args[1:]), {name: value for name, value in kwargs.items() if name != "hidden_states"}

        hook = self.top[0].register_forward_pre_hook(begin, with_kwargs=True)
        setattr(self.parent, self.name, self.top)
        try:
            yield
        finally:
            setattr(self.parent, self.name, self.blocks)
            hook.remove()


def _keys(tokens: Tensor, mask: Tensor) -> list[bytes]:
    """A text's own token ids, without its pads on the right."""
    rows, lengths = tokens.cpu().numpy(), mask.sum(1).tolist()
    return [row[:length].tobytes() for row, length in zip(rows, lengths, strict=True)]
