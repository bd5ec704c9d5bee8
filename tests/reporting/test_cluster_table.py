"""The table of clusterings, from runs written by hand."""

import pytest
import yaml

from reporting.cluster_table import cluster_table, clusterings, main
from storage.errors import ReportError
from storage.run_store import RunFolder, list_runs


@pytest.fixture
def runs(tmp_path):
    def add(method, dataset, seed, acc, num_clusters=4, wanted=None, status="finished"):
        run = RunFolder(tmp_path / f"{method}-{dataset}-{seed}-{wanted}-{status}")
        names = {"method": method, "dataset": dataset, "seed": seed, "cluster/num_clusters": num_clusters}
        figures = {"cluster/acc": acc, "cluster/nmi": None, "seconds/total": 10 * acc}
        run.write_metrics({**names, **figures}, status=status)
        run.write_text("config.yaml", yaml.safe_dump({"method": {"name": method, "num_clusters": wanted}}))

    add("aecl", "tweet", 0, 0.8)
    add("aecl", "tweet", 1, 0.9)
    add("aecl", "tweet", 2, 0.1, status="failed")
    add("sbert_kmeans", "tweet", 0, 0.5)
    add("sbert_kmeans", "news", 0, 0.25)
    add("aecl", "tweet", 0, 0.3, num_clusters=7, wanted="auto")
    return tmp_path


def test_means_over_seeds(runs):
    actual = clusterings(list_runs(runs), {"method.num_clusters": "null"})
    table = cluster_table(actual, ["cluster/acc", "cluster/nmi"])
    assert table.header == ("data set", "aecl", "sbert_kmeans")
    assert table.rows == (("news", "–", "25.00 / –"), ("tweet", "85.00 ± 7.07 / –", "50.00 / –"))


def test_numbers_seed_by_seed(runs, capsys):
    main([str(runs), "keys=cluster/num_clusters,cluster/acc,seconds/total", "where=method.num_clusters:auto"])
    assert "| tweet      | 7 / 30.00 / 3.00 |" in capsys.readouterr().out


def test_runs_of_other_settings_are_columns_of_their_own_and_none_is_refused(runs):
    results = clusterings(list_runs(runs), {}).items()
    of_tweet = {method: sorted(seeds) for (name, method), seeds in results if name == "tweet"}
    told = "aecl method.num_clusters"
    assert of_tweet == {f"{told}=null": [0, 1], f"{told}=auto": [0], "sbert_kmeans": [0]}
    with pytest.raises(ReportError, match="no finished clusterings"):
        main([str(runs), "where=method.num_clusters:9"])
