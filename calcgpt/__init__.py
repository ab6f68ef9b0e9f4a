"""CalcGPT: a calculator whose answers come from a small GPT trained from scratch."""
