"""Agreement between seeds, from runs written by hand."""

import importlib
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
import yaml
from sklearn.metrics import adjusted_mutual_info_score

from launching.sweep import report_sweep
from reporting.arguments import run_command
from reporting.cluster_agreement import (
    agreement,
    agreement_in_sweep,
    agreement_table,
    agreements,
    correlation_table,
    main,
    settings,
)
from reporting.tables import SweepJob
from storage.errors import ReportError
from storage.run_store import RunFolder, list_runs


@pytest.fixture
def add(tmp_path):
    def write(tau, seed, clusters, method="aecl", first=0, acc=None, nmi=None, file=None):
        run = RunFolder(tmp_path / f"{method}-{tau}-{seed}-{first}")
        names = {"method": method, "dataset": "tweet", "seed": seed, "cluster/num_clusters": 3, "epochs": 9}
        names |= {"cluster/acc": acc, "cluster/nmi": nmi, "cluster/occupied": len(set(clusters))}
        run.write_metrics(names, status="finished")
        own = {"dataset": {"name": "csv", "train": file}} if file else {}
        run.write_text("config.yaml", yaml.safe_dump({"method": {"name": method}, "loss": {"tau": tau}} | own))
        rows = [(first + index, cluster) for index, cluster in enumerate(clusters)]
        run.write_csv("predictions.csv", rows, ("index", "cluster"))
        return run

    return write


def test_the_mean_over_all_pairs_of_seeds(add):
    rng = np.random.default_rng(0)
    clusters = [rng.integers(3, size=40) for _ in range(3)]
    actual = agreement([add(0.5, seed, each) for seed, each in enumerate(clusters)])
    pairs = [adjusted_mutual_info_score(a, b) for a, b in combinations(clusters, 2)]
    assert actual.mean == pytest.approx(np.mean(pairs)) and actual.lowest == pytest.approx(min(pairs))


def test_names_of_clusters_and_the_order_of_rows_do_not_count(add):
    single, two = add(0.5, 0, [0, 0, 1, 1, 2]), add(0.5, 1, [2, 2, 0, 0, 1])
    rows = single.read_csv("predictions.csv")
    single.write_csv("predictions.csv", [tuple(row.values()) for row in reversed(rows)], ("index", "cluster"))
    assert agreement([single, two]).mean == pytest.approx(1.0)


def test_the_setting_that_agrees_most_is_marked_within_its_method(add, tmp_path, capsys):
    for seed, clusters in enumerate(([0, 0, 1, 1, 2, 2], [0, 0, 1, 1, 2, 2])):
        add(0.5, seed, clusters, acc=0.5)
        add(1.0, seed, np.roll(clusters, seed), acc=0.75)
        add(0.5, seed, clusters, method="sccl")
    add(2.0, 0, [0, 0, 1, 1, 2, 2])  # one seed agrees with nobody
    actual = settings(list_runs(tmp_path), ["loss.tau"], {})
    table = agreement_table(actual, agreements(actual), ["loss.tau"])
    lowest = 100 * adjusted_mutual_info_score([0, 0, 1, 1, 2, 2], [2, 0, 0, 1, 1, 2])
    assert table.rows == (
        ("tweet", "aecl", "0.5", "2", "**100.00**", "100.00", "3, 3", "50.00 ± 0.00", "–"),
        ("tweet", "aecl", "1", "2", f"{lowest:.2f}", f"{lowest:.2f}", "3, 3", "75.00 ± 0.00", "–"),
        ("tweet", "sccl", "0.5", "2", "100.00", "100.00", "3, 3", "–", "–"),
    )
    main([str(tmp_path), "by=loss.tau", "where=method:sccl"])
    assert "| tweet      | sccl     |        0.5 |" in capsys.readouterr().out


def test_a_sweep_over_settings_and_seeds_names_the_line_that_agrees_most(add, tmp_path, capsys):
    clusters, jobs = [0, 0, 1, 1, 2, 2], []
    for tau, others in {0.5: [0, 1, 2, 0, 1, 2], 1.0: clusters, 2.0: [0, 0, 1, 1, 2, 0]}.items():
        for seed, assigned in enumerate((clusters, others)):
            run = add(tau, seed, assigned)
            words = {"task": "cluster", "dataset.name": "a name", "loss.tau": str(tau), "seed": str(seed)}
            jobs.append(SweepJob(words, "finished", run, metrics=run.read_metrics()))
    single = add(4.0, 0, clusters)  # a setting of one seed agrees with nobody
    jobs.append(SweepJob(jobs[0].overrides | {"loss.tau": "4.0"}, "finished", single, metrics=single.read_metrics()))
    jobs.append(SweepJob(jobs[0].overrides | {"loss.tau": "8.0"}, "failed"))
    table, lines = agreement_in_sweep(jobs)
    assert [row[2] for row in table.rows] == ["0.5", "1.0", "2.0"] and table.rows[1][4] == "**100.00**"
    assert lines == ["python run.py task=cluster 'dataset.name=a name' loss.tau=1.0"]
    assert agreement_in_sweep(jobs[:2]) is None  # nothing to choose from
    untrained = [replace(job, metrics={**job.metrics, "epochs": None}) for job in jobs]
    assert agreement_in_sweep(untrained) is None
    report_sweep(jobs, tmp_path / "sweep")
    assert f"seeds agree most: {lines[0]}" in capsys.readouterr().out and (tmp_path / "sweep/agreement.md").exists()
    (single.path.parent / "aecl-1.0-1-0/predictions.csv").unlink()
    report_sweep(jobs, tmp_path / "sweep")
    assert "agreement between seeds: run aecl-1.0-1-0: predictions.csv cannot be read" in capsys.readouterr().err


