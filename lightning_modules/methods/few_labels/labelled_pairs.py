"""The encoder learns from pairs of the labelled rows, for a few steps, and says what it makes of held-out ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional

from lightning_modules.base import EncoderModule, derived_seed
from lightning_modules.heads.linear_solver import LinearSolution, solve_linear
from lightning_modules.heads.stacking import lowest_present
from losses import cosine_pairs


class LabelledPairs:
    """SetFit's objective on the encoder of a method, before what the method itself does.

    Every process does the same steps on the same rows, in the precision of the trainer; under 16-mixed in float32, for
    they have no scaler of gradients.

    Args:
        module: whose encoder learns, at the rate of its optimizer.
        datamodule: its "train" rows are the labelled ones.
        labels: (N,) class indices of those.
        num_classes: C.
        on_step: called after each step.
    """

    def __init__(
        self, module: EncoderModule, datamodule: Any, labels: Tensor, num_classes: int, on_step: Callable[[], None]
    ) -> None:
        self.module, self.datamodule, self.labels, self.num_classes = module, datamodule, labels, num_classes
        self.on_step = on_step
        self.parameters = [parameter for parameter in module.encoder.parameters() if parameter.requires_grad]

    def held_out_scores(self, folds: Tensor, steps: int) -> Tensor:
        """Scores (N, C) of every row by an encoder and a regression that have seen the other folds alone.

        A class without a row in those has the lowest score of the others (`heads.stacking.lowest_present`).
        The encoder is then what it was.
        """
        scores = torch.zeros(len(self.labels), self.num_classes, dtype=torch.float64)
        before = [parameter.detach().clone() for parameter in self.parameters]
        for fold in folds.unique().tolist():
            self.train(folds != fold, steps, f"fold {fold}")
            embeddings, _ = self.module.embedded_splits(self.datamodule, "train")["train"]
            embeddings = functional.normalize(embeddings, dim=1)
            solution = self.regression(embeddings, folds != fold)
            of_all = embeddings.double() @ solution.weight.T + solution.bias
            is_present = self.labels[folds != fold].bincount(minlength=self.num_classes) > 0
            of_all = torch.where(is_present, of_all, lowest_present(of_all, is_present))
            scores[folds == fold] = of_all[folds == fold]
            with torch.no_grad():
                for parameter, value in zip(self.parameters, before, strict=True):
                    parameter.copy_(value)
        return scores

    def regression(self, embeddings: Tensor, is_used: Tensor) -> LinearSolution:
        """Logistic regression (scikit-learn's C = 1) of unit-length embeddings (N, D), on the rows that are used."""
        rows, labels = embeddings[is_used], self.labels[is_used]
        strength = 1 / len(rows)
        return solve_linear(lambda logits: functional.cross_entropy(logits, labels), rows, self.num_classes, strength)

    def train(self, is_used: Tensor, steps: int, stream: str) -> None:
        """Let the encoder learn from pairs within batches of the rows that are used (N,)."""
        module, seed = self.module, self.module.seed
        groups = [group for group in module.parameter_groups() if "lr" not in group]
        optimizer, clip = module.optimizer(groups), module.trainer.gradient_clip_val
        is_scaled = module.trainer.precision == "16-mixed"  # by Lightning, in the steps that it takes itself
        module.train()
        for step, positions in zip(range(steps), self._batches(is_used, stream), strict=False):
            torch.manual_seed(derived_seed(seed, "pairs", stream, step))
            batch = self.datamodule.text_batch("train", positions.numpy())
            inputs = (batch[name].to(module.device) for name in ("input_ids", "attention_mask"))
            with nullcontext() if is_scaled else module.trainer.precision_plugin.forward_context():
                embeddings = module.encode(module.encoder, *inputs)
            cosine_pairs(embeddings.float(), batch["labels"].to(module.device)).backward()
            if clip is not None:
                nn.utils.clip_grad_norm_(self.parameters, clip)
            optimizer.step()
            optimizer.zero_grad()
            self.on_step()
        same_everywhere(self.parameters)

    def _batches(self, is_used: Tensor, stream: str) -> Iterator[Tensor]:
        """Rows in new orders without end, as many at a time as the sampler's batches have."""
        rows = is_used.nonzero().flatten()
        generator = torch.Generator().manual_seed(derived_seed(self.module.seed, "rows of pairs", stream))
        while True:
            yield from rows[torch.randperm(len(rows), generator=generator)].split(self.datamodule.sampler.batch_size)


def same_everywhere(parameters: Iterable[Tensor]) -> None:
    """Those of the first process on all of them: sums may be taken in another order on another device."""
    if dist.is_available() and dist.is_initialized():
        for parameter in parameters:
            dist.broadcast(parameter.data, 0)
