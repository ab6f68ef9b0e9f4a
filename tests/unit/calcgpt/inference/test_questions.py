"""Questions to a model of a user's own task."""

from dataclasses import replace

import pytest
from fake_decoder import completing_decoder, task_checkpoint

from calcgpt.base.errors import DataError, UserError
from calcgpt.inference.calculator import Calculator
from calcgpt.inference.questions import ask, is_of_task
from calcgpt_lab.data.tokenizers import arithmetic_tokenizer

WRITTEN = {"ab=": "b,a=ba$", "b=": "b$", "aaa=": "aaaaaaaaaa"}


def test_a_model_of_a_task_is_asked() -> None:
    checkpoint = task_checkpoint()
    assert is_of_task(checkpoint)
    assert not is_of_task(replace(checkpoint, tokenizer=arithmetic_tokenizer()))
    decoder = completing_decoder(checkpoint.tokenizer, WRITTEN.__getitem__)

    several, one, endless = ask(checkpoint, decoder, ["ab", "b", "aaa"])
    assert (several.result, several.work, one.result, one.work) == ("ba", "b,a", "b", None)
    assert one.confidence.whole > 0.99
    assert (endless.result, endless.confidence.whole) == (None, 0)
    for question in ("", "x", "a" * 600):
        with pytest.raises(DataError):
            ask(checkpoint, decoder, [question])
    with pytest.raises(UserError, match="`calcgpt calc` asks"):
        Calculator(checkpoint, decoder)
