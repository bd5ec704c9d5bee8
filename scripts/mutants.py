"""Seed known faults, one at a time, into a copy of the tree, and show which test catches each.

    make mutants                      # all faults, each against the test files named for it
    make mutants ARGS="holm_order"    # some of them
    make mutants ARGS="--all"         # each against every test, fast and slow

A fault is one text replaced by another. A text that is not there exactly once is an error: code has moved, and the
fault must move with it (tests/test_mutants.py says so at once).
"""

from __future__ import annotations

import argparse
import importlib
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
# what nearly every test loads: once here, so that a process forked for a fault starts at once
LIBRARIES = "numpy scipy.stats sklearn.metrics pandas torch torchmetrics lightning.pytorch transformers hydra".split()


class Mutant(NamedTuple):
    """A fault: in `file`, `old` becomes `new`; one of `tests` (paths below tests/) is to fail."""

    file: str
    old: str
    new: str
    tests: str


MUTANTS = {
    # losses
    "contrast_sign": Mutant(
        "losses/supervised_contrastive.py",
        "return off_diagonal_log_sum_exp(embeddings, weights, tau) - mean_positive",
        "return off_diagonal_log_sum_exp(embeddings, weights, tau) + mean_positive",
        "losses/test_contrastive.py",
    ),
    "contrast_counts_itself": Mutant(
        "losses/supervised_contrastive.py",
        "(pairs * has_positive / (size - 1).clamp_min(1))",
        "(pairs * has_positive / size.clamp_min(1))",
        "losses/test_contrastive.py",
    ),
    "easiest_for_hardest": Mutant(
        "losses/sharprecl.py",
        "draw(lambda k: first + k, -similarity,",
        "draw(lambda k: first + k, similarity,",
        "losses/test_sharprecl.py",
    ),
    "hard_negatives_axis": Mutant(
        "losses/scl_hnm.py",
        "torch.zeros_like(negative).scatter(1, places, True)",
        "torch.zeros_like(negative).scatter(0, places, True)",
        "losses/test_scl_hnm.py",
    ),
    "anchor_in_its_denominator": Mutant(
        "losses/multilabel_contrastive.py",
        "masked_log_sum_exp(logits, ~itself)",
        "masked_log_sum_exp(logits, itself | ~itself)",
        "losses/test_multilabel_contrastive.py",
    ),
    "prior_sign": Mutant(
        "losses/logit_compensated.py",
        "logits + adjustment_strength * log_prior",
        "logits - adjustment_strength * log_prior",
        "losses/test_logit_compensated.py losses/test_classification_losses.py",
    ),
    "targets_not_detached": Mutant(
        "losses/student_t.py",
        "log_q = log_assignments.detach()",
        "log_q = log_assignments",
        "losses/test_text_clustering.py",
    ),
    "gather_world_factor": Mutant(
        "losses/distributed.py",
        "        dist.all_reduce(grad)\n",
        "        dist.all_reduce(grad)\n        grad = grad / dist.get_world_size()\n",
        "losses/test_distributed.py",
    ),
    "transport_columns": Mutant(
        "losses/transport.py",
        "log_received = (scaled - log_rows).logsumexp(0)",
        "log_received = (scaled - log_rows).logsumexp(0).flip(0)",
        "losses/test_text_clustering.py",
    ),
    # modules
    "momentum_swapped": Mutant(
        "lightning_modules/methods/supervised/momentum.py",
        "key.lerp_(query, 1 - self.momentum)",
        "key.lerp_(query, self.momentum)",
        "lightning_modules/methods/supervised/test_queue.py",
    ),
    "queue_off_by_one": Mutant(
        "lightning_modules/methods/supervised/momentum.py",
        "(self.queue_position + len(keys)) % size",
        "(self.queue_position + len(keys) - 1) % size",
        "lightning_modules/methods/supervised/test_queue.py",
    ),
    "cache_other_dropout": Mutant(
        "lightning_modules/gradient_cache.py",
        "        torch.set_rng_state(cpu_state)\n",
        "",
        "lightning_modules/test_gradient_cache.py",
    ),
    # data
    "wrong_rank": Mutant(
        "datamodules/samplers.py",
        "np.array_split(batch, self.world_size)[self.rank]",
        "np.array_split(batch, self.world_size)[self.rank - 1]",
        "datamodules/test_samplers.py",
    ),
    "order_without_seed": Mutant(
        "datamodules/samplers.py",
        "rng = np.random.default_rng([self.seed, self.epoch, self.stream])\n        order = rng.permutation",
        "rng = np.random.default_rng([self.epoch, self.stream])\n        order = rng.permutation",
        "datamodules/test_samplers.py",
    ),
    "frequency_sign": Mutant(
        "datamodules/samplers.py",
        "share = self.counts**exponent",
        "share = self.counts**-exponent",
        "datamodules/test_class_samplers.py",
    ),
    "counts_before_thinning": Mutant(
        "datamodules/datamodule.py",
        'counts = class_counts(self.labels["train"], self.num_classes)',
        "counts = class_counts(choice.labels['train'], self.num_classes)",
        "datamodules/test_datamodule.py",
    ),
    "profile_off_by_one": Mutant(
        "datamodules/imbalance.py",
        "decay = np.arange(len(order)) / max(len(order) - 1, 1)",
        "decay = np.arange(len(order)) / len(order)",
        "datamodules/test_imbalance.py",
    ),
    # statistics
    "holm_order": Mutant(
        "reporting/statistics.py",
        'method="holm"',
        'method="simes-hochberg"',
        "reporting/test_statistics.py reporting/test_error_rates.py",
    ),
    "unpaired_test": Mutant(
        "reporting/statistics.py",
        "outcome = stats.ttest_rel(first, second)",
        "outcome = stats.ttest_ind(first, second)",
        "reporting/test_statistics.py",
    ),
    "spread_of_population": Mutant(
        "reporting/statistics.py",
        "d = float(difference.mean() / difference.std(ddof=1))",
        "d = float(difference.mean() / difference.std(ddof=0))",
        "reporting/test_statistics.py reporting/test_error_rates.py",
    ),
    # resume and selection
    "last_for_best": Mutant(
        "engine/finished.py",
        'BEST = "checkpoints/best.ckpt"',
        'BEST = "checkpoints/last.ckpt"',
        "tasks/test_fit.py",
    ),
    "ties_never_latest": Mutant(
        "callbacks/checkpoint.py",
        "if self.latest and current is not None",
        "if not self.latest and current is not None",
        "callbacks/test_checkpoint.py",
    ),
    "dropout_without_seed": Mutant(
        "lightning_modules/base.py",
        'self._seed_dropout(derived_seed(self.seed, "dropout", *self._step(), self.global_rank))',
        "pass",
        "engine/test_resume.py",
    ),
    # retrieval
    "far_neighbours_weigh_more": Mutant(
        "retrieval/vote.py",
        "np.exp(-(distances - nearest) / tau)",
        "np.exp((distances - nearest) / tau)",
        "retrieval/test_vote.py",
    ),
    "one_neighbour_short": Mutant(
        "retrieval/search.py",
        "count = k if itself is None else k + 1",
        "count = k",
        "retrieval/test_search.py",
    ),
    "positions_of_a_block": Mutant(
        "retrieval/search.py",
        "first + nearest], 1)",
        "nearest], 1)",
        "retrieval/test_search.py",
    ),
    # active learning
    "surest_first": Mutant(
        "active_learning/strategies/uncertainty.py",
        "return first_two[:, 0] - first_two[:, 1]",
        "return first_two[:, 1] - first_two[:, 0]",
        "active_learning/test_against_papers.py",
    ),
}


