"""Race: what a few labels give, by methods of ours beside SetFit on the same encoder and labels.

    python -m benchmarks.few_labels [--dataset agnews] [--labels-per-class 8] [--seeds 3] [--threads 2] [--test-rows N]
                                    [--only method=kontrast --only SetFit]

SetFit sees the labelled rows alone. `prototypes` and `kontrast` read the class names and the train rows without labels
too, which the column "reads" says (N, U); `prototypes, labels alone` does not. `method=setfit_pairs` is SetFit's
objective by a method of ours, `method=pairs_words` that with names and words; `method=prototypes_words` is the simplest
rival, which trains nothing. Seconds are of learning, encoding included; packages are imported and test rows encoded
outside. Nothing is chosen on test rows.
"""

from __future__ import annotations

import argparse
import importlib
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout

import numpy as np
import torch
from omegaconf import DictConfig
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from tabulate import tabulate

from datamodules.texts.datamodule import TextDataModule
from engine.choices import choices
from engine.identify import compose_config
from engine.plan import Plan
from lightning_modules.encoders.transformer import PretrainedEncoder, TextEncoder
from tasks.fit import trained_run
from tasks.predict import classifier_predictor

Predicted = Callable[[list[str]], np.ndarray]  # texts -> class indices


def composed(options: argparse.Namespace, method: str, seed: int, folder: str) -> DictConfig:
    words = [method, f"dataset={options.dataset}", f"seed={seed}", "logger=none", "rival=null"]
    words += [f"dataset.labels_per_class={options.labels_per_class}", f"trainer.num_threads={options.threads}"]
    place = f"{folder}/{method.replace('=', '-')}"  # no method reads what another has encoded
    words += [f"paths.cache={place}/cache", f"paths.runs={place}/runs"]
    return compose_config(words)


def embedder(plan: Plan) -> Callable[[list[str]], torch.Tensor]:
    """Texts -> embeddings (N, D) by the encoder as it comes."""
    encoder, tokenizer = plan.encoder.load().eval(), plan.encoder.tokenizer()
    assert isinstance(encoder, TextEncoder)

    @torch.inference_mode()
    def embed(texts: list[str]) -> torch.Tensor:
        order = np.argsort([len(text) for text in texts], kind="stable")
        rows = torch.empty(len(texts), encoder.hidden_size)
        for start in range(0, len(texts), 64):
            part = order[start : start + 64]
            options = {"padding": True, "truncation": True, "max_length": plan.dataset.max_length}
            tokens = tokenizer([texts[i] for i in part], return_tensors="pt", **options)
            rows[part] = encoder(tokens["input_ids"], tokens["attention_mask"])
        return rows

    return embed


def prototypes(plan: Plan, data: TextDataModule, reads: str) -> Predicted:
    """`method=prototypes`; `reads` holds N for the names and U for the texts without labels."""
    embed = embedder(plan)
    module = plan.bare_module(data.class_counts, data.label_names).eval()
    if "N" not in reads:
        module.class_names = None  # type: ignore[assignment]
    splits = ["train", "unlabelled"] if "U" in reads else ["train"]
    module.solve({split: (embed(data.texts(split)), torch.from_numpy(data.labels[split])) for split in splits})

    @torch.inference_mode()
    def predict(texts: list[str]) -> np.ndarray:
        return module.logits(embed(texts)).argmax(1).numpy()

    return predict


def logistic(plan: Plan, data: TextDataModule) -> Predicted:
    """scikit-learn's logistic regression on the labelled rows, embeddings of unit length, C = 1."""
    embed = embedder(plan)

    def unit(texts: list[str]) -> np.ndarray:
        return torch.nn.functional.normalize(embed(texts), dim=1).numpy()

    model = LogisticRegression(max_iter=1000).fit(unit(data.texts("train")), data.labels["train"])
    return lambda texts: model.predict(unit(texts))


def setfit(plan: Plan, data: TextDataModule) -> Predicted:
    """SetFit with its own defaults: one epoch over pairs, then its logistic head."""
    from datasets import Dataset
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from setfit import SetFitModel, Trainer, TrainingArguments
    from sklearn.linear_model import LogisticRegression as Head

    assert isinstance(plan.encoder, PretrainedEncoder)
    words = Transformer(str(plan.encoder.folder()), max_seq_length=plan.dataset.max_length)
    body = SentenceTransformer(modules=[words, Pooling(words.get_embedding_dimension())], device="cpu")
    model = SetFitModel(model_body=body, model_head=Head(max_iter=1000))
    rows = Dataset.from_dict({"text": data.texts("train"), "label": data.labels["train"].tolist()})
    with tempfile.TemporaryDirectory() as folder:
        quiet = {"report_to": "none", "show_progress_bar": False}
        arguments = TrainingArguments(output_dir=folder, seed=plan.config.seed, **quiet)
        Trainer(model=model, args=arguments, train_dataset=rows).train()
    return lambda texts: np.asarray(model.predict(texts, show_progress_bar=False))


