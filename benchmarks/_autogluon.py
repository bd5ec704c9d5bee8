"""AutoGluon's answer to a race of `benchmarks/auto.py`, by the interpreter of an environment of its own.

    PYTHON benchmarks/_autogluon.py TRAIN.csv TEST.csv SECONDS OUTPUT.json [ENCODER]

Without an encoder its tabular models over features of the text; with one its text model on that local folder. It
conflicts with the pinned torch, so that no module of the project is imported here.
"""

import json
import sys
import tempfile
from importlib import import_module
from pathlib import Path

import pandas as pd


def main(train: str, test: str, seconds: str, output: str, encoder: str | None = None) -> None:
    """Write the predicted labels of the test rows, a JSON list."""
    rows, asked = (pd.read_csv(path, dtype=str, keep_default_na=False) for path in (train, test))
    with tempfile.TemporaryDirectory() as folder:
        options = {"label": "label", "path": folder, "eval_metric": "f1_macro"}
        if encoder is None:
            TabularPredictor = import_module("autogluon.tabular").TabularPredictor

            predictor = TabularPredictor(**options).fit(rows, time_limit=float(seconds))
        else:
            MultiModalPredictor = import_module("autogluon.multimodal").MultiModalPredictor

            model = {"model.hf_text.checkpoint_name": encoder, "env.num_gpus": 0}
            predictor = MultiModalPredictor(**options).fit(rows, time_limit=float(seconds), hyperparameters=model)
        Path(output).write_text(json.dumps(predictor.predict(asked[["text"]]).tolist()))


if __name__ == "__main__":
    main(*sys.argv[1:])
