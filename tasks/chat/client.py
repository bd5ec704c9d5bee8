"""A chat model behind an OpenAI-compatible address, asked for the class of a text; every answer is stored."""

from __future__ import annotations

import hashlib
import json
import os
import re
import sqlite3
import unicodedata
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Annotated, Any

from storage.run_store import first_line

Messages = list[dict[str, str]]
MOST_REFUSED = 10  # questions, before one has an answer: it is not the text then


class Refused(ValueError):
    """The server takes no question like this one, as a filter of what a text says."""


class ChatModel:
    """What is asked, of whom, and how patiently.

    Args:
        name: of the row in tables.
        model: as the server knows it, a fine-tuned one included.
        base_url: address before `/chat/completions`.
        api_key_variable: environment variable that holds the key; null: the server wants none.
        prompt: system message; `{labels}` becomes the class names.
        temperature: of the answers.
        max_answer_tokens: longest answer.
        max_tries: requests for one answer while the server is busy (429) or fails (5xx), with growing pauses.
        timeout: seconds to wait for an answer.
        requests_at_once: open requests.
    """

    def __init__(
        self,
        name: str,
        model: str,
        base_url: str,
        prompt: str,
        api_key_variable: str | None = "OPENAI_API_KEY",
        temperature: Annotated[float, ">= 0"] = 0.0,
        max_answer_tokens: Annotated[int, ">= 1"] = 32,
        max_tries: Annotated[int, ">= 1"] = 6,
        timeout: Annotated[float, "> 0"] = 60.0,
        requests_at_once: Annotated[int, ">= 1"] = 4,
    ) -> None:
        if "{labels}" not in prompt:
            raise ValueError(f"chat.prompt: found {prompt!r}; allowed: a text with {{labels}} in it")
        self.name, self.model, self.base_url, self.prompt = name, model, base_url.rstrip("/"), prompt
        self.api_key_variable, self.temperature = api_key_variable, temperature
        self.max_answer_tokens = max_answer_tokens
        self.max_tries, self.timeout, self.requests_at_once = max_tries, timeout, requests_at_once

    def messages(self, text: str, label_names: Sequence[str]) -> Messages:
        """The question about one text."""
        system = self.prompt.replace("{labels}", ", ".join(label_names))
        return [{"role": "system", "content": system}, {"role": "user", "content": text}]

    def body(self, messages: Messages) -> dict[str, Any]:
        """What is sent; it is also what an answer is kept under."""
        return {
            "model": self.model,
            "messages": messages,
            "temperature": self.temperature,
            "max_tokens": self.max_answer_tokens,
        }

    def session(self) -> Any:
        """A session that waits and tries again by itself.

        Raises:
            ValueError: the variable of the key is empty.
        """
        import requests
        from requests.adapters import HTTPAdapter, Retry

        session = requests.Session()
        if self.api_key_variable is not None:
            key = os.environ.get(self.api_key_variable)
            if not key:
                raise ValueError(
                    f"chat.api_key_variable: {self.api_key_variable} is not set in the environment; "
                    f"allowed: a variable that holds the key, or null for a server without"
                )
            session.headers["Authorization"] = f"Bearer {key}"
        patience = Retry(
            total=self.max_tries - 1,
            backoff_factor=0.5,
            backoff_max=30,
            status_forcelist=(429, 500, 502, 503, 504),
            allowed_methods=None,
            raise_on_status=False,
        )
        for scheme in ("http://", "https://"):
            session.mount(scheme, HTTPAdapter(max_retries=patience, pool_maxsize=self.requests_at_once))
        return session

    def ask(self, session: Any, messages: Messages) -> str:
        """The answer. Raises Refused where the server does not take the question, ValueError where it gives none."""
        import requests

        try:
            response = session.post(f"{self.base_url}/chat/completions", json=self.body(messages), timeout=self.timeout)
            response.raise_for_status()
            return _text_of(response.json()["choices"][0]["message"]["content"])
        except requests.HTTPError as error:
            status, reason = error.response.status_code, " ".join(error.response.text.split())[:200]
            kind = Refused if status == 400 else ValueError
            raise kind(f"chat.base_url: {self.base_url} answered {status} ({reason})") from error
        except requests.RequestException as error:
            raise ValueError(f"chat.base_url: {self.base_url} gave no answer ({_cause(error)})") from error
        except (KeyError, IndexError, TypeError, AttributeError) as error:  # parts that are no objects
            raise ValueError(f"chat.base_url: {self.base_url} gave no chat completion") from error


