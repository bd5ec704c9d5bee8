"""Texts and images: what takes which, refused in one line before anything else is looked at."""

import pytest
from hydra.utils import get_object

from engine.choices import choices
from engine.composition import check_kinds
from engine.validation import ConfigError
from tests.engine.plans import findings

DIGITS = {"_target_": choices("dataset")["digits"], "name": "digits"}
TREC = {"_target_": choices("dataset")["trec"], "name": "trec"}
ON_IMAGES = {
    *("acl", "balanced_softmax", "bcl", "ce", "class_balanced", "focal", "gpaco", "hybrid_sc", "ldam_drw", "logistic"),
    *("logit_adjusted", "paco", "post_hoc_logit_adjustment", "scl_ce", "scl_hnm", "sharprecl", "simcse", "spcl", "tsc"),
}
OF_WORDS = {
    *("dualcl", "kontrast", "nearest_name", "pairs_words", "prototypes", "setfit_pairs", "tfidf_linear"),
    *("sccl", "bow_kmeans"),
}


def refusal(dataset: dict, **groups: str) -> str | None:
    nodes = {group: {"_target_": choices(group)[name], "name": name} for group, name in groups.items()}
    try:
        check_kinds({"task": "fit", "dataset": dataset, **nodes})
    except ConfigError as error:
        return str(error)
    return None


@pytest.mark.parametrize("method", choices("method"))
def test_every_method_takes_images_or_is_refused_in_one_line(method: str) -> None:
    assert refusal(TREC, method=method) is None
    line = refusal(DIGITS, method=method)
    kinds = getattr(get_object(choices("method")[method]), "kinds", None)
    assert (line is None) == (kinds is None)
    assert method not in ON_IMAGES or line is None
    assert method not in OF_WORDS or line.startswith(f"method: found {method}; allowed with dataset=digits")
    assert line is None or "\n" not in line


@pytest.mark.parametrize(
    ("group", "of_texts", "of_images"),
    [
        ("encoder", {"minilm", "cnn", "bag_of_words", "tiny"}, {"resnet8", "resnet32", "resnext50", "pixels"}),
        ("augment", {"eda", "wordnet", "dropout"}, {"shift", "crop_flip", "randaugment", "autoaugment_simaugment"}),
        ("retrieval", {"knn"}, set()),
        ("active", {"badge"}, set()),
        ("head", {"text_to_text"}, set()),
    ],
)
def test_parts_of_the_other_kind_are_refused(group: str, of_texts: set[str], of_images: set[str]) -> None:
    for fits, other, data in ((of_texts, of_images, TREC), (of_images, of_texts, DIGITS)):
        assert [refusal(data, **{group: name}) for name in fits] == [None] * len(fits)
        for name in other:
            kind = get_object(choices(group)[name])
            line = refusal(data, **{group: name})
            assert line is not None and line.startswith(f"{group}: found ") and kind.kinds


def test_gradients_are_not_cached_where_a_batch_is_normalised() -> None:
    line = "trainer.gradient_cache_chunk: allowed with encoder=resnet8, which normalises over the batch: null"
    assert findings("method=ce dataset=digits trainer.gradient_cache_chunk=4") == [line]


def test_tasks_for_texts_are_refused() -> None:
    node = {"_target_": choices("method")["ce"], "name": "ce"}
    with pytest.raises(ConfigError, match="task: found cluster; allowed with dataset=digits, which holds images"):
        check_kinds({"task": "cluster", "dataset": DIGITS, "method": node})


@pytest.mark.parametrize(
    ("line", "finding"),
    [
        ("method=ce", None),
        ("method=logistic encoder=pixels", None),
        ("method=ce augment=null", None),
        ("method=logistic", "encoder.train: found frozen, and encoder=resnet8 has no weights; allowed: full, encoder."),
        ("method=paco encoder.train=frozen encoder.path=x", "encoder.train: found frozen, whose features are those of"),
        ("method=ce augment.others=simaugment", "augment.others: has no effect; allowed with method.num_views>1"),
        ("method=ce +dataset.max_length=3", "dataset.max_length: unknown key"),
        ("method=tfidf_linear", "method: found tfidf_linear; allowed with dataset=digits, which holds images: "),
    ],
)
def test_lines_on_images(line: str, finding: str | None) -> None:
    lines = findings(f"dataset=digits {line}")
    assert lines == [] if finding is None else len(lines) == 1 and lines[0].startswith(finding)
