"""Race: `task=serve` against `task=predict` in one process, ONNX and its 8-bit form against torch; and a soak.

    python -m benchmarks.serving [--dataset trec] [--texts 2000] [--clients 64] [--threads 2] [--soak 10000]

A logistic regression over frozen MiniLM is solved, served on this machine and exported. The service runs on a core
more than torch has threads; its clients, a connection each in one event loop, on the other ones, or on the same where
there are no more. A single text's time is the mean over all texts of one client that asks one after the other; half the
load is half of the texts a second that the clients reached, asked one by one whether or not the texts before are
answered, at even intervals as wrk2, vegeta and k6 ask, and at times drawn at random (Poisson). A text's time runs from
that moment to its whole answer. All are taken in turn, five times. The soak mixes a malformed request among every ten.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
import uvloop
from sklearn.metrics import f1_score
from tabulate import tabulate

from benchmarks._measure import ROOT, paired_milliseconds, ratio, spread
from engine.finished import load_module, open_run
from engine.identify import compose_config
from engine.plan import Plan
from storage.run_store import RunFolder
from tasks.export.onnx_folder import INPUTS, MODEL
from tasks.predict import Encoded, Predictor, classifier_predictor

MALFORMED = [b"{", b'{"texts": []}', b'{"texts": [1]}', b'{"texts": ["a"], "more": 1}', b"\xff", b" " * (9 << 20)]
REPEATS = 5


def run_line(*words: str) -> str:
    """Last line that `python run.py …` prints."""
    command = [sys.executable, "run.py", *words]
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()[-1]


def opened(folder: Path, store: list[str]) -> tuple[RunFolder, Plan]:
    """A run, and its plan."""
    config = compose_config([f"run={folder.name}", *store])
    return open_run(config)


@contextmanager
def on_cores(cores: list[int]) -> Iterator[None]:
    """This thread, and the threads and processes that it starts, on these cores alone. Linux only."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def service(folder: Path, store: list[str], threads: int) -> Iterator[tuple[int, int]]:
    """(port, process id) of the run's service."""
    line = [sys.executable, "run.py", "task=serve", f"run={folder.name}", "port=0", f"trainer.num_threads={threads}"]
    process = subprocess.Popen([*line, *store], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        lines = (re.search(r"http://127.0.0.1:(\d+)", line) for line in process.stderr)
        yield int(next(match for match in lines if match)[1]), process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)


class Connection:
    """A connection that is kept, in an event loop: next to no work beside the service's own."""

    async def open(self, port: int) -> Connection:
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", port)
        return self

    async def predict(self, text: str) -> None:
        """Ask a text, and wait for the whole answer."""
        body = json.dumps({"texts": [text]}).encode()
        self.writer.write(b"POST /predict HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
        head = await self.reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head
        await self.reader.readexactly(int(re.search(rb"content-length: (\d+)", head)[1]))  # type: ignore[index]


async def requests_a_second(port: int, texts: list[str], clients: int) -> float:
    """Texts a second where so many clients ask one text each, again and again."""
    connections = [await Connection().open(port) for _ in range(clients)]

    async def work(connection: Connection, share: list[str]) -> None:
        for text in share:
            await connection.predict(text)

    start = time.perf_counter()
    await asyncio.gather(*(work(connection, texts[number::clients]) for number, connection in enumerate(connections)))
    return len(texts) / (time.perf_counter() - start)


def arrivals(number: int, rate: float) -> dict[str, np.ndarray]:
    """Seconds at which texts are asked, `rate` a second on the mean: at even intervals, and at random ones."""
    return {
        "even": np.arange(1, number + 1) / rate,
        "Poisson": np.cumsum(np.random.default_rng(0).exponential(1 / rate, number)),
    }


async def latencies(port: int, texts: list[str], moments: np.ndarray) -> np.ndarray:
    """Seconds from the moment when a text should be asked to its answer."""
    free = [await Connection().open(port) for _ in range(64)]  # and more where all are waited for
    start = time.perf_counter()

    async def ask(text: str, moment: float) -> float:
        await asyncio.sleep(start + moment - time.perf_counter())
        connection = free.pop() if free else await Connection().open(port)
        await connection.predict(text)
        free.append(connection)
        return time.perf_counter() - start - moment

    return np.array(await asyncio.gather(*(ask(*asked) for asked in zip(texts, moments, strict=True))))


class Client:
    """A connection that is kept, of a thread."""

    def __init__(self, port: int) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)

    def post(self, body: bytes) -> tuple[int, dict[str, Any]]:
        """Status and answer of `/predict`."""
        self.connection.request("POST", "/predict", body)
        reply = self.connection.getresponse()
        return reply.status, json.loads(reply.read())


