"""From a validated config to the objects of a run: data, encoder, module."""

from __future__ import annotations

import hashlib
import json
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
from torch import Tensor

from datamodules.class_descriptions import called_alike
from datamodules.corpus import Corpus, prepare
from datamodules.datamodule import DataModule
from datamodules.sources import SourceFile, fetch
from engine.composition import (
    absent_class_findings,
    check_composition,
    check_kinds,
    is_module,
    label_findings,
    serves,
    target_class,
)
from engine.features import cached_features, texts_to_encode
from engine.identity import completed
from engine.label_kind import check_label_kind
from engine.trainer import on_processor, resolve_precision
from engine.unread import refuse_unread
from engine.validation import ConfigError, check_targets, signature, validate
from lightning_modules.base import ClassifierModule, EncoderModule
from lightning_modules.methods.clustering.base import ClusteringModule
from lightning_modules.methods.few_labels.class_names import ClassNames, read_alike
from storage.files import file_sha256
from storage.run_store import COMMAND


@dataclass(frozen=True)
class Plan:
    """A config that was checked, and the cheap objects that say what the run will read."""

    config: DictConfig
    plain: Mapping[str, Any]  # the same with each default written out
    dataset: Any  # of `datamodules.builders`, of any kind of data
    encoder: Any  # what it is made from; None for a method that needs none
    words: tuple[str, ...] = ()  # what was typed, where that is known

    @classmethod
    def make(cls, config: DictConfig, overrides: Sequence[str] = ()) -> Plan:
        """Validate every node, what depends on two nodes, and that the run reads what was typed, `overrides`.

        Raises:
            ConfigError: all findings at once.
        """
        plain: Any = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
        check_targets(plain)
        check_kinds(plain)
        validate(plain)
        plain = completed(plain)  # what is read below may stand in no file
        check_composition(plain)
        refuse_unread(plain, overrides)
        return cls(config, plain, instantiate(config.dataset), instantiate(config.get("encoder")), tuple(overrides))

    @property
    def command(self) -> str | None:
        """The line that does this run anew, wherever the run store lies; None where nothing is known of it."""
        words = [word for word in self.words if not word.startswith(("paths.", "force="))]
        return f"{COMMAND} {shlex.join(words)}" if words else None

    def inputs(self) -> dict[str, str]:
        """Digests, by path, of content that the config names only by path: an edited file is another run."""
        digests = {str(path): file_sha256(Path(path)) for path in self.dataset.own_files()}
        digests |= {str(path): file_sha256(path) for path in self.dataset.option_files()}
        digests |= self.dataset.folder_digests()
        if path := (self.plain.get("encoder") or {}).get("path"):
            digests[path] = self.encoder.weights_hash()
        return digests

    @property
    def serves(self) -> str:
        """Which tasks take the method: "classification" or "clustering"."""
        return serves(self.plain["method"])

    @property
    def trains(self) -> bool:
        """Whether the method is a module that is trained."""
        return is_module(self.plain["method"])

    def corpus(self, whole: bool = False) -> Corpus:
        """The data set, in its splits or as one whole, as a protocol of folds wants it too."""
        whole = whole or self.plain["protocol"]["name"] == "kfold"
        reads_labels = self.serves != "clustering"
        return prepare(self.dataset, self._path("data"), self._mirror(), all_rows=whole, reads_labels=reads_labels)

    def _path(self, name: str) -> Path:
        return Path(self.plain["paths"][name])

    def _mirror(self) -> Path | None:
        mirror = self.plain["paths"]["source_mirror"]
        return Path(mirror) if mirror and Path(mirror).is_dir() else None

    def fetch(self, files: tuple[SourceFile, ...]) -> dict[str, Path]:
        """Source files of a lexicon, as those of a data set."""
        return fetch(files, self._mirror(), self._path("data") / "sources")

    def datamodule(self, corpus: Corpus, num_views: int | None = None) -> Any:
        """The data module, set up: split, thinned, its inputs ready, with as many views as the method wants.

        Raises:
            ConfigError: a method, sampler or callback for the other kind of labels.
        """
        check_label_kind(self.plain, corpus.multilabel)
        config, augment = self.config, instantiate(self.config.get("augment"))
        datamodule = self.dataset.datamodule(
            corpus,
            self.encoder,
            augment,
            prepare=lambda tokenizer: augment.prepare(
                tokenizer, self._token_embeddings, self.fetch, self._path("cache")
            ),
            cache_dir=self._path("cache"),
            imbalance=instantiate(config.imbalance) if config.get("imbalance") else None,
            sampler=self.sampler(),
            protocol=instantiate(config.protocol),
            num_views=num_views or self.plain["method"]["num_views"],
            seed=config.seed,
            singleton_classes=self.dataset.singleton_classes,
            budget=self.dataset.budget,
            takes_unlabelled=self.dataset.takes_unlabelled,
            shot_bounds=self.dataset.shot_bounds,
            trains_unlabelled=getattr(target_class(config.method), "trains_unlabelled", False),
        )
        datamodule.prepare_data()
        datamodule.setup()
        return datamodule

    def _token_embeddings(self) -> np.ndarray:
        encoder: Any = self.encoder.load()
        return encoder.token_embeddings().float().cpu().numpy()

    def sampler(self) -> Any:
        return instantiate(self.config.sampler)

    def module(self, datamodule: DataModule) -> ClassifierModule:
        """The method over the encoder; what the encoder's frozen part makes of the inputs is computed once.

        Raises:
            ConfigError: no train row has a label, and the method learns from nothing else; or a class has none, and
                the method needs rows of each.
        """
        if not len(datamodule.indices["train"]):
            for finding in label_findings(self.plain, "dataset: no train row has a label", "some labels"):
                raise ConfigError(finding)
        for finding in absent_class_findings(self.plain, datamodule.class_counts.tolist(), datamodule.label_names):
            raise ConfigError(finding)
        module = self.bare_module(datamodule.class_counts, datamodule.label_names)
        if module.encodes_texts_alone:
            self.encode_once(module.encoder, datamodule, module.solved_from == "both", module.further_texts())
        return module

    def encode_once(
        self,
        encoder: Any,
        datamodule: DataModule,
        beside_inputs: bool = False,
        further: Iterable[dict[str, Tensor]] = (),
    ) -> None:
        """Features of a frozen encoder for the data module; on the CPU, hidden states below layers that train, of
        all splits but test, which is read once, and of further batches of texts."""
        if encoder.frozen:
            datamodule.use_features(self.features(datamodule, encoder), beside_inputs)
        elif encoder.top_layers is not None and on_processor(self.plain["trainer"]["accelerator"]):
            splits = datamodule.learning_splits
            of_splits = (batch for split in splits for batch in datamodule.feature_loader(split))
            batches = chain(of_splits, further)
            bf16 = resolve_precision(self.plain["trainer"]["precision"], "cpu").startswith("bf16")
            if not encoder.top_layers.remember(batches, bf16=bf16):
                print("encoder.train=top_layers: the frozen layers below run at each step too", file=sys.stderr)

    def features(
        self,
        datamodule: DataModule,
        encoder: Any = None,
        splits: Sequence[str] | None = None,
        source: Any = None,
        started_from: str = "",
    ) -> dict[str, np.ndarray]:
        """Embeddings by the encoder as it comes, (V, N, D) of each split; from the cache where they are there.

        Args:
            datamodule: the run's.
            encoder: the encoder itself, where it is loaded already.
            splits: these alone.
            source: what another encoder than the run's is made from.
            started_from: id of the run whose weights `encoder` has.
        """
        loaded: Any = encoder or (source or self.encoder).load(self.config.seed).eval()
        loaded.to(self.device)
        key = "-".join(filter(None, [self._features_key(source or self.encoder), started_from]))
        features = cached_features(loaded, datamodule, key, self._path("cache"), splits)
        loaded.cpu()
        return features

    @property
    def device(self) -> torch.device:
        """Where the encoder works outside the trainer: what the trainer has too."""
        return torch.device("cpu" if on_processor(self.plain["trainer"]["accelerator"]) else "cuda")

    def texts_to_encode(self, datamodule: DataModule, splits: Sequence[str]) -> int:
        """How many texts of these splits have no features in the cache yet."""
        return texts_to_encode(datamodule, self._features_key(self.encoder), self._path("cache"), splits)

    def _features_key(self, source: Any) -> str:
        kind = "" if self.device.type == "cpu" else f"-{self.device.type}"  # last digits differ between devices
        read_by = {name: value for name in ("mean", "std", "quantization") if (value := getattr(source, name, None))}
        digest = f"-{hashlib.sha256(json.dumps(read_by, default=list).encode()).hexdigest()[:8]}" if read_by else ""
        return f"{source.weights_hash()[:20]}-{source.pooling}{digest}{kind}"

    def clustering_module(self, num_clusters: int) -> ClusteringModule:
        """The method that learns so many clusters over the encoder, without data."""
        return self._configured(instantiate_partial(self.config.method), num_clusters=num_clusters)

    def bare_module(self, class_counts: Tensor, label_names: Sequence[str]) -> ClassifierModule:
        """The method over the encoder, without data."""
        method = instantiate_partial(self.config.method)
        takes = signature(method.func)[0]
        if "label_pieces" in takes:
            method = partial(method, label_pieces=self.label_pieces(label_names))
        if "class_names" in takes and self.plain["method"].get("use_names", True):
            method = partial(method, class_names=self.class_names(label_names))
        if not self.config.get("head"):
            return self._configured(method, class_counts=class_counts)
        encoder, head = instantiate(self.config.head).build(self.encoder, label_names)
        module = self._configured(method, encoder, class_counts=class_counts)
        module.use_head(head)
        return module

    def _configured(self, method: Callable[..., EncoderModule], encoder: Any = None, **more: Any) -> Any:
        module = method(
            encoder=self.encoder.load(self.config.seed) if encoder is None else encoder,
            loss=instantiate(self.config.get("loss")),
            optimizer=instantiate(self.config.get("optimizer")),
            scheduler=instantiate(self.config.get("scheduler")),
            seed=self.config.seed,
            **more,
        )
        module.gradient_cache_chunk = self.plain["trainer"].get("gradient_cache_chunk")
        return module

    def class_names(self, label_names: Sequence[str]) -> ClassNames | None:
        """What the classes are called, for methods that read it; None, said on stderr, where the labels are codes,
        or two are called alike or are alike to the encoder."""
        tokenizer, descriptions = self.encoder.tokenizer(), self.dataset.describe_classes(label_names)
        if descriptions is None:
            why = f"labels are codes ({', '.join(label_names[:3])}{', …' if len(label_names) > 3 else ''})"
        elif (alike := called_alike(descriptions)) is not None:
            why = f"{' and '.join(repr(label_names[place]) for place in alike)} are called alike"
        elif (alike := read_alike(descriptions, tokenizer)) is not None:
            pair = " and ".join(repr(label_names[place]) for place in alike)
            why = f"encoder={self.config.encoder.name} reads {pair} as the same tokens"
        else:
            return ClassNames(descriptions, tokenizer)
        print(f"dataset={self.dataset.name}: {why}, names are not used", file=sys.stderr)
        return None

    def label_pieces(self, label_names: Sequence[str]) -> list[list[int]]:
        """Token ids of what each class is called, for methods that read them; underscores are spaces."""
        tokenizer = self.encoder.tokenizer()
        names = [name.replace("_", " ") for name in label_names]
        if self.plain["method"]["label_tokens"] != "names" and (known := self.dataset.describe_classes(label_names)):
            names = [description.split(",")[0] for description in known]
        pieces = tokenizer(names, add_special_tokens=False)["input_ids"]
        return [ids or [tokenizer.unk_token_id] for ids in pieces]


def instantiate_partial(node: DictConfig) -> partial[Any]:
    """What a node names, still to be called with the objects of a run: passed to Hydra they would become configs."""
    return instantiate(node, _partial_=True, _convert_="all")
