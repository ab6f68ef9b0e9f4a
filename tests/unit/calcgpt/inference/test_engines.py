"""What runs a model, by name; `auto` falls back to torch."""

import pytest

from calcgpt.base.errors import ConfigError
from calcgpt.checkpoint import Checkpoint
from calcgpt.inference import engines
from calcgpt.inference.cases.decoder import CaseDecoder
from calcgpt.inference.engines import load_decoder
from calcgpt.registry import resolve


def test_a_model_of_another_form_is_run_by_torch(
    tiny: Checkpoint, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    name, decoder = load_decoder(tiny)
    assert (name, decoder.model) == ("torch", tiny.model)
    reason = "engine 'cases' does not support architecture 'gpt': use 'torch'"
    assert f"tiny is run by torch: {reason}" in caplog.text
    with pytest.raises(ConfigError, match=reason):
        load_decoder(tiny, "cases")


def test_a_model_without_a_part_may_come_to_what_is_no_case() -> None:
    checkpoint = Checkpoint.load(resolve("calculator"))
    for whole, strict in ((checkpoint, True), (checkpoint.without(["1.1"]), False)):
        _, decoder = load_decoder(whole)
        assert isinstance(decoder, CaseDecoder)
        assert decoder.strict == strict


def test_an_engine_of_a_package_gets_what_was_asked_for(
    tiny: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "extension", lambda group, name: lambda *given: (name, *given))
    assert load_decoder(tiny, "torch", 3, True) == ("torch", ("torch", tiny, 3, True))


def test_an_unknown_engine_lists_the_valid_names(tiny: Checkpoint) -> None:
    with pytest.raises(ConfigError) as caught:
        load_decoder(tiny, "tensorflow")
    assert str(caught.value) == "unknown engine 'tensorflow'; valid names: auto, cases, torch"
