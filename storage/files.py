"""Files that appear whole or not at all, and output that goes where it was said.

A regular file is written without a name, flushed to disk, named and then renamed over the old one, so a process killed
at any moment leaves the old file and nothing else. Links are followed. What is no regular file (a device, a pipe, an
open descriptor as /dev/stdout) is written through and stays what it is.
"""

from __future__ import annotations

import errno
import glob
import hashlib
import os
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from storage.errors import ReportError

STANDARD = {"/dev/stdin": 0, "/dev/stdout": 1, "/dev/stderr": 2}
NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
OF_WRITES = (*NO_SPACE, errno.EFBIG, errno.EROFS, errno.EBADF)  # what no read of another file ends in
TRIES = 100  # to open a file that others remove meanwhile


def expanded(path: Path | str) -> Path:
    """The path, `~` at its beginning as the home folder; that of nobody's, as in `~$data.xlsx`, is a name like others.

    `Path.expanduser` raises RuntimeError there.
    """
    return Path(os.path.expanduser(path))


def file_sha256(path: Path | str) -> str:
    """SHA-256 of a file's content, in hex. Raises OSError."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def replacing(path: Path | str) -> Iterator[BinaryIO]:
    """Open a binary file that takes the place of ``path`` when the block ends without an error, and vanishes otherwise.

    Raises:
        ReportError: the folder cannot be written to, a full disk included; ``path`` is then what it was before.
    """
    path = Path(path)
    with write_errors(path), _written_through(path) if is_written_through(path) else _replaced(path) as file:
        yield file


def write_text(path: Path | str, text: str) -> None:
    """Write UTF-8 text atomically. Raises ReportError as `replacing` does."""
    with replacing(path) as file:
        file.write(text.encode())


@contextmanager
def replacing_folder(path: Path | str) -> Iterator[Path]:
    """A new folder that takes the place of ``path`` when the block ends without an error, and vanishes otherwise.

    What killed processes left of earlier tries is removed. Raises OSError; ``path`` is then what it was before.
    """
    target = Path(os.path.realpath(path))
    target.parent.mkdir(parents=True, exist_ok=True)
    _put_in_order(target)
    temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}.tmp-", dir=target.parent))
    try:
        with hold_folder(temporary):
            yield temporary
            for path in (temporary, *temporary.rglob("*")):  # some libraries write for their own user alone
                path.chmod(0o755 if path.is_dir() else 0o644)
            former = target.with_name(f".{target.name}.old-{secrets.token_hex(4)}")
            with hold_folder(target):  # which a rename does not end
                if target.exists():
                    os.replace(target, former)
                try:
                    os.replace(temporary, target)
                except OSError:
                    if former.exists():
                        os.replace(former, target)
                    raise
            _sync_folder(target.parent)
            shutil.rmtree(former, ignore_errors=True)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _put_in_order(target: Path) -> None:
    """Remove what killed processes left beside a folder, and bring it back where one died before it named the new."""
    for kind in ("tmp", "old"):
        for abandoned in target.parent.glob(f"{glob.escape(f'.{target.name}.{kind}-')}*"):
            with hold_folder(abandoned) as is_free:
                if is_free and kind == "old" and not target.exists():
                    os.replace(abandoned, target)
                elif is_free:
                    shutil.rmtree(abandoned, ignore_errors=True)


def is_written_through(path: Path | str) -> bool:
    """Whether ``path`` is there and no regular file: a device, a pipe, a descriptor of this process."""
    try:
        return _descriptor(path) is not None or not stat.S_ISREG(os.stat(path).st_mode)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise _write_error(Path(path), error) from error


def is_stdout(path: Path | str) -> bool:
    """Whether what is written to ``path`` comes out of this process' standard output; "-" is its short name."""
    return str(path) == "-" or _descriptor(path) == 1


@contextmanager
def write_errors(path: Path | str) -> Iterator[None]:
    """Turn what stops a write to ``path`` into a ReportError that names it; other files' errors pass."""
    try:
        yield
    except BrokenPipeError:
        raise  # whoever read it has enough
    except OSError as error:
        if not _is_of_write(error, Path(path)):
            raise
        raise _write_error(Path(path), error) from error
    except Exception as error:
        if "No space left on device" not in str(error):  # what a library makes of a full disk
            raise
        raise _write_error(Path(path), OSError(errno.ENOSPC, "No space left on device")) from error


