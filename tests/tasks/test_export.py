"""Exported folders: other libraries load them and predict what the run predicts, or are refused."""

import json
import re
import subprocess
import sys

import pytest

from tests.command_lines import rows

pytestmark = pytest.mark.slow

FORMATS = ("transformers", "onnx", "sentence_transformers")
REFUSED = """
import transformers
classify = transformers.pipeline("text-classification", {folder!r}, trust_remote_code=True)
for call in (
    lambda: transformers.pipeline("text-classification", {folder!r}),
    lambda: transformers.AutoModelForSequenceClassification.from_pretrained({embeddings!r}),
    lambda: transformers.pipeline("text-classification", {embeddings!r} + "/0_Transformer"),
    lambda: classify(["apple " * 100]),
):
    try:
        call()
    except (OSError, ValueError) as error:
        print()
        print(f"REFUSED {{error}}".splitlines()[0])
    else:
        raise SystemExit("loaded, or read, without a word")
"""


def python(code: str, folder) -> str:
    alone = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, text=True, capture_output=True, stdin=subprocess.DEVNULL
    )
    assert alone.returncode == 0, alone.stderr
    return alone.stdout


def test_every_format_predicts_the_same_by_its_own_card(fit, use, toy_csv, tmp_path):
    texts, code, expected = [row["text"] for row in rows(toy_csv["test"])], [], []
    for pooling in ("mean", "first_token", "cls"):
        run = fit(f"encoder.pooling={pooling}", "method.classifier_bias=false" if pooling == "cls" else "seed=0")
        stored = [row["prediction"] for row in rows(run.folder / "predictions.csv") if row["split"] == "test"]
        sure = {"threshold": 0.81234567, "precision": 0.9}  # as a model of task=auto has it
        kept = run.metrics | {f"abstention/{name}": value for name, value in sure.items()}
        (run.folder / "metrics.json").write_text(json.dumps(kept))
        for form in FORMATS:
            folder = tmp_path / f"{pooling}-{form}"
            result = use("export", run, f"output={folder}", f"format={form}")
            if (pooling, form) == ("cls", "sentence_transformers"):
                assert result.error.startswith("encoder.pooling: found cls; allowed with format=sentence_transformers")
                continue
            assert result.folder == folder
            assert all(file.stat().st_mode & 0o444 == 0o444 for file in folder.rglob("*"))
            card = (folder / "README.md").read_text()
            assert f"| macro_f1 | {100 * run.metrics['test/macro_f1']:.2f} % |" in card
            assert "its probability is at least 0.8124 (`abst" in card and "\n90 % of such answers to rows" in card
            assert json.loads((folder / "kontrast.json").read_text())["abstention"] == sure
            (snippet,) = re.findall(r"```python\n(.*?)```", card, re.DOTALL)
            assert '["a text"]' in snippet
            code.append(snippet.replace('["a text"]', repr(texts)))
            expected.append(str(stored))
    code.append("import sys; assert not {'lightning', 'hydra', 'tasks'} & set(sys.modules)")
    printed = python("\n".join(code), tmp_path).splitlines()
    assert [line for line in printed if line.startswith("['")] == expected  # wandb says a word of its own


def test_what_would_load_or_predict_otherwise_is_refused(fit, use, tmp_path):
    run = fit("method=ce", "retrieval=knn", "retrieval.num_neighbours=[1,5]")
    assert "the run predicts with its neighbours" in use("export", run).error
    assert use("export", run, "retrieval=none", f"output={tmp_path}/model").code == 0
    use("export", run, "retrieval=none", "format=sentence_transformers", f"output={tmp_path}/embeddings")
    code = REFUSED.format(folder=f"{tmp_path}/model", embeddings=f"{tmp_path}/embeddings")
    printed = python(code, tmp_path).splitlines()
    first, second, inner, third = (line.removeprefix("REFUSED ") for line in printed if line.startswith("REFUSED "))
    assert "custom code" in first and ("model_type" in second or "config" in second)
    assert inner.startswith("Could not load model")
    assert third.startswith("found a text of 102 tokens, allowed: 32")

    again, facts = ["retrieval=none", f"output={tmp_path}/model"], tmp_path / "model" / "kontrast.json"
    own = facts.with_name("notes.txt")
    for content in (facts.read_text(), '{"run": "one of before the list of files"}'):
        facts.write_text(content)
        own.write_text("mine")
        assert f"output: {own.parent} holds 'notes.txt', which no export wrote" in use("export", run, *again).error
        own.unlink()
    assert use("export", run, *again).code == 0
    assert use("export", run, "retrieval=none", "quantize=int8").error.startswith("quantize: found int8; allowed with")

    units = fit("method=sharprecl", "method.unit_norm_logits=true")  # not only the highest logit counts
    assert use("export", units).code == 0


@pytest.mark.parametrize("method", ["linear_words", pytest.param("two_heads_words", marks=pytest.mark.slow)])
def test_words_beside_the_embedding_are_exported(fit, solve, use, tmp_path, method):
    run = (solve if method == "linear_words" else fit)(f"method={method}")
    for form in ("transformers", "onnx"):  # each is compared with the run as it is written
        assert use("export", run, f"format={form}", f"output={tmp_path}/{form}").code == 0
    refused = use("export", run, "format=sentence_transformers", f"output={tmp_path}/embeddings").error
    assert refused.endswith(f"allowed with method={method}: transformers, onnx")
