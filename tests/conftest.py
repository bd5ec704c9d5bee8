"""Fixtures for all tests: the mirror of the source files, a tiny encoder, a small CSV; few threads and no network."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

# Before torch, transformers and wandb are imported anywhere: they read these once.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("GOMP_SPINCOUNT", "10000")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("WANDB_MODE", "offline")
os.environ.setdefault("WANDB_SILENT", "true")
os.environ.setdefault("MPLBACKEND", "Agg")

import pytest
from hypothesis import settings

from attack.toy import small_options, write_csv_files, write_encoder

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.command_lines import Result

ROOT = Path(__file__).resolve().parent.parent

# the same examples at every run and on every machine; HYPOTHESIS_EXAMPLES=1000 looks further by hand
settings.register_profile(
    "fixed",
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=int(os.environ.get("HYPOTHESIS_EXAMPLES", "20")),
)
settings.load_profile("fixed")


@pytest.fixture(scope="session", autouse=True)
def few_threads():
    """Several test runs share a machine; the tiny models here gain nothing from more threads."""
    import torch

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))


def _required_folder(path: Path) -> Path:
    if not path.is_dir():
        message = f"no mirror of the source files at {path} (set KONTRAST_MIRROR)"
        if os.environ.get("KONTRAST_REQUIRE_MIRROR") == "1":
            pytest.fail(message)
        pytest.skip(message)
    return path.resolve()


def _mirror_path() -> Path:
    return Path(os.environ.get("KONTRAST_MIRROR") or ROOT.parent / "shared" / "sources")


@pytest.fixture(scope="session")
def mirror() -> Path:
    """The mirror of the source files, laid out OWNER/REPO/COMMIT/PATH; skips without one (fails where required)."""
    return _required_folder(_mirror_path())


@pytest.fixture(scope="session")
def expected_data() -> Path:
    """The folder with the rows that must come out of the source files, NAME/SPLIT.jsonl.gz; skips as `mirror` does."""
    return _required_folder(_mirror_path().parent / "data")


@pytest.fixture(scope="session")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of prepared data sets, built once for all tests and test processes: `prepare` locks each of them."""
    base = tmp_path_factory.getbasetemp()
    return (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "prepared"


@pytest.fixture
def runs_dir(tmp_path: Path) -> Path:
    """A run store of the test's own: pass it as paths.runs."""
    return tmp_path / "runs"


@pytest.fixture(scope="session")
def tiny_encoder_dir(tmp_path_factory) -> Path:
    """A random two-layer BERT of width 32 with its own WordPiece tokenizer, as a folder in Hugging Face format."""
    return write_encoder(tmp_path_factory.mktemp("tiny_encoder"))


@pytest.fixture
def toy_csv(tmp_path: Path) -> dict[str, Path]:
    """{"train", "test"}: CSV files with columns text,label; four separable classes of 32, 16, 12 and 8 train rows."""
    return write_csv_files(tmp_path)


@pytest.fixture
def store(tmp_path: Path) -> list[str]:
    """Overrides that put everything below the test's folder."""
    return ["paths.source_mirror=null", *(f"paths.{name}={tmp_path / name}" for name in ("runs", "data", "cache"))]


@pytest.fixture
def small(tiny_encoder_dir: Path) -> list[str]:
    """Overrides for a tiny encoder that learns something in a few short epochs."""
    return small_options(tiny_encoder_dir)


@pytest.fixture
def files(toy_csv: dict[str, Path]) -> list[str]:
    """Overrides that choose the toy CSV."""
    return ["dataset=csv", *(f"dataset.{split}={path}" for split, path in toy_csv.items())]


@pytest.fixture(autouse=True)
def no_rival(monkeypatch: pytest.MonkeyPatch) -> None:
    """No run here encodes texts for the figures of `rival=logistic` beside its own, but in the tests of just that."""
    monkeypatch.setattr("engine.rivals.rival_metrics", lambda *_: {})


@pytest.fixture(autouse=True)
def own_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """A budget of the papers, run in this process before, allows idle words: not here."""
    monkeypatch.delenv("KONTRAST_SHARED_WORDS", raising=False)


@pytest.fixture
def fit(store: list[str], small: list[str], files: list[str]) -> Callable[..., "Result"]:
    """Train on the toy CSV: `fit("method=ce", "seed=1")`; later words win."""
    from tests.command_lines import command

    def call(*arguments: str, stdin: str = "") -> "Result":
        unread = _unread_rates(arguments)
        options = [option for option in small if option.partition("=")[0] not in unread]
        return command([*files, *store, *options, *arguments], stdin)

    return call


def _unread_rates(words: tuple[str, ...]) -> set[str]:
    """Keys of learning rates of the small options at which nothing learns under these words."""
    without_head = {"method=spcl", "head=text_to_text"}.intersection(words)
    if "method=dualcl" in words and "method.label_tokens=learned" not in words:
        without_head.add("method=dualcl")
    rates = {"method.head_lr"} if without_head else set()
    return rates | ({"optimizer.lr"} if "encoder.train=frozen" in words else set())


@pytest.fixture
def solve(store: list[str], files: list[str], tiny_encoder_dir: Path) -> Callable[..., "Result"]:
    """Run a method that is not trained on the toy CSV: `solve("method=logistic")`."""
    from tests.command_lines import command

    encoder = [f"encoder.path={tiny_encoder_dir}", "encoder.sha256=null", "dataset.max_length=32", "logger=csv"]
    return lambda *arguments: command([*files, *store, *encoder, *arguments])


@pytest.fixture
def cluster(store: list[str], toy_csv: dict[str, Path], tiny_encoder_dir: Path) -> Callable[..., "Result"]:
    """Cluster the train file of the toy CSV: `cluster("method=sbert_kmeans")`."""
    from tests.command_lines import command

    files = ["task=cluster", "dataset=csv", f"dataset.train={toy_csv['train']}", "dataset.max_length=32"]
    encoder = [f"encoder.path={tiny_encoder_dir}", "encoder.sha256=null"]
    return lambda *arguments: command([*files, *encoder, "logger=csv", *store, *arguments])


@pytest.fixture
def use(store: list[str]) -> Callable[..., "Result"]:
    """A task on a finished run: `use("evaluate", result, "output=-")`."""
    from tests.command_lines import command

    def call(task: str, run, *arguments: str, stdin: str = "") -> "Result":
        name = run if isinstance(run, str) else run.folder.name
        return command([f"task={task}", f"run={name}", *store, *arguments], stdin)

    return call


@pytest.fixture
def start(store, small, files, tmp_path, monkeypatch) -> Callable:
    """Start a command line in a process of its own; its output lies in NAME.out and .err."""
    from tests.own_process import context, run_alone

    monkeypatch.chdir(ROOT)
    started = []

    def call(*arguments: str, name: str = "output", dies: Callable[[], None] | None = None):
        line = [*files, *store, *small, *arguments]
        process = context.Process(target=run_alone, args=(line, tmp_path / name, dies))
        process.start()
        started.append(process)
        return process

    yield call
    for process in started:
        process.kill()
        process.join()


@pytest.fixture
def browser() -> Iterator["Browser"]:
    """The machine's chromium, without a window."""
    from playwright.sync_api import sync_playwright

    from tests.browser import CHROMIUM

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()
