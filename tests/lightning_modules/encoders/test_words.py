"""Encoders of words: vocabulary and label graph from train alone, vectors from a file, networks that padding leaves."""

import numpy as np
import pytest
import torch

from lightning_modules.encoders.cnn import CNNEncoder, TextCNN
from lightning_modules.encoders.ldgn import DualGraphNetwork, LDGNEncoder, normalised
from lightning_modules.encoders.words import label_graph

TEXTS = ["The Cat sat, on the mat.", "A dog; the dog barked!", "cat and dog"]
LABELS = np.array([[1, 1, 0], [1, 0, 0], [0, 1, 0], [1, 1, 1]])


def learned(kind=CNNEncoder, **options):
    encoder = kind("words", dimension=6, **options)
    encoder.learn(iter([TEXTS[:2], TEXTS[2:]]), LABELS, 3)
    return encoder


def networks():
    generator = torch.Generator().manual_seed(0)
    vectors = torch.randn(20, 6, generator=generator)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield TextCNN(vectors, (2, 3, 5), 4, 0.5)
        yield DualGraphNetwork(vectors, torch.from_numpy(label_graph(LABELS, 3)), 5, 0.5)


NETWORKS = list(networks())


def test_the_vocabulary_is_that_of_train():
    tokenizer = learned().tokenizer()
    ids = tokenizer(["the CAT flew"])["input_ids"][0]
    assert tokenizer.convert_ids_to_tokens(ids) == ["the", "cat", "[UNK]"] and tokenizer.pad_token_id == 0
    assert learned().tokenizer().get_vocab() == tokenizer.get_vocab()  # whatever the order of threads
    few = learned(vocabulary_size=4).tokenizer().get_vocab()
    assert set(few) == {"[PAD]", "[UNK]", "the", "dog"}
    assert "barked" not in learned(min_count=2).tokenizer().get_vocab()


def test_the_label_graph_is_the_share_of_train_rows():
    expected = [[1, 2 / 3, 1 / 3], [2 / 3, 1, 1 / 3], [1, 1, 1]]
    assert label_graph(LABELS, 3) == pytest.approx(np.array(expected))
    assert label_graph(np.zeros((2, 3), int), 3).tolist() == np.eye(3).tolist()
    assert label_graph(np.array([0, 1, 1, -1]), 3).tolist() == np.eye(3).tolist()
    graph = normalised(torch.tensor([[1.0, 1.0], [0.0, 4.0]]))
    assert torch.allclose(graph, torch.tensor([[0.5, 1 / 8**0.5], [0.0, 1.0]]))


def test_vectors_of_a_file_are_where_training_starts(tmp_path, monkeypatch):
    file = tmp_path / "vectors.txt"
    file.write_text("3 6\ncat 1 2 3 4 5 6\n. . . 0 0 0 0 0 2\nzebra 0 0 0 0 0 1\n")
    encoder, plain = learned(path=str(file)), learned()
    at = encoder.tokenizer().get_vocab()
    vectors, other = encoder.load(1).token_embeddings(), plain.load(1).token_embeddings()
    assert vectors[at["cat"]].tolist() == [1, 2, 3, 4, 5, 6] and vectors[0].tolist() == [0] * 6
    assert torch.equal(vectors[at["dog"]], other[at["dog"]])
    assert not torch.equal(other, plain.load(2).token_embeddings())
    assert encoder.weights_hash() != plain.weights_hash()
    monkeypatch.setenv("HOME", str(tmp_path))
    assert learned(path="~/vectors.txt").weights_hash() == encoder.weights_hash()
    with pytest.raises(ValueError, match="encoder.path: no file"):
        learned(path="none.txt").weights_hash()


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ("cat 1 2 3 4 5 6\ndog 1 2 three\n", "2: found 0 numbers"),
        ("cat 1 2 3 4 5 6\ndog 1 2\n", "2: found 2 numbers"),
        ("cat 1 2 3 4\n", "1: found 4 numbers"),
        ("cat 1 2 3 4 5 6 7 8\n", "1: found 8 numbers"),  # of which the last six would pass for a vector of `cat 1 2`
        ("9 8\ncat 1 2 3 4 5 6 7 8\n", "1: found 8 numbers"),
        ("cat 1 2 3 4 5 6\nd\xf6g 1 2 3 4 5 6\n", "2: not UTF-8"),
    ],
)
def test_a_file_of_other_vectors_is_refused(tmp_path, lines, problem):
    file = tmp_path / "vectors.txt"
    file.write_bytes(lines.encode("latin-1"))
    with pytest.raises(ValueError, match=rf"vectors.txt:{problem}; allowed: a word and encoder.dimension=6 numbers"):
        learned(path=str(file)).load()


