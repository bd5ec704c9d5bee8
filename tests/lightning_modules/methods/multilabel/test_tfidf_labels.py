"""TF-IDF and logistic regression label by label against scikit-learn's own pipeline."""

import numpy as np
import torch
from scipy.special import expit
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier

from lightning_modules.encoders.bag_of_words import NUM_SPECIAL, WordCounts
from lightning_modules.methods.multilabel.tfidf_labels import TfidfLabelsModule

WORDS = ["apple", "pear", "iron", "rain", "the", "of"]


def test_probabilities_are_those_of_one_against_the_rest():
    rng = np.random.default_rng(0)
    ids = [rng.integers(0, len(WORDS), 6) for _ in range(60)]
    has = np.array([[0 in row or 1 in row, 2 in row, 3 in row, True] for row in ids]).astype(np.uint8)
    splits = {
        name: ([row + NUM_SPECIAL for row in ids[part]], torch.from_numpy(has[part]))
        for name, part in (("train", slice(0, 40)), ("val", slice(40, 60)))
    }
    module = TfidfLabelsModule(
        WordCounts(len(WORDS) + NUM_SPECIAL), None, torch.from_numpy(has[:40].sum(0).astype(np.int64)), None, None, "t"
    )
    chosen = module.solve(splits)["solver/C"]
    texts = [" ".join(WORDS[word] for word in row) for row in ids]
    vectorizer = TfidfVectorizer(sublinear_tf=True, vocabulary=WORDS, token_pattern=r"\w+")
    inputs = vectorizer.fit_transform(texts[:40])
    expected = OneVsRestClassifier(LogisticRegression(C=chosen, max_iter=1000)).fit(inputs, has[:40, :3])
    counts = np.stack([np.bincount(row + NUM_SPECIAL, minlength=len(WORDS) + NUM_SPECIAL) for row in ids[40:]])
    logits = module.logits(torch.from_numpy(counts).float()).detach().numpy()
    assert np.allclose(expit(logits[:, :3]), expected.predict_proba(vectorizer.transform(texts[40:])), atol=1e-4)
    assert (expit(logits[:, 3]) > 0.999).all()  # a label that all train rows have
