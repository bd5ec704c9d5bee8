"""YAML from elsewhere, as plain values: no tags, no aliases."""

from __future__ import annotations

from typing import Any

import yaml


class _WithoutAliases(yaml.SafeLoader):
    """Aliases to aliases would unfold a small file into any amount of memory."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError(f"line {self.peek_event().start_mark.line + 1}: an alias; allowed: none")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        keys = [key.value for key, _ in node.value]
        if twice := next((key for key in keys if keys.count(key) > 1), None):
            raise yaml.YAMLError(f"line {node.start_mark.line + 1}: key {str(twice)[:60]!r} stands twice")
        return super().construct_mapping(node, deep)


class _Words(_WithoutAliases):
    """Every value as it is written: `yes` and `01` are no truth value and no number."""


_Words.yaml_implicit_resolvers = {}


def load_yaml(text: str, words: bool = False) -> Any:
    """The plain values of a YAML text, or with `words` all of them as they are written. Raises ValueError, in one line,
    where it is none or has an alias or a tag."""
    try:
        return yaml.load(text, Loader=_Words if words else _WithoutAliases)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    except (yaml.YAMLError, ValueError, LookupError, TypeError, AttributeError) as error:  # 5,000 digits, a day 32
        raise ValueError(" ".join(str(error).split())[:200] or type(error).__name__) from error