def test_what_was_learned_is_kept(tmp_path):
    encoder = learned(LDGNEncoder)
    encoder.save(tmp_path)
    again = LDGNEncoder("words", dimension=6)
    with pytest.raises(ValueError, match="no vocabulary before the train rows"):
        again.tokenizer()
    again.restore(tmp_path)
    assert again.tokenizer()(TEXTS)["input_ids"] == encoder.tokenizer()(TEXTS)["input_ids"]
    assert (again.label_graph == encoder.label_graph).all()
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(ValueError, match="vocabulary of encoder=words cannot be read"):
        LDGNEncoder("words").restore(tmp_path)


@pytest.mark.parametrize("network", NETWORKS, ids=["cnn", "ldgn"])
def test_padding_and_companions_change_nothing(network):
    network.eval()
    rows = [[3, 4, 5], [6, 7, 8, 9, 10, 11, 12], [13]]

    def embedded(some, length):
        ids = torch.tensor([row + [0] * (length - len(row)) for row in some])
        return network(ids, (ids > 0).long())

    together = embedded(rows, 11)
    assert together.shape == (3, network.hidden_size) and together.dtype == torch.float32
    for row, expected in zip(rows, together, strict=True):
        assert torch.allclose(embedded([row], len(row))[0], expected, atol=1e-5)
    swapped = torch.tensor([[5, 4, 3]])
    assert not torch.allclose(network(swapped, torch.ones_like(swapped))[0], together[0], atol=1e-4)


@pytest.mark.parametrize("network", NETWORKS, ids=["cnn", "ldgn"])
@pytest.mark.parametrize("length", [0, 2])
def test_a_text_without_a_known_token_has_an_embedding(network, length):
    empty = torch.zeros(2, length, dtype=torch.long)
    actual = network.train()(empty, empty)
    actual.sum().backward()
    assert actual.isfinite().all() and all(p.grad is None or p.grad.isfinite().all() for p in network.parameters())
    network.zero_grad()


@pytest.mark.parametrize("network", NETWORKS, ids=["cnn", "ldgn"])
def test_all_of_it_trains(network):
    ids = torch.randint(1, 20, (4, 9), generator=torch.Generator().manual_seed(1))
    network.train()(ids, torch.ones_like(ids)).square().sum().backward()
    assert [name for name, p in network.named_parameters() if p.grad is None or not p.grad.any()] == []
    network.zero_grad()


def test_a_convolution_by_hand():
    """One filter of width 2 that sums: the largest sum of two neighbouring words."""
    network = TextCNN(torch.arange(5.0)[:, None], (2,), 1, 0.0).eval()
    torch.nn.init.ones_(network.convolutions[0].weight)
    torch.nn.init.zeros_(network.convolutions[0].bias)
    ids = torch.tensor([[1, 4, 2, 0], [3, 0, 0, 0]])
    assert network(ids, (ids > 0).long()).squeeze(1).tolist() == [6, 3]


def test_the_dual_graph_by_hand():
    network = NETWORKS[1].eval()
    ids = torch.tensor([[3, 4, 5]])
    with torch.no_grad():
        hidden = network.lstm(network.words(ids))[0][0]
        components = torch.stack([(hidden @ label).softmax(0) @ hidden for label in network.labels])
        leaky = torch.nn.functional.leaky_relu
        share = torch.from_numpy(label_graph(LABELS, 3))
        scale = torch.diag(share.sum(1) ** -0.5)
        static = leaky(scale @ share @ scale @ network.first(components))
        adaptive = torch.sigmoid(network.left(static) @ network.right(static).T)
        scale = torch.diag(adaptive.sum(1) ** -0.5)
        dynamic = leaky(scale @ adaptive @ scale @ network.second(static))
        assert torch.allclose(network.label_vectors(ids, torch.ones_like(ids))[0], torch.cat([static, dynamic], 1))


def test_bad_widths_and_no_labels_are_named():
    with pytest.raises(ValueError, match=r"encoder.widths: found \[0\]"):
        CNNEncoder("cnn", widths=[0])
    encoder = LDGNEncoder("ldgn")
    encoder.learn([TEXTS], np.full(3, -1), 0)
    with pytest.raises(ValueError, match="found no labels in train"):
        encoder.load()
