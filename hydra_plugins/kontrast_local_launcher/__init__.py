"""Hydra launchers ``local``, ``slurm`` and ``ray`` and sweeper ``grid``: every job of a sweep in a process of its own.

One job's failure, even a config that does not compose, leaves the others alone, and a job may start processes of its
own (distributed training re-runs its command line). Hydra imports every plugin at each start, ``--help`` included, so
nothing heavy is imported here. Hydra finds launchers only below ``hydra_plugins``.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper, BasicSweeperConf
from hydra.core.config_store import ConfigStore
from hydra.core.utils import JobReturn, JobStatus
from hydra.errors import CompactHydraException
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf

COMMAND_LINE_PROVIDER = "command-line"
INTERRUPTED_EXIT_CODE = 130


class JobsFailed(CompactHydraException):
    """At least one job did not finish; Hydra prints the message alone and exits with 1."""


@dataclass
class LocalLauncherConf:
    """Options of `hydra/launcher=kontrast_local`."""

    _target_: str = "hydra_plugins.kontrast_local_launcher.LocalLauncher"
    # jobs at a time; the CPU's cores are shared between them
    n_jobs: int = 1
    # fork the jobs from one process that has imported everything: saves each job its start-up
    warm: bool = False


@dataclass
class SlurmLauncherConf:
    """Parameters of sbatch as submitit names them; what is null is left to the cluster."""

    _target_: str = "hydra_plugins.kontrast_local_launcher.SlurmLauncher"
    timeout_min: int = 240
    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    constraint: str | None = None
    cpus_per_task: int | None = 4
    gpus_per_node: int | None = None
    mem_gb: int | None = None
    array_parallelism: int = 16  # tasks at a time
    max_num_timeout: int = 3  # how often a run that meets the time limit is put in line again, to go on
    additional_parameters: dict[str, Any] = field(default_factory=dict)
    setup: list[str] | None = None  # shell lines before the job


@dataclass
class RayLauncherConf:
    """What a job asks of the Ray cluster."""

    _target_: str = "hydra_plugins.kontrast_local_launcher.RayLauncher"
    address: str = "auto"  # auto: RAY_ADDRESS, else the cluster that runs on this machine
    num_cpus: float = 1
    num_gpus: float = 0
    memory_gb: float | None = None
    resources: dict[str, float] = field(default_factory=dict)
    max_retries: int = 3  # how often a job is run again whose node is lost


@dataclass
class GridSweeperConf(BasicSweeperConf):
    """Options of the sweeper: those of Hydra's own."""

    _target_: str = "hydra_plugins.kontrast_local_launcher.GridSweeper"


class GridSweeper(BasicSweeper):
    """Hydra's own grid of values, without composing all jobs beforehand: there one bad job would stop all."""

    def validate_batch_is_legal(self, batch: Sequence[Sequence[str]]) -> None:
        """Leave the check to each job."""


class LocalLauncher(Launcher):
    """Starts each job as ``python run.py OVERRIDES`` and ends with a table of all jobs."""

    def __init__(self, n_jobs: int = 1, warm: bool = False) -> None:
        if n_jobs < 1:
            raise CompactHydraException(f"hydra.launcher.n_jobs: found {n_jobs}, allowed 1 or more")
        self.n_jobs, self.warm = n_jobs, warm
        self.config: DictConfig | None = None
        self.ended: list[Any] = []

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        self.config = config

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """Run a batch of jobs. A sweeper that learns from results calls it several times; the table has all so far."""
        from launching.sweep import NOT_STARTED, report_sweep

        assert self.config is not None
        folder = str(self.config.hydra.sweep.dir)
        batch = self._run(_arguments(self.config), job_overrides, folder, initial_job_idx)
        self.ended.extend(batch)
        report_sweep(self.ended, folder)
        if any(job.status in ("interrupted", NOT_STARTED) for job in batch):
            raise SystemExit(INTERRUPTED_EXIT_CODE)
        failed = sum(job.status != "finished" for job in self.ended)
        message = f"{failed} of {len(self.ended)} jobs did not finish, logs in {folder}"
        return [_job_return(job.status, message) for job in batch]

    def _run(self, arguments: list[str], jobs: Sequence[Sequence[str]], folder: str, first: int) -> list[Any]:
        from launching.sweep import run_jobs

        return run_jobs(arguments, jobs, folder, self.n_jobs, first=first, warm=self.warm)


class SlurmLauncher(LocalLauncher):
    """Submits the jobs as one array to SLURM, waits, and ends with the same table."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.options = {key: OmegaConf.to_container(v) if OmegaConf.is_config(v) else v for key, v in options.items()}

    def _run(self, arguments: list[str], jobs: Sequence[Sequence[str]], folder: str, first: int) -> list[Any]:
        from launching.slurm import run_slurm_jobs

        return run_slurm_jobs(arguments, jobs, folder, self.options, first)


class RayLauncher(SlurmLauncher):
    """Runs the jobs as tasks of a Ray cluster and ends with the same table."""

    def _run(self, arguments: list[str], jobs: Sequence[Sequence[str]], folder: str, first: int) -> list[Any]:
        from launching.ray_jobs import run_ray_jobs

        try:
            return run_ray_jobs(arguments, jobs, folder, self.options, first)
        except ValueError as error:
            raise CompactHydraException(str(error)) from error


def _arguments(config: DictConfig) -> list[str]:
    """What the sweep was started with besides its own overrides. A job must not become a sweep again."""
    arguments = [f"--config-name={config.hydra.job.config_name}"]
    for source in config.hydra.runtime.config_sources:
        if source.provider == COMMAND_LINE_PROVIDER:
            arguments.append(f"--config-dir={source.path}")
    own = ("hydra.mode=", "hydra.sweep", "hydra/sweep")
    kept = [line for line in map(str, config.hydra.overrides.hydra) if not line.startswith(own)]
    return [*arguments, *kept, "hydra.mode=RUN"]


def _job_return(status: str, message: str) -> JobReturn:
    if status == "finished":
        return JobReturn(status=JobStatus.COMPLETED)
    return JobReturn(status=JobStatus.FAILED, _return_value=JobsFailed(message))


for group, name, node in (
    ("launcher", "local", LocalLauncherConf),
    ("launcher", "slurm", SlurmLauncherConf),
    ("launcher", "ray", RayLauncherConf),
    ("sweeper", "grid", GridSweeperConf),
):
    ConfigStore.instance().store(group=f"hydra/{group}", name=name, node=node, provider="kontrast")
