"""Second views of texts: `augment=` source, wordnet, eda, embedding, dropout, none."""
