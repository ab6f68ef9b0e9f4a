"""Decoding with a model whose next character is a function of the case, without torch."""
