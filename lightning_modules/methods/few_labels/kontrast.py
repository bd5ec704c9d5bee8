"""Names, few labels and texts without any, joined: a discriminant labels the texts, the encoder learns from them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from clustering.two_views import first_copies, surest, word_regression
from lightning_modules.base import Batch, ClassifierModule, derived_seed
from lightning_modules.encoders.transformer import TextEncoder
from lightning_modules.heads.co_training import STEPS, CoTrained, co_trained, word_share
from lightning_modules.heads.discriminant import (
    Discriminant,
    at_least,
    best_discriminant,
    discriminant_em,
    fitted_gaussians,
)
from lightning_modules.heads.linear_solver import solve_and_choose, solve_linear
from lightning_modules.heads.stacking import comparable, fold_numbers, scale_as_sure_as, spread, stacking_weights
from lightning_modules.heads.tfidf import fitted_rows
from lightning_modules.methods.few_labels.labelled_pairs import LabelledPairs, same_everywhere
from lightning_modules.methods.few_labels.linear_words import EmbeddingsAndWords
from lightning_modules.methods.few_labels.prototypes import LEARNED, PrototypesModule, joined
from losses import PseudoLabelLoss

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

Trains = Annotated[bool, "with encoder.train=full|top_layers"]
Averages = Annotated[bool, "with encoder.train=full|top_layers", "with refit=True"]
Steps = Annotated[int, ">= 0", "with encoder.train=full|top_layers"]
FoldSteps = Annotated[Annotated[int, ">= 1"] | None, "with encoder.train=full|top_layers"]
INVERSE_PENALTY = 10.0  # scikit-learn's C of logistic regression where no row is there to choose it
FOLDS = 4  # of the labelled rows, to weigh two sources of guesses
LAST_WORDS = 0.5  # of what words count for in co-EM: an encoder that has learned says more
LEAST_ROWS = 32  # labelled, for that: of 16, chance alone decides which source is right more often


class FirstGuesses(NamedTuple):
    """What is said of all texts before the encoder learns.

    Attributes:
        scores: (N, C) of every text.
        folds: (L,) of the labelled rows.
        held_out: (L, C), their scores where the labels of their fold are withheld, `comparable` over all texts: words
            may take part in some folds alone, and change the scale.
    """

    scores: Tensor
    folds: Tensor
    held_out: Tensor


class KontrastModule(EmbeddingsAndWords, PrototypesModule):
    """From the names and the labels there are to a trained encoder: `method=kontrast`.

    1. The linear discriminant of `prototypes`, over the encoder as it comes, labels every text that has no label, and
       co-EM with the words, tokens of the encoder weighted by TF-IDF, labels them anew where that finds the classes to
       be of about one size (`heads.co_training`).
    2. Where the labels are at least 32 and four a class, and fewer than the texts without one, the encoder learns from
       pairs of labelled rows (`losses.CosinePairLoss`); logistic regression on what it says then starts EM. The scores
       of both discriminants, weighted by how well they tell held-out labels (`heads.stacking`), label the texts.
    3. Encoder and a linear head, a new one or with `solve_head` one that is solved over the encoder as it is then,
       learn from true labels and guesses (`losses.PseudoLabelLoss`).
    4. The discriminant is fitted once more, by EM from the head's own guesses over the trained embeddings; its scores,
       brought to the spread of the head's, are added to them. Half-way through the epochs, and at the end, this sum
       labels the texts anew (`relabel`, `refit`).
    5. Where labels are fewer than the texts without one, each weight of the encoder becomes the mean of what it was and
       what it is (WiSE-FT at 1/2: Wortsman et al., CVPR 2022). A discriminant over its embeddings, fitted to the labels
       of 4. and, of small classes, the names, and a regression on the words of the surest texts, at half weight, then
       predict in place of the head.

    Over a frozen encoder only 1. is left. Where at least as many rows are labelled as embeddings have dimensions,
    logistic regression can be fitted too, and the scores of both are added.

    Args:
        word_steps: of co-EM with the words in 1., >= 0; 0 leaves the words out, in 5. too.
        pair_steps: optimizer steps of 2., >= 0, at the optimizer's rate; 0 leaves 2. out.
        refit: whether step 4 is done after training too.
        average: whether step 5 is done after it.
        fold_steps: of these on each of four folds of the labels, to weigh both sources; None: half as many.
        solve_head: whether the head of 3. begins as logistic regression on the labelled rows, where every class has
            one, and otherwise on all: many classes need more steps than few texts give.
        relabel: whether it is done half-way too, and gives new labels.
        num_views: 1, the text itself.

    The remaining arguments are those of `PrototypesModule` and `ClassifierModule`.

    Raises:
        ValueError: an encoder that is not pretrained; `fold_steps` without `pair_steps`.
    """

    encoder_training = ClassifierModule.encoder_training
    protocols: ClassVar[tuple[str, ...]] = ("fixed", *ClassifierModule.protocols)
    losses: ClassVar[tuple] = (PseudoLabelLoss,)
    unused_groups: ClassVar[tuple[str, ...]] = ("augment", "head")
    reads_unlabelled = True
    trains_unlabelled = True
    is_solved = ClassifierModule.is_solved
    targets: Tensor
    is_true: Tensor
    _first_guesses: FirstGuesses | None = None
    _last_guesses: Tensor | None = None
    _began_with: Sequence[Tensor] = ()

    def __init__(
        self,
        *args: Any,
        word_steps: Steps = STEPS,
        pair_steps: Steps = 60,
        fold_steps: FoldSteps = None,
        solve_head: Trains = False,
        refit: Trains = True,
        average: Averages,
        relabel: Trains = True,
        num_views: Literal[1] = 1,
        **kwargs: Any,
    ) -> None:
        if not isinstance(kwargs["encoder"] if "encoder" in kwargs else args[0], TextEncoder):
            raise ValueError("encoder: found one of words, allowed with method=kontrast: transformers")
        if fold_steps is not None and not pair_steps:
            raise ValueError(f"method.fold_steps: found {fold_steps} beside method.pair_steps=0; allowed: null")
        super().__init__(*args, num_views=num_views, **kwargs)
        self.solved_after_training, self.average, self.relabel = refit, average and refit, relabel
        self.word_steps, self.pair_steps, self.solve_head = word_steps, pair_steps, solve_head
        self.fold_steps = max(pair_steps // 2, 1) if fold_steps is None else fold_steps
        self.unit_norm_embeddings = self.encoder.frozen
        self.words.requires_grad_(False).weight.zero_()  # they are solved, or left out

    def information(self, has_unlabelled: bool) -> str:
        """Over an encoder that trains, the names label texts: where there are none to label, they are not read; nor are
        they over a frozen one where regression is fitted beside."""
        read = super().information(has_unlabelled)
        counts, dimension = self.class_counts, self.encoder.hidden_size
        reads_names = not self._suffice(int(counts.sum()), bool(counts.all()), dimension)
        reads_names = reads_names if self.encoder.frozen else has_unlabelled
        return read if reads_names else read.replace("N", "")

    @staticmethod
    def _suffice(rows: int, has_all_classes: bool, dimension: int) -> bool:
        """Whether labelled rows are enough for logistic regression on embeddings of so many dimensions."""
        return rows >= dimension and has_all_classes

    def linear_loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Cross-entropy of logits (N, C) and labels (N,), a scalar."""
        return functional.cross_entropy(logits, labels)

    def begin(self, splits: Mapping[str, tuple[tuple[Any, Tensor], Tensor]]) -> dict[str, Any]:
        """Label the texts that have no label.

        Args:
            splits: token ids of each row with embeddings (N, D) by the encoder as it comes, and labels (N,).

        Returns:
            Steps of EM where it labels some, and of co-EM with the words and on pairs, 0 where they are left out.
        """
        self.words.weight.zero_()  # those that it started from may have had some
        embeddings, labels = joined({split: (rows[1], known) for split, (rows, known) in splits.items()})
        targets, figures = labels.clone(), {"solver/word_steps": 0, "solver/pair_steps": 0}
        if bool((labels < 0).any()):
            rows = functional.normalize(embeddings, dim=1)
            tokens = [ids for split in LEARNED if split in splits for ids in splits[split][0][0]]
            words = self._words(tokens) if self.word_steps else None
            start = self.discriminant(rows, labels)
            scores, is_fitted = self._first_scores(rows, words, labels, start)
            targets = torch.where(labels < 0, scores.argmax(1), labels)
            figures |= {"solver/steps": start.steps, "solver/word_steps": 0 if is_fitted is None else self.word_steps}
            if self.pair_steps and self._pairs_suffice(labels):
                figures["solver/pair_steps"] = self.pair_steps
                self._first_guesses = FirstGuesses(scores, *self._held_out_scores(rows, words, tokens, labels))
        elif self.class_names is not None or self.pair_steps:
            print(
                "method=kontrast: every text has a label, and names and pairs are not read; allowed: "
                "method=prototypes, method=setfit_pairs, or dataset.unlabelled=FILE",
                file=sys.stderr,
            )
        if self.average and len(labels) > 2 * int((labels >= 0).sum()):
            self._began_with = [parameter.detach().clone() for parameter in self._learning()]
        self.register_buffer("targets", targets, persistent=False)
        self.register_buffer("is_true", labels >= 0, persistent=False)
        self._solve_head(embeddings)
        return figures

    def _solve_head(self, embeddings: Tensor) -> None:
        """Let the head begin as logistic regression on embeddings (N, D), if it is to.

        Of guesses it would make all of them sure, also the wrong ones, which the bounded loss then could not tell.
        """
        if not self.solve_head or self.encoder.frozen:
            return
        targets, is_true = self.targets.cpu(), self.is_true.cpu()
        if len(targets[is_true].unique()) == self.num_classes:
            embeddings, targets = embeddings[is_true], targets[is_true]
        strength = 1 / (INVERSE_PENALTY * len(targets))
        solution = solve_linear(lambda z: self.linear_loss(z, targets), embeddings, self.num_classes, strength)
        self.set_classifier(solution.weight, solution.bias)

    def _words(self, tokens: Sequence[NDArray[np.integer]]) -> csr_matrix:
        """TF-IDF rows (N, V) of the token ids of each text."""
        return fitted_rows(tokens, len(self.encoder.token_embeddings()))[0]

    def _first_scores(self, rows: Tensor, words: csr_matrix | None, labels: Tensor, start: Discriminant) -> CoTrained:
        """What unit-length embeddings (N, D) say of the texts, and words where they are read."""
        if words is None:
            return CoTrained(start.scores(rows), None)
        seed = derived_seed(self.seed, "words") % 2**31
        options = (self.shrinkage, self.label_rows, self.word_steps, seed, self.anchors(), self.name_rows)
        return co_trained(rows, words, labels, start, *options)

    def _pairs_suffice(self, labels: Tensor) -> bool:
        """Whether labels are enough to weigh by, one a class for each fold on the mean, and most texts have none.

        A class without any, which names alone may tell, would be given up: no pair and no held-out label speaks of it.
        """
        known = labels[labels >= 0]
        has_all = len(known.unique()) == self.num_classes
        return has_all and max(LEAST_ROWS, FOLDS * self.num_classes) <= len(known) < len(labels) - len(known)

    def _held_out_scores(
        self, rows: Tensor, words: csr_matrix | None, tokens: Sequence[NDArray[np.integer]], labels: Tensor
    ) -> tuple[Tensor, Tensor]:
        """A fold for each labelled row, and its first scores where its fold's labels are unknown."""
        is_labelled = labels >= 0
        generator = torch.Generator().manual_seed(derived_seed(self.seed, "folds"))
        first = first_copies(tokens[row].tobytes() for row in is_labelled.nonzero().flatten().tolist())
        folds = fold_numbers(labels[is_labelled], torch.from_numpy(first), FOLDS, generator)
        scores = rows.new_zeros(len(folds), self.num_classes, dtype=torch.float64)
        for fold in range(FOLDS):
            withheld = labels.clone()
            withheld[is_labelled.nonzero().flatten()[folds == fold]] = -1
            of_all = self._first_scores(rows, words, withheld, self.discriminant(rows, withheld)).scores
            scores[folds == fold] = comparable(of_all)[is_labelled][folds == fold]
        return folds, scores

    def on_train_epoch_start(self) -> None:
        """Half-way, label the texts anew by what was learned so far: a head of few steps would mislead the rest."""
        super().on_train_epoch_start()
        if self._first_guesses is not None and not self.current_epoch:
            self._learn_pairs(self._first_guesses)
        self._first_guesses = None
        half = -(-self.max_epochs // 2)
        if self.relabel and 0 < self.current_epoch == half and not bool(self.is_true.all()):
            splits = self.embedded_splits(self.trainer.datamodule)  # type: ignore[attr-defined]  # Lightning sets it
            guesses = self._refitted(splits).scores(joined(splits)[0]).argmax(1)
            self.targets.copy_(guesses.to(self.targets).where(~self.is_true, self.targets))

    def _learn_pairs(self, first: FirstGuesses) -> None:
        """Labels by pairs of labelled rows and the first guesses, each for what it is worth on held-out labels."""
        datamodule = self.trainer.datamodule  # type: ignore[attr-defined]  # Lightning sets it
        labels = torch.from_numpy(datamodule.labels["train"])
        watch = self._watched(FOLDS * self.fold_steps + self.pair_steps)
        pairs = LabelledPairs(self, datamodule, labels, self.num_classes, lambda: next(watch))
        held_out = pairs.held_out_scores(first.folds, self.fold_steps)
        weights = stacking_weights(torch.stack([first.held_out, comparable(held_out)]), labels)
        everything = torch.ones_like(labels, dtype=torch.bool)
        pairs.train(everything, self.pair_steps, "all")
        embeddings, all_labels = joined(self.embedded_splits(datamodule))
        rows = functional.normalize(embeddings, dim=1)
        solution = pairs.regression(rows[: len(labels)], everything)
        start = Discriminant(solution.weight.float(), solution.bias.float())
        fitted = self._fitted_again(rows, all_labels, start)
        scores = weights[0] * comparable(first.scores) + weights[1] * comparable(fitted.scores(rows))
        self.targets.copy_(scores.argmax(1).to(self.targets).where(~self.is_true, self.targets))
        self._solve_head(embeddings)
        same_everywhere(self.classifier.parameters())

    def _watched(self, steps: int) -> Iterator[None]:
        """Tell callbacks of each of these steps, which Lightning knows nothing of."""
        for done in range(1, steps + 1):
            for callback in self.trainer.callbacks:  # type: ignore[attr-defined]  # Lightning sets it
                if hasattr(callback, "on_step_beforehand"):
                    callback.on_step_beforehand(done, steps)
            yield

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """With the labels of now, which no later epoch may make anew."""
        super().on_save_checkpoint(checkpoint)
        if hasattr(self, "targets"):
            checkpoint["targets"] = self.targets.cpu()

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        super().on_load_checkpoint(checkpoint)
        weights, own = checkpoint["state_dict"], self.state_dict()
        for name in ("weight", "bias"):  # of when a discriminant stood beside the head, and no words
            if (beside := weights.pop(f"refit_{name}", None)) is not None:
                weights[f"classifier.{name}"] = weights[f"classifier.{name}"] + beside
        checkpoint["state_dict"] = {key: own[key] for key in ("words.weight", "inverse_frequency")} | weights
        if "targets" in checkpoint and hasattr(self, "targets"):
            self.targets.copy_(checkpoint["targets"])

    def training_losses(self, batch: Batch) -> dict[str, Tensor]:
        rows = batch["indices"]
        return {"loss": self.loss(self(batch)["logits"], self.targets[rows], self.is_true[rows])}

    def logits(self, embeddings: Tensor) -> Tensor:
        """Scores (B, C) of embeddings (B, D)."""
        if self.encoder.frozen:
            return super().logits(embeddings)
        if self.training:
            return ClassifierModule.logits(self, embeddings)
        with torch.autocast(embeddings.device.type, enabled=False):  # scores of the discriminant are large
            return ClassifierModule.logits(self, embeddings.float())

    def with_others(self, logits: Tensor, batch: Batch) -> Tensor:
        return super().with_others(logits, batch) if self.words.weight.any() else logits

    def prediction_head(self) -> dict[str, Tensor]:
        head = super().prediction_head()
        return head if self.words.weight.any() else {name: head[name] for name in ("weight", "bias")}

    @torch.no_grad()
    def before_solving(self, datamodule: Any) -> None:
        """Average the encoder, where it is to be, and keep what was said of the texts before."""
        if self._began_with:
            splits = self.embedded_splits(datamodule)
            self._last_guesses = self._refitted(splits).scores(joined(splits)[0])
            for parameter, began in zip(self._learning(), self._began_with, strict=True):
                parameter.lerp_(began.to(parameter), 0.5)

    def _learning(self) -> list[Tensor]:
        """What learns of the encoder; of an adapter, the factor that begins at 0: half of it is half of both."""
        learning = ((name, parameter) for name, parameter in self.encoder.named_parameters() if parameter.requires_grad)
        return [parameter for name, parameter in learning if ".lora_A." not in name]

    def solve(self, splits: Mapping[str, tuple[Any, Tensor]]) -> dict[str, Any]:
        """Over a frozen encoder the classifier; after training what predicts in place of the head.

        Args:
            splits: token ids of each row with embeddings (N, D), and labels (N,), -1 where there is none.
        """
        embedded = {split: (rows[1], labels) for split, (rows, labels) in splits.items()}
        if self.encoder.frozen:
            return self._solve_frozen(embedded)
        if self._last_guesses is not None:
            tokens = [ids for split in LEARNED if split in splits for ids in splits[split][0][0]]
            return self._solve_averaged(tokens, *joined(embedded), self._last_guesses)
        fitted = self._refitted(embedded)
        self.set_classifier(fitted.weight, fitted.bias)
        return {"solver/refit_steps": fitted.steps}

    def _solve_averaged(
        self, tokens: Sequence[NDArray[np.integer]], embeddings: Tensor, labels: Tensor, said: Tensor
    ) -> dict[str, Any]:
        """Discriminant and words, of embeddings (N, D) and tokens, labels (N,) and what was said of the texts (N, C).

        Their sum is as sure, on the mean, as that was.
        """
        rows, known = embeddings.double(), labels >= 0
        assigned = torch.where(known, labels, said.argmax(1))
        weights = torch.where(known, self.label_rows, 1.0).double()
        options = (self.num_classes, at_least(self.shrinkage, rows), None, self.anchors(), self.name_rows)
        weight, bias, _ = fitted_gaussians(rows, weights, assigned, *options)
        scores = rows @ weight.T + bias
        words, frequency = fitted_rows(tokens, len(self.inverse_frequency))
        word_weight = np.zeros(self.words.weight.shape)
        if self.word_steps:
            word_weight, word_bias = self._word_view(words, scores, labels, weights)
            bias = bias + spread(scores) * torch.from_numpy(word_bias)
            word_weight = float(spread(scores)) * word_weight
            scores = rows @ weight.T + bias + torch.from_numpy(words @ word_weight.T)
        scale = scale_as_sure_as(said, scores)
        parts = (scale * weight, scale * bias), scale * torch.from_numpy(word_weight)
        self.place(*parts, torch.from_numpy(frequency))
        return {"solver/last_words": int(self.word_steps > 0)}

    def _word_view(
        self, words: csr_matrix, scores: Tensor, labels: Tensor, weights: Tensor
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Weight (C, V) and bias (C,) of a regression on TF-IDF rows (N, V) of the texts that scores (N, C) are surest
        of, N / C a class, and of labelled ones; its scores have a spread of half of what words count for beside 1."""
        assigned = torch.where(labels >= 0, labels, scores.argmax(1)).numpy()
        number = -(-len(labels) // self.num_classes)
        fitted = surest(scores.numpy(), assigned, number) | (labels >= 0).numpy()
        seed = derived_seed(self.seed, "words") % 2**31
        weight, bias = word_regression(words[fitted], assigned[fitted], self.num_classes, seed, weights.numpy()[fitted])
        counts = LAST_WORDS * word_share(len(labels), self.num_classes)
        share = counts / float(spread(torch.from_numpy(words @ weight.T + bias)))
        return share * weight.astype(np.float64), share * bias.astype(np.float64)

    def _solve_frozen(self, splits: Mapping[str, tuple[Tensor, Tensor]]) -> dict[str, Any]:
        figures = super().solve(splits)
        splits = {split: (functional.normalize(rows, dim=1), labels) for split, (rows, labels) in splits.items()}
        embeddings, labels = joined(splits)
        train, true_labels = splits["train"]
        if not self._suffice(len(train), len(true_labels.unique()) == self.num_classes, train.shape[1]):
            return figures
        options = (self.shrinkage, self.label_rows, max(self.max_steps, 1))
        fitted = best_discriminant(embeddings, labels, None, self.num_classes, self.anchor_rows, *options)
        if "val" in splits:
            regression = solve_and_choose(self.linear_loss, splits["train"], splits["val"], self.num_classes).best
        else:
            strength = 1 / (INVERSE_PENALTY * len(train))
            regression = solve_linear(lambda z: self.linear_loss(z, true_labels), train, self.num_classes, strength)
        self.set_classifier(fitted.weight + regression.weight, fitted.bias + regression.bias)
        return {"solver/steps": fitted.steps, "solver/penalty": regression.strength}

    @torch.no_grad()
    def _refitted(self, splits: Mapping[str, tuple[Tensor, Tensor]]) -> Discriminant:
        """The head and, by EM from what it says, a discriminant over the same embeddings, in one sum."""
        embeddings, labels = joined(splits)
        head = Discriminant(self.classifier.weight.detach().cpu(), self.classifier.bias.detach().cpu())
        fitted = self._fitted_again(embeddings, labels, head)
        scale = float(spread(head.scores(embeddings)) / spread(fitted.scores(embeddings)))
        return Discriminant(head.weight + scale * fitted.weight, head.bias + scale * fitted.bias, fitted.steps)

    def _fitted_again(self, embeddings: Tensor, labels: Tensor, start: Discriminant) -> Discriminant:
        """EM over embeddings (N, D) by an encoder that has learned, from the names too, which are not asked again."""
        shrinkage = at_least(self.shrinkage, embeddings)
        return discriminant_em(embeddings, labels, start, shrinkage, self.label_rows, max(self.max_steps, 1))
