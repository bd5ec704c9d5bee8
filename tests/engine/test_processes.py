"""A run on several processes from the command line: the same table, and one line for whatever ends it."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from engine.identity import run_id
from engine.plan import Plan
from engine.processes import _meet, run_processes
from engine.world import World
from kontrast.runs import config_of
from storage.run_store import RunFolder
from tests.command_lines import RUN_PY, rows
from tests.own_process import status, the_run, wait_for

pytestmark = pytest.mark.slow

FIT = ["method=sharprecl", "trainer=ddp_cpu", "trainer.max_epochs=6", "sampler.batch_size=32"]


@pytest.fixture
def without_dropout(tiny_encoder_dir, tmp_path) -> list[str]:
    """Overrides for an encoder and a head without dropout, whose draws depend on the process."""
    folder = tmp_path / "encoder"
    shutil.copytree(tiny_encoder_dir, folder)
    config = json.loads((folder / "config.json").read_text())
    config.update(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    (folder / "config.json").write_text(json.dumps(config))
    return [f"encoder.path={folder}", "method.dropout=0"]


def processes_of(process) -> list[int]:
    """Processes that the server of the given one has forked, in the order of their numbers."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = stat.read_text().rpartition(")")[2].split()[:2]
        except OSError:  # ended meanwhile
            continue
        if state != "Z":
            children.setdefault(int(parent), []).append(int(stat.parent.name))
    return sorted(pid for child in children.get(process.pid, []) for pid in children.get(child, []))


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def trained_epochs(tmp_path) -> int:
    histories = list(tmp_path.glob("runs/*/history.csv"))
    return len(rows(histories[0])) if histories else 0


def alike(run: Path, other: Path) -> None:
    """Two runs of one config with equal figures, up to the order of sums."""
    assert run.name == other.name
    predictions = [[list(row.values())[:4] for row in rows(single / "predictions.csv")] for single in (run, other)]
    assert predictions[0] == predictions[1] and len(predictions[0]) == 7 + 24
    for row, expected in zip(*(rows(single / "history.csv") for single in (run, other)), strict=True):
        actual = {key: float(value) for key, value in row.items()}
        assert actual == pytest.approx({key: float(value) for key, value in expected.items()}, rel=1e-3)


def test_two_processes_end_with_the_table_of_one(fit, without_dropout, tmp_path):
    single = fit(*FIT, *without_dropout, "trainer=cpu", f"paths.runs={tmp_path}/one")
    two = fit(*FIT, *without_dropout)
    assert two.code == 0, two.err
    alike(two.folder, single.folder)
    figures = {key for key in single.metrics if key.startswith(("test/", "val/"))}
    for key in sorted(figures):
        # softmax(log p / T) multiplies the rounding of log p by 1 / T
        scale = 1 / single.metrics["test/temperature"] if key.endswith("_scaled") else 1
        assert two.metrics[key] == pytest.approx(single.metrics[key], rel=1e-6 * scale), key
    assert two.metrics["status"] == "finished" and two.metrics["epochs"] == single.metrics["epochs"]
    assert json.loads((two.folder / "environment.json").read_text())["devices"] == 2
    table = [line for line in two.out.splitlines() if "·" in line and "test split" in line]
    assert table and all(line in single.out for line in table)
    assert not list(two.folder.rglob("*.tmp")) and not (two.folder / "checkpoints" / "last.ckpt").exists()


def test_a_killed_process_ends_the_run_with_one_line(start, tmp_path):
    process = start(*FIT, "trainer.max_epochs=500", "callbacks.early_stopping=null")
    wait_for(lambda: trained_epochs(tmp_path) > 0, process)
    first, second = processes_of(process)
    os.kill(second, signal.SIGKILL)
    process.join(30)
    assert process.exitcode == 1
    (line,) = (tmp_path / "output.err").read_text().splitlines()
    assert line.startswith("error: process 1 of 2 was ended by SIGKILL"), line
    assert status(the_run(tmp_path)) == "failed"
    assert "SIGKILL" in json.loads((the_run(tmp_path) / "metrics.json").read_text())["error"]
    assert not is_alive(first)


def test_interrupted_and_killed_it_goes_on_and_one_process_may_end_it(fit, start, without_dropout, tmp_path):
    line = [*FIT, *without_dropout, "callbacks.last.every_seconds=0"]
    undisturbed = fit(*line, "trainer=cpu", f"paths.runs={tmp_path}/undisturbed").folder
    process = start(*line)
    wait_for(lambda: trained_epochs(tmp_path) > 0, process)
    working = processes_of(process)
    os.kill(process.pid, signal.SIGTERM)
    process.join(30)
    assert process.exitcode == 130
    (said,) = (tmp_path / "output.err").read_text().splitlines()
    assert said == "error: interrupted; type the same command again to go on"
    assert status(the_run(tmp_path)) == "interrupted" and not any(map(is_alive, working))

    before = trained_epochs(tmp_path)
    process = start(*line)
    wait_for(lambda: trained_epochs(tmp_path) > before, process)
    working = processes_of(process)
    process.kill()
    process.join()
    time.sleep(1)
    assert len(working) == 2 and not any(map(is_alive, working))  # none goes on writing into a run that nobody holds
    assert fit(*line, "trainer=cpu").code == 0
    alike(the_run(tmp_path), undisturbed)


