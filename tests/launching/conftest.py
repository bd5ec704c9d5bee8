import pytest

from tests.launching.toy_program import write_program


@pytest.fixture
def toy(tmp_path):
    """The folder of a small program that sweeps."""
    write_program(tmp_path)
    return tmp_path
