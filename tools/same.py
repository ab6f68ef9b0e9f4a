"""Whether another engine writes the same as torch, and is as sure.

    python -m tools.same [--checkpoint NAME] [--engine native|page] [--n N] [--json FILE]

Both answer N problems of each distribution, with the same weights: of 16 bits, if the engine is the
page's, which runs in Node. Torch reads in one pass what the engine wrote, and decodes what it does
not certainly write itself (`calcgpt.inference.drafts`). For the first problems of each
distribution, both are also compared with torch in double precision, which shows what is rounding.
"""

import copy
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from benchmarks.measure import environment, parser, positive, run, write
from calcgpt.checkpoint import Checkpoint
from calcgpt.data.tokenizer import CharTokenizer
from calcgpt.inference.browser import cast_weights, weights_file, widened
from calcgpt.inference.drafts import confirm
from calcgpt.inference.engines import load_decoder
from calcgpt.inference.generate import Completion, complete
from calcgpt.model.base import LanguageModel
from calcgpt.registry import resolve
from datagen.distributions import DISTRIBUTIONS
from datagen.formats import renderer
from datagen.sampling import bit_generator
from tools.node import in_node

ROUND = 1_000  # problems of each distribution that `same` reads before it goes on to the next
IN_DOUBLE = 200  # problems of each distribution that are also answered in double precision
IN_PAGE = """async ({ file, prompts }, read) => {
    const { readWeights } = await import("/static/engine/weights.js");
    const { Decoder } = await import("/static/engine/decoder.js");
    const { generate } = await import("/static/engine/generate.js");
    const weights = readWeights(read(file));
    const decoder = new Decoder(weights);
    return prompts.map((prompt) => [...generate(decoder, weights.manifest.vocabulary, prompt)]);
}"""


def same(reference: str, engine: str, n: int, save: Callable[[dict[str, Any]], None]) -> None:
    """Counts how often an engine writes another text than torch, by distribution.

    Reads problems in rounds of some of each distribution. Saves the results so far after each part
    of a round, so that a long run may be ended at any time.
    """
    checkpoint = Checkpoint.load(resolve(reference))
    tokenizer = checkpoint.tokenizer.require_characters()
    stop, data = int(tokenizer.encode("$")[0]), checkpoint.recipe.data
    if engine == "page":
        answer = partial(completions_by_page, checkpoint)
        checkpoint = replace(checkpoint, arrays=widened(cast_weights(checkpoint, 16)))
    else:
        _, decoder = load_decoder(checkpoint, engine)
        answer = partial(complete, decoder, tokenizer, stop_token=stop)
    model, double = checkpoint.model, copy.deepcopy(checkpoint.model).double()
    render_lines = renderer(data.format if data else "direct")
    prompts = {}
    for name, draw in DISTRIBUTIONS.items():
        [problems] = draw(bit_generator(0, 0, 0), n, batch_size=n)
        lines = render_lines(problems).decode().splitlines()
        prompts[name] = [line[: line.index("=") + 1] for line in lines]
    comparisons = {name: Comparison() for name in prompts}
    parts = [(first, name) for first in range(0, n, ROUND) for name in prompts]
    for first, name in tqdm(parts, desc=checkpoint.name, disable=None):
        texts = prompts[name][first : first + ROUND]
        by_engine = answer(texts)
        by_torch = completions_by_torch(model, tokenizer, texts, by_engine, stop)
        comparisons[name].add(by_torch, by_engine)
        if first == 0:
            first_texts = texts[:IN_DOUBLE]
            exact = completions_by_torch(
                double, tokenizer, first_texts, by_engine[:IN_DOUBLE], stop
            )
            comparisons[name].add_double(exact, by_torch, by_engine)
        save({name: comparison.record for name, comparison in comparisons.items() if comparison.n})
    for name, comparison in comparisons.items():
        print(checkpoint.name, name, comparison.record)


def completions_by_page(checkpoint: Checkpoint, prompts: list[str]) -> list[Completion]:
    """Returns what the page's engine writes after each prompt, with weights of 16 bits."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.safetensors"
        file.write_bytes(weights_file(checkpoint))
        written = in_node(IN_PAGE, {"file": str(file), "prompts": prompts})
    return [
        Completion(
            checkpoint.tokenizer.encode("".join(token["text"] for token in text)).tolist(),
            [token["probability"] for token in text],
        )
        for text in written
    ]


def completions_by_torch(
    model: LanguageModel,
    tokenizer: CharTokenizer,
    prompts: list[str],
    drafts: list[Completion],
    stop: int,
) -> list[Completion]:
    """Returns what torch writes after each prompt. It reads the drafts in one pass, and decodes
    where it does not certainly write the draft."""
    texts = [tokenizer.decode(draft.ids) for draft in drafts]
    completions = {
        draft.row: Completion(draft.ids, draft.probabilities)
        for part in confirm(model, tokenizer, prompts, texts)
        for draft in part
        if draft.is_whole
    }
    others = [row for row in range(len(prompts)) if row not in completions]
    decoded = complete(model, tokenizer, [prompts[row] for row in others], stop)
    completions |= zip(others, decoded, strict=True)
    return [completions[row] for row in range(len(prompts))]


@dataclass
class Comparison:
    """What an engine and torch write and how sure they are, for one distribution."""

    n: int = 0
    other_texts: int = 0
    largest: float = 0.0  # difference of the probabilities of a token
    rounding: dict[str, float] = field(default_factory=lambda: {"torch": 0.0, "engine": 0.0})

    def add(self, by_torch: list[Completion], by_engine: list[Completion]) -> None:
        """Compares the completions of some problems."""
        for expected, actual in zip(by_torch, by_engine, strict=True):
            self.n += 1
            self.other_texts += expected.ids != actual.ids
            self.largest = max(self.largest, difference(expected, actual))

    def add_double(
        self, exact: list[Completion], by_torch: list[Completion], by_engine: list[Completion]
    ) -> None:
        """Compares the completions of the first problems with those in double precision."""
        for name, rows in (("torch", by_torch), ("engine", by_engine)):
            largest = max(difference(*pair) for pair in zip(exact, rows, strict=False))
            self.rounding[name] = max(self.rounding[name], largest)

    @property
    def record(self) -> dict[str, Any]:
        """What the results file holds."""
        return {
            "n": self.n,
            "other_texts": self.other_texts,
            "largest_difference": self.largest,
            "largest_difference_from_double": self.rounding,
        }


def difference(expected: Completion, actual: Completion) -> float:
    """Returns the largest difference of the probabilities of a text that both wrote, else 0."""
    if expected.ids != actual.ids:
        return 0.0
    pairs = zip(expected.probabilities, actual.probabilities, strict=True)
    return max((abs(p - q) for p, q in pairs), default=0.0)


def main() -> None:
    options = parser("Compare what another engine and torch write.")
    options.add_argument("--checkpoint", default="best")
    options.add_argument("--engine", choices=("native", "page"), default="native")
    options.add_argument("--n", type=positive, default=1_000, help="problems of each distribution")
    options.set_defaults(threads=1)
    arguments = options.parse_args()
    torch.set_num_threads(arguments.threads)
    packages = environment(torch.device("cpu"), "numba", "numpy")

    def save(results: dict[str, Any]) -> None:
        known = {"environment": packages, "engine": arguments.engine}
        write(arguments.json, {**known, arguments.checkpoint: results})

    same(arguments.checkpoint, arguments.engine, arguments.n, save)


if __name__ == "__main__":
    run(main)
