"""Problems answered per second: CalcGPT against transformers.

    python -m benchmarks.decode [--data FILE] [--checkpoint NAME] [--json FILE]

All decode the same prompts with the same weights, greedily and with a key/value cache, one at a
time and 256 at a time. CalcGPT decodes with torch and, on the CPU, with the native engine;
transformers with `generate`, and at its best: a loop by hand over its model, with a static
cache and, with --compile, compiled by torch. A checkpoint stops at `$`. The preset `llama` has
random weights and the size of `scratchpad`, and writes as many characters as worked steps have.
All must write the same before they are timed. They take turns, and medians are compared.

On the CPU, a contestant that only multiplies shows the floor: the products of the model's matrices
by NumPy, without attention or anything else.

With one thread, which is the default, times are those of the processor, without those of other
programs. With more threads, or on a GPU, they are those of the clock.
"""

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel, StaticCache

from benchmarks.measure import alternate, clock_of, environment, parser, run, show, summary, write
from calcgpt.checkpoint import Checkpoint
from calcgpt.config import ModelConfig
from calcgpt.data.problems import read_problems
from calcgpt.data.tokenizer import TOKENIZERS
from calcgpt.export.hf_classes import hf_class_of
from calcgpt.inference.generate import Decoder, generate
from calcgpt.inference.native.decoder import NativeDecoder
from calcgpt.model.gpt import LanguageModel, build_model
from calcgpt.recipe import load_preset
from calcgpt.registry import resolve

ANSWER = 11  # characters of an answer and its `$`
WORK = 75  # characters, about as many as `scratchpad` writes on average
SIZE_OF_SCRATCHPAD = {"n_layer": 4, "n_embd": 128, "n_head": 4, "block_size": 256}
PEER = "transformers"
FLOOR = "the products alone, NumPy"
BATCHES = {1: 2, 256: 256}  # batch size -> problems in a run
Answers = list[list[int]]
Answer = Callable[[torch.Tensor], Answers]  # prompts, (B, P) -> their completions


def by_calcgpt(model: Decoder, stop: int | None, length: int, prompts_BP: torch.Tensor) -> Answers:
    """Decodes with CalcGPT. Without a `stop`, uses an id that no token has."""
    never = -1
    completions = generate(model, prompts_BP.numpy(), never if stop is None else stop, length)
    return [completion.ids for completion in completions]


@torch.inference_mode()
def by_transformers(
    model: PreTrainedModel, stop: int | None, length: int, prompts_BP: torch.Tensor
) -> Answers:
    """Decodes with `generate` of transformers, and cuts off what follows the first `$`."""
    mask_BP = torch.ones_like(prompts_BP)
    written = model.generate(
        prompts_BP, attention_mask=mask_BP, max_new_tokens=length, do_sample=False
    )
    return until(stop, written[:, prompts_BP.size(1) :])


class ByHand:
    """Decodes with a model of transformers, a static cache and a loop of ours.

    The first step reads the prompts. All others have the same shapes, and may be compiled.
    """

    def __init__(self, model: PreTrainedModel, compiles: bool) -> None:
        self._model = model
        self._step = torch.compile(model, dynamic=False) if compiles else model
        self._caches: dict[int, StaticCache] = {}  # by batch size

    @torch.inference_mode()
    def __call__(self, stop: int | None, length: int, prompts_BP: torch.Tensor) -> Answers:
        batch, n_prompt = prompts_BP.shape
        if batch not in self._caches:
            self._caches[batch] = StaticCache(self._model.config, n_prompt + length)
        cache = self._caches[batch]
        cache.reset()
        tokens_BT, written = prompts_BP, []
        ended_B = torch.zeros(batch, dtype=torch.bool)
        for index in range(length):
            step = self._step if index else self._model
            first = n_prompt + index - tokens_BT.size(1)
            positions_T = torch.arange(first, first + tokens_BT.size(1))
            logits_BTV = step(
                tokens_BT, past_key_values=cache, position_ids=positions_T[None], use_cache=True
            ).logits
            tokens_BT = logits_BTV[:, -1:].argmax(dim=-1)
            written.append(tokens_BT)
            if stop is not None:
                ended_B |= tokens_BT[:, 0] == stop
                if ended_B.all():
                    break
        return until(stop, torch.cat(written, dim=1))


def until(stop: int | None, written_BT: torch.Tensor) -> Answers:
    """Returns what each row wrote up to its first `stop`."""
    answers: Answers = written_BT.tolist()
    if stop is None:
        return answers
    return [ids[: ids.index(stop) + 1] if stop in ids else ids for ids in answers]