def _is_of_write(error: OSError, path: Path) -> bool:
    """Whether what an error names is touched by a write to ``path``: it, what is in it, a folder that it is in, and
    what stands for it meanwhile; of an error without a name, whether it is one that writes alone end in."""
    if error.filename is None or isinstance(error.filename, int):
        return error.errno in OF_WRITES
    name = os.fsdecode(error.filename)
    file, target = Path(os.path.realpath(name)), Path(os.path.realpath(path))
    if name.startswith("/proc/self/fd/") or file.is_relative_to(target) or target.is_relative_to(file):
        return True
    beside = file.relative_to(target.parent).parts[0] if file.is_relative_to(target.parent) else ""
    return re.fullmatch(rf"\.(\d+-\w+\.tmp|{re.escape(target.name)}\.(tmp|old)-\w+)", beside) is not None


def _write_error(path: Path, error: OSError) -> ReportError:
    if error.errno in NO_SPACE:
        return ReportError(f"no space left in {path.parent} for {path.name}: free some, or write elsewhere")
    return ReportError(f"cannot write {path.name} in {path.parent}: {error.strerror or error}")


@contextmanager
def _written_through(path: Path) -> Iterator[BinaryIO]:
    descriptor = _descriptor(path)
    with open(path if descriptor is None else os.dup(descriptor), "wb") as file:
        yield file


@contextmanager
def _replaced(path: Path) -> Iterator[BinaryIO]:
    target = Path(os.path.realpath(path))
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{os.getpid()}-{secrets.token_hex(3)}.tmp")
    try:
        descriptor, is_named = _new_file(temporary)
        with open(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(descriptor)
            if not is_named:
                _name(descriptor, temporary)
        os.replace(temporary, target)
        _sync_folder(target.parent)
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _new_file(path: Path) -> tuple[int, bool]:
    """A descriptor of a new file, and whether it has the name: one without vanishes with the process."""
    if hasattr(os, "O_TMPFILE") and os.path.isdir("/proc/self/fd"):
        with suppress(OSError):  # a file system that knows no files without names
            return os.open(path.parent, os.O_TMPFILE | os.O_WRONLY, 0o666), False
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666), True


def open_held(path: Path, problem: str) -> BinaryIO:
    """A file, made where there is none, open to read and write and this process's until it is closed, or the process
    dies.

    Raises:
        OSError: it cannot be made or opened.
        ReportError: another process holds it, in the words of `problem`.
    """
    for _ in range(TRIES):
        file = open(path, "r+b", opener=lambda name, flags: os.open(name, flags | os.O_CREAT, 0o666))
        try:
            _hold(file, problem)
            if _has_name(file, path):
                return file
        except BaseException:
            file.close()
            raise
        file.close()  # whoever held it has removed it: what is written there is lost
    raise ReportError(problem)


def _has_name(file: BinaryIO, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _hold(file: BinaryIO, problem: str) -> None:
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ReportError(problem) from None
    except (ImportError, OSError):
        pass  # a platform or a file system without locks


def _name(descriptor: int, path: Path) -> None:
    folder = os.open(path.parent, os.O_RDONLY)
    try:  # a folder's descriptor makes os.link follow the link in /proc
        os.link(f"/proc/self/fd/{descriptor}", path.name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=True)
    finally:
        os.close(folder)


def _descriptor(path: Path | str) -> int | None:
    """The open descriptor of this process that ``path`` names, if any: /dev/stdout, /dev/fd/N, a link to one."""
    name = os.path.abspath(path)
    for _ in range(40):  # as many links as Linux follows
        if name in STANDARD:
            return STANDARD[name]
        if match := re.fullmatch(r"/(?:dev|proc/self|proc/(\d+))/fd/(\d+)", name):
            return int(match[2]) if match[1] in (None, str(os.getpid())) else None
        if not os.path.islink(name):
            return None
        name = os.path.normpath(os.path.join(os.path.dirname(name), os.readlink(name)))
    return None


@contextmanager
def hold_folder(folder: Path) -> Iterator[bool]:
    """Hold a folder while the block runs; False where another process does, whose death would end its hold."""
    try:
        import fcntl

        descriptor = os.open(folder, os.O_RDONLY)
    except (ImportError, OSError):
        yield False
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        is_held = True
    except OSError:
        is_held = False
    try:
        yield is_held
    finally:
        os.close(descriptor)


def _sync_folder(folder: Path) -> None:
    """Make a rename survive a power cut; some platforms cannot open folders, and there the rename itself must do."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
