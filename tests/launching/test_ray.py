"""Sweeps on Ray: a cluster of two nodes on this machine, one of which is killed in the middle."""

import json
import signal
import subprocess
import time

import pytest

from tests.launching.toy_program import command, run, sweep_rows

pytestmark = pytest.mark.slow
ray = pytest.importorskip("ray", reason="the extra ray is not installed")


@pytest.fixture(scope="module")
def cluster():
    """A node with room for one job, and what `add_node` needs for a second; both on the loopback device."""
    from ray.cluster_utils import Cluster

    node = {"num_cpus": 1, "num_gpus": 0, "object_store_memory": 80 * 2**20, "node_ip_address": "127.0.0.2"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_health_check_initial_delay_ms", "0")
        patch.setenv("RAY_health_check_period_ms", "500")
        patch.setenv("RAY_health_check_failure_threshold", "4")
        nodes = Cluster(initialize_head=True, head_node_args=node)
        nodes.second = node | {"node_ip_address": "127.0.0.3"}
        yield nodes
        nodes.shutdown()


def on_cluster(cluster, *words: str) -> list[str]:
    return ["-m", "hydra/launcher=ray", f"hydra.launcher.address={cluster.address}", *words]


def begun(toy) -> dict[str, int]:
    """Process of each job that is running."""
    metrics = [json.loads(file.read_text()) for file in toy.glob("runs/toy-*/metrics.json")]
    return {first["pid"] for first in metrics if first["status"] == "running"}


def node_of(pid: int) -> int:
    """The raylet that a job's process belongs to."""
    while True:
        stat = open(f"/proc/{pid}/stat").read()
        if "raylet" in stat.partition(")")[0]:
            return pid
        pid = int(stat.rpartition(")")[2].split()[1])


def ends(pid: int) -> bool:
    """Whether a process ends within seconds."""
    for _ in range(100):
        try:
            if open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.1)
    return False


def test_a_lost_node_costs_no_run(toy, cluster):
    second = cluster.add_node(**cluster.second)
    cluster.wait_for_nodes()
    sweep = subprocess.Popen(**command(toy, *on_cluster(cluster, "x=1,2,3,4", "sleep=6")), stderr=subprocess.STDOUT)
    limit = time.monotonic() + 120
    while len(begun(toy)) < 2:
        assert sweep.poll() is None and time.monotonic() < limit
        time.sleep(0.1)
    raylet = second.all_processes["raylet"][0].process.pid
    (lost,) = [pid for pid in begun(toy) if node_of(pid) == raylet]
    cluster.remove_node(second, allow_graceful=False)
    output = sweep.communicate(timeout=180)[0]
    assert sweep.returncode == 0, output
    assert "4 jobs on Ray" in output and "4 jobs, 4 finished" in output
    assert [row["status"] for row in sweep_rows(toy)] == ["finished"] * 4
    logs = ["".join(log.read_text()) for log in toy.glob("runs/sweeps/*/job-*.log")]
    assert sum(log.count("hello") for log in logs) == 5  # the lost one twice
    assert ends(lost)


def test_a_job_that_fails_leaves_the_others_alone(toy, cluster):
    outcome = run(toy, *on_cluster(cluster, "x=1,13,2"))
    assert outcome.returncode == 1, outcome.stdout
    rows = sweep_rows(toy)
    assert [row["status"] for row in rows] == ["finished", "failed", "finished"]
    assert rows[1]["run or error"] == "x: found 13, allowed any other" and rows[2]["test/accuracy"] == "20.00"


def test_interrupted_it_stops_its_jobs(toy, cluster):
    sweep = subprocess.Popen(**command(toy, *on_cluster(cluster, "x=1,2", "sleep=60")), stderr=subprocess.STDOUT)
    while not begun(toy):
        assert sweep.poll() is None
        time.sleep(0.1)
    (job,) = begun(toy)
    sweep.send_signal(signal.SIGTERM)
    output = sweep.communicate(timeout=60)[0]
    assert sweep.returncode == 130, output
    assert [row["status"] for row in sweep_rows(toy)] == ["interrupted", "not started"]
    assert ends(job)


def test_no_cluster_is_said_in_one_line(toy):
    outcome = run(toy, "-m", "hydra/launcher=ray", "hydra.launcher.address=127.0.0.1:9", "x=1,2")
    assert outcome.returncode == 1
    assert "hydra.launcher.address: found 127.0.0.1:9, and no cluster of Ray answers" in outcome.stdout
    assert "Traceback" not in outcome.stdout
