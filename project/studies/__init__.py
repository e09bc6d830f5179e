"""Several runs as one question: the same config with other seeds, folds or settings."""
