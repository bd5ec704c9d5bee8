"""The service: the bits of task=predict, refusals in a line, nothing lost at the end."""

import asyncio
import json
import re
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import Pipe
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from tasks.service.app import MAX_ROWS, Question
from tasks.service.batching import MAX_WAITING, Batcher, Full, answer_batches
from tasks.service.metrics import Durations
from tasks.service.process import start_http
from tasks.service.requests import MAX_BODY, Refusal, listen, parsed
from tests.browser import CHROMIUM, in_a_browser
from tests.command_lines import rows

ROOT = Path(__file__).resolve().parents[2]
MALFORMED = [
    b"",
    b"texts",
    b"[]",
    b"{}",
    b"\xff\xfe",
    b'{"texts": "one"}',
    b'{"texts": []}',
    b'{"texts": [1]}',
    b'{"texts": [null]}',
    b'{"texts": [" \\n"]}',
    b'{"texts": ["\\ud800"]}',
    b'{"texts": ["a"], "explain": "yes"}',
    b'{"texts": ["a"], "probabilities": 1}',
    b'{"texts": ["a"], "more": 1}',
    b'{"texts": ["a"]',
    b"[" * 100_000,
    json.dumps({"texts": ["a"] * (MAX_ROWS + 1)}).encode(),
    json.dumps({"texts": ["a" * 100_001]}).encode(),
]


@pytest.mark.parametrize("body", MALFORMED, ids=range(len(MALFORMED)))
def test_a_malformed_body_is_refused_in_a_line(body):
    with pytest.raises(Refusal) as refusal:
        parsed(Question, body)
    assert refusal.value.status == 422 and refusal.value.line and "\n" not in refusal.value.line


def test_workers_share_the_texts_that_wait():
    sizes = []

    def predict(texts):
        sizes.append(len(texts))
        if "fault" in texts:
            raise RuntimeError("of the model")
        return [{"prediction": text.upper()} for text in texts]

    async def ask(workers):
        batcher = Batcher(workers)

        async def answered(*worker_numbers):
            for number in worker_numbers:
                batcher.receive(workers[number], await asyncio.to_thread(workers[number].recv))

        def ask_for(texts):
            return asyncio.ensure_future(batcher.answers([*texts]))

        asked = [ask_for(texts) for texts in ("a", "bcd", "ef", "gh", "ij", "k" * 40)]
        await asyncio.sleep(0)
        with pytest.raises(Full):
            await batcher.answers(["f"] * MAX_WAITING)
        await answered(0, 1, 0, 1)
        answers = [["".join(row["prediction"] for row in await answer)] for answer in asked]
        fault, gone = ask_for(["fault"]), ask_for("g")
        await asyncio.sleep(0)
        gone.cancel()
        await answered(0, 1)
        with pytest.raises(RuntimeError, match="of the model"):
            await fault
        left = ask_for("h")
        await asyncio.sleep(0)
        batcher.fail()
        with pytest.raises(RuntimeError, match="ended"):
            await left
        with pytest.raises(RuntimeError, match="ended"):
            await batcher.answers(["i"])
        await answered(1)  # what another worker was at
        for worker in workers:
            worker.close()
        return answers, batcher

    pipes = [Pipe() for _ in range(2)]
    with ThreadPoolExecutor(2) as pool:
        work = [pool.submit(answer_batches, requests, predict) for requests, _ in pipes]
        answers, batcher = asyncio.run(ask([worker for _, worker in pipes]))
        for worker in work:
            worker.result(60)
    assert answers == [["A"], ["BCD"], ["EF"], ["GH"], ["IJ"], ["K" * 40]]
    assert sorted(sizes) == [1, 1, 1, 1, 3, 8, 38] and (batcher.texts, batcher.waiting, batcher.queued) == (53, 0, 0)


def asked(address: str, body: bytes) -> tuple[int, dict]:
    try:
        with urlopen(Request(f"{address}/predict", body), timeout=60) as reply:
            return reply.status, json.load(reply)
    except HTTPError as error:
        return error.code, json.load(error)


@pytest.fixture
def toy_service():
    """Address of a service whose model reads texts without markup, NA as none, and says every text again, a hundred
    times."""
    listener = socket.create_server(("127.0.0.1", 0))
    listen(listener)
    address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    http, (batches,) = start_http("toy", ("no", "yes"), False, True, ("NA",), listener, 1)
    threading.Thread(
        target=answer_batches, args=[batches, lambda asked: [{"prediction": text * 100} for text, _ in asked]]
    ).start()
    yield address
    http.terminate()
    http.join()


def test_an_answer_longer_than_the_pipe_comes_whole(toy_service):
    text = "a" * 10_000
    status, reply = asked(toy_service, json.dumps({"texts": [text] * 40}).encode())
    assert status == 200 and reply["predictions"] == [{"prediction": text * 100}] * 40


def test_what_the_run_reads_as_no_text_is_refused(toy_service):
    refusal = {"error": "texts.1: 'na' stands for no text, as the run was told by missing="}
    assert asked(toy_service, b'{"texts": ["NA is one", "na"]}') == (422, refusal)


def test_a_text_of_markup_alone_is_refused_where_markup_is_taken_out(toy_service):
    refusal = {"error": "texts.1: no text with a visible character outside its markup"}
    assert asked(toy_service, b'{"texts": ["a<br>", "<br>&nbsp;"]}') == (422, refusal)


