"""Questions to a model of a user's own task (`calcgpt.data.task`)."""

from collections.abc import Sequence
from typing import NamedTuple

from calcgpt.checkpoint import Checkpoint
from calcgpt.errors import DataError
from calcgpt.inference.generate import Decoder, complete, stop_token
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
    tokenizer, limit = checkpoint.tokenizer, decoder.config.block_size - 1
    for question in questions:
        if not 1 <= len(question) <= limit:
            raise DataError(f"a question must have 1 to {limit} characters, not {len(question):,}")
        tokenizer.encode(question)  # raises for an unknown character
    prompts = [f"{question}=" for question in questions]
    replies = []
    completions = complete(decoder, tokenizer, prompts, stop_token(checkpoint))
    for question, prompt, completion in zip(questions, prompts, completions, strict=True):
        output = tokenizer.decode(completion.ids)
        work, equals, result = output.rpartition("=")
        sure = confidence(prompt, output, completion.probabilities)
        ended = result.removesuffix("$") if output.endswith("$") else None
        replies.append(Reply(question, ended, work if equals else None, sure))
    return replies
