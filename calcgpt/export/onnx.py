"""The README of an ONNX export: its inputs and outputs, and a loop that answers with it."""

from __future__ import annotations

import json
from pathlib import Path

from calcgpt.checkpoint import CARD, TOKENIZER, Checkpoint, model_card
from calcgpt.export.target import new_export
from calcgpt.inference.onnx_graph import GRAPH, check, require, to_onnx
from datagen.arithmetic import Number, Operation, Problem
from datagen.files import write_bytes, write_text
from datagen.notation import render_prompt

PROBLEM = render_prompt(Problem(Number(1250, True), Operation("*"), Number(300, False)))

USE = '''
## Use

`model.onnx` is the decoder of the checkpoint `{name}` of CalcGPT with its key/value cache as inputs
and outputs, written by `calcgpt export --to onnx`: one graph reads prompts and goes on from them.
The id of a token is its place in the `vocabulary` of `tokenizer.json`{tokens}.

| input | type | shape | |
|---|---|---|---|
| `tokens` | int64 | (B, T) | the next tokens |
| `past_tokens` | int64 | (B, P) | those before them |
| `past_k_0`, `past_v_0`, ... | float32 | (B, {G}, P, {D}) | their keys and values, by layers |

| output | type | shape | |
|---|---|---|---|
| `logits` | float32 | (B, T, {V}) | over what follows each of `tokens` |
| `present_tokens` | int64 | (B, P + T) | the next `past_tokens` |
| `present_k_0`, `present_v_0`, ... | float32 | (B, {G}, P + T, {D}) | the next `past_k_0`, ... |

Keys and values of the {L} layers alternate. B sequences, T new tokens and P before them are free; P
is 0 at first. P + T is at most {room}, which the graph does not check. Greedy decoding with
onnxruntime and NumPy, in this folder:

```python
import json
import numpy as np
import onnxruntime

STOP = {stop!r}
vocabulary = json.load(open("tokenizer.json", encoding="utf-8"))["vocabulary"]
session = onnxruntime.InferenceSession("model.onnx")
names = [part.name for part in session.get_inputs()]

def complete(prompts):
    """What follows each prompt, {end}; prompts of one length."""
    tokens = np.array([[vocabulary.index(t) for t in prompt] for prompt in prompts], np.int64)
    past = [tokens[:, :0]] + 2 * {L} * [np.zeros((len(prompts), {G}, 0, {D}), np.float32)]
    outputs = [[] for _ in prompts]
    while past[0].shape[1] + tokens.shape[1] <= {room} and not all(STOP in o for o in outputs):
        inputs = zip(names, [tokens, *past])
        logits, *past = session.run(None, dict(inputs))
        tokens = logits[:, -1:].argmax(axis=2)
        for output, token in zip(outputs, tokens[:, 0]):
            if STOP not in output:
                output.append(vocabulary[token])
    return ["".join(output) for output in outputs]

print(complete([{prompt!r}]))
```
'''
PIECES = """: a token may be
longer than a character, and is written as GPT-2 writes it, each byte as one visible character; a
prompt is a list of them"""


def onnx_card(folder: str, checkpoint: Checkpoint) -> str:
    """Markdown. Its one block of Python, run in the folder, defines `complete`, which does what
    `calcgpt.inference.generate` does at temperature 0, and shows it on one prompt."""
    config, tokenizer = checkpoint.model.config, checkpoint.tokenizer
    vocabulary = json.loads(tokenizer.to_json())["vocabulary"]
    solves = tokenizer.one_a_character and set(PROBLEM) <= set(vocabulary)
    card = model_card(folder, checkpoint.recipe, checkpoint.metrics)
    card = card.replace("beside this file", "of the checkpoint")  # which this folder has not
    return card + USE.format(
        name=checkpoint.name,
        tokens="" if tokenizer.one_a_character else PIECES,
        L=config.n_layer,
        G=config.kv_heads,
        D=config.head_dim,
        V=len(tokenizer),
        room=config.block_size,
        stop="$" if solves else None,
        end="up to and including `$`" if solves else "up to the end of the context",
        # A model of other text than problems goes on from any token.
        prompt=PROBLEM if solves else [vocabulary[0]],
    )


def export_onnx(checkpoint: Checkpoint, out: Path, force: bool) -> str:
    """model.onnx, tokenizer.json, and a README.md that says how to run them; see `Exporter`."""
    require("onnxruntime", "onnx", "onnxscript")
    with new_export(out, force, GRAPH) as staging:
        write_bytes(staging / GRAPH, to_onnx(checkpoint.model).SerializeToString())
        check(checkpoint.model, (staging / GRAPH).read_bytes())
        write_text(staging / TOKENIZER, checkpoint.tokenizer.to_json())
        write_text(staging / CARD, onnx_card(out.name, checkpoint))
    return "an ONNX graph with a key/value cache"
