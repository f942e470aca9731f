"""Networks: the bodies of each family, and the embeddings and heads that all families share."""
