"""Networks: the encoders and decoders of each family, and the embeddings and heads that all families share."""
