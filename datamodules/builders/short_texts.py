"""Short-text sets of the clustering papers: news, snippets, questions, titles, tweets."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

from datamodules.builders.base import Row, TextDataset
from datamodules.builders.biomedical import REPOSITORY as AECL
from datamodules.builders.biomedical import augmented_rows
from datamodules.sources import SourceFile

RAKIB = ("rashadulrakib", "short-text-clustering-enhancement", "f363b66e6fd51f9dd1db679d2a9ce55538ab9868")
GSDMM = ("jackyin12", "GSDMM", "1b344d9de28faee43ec0df0c3cf7ea57737fe14e")
AUGMENTED = "prepare_data/augmented data"
DAMAGE = (
    "words are damaged in the source: the letter pairs lt and gt were cut out of them (washington became washin); "
    "the undamaged original is {original}"
)


class ShortTexts(TextDataset):
    """A set that its papers cluster as a whole; a classifier gets a stratified tenth of it as test.

    The labels are numbers, as the source has them.
    """

    licence = "none stated in the repository"
    test_fraction = 0.1
    read: ClassVar[Any]

    def rows(self, files: dict[str, Path]) -> dict[str, Iterator[Row]]:
        return {"train": type(self).read(files[self.sources[0].path])}


def tab_rows(path: Path) -> Iterator[Row]:
    """Label, tab, text."""
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            label, text = line.rstrip("\n").split("\t")
            yield {"text": text, "label": label}


def cluster_rows(path: Path) -> Iterator[Row]:
    """A JSON object a line, with `text` and `cluster`."""
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            yield {"text": row["text"], "label": str(row["cluster"])}


class AGNews8000(ShortTexts):
    """8,000 news of four sections, 2,000 each."""

    sources = (
        SourceFile(
            *AECL,
            f"{AUGMENTED}/agnews.csv",
            sha256="63cf303f4295e0e7c4d606b6db3afcae5246c1f9fa7c2637d40e120b4e5e45eb",
            bytes=2688172,
        ),
    )
    origin = "sample of AG News by Rakib et al. (2020), with EDA texts by the AECL authors"
    paper = {"name": "AECL", "texts": 8000, "classes": 4}
    differences = "none; leftovers of HTML (lt gt href fullquote) stay, as in the source"
    read = augmented_rows


class SearchSnippets(ShortTexts):
    """Snippets of web search results in eight domains."""

    sources = (
        SourceFile(
            *AECL,
            f"{AUGMENTED}/searchsnippets.csv",
            sha256="88add9eac2aef6f961e3952ca63684143bb23b5fbf00158f2808165d6e3cb726",
            bytes=3651612,
        ),
    )
    origin = "Phan et al. (2008), as in STC2, with EDA texts by the AECL authors"
    paper = {"name": "AECL", "texts": 12340, "classes": 8}
    differences = "none"
    read = augmented_rows


class StackOverflow(ShortTexts):
    """Titles of questions under 20 tags, 1,000 each."""

    sources = (
        SourceFile(
            *AECL,
            f"{AUGMENTED}/stackoverflow.csv",
            sha256="be18ea38dabfe3f90ad9dd831489335e34aeb51d2cdb42606d59931dbb043c1d",
            bytes=2124795,
        ),
    )
    origin = "question titles of Xu et al. (STC2), with EDA texts by the AECL authors"
    paper = {"name": "AECL", "texts": 20000, "classes": 20}
    differences = "none; 47 texts differ from STC2 in quotes or spaces"
    read = augmented_rows


class GoogleNewsTS(ShortTexts):
    """Titles and snippets of news in 152 stories."""

    sources = (
        SourceFile(
            *RAKIB,
            "data/TS",
            sha256="a2bd94663542b849477b0a2a95a23626a7c8af50d50978056159997ddd800065",
            bytes=2245797,
        ),
    )
    origin = "Google News of Yin and Wang (2014), copy of Rakib et al. (2020)"
    paper = {"name": "AECL", "texts": 11109, "classes": 152}
    differences = f"no augmented texts, the AECL repository lacks them; {DAMAGE.format(original='googlenews_ts_gsdmm')}"
    read = tab_rows


class GoogleNewsT(ShortTexts):
    """Titles of news in 152 stories."""

    sources = (
        SourceFile(
            *AECL,
            f"{AUGMENTED}/T.csv",
            sha256="a5d3a60bcbc4f81db8f6eef1db888f806d3c28c11347346b9be7b15071cb5833",
            bytes=984667,
        ),
    )
    origin = "Google News of Yin and Wang (2014), with EDA texts by the AECL authors"
    paper = {"name": "AECL", "texts": 11109, "classes": 152}
    differences = "11108 texts, the paper says 11109: one of the original is empty; " + DAMAGE.format(
        original="googlenews_t_gsdmm"
    )
    read = augmented_rows


class GoogleNewsS(ShortTexts):
    """Snippets of news in 152 stories."""

    sources = (
        SourceFile(
            *AECL,
            f"{AUGMENTED}/S.csv",
            sha256="60a488fd914648a792eda0d4e012a0e02d340ce14f0e42f4180ff046b749091c",
            bytes=3564179,
        ),
    )
    origin = "Google News of Yin and Wang (2014), with EDA texts by the AECL authors"
    paper = {"name": "AECL", "texts": 11109, "classes": 152}
    differences = "11108 texts, the paper says 11109: one of the original is empty; " + DAMAGE.format(
        original="googlenews_s_gsdmm"
    )
    read = augmented_rows


class Tweet(ShortTexts):
    """Tweets relevant to 89 queries of TREC's microblog track."""

    sources = (
        SourceFile(
            *AECL,
            f"{AUGMENTED}/tweet.csv",
            sha256="f766daef74b4846ad8a2c6342becf2f97bd1576a2bcdfa8ed4b07993871a2007",
            bytes=303017,
        ),
    )
    origin = "Yin and Wang (2014), with EDA texts by the AECL authors"
    paper = {"name": "AECL", "texts": 2472, "classes": 89}
    differences = "none"
    read = augmented_rows


