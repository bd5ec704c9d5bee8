"""Checkpoints: best and last, whole or absent, plain tensors; a resumed run ends like an undisturbed one."""

import errno
import os
from types import SimpleNamespace

import lightning.pytorch as pl
import pytest
import torch

from callbacks.checkpoint import AtomicCheckpointIO, BestCheckpoint, LastCheckpoint
from callbacks.early_stopping import PersistentEarlyStopping
from callbacks.history import History
from callbacks.timing import Timing
from storage.errors import ReportError


def watchers(setting, *others):
    """What a run has; a state is written after each epoch."""
    kinds = (History, Timing, PersistentEarlyStopping, BestCheckpoint)
    return [*others, *(setting.build(kind) for kind in kinds), setting.build(LastCheckpoint, every_seconds=0)]


def plain(value):
    """Whether a loaded checkpoint holds only tensors and plain values."""
    if isinstance(value, dict):
        return all(plain(key) and plain(item) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return all(plain(item) for item in value)
    return value is None or type(value) in (str, bool, int, float) or isinstance(value, torch.Tensor)


def test_best_and_last_hold_plain_tensors(setting):
    scores = [0.1, 0.7, 0.7, 0.2]
    setting.fit(watchers(setting), setting.Tiny(scores=scores))
    assert sorted(os.listdir(setting.run.checkpoints)) == ["best.ckpt", "last.ckpt"]
    best, last = (torch.load(setting.run.checkpoints / f"{n}.ckpt", weights_only=True) for n in ("best", "last"))
    assert (best["epoch"], last["epoch"]) == (1, 3)
    assert plain(best) and plain(last)


@pytest.mark.parametrize(("mode", "sign"), [("max", 1), ("min", -1)])
def test_the_latest_of_equal_epochs_where_the_protocol_says_so(setting, mode, sign):
    setting.protocol = SimpleNamespace(monitor=setting.protocol.monitor, mode=mode, ties="latest")
    scores = [sign * score for score in (0.1, 0.7, 0.2, 0.7, 0.7, 0.3, 0.2, 0.1)]
    stop = setting.build(PersistentEarlyStopping, patience=2)
    others = [setting.build(kind) for kind in (BestCheckpoint, LastCheckpoint)]
    setting.fit([History(setting.run, setting.protocol), stop, *others], setting.Tiny(scores=scores), max_epochs=8)
    best, last = (torch.load(setting.run.checkpoints / f"{n}.ckpt", weights_only=True) for n in ("best", "last"))
    assert (best["epoch"], last["epoch"]) == (4, 6)  # equal epochs reset the patience, two worse ones end it


@pytest.mark.parametrize("epochs", [(2,), (0,), (1, 3)])
def test_an_interrupted_run_ends_like_an_undisturbed_one(Setting, tmp_path, epochs):
    whole, broken = Setting(tmp_path / "whole"), Setting(tmp_path / "broken")
    _, expected = whole.fit(watchers(whole))
    last = broken.run.checkpoints / "last.ckpt"
    for epoch in epochs:
        with pytest.raises(RuntimeError, match="killed"):
            broken.fit(watchers(broken, broken.StopAfter(epoch)), ckpt_path=last if last.exists() else None)
    _, module = broken.fit(watchers(broken), ckpt_path=last if last.exists() else None)
    assert all(torch.equal(a, b) for a, b in zip(expected.parameters(), module.parameters(), strict=True))
    histories = [(first.run.path / "history.csv").read_bytes() for first in (whole, broken)]
    assert histories[0] == histories[1] and histories[0].count(b"\n") == 5
    states = [torch.load(first.run.checkpoints / "best.ckpt", weights_only=True) for first in (whole, broken)]
    assert states[0]["epoch"] == states[1]["epoch"]
    assert all(
        torch.equal(states[0]["state_dict"][key], states[1]["state_dict"][key]) for key in states[0]["state_dict"]
    )
    samples = [torch.load(first.run.checkpoints / "last.ckpt", weights_only=True) for first in (whole, broken)]
    assert [state["callbacks"]["Timing"]["samples"] for state in samples] == [48, 48]


def test_short_epochs_write_once_at_the_end_and_on_an_error(setting):
    written = []

    class Looks(pl.Callback):
        def on_validation_start(self, trainer, pl_module):
            written.append(sorted(os.listdir(setting.run.checkpoints)) if setting.run.checkpoints.is_dir() else [])

    kinds = (BestCheckpoint, LastCheckpoint)
    others = [Looks(), *(setting.build(kind) for kind in kinds)]
    trainer, module = setting.fit(others, setting.Tiny(scores=[0.7, 0.1, 0.2, 0.3]))
    best, last = (torch.load(setting.run.checkpoints / f"{n}.ckpt", weights_only=True) for n in ("best", "last"))
    assert written == [[]] * 4 and (best["epoch"], last["epoch"]) == (0, 3)
    assert not torch.equal(best["state_dict"]["layer.weight"], module.layer.weight)  # a copy of its epoch's
    assert torch.equal(last["state_dict"]["layer.weight"], module.layer.weight)

    trainer.save_checkpoint(setting.run.path / "final.ckpt", weights_only=True)  # what is saved later waits for nothing
    assert (setting.run.path / "final.ckpt").is_file()

    (setting.run.checkpoints / "last.ckpt").unlink()
    with pytest.raises(RuntimeError, match="killed"):
        others = [setting.StopAfter(2), *(setting.build(kind) for kind in kinds)]
        setting.fit(others, setting.Tiny(scores=[0.1, 0.7, 0.2, 0.3]))
    assert os.listdir(setting.run.checkpoints) == ["best.ckpt"]
    assert torch.load(setting.run.checkpoints / "best.ckpt", weights_only=True)["epoch"] == 1


def test_a_moved_run_store_keeps_its_best_epoch(Setting, tmp_path):
    before = Setting(tmp_path / "before")
    before.fit(watchers(before), before.Tiny(scores=[0.9, 0.1]), max_epochs=2)
    before.run.path.rename(tmp_path / "after")
    after = Setting(tmp_path / "after")
    last = after.run.checkpoints / "last.ckpt"
    after.fit(watchers(after), after.Tiny(scores=[0.9, 0.1, 0.5, 0.5]), ckpt_path=last)
    assert torch.load(after.run.checkpoints / "best.ckpt", weights_only=True)["epoch"] == 0


def test_a_truncated_checkpoint_is_one_line(tmp_path):
    files, path = AtomicCheckpointIO(), tmp_path / "last.ckpt"
    files.save_checkpoint({"weights": torch.ones(1000)}, path)
    assert torch.equal(files.load_checkpoint(path)["weights"], torch.ones(1000))
    path.write_bytes(path.read_bytes()[:2000])
    with pytest.raises(ValueError, match="last.ckpt: cannot be read") as caught:
        files.load_checkpoint(path)
    assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match="no such file"):
        files.load_checkpoint(tmp_path / "none.ckpt")


