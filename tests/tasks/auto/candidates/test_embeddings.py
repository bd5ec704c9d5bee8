"""Texts encoded once, and how long that takes."""

import torch

from engine.plan import Plan
from tasks.auto.candidates.embeddings import encoded, seconds_per_text
from tasks.auto.candidates.plans import plan_of


def test_texts_of_which_the_beginning_alone_is_encoded_are_told_by_their_tokens(store, toy_csv, tiny_encoder_dir):
    words = ["dataset=csv", f"dataset.train={toy_csv['train']}", f"encoder.path={tiny_encoder_dir}", *store]
    words += ["encoder.sha256=null", "method=prototypes", "trainer.precision=32"]
    texts = plan_of(words).corpus(whole=True).table("train")["text"].to_pylist()
    lengths = [len(ids) for ids in plan_of(words).encoder.tokenizer()(texts)["input_ids"]]
    limit = max(lengths)
    plan = plan_of([*words, f"dataset.max_length={limit}"])
    first, again = (encoded(plan, None, 1.0) for _ in range(2))
    assert first.is_cut.tolist() == [length == limit for length in lengths]
    assert first.seconds_per_text < 1 == again.seconds_per_text  # which encodes nothing


def test_the_encoder_is_timed_where_it_will_work(monkeypatch):
    class Elsewhere:
        """Takes tokens from the device that it was moved to."""

        def eval(self):
            return self

        def to(self, device):
            self.device = device
            return self

        def __call__(self, *inputs):
            assert {tensor.device for tensor in inputs} == {self.device}
            return torch.zeros(1)

    monkeypatch.setattr(Plan, "device", torch.device("meta"))
    plan = plan_of(["dataset=trec", "method=prototypes"])
    monkeypatch.setattr(plan.encoder, "load", lambda seed: Elsewhere())
    assert seconds_per_text(plan, ["a text", "another"]) > 0
