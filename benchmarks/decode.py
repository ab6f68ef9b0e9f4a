"""Problems answered per second: CalcGPT against transformers and llama.cpp, on the CPU.

    python -m benchmarks.decode [--data FILE] [--checkpoint NAME] [--json FILE]

All decode the same prompts with the same weights, greedily and with a key/value cache, one at a
time and 200 at a time. CalcGPT decodes with torch and with the native engine; transformers with
`generate`, and at its best: a loop by hand over its model, with a static cache, compiled by torch,
which needs a C++ compiler. A checkpoint stops at `$`. The preset `llama` has random weights and the
size of `scratchpad`, and writes as many characters as worked steps have. llama.cpp decodes it, too,
with its cache in f16, so some of its texts differ; all others must write the same before they are
timed. They take turns, and medians are compared.

With one thread, which is the default, times are those of the processor, without those of other
programs. With more threads, they are those of the clock.
"""

import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from calcgpt.inference.native.decoder import NativeDecoder
from transformers import PreTrainedModel, StaticCache

from benchmarks.decode_peer import FORMATS, LlamaCpp
from benchmarks.measure import alternate, clock_of, environment, parser, run, show, summary, write
from calcgpt.checkpoint import Checkpoint
from calcgpt.config import ModelConfig, Recipe
from calcgpt.data.problems import read_problems
from calcgpt.data.tokenizer import TOKENIZERS
from calcgpt.export.hf_classes import hf_class_of
from calcgpt.inference.generate import Decoder, generate
from calcgpt.model.base import LanguageModel
from calcgpt.model.gpt import build_model
from calcgpt.recipe import load_preset
from calcgpt.registry import resolve

ANSWER = 11  # characters of an answer and its `$`
WORK = 75  # characters, about as many as `scratchpad` writes on average
SIZE_OF_SCRATCHPAD = {"n_layer": 4, "n_embd": 128, "n_head": 4, "block_size": 256}
PEER = "transformers"
LLAMA_CPP = "llama.cpp, float32"
CPU = torch.device("cpu")
BATCHES = {1: 2, 200: 200}  # batch size -> problems in a run
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

    The first step reads the prompts. All others have the same shapes, and are compiled.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        self._model = model
        self._step = torch.compile(model, dynamic=False)
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


def contestants(model: LanguageModel, stop: int | None, length: int = ANSWER) -> dict[str, Answer]:
    """Returns every way to decode with these weights, but llama.cpp."""
    _, hf_class = hf_class_of(model.config)
    hf_model = hf_class.build(model, bos_token_id=None, eos_token_id=stop, pad_token_id=0).eval()
    tensors = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    native = NativeDecoder(model.config, model.vocab_size, tensors)
    return {
        PEER: partial(by_transformers, hf_model, stop, length),
        f"{PEER}, by hand, compiled": partial(ByHand(hf_model), stop, length),
        "calcgpt, torch": partial(by_calcgpt, model, stop, length),
        "calcgpt, native": partial(by_calcgpt, native, stop, length),
    }


def rate(answer: Answer, prompts_NP: torch.Tensor, batch: int) -> float:
    """Returns the number of problems answered per second: of the processor if one thread computes,
    else by the clock."""
    clock = clock_of(CPU)
    start = clock()
    for first in range(0, len(prompts_NP), batch):
        answer(prompts_NP[first : first + batch])
    return len(prompts_NP) / (clock() - start)


def compare(
    ways: Mapping[str, Answer], peer: str, prompts_NP: torch.Tensor, runs: int
) -> dict[str, Any]:
    """Returns the results of one model by batch size, with ratios to `peer`."""
    results = {}
    for batch, problems in BATCHES.items():
        first = prompts_NP[:batch]
        expected = ways[PEER](first)
        same = {  # also the first use, which imports and compiles
            name: sum(map(list.__eq__, answer(first), expected)) / batch
            for name, answer in ways.items()
        }
        for name, share in same.items():
            if share < 1 and not name.startswith("llama.cpp"):  # it rounds
                sys.exit(f"{name} does not write what {PEER} writes")
        timed = {
            name: partial(rate, answer, prompts_NP[:problems], batch)
            for name, answer in ways.items()
        }
        results[f"batch {batch}"] = summary(alternate(timed, runs), peer)
        n_token = sum(map(len, expected)) / len(expected)
        results[f"batch {batch}"] |= {"tokens_per_problem": n_token, "same": same}
    return results


def main() -> None:
    """Runs the benchmark and prints its tables."""
    options = parser("Time decoding against transformers and llama.cpp.", runs=9)
    options.add_argument("--data", type=Path, default=Path("data/blog/test.txt"))
    options.add_argument(
        "--checkpoint", default="blog", help="one that transformers has a class for"
    )
    options.set_defaults(threads=1)
    arguments = options.parse_args()
    torch.set_num_threads(arguments.threads)
    checkpoint = Checkpoint.load(resolve(arguments.checkpoint))
    tokenizer = checkpoint.tokenizer
    lines = read_problems(arguments.data, max(BATCHES.values()))
    prompts_NP = torch.tensor([tokenizer.encode(line.prompt).tolist() for line in lines])
    stop = int(tokenizer.encode("$")[0])
    torch.manual_seed(0)
    shape = {**load_preset("llama").model_dump(), **SIZE_OF_SCRATCHPAD}
    recipe = Recipe(model=ModelConfig(**shape))
    tokenizer = TOKENIZERS["scratchpad"]("")
    preset = build_model(recipe.model, len(tokenizer)).eval()
    llama = Checkpoint.from_model("llama", recipe, tokenizer, preset, {})
    by_llama_cpp = {
        f"llama.cpp, {kind}": partial(LlamaCpp(llama, kind, arguments.threads), WORK)
        for kind in FORMATS
    }
    packages = environment(CPU, "transformers", "llama-cpp-python", "numba", "numpy")
    ways = by_llama_cpp | contestants(preset, None, WORK)
    compared = {
        f"checkpoint {checkpoint.name}": compare(
            contestants(checkpoint.model, stop), PEER, prompts_NP, arguments.runs
        ),
        "llama of the size of scratchpad": compare(ways, LLAMA_CPP, prompts_NP, arguments.runs),
    }
    for model, by_batch in compared.items():
        for batch, results in by_batch.items():
            show(f"{model}, {batch}", results, "problems")
    write(arguments.json, {"environment": packages, "runs": arguments.runs, **compared})


if __name__ == "__main__":
    run(main)
