"""Resolve pyproject.toml into the two lock files. Run by `make lock`, with any Python the project runs on.

uv resolves for all of them at once, on Linux x86-64, from the packages' metadata: no wheel is downloaded, and what the
machine holds does not matter. Versions that a lock already has stay where they can; `make lock ARGS=--upgrade` takes
the newest of all. Only names and versions are written: no hashes, because torch has a different wheel per platform,
and no addresses, because where packages come from is the machine's own setting.
"""

import argparse
import re
import subprocess
import tempfile
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PYTHONS = ("3.11", "3.12", "3.13")
TORCH = "2.13.0"
CUDA_PARTS = re.compile(r"nvidia-|cuda-|triton==")
SOURCE_ONLY = "antlr4-python3-runtime"  # of Hydra; every other package must come as a wheel

HEADERS = {
    "requirements.lock": """\
# Every package of the environment, pinned. Made by `make lock` (scripts/lock.py) from pyproject.toml [cpu,dev] for
# Python 3.11 to 3.13 on Linux x86-64; do not edit. torch comes as the build the machine offers: a CPU wheel where pip
# finds one, else the registry's build, which brings its CUDA parts itself; they are therefore not pinned here.
""",
    "requirements-gpu.lock": """\
# The environment of `make setup EXTRAS=gpu`: the registry's CUDA build of torch and the GPU faiss. Made by `make lock`
# (scripts/lock.py) from pyproject.toml [gpu,dev] for Python 3.11 to 3.13 on Linux x86-64; do not edit. `===` refuses a
# build with a local suffix such as +cpu. Resolved on a machine without a GPU, not installed there.
""",
}


def resolve(uv: Path, extra: str, known: str, options: list[str]) -> list[str]:
    """Return the pins of the project with the extras `extra` and `dev`, torch first.

    Args:
        uv: the program.
        extra: `cpu` or `gpu`.
        known: pins to keep where they can be kept.
        options: of uv, such as `--upgrade`.
    """
    with tempfile.TemporaryDirectory() as folder:
        lock, torch = Path(folder) / "lock", Path(folder) / "torch"
        lock.write_text(known.replace("===", "=="))
        torch.write_text(f"torch=={TORCH}\n")
        command: list[str | Path] = [uv, "pip", "compile", "pyproject.toml", "--universal", "--quiet"]
        command += ["--python-version", PYTHONS[0]]
        command += ["--extra", extra, "--extra", "dev", "--constraint", torch, "--output-file", lock, *options]
        command += ["--only-binary", ":all:", "--no-binary", SOURCE_ONLY, "--no-annotate", "--no-header"]
        subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
        pins = [without_environment(line) for line in lock.read_text().splitlines()]
    return sorted(pins, key=lambda pin: (not pin.startswith("torch=="), pin))


def without_environment(pin: str) -> str:
    """Drop what is true wherever the lock is for from the pin's marker."""
    always = PROJECT["tool"]["uv"]["environments"][0].split(" and ")
    requirement, _, marker = pin.partition(" ; ")
    terms = [term for term in marker.split(" and ") if term and term not in always]
    return f"{requirement} ; {' and '.join(terms)}" if terms else requirement


def check_wheels(uv: Path, lock: Path) -> None:
    """Raise, with uv's message, unless each pin has a wheel for each Python."""
    for version in PYTHONS:
        command: list[str | Path] = [uv, "pip", "compile", "--no-deps", "--quiet", "--python-version", version, lock]
        command += ["--python-platform", "x86_64-manylinux_2_28"]
        command += ["--only-binary", ":all:", "--no-binary", SOURCE_ONLY]
        subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.DEVNULL)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__).parse_known_args()[1]  # uv's
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        subprocess.run([Path(folder) / "bin/python", "-m", "pip", "install", "-qq", "uv"], check=True)
        uv = Path(folder) / "bin/uv"
        cpu = resolve(uv, "cpu", (ROOT / "requirements.lock").read_text(), options)
        cpu = [pin for pin in cpu if not CUDA_PARTS.match(pin)]
        # The GPU environment differs by the two GPU packages and what they bring, in nothing else.
        old = (ROOT / "requirements-gpu.lock").read_text().splitlines()
        parts = [pin for pin in old if CUDA_PARTS.match(pin) or pin.startswith(("faiss-gpu", "bitsandbytes"))]
        gpu = resolve(uv, "gpu", "\n".join([*cpu, *([] if options else parts)]), [])
        gpu[0] = gpu[0].replace("==", "===")
        for name, pins in {"requirements.lock": cpu, "requirements-gpu.lock": gpu}.items():
            (ROOT / name).write_text(HEADERS[name] + "\n".join(pins) + "\n")
            check_wheels(uv, ROOT / name)
            print(f"{name}: {len(pins)} packages")


if __name__ == "__main__":
    main()
