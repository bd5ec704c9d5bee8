"""Every public loss says what shapes it takes and where its formula comes from, which no linter asks."""

import ast
import re
from pathlib import Path

LOSSES = Path(__file__).resolve().parents[2] / "losses"
SHAPE = re.compile(r"\([A-Z][\w* ]*,|\bshapes?\b", re.IGNORECASE)
SOURCE = re.compile(r"\bsource\b|\beqs?\. ?\d", re.IGNORECASE)


def public() -> list[tuple[str, str]]:
    """(file:name, docstring) of each public class and function."""
    actual = []
    for file in sorted(LOSSES.glob("*.py")):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
                actual.append((f"{file.name}:{node.name}", ast.get_docstring(node) or ""))
    return actual


def test_shapes_and_source_are_given():
    assert [name for name, docstring in public() if not SHAPE.search(docstring)] == []
    assert [name for name, docstring in public() if not SOURCE.search(docstring)] == []
