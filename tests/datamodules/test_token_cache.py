"""The cache of tokens: what it is keyed by, and what becomes of damage."""

import errno
import os

import numpy as np
import pytest

from storage.errors import InputError
from tests.datamodules.fake_corpus import FakeCorpus, Reverse


def digests(data) -> tuple:
    """What decides the tokens of the train rows, in all views."""
    return tuple((tokens.digest, rows.tobytes()) for tokens, rows in data.views("train"))


def test_tokens_come_from_the_cache_the_second_time(make):
    first = make(augment=Reverse(), num_views=2)

    class Unwanted(Reverse):
        def augment(self, *_):
            raise AssertionError("augmented again")

    again = make(augment=Unwanted(), num_views=2)
    assert digests(again) == digests(first)
    assert again.augment_report == first.augment_report
    assert isinstance(again._views["train"][0].ids, np.memmap)


def test_cache_is_keyed_by_what_decides_the_ids(make, tmp_path):
    keys = {
        digests(make(**options))
        for options in ({}, {"max_length": 8}, {"seed": 1}, {"corpus": FakeCorpus(seed=1)}, {"num_views": 2})
    }
    assert len(keys) == 5
    # The seed changes the rows, not the ids of the whole table: it shares the cache.
    folders = [path for path in (tmp_path / "cache" / "tokens").iterdir() if path.is_dir()]
    assert len(folders) == 3 * 2


@pytest.mark.parametrize("file", ["ids.bin", "offsets.npy", "meta.json"])
@pytest.mark.parametrize("damage", ["truncate", "alter", "remove"])
def test_a_damaged_cache_is_built_anew(make, tmp_path, file, damage, caplog):
    wanted = digests(make())
    for path in (tmp_path / "cache" / "tokens").glob(f"*/{file}"):
        content = bytearray(path.read_bytes())
        path.unlink()
        if damage == "truncate":
            path.write_bytes(content[: len(content) // 2])
        elif damage == "alter":
            content[len(content) // 3] ^= 1
            path.write_bytes(content)
    data = make()
    assert digests(data) == wanted
    assert "damaged" in caplog.text
    assert sum(len(batch["labels"]) for batch in data.train_dataloader()) == len(data.indices["train"])


def test_nothing_half_written_remains_when_augmentation_fails(make, tmp_path):
    class Broken(Reverse):
        def augment(self, *_):
            raise RuntimeError("no words")

    with pytest.raises(RuntimeError, match="no words"):
        make(augment=Broken(), num_views=2)
    whole = [path for path in (tmp_path / "cache" / "tokens").iterdir() if path.is_dir()]
    assert len(whole) == 2 and all((path / "meta.json").exists() for path in whole)


def test_a_cache_that_cannot_be_written_is_one_line(make, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"paths.cache: cannot use .*file.*: (File exists|Not a directory)"):
        make(cache_dir=tmp_path / "file")

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(np, "save", full)
    with pytest.raises(InputError, match=r"paths.cache: cannot use .*: No space left on device"):
        make()
    assert not [path for path in (tmp_path / "cache" / "tokens").iterdir() if path.is_dir()]


def test_leftovers_of_a_killed_process_are_removed(make, tmp_path):
    make()
    tokens = tmp_path / "cache" / "tokens"
    key = next(path.name for path in tokens.iterdir() if path.is_dir())
    (tokens / key).rename(tokens / f".{key}.tmp-killed")
    make()
    assert (tokens / key / "meta.json").exists() and not (tokens / f".{key}.tmp-killed").exists()
