"""The commands, by what they are about: each is a thin wrapper around one function.

`calcgpt.cli` puts them together.
"""