def _text_of(content: str | list[dict[str, Any]] | None) -> str:
    """What a message holds, as a text or in parts of which some are texts."""
    return "".join(part.get("text", "") for part in content) if isinstance(content, list) else str(content or "")


def _cause(error: BaseException) -> str:
    """The kind of an error, and the first line of what lies at its bottom: the error itself may have no message."""
    bottom = error
    while (deeper := bottom.__cause__ or bottom.__context__) is not None:
        bottom = deeper
    return f"{type(error).__name__}: {first_line(bottom)}"


class Answers:
    """Answers on disk by the request's content; each is kept as it comes."""

    def __init__(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        self.connection = sqlite3.connect(file)
        self.connection.execute("CREATE TABLE IF NOT EXISTS answers (request TEXT PRIMARY KEY, answer TEXT NOT NULL)")

    def __enter__(self) -> Answers:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def get(self, key: str) -> str | None:
        row = self.connection.execute("SELECT answer FROM answers WHERE request = ?", (key,)).fetchone()
        return row and row[0]

    def put(self, key: str, answer: str) -> None:
        with self.connection:
            self.connection.execute("INSERT OR REPLACE INTO answers VALUES (?, ?)", (key, answer))


def answers_to(model: ChatModel, questions: Sequence[Messages], stored: Answers) -> Iterator[tuple[int, str, bool]]:
    """Number, answer, and whether it was asked for now, of each question; stored answers come first.

    A question that the server refuses while it answers others has the answer "", which is not stored.

    Raises:
        ValueError: the server gives no answer; those that came are stored.
    """
    keys = [hashlib.sha256(json.dumps([model.base_url, model.body(q)]).encode()).hexdigest() for q in questions]
    missing: dict[str, list[int]] = {}
    for number, key in enumerate(keys):
        if answer := stored.get(key):
            yield number, answer, False
        else:
            missing.setdefault(key, []).append(number)
    if not missing:
        return
    session, any_answer, refused = model.session(), len(missing) < len(set(keys)), 0
    with ThreadPoolExecutor(model.requests_at_once) as threads:
        futures = {threads.submit(model.ask, session, questions[numbers[0]]): key for key, numbers in missing.items()}
        try:
            for future in as_completed(futures):
                key, refusal = futures[future], future.exception()
                if isinstance(refusal, Refused):
                    refused += 1
                    if not any_answer and refused in (MOST_REFUSED, len(futures)):
                        raise refusal
                    answer = ""
                else:
                    answer, any_answer = future.result(), True
                    _keep(stored, key, answer)
                for number in missing[key]:
                    yield number, answer, True
        except ValueError:
            threads.shutdown(wait=True, cancel_futures=True)  # those that are under way are paid for
            for future, key in futures.items():
                if not future.cancelled() and future.exception() is None:
                    _keep(stored, key, future.result())
            raise
        finally:
            threads.shutdown(wait=False, cancel_futures=True)


def _keep(stored: Answers, key: str, answer: str) -> None:
    """An empty one, as of a filter, is asked for again."""
    if answer:
        stored.put(key, answer)


def parse_label(answer: str, label_names: Sequence[str]) -> int | None:
    """The class that an answer names: the whole of it, or the one class name that it holds; else None.

    Case, spaces, ways to write one character, and marks around the name do not count, but where two names differ by
    these alone. Of a name within another one, the longer counts.
    """
    if answer.strip() in label_names:
        return list(label_names).index(answer.strip())
    plain, names = _plain(answer), [_plain(name) for name in label_names]
    if plain in names:
        return names.index(plain) if names.count(plain) == 1 else None
    by_length = sorted(filter(None, names), key=len, reverse=True)
    pattern = rf"(?<!\w)(?:{'|'.join(map(re.escape, by_length))})(?!\w)"
    matches = set(re.findall(pattern, plain)) if by_length else set()
    return names.index(*matches) if len(matches) == 1 and names.count(*matches) == 1 else None


def _plain(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).split()).strip("\"'`.*: ").casefold()
