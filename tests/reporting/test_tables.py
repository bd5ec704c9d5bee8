"""Tables: what they say, and how they look on a terminal and in a file."""

import csv
import io

from reporting.tables import SweepJob, duration, summary_table, sweep_table, worst_confusions
from storage.run_store import RunFolder

METRICS = {
    "method": "ce",
    "dataset": "trec",
    "seed": 3,
    "protocol": "clean",
    "test/accuracy": 0.6842,
    "test/macro_f1": 0.6,
    "test/macro_f1_head": 0.7,
    "seconds/total": 75.2,
}


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_summary_has_the_figures_in_percent():
    table = summary_table(METRICS)
    assert dict(zip(table.header, table.rows[0], strict=True)) == {
        "": "this run",
        "accuracy": "68.42",
        "macro-F1": "60.00",
        "F1 largest third": "70.00",
        "F1 middle third": "–",
        "F1 smallest third": "–",
        "time": "1 min 15 s",
    }
    assert table.title == "ce · trec · seed 3 · test split, %"


def test_what_a_run_read_besides_labels_stands_beside_it():
    assert summary_table(METRICS | {"reads": "NU"}).rows[0][0] == "this run (N U)"
    assert summary_table(METRICS | {"reads": ""}).rows[0][0] == "this run"
    jobs = [SweepJob({}, "finished", metrics={"reads": reads}) for reads in ("NU", "")]
    assert sweep_table(jobs).header == ("status", "reads", "time", "run or error")
    assert [row[1] for row in sweep_table(jobs).rows] == ["N U", ""]
    assert "reads" not in sweep_table(jobs[1:]).header


def test_below_stand_the_interval_and_the_rivals():
    sure = {"test/accuracy_low": 0.6, "test/accuracy_high": 0.7, "test/majority_accuracy": 0.5}
    _, interval, majority, logistic = summary_table(METRICS | sure | {"test/logistic_accuracy": 0.9}).rows
    assert logistic[:3] == ("logistic regression, frozen encoder", "90.00", "")
    assert interval[:3] == ("95 % interval", "60.00 to 70.00", "") and majority[:3] == ("largest class", "50.00", "")
    several = {"test/hamming_loss": 0.1, "test/micro_f1": 0.7, "test/majority_micro_f1": 0.4}
    assert summary_table(METRICS | several).rows[-1][:3] == ("commonest labels", "40.00", "")


def test_the_published_protocol_is_named():
    assert "published" in summary_table({**METRICS, "protocol": "published"}).title
    assert "published" in sweep_table([SweepJob({}, "finished", metrics={"protocol": "published"})]).title


def test_plain_text_elsewhere_and_rich_on_a_terminal():
    plain, terminal = io.StringIO(), Terminal()
    summary_table(METRICS).show(plain)
    summary_table(METRICS).show(terminal)
    assert "68.42" in plain.getvalue() and "68.42" in terminal.getvalue()
    assert "┃" in terminal.getvalue() and "┃" not in plain.getvalue()


def test_worst_confusions_name_where_the_rows_went():
    labels = [0] * 4 + [1] * 4 + [2] * 2
    predictions = [0, 0, 0, 0, 0, 0, 2, 1, 2, 0]
    table = worst_confusions(labels, predictions, ["a", "b", "c", "d"], [50, 20, 10, 5], n=2)
    assert table.rows == (
        ("b", "20", "4", "40.00", "25.00", "a 50 %, c 25 %"),
        ("c", "10", "2", "50.00", "50.00", "a 50 %"),
    )
    assert "Worst 2 of 3" in table.title


def test_sweep_shows_what_varies_and_every_job(tmp_path):
    same = {"method": "ce"}
    jobs = [
        SweepJob(
            {**same, "loss.tau": "0.3"},
            "finished",
            RunFolder(tmp_path / "ce-trec-1"),
            seconds=3.0,
            metrics={"test/accuracy": 0.5},
        ),
        SweepJob({**same, "loss.tau": "-1"}, "failed", error="loss.tau: found -1, allowed > 0", seconds=1.0),
    ]
    table = sweep_table(jobs)
    assert table.header == ("loss.tau", "status", "test/accuracy", "time", "run or error")
    assert table.rows[0] == ("0.3", "finished", "50.00", "3.0 s", "ce-trec-1")
    assert table.rows[1] == ("-1", "failed", "–", "1.0 s", "loss.tau: found -1, allowed > 0")
    assert table.title.startswith("2 jobs, 1 finished, 1 not")
    assert table.markdown().count("\n|") == 4
    assert list(csv.reader(io.StringIO(table.csv())))[2][1] == "failed"


def test_markup_in_names_is_printed_as_it_is():
    terminal = Terminal()
    worst_confusions([0, 1], [1, 0], ["[red]", "b"], [1, 1]).show(terminal)
    assert "[red]" in terminal.getvalue()


def test_durations():
    assert [duration(value) for value in (None, 1.25, 61, 3725)] == ["–", "1.2 s", "1 min 01 s", "1 h 02 min"]
