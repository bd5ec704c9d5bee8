"""A folder as `task=auto` leaves it before the report, with Gaussian scores in place of models."""

import json

import numpy as np
import pandas as pd
from scipy.special import softmax

NAMES = ["World <b>", "Sports", "Business", "Sci/Tech"]
CANDIDATES = [  # id, title, cost, skill, repeats, train seconds, texts a second, MiB
    ("majority", "Always the largest class", 0, 0.0, 2, 0.01, 1e6, 0.01),
    ("tfidf", "TF-IDF with a linear model", 1, 1.2, 2, 0.4, 9000, 3.1),
    ("logistic", "MiniLM, frozen, with logistic regression", 2, 2.4, 2, 9.0, 310, 87.0),
    ("ce", "MiniLM, fine-tuned with cross-entropy", 5, 2.45, 1, 260.0, 300, 87.0),
]


def write_folder(folder, rows=300, seed=0, names=NAMES, candidates=CANDIDATES):
    """Rows of four classes, 186 to 14, a duplicate across labels, a wrong label and four candidates."""
    rng = np.random.default_rng(seed)
    shares = np.array([0.62, 0.2, 0.135, 0.045])
    labels = np.repeat(np.arange(len(shares)), np.round(shares * rows).astype(int))
    rows = len(labels)
    words = np.array(["game", "market", "war", "chip", "vote", "<script>alert(1)</script>", "score", "bank", "space"])
    texts = [f"{' '.join(rng.choice(words, 12))} {number}" for number in range(rows)]
    texts[-1] = texts[0].upper()
    (folder / "out_of_fold").mkdir(parents=True)
    table = pd.DataFrame({"row": np.arange(rows), "file": "my.csv", "line": np.arange(rows) + 2, "text": texts})
    table["label"] = [names[label] for label in labels]
    table.to_parquet(folder / "rows.parquet")
    vectors = rng.normal(size=(rows, 16))
    vectors[5] = vectors[9] + 0.01
    np.save(folder / "embeddings.npy", (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32))
    shared = rng.normal(size=(rows, len(shares)))
    for name, _, _, skill, repeats, *_ in candidates:
        parts = []
        for repeat in range(repeats):
            scores = shared + 0.4 * rng.normal(size=shared.shape) + skill * np.eye(len(shares))[labels]
            if name == "majority":
                scores = np.tile(np.log(shares), (rows, 1))
            part = pd.DataFrame(softmax(1.5 * scores, axis=1), columns=[f"p_{c}" for c in range(len(shares))])
            part = part.assign(row=np.arange(rows), repeat=repeat, fold=rng.permutation(rows) % 5, label=labels)
            parts.append(part)
        pd.concat(parts).to_parquet(folder / "out_of_fold" / f"{name}.parquet")
    entries = [
        {"candidate": name, "title": title, "overrides": [], "status": "finished", "reason": None, "cost": cost,
         "train_seconds": seconds, "texts_per_second": speed, "size_mib": size, "run_ids": [],
         "can_be_recommended": name != "majority"}
        for name, title, cost, _, _, seconds, speed, size in candidates
    ]  # fmt: skip
    entries.append({"candidate": "sharprecl", "title": "MiniLM with SharpReCL", "status": "skipped", "cost": 7,
                    "reason": "would take 14 minutes, 3 are left"})  # fmt: skip
    counts = np.bincount(labels)
    data = {
        "rows": rows,
        "classes": [{"label": name, "rows": int(n)} for name, n in zip(names, counts, strict=True)],
        "several_labels": False, "unlabelled_rows": 12, "median_words": 12, "duplicates": 1,
        "conflicting_duplicates": 1, "markup_rows": 3, "regime": "labelled", "sampled_from": None,
        "notes": ["3 rows hold markup, such as <b>, which stays (markup=strip takes it out)"],
        "files": [{"path": "my.csv", "format": "csv", "encoding": "utf-8", "delimiter": ",", "text_columns": ["text"],
                   "label_column": "label", "guessed": ["text column", "label column"]}],
    }  # fmt: skip
    question = {"input": "my.csv", "minutes": 20, "used_minutes": 18.3, "precision": 0.9, "prefer": "quality",
                "methods": None, "seed": 0, "folds": 5, "repeats": 2, "encoder": "minilm"}  # fmt: skip
    sizes = [60, 120, 180, 240]
    curve = [
        {"candidate": "logistic", "rows": size, "repeat": r, "fold": f, "accuracy": 0.9,
         "macro_f1": 0.9 - 2.0 * size**-0.5 + 0.01 * rng.normal()}
        for size in sizes for r in range(2) for f in range(5)
    ]  # fmt: skip
    pd.DataFrame(curve).to_csv(folder / "learning_curve.csv", index=False)
    for name, content in {"candidates": entries, "data": data, "question": question}.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    return folder
