"""A chat model, played by a local server: what it is asked, what is kept, what counts as an error."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from attack.toy import TOPICS
from reporting.grouping import runs_by_seed
from storage.run_store import RunFolder
from tasks.chat import scores_with_errors
from tasks.chat.client import parse_label
from tests.command_lines import command, rows


class Server(ThreadingHTTPServer):
    """Answers with the topic of the text; fails as `failures` says, in turn."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests, self.failures, self.answer = [], [], topic_of
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/v1"


def topic_of(text):
    return next(topic for topic, words in TOPICS.items() if set(words) & set(text.split()))


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append((self.path, self.headers.get("Authorization"), body))
        status = self.server.failures.pop(0) if self.server.failures else 200
        answer = self.server.answer(body["messages"][-1]["content"])
        content = {"choices": [{"message": {"role": "assistant", "content": answer}}]}
        reply = json.dumps(content if status == 200 else {"error": {"message": "no\nmore"}}).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    built = Server()
    yield built
    built.shutdown()
    built.server_close()


@pytest.fixture
def chat(server, store, files, monkeypatch):
    monkeypatch.setenv("KONTRAST_TEST_KEY", "secret")
    options = ["chat=gpt35", f"chat.base_url={server.url}", "chat.api_key_variable=KONTRAST_TEST_KEY", "encoder=tiny"]
    return lambda *more: command([*files, *store, *options, *more])


@pytest.mark.slow
def test_the_test_split_is_asked_once_and_reported(chat, server):
    server.failures = [429, 503]
    result = chat("task=chat")
    metrics = result.metrics
    assert metrics["test/accuracy"] == metrics["test/macro_f1"] == 1.0 and metrics["unparsable"] == 0
    assert metrics["status"] == "finished" and metrics["method"] == "gpt35" and metrics["asked"] == 24
    assert len(server.requests) == 24 + 2  # two were tried again
    path, key, body = server.requests[-1]
    assert (path, key) == ("/v1/chat/completions", "Bearer secret")
    assert "animal, fruit, metal, weather" in body["messages"][0]["content"] and body["temperature"] == 0
    assert "secret" not in "".join(file.read_text() for file in result.folder.iterdir() if file.is_file())

    assert chat("task=chat", "force=true").metrics["asked"] == 0
    other = chat("task=chat", "chat.model=other")
    assert other.metrics["asked"] == 24
    groups = runs_by_seed([RunFolder(run.folder) for run in (result, other)], ["method", "encoder"], {})
    assert {group[:2] for group in groups} == {("gpt35", "None")} and len(groups) == 2


def test_an_answer_without_a_class_is_an_error(chat, server):
    server.answer = lambda text: "I cannot say." if "tiger" in text or "apple" in text else topic_of(text).upper() + "."
    result = chat("task=chat")
    missing = [row for row in rows(result.folder / "predictions.csv") if not row["prediction"]]
    assert missing and all(row["answer"] == "I cannot say." for row in missing)
    assert result.metrics["unparsable"] == len(missing)
    assert result.metrics["test/accuracy"] == pytest.approx(1 - len(missing) / 24)
    assert f"answers that name no class: {len(missing)}" in result.out


@pytest.mark.slow
def test_a_server_that_gives_up_loses_nothing(chat, server):
    server.failures = [200] * 10 + [401] * 100
    result = chat("task=chat", "chat.requests_at_once=1")
    assert result.code == 2 and "chat.base_url: http" in result.error and "answered 401" in result.error
    server.failures = []
    metrics = chat("task=chat").metrics
    assert metrics["asked"] == 14 and metrics["test/accuracy"] == 1.0


@pytest.mark.slow
def test_a_refused_text_is_an_answer_without_a_class_but_not_where_all_are(chat, server):
    server.failures = [400] * 100
    result = chat("task=chat")
    assert result.code == 2 and "answered 400 (" in result.error
    server.failures = [400]
    metrics = chat("task=chat").metrics
    assert (metrics["asked"], metrics["unparsable"]) == (24, 1)
    assert chat("task=chat", "force=true").metrics["asked"] == 1  # it is asked again


