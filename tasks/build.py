"""From a validated config to the objects of a run: data, encoder, module."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
from torch import Tensor

from datamodules.builders.base import Dataset
from datamodules.corpus import Corpus, prepare
from datamodules.datamodule import TextDataModule
from datamodules.sources import SourceFile, fetch
from lightning_modules.base import MONITORED, ClassifierModule
from lightning_modules.encoders import PretrainedEncoder
from tasks.features import cached_features
from tasks.label_kind import check_label_kind
from tasks.trainer import trainer_findings
from tasks.validation import ConfigError, signature, validate


@dataclass(frozen=True)
class Plan:
    """A config that was checked, and the cheap objects that say what the run will read."""

    config: DictConfig
    plain: Mapping[str, Any]
    dataset: Dataset
    encoder: PretrainedEncoder

    @classmethod
    def make(cls, config: DictConfig) -> Plan:
        """Validate every node and what depends on two nodes. Raises ConfigError with all findings."""
        plain = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
        validate(plain)
        _validate_together(plain)
        return cls(config, plain, instantiate(config.dataset), instantiate(config.encoder))

    def inputs(self) -> dict[str, str]:
        """Digests of content that the config names only by path: an edited file is another run."""
        from datamodules.sources import file_sha256

        digests = {str(path): file_sha256(Path(path)) for path in self.dataset.own_files()}
        if self.plain["encoder"].get("path"):
            digests["encoder"] = self.encoder.weights_hash()
        return digests

    def corpus(self) -> Corpus:
        return prepare(self.dataset, self._path("data"), self._mirror())

    def _path(self, name: str) -> Path:
        return Path(self.plain["paths"][name])

    def _mirror(self) -> Path | None:
        mirror = self.plain["paths"]["source_mirror"]
        return Path(mirror) if mirror and Path(mirror).is_dir() else None

    def fetch(self, files: tuple[SourceFile, ...]) -> dict[str, Path]:
        """Source files of a lexicon, as those of a data set."""
        return fetch(files, self._mirror(), self._path("data") / "sources")

    def datamodule(self, corpus: Corpus, num_views: int | None = None) -> TextDataModule:
        """Data module, set up: split, thinned, augmented, tokenised; with as many views as the method wants.

        Raises:
            ConfigError: a method, sampler or callback for the other kind of labels.
        """
        check_label_kind(self.plain, corpus.multilabel)
        config, tokenizer = self.config, self.encoder.tokenizer()
        num_views = num_views or config.method.num_views
        if self.dataset.max_length > (limit := self.encoder.max_length()):
            raise ValueError(
                f"dataset.max_length: found {self.dataset.max_length}, allowed: <= {limit}, "
                f"the positions of encoder={self.encoder.name}"
            )
        augment = instantiate(config.augment) if num_views > 1 else None
        if augment is not None:
            augment.prepare(
                tokenizer,
                lambda: self.encoder.load().token_embeddings().numpy(),
                self.fetch,
                self._path("cache"),
            )
        datamodule = TextDataModule(
            corpus,
            tokenizer,
            augment=augment,
            imbalance=instantiate(config.imbalance),
            sampler=self.sampler(),
            protocol=instantiate(config.protocol),
            num_views=num_views,
            max_length=self.dataset.max_length,
            seed=config.seed,
            cache_dir=self._path("cache"),
            singleton_classes=self.dataset.singleton_classes,
        )
        datamodule.prepare_data()
        datamodule.setup()
        return datamodule

    def sampler(self) -> Any:
        return instantiate(self.config.sampler)

    def module(self, datamodule: TextDataModule) -> ClassifierModule:
        """The method over the encoder; a frozen encoder's features are computed once and handed to the data module."""
        module = self.bare_module(datamodule.class_counts, datamodule.label_names)
        if module.encoder.frozen:
            key = f"{self.encoder.weights_hash()[:20]}-{self.encoder.pooling}"
            datamodule.use_features(cached_features(module.encoder, datamodule, key, self._path("cache")))
        return module

    def bare_module(self, class_counts: Tensor, label_names: Sequence[str]) -> ClassifierModule:
        """The method over the encoder, without data."""
        method = partial_of(self.config.method)
        if "label_pieces" in signature(method.func)[0]:
            method = partial(method, label_pieces=self.label_pieces(label_names))
        module = method(
            encoder=self.encoder.load(self.config.seed),
            loss=instantiate(self.config.loss),
            class_counts=class_counts,
            optimizer=instantiate(self.config.optimizer),
            scheduler=instantiate(self.config.scheduler),
            seed=self.config.seed,
        )
        module.gradient_cache_chunk = self.plain["trainer"].get("gradient_cache_chunk")
        return module

    def label_pieces(self, label_names: Sequence[str]) -> list[list[int]]:
        """Token ids of each label name, for methods that read them; underscores are spaces."""
        tokenizer = self.encoder.tokenizer()
        names = [name.replace("_", " ") for name in label_names]
        pieces = tokenizer(names, add_special_tokens=False)["input_ids"]
        return [ids or [tokenizer.unk_token_id] for ids in pieces]


def partial_of(node: DictConfig) -> Callable[..., Any]:
    """What a node names, still to be called with the objects of a run: passed to Hydra they would become configs."""
    return instantiate(node, _partial_=True, _convert_="all")


def _retrieval_findings(node: Mapping[str, Any]) -> Iterator[str]:
    try:
        instantiate(node)
    except Exception as error:  # Hydra wraps what a constructor raises
        yield str(error.__cause__ or error).splitlines()[0]


def _validate_together(plain: Mapping[str, Any]) -> None:
    """What no single signature can see."""
    findings = []
    frozen, views = plain["encoder"]["train"] == "frozen", plain["method"]["num_views"]
    augment = plain["augment"]["_target_"].split(".")[-2]
    if frozen and views > 1 and augment in ("dropout", "none"):
        findings.append(
            f"augment={augment}: the views of a frozen encoder would be identical; "
            f"allowed with encoder.train=frozen: source, wordnet, eda, embedding"
        )
    split = "test" if plain["protocol"]["name"] == "published" else "val"
    monitored = [f"{split}/{name}" for name in MONITORED]
    if plain["protocol"]["monitor"] not in monitored:
        findings.append(f"protocol.monitor: found {plain['protocol']['monitor']!r}; allowed: {', '.join(monitored)}")
    findings.extend(trainer_findings(plain))
    if plain.get("retrieval"):
        findings.extend(_retrieval_findings(plain["retrieval"]))
    if findings:
        raise ConfigError("\n".join(findings))