def check(name: str, root: Path = ROOT) -> None:
    """Raises ValueError: the text to replace is not in its file exactly once, or a test file is gone."""
    mutant = MUTANTS[name]
    file = root / mutant.file
    times = file.read_text(encoding="utf-8").count(mutant.old) if file.is_file() else 0
    if times != 1:
        raise ValueError(f"{name}: {mutant.file} holds {mutant.old.strip()!r} {times} times; allowed: once")
    if gone := [test for test in mutant.tests.split() if not (root / "tests" / test).exists()]:
        raise ValueError(f"{name}: no tests/{gone[0]}")


class Failures:
    """A plugin of pytest that keeps the tests that fail, and apart from them what cannot even be collected."""

    def __init__(self) -> None:
        self.failed: list[str] = []
        self.broken: list[str] = []

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.failed.append(report.nodeid)

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.broken.append(report.nodeid)


def run_tests(tree: Path, tests: list[str], answer: Path) -> None:
    """Run tests of a tree, those marked slow too, up to the first failure; what failed goes to the file `answer`."""
    import pytest

    os.chdir(tree)
    sys.path[:] = [
        str(tree),
        *(path for path in sys.path if Path(path or ".").resolve() not in (ROOT, ROOT / "scripts")),
    ]
    os.environ["PYTHONPATH"] = str(tree)
    with (tree / "pytest.log").open("w") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
        failures = Failures()
        options = [
            "-x",
            "-q",
            "-m",
            "",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:xdist",
            f"--basetemp={tree.parent / 'temporary'}",
        ]
        code = pytest.main([*options, *tests], plugins=[failures])
    answer.write_text(json.dumps({"code": int(code), "failed": failures.failed, "broken": failures.broken}))
    os._exit(0)


