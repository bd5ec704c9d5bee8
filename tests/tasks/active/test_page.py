"""The page that asks for labels: who is let in, what is refused, and a person's work in a browser, end to end."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import numpy as np
import pytest
import starlette.requests

from kontrast.runs import config_of
from labelling.answers import NO_LABEL, AnswerBook
from labelling.desk import Desk
from storage.errors import ReportError
from tasks.active.page import LabellingPage
from tasks.active.people import OnPage
from tests.browser import in_a_browser
from tests.command_lines import RUN_PY, rows
from tests.engine.plans import bare

HOSTILE = "<img src=x onerror=\"document.title='taken over'\"></script><script>document.title='taken over'</script>"


@pytest.fixture
def page(tmp_path):
    """A page over 30 texts, one of which would like to be HTML."""
    texts = {number: HOSTILE if number == 0 else f"text {number}" for number in range(30)}
    with AnswerBook(tmp_path / "answers.jsonl") as book:
        desk = Desk(texts, book, ["no", "yes"], budget=20, rng=np.random.default_rng(0), can_add_classes=True)
        page = LabellingPage(desk, "127.0.0.1", 0)
        page.start()
        yield page
        page.stop()


def ask(page, path, body=None, **headers):
    """(status, answer) of a request; a body makes it a POST."""
    data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    request = Request(f"http://127.0.0.1:{page.port}{path}", data, {"X-Token": page.token} | headers)
    try:
        with urlopen(request, timeout=30) as reply:
            return reply.status, reply.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()


def test_an_answer_waits_for_no_acknowledgement(page):
    with socket.create_connection(("127.0.0.1", page.port)) as asks:
        asks.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert asks.recv(1) and page._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_only_a_page_of_ours_is_answered(page):
    own = f"http://127.0.0.1:{page.port}"
    assert ask(page, "/state", {"seat": "a"}, Origin=own)[0] == 200
    for headers in (
        {"X-Token": "guess"},
        {"X-Token": ""},
        {"Host": "evil.example"},
        {"Host": f"evil.example:{page.port}"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
    ):
        for path, body in (("/state", {"seat": "a"}), ("/", None), ("/export/csv", None)):
            status, answer = ask(page, path, body, **headers)
            assert status == 403 and set(json.loads(answer)) == {"error"}, (headers, path)
    status, _ = ask(page, f"/answer?token={page.token}", {"seat": "a"}, **{"X-Token": ""})
    assert status == 403  # what changes something takes the header, which no form of another site can send
    status, html = ask(page, f"/?token={page.token}", **{"X-Token": ""})
    assert status == 200 and not re.search(r"(src|href)=|https?://(?!www.w3.org/2000/svg)|@import", html)


def test_browsers_leave_port_80_out(page):
    def refusal(host, origin):
        headers = {"host": host, "origin": origin, "x-token": page.token}
        pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
        return page.refusal(starlette.requests.Request({"type": "http", "method": "POST", "headers": pairs}))

    assert refusal("127.0.0.1", "http://127.0.0.1")  # the page has another port
    page.port = 80
    assert refusal("127.0.0.1", "http://127.0.0.1") is None and refusal("localhost:80", "http://localhost") is None
    assert refusal("evil.example", "http://evil.example") and refusal("localhost", "http://127.0.0.1")


def test_a_host_of_ipv6_is_the_page_s_own(tmp_path):
    with AnswerBook(tmp_path / "answers.jsonl") as book:
        try:
            page = LabellingPage(
                Desk({0: "text"}, book, ["no", "yes"], budget=1, rng=np.random.default_rng(0)), "::1", 0
            )
        except ReportError:
            pytest.skip("this machine has no IPv6")
        page.start()
        try:
            assert urlopen(page.address, timeout=30).status == 200
        finally:
            page.stop()


def test_what_is_trained_on_is_what_stands_on_the_page(tmp_path):
    (tmp_path / "pool.csv").write_text("text\n" + "".join(f"<p>text {number}</p>\n" for number in range(4)))
    words = ["method=ce", "active=random", "active.oracle=browser", f"active.answers={tmp_path}/answers.jsonl"]
    words += ["dataset=csv", f"dataset.train={tmp_path}/pool.csv", "dataset.label_names=[no,yes]"]
    words += ["dataset.markup=strip", f"paths.data={tmp_path}"]
    with OnPage(bare(config_of(words))) as people:
        people.begin()
        people.desk.answer("a", "", 0, "yes")
        people.desk.answer("a", "", 1, "no")
        people.desk.undo("a", "")
        labels = [people.class_by_now(position, 1) for position in (0, 1, 2, 99)]
        assert labels == [1, NO_LABEL["skip"], 1, 1], "of what nobody speaks, the earlier label stays"
        people.desk.answer("a", "", 1, "no")
        assert people.class_by_now(1, 1) == 0
        imported = json.loads(ask(people.page, "/import/a.csv", b"text,label\n<p>text 2</p>,no\n")[1])
        assert imported["kept"] == 1 and people.class_by_now(2, 1) == 0, "without the markup of the file"


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/answer", b"{", 422),
        ("/answer", {"seat": "a", "position": 0, "label": "other"}, 422),
        ("/answer", {"seat": "a", "position": 99, "label": "no"}, 422),
        ("/answer", {"seat": "a", "position": 0, "label": "no", "more": 1}, 422),
        ("/answer", {"seat": "", "position": 0, "label": "no"}, 422),
        ("/open", {"seat": "a", "position": -1}, 422),
        ("/classes", {"seat": "a", "name": "yes"}, 422),
        ("/export/exe", None, 404),
        ("/import/x.exe", b"a", 422),
        ("/import/x.csv", b"text,label\ntext 1,other\n", 422),
        ("/import/x.json", b"\xff\xfe\x00", 422),
        ("/import/..%2f..%2fx.csv", b"text,label\n", 404),
        ("/nowhere", None, 404),
        ("/answer", b" " * (9 << 20), 413),
    ],
)
def test_a_bad_request_is_one_line_and_changes_nothing(page, path, body, status):
    got, answer = ask(page, path, body)
    assert got == status and "\n" not in json.loads(answer)["error"]
    assert "/tmp" not in answer and page.desk.answers() == []


def test_what_is_exported_is_imported_again(page):
    for position, label in ((0, "yes"), (3, "skip"), (4, "no")):
        assert ask(page, "/answer", {"seat": "a", "position": position, "label": label})[0] == 200
    for name in ("csv", "jsonl", "argilla", "label_studio"):
        content = ask(page, f"/export/{name}")[1]
        file = {"csv": "a.csv", "label_studio": "a.json"}.get(name, "a.jsonl")
        assert json.loads(ask(page, f"/import/{file}", content.encode())[1]) == {"kept": 0, "unknown": 0, "in_file": 3}
    new = b"text,label\ntext 5,yes\nelsewhere,no\n"
    assert json.loads(ask(page, "/import/new.csv", new)[1]) == {"kept": 1, "unknown": 1, "in_file": 2}


def opened(browser, address, width=1400):
    """(tab, complaints) of the page in a browser window of its own, once it shows a text."""
    tab = browser.new_context(viewport={"width": width, "height": 900}).new_page()
    complaints = []
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    tab.on("console", lambda line: complaints.append(line.text) if line.type == "error" else None)
    tab.on("request", lambda asked: complaints.append(asked.url) if "127.0.0.1" not in asked.url else None)
    tab.goto(address)
    tab.wait_for_function("() => document.querySelector('#text').textContent && question")
    return tab, complaints


def press(tab, key):
    """A key, and the wait until another text is shown; the text that was answered."""
    tab.wait_for_function("() => !busy")
    text = tab.text_content("#text")
    tab.keyboard.press(key)
    tab.wait_for_function("text => document.querySelector('#text').textContent !== text", arg=text)
    return text


@pytest.mark.slow
@in_a_browser
@pytest.mark.parametrize("width", [1400, 400])
def test_the_keyboard_alone_is_enough_and_no_text_is_html(page, browser, width):
    from axe_playwright_python.sync_playwright import Axe

    tab, complaints = opened(browser, page.address, width)
    desk = page.desk
    first = press(tab, "2")
    press(tab, "s")
    tab.wait_for_function("() => !busy")
    tab.keyboard.press("u")
    tab.wait_for_function("() => document.querySelector('[data-label=skip]').classList.contains('chosen')")
    press(tab, "n")
    tab.keyboard.press("m")
    tab.keyboard.type("1 note")  # its keys are no answers
    tab.keyboard.press("Enter")
    noted = press(tab, "1")
    tab.reload()
    tab.wait_for_function("() => question")
    assert press(tab, "u") != noted == tab.text_content("#text")
    press(tab, "1")
    tab.keyboard.press("+")
    tab.keyboard.type("may be")
    tab.keyboard.press("Enter")
    tab.wait_for_selector("[data-label='may be']")
    press(tab, "3")
    tab.keyboard.press("/")
    tab.keyboard.type("note")
    tab.wait_for_function("() => document.querySelectorAll('#answers button').length === 1")
    tab.keyboard.press("Escape")
    tab.focus("#answers button")
    tab.keyboard.press("Enter")
    tab.wait_for_selector("#cancel:visible")
    assert tab.text_content("#text") == noted
    press(tab, "2")
    while HOSTILE not in desk.book.by_text:
        press(tab, "1")
    tab.fill("#search", "taken over")
    tab.wait_for_function("() => document.querySelectorAll('#answers button').length === 1")
    assert tab.text_content("#answers button") == HOSTILE and tab.title() == "Kontrast: labels"
    said = {answer.text: (answer.label, answer.note) for answer in desk.answers()}
    assert said[first] == ("yes", "") and said[noted] == ("yes", "1 note")
    assert {"no class fits", "may be"} <= {label for label, _ in said.values()}
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert Axe().run(tab).response["violations"] == [] and complaints == []


@pytest.mark.slow
@in_a_browser
def test_two_browsers_are_asked_for_different_texts(page, browser):
    tabs = [opened(browser, page.address)[0] for _ in range(2)]
    shown = [press(tab, key) for _ in range(5) for tab, key in zip(tabs, "12", strict=True)]
    assert len(set(shown)) == 10 == len(page.desk.answers())


@pytest.mark.slow
@in_a_browser
def test_two_people_are_asked_for_the_same_texts_by_name(browser, tmp_path):
    texts = {number: f"text {number}" for number in range(6)}
    with AnswerBook(tmp_path / "answers.jsonl", annotators=2) as book:
        desk = Desk(texts, book, ["no", "yes"], budget=6, rng=np.random.default_rng(0))
        page = LabellingPage(desk, "127.0.0.1", 0)
        page.start()
        try:
            for name in ("Ada", "Grace"):
                tab = browser.new_context().new_page()
                tab.goto(page.address)
                tab.wait_for_selector("#who[open]")
                tab.keyboard.press("Enter")  # without a name nothing begins
                assert tab.is_visible("#who")
                tab.keyboard.type(name)
                tab.keyboard.press("Enter")
                tab.wait_for_function("() => document.querySelector('#text').textContent && question")
                for _ in range(5):
                    said = tab.text_content("#text")
                    press(tab, "2" if int(said[-1]) % 2 or (name, said) == ("Ada", "text 2") else "1")
            third = browser.new_context().new_page()
            third.goto(page.address)
            third.wait_for_selector("#who[open]")
            third.keyboard.type("Eve")
            third.keyboard.press("Enter")
            third.wait_for_function("() => document.body.textContent.includes('allowed: Ada, Grace')")
            tab.wait_for_function("() => document.body.textContent.includes('kappa')")
        finally:
            page.stop()
        people = [{answer.text for answer in desk.answers() if answer.annotator == name} for name in ("Ada", "Grace")]
        assert [len(texts) for texts in people] == [5, 5] and desk.state("a")["kappa"] is not None


class Line:
    """`python run.py …` with the page, in a process of its own, until the block ends."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def __init__(self, arguments):
        self.process = subprocess.Popen(
            [sys.executable, "run.py", *arguments], cwd=RUN_PY.parent, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, env=os.environ | {"DISPLAY": "", "WAYLAND_DISPLAY": ""},
        )  # fmt: skip
        for line in self.process.stderr:
            if match := re.search(r"label at (\S+)", line):
                self.address = match[1]
                return
        raise AssertionError(self.process.stderr.read())


