"""Reads the files that W&B leaves: a log of length-prefixed records in blocks, each a protocol buffer."""

import json
import struct
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

BLOCK, HEADER, FULL, FIRST, MIDDLE, LAST = 32768, 7, 1, 2, 3, 4
IDENT = b":W&B"


@dataclass
class WandbRun:
    """What one file says."""

    id: str = ""
    group: str = ""
    config: dict[str, Any] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    summary: dict[str, Any] = field(default_factory=dict)
    files: set[str] = field(default_factory=set)
    exit_code: int | None = None


def records(file: Path):
    """The raw records of a file, as LevelDB's log format has them."""
    data = file.read_bytes()
    assert data[:4] == IDENT, f"{file} is no W&B file"
    position, parts = HEADER, []
    while position + HEADER <= len(data):
        if BLOCK - position % BLOCK < HEADER:  # the rest of a block is padding
            position += BLOCK - position % BLOCK
            continue
        _, length, kind = struct.unpack("<IHB", data[position : position + HEADER])
        if kind == 0:
            position += BLOCK - position % BLOCK
            continue
        parts.append(data[position + HEADER : position + HEADER + length])
        position += HEADER + length
        if kind in (FULL, LAST):
            yield b"".join(parts)
            parts = []


def read_closed(file: Path, wait_seconds: float = 60.0) -> WandbRun:
    """A file read once its last record is there: W&B's own process may still write after a run has been finished."""
    until = time.monotonic() + wait_seconds
    while (run := read(file)).exit_code is None and time.monotonic() < until:
        time.sleep(0.1)
    return run


def read(file: Path) -> WandbRun:
    """What a file says so far."""
    from wandb.proto import wandb_internal_pb2

    run = WandbRun()
    for raw in records(file):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(raw)
        kind = record.WhichOneof("record_type")
        if kind == "run":
            run.id, run.group = record.run.run_id, record.run.run_group
            run.config |= {_key(item): json.loads(item.value_json) for item in record.run.config.update}
        elif kind == "config":
            run.config |= {_key(item): json.loads(item.value_json) for item in record.config.update}
        elif kind == "history":
            run.history.append({_key(item): json.loads(item.value_json) for item in record.history.item})
        elif kind == "summary":
            run.summary |= {_key(item): json.loads(item.value_json) for item in record.summary.update}
        elif kind == "files":
            run.files |= {item.path for item in record.files.files}
        elif kind == "exit":
            run.exit_code = record.exit.exit_code
    return run


def _key(item: Any) -> str:
    return item.key or ".".join(item.nested_key)
