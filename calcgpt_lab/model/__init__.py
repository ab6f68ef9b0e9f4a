"""The models. A config names each of their parts; a table beside the classes resolves the name."""
