"""CalcGPT: a calculator whose answers come from a small GPT trained from scratch."""

__version__ = "0.1.0"
