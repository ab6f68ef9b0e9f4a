"""Export to ONNX: a graph, its vocabulary, and a README with code that answers problems."""

from __future__ import annotations

import json
from pathlib import Path

from calcgpt.checkpoint import CARD, TOKENIZER, Checkpoint, check_replaceable, model_card
from calcgpt.export.hf import EXAMPLE_PROMPT
from calcgpt.inference.onnx import GRAPH, check, require_onnx, to_onnx
from datagen.files import new_folder, write_bytes, write_text

USE = '''
## Use

`model.onnx` is the decoder of the checkpoint `{name}` of CalcGPT with its key/value cache as inputs
and outputs, written by `calcgpt export --to onnx`: one graph reads prompts and continues them. The
id of a token is its index in the `vocabulary` of `tokenizer.json`{tokens}.

| input | type | shape | |
|---|---|---|---|
| `tokens` | int64 | (B, T) | the next tokens |
| `past_tokens` | int64 | (B, P) | those before them |
| `past_k_0`, `past_v_0`, ... | float32 | (B, {G}, P, {D}) | their keys and values, by layer |

| output | type | shape | |
|---|---|---|---|
| `logits` | float32 | (B, T, {V}) | of what follows each of `tokens` |
| `present_tokens` | int64 | (B, P + T) | the next `past_tokens` |
| `present_k_0`, `present_v_0`, ... | float32 | (B, {G}, P + T, {D}) | the next `past_k_0`, ... |

Keys and values of the {L} layers alternate. B sequences, T new tokens and P past tokens are
variable; P is 0 at first. P + T is at most {context}, which the graph does not check. Greedy
decoding with onnxruntime and NumPy, in this folder:

```python
import json
import numpy as np
import onnxruntime

STOP = {stop!r}
vocabulary = json.load(open("tokenizer.json", encoding="utf-8"))["vocabulary"]
session = onnxruntime.InferenceSession("model.onnx")
names = [part.name for part in session.get_inputs()]

def complete(prompts):
    """Continues each prompt {end}; prompts of one length."""
    tokens = np.array([[vocabulary.index(t) for t in prompt] for prompt in prompts], np.int64)
    past = [tokens[:, :0]] + 2 * {L} * [np.zeros((len(prompts), {G}, 0, {D}), np.float32)]
    outputs = [[] for _ in prompts]
    while past[0].shape[1] + tokens.shape[1] <= {context} and not all(STOP in o for o in outputs):
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
LONG_TOKENS = """: a token may be
longer than a character, and is written as GPT-2 writes it, each byte as one visible character; a
prompt is a list of them"""


def export_onnx(checkpoint: Checkpoint, out: Path, force: bool) -> str:
    """Writes model.onnx, tokenizer.json and README.md; see `calcgpt.export.Exporter`."""
    require_onnx("export to onnx", "onnxruntime", "onnx", "onnxscript")
    check_replaceable(out, force, GRAPH, TOKENIZER)
    with new_folder(out) as staging:
        write_bytes(staging / GRAPH, to_onnx(checkpoint.model).SerializeToString())
        check(checkpoint.model, (staging / GRAPH).read_bytes())
        write_text(staging / TOKENIZER, checkpoint.tokenizer.to_json())
        write_text(staging / CARD, onnx_card(out.name, checkpoint))
    return "an ONNX graph with a key/value cache"


def onnx_card(folder: str, checkpoint: Checkpoint) -> str:
    """Returns the README in Markdown.

    Its one block of Python, run in the folder, defines `complete`, which does the same as
    `calcgpt.inference.generate` at temperature 0, and prints its output for one prompt.
    """
    config, tokenizer = checkpoint.model.config, checkpoint.tokenizer
    vocabulary = json.loads(tokenizer.to_json())["vocabulary"]
    solves = tokenizer.is_notation(EXAMPLE_PROMPT)
    card = model_card(folder, checkpoint.recipe, checkpoint.metrics, "of the checkpoint")
    return card + USE.format(
        name=checkpoint.name,
        tokens="" if tokenizer.is_char_level else LONG_TOKENS,
        L=config.n_layer,
        G=config.kv_heads,
        D=config.head_dim,
        V=len(tokenizer),
        context=config.block_size,
        stop="$" if solves else None,
        end="up to and including `$`" if solves else "to the end of the context",
        # A model of other text than problems continues any token.
        prompt=EXAMPLE_PROMPT if solves else [vocabulary[0]],
    )
