"""Answers from a trained model: decoding, engines, expressions, the calculator."""