def result_of(tree: Path, tests: list[str]) -> dict[str, Any]:
    """What `run_tests` found in a process of its own."""
    answer = tree.parent / "answer.json"
    answer.unlink(missing_ok=True)
    process = multiprocessing.get_context("fork").Process(target=run_tests, args=(tree, tests, answer))
    process.start()
    process.join()
    return json.loads(answer.read_text()) if answer.exists() else {"code": 1, "failed": [], "broken": ["the process"]}


def copy_of(folder: Path) -> Path:
    """The files of this checkout, those not yet committed too, in a new folder."""
    tree = folder / "tree"
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, check=True, text=True).stdout.split("\0")
    for name in filter(None, names):
        if (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)
    return tree


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="faults to seed; all where none is named")
    parser.add_argument("--all", action="store_true", help="run every test, not only the files named for a fault")
    arguments = parser.parse_args()
    names = arguments.names or list(MUTANTS)
    if unknown := [name for name in names if name not in MUTANTS]:
        parser.error(f"found {unknown[0]}; allowed: {', '.join(MUTANTS)}")
    for name in names:
        check(name)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("KONTRAST_MIRROR", str(ROOT.parent / "shared" / "sources"))
    for library in LIBRARIES:
        importlib.import_module(library)
    killers: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        tree = copy_of(Path(folder))
        for name in names:
            file, old, new, tests = MUTANTS[name]
            original = (tree / file).read_text(encoding="utf-8")
            (tree / file).write_text(original.replace(old, new), encoding="utf-8")
            result = result_of(tree, ["tests"] if arguments.all else [f"tests/{test}" for test in tests.split()])
            (tree / file).write_text(original, encoding="utf-8")
            if result["broken"]:
                print((tree / "pytest.log").read_text(), file=sys.stderr)
            elif result["failed"]:
                killers[name] = result["failed"][0]
            print(f"| {name} | {file} | {killers.get(name, '**survives**')} |", flush=True)
        # a test that fails without any fault has caught none
        always: dict[str, Any] = {"code": 0, "failed": []}
        if killers:
            always = result_of(tree, sorted(set(killers.values())))
    if always["code"] != 0:
        print(f"fails without a fault: {', '.join(always['failed']) or always}", file=sys.stderr)
    print(f"{len(killers)} of {len(names)} faults caught")
    return int(len(killers) < len(names) or always["code"] != 0)


if __name__ == "__main__":
    sys.exit(main())
