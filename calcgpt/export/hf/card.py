"""The README of an export: the checkpoint's card, and how to use it with `transformers`."""

from __future__ import annotations

from calcgpt.checkpoint import Checkpoint
from calcgpt.errors import DataError
from calcgpt.export.hf.tokenizer import stop_id
from calcgpt.model_card import model_card
from datagen.arithmetic import Number, Operation, Problem
from datagen.notation import render_prompt

PROBLEM = render_prompt(Problem(Number(1250, True), Operation("*"), Number(300, False)))

HEADER = """\
---
library_name: transformers
pipeline_tag: text-generation
---

"""
USE = """
## Use

This folder is the checkpoint `{checkpoint}` of CalcGPT as a `{name}`, written by
`calcgpt export --to hf`. It needs `transformers`, and no code but that:

```python
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("{folder}")
model = AutoModelForCausalLM.from_pretrained("{folder}")
prompt = tokenizer({prompt!r}, return_tensors="pt")
print(tokenizer.decode(model.generate(**prompt)[0]))
```

Decoding is greedy, up to the {end}.
"""
CHARACTERS = """\
A character that is not in the vocabulary is an error ("Missing [UNK] token"): the model knows no
token for it.
"""


def card(checkpoint: Checkpoint, folder: str, name: str) -> str:
    """Markdown with the header that model hubs read; `name` is that of the class."""
    tokenizer = checkpoint.tokenizer
    written = model_card(folder, checkpoint.recipe, checkpoint.metrics)
    written = written.replace("beside this file", "of the checkpoint")  # this config is another
    use = USE.format(
        checkpoint=checkpoint.name,
        name=name,
        folder=folder,
        prompt=_prompt(checkpoint),
        end="end of the context" if stop_id(tokenizer) is None else "closing `$`",
    )
    return HEADER + written + use + (CHARACTERS if tokenizer.one_a_character else "")


def _prompt(checkpoint: Checkpoint) -> str:
    """A text that the model can go on from."""
    tokenizer, room = checkpoint.tokenizer, checkpoint.model.config.block_size
    try:
        fits = len(tokenizer.encode(PROBLEM)) <= room
    except DataError:  # trained on other text than problems
        fits = False
    return PROBLEM if fits else tokenizer.decode([0])
