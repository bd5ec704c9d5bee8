"""Source files: mirror, cache, download, and every way in which that can fail."""

import hashlib
import logging
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

import pytest

from datamodules import sources
from datamodules.sources import SourceFile, fetch
from storage.errors import InputError


def source(path: str, content: bytes) -> SourceFile:
    return SourceFile("owner", "repo", "c0ffee", path, hashlib.sha256(content).hexdigest(), len(content))


class Host:
    """A local host: {path: body}; `cut` bytes are left out at the end while the full length is announced."""

    def __init__(self) -> None:
        self.bodies: dict[str, bytes] = {}
        self.requests: list[str] = []
        self.cut = 0
        host = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                path = unquote(self.path).removeprefix("/owner/repo/c0ffee/")
                host.requests.append(path)
                body = host.bodies.get(path)
                self.send_response(404 if body is None else 200)
                self.send_header("Content-Length", str(len(body or b"")))
                self.end_headers()
                self.wfile.write((body or b"")[: len(body or b"") - host.cut])

            def log_message(self, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def host(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    host = Host()
    threading.Thread(target=host.server.serve_forever, daemon=True).start()
    yield host
    host.server.shutdown()
    host.server.server_close()


def in_mirror(folder: Path, file: SourceFile, content: bytes) -> Path:
    path = file.local(folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def kept_files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file() and path.name != "verified.json")


def test_mirror_comes_before_cache_and_download(tmp_path, host):
    file = source("a.txt", b"hello")
    mirrored = in_mirror(tmp_path / "mirror", file, b"hello")
    in_mirror(tmp_path / "cache", file, b"hello")
    assert fetch([file], tmp_path / "mirror", tmp_path / "cache", host=host.address) == {"a.txt": mirrored}
    assert host.requests == []


def test_downloads_once_and_hashes_once(tmp_path, host, monkeypatch):
    contents = {f"folder/file {number}.txt": f"body {number}".encode() for number in range(73)}
    host.bodies = contents
    files = [source(path, content) for path, content in contents.items()]
    actual = fetch(files, None, tmp_path, host=host.address)
    assert {path: local.read_bytes() for path, local in actual.items()} == contents
    assert actual["folder/file 0.txt"] == tmp_path / "owner/repo/c0ffee/folder/file 0.txt"
    assert len(host.requests) == 73

    monkeypatch.setattr(sources, "file_sha256", lambda path: pytest.fail(f"{path} was hashed again"))
    assert fetch(files, None, tmp_path, host=host.address) == actual
    assert len(host.requests) == 73


def test_a_damaged_memory_of_hashes_costs_no_more_than_hashing_again(tmp_path, host):
    path = in_mirror(tmp_path, file := source("a.txt", b"hello"), b"hello")
    for damaged in (b"[]", b"\xff", f'{{"{path.resolve()}": 5}}'.encode()):
        (tmp_path / "verified.json").write_bytes(damaged)
        assert fetch([file], None, tmp_path, host=host.address) == {"a.txt": path}


def test_a_changed_cached_file_is_downloaded_again(tmp_path, host, caplog):
    file = source("a.txt", b"hello")
    host.bodies["a.txt"] = b"hello"
    path = fetch([file], None, tmp_path, host=host.address)["a.txt"]
    path.write_bytes(b"hellx, altered")
    with caplog.at_level(logging.WARNING):
        assert fetch([file], None, tmp_path, host=host.address)["a.txt"].read_bytes() == b"hello"
    assert "damaged" in caplog.text


def test_wrong_hash(tmp_path, host):
    host.bodies["a.txt"] = b"other"
    with pytest.raises(InputError, match=r"a\.txt: wrong hash after download, expected sha256 2cf24dba"):
        fetch([source("a.txt", b"hello")], None, tmp_path, host=host.address)
    assert kept_files(tmp_path) == []


@pytest.mark.parametrize("announced", [True, False])
def test_truncated_download(tmp_path, host, announced):
    host.bodies["a.txt"] = b"hello" if announced else b"hel"
    host.cut = 2 if announced else 0
    with pytest.raises(InputError, match=r"a\.txt: truncated download, [03] of 5 bytes; nothing was kept"):
        fetch([source("a.txt", b"hello")], None, tmp_path, host=host.address)
    assert kept_files(tmp_path) == []


def test_no_network_names_all_files_where_from_and_where_to(tmp_path, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    files = [source(f"{name}.txt", name.encode()) for name in "abc"]
    in_mirror(tmp_path / "mirror", files[1], b"b")
    with pytest.raises(InputError) as error:
        fetch(files, tmp_path / "mirror", tmp_path / "cache", host="http://127.0.0.1:9")
    line = str(error.value)
    assert line == (
        "2 source file(s) missing (no network, ConnectionError): download http://127.0.0.1:9/owner/repo/c0ffee/ -> "
        f"a.txt, c.txt; and put them below {tmp_path / 'mirror'} as OWNER/REPO/COMMIT/PATH"
    )


def test_not_found(tmp_path, host):
    with pytest.raises(InputError, match="HTTP 404"):
        fetch([source("a.txt", b"hello")], None, tmp_path, host=host.address)


def test_what_was_downloaded_before_a_failure_stays(tmp_path, host):
    good, bad = source("a.txt", b"hello"), source("b.txt", b"world")
    host.bodies["a.txt"] = b"hello"
    with pytest.raises(InputError, match=r"1 source file\(s\) missing .* b\.txt;"):
        fetch([good, bad], None, tmp_path, host=host.address)
    assert kept_files(tmp_path) == ["a.txt"]


def test_wrong_content_in_the_mirror_is_an_error_not_a_download(tmp_path, host):
    file = source("a.txt", b"hello")
    path = in_mirror(tmp_path / "mirror", file, b"hello, world")
    with pytest.raises(InputError) as error:
        fetch([file], tmp_path / "mirror", tmp_path / "cache", host=host.address)
    assert str(error.value).startswith(f"{path}: wrong content (12 bytes, sha256 09ca7e4e")
    assert "expected 5 bytes, sha256 2cf24dba" in str(error.value)
    assert host.requests == []


def test_addresses_are_quoted():
    assert source("a b/c.csv", b"").address() == "https://raw.githubusercontent.com/owner/repo/c0ffee/a%20b/c.csv"
