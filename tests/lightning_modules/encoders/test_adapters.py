"""LoRA and language models: what trains, what a checkpoint holds, runs on tiny random models of each architecture."""

from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import load_file

from lightning_modules.encoders.lora import LoRA, plain_model
from lightning_modules.encoders.transformer import PretrainedEncoder, TextEncoder
from tests.command_lines import rows

SIZE = {"vocab_size": 400, "pad_token_id": 0}
BERT_LIKE = SIZE | {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
MODELS = {
    "bert": lambda: transformers.BertModel(transformers.BertConfig(**BERT_LIKE)),
    "roberta": lambda: transformers.RobertaModel(transformers.RobertaConfig(**BERT_LIKE)),
    "t5": lambda: transformers.T5Model(
        transformers.T5Config(**SIZE, d_model=32, d_kv=16, d_ff=64, num_layers=2, num_heads=2)
    ),
    "bloom": lambda: transformers.BloomModel(transformers.BloomConfig(**SIZE, hidden_size=32, n_layer=2, n_head=2)),
    "llama": lambda: transformers.LlamaModel(transformers.LlamaConfig(**BERT_LIKE, num_key_value_heads=2)),
}
DECODERS = ("bloom", "llama")


@pytest.fixture
def save_model(tiny_encoder_dir: Path, tmp_path: Path):
    """save_model(kind) -> folder of a tiny random model with the tokenizer of the tests."""

    def save(kind: str) -> Path:
        folder = tmp_path / kind
        torch.manual_seed(0)
        MODELS[kind]().save_pretrained(folder)
        transformers.AutoTokenizer.from_pretrained(tiny_encoder_dir).save_pretrained(folder)
        return folder

    return save


def load(folder: Path, **options) -> PretrainedEncoder:
    return PretrainedEncoder("test", "nobody/nothing", path=str(folder), **options)


def tokens(encoder: PretrainedEncoder) -> dict[str, torch.Tensor]:
    batch = encoder.tokenizer()(["an apple and a pear", "iron"], return_tensors="pt", padding=True)
    return {key: batch[key] for key in ("input_ids", "attention_mask")}


@pytest.mark.parametrize("kind", MODELS)
def test_adapters_alone_train_and_change_nothing_at_first(save_model, kind):
    pooling = "last_token" if kind in DECODERS else "mean"
    folder = save_model(kind)
    plain, adapted = (load(folder, pooling=pooling, lora=lora) for lora in (None, LoRA(rank=2)))
    batch, model = tokens(plain), adapted.load(seed=3)
    torch.testing.assert_close(plain.load().eval()(**batch), model.eval()(**batch))
    trained = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert trained and all("lora_" in name for name in trained)
    again, other = adapted.load(seed=3), adapted.load(seed=4)
    name = next(name for name in trained if "lora_A" in name)
    assert torch.equal(model.get_parameter(name), again.get_parameter(name))
    assert not torch.equal(model.get_parameter(name), other.get_parameter(name))


def test_the_last_token_is_the_last_that_is_not_padding(save_model):
    encoder = load(save_model("llama"), pooling="last_token")
    batch, model = tokens(encoder), encoder.load().eval()
    length = int(batch["attention_mask"][1].sum())
    assert length < batch["input_ids"].shape[1]
    alone = model(batch["input_ids"][1:, :length], batch["attention_mask"][1:, :length])
    torch.testing.assert_close(model(**batch)[1:], alone)
    hidden = model.model(batch["input_ids"], attention_mask=batch["attention_mask"]).last_hidden_state
    torch.testing.assert_close(model(**batch)[1], hidden[1, length - 1])


def test_of_t5_the_encoder_half_is_loaded(save_model):
    model = load(save_model("t5")).load()
    assert type(model.model).__name__ == "T5EncoderModel" and model.hidden_size == 32


def test_a_tokenizer_without_padding_pads_with_its_end(save_model):
    folder = save_model("llama")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    tokenizer.pad_token, tokenizer.eos_token = None, "[SEP]"
    tokenizer.save_pretrained(folder)
    assert load(folder).tokenizer().pad_token == "[SEP]"


@pytest.mark.slow
@pytest.mark.parametrize("kind", MODELS)
def test_a_run_from_start_to_prediction(fit, use, save_model, toy_csv, tmp_path, kind):
    decoder = [f"encoder.pooling={'last_token' if kind in DECODERS else 'mean'}"]
    result = fit("method=llm_lora", f"encoder.path={save_model(kind)}", "encoder.lora.rank=4", *decoder)
    assert result.metrics["status"] == "finished" and result.metrics["method"] == "llm_lora"
    losses = [float(row["train/loss"]) for row in rows(result.folder / "history.csv")]
    assert losses[-1] < losses[0]
    state = torch.load(result.folder / "checkpoints" / "best.ckpt", weights_only=True)["state_dict"]
    kept = [name for name in state if name.startswith("encoder.")]
    assert kept and all("lora_" in name for name in kept)
    before = (result.folder / "predictions.csv").read_text()
    assert use("evaluate", result).code == 0
    assert (result.folder / "predictions.csv").read_text() == before
    assert use("predict", result, f"input={toy_csv['test']}", f"output={tmp_path / 'out.csv'}").code == 0
    recorded = [row["prediction"] for row in rows(result.folder / "predictions.csv") if row["split"] == "test"]
    assert [row["prediction"] for row in rows(tmp_path / "out.csv")] == recorded


def test_layers_that_save_more_than_they_read_come_back(fit, monkeypatch):
    """As those of bitsandbytes in 4 bits do."""

    def more(self, destination, prefix, keep_vars):
        destination[f"{prefix}absmax"] = torch.ones(1)

    monkeypatch.setattr(TextEncoder, "_save_to_state_dict", more)
    assert fit("method=ce", "logger=csv", "trainer.max_epochs=1").metrics["status"] == "finished"


@pytest.mark.slow
def test_export_merges_the_adapters(fit, use, toy_csv, tmp_path):
    result = fit("method=sharprecl", "encoder/lora=default", "method.num_views=1")
    folder = tmp_path / "exported"
    assert use("export", result, f"output={folder}").code == 0
    assert not [name for name in load_file(folder / "model.safetensors") if "lora" in name]
    classify = transformers.pipeline("text-classification", str(folder), trust_remote_code=True)
    recorded = [row for row in rows(result.folder / "predictions.csv") if row["split"] == "test"]
    texts = [row["text"] for row in rows(toy_csv["test"])]
    scores = [answer["score"] for answer in classify(texts, truncation=True)]
    assert scores == pytest.approx([float(row["probability"]) for row in recorded], abs=1e-4)
    assert plain_model(classify.model.encoder) is classify.model.encoder


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["encoder/lora=default", "encoder.train=frozen"],
            "encoder.train: found frozen, allowed with encoder.lora: full",
        ),
        (["encoder/lora=default", "encoder.lora.rank=0"], "encoder.lora.rank: found 0; allowed: a whole number >= 1"),
        (
            ["encoder/lora=default", "encoder.lora.targets=[other]"],
            "encoder.lora.targets: found other; allowed with bert",
        ),
        (["+encoder.quantization=4bit", "encoder/lora=default"], "encoder.quantization: 4bit needs"),
        (["+encoder.quantization=auto"], "encoder.quantization: found auto, allowed with encoder.train=full"),
        (["method=llm_lora", "encoder=llama2_7b", "encoder.path=null"], "no weights of meta-llama/Llama-2-7b-hf"),
    ],
)
@pytest.mark.skipif(torch.cuda.is_available(), reason="4 bits are possible on this machine")
def test_what_cannot_be_is_one_line(fit, options, message):
    options = [*options, "encoder.sha256=null"]
    result = fit(*options)
    assert result.code == 2 and message in result.error
