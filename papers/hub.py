"""Whether what a run takes from the hub can be had here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

CONNECT_SECONDS = 3.0


def unreachable(config: Mapping[str, Any]) -> str | None:
    """Why a run of this resolved config cannot start: models neither in the hub's cache nor to be downloaded."""
    missing = [repo for repo in _repos(config) if not _cached(repo)]
    return f"needs {', '.join(missing)} from the hub, which is out of reach" if missing and not _online() else None


def _repos(config: Mapping[str, Any]) -> Iterator[str]:
    """Repositories that a run reads: of the encoder without weights of its own, of an augmentation by a model."""
    encoder, augment = config.get("encoder") or {}, config.get("augment") or {}
    if encoder.get("repo") and not encoder.get("path") and not encoder.get("package"):
        yield encoder["repo"]
    if config["method"].get("num_views", 1) > 1:
        for key, path in (("repo", "path"), ("back_repo", "back_path")):
            if augment.get(key) and not augment.get(path):
                yield augment[key]


@cache
def _cached(repo: str) -> bool:
    from huggingface_hub import try_to_load_from_cache

    return isinstance(try_to_load_from_cache(repo, "config.json"), str)


@cache
def _online() -> bool:
    import os

    import requests
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE or os.environ.get("HF_HUB_OFFLINE") == "1":
        return False
    try:
        return requests.head(constants.ENDPOINT, timeout=CONNECT_SECONDS).status_code < 500
    except requests.RequestException:
        return False
