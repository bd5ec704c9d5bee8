"""The figure of a sweep shows each swept key, averaged over the others."""

from unittest import mock

from reporting import sweep_figure as module
from reporting.tables import SweepJob


def job(accuracy, status="finished", **overrides):
    metrics = {"test/accuracy": accuracy} if status == "finished" else {}
    return SweepJob({key.replace("__", "."): str(value) for key, value in overrides.items()}, status, metrics=metrics)


def drawn(jobs, tmp_path):
    with mock.patch.object(module, "lines_figure") as figure:
        module.sweep_figure(jobs, tmp_path / "sweep")
    return figure.call_args.args[0], figure.call_args.args[4]


def test_one_panel_a_key_with_means_over_the_others(tmp_path):
    settings = [(tau, k, seed) for tau in (1, 2) for k in (5, 9) for seed in (0, 1)]
    jobs = [job(tau + k / 100, loss__tau=tau, method__K=k, seed=seed) for tau, k, seed in settings]
    series, named = drawn([*jobs, job(0, "failed", loss__tau=7, method__K=5, seed=0)], tmp_path)
    assert list(series) == ["loss.tau", "method.K"] and named == {}
    assert series["loss.tau"]["accuracy"] == {1.0: [1.05, 1.05, 1.09, 1.09], 2.0: [2.05, 2.05, 2.09, 2.09]}
    assert sorted(series["method.K"]["accuracy"]) == [5.0, 9.0]


def test_names_stand_on_the_axis_and_seeds_alone_are_shown(tmp_path):
    series, named = drawn([job(0.5, method="ce"), job(0.6, method="acl")], tmp_path)
    assert named == {"method": ["ce", "acl"]} and series["method"]["accuracy"] == {0.0: [0.5], 1.0: [0.6]}
    assert list(drawn([job(0.5, seed=0), job(0.6, seed=1)], tmp_path)[0]) == ["seed"]


def test_nothing_finished_or_varied_is_no_figure(tmp_path):
    assert module.sweep_figure([job(0.5, method="ce")], tmp_path / "sweep") is None
    assert module.sweep_figure([job(0, "failed", x=1), job(0, "failed", x=2)], tmp_path / "sweep") is None
    assert list(tmp_path.iterdir()) == []
