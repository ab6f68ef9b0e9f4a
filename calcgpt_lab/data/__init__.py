"""Data to train on: tokenizers, problems, batches, and where they come from."""