@pytest.mark.slow
@in_a_browser
def test_a_persons_work(files, store, small, toy_csv, browser, use, tmp_path):
    """30 labels by keyboard, a kill in the middle, the same line once more, the model asked over HTTP."""
    truth = {row["text"]: row["label"] for row in rows(toy_csv["train"])}
    names = sorted(set(truth.values()))
    pool = tmp_path / "pool.csv"
    pool.write_text("text\n" + "".join(f"{text}\n" for text in truth))
    options = ["method=ce", "active=rep", "active.query_size=10", "active.budget=30", "trainer.max_epochs=2"]
    options += ["active.oracle=browser", f"dataset.train={pool}", f"dataset.label_names=[{','.join(names)}]"]
    line = [*files, *store, *small, *options]

    def label(tab, number):
        for _ in range(number):
            press(tab, str(names.index(truth[tab.text_content("#text")]) + 1))

    with Line(line) as first:
        label(opened(browser, first.address)[0], 17)
        first.process.send_signal(signal.SIGKILL)
    (book,) = tmp_path.glob("runs/answers/*.jsonl")
    assert len(book.read_text().splitlines()) == 17

    with Line(line) as second:
        tab, complaints = opened(browser, second.address)
        assert "17 of 30 labels" in tab.text_content("#progress")
        label(tab, 12)
        tab.wait_for_function("() => document.querySelector('#curve svg')", timeout=60_000)
        tab.keyboard.press(str(names.index(truth[tab.text_content("#text")]) + 1))
        tab.wait_for_function(
            "() => document.querySelector('#stage').textContent.startsWith('finished')", timeout=90_000
        )
        assert "with 30 labels" in tab.text_content("#points")  # the last training's point, too
        out, err = second.process.communicate(timeout=60)
    assert second.process.returncode == 0 and complaints == [], err
    folder = tmp_path / "runs" / out.strip().splitlines()[-1].rpartition("/")[2]
    chosen = rows(folder / "chosen.csv")
    assert len(chosen) == 30 and all(truth[row["text"]] == row["label"] for row in chosen)

    service = subprocess.Popen(
        [sys.executable, "run.py", "task=serve", f"run={folder.name}", "port=0", *store],
        cwd=RUN_PY.parent, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        address = re.search(r"http://\S+?(?=;)", next(line for line in service.stderr if "answers on" in line))[0]
        tab.goto(address)
        tab.fill("#text", next(iter(truth)))
        tab.keyboard.press("Tab")
        tab.keyboard.press("Enter")
        tab.wait_for_function("() => document.querySelector('#answer').textContent.includes('prediction')")
        assert json.loads(tab.text_content("#answer"))["prediction"] in names
    finally:
        service.send_signal(signal.SIGTERM)
        service.communicate(timeout=60)


@pytest.mark.slow
@in_a_browser
@pytest.mark.parametrize("width", [1400, 400])
def test_several_classes_are_chosen_by_key_or_by_finger(browser, tmp_path, width):
    from axe_playwright_python.sync_playwright import Axe

    texts = {number: f"text {number}" for number in range(6)}
    with AnswerBook(tmp_path / "answers.jsonl", separator="|") as book:
        desk = Desk(texts, book, ["red", "round", "soft"], budget=6, rng=np.random.default_rng(0))
        page = LabellingPage(desk, "127.0.0.1", 0)
        page.start()
        tab, complaints = opened(browser, page.address, width)
        said = {}
        tab.keyboard.press("Enter")
        tab.wait_for_selector("#trouble:visible")
        tab.keyboard.press("1")
        tab.keyboard.press("2")
        tab.keyboard.press("1")
        tab.keyboard.press("3")
        said[press(tab, "Enter")] = ("round", "soft")
        said[press(tab, "n")] = ()
        tab.click("[data-label=red]")
        tab.click("[data-label=soft]")
        said[press(tab, "Enter")] = ("red", "soft")  # and not the button that has the focus
        tab.click("[data-label=red]")
        text = tab.text_content("#text")
        tab.click("#next")
        tab.wait_for_function("text => document.querySelector('#text').textContent !== text", arg=text)
        said[text] = ("red",)
        last = press(tab, "u")
        assert tab.text_content("#text") == text and tab.get_attribute("[data-label=red]", "aria-pressed") == "true"
        tab.keyboard.press("2")
        said[press(tab, "Enter")] = ("red", "round")
        assert tab.text_content("#text") == last
        assert {text: book.label(text) for text in said} == said and desk.label_of(0) in (*said.values(), "skip")
        assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert Axe().run(tab).response["violations"] == [] and complaints == []
        tab.screenshot(path=tmp_path / "page.png", full_page=True)
        page.stop()
