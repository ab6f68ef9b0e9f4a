"""Both engines write the same text; `auto` falls back to torch."""

import dataclasses
import re
import sys
from collections.abc import Callable

import numpy as np
import pytest
from calcgpt.inference.native import machine_code

from calcgpt.checkpoint import Checkpoint
from calcgpt.errors import CheckpointError, ConfigError, UserError
from calcgpt.inference.engines import AUTO, ENGINES, load_decoder
from calcgpt.inference.generate import Decoder, generate
from datagen.extras import install_line

PROBLEMS = [
    "$(0000000012+0000000034)=",
    "$(-000000.99*99999999.9)=",
    "$(0000000000/0000000007)=",
    "$(-999999999--000000001)=",
]


def written(
    decoder: Decoder, checkpoint: Checkpoint, prompts: list[str], stop: int, n: int | None = None
) -> list[list[int]]:
    prompts_BP = np.array([checkpoint.tokenizer.encode(prompt) for prompt in prompts], np.int64)
    return [output.ids for output in generate(decoder, prompts_BP, stop, max_new_tokens=n)]


@pytest.mark.parametrize("engine", [AUTO, *ENGINES])
def test_all_engines_write_the_same_alone_and_in_a_batch(engine: str, tiny: Checkpoint) -> None:
    stop = int(tiny.tokenizer.encode("$")[0])
    expected = written(tiny.model, tiny, PROBLEMS, stop)
    assert len(set(map(tuple, expected))) > 1
    name, decoder = load_decoder(tiny, engine)
    assert name == ("native" if engine == AUTO else engine)
    assert written(decoder, tiny, PROBLEMS, stop) == expected
    assert [written(decoder, tiny, [problem], stop)[0] for problem in PROBLEMS] == expected
    whole = written(tiny.model, tiny, PROBLEMS, -1)
    for n in (0, 1, 3):
        assert written(decoder, tiny, PROBLEMS, -1, n) == [ids[:n] for ids in whole]


def test_a_model_that_native_lacks_is_decoded_by_torch(
    variant: Callable[..., Checkpoint], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    changed = variant(attention="landmark")
    assert load_decoder(changed) == ("torch", changed.model)
    reason = "engine 'native' does not support attention 'landmark': use 'torch'"
    assert f"tiny decodes with torch, which is slower: {reason}" in caplog.text
    with pytest.raises(ConfigError, match=reason):
        load_decoder(changed, "native")


def test_without_numba_torch_decodes(tiny: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "llvmlite", None)  # importing it raises
    machine_code.load_decode.cache_clear()
    assert load_decoder(tiny) == ("torch", tiny.model)
    reason = f"engine 'native' needs llvmlite: {install_line('llvmlite')}"
    with pytest.raises(UserError, match=re.escape(reason)):
        load_decoder(tiny, "native")


def test_damaged_weights_are_not_blamed_on_a_missing_engine(tiny: Checkpoint) -> None:
    name, *_ = tiny.arrays
    arrays = {other: array for other, array in tiny.arrays.items() if other != name}
    damaged = dataclasses.replace(tiny, arrays=arrays)
    with pytest.raises(CheckpointError, match=f"^{tiny.name}: tensor '{name}' is missing"):
        load_decoder(damaged)  # not what torch says of it


def test_an_unknown_engine_lists_the_valid_names(tiny: Checkpoint) -> None:
    with pytest.raises(ConfigError) as caught:
        load_decoder(tiny, "tensorflow")
    assert str(caught.value) == "unknown engine 'tensorflow'; valid names: auto, native, torch"