def products(model: LanguageModel, length: int) -> Callable[[torch.Tensor], None]:
    """Returns a function that only multiplies: every matrix once for each token written."""
    matrices = [
        np.ascontiguousarray(parameter.detach().numpy().T)
        for name, parameter in model.named_parameters()
        if parameter.dim() == 2 and not name.startswith(("positions", "token_embedding"))
    ]

    def multiply(prompts_BP: torch.Tensor) -> None:
        inputs = {
            len(matrix): np.ones((len(prompts_BP), len(matrix)), np.float32) for matrix in matrices
        }
        for _ in range(length):
            for matrix in matrices:
                inputs[len(matrix)] @ matrix

    return multiply


def contestants(
    model: LanguageModel,
    stop: int | None,
    device: torch.device,
    length: int = ANSWER,
    compiles: bool = False,
) -> dict[str, Answer]:
    """Returns every way to decode with these weights."""
    _, hf_class = hf_class_of(model.config)
    hf_model = hf_class.build(model, bos_token_id=None, eos_token_id=stop, pad_token_id=0)
    hf_model = hf_model.to(device).eval()
    ways: dict[str, Answer] = {
        "calcgpt, torch": partial(by_calcgpt, model.to(device), stop, length),
        PEER: partial(by_transformers, hf_model, stop, length),
    }
    if device.type == "cpu":
        ways[f"{PEER}, by hand"] = partial(ByHand(hf_model, compiles=False), stop, length)
        if compiles:
            compiled = ByHand(hf_model, compiles=True)
            ways[f"{PEER}, by hand, compiled"] = partial(compiled, stop, length)
        tensors = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
        native = NativeDecoder(model.config, model.vocab_size, tensors)
        ways["calcgpt, native"] = partial(by_calcgpt, native, stop, length)
    return ways


def rate(answer: Callable[[torch.Tensor], Any], prompts_NP: torch.Tensor, batch: int) -> float:
    """Returns the number of problems answered per second: of the processor if one thread computes,
    else by the clock."""
    clock = clock_of(prompts_NP.device)
    start = clock()
    for first in range(0, len(prompts_NP), batch):
        answer(prompts_NP[first : first + batch])
    return len(prompts_NP) / (clock() - start)


def compare(
    model: LanguageModel,
    stop: int | None,
    prompts_NP: torch.Tensor,
    length: int,
    options: argparse.Namespace,
) -> dict[str, Any]:
    """Returns the results of one model by batch size."""
    ways = contestants(model, stop, prompts_NP.device, length, options.compile)
    results = {}
    for batch, problems in BATCHES.items():
        first = prompts_NP[:batch]
        expected = ways[PEER](first)
        for name, answer in ways.items():
            if answer(first) != expected:  # also the first use, which imports and compiles
                sys.exit(f"{name} does not write what {PEER} writes")
        timed = {
            name: partial(rate, answer, prompts_NP[:problems], batch)
            for name, answer in ways.items()
        }
        if prompts_NP.device.type == "cpu":
            timed[FLOOR] = partial(rate, products(model, length), prompts_NP[:problems], batch)
        results[f"batch {batch}"] = summary(alternate(timed, options.runs), PEER)
        written = sum(map(len, expected)) / len(expected)
        results[f"batch {batch}"]["tokens_per_problem"] = written
    return results


def main() -> None:
    """Runs the benchmark and prints its tables."""
    options = parser("Time decoding against transformers.", runs=9)
    options.add_argument("--data", type=Path, default=Path("data/blog/test.txt"))
    options.add_argument(
        "--checkpoint", default="blog", help="one that transformers has a class for"
    )
    options.add_argument("--compile", action="store_true", help="needs a C++ compiler")
    options.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options.set_defaults(threads=1)
    arguments = options.parse_args()
    torch.set_num_threads(arguments.threads)
    device = torch.device(arguments.device)
    packages = environment(device, "transformers", "numba", "numpy")
    checkpoint = Checkpoint.load(resolve(arguments.checkpoint))
    tokenizer = checkpoint.tokenizer
    lines = read_problems(arguments.data, max(BATCHES.values()))
    prompts = [tokenizer.encode(line.prompt).tolist() for line in lines]
    prompts_NP = torch.tensor(prompts, device=device)
    torch.manual_seed(0)
    config = ModelConfig(**{**load_preset("llama").model_dump(), **SIZE_OF_SCRATCHPAD})
    preset = build_model(config, len(TOKENIZERS["scratchpad"](""))).eval()
    stop = int(tokenizer.encode("$")[0])
    compared = {
        f"checkpoint {checkpoint.name}": compare(
            checkpoint.model, stop, prompts_NP, ANSWER, arguments
        ),
        "llama of the size of scratchpad": compare(preset, None, prompts_NP, WORK, arguments),
    }
    for model, by_batch in compared.items():
        for batch, results in by_batch.items():
            show(f"{model}, {batch}", results, "problems")
    write(arguments.json, {"environment": packages, "runs": arguments.runs, **compared})


if __name__ == "__main__":
    run(main)
