"""Every YAML on disk composes, validates and, where it can without data, instantiates."""

from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from omegaconf import OmegaConf

from engine.validation import ConfigError, mismatch, signature, validate

CONF = Path(__file__).resolve().parents[2] / "conf"
FILES = sorted(path.relative_to(CONF).with_suffix("") for path in CONF.rglob("*.yaml") if path.parent != CONF)
# what has no default and must be given with the choice
REQUIRED = {
    "dataset/csv": ["dataset.train=train.csv"],
    "dataset/jsonl": ["dataset.train=train.jsonl"],
    "dataset/aapd": ["dataset.folder=aapd"],
    "dataset/rcv1": ["dataset.folder=rcv1"],
    "dataset/mpqa_type": ["dataset.train=mpqa_type_train.csv"],
    "dataset/mpqa_polarity": ["dataset.train=mpqa_polarity_train.csv"],
    "dataset/mpqa_intensity": ["dataset.train=mpqa_intensity_train.csv"],
    "dataset/amazon_reviews": ["dataset.train=train.csv"],
    "dataset/hub": ["dataset.path=some/name"],
    "imbalance/counts": ["imbalance.counts=[5,3]"],
    "imbalance/listed": ["imbalance.rows=[0,1,2]"],
}
# need the objects of a run, or are no node of their own
NOT_ALONE = {"method", "trainer", "callbacks", "logger", "hydra", "paths", "sweep", "debug"}


def composed(*overrides: str):
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return compose("config", overrides=list(overrides))


def plain(*overrides: str) -> dict:
    return OmegaConf.to_container(composed(*overrides), resolve=True)


def choice(path: Path) -> list[str]:
    group, name = str(path.parent), path.name
    if group == "method_dataset":
        method = max((m.stem for m in CONF.glob("method/*.yaml") if name.startswith(f"{m.stem}_")), key=len)
        return [f"method={method}", f"dataset={name.removeprefix(f'{method}_')}"]
    return [f"{group}={name}", *REQUIRED.get(f"{group}/{name}", [])]


def test_all_files_are_found() -> None:
    assert len(FILES) >= 30
    assert {"method", "loss", "encoder", "dataset", "augment", "imbalance", "sampler", "protocol", "trainer"} <= {
        str(path.parent) for path in FILES
    }


@pytest.mark.parametrize("path", [path for path in FILES if path.parts[0] != "hydra"], ids=str)
def test_every_file_composes_and_validates(path: Path) -> None:
    validate(plain(*choice(path)))


@pytest.mark.parametrize(
    "path", [path for path in FILES if path.parts[0] not in NOT_ALONE], ids=str
)
def test_every_group_instantiates(path: Path) -> None:
    config = composed(*choice(path))
    group = path.parts[0]
    if group in config and config[group] and "_target_" in config[group]:
        assert instantiate(config[group]) is not None


def test_user_line_composes() -> None:
    config = plain("method=sharprecl", "loss.tau=0.3", "method.mu=0.2", "method.K=10", "imbalance.ir=10")
    assert (config["loss"]["tau"], config["method"]["mu"], config["method"]["K"], config["imbalance"]["ir"]) == (
        0.3,
        0.2,
        10,
        10,
    )
    validate(config)


@pytest.mark.parametrize("overrides", [["method=ce", "method.K=5"], ["method=ce", "loss.tau=1"], ["methd=ce"]])
def test_an_option_that_the_method_does_not_have_is_refused(overrides: list[str]) -> None:
    with pytest.raises(Exception, match="Could not override|not in struct|Could not find"):
        composed(*overrides)


@pytest.mark.parametrize(
    ("override", "finding"),
    [
        ("loss.tau=0", "loss.tau: found 0"),
        ("method.K=0", "method.K: found 0"),
        ("method.K=1.5", "method.K: found 1.5"),
        ("method.mu=-1", "method.mu: found -1"),
        ("imbalance.ir=0.5", "imbalance.ir: found 0.5"),
        ("sampler.batch_size=1", "sampler.batch_size: found 1"),
        ("encoder.pooling=max", "encoder.pooling: found 'max'; allowed: mean, cls, first_token"),
        ("loss.class_weight=inverse", "loss.class_weight: found 'inverse'"),
        ("trainer.max_epochs=0", "trainer.max_epochs: found 0"),
        ("trainer.precision=8", "trainer.precision: found 8"),
        ("+method.k=3", "method.k: unknown key"),
    ],
)
def test_bad_values_are_named(override: str, finding: str) -> None:
    with pytest.raises(ConfigError) as error:
        validate(plain(override))
    assert finding in str(error.value)
    assert len(str(error.value).splitlines()) == 1


def test_all_findings_come_at_once() -> None:
    with pytest.raises(ConfigError) as error:
        validate(plain("loss.tau=0", "method.K=0", "imbalance.ir=0"))
    assert len(str(error.value).splitlines()) == 3


def test_signature_follows_keyword_arguments_up_the_classes() -> None:
    from lightning_modules.methods.supervised.sharprecl import SharpReCLModule

    parameters, open_ended = signature(SharpReCLModule)
    assert {"mu", "K", "head_lr", "num_views"} <= set(parameters)
    assert not open_ended


def test_mismatch_of_unions_and_booleans() -> None:
    assert mismatch(None, int | None) is None
    assert mismatch(True, int) == "a whole number"
    assert mismatch("x", float | None) == "a number or null"
