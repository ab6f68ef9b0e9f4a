"""Whether the engine `cases` writes the same as torch, and is as sure, and the page the same, too.

    python -m tools.same [--checkpoint NAME] [--n N] [--json FILE]

The engine answers N problems of each distribution. Torch reads each text in one pass, and would
write the same if each character is the one that it finds most probable. Probabilities of quotient
digits are not compared: the engine adds those of two neighbours. The page's engine runs in Node.
"""

from typing import Any

import numpy as np
import torch

from benchmarks.measure import environment, parser, positive, run, write
from calcgpt.base.progress import progress_bar
from calcgpt.checkpoint import WEIGHTS, Checkpoint
from calcgpt.inference.engines import load_decoder
from calcgpt.registry import resolve
from calcgpt_lab.model.base import LanguageModel
from datagen.distributions import DISTRIBUTIONS
from datagen.notation import render_prompt
from datagen.sampling import bit_generator
from datagen.slots import Kind
from tools.node import in_node

PAGE = """async ({ file, vocabulary, prompts }, read) => {
    const { readWeights } = await import("/static/engine/weights.js");
    const { Network } = await import("/static/engine/network.js");
    const { Memory, write } = await import("/static/engine/write.js");
    const memory = new Memory(new Network(readWeights(read(file)), []), vocabulary);
    return prompts.map((prompt) => [...write(memory, prompt)].map(({ text }) => text).join(""));
}"""


def main() -> None:
    options = parser("Compare what the engine `cases` and torch write.")
    options.add_argument("--checkpoint", default="best")
    options.add_argument("--n", type=positive, default=1_000, help="problems of each distribution")
    options.set_defaults(threads=1)
    arguments = options.parse_args()
    torch.set_num_threads(arguments.threads)
    checkpoint = Checkpoint.load(resolve(arguments.checkpoint))
    record: dict[str, Any] = {"environment": environment(torch.device("cpu"), "numpy")}
    record[arguments.checkpoint] = results = {}
    for name, draw in DISTRIBUTIONS.items():
        [problems] = draw(bit_generator(0, 0, 0), arguments.n, batch_size=arguments.n)
        prompts = [render_prompt(problem) for problem in problems.to_problems()]
        results[name] = compared(checkpoint, prompts, name)
        print(checkpoint.name, name, results[name], flush=True)
        write(arguments.json, record)


def compared(checkpoint: Checkpoint, prompts: list[str], name: str) -> dict[str, Any]:
    """Returns how many texts torch would write otherwise, and by how much probabilities differ."""
    tokenizer, model = checkpoint.tokenizer.require_characters(), checkpoint.model
    _, decoder = load_decoder(checkpoint, "cases")
    other, largest = 0, 0.0
    written = decoder.complete(prompts)
    with progress_bar(len(prompts), desc=name, leave=False) as bar:
        for prompt, (text, confidence) in zip(prompts, written, strict=True):
            ids = tokenizer.encode(prompt + text).astype(np.int64)
            start = len(prompt) - 1
            best, probabilities, kinds = by_torch(model, torch.from_numpy(ids))
            other += not np.array_equal(best[start:], ids[start + 1 :])
            difference = np.abs(probabilities[start:] - confidence)
            largest = max(largest, float(difference[kinds[start:] != Kind.QUOTIENT_DIGIT].max()))
            bar.update(1)
    asked = {"file": str(resolve(checkpoint.name) / WEIGHTS), "vocabulary": tokenizer.vocabulary}
    page = in_node(PAGE, asked | {"prompts": prompts})
    on_page = sum(mine.text != text for mine, text in zip(written, page, strict=True))
    return {
        "n": len(prompts),
        "other_texts": other,
        "other_texts_of_the_page": on_page,
        "largest_difference": largest,
    }


@torch.inference_mode()
def by_torch(model: LanguageModel, ids_T: torch.Tensor) -> tuple[np.ndarray, ...]:
    """Returns the best token after each token of a text but the last, the probability of the token
    that follows there, and the kind of its slot."""
    features = model.text_features(ids_T[None, :-1])
    assert features is not None  # the cases, which the engine looks up
    probabilities_TV = model(ids_T[None, :-1], features=features)[0].softmax(dim=1)
    chosen_T = probabilities_TV.gather(1, ids_T[1:, None])[:, 0]
    return probabilities_TV.argmax(dim=1).numpy(), chosen_T.numpy(), features[0, :, 0].numpy()


if __name__ == "__main__":
    run(main)
