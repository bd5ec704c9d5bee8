"""What every classification method shares: encoder, linear classifier, optimizer groups, metrics, the step protocol."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal

import lightning.pytorch as pl
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torchmetrics import Metric, MetricCollection
from torchmetrics.classification import MulticlassAccuracy, MulticlassF1Score

from lightning_modules.gradient_cache import embed_in_chunks
from lightning_modules.heads.linear_solver import Solver, solve_and_choose
from lightning_modules.heads.text_to_text import TextToTextHead
from losses import pair_gradients

Batch = dict[str, Any]
NOT_INPUTS = ("labels", "indices", "num_views")  # what a batch holds besides that which the encoder reads
MONITORED = ("loss", "accuracy", "macro_f1", "micro_f1")  # what an evaluation logs, as SPLIT/NAME


def derived_seed(*parts: int | str) -> int:
    """A seed that depends on all parts: the same parts give the same stream in a resumed run."""
    return zlib.crc32("/".join(map(str, parts)).encode())


def inputs_of(batch: Batch) -> dict[str, Tensor]:
    """What the encoder reads of a batch, (V*B, ...), in the order in which it takes them; or `features` instead."""
    return {key: value for key, value in batch.items() if key not in NOT_INPUTS}


class EncoderModule(pl.LightningModule):
    """An encoder under a loss: seeds, accumulation, optimizer groups and checkpoints that every method shares.

    Args:
        encoder: the shared encoder, inputs (B, ...) -> embeddings (B, `hidden_size`): of texts, images or whatever the
            data set holds.
        loss: the method's loss (`loss=` in the config).
        optimizer: partial, called with the parameter groups.
        scheduler: partial, called with the optimizer and the number of steps.
        name: of the method, as in the config.
        seed: of the run; everything random in a step derives from it, the epoch and the step.
        num_views: how many views of a row a training batch carries.
        head_lr: learning rate of everything that is not the encoder.

    `training_step` returns a dict: the "loss" and its parts, and where the method contrasts the rows of a batch with
    each other `pair_gradients`, a function that gives what `GradientConflict` counts.
    """

    # What a method takes of the other groups of a config; `engine.composition` checks it before anything is built.
    serves: ClassVar[str] = "classification"  # or "clustering": which tasks take the method
    losses: ClassVar[tuple[type[nn.Module], ...]] = (nn.Module,)
    protocols: ClassVar[tuple[str, ...]] = ("clean", "few_shot", "kfold", "published")
    encoder_training: ClassVar[tuple[str, ...]] = ("full", "top_layers", "frozen")  # values of encoder.train
    unused_groups: ClassVar[tuple[str, ...]] = ()
    # of the arguments that methods share: when this one reads them, as "KEY=VALUE" of its own; None: never
    reads_when: ClassVar[Mapping[str, str | None]] = MappingProxyType({})
    reads_loss_when: ClassVar[str | None] = None  # when it reads the options of its loss: "KEY>0"; None: always
    reads_unlabelled: ClassVar[bool | str] = False  # whether the split "unlabelled" is of use to it, or when: "KEY>0"
    reads_names: bool = False  # whether it reads what the classes are called; of a class, whatever its options
    trains_unlabelled: ClassVar[bool] = False  # whether its train batches hold those rows too, behind the train rows
    rows_beside: str | None = None  # "reversed": each train batch holds as many rows again, drawn so, behind its own
    rows_afterwards: str | None = None  # "class_balanced": so are the train batches from `batches_before` of the run on
    kinds: ClassVar[tuple[str, ...] | None] = None  # of data, as `Dataset.kind` names them; None: whatever is encoded
    state_of_rows: ClassVar[tuple[str, ...]] = ()  # buffers that tell of the train rows; start_from leaves them as new
    loss: Any  # one of `losses`: what it is called with is between the two
    pretrained: tuple[str, ...] = ("encoder.",)  # parameters that begin so have the optimizer's rate, others `head_lr`

    def __init__(
        self,
        encoder: Any,
        loss: nn.Module,
        optimizer: Callable,
        scheduler: Callable,
        name: str,
        seed: int = 0,
        num_views: Annotated[int, ">= 1", "<= 64"] = 1,
        head_lr: Annotated[float, "> 0"] = 1e-3,
    ) -> None:
        super().__init__()
        self.name = name
        self.encoder = encoder
        self.loss = loss
        self.optimizer, self.scheduler = optimizer, scheduler
        self.seed, self.num_views, self.head_lr = seed, num_views, head_lr
        self.rates: dict[str, float] = {}  # of parameters by name, where not `head_lr`
        self.micro_batch, self.accumulation_weight = 0, 1.0  # number and weight of a batch within its optimizer step
        self.gradient_cache_chunk: int | None = None
        self.run_id: str | None = None
        self._pair_gradients: Callable[[], tuple[Tensor, Tensor]] | None = None

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Outputs of a batch by name."""
        raise NotImplementedError

    def embed(self, batch: Batch) -> Tensor:
        """Embeddings of all views in one encoder pass, (V*B, D), view-major; cached features are used as they are."""
        if "features" in batch:
            return batch["features"].float()
        return self.encode(self.encoder, *inputs_of(batch).values())

    def encode(self, function: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
        """`function(*inputs)`, rows in, rows out; in training by chunks where `gradient_cache_chunk` is set.

        `function` is an encoder, or a function of this module's parameters.
        """
        learns = self.training or torch.is_grad_enabled()  # a method may train in eval mode, and encodes keys without
        if self.gradient_cache_chunk is None or not learns:
            return function(*inputs)
        owner = function if isinstance(function, nn.Module) else self
        return embed_in_chunks(function, owner.parameters(), self.gradient_cache_chunk, *inputs)

    def training_losses(self, batch: Batch) -> dict[str, Tensor]:
        """The method's scalar losses; "loss" is what is minimised, the others are logged."""
        raise NotImplementedError

    def further_texts(self) -> list[dict[str, Tensor]]:
        """Batches of tokens that training reads beside those of the data."""
        return []

    def watch_pairs(self, loss: Callable[..., Tensor], embeddings: Tensor, labels: Tensor) -> None:
        """Let callbacks ask how this step's contrastive loss pulls at each pair; see `losses.pair_gradients`."""
        embeddings = embeddings.detach()
        self._pair_gradients = lambda: (pair_gradients(loss, embeddings), labels)

    def training_step(self, batch: Batch, batch_idx: int) -> dict[str, Any]:
        losses = self.training_losses(batch)
        for name, value in losses.items():
            self._log_mean(f"train/{name}", value.detach(), len(batch["labels"]))
        parts: dict[str, Any] = {name: value.detach() for name, value in losses.items()}
        if self._pair_gradients is not None:
            parts["pair_gradients"] = self._pair_gradients
        return parts | {"loss": losses["loss"] * self.accumulation_weight}

    def _log_mean(self, name: str, value: Tensor, num_rows: int) -> None:
        """Log the mean over the rows of an epoch and of all processes."""
        # Lightning averages sizes over processes in whole numbers: a multiple of their number loses nothing
        processes = dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1
        self.log(name, value, on_step=False, on_epoch=True, batch_size=num_rows * processes, sync_dist=True)

    def information(self, has_unlabelled: bool) -> str:
        """What it learns from besides labelled texts: "N" the names of the classes, "U" texts without a label."""
        return "N" if self.reads_names else ""

    @torch.no_grad()
    def embedded_splits(self, datamodule: Any, *only: str) -> dict[str, tuple[Tensor, Tensor]]:
        """Embeddings (N, D) and labels of what the run learns from, by the encoder of now, on the CPU.

        Args:
            datamodule: the run's; "train", "val" and "unlabelled", as far as they are there, never test.
            only: these of them.
        """
        was_training, splits = self.training, {}
        self.eval()
        for split in only or datamodule.learning_splits:
            labels = torch.from_numpy(datamodule.labels[split])
            embeddings = torch.empty(len(labels), self.encoder.hidden_size)
            for batch in datamodule.row_loader(split, every_row=True):
                with self.trainer.precision_plugin.forward_context():
                    encoded = self.embed({key: self._moved(value) for key, value in batch.items()})
                embeddings[batch["indices"]] = encoded.float().cpu()
            splits[split] = embeddings, labels
        self.train(was_training)
        return splits

    def _moved(self, value: Any) -> Any:
        return value.to(self.device) if isinstance(value, Tensor) else value

    def predict_step(self, batch: Batch, batch_idx: int) -> dict[str, Tensor]:
        return {**self(batch), "indices": batch["indices"]}

    def on_train_epoch_start(self) -> None:
        self.train()

    def on_train_batch_start(self, batch: Batch, batch_idx: int) -> None:
        """Dropout of a step depends on (seed, step, rank) alone: a resumed run draws the same masks.

        Once an epoch would not do: loaders draw from the same stream, and a resumed run makes more of them.
        """
        number = self.trainer.accumulate_grad_batches
        self.micro_batch = batch_idx % number
        # Lightning divides by the number, also in the last step of an epoch, which may hold fewer batches
        remaining = self.trainer.num_training_batches - (batch_idx - self.micro_batch)
        self.accumulation_weight = number / min(number, remaining)
        self._seed_dropout(derived_seed(self.seed, "dropout", *self._step(), self.global_rank))

    def _seed_dropout(self, seed: int) -> None:
        """As `torch.manual_seed`, which on the CPU costs a step of a head a fifteenth: it looks for each kind of
        accelerator first."""
        if self.device.type == "cpu":
            torch.default_generator.manual_seed(seed)
        else:
            torch.manual_seed(seed)

    def _step(self) -> tuple[int, ...]:
        """What tells the batches of a run apart: the optimizer step, and which of its batches where there are more."""
        return (self.global_step, self.micro_batch) if self.micro_batch else (self.global_step,)

    def step_generator(self) -> torch.Generator:
        """Random numbers of this step's loss: the same on every rank and in a resumed run."""
        generator = torch.Generator(device=self.device)
        return generator.manual_seed(derived_seed(self.seed, "step", *self._step()))

    @property
    def max_epochs(self) -> int:
        """Epochs of the whole run."""
        assert self.trainer.max_epochs is not None  # the config names a number
        return self.trainer.max_epochs

    @property
    def total_steps(self) -> int:
        """Optimizer steps of the whole run."""
        return int(self.trainer.estimated_stepping_batches)

    def progress(self, by: Literal["step", "epoch"]) -> tuple[int, int]:
        """Steps or epochs that are done, and those of the whole run."""
        if by == "epoch":
            return self.current_epoch, self.max_epochs
        return self.global_step, self.total_steps

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Encoder and heads, each with and without weight decay (none on biases and norms)."""
        groups: dict[tuple[float | None, bool], list[nn.Parameter]] = {}
        for name, parameter in self.named_parameters():
            if parameter.requires_grad:
                rate = None if name.startswith(self.pretrained) else self.rates.get(name, self.head_lr)
                groups.setdefault((rate, parameter.ndim > 1), []).append(parameter)
        return [
            {"params": parameters}
            | ({} if rate is None else {"lr": rate})
            | ({} if decays else {"weight_decay": 0.0})
            for (rate, decays), parameters in groups.items()
        ]

    def configure_optimizers(self) -> Any:
        try:
            optimizer = self.optimizer(self.parameter_groups())
        except (ValueError, TypeError) as error:
            raise ValueError(f"optimizer: {error}; allowed: what its _target_ takes") from error
        _begin_momentum(optimizer)
        try:
            schedule = self.scheduler(optimizer, total_steps=self.total_steps)
        except TypeError as error:
            raise ValueError(f"scheduler: {error}; allowed: one that takes optimizer and total_steps") from error
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def configure_gradient_clipping(self, optimizer, gradient_clip_val=None, gradient_clip_algorithm=None) -> None:
        """Clip by global norm. Lightning refuses it for fused optimizers, which is needed only under loss scaling."""
        if self.trainer.precision == "16-mixed":
            super().configure_gradient_clipping(optimizer, gradient_clip_val, gradient_clip_algorithm)
        elif gradient_clip_val is not None:
            nn.utils.clip_grad_norm_(self.parameters(), gradient_clip_val)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Names the run; what is not trained of the encoder is read from its own files, not from every checkpoint."""
        checkpoint["run_id"] = self.run_id
        trained = {f"encoder.{k}" for k, parameter in self.encoder.named_parameters() if parameter.requires_grad}
        if trained:  # running means of batch norm change with the parameters
            trained |= {f"encoder.{k}" for k, _ in self.encoder.named_buffers()}
        state = checkpoint["state_dict"]
        checkpoint["state_dict"] = {k: v for k, v in state.items() if not k.startswith("encoder.") or k in trained}

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Raises ValueError where the checkpoint is of another run, that is, of another config."""
        if checkpoint.get("run_id") != self.run_id:
            raise ValueError(
                f"checkpoint: found one of run {checkpoint.get('run_id')}, allowed: of run {self.run_id}, as the "
                f"folder is called; in training force=true starts anew"
            )
        own = {name for name, _ in self.named_parameters(remove_duplicate=False)}
        own |= {name for name, _ in self.named_buffers(remove_duplicate=False)}
        # layers in 4 bits say more of their weights than they read
        encoder_state = {k: v for k, v in self.state_dict().items() if k.startswith("encoder.") and k in own}
        checkpoint["state_dict"] = {**encoder_state, **checkpoint["state_dict"]}


def _begin_momentum(optimizer: torch.optim.Optimizer) -> None:
    """Momentum from 0 for all: fused SGD fails where a group has some before others, as heads of later stages have."""
    if isinstance(optimizer, torch.optim.SGD) and optimizer.defaults["fused"] and optimizer.defaults["momentum"]:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                optimizer.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)


class ClassifierModule(EncoderModule):
    """Base of all methods that classify. A method overrides `training_losses`.

    Rows have one label each; methods for any number of them derive from `lightning_modules.methods.multilabel.base`.

    Args:
        encoder, loss, optimizer, scheduler, name, seed, num_views, head_lr: see `EncoderModule`.
        class_counts: rows a class in the thinned train split, shape (C,).
        dropout: on the embeddings, before the classifier.
        classifier_bias: whether the linear classifier has a bias.

    Evaluation steps return `logits` (B, C), `embeddings` (B, D), `labels` (B,), `indices` (B,); under a head that
    generates `predictions` (B,) too.
    """

    needs_labels: ClassVar[bool] = True  # whether without a label there is nothing that it could learn from
    needs_every_class: ClassVar[bool] = False  # whether it, whatever the loss, weighs or shifts by the rows of each
    multilabel = False  # whether texts have any number of labels: batches then carry them as (B, C) of 0 and 1
    unit_norm_embeddings = False  # whether `prediction_head` wants embeddings of unit length
    embedding_parts = 1  # into how many equal parts it then wants them cut, each of unit length
    unit_norm_logits = False  # whether its logits are then brought to unit length
    losses_of_words: ClassVar[tuple[type[nn.Module], ...]] = ()  # those that it takes with `head=text_to_text`
    generates = False  # whether that head stands for the linear classifier
    class_counts: Tensor
    classifier: Any  # linear, or the head that generates
    linear_loss: Callable[[Tensor, Tensor], Tensor] | None = None  # logits and labels -> scalar, where that is all
    solved_from: ClassVar[str] = "features"  # or "tokens", or "both": what `solve` takes of a row
    selected_by_epoch: ClassVar[bool] = True  # whether an epoch is chosen by its figures; otherwise the last one is
    encodes_texts_alone: ClassVar[bool] = True  # so that what is frozen of the encoder gives the same at each step
    solved_after_training = False  # whether `solve` is called with the embeddings of the trained encoder too

    def __init__(
        self,
        encoder: Any,
        loss: nn.Module,
        class_counts: Tensor,
        optimizer: Callable,
        scheduler: Callable,
        name: str,
        seed: int = 0,
        num_views: Annotated[int, ">= 1", "<= 64"] = 1,
        head_lr: Annotated[float, "> 0"] = 1e-3,
        dropout: Annotated[float, ">= 0", "< 1"] = 0.1,
        classifier_bias: bool = True,
    ) -> None:
        super().__init__(encoder, loss, optimizer, scheduler, name, seed, num_views, head_lr)
        self.register_buffer("class_counts", class_counts, persistent=False)
        self.num_classes = len(class_counts)
        self.classifier = nn.Linear(encoder.hidden_size, self.num_classes, bias=classifier_bias)
        self.dropout = nn.Dropout(dropout)
        self.metrics: Any = nn.ModuleDict({split: self._make_metrics(split) for split in ("val", "test")})
        self.selection_split = "val"  # the split that chooses the epoch; "test" under protocol=published only

    def _make_metrics(self, split: str) -> MetricCollection | Metric:
        classes = self.num_classes
        # a class that occurs and is never predicted counts as 0; one that occurs in neither does not count
        metrics: dict[str, Metric | MetricCollection] = {
            "accuracy": MulticlassAccuracy(classes, average="micro"),
            "macro_f1": MulticlassF1Score(classes, average="macro"),
            "micro_f1": MulticlassF1Score(classes, average="micro"),
        }
        return MetricCollection(metrics, prefix=f"{split}/", compute_groups=False)

    @property
    def is_solved(self) -> bool:
        """Whether the classifier is solved to its optimum and not trained: nothing else could be learned."""
        return self.linear_loss is not None and self.encoder.frozen and not self.generates

    def before_solving(self, datamodule: Any) -> None:
        """After training, with the weights of the selected epoch, before `solve` is given embeddings; here nothing.

        Args:
            datamodule: the run's.
        """

    def solve(self, splits: Mapping[str, tuple[Any, Tensor]]) -> dict[str, Any]:
        """Set the linear classifier to the minimum of `linear_loss` on the rows of "train"; returns what was chosen.

        The strength of the penalty is the one with the lowest loss on the rows of "val".

        Args:
            splits: embeddings (N, D) and labels of "train", "val" and "unlabelled", as far as they are there; in place
                of embeddings the token ids of each row, or both in a pair, where `solved_from` says so.
        """
        assert self.linear_loss is not None
        has_bias = self.classifier.bias is not None
        train, val = splits["train"], splits["val"]
        solver = self.linear_solver(*train, has_bias)
        selection = solve_and_choose(self.linear_loss, train, val, self.num_classes, has_bias, solve=solver)
        self.set_classifier(selection.best.weight, selection.best.bias)
        losses = {f"{strength:.3g}": value for strength, value in selection.validation_losses.items()}
        return {
            "solver/penalty": selection.best.strength,
            "solver/converged": selection.best.converged,
            "solver/validation_losses": losses,
        }

    def linear_solver(self, embeddings: Tensor, labels: Tensor, has_bias: bool) -> Solver | None:
        """One made for `linear_loss` on these rows (N, D), where there is a faster one than for any loss."""
        return None

    def begin(self, splits: Mapping[str, tuple[tuple[Any, Tensor], Tensor]]) -> dict[str, Any]:
        """Before training, of a method that trains on texts without labels; returns figures.

        Args:
            splits: token ids of each row with embeddings (N, D) by the encoder as it comes, and labels (N,), of
                "train" and "unlabelled".
        """
        raise NotImplementedError

    def use_head(self, head: TextToTextHead) -> None:
        """Let a decoder that answers in words stand for the linear classifier; it learns at the optimizer's rate."""
        self.classifier, self.generates, self.reads_names = head, True, head.reads_names
        self.pretrained = ("encoder.", "classifier.")

    def classified(self, batch: Batch, loss: Callable[[Tensor], Tensor], labels: Tensor) -> tuple[Tensor, Tensor]:
        """Embeddings (V*B, D) of all views and their classification loss.

        Args:
            loss: of the linear classifier's logits; under a head that generates, cross-entropy of the tokens of the
                label words stands in its place.
            labels: of all views, (V*B,).
        """
        if not self.generates:
            output = self(batch)
            return output["embeddings"], loss(output["logits"])
        states = self.encoder.states(batch["input_ids"], batch["attention_mask"])
        embeddings = self.encoder.pooled(states, batch["attention_mask"])
        return embeddings, self.classifier.loss(states, batch["attention_mask"], labels)

    def logits(self, embeddings: Tensor) -> Tensor:
        """Class scores (B, C) in float32; inference takes their argmax."""
        return self.classifier(self.dropout(embeddings)).float()

    def probabilities(self, logits: Tensor) -> Tensor:
        """Of the classes (B, C), from the logits of prediction."""
        return logits.softmax(-1)

    def evaluation_loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """What SPLIT/loss means, a scalar; the same for all methods, whatever they minimise."""
        return nn.functional.cross_entropy(logits, labels)

    def prediction_head(self) -> dict[str, Tensor]:
        """`weight` (C, D) and perhaps `bias` (C,): what gives the logits of prediction from embeddings, for export.

        Where words count too, `words` (C, V) and `inverse_frequency` (V,) of `lightning_modules.heads.tfidf`.
        """
        return self.classifier.state_dict()

    @torch.no_grad()
    def set_classifier(self, weight: Tensor, bias: Tensor) -> None:
        """Give the linear classifier its weight (C, D) and, where it has one, its bias (C,)."""
        self.classifier.weight.copy_(weight)
        if self.classifier.bias is not None:
            self.classifier.bias.copy_(bias)

    @torch.no_grad()
    def calibrate(self, scale: float, offset: Tensor) -> None:
        """From now on the logits of prediction are `scale * logits + offset`; `offset` (C,) where there is a bias."""
        self.classifier.weight.mul_(scale)
        if self.classifier.bias is not None:
            self.classifier.bias.mul_(scale).add_(offset.to(self.classifier.bias))

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """`embeddings` (V*B, D) and `logits` (V*B, C) of a batch."""
        if self.generates:
            return self._generated(batch, answers=False)
        embeddings = self.embed(batch)
        return {"embeddings": embeddings, "logits": self.with_others(self.logits(embeddings), batch)}

    def with_others(self, logits: Tensor, batch: Batch) -> Tensor:
        """Logits (V*B, C) of the embeddings, and of what a method reads of a batch beside them; here nothing."""
        return logits

    def _generated(self, batch: Batch, answers: bool) -> dict[str, Tensor]:
        """The same from a head that generates, and its answers as `predictions` (B,), -1 where one is no class."""
        states, mask = self.encoder.states(batch["input_ids"], batch["attention_mask"]), batch["attention_mask"]
        output = {"embeddings": self.encoder.pooled(states, mask), "logits": self.classifier(states, mask)}
        return output | ({"predictions": self.classifier.answers(states, mask)} if answers else {})

    def _evaluation_step(self, batch: Batch, split: str) -> dict[str, Tensor]:
        output = self._generated(batch, answers=True) if self.generates else self(batch)
        labels = batch["labels"]
        self._log_mean(f"{split}/loss", self.evaluation_loss(output["logits"], labels), len(labels))
        metrics = self.metrics[split]
        decided = output["logits"]
        if self.generates:  # an answer that is no class is some wrong class for the figures of an epoch
            decided = torch.where(output["predictions"] < 0, (labels + 1) % self.num_classes, output["predictions"])
        metrics.update(decided, labels)
        return {**output, "labels": labels, "indices": batch["indices"]}

    def validation_step(self, batch: Batch, batch_idx: int) -> dict[str, Tensor]:
        return self._evaluation_step(batch, self.selection_split)

    def test_step(self, batch: Batch, batch_idx: int) -> dict[str, Tensor]:
        return self._evaluation_step(batch, "test")

    def _log_metrics(self, split: str) -> None:
        metrics = self.metrics[split]
        self.log_dict(metrics.compute(), sync_dist=True)
        metrics.reset()

    def on_validation_epoch_end(self) -> None:
        self._log_metrics(self.selection_split)

    def on_test_epoch_end(self) -> None:
        self._log_metrics("test")

    @property
    def is_selectable(self) -> bool:
        """Whether the weights of now may be chosen; a method of several stages says no while no classifier is there."""
        return True
