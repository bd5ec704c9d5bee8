"""Kontrast's command line: compose a config, validate it, do one task.

python run.py method=sharprecl dataset=ohsumed
python run.py -m method=sharprecl loss.tau=0.3,0.5 method.mu=0.5,1 imbalance.ir=10,20
python run.py task=predict run=ID input=new.csv output=pred.csv
"""

import sys

import hydra
from omegaconf import DictConfig


@hydra.main(version_base="1.3", config_path="conf", config_name="config")
def main(config: DictConfig) -> None:
    from hydra.core.hydra_config import HydraConfig

    from tasks.dispatch import run_task  # torch is imported only when there is something to do

    run_task(config, list(HydraConfig.get().overrides.task))


if __name__ == "__main__":
    from tasks.command_line import run_with_clear_errors

    sys.exit(run_with_clear_errors(main))