def resident_mib(process: int) -> float:
    """Resident memory of a process and those that it started, shared pages once. Linux only."""
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    lines = [
        line for one in (process, *children) for line in Path(f"/proc/{one}/smaps_rollup").read_text().splitlines()
    ]
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def soak(port: int, process: int, texts: list[str], number: int, expected: dict[str, str]) -> None:
    """So many requests from eight clients, one of ten malformed; prints what came back."""
    statuses: Counter[str] = Counter()
    memory = []

    def work(client_number: int) -> None:
        client = Client(port)
        for index in range(client_number, number, 8):
            if index % 10 == 0:
                try:
                    status, answer = client.post(MALFORMED[(index // 10) % len(MALFORMED)])
                except (http.client.HTTPException, OSError):  # a body of 9 MB is answered before it is whole
                    client = Client(port)
                    status, answer = 413, {"error": ""}
                statuses["refused" if 400 <= status < 500 and set(answer) == {"error"} else f"bad {status}"] += 1
                if status == 413:
                    client = Client(port)
            else:
                text = texts[index % len(texts)]
                status, answer = client.post(json.dumps({"texts": [text]}).encode())
                same = status == 200 and answer["predictions"][0]["prediction"] == expected[text]
                statuses["right" if same else f"wrong {status}"] += 1
            if client_number == 0 and index % 800 == 0:
                memory.append(resident_mib(process))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    memory.append(resident_mib(process))
    print(f"\nsoak, {number:,} requests: {dict(statuses)}, lost {number - sum(statuses.values())}; resident memory "
          f"{memory[min(2, len(memory) - 1)]:.0f} MiB near the start, {memory[-1]:.0f} MiB at the end")  # fmt: skip


def race_of_formats(
    folder: Path, store: list[str], encoded: Encoded, texts: list[str], truth: list[int], temporary: str
) -> None:
    """Torch in full precision, ONNX and 8-bit ONNX on the same tokens, batches of 32 by length."""
    import onnxruntime

    order = sorted(range(len(texts)), key=lambda place: len(texts[place]))
    sorted_texts = [texts[place] for place in order]
    batches = []
    for start in range(0, len(sorted_texts), 32):
        tokens = encoded.plan.encoder.tokenizer()(
            sorted_texts[start : start + 32], padding=True, truncation=True,
            max_length=encoded.plan.dataset.max_length, return_tensors="pt",
        )  # fmt: skip
        batches.append({name: tokens[name] for name in INPUTS})

    @torch.inference_mode()
    def by_torch() -> np.ndarray:
        module = encoded.module
        logits = [module.logits(module.encoder(batch["input_ids"], batch["attention_mask"])) for batch in batches]
        return torch.cat(logits).argmax(1).numpy()

    def by_onnx(session: Any) -> Callable[[], np.ndarray]:
        arrays = [{name: values.numpy() for name, values in batch.items()} for batch in batches]
        return lambda: np.concatenate([session.run(["probabilities"], batch)[0].argmax(1) for batch in arrays])

    cases: dict[str, Callable[[], np.ndarray]] = {"torch": by_torch}
    for name, words in (("onnx", []), ("onnx, int8", ["quantize=int8"])):
        exported = run_line("task=export", f"run={folder.name}", "format=onnx", *words, *store,
                            f"output={temporary}/{name.replace(', ', '_')}")  # fmt: skip
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        cases[name] = by_onnx(onnxruntime.InferenceSession(f"{exported}/{MODEL}", options))
    times = paired_milliseconds(cases, REPEATS, warm_up=1)
    rows = []
    for name, case in cases.items():
        speed = len(texts) / (np.median(times[name]) / 1000)
        macro = 100 * f1_score([truth[place] for place in order], case(), average="macro")
        rows.append((name, f"{speed:.0f}", ratio(times["torch"], times[name]), f"{macro:.2f}"))
    print(tabulate(rows, ("model", "texts a second", "times torch's", "macro-F1"), disable_numparse=True))


def race_of_service(
    folder: Path, store: list[str], predictor: Predictor, texts: list[str], options: argparse.Namespace
) -> None:
    """The service on `--threads` cores and one for its requests, its clients on those that are left; and the soak."""
    cores = sorted(os.sched_getaffinity(0))
    own, others = cores[: options.threads + 1], cores[options.threads + 1 :] or cores
    expected = {text: str(row["prediction"]) for text, row in zip(texts, predictor.answers(texts), strict=True)}
    alone, served, single = [], [], []
    p95: dict[str, list[float]] = {"even": [], "Poisson": []}
    with on_cores(own), service(folder, store, options.threads) as (port, process):
        with on_cores(others):
            uvloop.run(requests_a_second(port, texts[:200], options.clients))  # to warm it up
        for _ in range(REPEATS):  # in turn
            start = time.perf_counter()
            predictor.answers(texts)
            alone.append(len(texts) / (time.perf_counter() - start))
            with on_cores(others):
                served.append(uvloop.run(requests_a_second(port, texts, options.clients)))
                single.append(1000 / uvloop.run(requests_a_second(port, texts, 1)))
                for kind, moments in arrivals(len(texts), float(np.median(served)) / 2).items():
                    half = uvloop.run(latencies(port, texts, moments))
                    p95[kind].append(1000 * float(np.quantile(half, 0.95)))
        print(f"\nservice on {len(own)} cores, {options.clients} clients on {len(others)}")
        print(f"texts a second: task=predict {spread(alone)}, task=serve {spread(served)}")
        print(f"task=serve of task=predict: {ratio(served, alone)}")
        print(f"ms: a single text {spread(single)}")
        for kind, values in p95.items():
            print(f"at half load, {kind} arrivals, 95th percentile {spread(values)} ms: {ratio(values, single)} times")
        with on_cores(others):
            if options.soak:
                soak(port, process, texts, options.soak, expected)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="trec")
    parser.add_argument("--texts", type=int, default=2000)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--run", type=Path, help="folder of a finished run, in place of one made for the race")
    parser.add_argument("--service-alone", action="store_true")
    parser.add_argument("--soak", type=int, default=10_000)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    with tempfile.TemporaryDirectory() as temporary:
        store = [f"paths.runs={options.run.parent if options.run else temporary}"]
        words = ["method=logistic", "encoder.train=frozen", f"dataset={options.dataset}", "logger=csv", *store]
        folder = options.run or Path(run_line(*words))
        run, plan = opened(folder, store)
        tables = [plan.corpus().table(split).to_pylist() for split in ("test", "train")]
        rows = [row for table in tables for row in table][: options.texts]
        texts = [row["text"] for row in rows]
        if not options.service_alone:
            encoded = Encoded(load_module(run, plan)[0], plan, as_loaded=True)
            race_of_formats(folder, store, encoded, texts, [row["label"] for row in rows], temporary)
        race_of_service(folder, store, classifier_predictor(run, plan, explain=False), texts, options)


if __name__ == "__main__":
    main()
