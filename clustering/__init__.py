"""Clustering of vectors: k-means, the number of clusters, scores against labels, and what a cluster is about."""
