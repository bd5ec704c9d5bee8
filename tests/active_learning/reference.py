"""Each strategy as its paper prints it: float64, one text at a time, nothing factorised."""

import math

import numpy as np


def entropy(p):
    return -sum(x * math.log(x) for x in p if x > 0)


def least_confidence(p):
    return 1 - max(p)


def margin(p):
    first, second = sorted(p, reverse=True)[:2]
    return -(first - second)


def bald(passes):
    return entropy([sum(column) / len(passes) for column in zip(*passes, strict=True)]) - sum(
        map(entropy, passes)
    ) / len(passes)


def divergence(p, q):
    return sum(x * math.log(x / y) for x, y in zip(p, q, strict=True) if x > 0)


def coreset(x, labelled, unlabelled, count):
    """Sener & Savarese, algorithm 1."""
    known, chosen, scores = list(labelled), [], []
    for _ in range(count):
        nearest = {u: min(np.linalg.norm(x[u] - x[k]) for k in known) for u in unlabelled if u not in chosen}
        best = max(nearest, key=nearest.get)
        chosen.append(best)
        scores.append(nearest[best])
        known.append(best)
    return chosen, scores


def badge(p, h, unlabelled, count, rng):
    """Ash et al., algorithm 1, with the whole gradient embeddings and the same draws."""
    gradients = []
    for u in unlabelled:
        a = p[u].copy()
        a[p[u].argmax()] -= 1
        gradients.append(np.outer(a, h[u]).ravel())
    lengths = [g @ g for g in gradients]
    chosen, scores = [int(np.argmax(lengths))], [max(lengths)]
    while len(chosen) < count:
        distances = [min(((g - gradients[c]) ** 2).sum() for c in chosen) for g in gradients]
        for c in chosen:
            distances[c] = 0.0
        target = rng.random() * sum(distances)
        pick = next(i for i in range(len(distances)) if sum(distances[: i + 1]) > target)
        chosen.append(pick)
        scores.append(distances[pick])
    return [unlabelled[c] for c in chosen], scores


def cal(p, h, labelled, u, neighbours):
    """Margatina et al., algorithm 1: the score of one text."""
    nearest = sorted(labelled, key=lambda k: np.linalg.norm(h[u] - h[k]))[:neighbours]
    return sum(divergence(p[k], p[u]) for k in nearest) / len(nearest)


def nearest_centre(x, rows, centres):
    distances = [[np.linalg.norm(x[row] - centre) for centre in centres] for row in rows]
    return [int(np.argmin(d)) for d in distances], [min(d) for d in distances]


def best_of_each(clusters, scores):
    """{cluster: position of its highest score}."""
    return {c: max((i for i, own in enumerate(clusters) if own == c), key=lambda i: scores[i]) for c in set(clusters)}


def typiclust(x, clusters, unlabelled, labelled, count, neighbours=20, smallest=5):
    """Hacohen et al., as their code orders clusters; `clusters` {text: cluster} of the whole pool."""
    every = set(clusters.values())
    size = {c: sum(own == c for own in clusters.values()) for c in every}
    known = {c: sum(clusters[k] == c for k in labelled) for c in every}
    order = sorted((c for c in every if size[c] >= smallest), key=lambda c: (known[c], -size[c]))
    chosen, turn = [], 0
    while len(chosen) < count:
        c = order[turn % len(order)]
        turn += 1
        members = [u for u in unlabelled if clusters[u] == c and u not in chosen]
        if not members:
            continue
        k = max(1, min(neighbours, len(members) // 2))
        best, best_typicality = None, -1
        for u in members:
            distances = sorted(np.linalg.norm(x[u] - x[v]) for v in members if v != u)[:k]
            typicality = 1 / (sum(distances) / len(distances) + 1e-5) if distances else 0
            if typicality > best_typicality:
                best, best_typicality = u, typicality
        chosen.append(best)
    return chosen


def probcover_counts(x, known, radius, pool):
    """How many uncovered texts each text's ball would cover."""
    covered = {v for v in pool for k in known if np.linalg.norm(x[v] - x[k]) < radius}
    return {u: sum(v not in covered and np.linalg.norm(x[u] - x[v]) < radius for v in pool) for u in pool}


def pure_radius(x, clusters, purity):
    """The largest of the distances between rows at which a share `purity` of the open balls is of one cluster."""
    n = len(x)
    distances = [[np.linalg.norm(x[i] - x[j]) for j in range(n)] for i in range(n)]
    best = 0.0
    for radius in sorted({distances[i][j] for i in range(n) for j in range(n)}):
        pure = sum(all(clusters[i] == clusters[j] for j in range(n) if distances[i][j] < radius) for i in range(n))
        if pure >= purity * n:
            best = radius
    return best
