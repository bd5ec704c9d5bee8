"""Tags and entities taken out of texts, in training and in prediction alike."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datamodules.markup import MARKUP, without_markup
from tasks.auto.reading.table import read_labelled
from tests.command_lines import rows


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<p>red&nbsp;<b>apple</b></p>", "red apple"),
        ("a &lt; b &amp;&amp; c > d", "a < b && c > d"),
        ("one<br/>two<!-- <b>three</b> -->", "one two"),
        ("<style>p { color: red }</style><SCRIPT>alert('x')</script > text", "text"),
        ("twice &amp;amp;lt;i&amp;gt; escaped", "twice escaped"),
        ("plain,  with\nlines", "plain, with\nlines"),
        ("x < y and y > z", "x < y and y > z"),
        ("<img src='a.png'>", ""),
    ],
)
def test_what_is_taken_out(text, expected):
    assert without_markup(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<!-- a" * 30000, "<!-- a<!-- a"),
        ("<script>a" * 30000, "a a a"),
        ("&" + "amp;" * 30000 + "lt;p> a", "a"),
        ("&" + "#38;" * 30000 + "b", "&b"),
    ],
)
def test_long_texts_take_no_longer_than_their_length(text, expected):
    assert without_markup(text).startswith(expected)


@given(st.text(alphabet="<>&;/!-ab \n#39mplt", max_size=40))
def test_nothing_is_left_to_take_out(text):
    cleaned = without_markup(text)
    assert without_markup(cleaned) == cleaned and "</a" not in MARKUP.findall(cleaned)


@pytest.mark.slow
def test_a_run_reads_new_texts_as_it_read_its_own(fit, use, toy_csv, tmp_path):
    line = ["method=ce", "trainer.max_epochs=2", "dataset.markup=strip"]
    plain = fit(*line)
    for file in toy_csv.values():
        file.write_text(file.read_text().replace(" a ", " <b class='x'>a</b> ").replace(" of ", "&nbsp;of&nbsp;"))
    marked = fit(*line)
    assert marked.metrics["test/accuracy"] == plain.metrics["test/accuracy"] and marked.folder != plain.folder
    assert use("predict", marked, f"input={toy_csv['test']}", f"output={tmp_path}/p.csv").code == 0
    predicted = rows(tmp_path / "p.csv")
    assert any("<b " in row["text"] for row in predicted)  # as it was given
    stored = [row["prediction"] for row in rows(plain.folder / "predictions.csv") if row["split"] == "test"]
    assert [row["prediction"] for row in predicted] == stored
    toy_csv["train"].write_text(toy_csv["train"].read_text() + "<br>,fruit\n")
    assert fit(*line).error.startswith(f"{toy_csv['train']}:70: found an empty text")


def test_auto_says_what_it_leaves_and_what_it_takes_out(tmp_path):
    file = tmp_path / "pages.csv"
    file.write_text("text,label\n" + "".join(f"<i>page</i> {n},{'ab'[n % 2]}\n" for n in range(12)) + "<hr>,a\n")
    kept, stripped = (read_labelled(str(file), markup=markup) for markup in ("keep", "strip"))
    assert kept.texts[0] == "<i>page</i> 0" and kept.notes[-1].endswith("which stays (markup=strip takes it out)")
    assert stripped.texts[0] == "page 0" and len(stripped.texts) == 12
    assert stripped.notes == [
        "1 rows without a text are left out", "13 rows hold markup, such as '<i>', which is taken out",
    ]  # fmt: skip
