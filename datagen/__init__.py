"""Exact arithmetic problems by the million. Imports NumPy, but neither models nor torch."""
