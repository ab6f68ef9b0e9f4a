"""Problems answered per second: CalcGPT against `generate` of transformers.

    python -m benchmarks.decode [--data FILE] [--checkpoint NAME] [--preset NAME] [--json FILE]

All decode the same prompts with the same weights, greedily and with a key/value cache, one at a
time and 256 at a time. CalcGPT decodes with torch and, on the CPU, also with onnxruntime. A
checkpoint stops at `$`; a preset has random weights and the blog's size, and writes as many
characters as an answer has. All must write the same before they are timed. They take turns, and
medians are compared.
"""

import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel

from benchmarks.measure import alternate, environment, parser, show, summary, write
from calcgpt.checkpoint import Checkpoint, resolve
from calcgpt.data.problems import read_problems
from calcgpt.data.tokenizer import TOKENIZERS
from calcgpt.export.hf_classes import hf_class_of
from calcgpt.inference.engines import OnnxDecoder, cached_graph
from calcgpt.inference.generate import Decoder, generate
from calcgpt.model.gpt import LanguageModel, build_model
from calcgpt.recipe import load_preset

ANSWER = 11  # characters of an answer and its `$`
PEER = "transformers"
Answers = list[list[int]]
Answer = Callable[[torch.Tensor], Answers]  # prompts, (B, P) -> what each was completed with


def by_calcgpt(model: Decoder, stop: int | None, prompts_BP: torch.Tensor) -> Answers:
    """Decodes with CalcGPT. Without a `stop`, an id that no token has stands in for it."""
    never = -1
    completions = generate(model, prompts_BP, never if stop is None else stop, ANSWER)
    return [completion.ids for completion in completions]


@torch.inference_mode()
def by_transformers(model: PreTrainedModel, stop: int | None, prompts_BP: torch.Tensor) -> Answers:
    """Decodes with `generate` of transformers, and cuts off what follows the first `$`."""
    mask_BP = torch.ones_like(prompts_BP)
    written = model.generate(
        prompts_BP, attention_mask=mask_BP, max_new_tokens=ANSWER, do_sample=False
    )
    answers: Answers = written[:, prompts_BP.size(1) :].tolist()
    if stop is None:
        return answers
    return [ids[: ids.index(stop) + 1] if stop in ids else ids for ids in answers]


def contestants(model: LanguageModel, stop: int | None, device: torch.device) -> dict[str, Answer]:
    """Returns every way to decode with these weights."""
    _, hf_class = hf_class_of(model.config)
    hf_model = hf_class.build(model, bos_token_id=None, eos_token_id=stop, pad_token_id=0)
    ways: dict[str, Answer] = {
        "calcgpt, torch": partial(by_calcgpt, model.to(device), stop),
        PEER: partial(by_transformers, hf_model.to(device), stop),
    }
    if device.type == "cpu":
        ways["calcgpt, onnxruntime"] = partial(
            by_calcgpt, OnnxDecoder(model, cached_graph(model)), stop
        )
    return ways


def rate(answer: Answer, prompts_NP: torch.Tensor, batch: int) -> float:
    """Returns the number of problems answered per second."""
    start = time.perf_counter()
    for first in range(0, len(prompts_NP), batch):
        answer(prompts_NP[first : first + batch])
    return len(prompts_NP) / (time.perf_counter() - start)


def compare(
    model: LanguageModel, stop: int | None, prompts_NP: torch.Tensor, runs: int
) -> dict[str, Any]:
    """Returns the figures of one model by batch size."""
    ways = contestants(model, stop, prompts_NP.device)
    first = prompts_NP[:256]
    expected = ways[PEER](first)
    for name, answer in ways.items():
        if answer(first) != expected:  # also the first use, which imports and compiles
            sys.exit(f"{name} does not write what {PEER} writes")
    figures = {}
    for batch, problems in ((1, 64), (256, 1_024)):
        timed = {
            name: partial(rate, answer, prompts_NP[:problems], batch)
            for name, answer in ways.items()
        }
        figures[f"batch {batch}"] = summary(alternate(timed, runs), PEER)
    return figures


def main() -> None:
    """Runs the benchmark and prints its tables."""
    options = parser("Time decoding against transformers.", runs=9)
    options.add_argument("--data", type=Path, default=Path("data/blog/test.txt"))
    options.add_argument(
        "--checkpoint", default="blog", help="one that transformers has a class for"
    )
    options.add_argument(
        "--preset", default="llama", help="another such model, with random weights"
    )
    options.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    arguments = options.parse_args()
    torch.set_num_threads(arguments.threads)
    device = torch.device(arguments.device)

    checkpoint = Checkpoint.load(resolve(arguments.checkpoint))
    tokenizer = checkpoint.tokenizer
    lines = read_problems(arguments.data, 1_024)
    prompts = [tokenizer.encode(line.prompt).tolist() for line in lines]
    prompts_NP = torch.tensor(prompts, device=device)
    torch.manual_seed(0)
    preset = build_model(load_preset(arguments.preset), len(TOKENIZERS["arithmetic"](""))).eval()
    stop = int(tokenizer.encode("$")[0])
    figures = {
        "environment": environment(device, "transformers", "onnxruntime"),
        "runs": arguments.runs,
        f"checkpoint {checkpoint.name}": compare(
            checkpoint.model, stop, prompts_NP, arguments.runs
        ),
        f"preset {arguments.preset}": compare(preset, None, prompts_NP, arguments.runs),
    }
    for model, batches in figures.items():
        if model.startswith(("checkpoint", "preset")):
            for batch, compared in batches.items():
                show(f"{model}, {batch}", compared, "problems")
    write(arguments.json, figures)


if __name__ == "__main__":
    main()
