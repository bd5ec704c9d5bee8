"""Resolve pyproject.toml into the two lock files. Run by `make lock`, with Python 3.11 on Linux x86-64.

pip resolves in a new, empty virtual environment (`--dry-run --report`: nothing is installed), so the result does not
depend on what the machine already holds; the wheels are downloaded, about 3 GB with the CUDA parts. Only names and
versions are written: no hashes, because torch has a different wheel per platform, and no addresses, because where
packages come from is the machine's own setting.
"""

import json
import re
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TORCH = "2.13.0"
CUDA_PARTS = re.compile(r"nvidia-|cuda-|triton$")

HEADERS = {
    "requirements.lock": """\
# Every package of the environment, pinned. Made by `make lock` (scripts/lock.py) from pyproject.toml [cpu,dev] with
# Python 3.11 on Linux x86-64; do not edit. torch comes as the build the machine offers: a CPU wheel where pip finds
# one, else the registry's build, which brings its CUDA parts itself; they are therefore not pinned here.
""",
    "requirements-gpu.lock": """\
# The environment of `make setup EXTRAS=gpu`: the registry's CUDA build of torch and the GPU faiss. Made by `make lock`
# (scripts/lock.py) from pyproject.toml [gpu,dev] with Python 3.11 on Linux x86-64; do not edit. `===` refuses a build
# with a local suffix such as +cpu. Resolved and downloaded on a machine without a GPU, not installed there.
""",
}


def resolve(python: Path, requirements: list[str]) -> dict[str, str]:
    """Return {package: version} of all that pip would install for `requirements`, sorted by name."""
    command = [python, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--report", "-"]
    report = json.loads(subprocess.run([*command, *requirements], check=True, stdout=subprocess.PIPE).stdout)
    packages = (item["metadata"] for item in report["install"])
    return dict(sorted((re.sub(r"[-_.]+", "-", p["name"]).lower(), p["version"]) for p in packages))


def write(name: str, torch_pin: str, packages: dict[str, str]) -> None:
    """Write one lock, torch first so that its build decides what the others find."""
    pins = [torch_pin] + [f"{package}=={version}" for package, version in packages.items() if package != "torch"]
    (ROOT / name).write_text(HEADERS[name] + "\n".join(pins) + "\n")
    print(f"{name}: {len(pins)} packages")


def main() -> None:
    if sys.version_info[:2] != (3, 11):
        sys.exit(f"the locks are made with Python 3.11, this is {sys.version.split()[0]}")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    core, extras = project["dependencies"], project["optional-dependencies"]
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder) / "bin" / "python"
        cpu = resolve(python, [f"torch=={TORCH}", *core, *extras["cpu"], *extras["dev"]])
        cpu = {package: version for package, version in cpu.items() if not CUDA_PARTS.match(package)}
        write("requirements.lock", f"torch=={TORCH}", cpu)
        # The GPU environment differs by the two GPU packages and what they bring, in nothing else.
        shared = [f"{package}=={version}" for package, version in cpu.items() if package not in ("torch", "faiss-cpu")]
        gpu = resolve(python, [f"torch==={TORCH}", *extras["gpu"], *shared])
        write("requirements-gpu.lock", f"torch==={TORCH}", gpu)


if __name__ == "__main__":
    main()
