"""Arithmetic problems, exact and by the million; knows NumPy, and nothing of models."""
