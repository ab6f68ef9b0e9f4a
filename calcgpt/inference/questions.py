"""Questions to a model of a user's own task (`calcgpt_lab.data.task`)."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from calcgpt.base.errors import DataError
from calcgpt.checkpoint import Checkpoint
from calcgpt.inference.decoding import Decoder, Written
from calcgpt.inference.results import Confidence, confidence


class Reply(NamedTuple):
    """What a model wrote after a question. Nobody knows whether it is right."""

    question: str
    result: str | None  # what follows the last `=`, up to `$`; None if the text ends before
    work: str | None  # what stands before that
    confidence: Confidence


def is_of_task(checkpoint: Checkpoint) -> bool:
    """Whether a model learned lines of question and answer that are not in the notation."""
    recipe, tokenizer = checkpoint.recipe, checkpoint.tokenizer
    of_lines = recipe.tokenizer == "chars" and recipe.train.batches == "problems"
    return of_lines and not tokenizer.is_notation()


def ask(checkpoint: Checkpoint, decoder: Decoder, questions: Sequence[str]) -> list[Reply]:
    """Returns the reply to each question, without its `=`. Raises DataError for one that is empty,
    has a character that the model does not know, or fills its context."""
    prompts = [prompt_of(checkpoint, question) for question in questions]
    return list(map(reply_of, questions, decoder.complete(prompts)))


def prompt_of(checkpoint: Checkpoint, question: str) -> str:
    """Returns what the model continues. Raises what `ask` raises."""
    limit = max_characters(checkpoint)
    if not 1 <= len(question) <= limit:
        raise DataError(f"a question must have 1 to {limit} characters, not {len(question):,}")
    checkpoint.tokenizer.encode(question)  # raises for an unknown character
    return f"{question}="


def reply_of(question: str, written: Written) -> Reply:
    """Returns the reply that is in what the model wrote after `prompt_of`."""
    output = written.text
    work, equals, result = output.rpartition("=")
    sure = confidence(f"{question}=", output, written.probabilities)
    ended = result.removesuffix("$") if output.endswith("$") else None
    return Reply(question, ended, work if equals else None, sure)


def max_characters(checkpoint: Checkpoint) -> int:
    """Returns how long a question can be: beside it, there must be room for `=` and an answer."""
    return checkpoint.recipe.model.block_size - 1


def describe_task(checkpoint: Checkpoint) -> dict[str, Any]:
    """Returns what a model of a task can be asked, as JSON values: its characters, and questions
    from its validation problems, none if the training validated no problems."""
    characters = checkpoint.tokenizer.require_characters().vocabulary
    return {
        "examples": checkpoint.metrics.get("examples", []),
        "characters": "".join(sorted(set(characters) - set("=$"))),
        "max_characters": max_characters(checkpoint),
    }