def test_what_a_process_finds_wrong_is_said_once(fit, tmp_path):
    error = fit(*FIT, "optimizer.lr=1e30", "trainer.gradient_clip_val=null").error
    assert error.startswith("loss: found") and "optimizer.lr" in error
    assert status(the_run(tmp_path)) == "failed"


def test_fewer_rows_than_processes(fit):
    error = fit(*FIT, "trainer.devices=5", "sampler.batch_size=30", "protocol.val_fraction=0.02").error
    assert error == "evaluation split: found 4 rows, allowed: at least 5 (processes)"


def start_all(line: list[str], places: list[dict[str, str]]) -> list[subprocess.Popen]:
    """A command line once for each place, given by environment variables."""
    options = {"cwd": RUN_PY.parent, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return [subprocess.Popen([sys.executable, *line], env=os.environ | place, **options) for place in places]


def outputs_of(processes: list[subprocess.Popen]) -> list[str]:
    return [process.communicate(timeout=120)[0] for process in processes]


@pytest.fixture
def two_nodes(store, small, files):
    """A command line on two nodes with one process each."""

    def start(*line: str) -> list[subprocess.Popen]:
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
        line = [str(RUN_PY), *files, *store, *small, *FIT, *line, "trainer.num_nodes=2", "trainer.devices=1"]
        return start_all(line, [place | {"NODE_RANK": str(node)} for node in range(2)])

    return start


def test_two_nodes(fit, two_nodes, without_dropout, tmp_path):
    single = fit(*FIT, *without_dropout, "trainer=cpu", f"paths.runs={tmp_path}/one").folder
    outputs = outputs_of(nodes := two_nodes(*without_dropout))
    assert [node.returncode for node in nodes] == [0, 0], outputs
    alike(the_run(tmp_path), single)
    assert "epoch 1/6" in outputs[0] and "epoch" not in outputs[1]
    assert outputs[1].splitlines()[-1] == str(the_run(tmp_path))


def test_a_node_ends_when_another_lost_its_process(two_nodes, tmp_path):
    nodes = two_nodes("trainer.max_epochs=500", "callbacks.early_stopping=null")
    while not trained_epochs(tmp_path):
        assert nodes[0].poll() is None
        time.sleep(0.1)
    (of_second,) = processes_of(nodes[1])
    os.kill(of_second, signal.SIGKILL)
    outputs = outputs_of(nodes)
    assert [node.returncode for node in nodes] == [1, 1]
    assert "\nerror: process 1 of 2 was ended by SIGKILL" in outputs[1]
    assert "error: process 0 of 2 lost another one, whose own output says why" in outputs[0].splitlines()[-1]
    assert status(the_run(tmp_path)) == "failed"


TORCHRUN = ["-m", "torch.distributed.run", "--nproc-per-node=2", "--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:0"]
STEP = {"SLURM_JOB_ID": "7", "SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_NUM_NODES": "1", "SLURM_NTASKS_PER_NODE": "2"}


@pytest.mark.parametrize("starter", ["torchrun", "srun"])
def test_started_by_another_launcher_it_finds_its_place(starter, fit, store, small, files, without_dropout, tmp_path):
    single = fit(*FIT, *without_dropout, "trainer=cpu", f"paths.runs={tmp_path}/one").folder
    line, places = [str(RUN_PY), *files, *store, *small, *FIT, *without_dropout], [{}]
    if starter == "torchrun":
        line = [*TORCHRUN, "--local-addr=127.0.0.1", *line]
    else:
        ranks = ("SLURM_PROCID", "SLURM_LOCALID")
        place = STEP | {"SLURM_NODEID": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
        places = [place | {name: str(rank) for name in ranks} for rank in (0, 1)]
    outputs = outputs_of(processes := start_all(line, places))
    assert not any(process.returncode for process in processes), outputs
    alike(the_run(tmp_path), single)
    assert "epoch 1/6" in outputs[0] and not any(outputs[1:])
    assert json.loads((the_run(tmp_path) / "environment.json").read_text())["devices"] == 2


def test_where_another_process_holds_the_run_all_end_in_a_line(store, small, files, tmp_path):
    line = [*files, *store, *small, *FIT]
    plan = Plan.make(config_of(line))
    run = RunFolder(tmp_path / "runs" / run_id(plan.plain, plan.inputs()))
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    with run.lock():
        outputs = outputs_of(start_all([str(RUN_PY), *line], [place | {"RANK": str(rank)} for rank in (0, 1)]))
    said = f"error: run {run.id}: another process is working on it"
    assert [output.splitlines()[-1] for output in outputs] == [said, said]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


def meet_for_a_run_of_its_own() -> None:
    process = int(os.environ["RANK"])
    _meet(process, World(1, 2, process=process), f"run-{process}")


def test_processes_that_came_for_different_runs_say_so():
    with pytest.raises(ValueError, match="^process 1 of 2: found run run-1, allowed: run-0, as in process 0$"):
        run_processes(meet_for_a_run_of_its_own, (), World(1, 2), "run")