def test_code_in_a_checkpoint_is_not_run(tmp_path):
    class Trap:
        def __reduce__(self):
            return os.system, (f"touch {tmp_path}/sprung",)

    torch.save({"state_dict": {}, "trap": Trap()}, tmp_path / "last.ckpt")
    with pytest.raises(ValueError, match="cannot be read"):
        AtomicCheckpointIO().load_checkpoint(tmp_path / "last.ckpt", weights_only=False)
    assert not (tmp_path / "sprung").exists()


def test_a_full_disk_keeps_the_old_checkpoint(tmp_path, monkeypatch):
    files, path = AtomicCheckpointIO(), tmp_path / "last.ckpt"
    files.save_checkpoint({"weights": torch.ones(3)}, path)

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ReportError, match="no space left in"):
        files.save_checkpoint({"weights": torch.zeros(3)}, path)
    assert os.listdir(tmp_path) == ["last.ckpt"] and files.load_checkpoint(path)["weights"].sum() == 3


@pytest.mark.parametrize("writes", [0, 1, 8])
def test_a_disk_that_fills_up_within_torch_save_is_one_line(tmp_path, monkeypatch, writes):
    class Full:
        left = writes

        def write(self, content):
            self.left -= 1
            if self.left < 0:
                raise OSError(errno.ENOSPC, "No space left on device")
            return len(content)

        def flush(self):
            pass

    save = torch.save
    monkeypatch.setattr(torch, "save", lambda checkpoint, _: save(checkpoint, Full()))
    with pytest.raises(ReportError, match="no space left in"):
        AtomicCheckpointIO().save_checkpoint({"weights": torch.ones(100_000)}, tmp_path / "last.ckpt")
    assert os.listdir(tmp_path) == []


def test_an_interrupt_while_writing_stays_an_interrupt(tmp_path, monkeypatch):
    class Stops(dict):
        def __reduce_ex__(self, protocol):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        AtomicCheckpointIO().save_checkpoint({"state": Stops()}, tmp_path / "last.ckpt")
    assert list(tmp_path.iterdir()) == []
