"""Texts that an encoder hardly reads."""

from tasks.auto.reading.legibility import ANOTHER, hardly_read, legibility


def test_texts_that_the_encoder_hardly_reads_are_said():
    """A tokenizer that knows words of ASCII, letters of Russian and no emoji."""

    class Tokenizer:
        unk_token_id = 0

        def __call__(self, texts, add_special_tokens):
            words = (text.split() for text in texts)
            of_word = {True: lambda word: [1], False: lambda word: [2] * len(word) if word.isalpha() else [0]}
            return {"input_ids": [[i for word in own for i in of_word[word.isascii()](word)] for own in words]}

    english, russian = ["a few plain words"] * 3000, ["немного простых слов"] * 40
    read = legibility(Tokenizer(), english)
    assert (read.unknown_tokens, read.tokens_a_word, hardly_read(read, "minilm")) == (0.0, 1.0, None)
    assert "it cuts their words into 6.0 tokens each; " in hardly_read(legibility(Tokenizer(), russian), "minilm")
    with_emoji = legibility(Tokenizer(), ["\U0001f600 great", *english[:5]])
    assert hardly_read(with_emoji, "minilm").startswith("encoder=minilm hardly reads these texts, 5 % of their tokens")
    assert "; encoder.path=null encoder.repo=" in hardly_read(with_emoji, "minilm", "/models/one", is_folder=True)
    told = hardly_read(with_emoji, "minilm", ANOTHER)
    assert told.startswith(f"encoder=minilm ({ANOTHER}) hardly reads these texts, ") and "encoder.repo" not in told
