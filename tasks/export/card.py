"""The model card of an exported folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.finished import shown_id
from engine.plan import Plan
from reporting.auto.sentence import at_least
from storage.run_store import RunFolder
from tasks.export.classifier import Classifier

FIGURES = ("accuracy", "macro_f1", "micro_f1")
CHOSEN = "the epoch, or the penalty of what is solved and not trained, was chosen"
LICENCES = {  # as the encoders' own cards state them
    "sentence-transformers/all-MiniLM-L6-v2": "Apache 2.0",
    "sentence-transformers/distilbert-base-nli-stsb-mean-tokens": "Apache 2.0",
    "google-bert/bert-base-uncased": "Apache 2.0",
    "google/flan-t5-base": "Apache 2.0",
    "FacebookAI/roberta-base": "MIT",
}
PROTOCOLS = {
    "published": f"{CHOSEN} on test rows: the figures are too good",
    "fixed": "every label trained, nothing was chosen",
    "few_shot": f"{CHOSEN} on a fifth of the labelled rows; test rows were read once, at the end",
    "clean": f"{CHOSEN} on validation rows; test rows were read once, at the end",
}


@dataclass
class Card:
    """What is said of a folder.

    Attributes:
        how_to_load: lines of Python for texts with `one` label and `several`, and the `libraries` they need.
        folder: where it will lie.
        quantize: what its weights were brought to, if anything.
    """

    run: RunFolder
    plan: Plan
    classifier: Classifier
    how_to_load: Mapping[str, str]
    folder: Path
    quantize: str | None

    def text(self) -> str:
        """Markdown with the front matter that the hub reads."""
        parts = (self._front(), self._loading(), self._training(), self._figures(), self._licence())
        return "\n".join(line for part in parts for line in part)

    def _front(self) -> Iterator[str]:
        classifier = self.classifier
        yield f"---\npipeline_tag: text-classification\nlibrary_name: {self.how_to_load['libraries'].split(' ')[0]}"
        yield f"tags: [kontrast, {classifier.method}]\n---\n\n# {shown_id(self.run)}\n"
        yield f"Texts to {len(classifier.label_names)} classes: {', '.join(classifier.label_names)}.\n"

    def _loading(self) -> Iterator[str]:
        code = self.how_to_load["one" if self.classifier.thresholds is None else "several"].format(folder=self.folder)
        yield f"## How to load\n\nWith {self.how_to_load['libraries']} alone:\n\n```python{code}```\n"
        yield from self._sure()
        yield f"At most {self.classifier.max_length} tokens of a text are read, as in training."
        if self.plan.plain["dataset"].get("markup") == "strip":
            yield "Texts are read as they come: take tags and entities out before, as the run did (`markup=strip`)."
        if self.quantize is None:
            yield "When it was written the folder was loaded like this, and gave the run's own probabilities.\n"
        else:
            yield "Weights and activations have 8 bits; the figures below are those of the run, before.\n"

    def _sure(self) -> Iterator[str]:
        """Which answers to keep, of a model of `task=auto`."""
        if (rule := self.classifier.abstention) is None:
            return
        of_each = "the probability of each of its labels, and 1 less that of each other, is at least"
        what = "its probability is at least" if self.classifier.thresholds is None else of_each
        share = f"{100 * rule['precision']:.10g} % of" if "precision" in rule else "As many as were asked for of"
        yield f"An answer is sure where {what} {at_least(rule['threshold'])} (`abstention` in `kontrast.json`)."
        yield f"{share} such answers to rows that the model had not seen are to be right.\n"

    def _training(self) -> Iterator[str]:
        plan, data, protocol = self.plan, self.plan.dataset, self.plan.plain["protocol"]["name"]
        counts = zip(self.classifier.label_names, self.run.metric("class_counts", list, int), strict=True)
        yield "## Training\n"
        yield f"- method `{self.classifier.method}`, seed {plan.config.seed}; encoder `{plan.encoder.name}`"
        yield f"- data `{data.name}`: {data.origin or 'origin not stated'}; licence: {data.licence}"
        yield f"- train rows: {', '.join(f'{name} {count}' for name, count in counts)}"
        yield f"- protocol `{protocol}`: {PROTOCOLS.get(protocol, 'see the documentation')}\n"

    def _figures(self) -> Iterator[str]:
        metrics = self.classifier.metrics
        yield "## Figures\n"
        if not metrics:
            yield "There were no test rows."
            return
        yield "| test | value | 95 % interval |\n|---|---|---|"
        for name in FIGURES:
            if (value := metrics.get(f"test/{name}")) is not None:
                low, high = (metrics.get(f"test/{name}_{end}") for end in ("low", "high"))
                interval = "" if low is None or high is None else f"{100 * low:.2f} to {100 * high:.2f} %"
                yield f"| {name} | {100 * value:.2f} % | {interval} |"

    def _licence(self) -> Iterator[str]:
        encoder: Any = self.plan.encoder
        yield "\n## Licence\n"
        licence = LICENCES.get(encoder.repo, "read it there") if encoder.path is None else "read it there"
        yield f"The weights began as `{encoder.path or encoder.repo}`: its licence ({licence}) holds for them,"
        yield "and what the licence of the data asks for. Kontrast itself is under the MIT licence.\n"