def test_fine_tuning_files_hold_the_rows_that_methods_train_on(chat, toy_csv, tmp_path):
    folder = tmp_path / "export"
    assert chat("task=chat_export", f"output={folder}", "imbalance.ir=2").code == 0
    lines = [json.loads(line) for line in (folder / "train.jsonl").read_text().splitlines()]
    about = json.loads((folder / "kontrast.json").read_text())
    assert about["rows"]["train"] == len(lines) and about["rows"]["val"] > 0
    known = {row["text"]: row["label"] for row in rows(toy_csv["train"])}
    for line in lines:
        system, user, assistant = line["messages"]
        assert (system["role"], user["role"], assistant["role"]) == ("system", "user", "assistant")
        assert known[user["content"]] == assistant["content"]
    sizes = [sum(line["messages"][2]["content"] == topic for line in lines) for topic in about["label_names"]]
    assert max(sizes) <= 2 * min(sizes) + 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["task=chat", "chat.api_key_variable=NOT_SET"], "chat.api_key_variable: NOT_SET is not set"),
        (["task=chat", "chat.prompt=Hello"], "chat.prompt: found 'Hello'; allowed: a text with {labels} in it"),
        (["task=chat", "chat.max_tries=0"], "chat.max_tries: found 0; allowed: a whole number >= 1"),
        (["task=chat", "chat.base_url=http://127.0.0.1:9/v1", "chat.max_tries=1"], "(ConnectionError: [Errno 111]"),
        (["task=chat", "protocol=kfold", "protocol.fold=null"], "dataset: task=chat found no test rows to ask about"),
        (["task=chat", "loss.tau=3"], "loss.tau=3: task=chat trains no method; allowed: task, chat, dataset, "),
        (["task=chat_export"], "output: task=chat_export needs the folder"),
    ],
)
def test_what_cannot_be_is_one_line(chat, options, message):
    result = chat(*options)
    assert result.code == 2 and message in result.error


@pytest.mark.parametrize(
    ("answer", "number"),
    [
        ("human", 1),
        (" Human.", 1),
        ("The class is: **human**", 1),
        ("human or entity", None),
        ("humanity", None),
        ("", None),
    ],
)
def test_what_an_answer_names(answer, number):
    assert parse_label(answer, ["entity", "human", "human being"]) == number


def test_the_longer_of_two_names_is_found():
    names = ["human", "human being"]
    assert parse_label("human being", names) == parse_label("It is a human being.", names) == 1


def test_an_answer_in_parts_is_their_texts_and_one_that_is_none_is_refused(chat, server):
    server.answer = lambda text: [{"type": "text", "text": topic_of(text)}, {"type": "other"}]
    assert chat("task=chat").metrics["test/accuracy"] == 1.0
    server.answer = lambda text: ["fruit"]
    assert chat("task=chat", "chat.model=other").error == f"chat.base_url: {server.url} gave no chat completion"


def test_names_are_read_as_answers_are():
    assert [parse_label(name, ["U.S.", "UK", '5"', '7"']) for name in ("U.S.", "u.s", '7"', "uk.")] == [0, 0, 3, 1]
    assert [parse_label(answer, ["IT", "it"]) for answer in ("IT", "it", "It", "it is it")] == [0, 1, None, None]
    assert parse_label("cafe\u0301  bar", ["café bar", "..."]) == 0 and parse_label("x", ["...", "?"]) is None


def test_a_model_must_be_chosen(store, files):
    result = command([*files, *store, "task=chat"])
    assert result.code == 2 and "chat: no model chosen; allowed: chat=gpt35" in result.error


def test_scores_with_errors_equal_sklearns_over_the_classes():
    from sklearn.metrics import f1_score

    labels, predictions = [0, 0, 1, 2, 2, 1], [0, None, 1, 1, 2, None]
    actual = scores_with_errors(labels, predictions, 3, [4, 2, 1])
    numbers = [3 if p is None else p for p in predictions]
    assert actual["accuracy"] == pytest.approx(3 / 6)
    assert actual["macro_f1"] == pytest.approx(f1_score(labels, numbers, labels=[0, 1, 2], average="macro"))
