"""Output goes where it was said, appears whole or not at all, and what stops it is one line."""

import errno
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from storage.errors import ReportError
from storage.files import is_stdout, replacing, replacing_folder, write_errors, write_text

LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs Linux' devices")


def write(path, content: bytes) -> None:
    with replacing(path) as file:
        file.write(content)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=30)
@given(content=st.binary(), links=st.integers(0, 3), old=st.none() | st.binary(), fails=st.booleans())
def test_the_file_behind_any_links_is_old_or_new(tmp_path_factory, content, links, old, fails):
    folder = tmp_path_factory.mktemp("files")
    (folder / "far").mkdir()
    target = path = folder / "far" / "target"
    if old is not None:
        target.write_bytes(old)
    for number in range(links):
        link = folder / f"link-{number}"
        link.symlink_to(path if number % 2 else os.path.relpath(path, folder))
        path = link
    if fails:
        with pytest.raises(KeyError), replacing(path) as file:
            file.write(content)
            raise KeyError
        assert (target.read_bytes() if target.exists() else None) == old
    else:
        write(path, content)
        assert target.read_bytes() == content
    assert os.listdir(folder / "far") == ["target"] * target.exists()
    assert all((folder / f"link-{number}").is_symlink() for number in range(links))


@LINUX
def test_what_is_no_regular_file_is_written_through(tmp_path):
    pipe, device, link = tmp_path / "pipe", tmp_path / "null", tmp_path / "link"
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    link.symlink_to(pipe)
    write(link, b"through")
    reader.join(10)
    assert read == [b"through"] and pipe.is_fifo() and link.is_symlink()
    device.symlink_to("/dev/null")
    write(device, b"gone")
    assert Path("/dev/null").is_char_device()
    assert sorted(os.listdir(tmp_path)) == ["link", "null", "pipe"]


@LINUX
@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "link"])
@pytest.mark.parametrize("to_a_file", [False, True])
def test_standard_output_stays_what_the_shell_made_it(tmp_path, name, to_a_file):
    (tmp_path / "link").symlink_to("/dev/stdout")
    script = "import sys\nfrom storage.files import *\nprint('before', flush=True)\n"
    script += "with replacing(sys.argv[1]) as file: file.write(b'between\\n')\nprint('after')"
    path = str(tmp_path / "link") if name == "link" else name
    with open(tmp_path / "out", "wb") as file:
        output = file if to_a_file else subprocess.PIPE
        done = subprocess.run([sys.executable, "-c", script, path], stdout=output, check=True)
    shown = (tmp_path / "out").read_bytes() if to_a_file else done.stdout
    assert shown.split() == [b"before", b"between", b"after"]
    assert is_stdout(path) and is_stdout("-") and not is_stdout("/dev/stderr")


@LINUX
def test_a_full_device_is_named(tmp_path):
    with pytest.raises(ReportError, match="^no space left in /dev for full: free some, or write elsewhere$"):
        write("/dev/full", b"x")
    assert Path("/dev/full").is_char_device()
    with pytest.raises(ReportError, match=f"^no space left in {tmp_path} for a$"[:-1]), replacing(tmp_path / "a"):
        raise RuntimeError("safetensors: No space left on device (os error 28)")
    assert os.listdir(tmp_path) == []


def test_what_cannot_be_written_is_one_line(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for path in (tmp_path, tmp_path / "file" / "below", tmp_path / "loop", tmp_path / ("x" * 300)):
        with pytest.raises(ReportError, match=r"^cannot write [^\n]+$"):
            write(path, b"")
    with pytest.raises(FileNotFoundError), replacing(tmp_path / "a"):
        open("/no/such/input")  # an error of another file stays what it is
    for other in ("a-models/best.ckpt", "b", "below/c"):
        with pytest.raises(FileNotFoundError), replacing(tmp_path / "a"):
            open(tmp_path / other)
    with pytest.raises(IsADirectoryError), replacing(tmp_path / "a"):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))  # of a read that names nothing
    monkeypatch.delattr(os, "O_TMPFILE", raising=False)  # other platforms
    write(tmp_path / "b", b"new")
    with pytest.raises(KeyError), replacing(tmp_path / "b"):
        raise KeyError
    assert (tmp_path / "b").read_bytes() == b"new" and sorted(os.listdir(tmp_path)) == ["b", "file", "loop"]


KILLED = """
import sys, time
from pathlib import Path
from storage.files import replacing, replacing_folder
with replacing(sys.argv[1] + "/file") as file, replacing_folder(sys.argv[1] + "/folder") as folder:
    file.write(b"half"); file.flush()
    (folder / "part").write_text("half")
    print(flush=True)
    time.sleep(60)
"""


@LINUX
def test_a_killed_process_leaves_the_old_and_the_same_line_goes_on(tmp_path):
    write_text(tmp_path / "file", "old")
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)], stdout=subprocess.PIPE)
    assert process.stdout.readline()
    with replacing_folder(tmp_path / "folder") as folder:  # another's work is not taken for abandoned
        assert len(list(tmp_path.glob(".folder.tmp-*"))) == 2
        (folder / "part").write_text("mine")
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert (tmp_path / "file").read_text() == "old" and not list(tmp_path.glob("*.tmp")) + list(tmp_path.glob(".*.tmp"))
    with replacing_folder(tmp_path / "folder") as folder:
        (folder / "part").write_text("again")
    assert sorted(os.listdir(tmp_path)) == ["file", "folder"]
    assert (tmp_path / "folder" / "part").read_text() == "again"


@pytest.mark.parametrize("fault", ["making", "naming", "kill"])
def test_a_folder_is_the_old_one_where_its_making_fails(tmp_path, monkeypatch, fault):
    def replace(source, target):
        if fault == "naming" and ".tmp-" in str(source):
            raise full
        rename(source, target)

    rename, full = os.replace, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with replacing_folder(tmp_path / "a") as folder:
        (folder / "part").write_text("old")
    if fault == "kill":  # between taking the old one away and naming the new one
        (tmp_path / "a").rename(tmp_path / ".a.old-1234")
    monkeypatch.setattr(os, "replace", replace)
    whole = write_errors(tmp_path / "a"), replacing_folder(tmp_path / "a")
    with pytest.raises(ReportError, match="in .* for a:"), whole[0], whole[1] as folder:
        (folder / "part").write_text("new")
        if fault != "naming":
            raise full
    assert (tmp_path / "a" / "part").read_text() == "old" and os.listdir(tmp_path) == ["a"]
