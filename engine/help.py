"""`run.py --help`. Hydra lists the groups by composing once for each, which takes longer than the rest together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from string import Template

CONF = Path(__file__).resolve().parents[1] / "conf"


def show_help(words: Sequence[str]) -> None:
    """Print the help that conf/hydra/default.yaml words, with the groups and the config of this command line."""
    from hydra import compose, initialize_config_dir
    from omegaconf import OmegaConf

    with initialize_config_dir(str(CONF), version_base="1.3"):
        overrides = [word for word in words if not word.startswith("-")]
        config = compose("config", overrides=overrides, return_hydra_config=True)
    template = Template(config.hydra.help.template)
    shown = OmegaConf.to_yaml(OmegaConf.masked_copy(config, [str(key) for key in config if key != "hydra"]))
    groups = "".join(f"{name}: {', '.join(choices)}\n" for name, choices in config_groups(CONF))
    print(template.substitute(APP_CONFIG_GROUPS=groups, CONFIG=shown), flush=True)


def config_groups(conf: Path) -> Iterator[tuple[str, list[str]]]:
    """Each group below `conf` with its choices, by name, without Hydra's own."""
    folders = (folder for folder in conf.rglob("*") if folder.is_dir())
    names = sorted(folder.relative_to(conf).as_posix() for folder in folders)
    for name in names:
        choices = sorted(file.stem for file in (conf / name).glob("*.yaml"))
        if choices and name.partition("/")[0] != "hydra":
            yield name, choices