class _Original(ShortTexts):
    """The words whole, in another order of rows and with other numbers for the labels; no augmented texts."""

    origin = "Yin and Wang (2014), their repository"
    empty_texts = True
    read = cluster_rows


class GoogleNewsTSOriginal(_Original):
    """Titles and snippets of news in 152 stories, undamaged."""

    sources = (
        SourceFile(
            *GSDMM,
            "data/TS",
            sha256="19d0b3a177bf4a4e4bf06e4c1a0c7b2db4143144d713e884645e2c273ec8dbc5",
            bytes=2547497,
        ),
    )
    paper = {"name": "GSDMM", "texts": 11109, "classes": 152}
    differences = "none"


class GoogleNewsTOriginal(_Original):
    """Titles of news in 152 stories, undamaged; one is empty."""

    sources = (
        SourceFile(
            *GSDMM,
            "data/T",
            sha256="28388aef0bf780e90bbc5bcc022beb1d73836a9216bcd4598145ebc7ca1f618c",
            bytes=775753,
        ),
    )
    paper = {"name": "GSDMM", "texts": 11109, "classes": 152}
    differences = "none; one text is empty, and stays"


class GoogleNewsSOriginal(_Original):
    """Snippets of news in 152 stories, undamaged; one is empty."""

    sources = (
        SourceFile(
            *GSDMM,
            "data/S",
            sha256="6d4cecc8bc547eacb54622d27a50382920528ca385e5987256415a68e0f8e30a",
            bytes=2072614,
        ),
    )
    paper = {"name": "GSDMM", "texts": 11109, "classes": 152}
    differences = "none; one text is empty, and stays"


class TweetOriginal(_Original):
    """Tweets relevant to 89 queries of TREC's microblog track, with the labels of the original."""

    sources = (
        SourceFile(
            *GSDMM,
            "data/Tweet",
            sha256="f091dae8dc6126ed7b60ab56690a295f15cc22d651fd1eacc05ae12e6247e97a",
            bytes=212953,
        ),
    )
    paper = {"name": "GSDMM", "texts": 2472, "classes": 89}
    differences = "none"
