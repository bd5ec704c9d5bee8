"""The file that a person fills: sorted, cut and doubled rows."""

import pytest

from tasks.active.file import FileOracle

HEAD = "position,text,label\n"


@pytest.fixture
def ask(tmp_path):
    """ask(lines) -> answers for positions 7 and 12 from a file of these lines."""
    file = tmp_path / "to_label.csv"

    def answers(lines):
        file.write_text(HEAD + lines)
        return FileOracle(file).answers([7, 12], ["a", "b"], ["no", "yes"])

    return answers, file


def test_sorted_rows_keep_their_labels(ask):
    assert ask[0]("12,b,yes\n7,a,no\n") == ["no", "yes"]


@pytest.mark.parametrize("lines", ["12,b,yes\n", "7,a,no\n12,b,yes\n12,b,no\n", "7,a,no\n12,b,yes\n9,c,no\n"])
def test_rows_that_do_not_fit_are_refused_and_kept(ask, lines):
    answers, file = ask
    with pytest.raises(ValueError, match="each of the 2 asked for once; see position (7|12|9)$"):
        answers(lines)
    assert file.read_text() == HEAD + lines


def test_an_earlier_round_makes_place(ask):
    answers, file = ask
    with pytest.raises(ValueError, match="2 texts to label"):
        answers("3,c,no\n4,d,yes\n")
    assert file.read_text().splitlines() == ["position,text,label", "7,a,", "12,b,"]


def test_what_a_spreadsheet_changes_is_read_and_a_fault_has_its_line(ask):
    answers, file = ask
    long = "word " * 40_000  # more than the csv module takes by itself
    assert answers(f'7,"{long}",no\n12,b,yes\n') == ["no", "yes"]
    with pytest.raises(ValueError, match=r"to_label\.csv:4: found 'maybe'; allowed: no, yes"):
        answers('7,"a\nof two lines",no\n12,b,maybe\n')
    file.write_bytes("label;position;text\r\nschön;7;größe\r\nja;12;b\r\n".encode("cp1252"))
    assert FileOracle(file).answers([7, 12], ["größe", "b"], ["ja", "schön"]) == ["schön", "ja"]