def whole_run(plan: Plan) -> tuple[Predicted, float]:
    """A method as its command line trains it, and the seconds until it is trained."""
    with redirect_stdout(sys.stderr):
        if plan.plain["encoder"]["train"] == "frozen":  # a run encodes all that it will read before it learns
            plan.features(plan.datamodule(plan.corpus()), splits=["test"])
        run = trained_run(plan)
    seconds = sum(run.metric(f"seconds/{part}", (int, float)) for part in ("prepare", "fit"))
    predictor = classifier_predictor(run, plan, explain=False)
    numbers = {name: number for number, name in enumerate(predictor.label_names)}
    return lambda texts: np.array([numbers[row["prediction"]] for row in predictor.answers(texts)]), seconds


SETFIT_PACKAGES = ("datasets", "sentence_transformers.sentence_transformer.modules", "setfit")
METHODS = {  # as their command lines train them
    "experiment=kontrast_brief": "L N U",
    "method=kontrast": "L N U",
    "method=setfit_pairs": "L",
    "method=pairs_words": "L N",
    "method=prototypes_words": "L N U",
}
CASES: dict[str, tuple[str, Callable[[Plan, TextDataModule], Predicted]]] = {
    "prototypes": ("L N U", lambda plan, data: prototypes(plan, data, "NU")),
    "prototypes, labels and names": ("L N", lambda plan, data: prototypes(plan, data, "N")),
    "prototypes, labels alone": ("L", lambda plan, data: prototypes(plan, data, "")),
    "logistic regression": ("L", logistic),
    "SetFit": ("L", setfit),
}


def positive(word: str) -> int:
    """Raises ArgumentTypeError: no whole number above 0."""
    if not word.isdecimal() or not int(word):
        raise argparse.ArgumentTypeError(f"found {word}, allowed: a whole number above 0")
    return int(word)


def mean_and_spread(shares: Sequence[float]) -> str:
    """'mean ± standard deviation' in percent, that of a sample; of one draw the figure alone."""
    mean = f"{100 * statistics.mean(shares):.1f}"
    return mean if len(shares) == 1 else f"{mean} ± {100 * statistics.stdev(shares):.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="agnews", choices=choices("dataset"), metavar="NAME")
    for name, default in (("labels-per-class", 8), ("seeds", 3), ("threads", 2), ("test-rows", 2000)):
        parser.add_argument(f"--{name}", type=positive, default=default)
    reads = {name: letters for name, (letters, _) in CASES.items()} | METHODS
    parser.add_argument("--only", action="append", choices=reads, help="may be repeated")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    results: dict[str, list[tuple[float, float, float]]] = {name: [] for name in options.only or reads}
    for package in SETFIT_PACKAGES if "SetFit" in results else ():
        importlib.import_module(package)  # not within its seconds
    for seed in range(options.seeds):
        with tempfile.TemporaryDirectory() as folder:
            plan = Plan.make(composed(options, "method=prototypes", seed, folder))
            data = plan.datamodule(plan.corpus())
            chosen = np.random.default_rng(0).permutation(len(data.indices["test"]))[: options.test_rows]
            texts, labels = data.texts("test"), data.labels["test"][chosen]
            for name in results:
                own = Plan.make(composed(options, name, seed, folder)) if name in METHODS else plan
                start = time.perf_counter()
                if name in METHODS:
                    predict, seconds = whole_run(own)
                else:
                    predict = CASES[name][1](plan, data)
                    seconds = time.perf_counter() - start
                predictions = predict([texts[i] for i in chosen])
                accuracy = float((predictions == labels).mean())
                results[name].append((accuracy, f1_score(labels, predictions, average="macro"), seconds))
    rows = []
    for name, figures in results.items():
        accuracies, macro_f1s, times = zip(*figures, strict=True)
        macro = f"{100 * statistics.mean(macro_f1s):.1f}"
        rows.append([name, reads[name], mean_and_spread(accuracies), macro, f"{statistics.median(times):.1f}"])
    budget = f"{options.labels_per_class} labels a class, {options.seeds} draws"
    print(f"{options.dataset}, {budget}, {options.threads} thread(s), {options.test_rows} test rows at the most")
    print(tabulate(rows, ["method", "reads", "accuracy, %", "macro-F1, %", "seconds"], tablefmt="github"))


if __name__ == "__main__":
    main()
