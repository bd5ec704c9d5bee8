"""Preparing a large CSV: time and peak memory at 250,000, 500,000 and 1,000,000 rows, a process each.

    python benchmarks/csv_prepare.py [--rows 250000 500000 1000000]

Memory is the peak resident set less the resident set after the imports; memory-mapped pages count. Fails where the
largest file needs 2 GiB or more, or where processor time per row (the wall clock counts other programs too) grows by
more than half from the smallest to the largest.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
LIMIT_MIB = 2048


def write_csv(path: Path, rows: int, seed: int = 0) -> None:
    """Texts of 4 to 40 words from a Zipf-distributed vocabulary, 20 classes of a long tail, 1 % duplicates."""
    rng = np.random.default_rng(seed)
    words = np.array([f"w{number}" for number in range(20_000)])
    with path.open("w", encoding="utf-8") as file:
        file.write("text,label\n")
        text = "first"
        for start in range(0, rows, 10_000):
            count = min(10_000, rows - start)
            lengths = rng.integers(4, 41, count)
            drawn = words[np.minimum(rng.zipf(1.2, lengths.sum()), len(words)) - 1].tolist()
            labels = np.minimum(rng.geometric(0.2, count), 20)
            at = 0
            for length, label, repeat in zip(lengths.tolist(), labels.tolist(), rng.random(count) < 0.01, strict=True):
                text = text if repeat else " ".join(drawn[at : at + length])
                at += length
                file.write(f'"{text}",class {label}\n')


def measure(path: Path, folder: Path) -> dict[str, float]:
    """Prepare ``path`` in this process."""
    sys.path.insert(0, str(ROOT))
    from datamodules.builders.user_files import Csv
    from datamodules.corpus import prepare

    before = _resident_mib()
    start, cpu_start = time.perf_counter(), time.process_time()
    corpus = prepare(Csv(train=str(path)), folder, None)
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
    start = time.perf_counter()
    prepare(Csv(train=str(path)), folder, None)
    reopen = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    rows = sum(split["rows"] for split in corpus.card["splits"].values())
    return {
        "rows": rows,
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "mib": peak - before,
        "reopen_seconds": reopen,
    }


def _resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[250_000, 500_000, 1_000_000])
    parser.add_argument("--measure", type=Path, nargs=2, metavar=("CSV", "FOLDER"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure(*arguments.measure)))
        return
    results = []
    print(f"{'rows':>10} {'file MiB':>9} {'seconds':>8} {'CPU s':>6} {'rows/s':>9} {'peak MiB':>9} {'reopen s':>9}")
    for rows in sorted(arguments.rows):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "rows.csv"
            write_csv(path, rows)
            command = [sys.executable, __file__, "--measure", str(path), f"{folder}/prepared"]
            output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            figures = json.loads(output.splitlines()[-1])
            size = path.stat().st_size / 2**20
        results.append(figures)
        print(
            f"{figures['rows']:>10,} {size:>9.0f} {figures['seconds']:>8.1f} {figures['cpu_seconds']:>6.1f} "
            f"{figures['rows'] / figures['seconds']:>9,.0f} {figures['mib']:>9.0f} {figures['reopen_seconds']:>9.3f}",
            flush=True,
        )
    small, large = results[0], results[-1]
    growth = (large["cpu_seconds"] / large["rows"]) / (small["cpu_seconds"] / small["rows"])
    print(f"processor time per row, largest to smallest file: {growth:.2f}")
    if large["mib"] >= LIMIT_MIB or growth > 1.5:
        sys.exit(f"over the limit: {LIMIT_MIB} MiB, growth 1.5")


if __name__ == "__main__":
    main()
