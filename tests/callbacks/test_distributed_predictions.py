"""Predictions over two processes: every row once, though the ranks hold different numbers of rows."""

import csv
import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
EVALUATE = """
import sys
import lightning.pytorch as pl
import torch
from torch.utils.data import DataLoader
from callbacks.predictions import MultiLabelPredictions, Predictions
from storage.run_store import RunFolder

ROWS = torch.eye(7)

class Strided(torch.utils.data.Sampler):
    def __iter__(self):
        return reversed(range(torch.distributed.get_rank(), 7, 2))
    def __len__(self):
        return len(range(torch.distributed.get_rank(), 7, 2))

class Same(pl.LightningModule):
    def test_step(self, batch, batch_idx):
        return {"logits": 3 * ROWS[batch], "labels": batch, "indices": batch}

class Several(Same):
    def test_step(self, batch, batch_idx):
        return {**super().test_step(batch, batch_idx), "labels": ROWS[batch] + ROWS.roll(1, 1)[batch]}

class Data(pl.LightningDataModule):
    def test_dataloader(self):
        return DataLoader(range(7), batch_size=2, sampler=Strided())

for kind, module in ((Predictions, Same()), (MultiLabelPredictions, Several())):
    collector = kind(RunFolder(f"{sys.argv[1]}/{kind.__name__}"), range(7))
    collector.threshold = 0.9
    trainer = pl.Trainer(accelerator="cpu", devices=2, strategy="ddp", logger=False, enable_progress_bar=False,
                         callbacks=[collector], use_distributed_sampler=False)
    trainer.test(module, Data(), verbose=False)
"""


@pytest.mark.slow
def test_two_processes_write_each_row_once(tmp_path):
    script = tmp_path / "evaluate.py"
    script.write_text(EVALUATE)
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1"}
    line = [sys.executable, str(script), str(tmp_path / "run")]
    outcome = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert outcome.returncode == 0, outcome.stderr
    single, several = (
        [(row["index"], row["label"], row["prediction"]) for row in csv.DictReader(file.open())]
        for kind in ("Predictions", "MultiLabelPredictions")
        for file in [tmp_path / "run" / kind / "predictions.csv"]
    )
    assert single == [(str(i),) * 3 for i in range(7)]
    assert several == [(str(i), str(sorted({i, (i + 1) % 7})), f"[{i}]") for i in range(7)]
