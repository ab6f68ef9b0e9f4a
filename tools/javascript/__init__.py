"""Translates operations, and the reader and the planner of expressions, into JavaScript."""