def test_the_order_by_agreement_beside_the_order_by_scores(add, tmp_path, capsys):
    clusters = [0, 0, 1, 1, 2, 2]
    others = {0.5: clusters, 1.0: [0, 0, 1, 2, 2, 2], 2.0: [0, 0, 1, 2, 2, 1], 4.0: [0, 1, 2, 0, 1, 2]}
    for (tau, other), (first, second) in zip(others.items(), [(7, 9), (4, 4), (5, 6), (1, 2)], strict=True):
        add(tau, 0, clusters, acc=first / 10, nmi=-first / 10)
        add(tau, 1, other, acc=second / 10, nmi=-second / 10)
        add(tau, 0, clusters, method="sccl")  # no scores
        add(tau, 1, other, method="sccl")
    actual = settings(list_runs(tmp_path), ["loss.tau"], {})
    # ranks by agreement 4 3 2 1, by ACC 4 2 3 1: 1 - 6 (0 + 1 + 1 + 0) / (4 (16 - 1)) = 0.8
    assert correlation_table(actual, agreements(actual)).rows == (("tweet", "aecl", "4", "0.80", "-0.80"),)
    main([str(tmp_path), "by=loss.tau"])
    assert "Spearman" in capsys.readouterr().out
    main([str(tmp_path), "by=loss.tau", "where=method:sccl"])
    assert "Spearman" not in capsys.readouterr().out


def test_runs_that_fell_into_one_cluster_do_not_agree(add, tmp_path):
    runs = [add(0.5, seed, [seed] * 6) for seed in (0, 1)]
    assert agreement(runs).mean == 0.0
    assert agreement([runs[0], add(0.5, 2, [0, 0, 1, 1, 2, 2])]).mean == 0.0


def test_a_value_is_one_however_it_is_typed_and_files_are_data_sets(add, tmp_path):
    clusters = [0, 0, 1, 1, 2, 2]
    add(10, 0, clusters)
    add(10.0, 1, clusters)
    actual = settings(list_runs(tmp_path), ["loss.tau"], {"loss.tau": "1e1"})
    assert [(key, sorted(seeds)) for key, seeds in actual.items()] == [(("tweet", "aecl", "10"), [0, 1])]
    add(10, 2, clusters, file="mine.csv")
    actual = settings(list_runs(tmp_path), ["loss.tau"], {})
    assert {key[0]: sorted(seeds) for key, seeds in actual.items()} == {"tweet": [0, 1], "tweet mine.csv": [2]}


def test_no_order_among_equal_scores(add, tmp_path):
    for tau, other in {0.5: [0, 0, 1, 1], 1.0: [0, 1, 1, 1], 2.0: [0, 1, 0, 1]}.items():
        add(tau, 0, [0, 0, 1, 1], acc=0.5, nmi=tau)
        add(tau, 1, other, acc=0.5, nmi=tau)
    actual = settings(list_runs(tmp_path), ["loss.tau"], {})
    assert correlation_table(actual, agreements(actual)).rows == (("tweet", "aecl", "3", "–", "-1.00"),)


def test_bad_input_is_refused(add, tmp_path):
    add(0.5, 0, [0, 1, 2])
    with pytest.raises(ReportError, match="no setting has two seeds"):
        main([str(tmp_path), "by=loss.tau"])
    with pytest.raises(ReportError, match=r"by=loss.tua: no run sets loss.tua"):
        main([str(tmp_path), "by=loss.tua"])
    add(1.0, 0, [0, 1, 2])
    assert list(settings(list_runs(tmp_path), (), {})) == [("tweet", "aecl", f"loss.tau={tau}") for tau in ("0.5", "1")]
    add(0.5, 1, [0, 1, 2], first=5)
    with pytest.raises(ReportError, match="other texts"):
        main([str(tmp_path), "by=loss.tau"])
    add(0.5, 1, [0, 1, 2], first=5).path.joinpath("predictions.csv").unlink()
    with pytest.raises(ReportError, match="predictions.csv cannot be read"):
        main([str(tmp_path), "by=loss.tau"])


@pytest.mark.parametrize("command", ["compare", "cluster_table", "cluster_agreement"])
@pytest.mark.parametrize("typed", ["bye=loss.tau", "by", "where=loss.tau"])
def test_an_unknown_option_is_one_line(tmp_path, monkeypatch, capsys, command, typed):
    monkeypatch.setattr("sys.argv", ["command", str(tmp_path), typed])
    module = importlib.import_module(f"reporting.{command}")
    with pytest.raises(SystemExit) as stopped:
        run_command(module.main, module.__doc__)
    assert stopped.value.code == 2 and capsys.readouterr().err.startswith(f"error: {typed}: allowed: ")


@pytest.mark.parametrize("command", ["compare", "cluster_table", "cluster_agreement"])
def test_help_is_the_usage(monkeypatch, capsys, command):
    monkeypatch.setattr("sys.argv", ["command", "--help"])
    module = importlib.import_module(f"reporting.{command}")
    with pytest.raises(SystemExit) as stopped:
        run_command(module.main, module.__doc__)
    assert not stopped.value.code and f"python -m reporting.{command}" in capsys.readouterr().out
