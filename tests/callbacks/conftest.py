"""A tiny module that keeps the step protocol, on data where the figures can be followed by hand."""

from dataclasses import dataclass

import lightning.pytorch as pl
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

from callbacks.checkpoint import WaitingCheckpointIO
from storage.run_store import RunFolder

ROWS, CLASSES = 12, 3


@dataclass(frozen=True)
class Protocol:
    name: str = "clean"
    monitor: str = "val/accuracy"
    mode: str = "max"


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return ROWS

    def __getitem__(self, index):
        features = torch.sin(torch.arange(4, dtype=torch.float32) * (index + 1))
        return {"features": features, "labels": index % CLASSES, "indices": index}


class Tiny(pl.LightningModule):
    """One linear layer; ``nan_at`` spoils the loss of that step, ``scores`` dictates the monitored figure by epoch."""

    def __init__(self, nan_at=None, scores=None):
        super().__init__()
        self.layer = nn.Linear(4, CLASSES)
        self.nan_at, self.scores = nan_at, scores

    def forward(self, batch):
        return self.layer(batch["features"])

    def training_step(self, batch, batch_idx):
        loss = nn.functional.cross_entropy(self(batch), batch["labels"])
        if self.global_step == self.nan_at:
            loss = loss * float("nan")
        self.log("train/loss", loss.detach(), on_step=False, on_epoch=True, batch_size=len(batch["labels"]))
        return {"loss": loss}

    def _evaluate(self, batch, split):
        logits = self(batch)
        hits = (logits.argmax(dim=-1) == batch["labels"]).float().mean()
        score = hits if self.scores is None else torch.tensor(self.scores[self.current_epoch])
        self.log(f"{split}/accuracy", score, on_epoch=True, on_step=False, batch_size=len(logits))
        return {"logits": logits, "embeddings": batch["features"], **{k: batch[k] for k in ("labels", "indices")}}

    def validation_step(self, batch, batch_idx):
        return self._evaluate(batch, "val")

    def test_step(self, batch, batch_idx):
        return self._evaluate(batch, "test")

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=0.1)
        return {"optimizer": optimizer, "lr_scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.9)}


class StopAfter(pl.Callback):
    """Ends a run the hard way once ``epoch`` has begun."""

    def __init__(self, epoch):
        self.epoch = epoch

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        if trainer.current_epoch == self.epoch and batch_idx == 1:
            raise RuntimeError("killed")


class Setting:
    """What a test needs to fit a `Tiny` in a run folder."""

    Tiny, StopAfter, Protocol = Tiny, StopAfter, Protocol

    def __init__(self, folder):
        self.run = RunFolder(folder)
        self.protocol = Protocol()

    @staticmethod
    def loader():
        return DataLoader(Rows(), batch_size=4)

    def build(self, kind, **options):
        return kind(run=self.run, protocol=self.protocol, **options)

    def trainer(self, callbacks, max_epochs=4, **options):
        return pl.Trainer(
            default_root_dir=self.run.path,
            max_epochs=max_epochs,
            accelerator="cpu",
            callbacks=callbacks,
            plugins=[WaitingCheckpointIO()],
            logger=False,
            num_sanity_val_steps=0,
            enable_model_summary=False,
            enable_progress_bar=any(isinstance(callback, pl.callbacks.ProgressBar) for callback in callbacks),
            enable_checkpointing=any(isinstance(callback, pl.callbacks.Checkpoint) for callback in callbacks),
            **options,
        )

    def fit(self, callbacks, module=None, ckpt_path=None, **options):
        torch.manual_seed(0)
        module = module or Tiny()
        trainer = self.trainer(callbacks, **options)
        trainer.fit(module, self.loader(), self.loader(), ckpt_path=ckpt_path, weights_only=True)
        return trainer, module


@pytest.fixture(name="Setting")
def setting_class():
    return Setting


@pytest.fixture
def setting(tmp_path):
    return Setting(tmp_path / "ce-toy-0")
