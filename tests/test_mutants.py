"""The faults that `make mutants` seeds can still be seeded."""

from scripts import mutants


def test_each_text_to_replace_is_there_once():
    for name in mutants.MUTANTS:
        mutants.check(name)


def test_a_text_that_moved_is_named(tmp_path):
    name, mutant = next(iter(mutants.MUTANTS.items()))
    (tmp_path / mutant.file).parent.mkdir(parents=True)
    (tmp_path / mutant.file).write_text("elsewhere\n")
    try:
        mutants.check(name, tmp_path)
    except ValueError as error:
        assert str(error).startswith(f"{name}: {mutant.file} holds ")
    else:
        raise AssertionError("a text that is not there passed")