def test_the_histogram_counts_predictions_by_status_and_time(toy_service):
    durations = Durations()
    for seconds in (0.0025, 0.003, 0.2, 100):
        durations.add(200, seconds)
    counts = dict(durations.samples())
    shown = [counts[f'_bucket{{status="200",le="{bound}"}}'] for bound in ("0.0025", "0.005", "0.25", "30.0", "+Inf")]
    assert shown == [1, 2, 3, 3, 4] and float(counts['_sum{status="200"}']) == pytest.approx(100.2055)

    for body in (b'{"texts": ["a"]}', b'{"texts": ["b"]}', b"malformed"):
        asked(toy_service, body)
    urlopen(f"{toy_service}/health")
    metrics = urlopen(f"{toy_service}/metrics").read().decode()
    assert "# TYPE kontrast_predict_seconds histogram\n" in metrics
    ends = [f'_{name}{{status="{status}"{le}}} {number}\n' for status, number in ((200, 2), (422, 1))
            for name, le in (("bucket", ',le="+Inf"'), ("count", ""))]  # fmt: skip
    assert all(f"kontrast_predict_seconds{end}" in metrics for end in ends)


@pytest.mark.slow
@in_a_browser
@pytest.mark.parametrize("width", [1400, 400])
def test_a_page_says_what_may_be_asked_and_asks_it(toy_service, width):
    from axe_playwright_python.sync_playwright import Axe
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": width, "height": 900})
        complaints = []
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        tab.on("request", lambda asked: complaints.append(asked.url) if toy_service not in asked.url else None)
        tab.goto(toy_service)
        tab.click("text=All that may be asked")
        tab.wait_for_selector("text=POST /predict")
        described = json.load(urlopen(f"{toy_service}/openapi.json"))["paths"]
        statuses = [status for one in described.values() for about in one.values() for status in about["responses"]]
        assert tab.locator("tbody th").all_text_contents() == ["texts", "explain", "probabilities", *statuses]
        for path in described:
            tab.click(f"button:text-matches(' {path}$')")
        tab.fill("textarea", '{"texts": ["<b>x"]}')
        tab.click("button")
        tab.wait_for_selector("[role=status]:has-text('<b>x<b>x')")
        for answer in tab.locator("[role=status]").all():
            answer.filter(has_text=re.compile("^200")).wait_for()
        assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert Axe().run(tab).response["violations"] == [] and complaints == []
        browser.close()


@pytest.mark.slow
def test_the_service_answers_as_predict_does_and_ends_in_order(fit, use, toy_csv, tmp_path, store):
    run = fit("method=ce", "trainer.max_epochs=3")
    validated = "".join(f"val,{index},a,a,0.5\n" for index in range(9))
    (run.folder / "predictions.csv").write_text(f"split,index,label,prediction,probability\n{validated}")
    options = [f"input={toy_csv['test']}", f"output={tmp_path}/out.csv", "probabilities=true", "sure=0.5"]
    assert use("predict", run, *options).code == 0
    written = rows(tmp_path / "out.csv")
    keys = ("text", "prediction", "probability", "sure")
    expected = [tuple(row[key] for key in keys) for row in written]
    labels = [key for key in written[0] if key.startswith("p_")]
    line = [sys.executable, "run.py", "task=serve", f"run={run.folder.name}", "port=0", "sure=0.5", *store]
    service = subprocess.Popen(line, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        address = next(filter(None, (re.search(r"http://127.0.0.1:\d+", line) for line in service.stderr))).group()

        def predicted(text: str, **more: bool) -> dict[str, str]:
            _, reply = asked(address, json.dumps({"texts": [text], **more}).encode())
            (answer,) = reply["predictions"]
            return {"text": text} | {key: str(value) for key, value in answer.items()}

        def with_every_label(text: str) -> dict[str, str]:
            return predicted(text, probabilities=True)

        with ThreadPoolExecutor(8) as clients:
            texts = [text for text, *_ in expected]
            whole = clients.map(with_every_label, texts * 2)  # in batches with those that ask for less
            plain = clients.map(predicted, texts * 2)
            assert [tuple(answer.values()) for answer in plain] == expected * 2
            assert list(whole) == [{key: row[key] for key in (*keys, *labels)} for row in written] * 2 and labels
        for body in [*MALFORMED, b" " * (MAX_BODY + 1), b'{"texts": ["a"], "explain": true}']:
            status, reply = asked(address, body)
            assert 400 <= status < 500 and set(reply) == {"error"} and "\n" not in reply["error"]
        assert b"Predict" in urlopen(f"{address}/").read() and json.load(urlopen(f"{address}/openapi.json"))["paths"]
        metrics = urlopen(f"{address}/metrics").read().decode()
        assert f"# TYPE kontrast_texts_total counter\nkontrast_texts_total {4 * len(expected)}\n" in metrics
        assert 'kontrast_requests_total{status="422"}' in metrics
        with pytest.raises(HTTPError, match="405"):
            urlopen(f"{address}/predict")

        many = json.dumps({"texts": [text for text, *_ in expected] * 40}).encode()
        with ThreadPoolExecutor(2) as clients:
            last = [clients.submit(asked, address, many) for _ in range(2)]
            while "kontrast_texts_waiting 0" in urlopen(f"{address}/metrics").read().decode():
                assert not all(reply.done() for reply in last)
            service.send_signal(signal.SIGTERM)
            assert [len(reply.result()[1]["predictions"]) for reply in last] == [40 * len(expected)] * 2
        out, err = service.communicate(timeout=60)
        assert service.returncode == 0 and out.splitlines()[-1] == str(run.folder) and "Traceback" not in err
    finally:
        service.kill()
        service.communicate()
