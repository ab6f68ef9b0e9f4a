"""The model card of an export to `transformers`, with the header that model hubs read."""

from __future__ import annotations

import json
from typing import Any

from calcgpt.checkpoint import Checkpoint, model_card
from calcgpt.errors import DataError
from datagen.arithmetic import Number, Operation, Problem
from datagen.notation import render_prompt

EXAMPLE_PROMPT = render_prompt(Problem(Number(125, 1), Operation("*"), Number(3)))
SCORES = {"exact_match": "exact match", "char_accuracy": "character accuracy"}
SPLITS = {"validation": "validation problems", "test": "test problems"}

USE = """
## Use

This folder is the checkpoint `{checkpoint}` of CalcGPT as a `{name}`, written by
`calcgpt export --to hf`. It needs {needs}:

```python
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("{folder}"{trust})
model = AutoModelForCausalLM.from_pretrained("{folder}"{trust})
prompt = tokenizer({prompt!r}, return_tensors="pt")
print(tokenizer.decode(model.generate(**prompt)[0]))
```

Decoding is greedy, up to the {end}.
"""
UNKNOWN_CHARACTERS = """\
A character that is not in the vocabulary is an error ("Missing [UNK] token"): the model has no
token for it.
"""
INTENDED = """
## Intended use and limits

The model continues a problem in the notation of CalcGPT: `$(`, two numbers padded with zeros to ten
characters with an operation between them, and `)=`. {work}It writes the digits of the answer lowest
first, and then `$`. It is made for learning and research: for work on how transformers calculate.
It understands no other text. Its answers can be wrong, so check them by exact arithmetic before you
rely on them. {domain}

## Training data

The model saw only problems that a program made, with exact answers: {data}. No problem of the
validation and test sets was among them. There is no text of people in the data.
"""


def hf_card(
    checkpoint: Checkpoint, folder: str, name: str, has_end: bool, custom_code: bool
) -> str:
    """Returns the README in Markdown. `name` is that of the class in `transformers`; `has_end` says
    whether a `$` ends a text."""
    tokenizer = checkpoint.tokenizer
    is_arithmetic = has_end and _knows_the_notation(checkpoint)
    use = USE.format(
        checkpoint=checkpoint.name,
        name=name,
        folder=folder,
        prompt=_prompt(checkpoint),
        needs="`transformers`, and the code in this folder, which it runs if you trust it"
        if custom_code
        else "`transformers` and no other code",
        trust=", trust_remote_code=True" if custom_code else "",
        end="closing `$`" if has_end else "end of the context",
    )
    unknown = UNKNOWN_CHARACTERS if tokenizer.one_a_character else ""
    card = model_card(folder, checkpoint.recipe, checkpoint.metrics, "of the checkpoint")
    intended = _intended(checkpoint) if is_arithmetic else ""
    return _header(checkpoint, is_arithmetic) + card + use + unknown + intended


def _header(checkpoint: Checkpoint, is_arithmetic: bool) -> str:
    """Returns the metadata as YAML, of which JSON is a part."""
    data: dict[str, Any] = {
        "license": "mit",
        "library_name": "transformers",
        "pipeline_tag": "text-generation",
        "tags": ["calcgpt", *(["arithmetic"] if is_arithmetic else [])],
    }
    if results := [
        {
            "task": {"type": "text-generation"},
            "dataset": {"name": f"CalcGPT, {label}", "type": "calcgpt", "split": split},
            "metrics": [
                {"type": key, "name": f"{name}, greedy", "value": checkpoint.metrics[split][key]}
                for key, name in SCORES.items()
            ],
        }
        for split, label in SPLITS.items()
        if split in checkpoint.metrics
    ]:
        data["model-index"] = [{"name": checkpoint.name, "results": results}]
    lines = [f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in data.items()]
    return "\n".join(["---", *lines, "---", "", ""])


def _intended(checkpoint: Checkpoint) -> str:
    recipe, domain = checkpoint.recipe, checkpoint.domain
    works = recipe.any_width or recipe.work_digits is not None
    limits = (
        f"It was measured for numbers of up to {domain.digits} digits (divisors "
        f"{domain.divisor_digits or domain.digits}) and {domain.places} places."
        if domain
        else "It was measured on the problems of the table above."
    )
    mixture = recipe.data.mixture if recipe.data else {}
    parts = [f"{share:.0%} of the distribution `{name}`" for name, share in mixture.items()]
    return INTENDED.format(
        work="It writes its worked steps first. " if works else "",
        domain=limits,
        data=", ".join(parts) or "those of the data set that `metrics.json` names",
    )


def _knows_the_notation(checkpoint: Checkpoint) -> bool:
    try:
        checkpoint.tokenizer.encode(EXAMPLE_PROMPT)
    except DataError:  # a vocabulary of another text than problems
        return False
    return True


def _prompt(checkpoint: Checkpoint) -> str:
    """Returns a text that the model can continue."""
    tokenizer, block_size = checkpoint.tokenizer, checkpoint.model.config.block_size
    fits = _knows_the_notation(checkpoint) and len(tokenizer.encode(EXAMPLE_PROMPT)) <= block_size
    return EXAMPLE_PROMPT if fits else tokenizer.decode([0])
