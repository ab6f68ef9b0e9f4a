"""A signal within a validation, in this process. tests/e2e has signals to real processes."""

import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from small_runs import assert_same_state, rows, run

from calcgpt.checkpoint import Checkpoint
from calcgpt_lab.training import train as training_module
from calcgpt_lab.training.stopping import Interrupted, stop_requests

TIMES = {"seconds", "tokens_per_s"}


def without_times(out: Path) -> list[dict[str, float]]:
    return [{key: row[key] for key in row.keys() - TIMES} for row in rows(out)]


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_in_a_validation_stops_the_run_after_it_and_resuming_repeats_nothing(
    data: Path, tmp_path: Path, signum: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    overrides = ("train.ema_decay=0.9", "model.dropout=0.1")
    whole, out = run(data, tmp_path / "whole", *overrides), tmp_path / "cut"
    evaluate = training_module.evaluate

    def evaluate_and_signal(*arguments: Any) -> Any:
        signal.raise_signal(signum)
        return evaluate(*arguments)

    monkeypatch.setattr(training_module, "evaluate", evaluate_and_signal)
    with pytest.raises(Interrupted) as stop:
        run(data, out, *overrides)
    assert str(stop.value) == "stopped after step 10, which is saved; --resume continues"
    assert stop.value.signum == signum
    assert "val_loss" in Checkpoint.load(out / "step-00000010").metrics
    last = run(data, out, *overrides, resume=True)  # the signal comes in the last validation
    assert_same_state(last, whole)
    assert without_times(out) == without_times(whole.parent)
    assert run(data, out, *overrides, resume=True) == last
    assert without_times(out) == without_times(whole.parent)


def test_a_step_without_a_row_gets_one_when_a_signal_saves_it(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = training_module.Trainer.train_step

    def step_and_signal(trainer: training_module.Trainer) -> Any:
        if trainer.counters.step == 6:
            signal.raise_signal(signal.SIGTERM)
        return step(trainer)

    monkeypatch.setattr(training_module.Trainer, "train_step", step_and_signal)
    settings = ("train.eval_interval=7", "train.log_interval=100", "train.checkpoint_interval=100")
    with pytest.raises(Interrupted, match="stopped after step 7"):
        run(data, tmp_path, *settings)
    assert [(row["step"], "loss" in row) for row in rows(tmp_path)] == [(7, True), (7, False)]


def test_signals_have_their_usual_effect_again_after_the_first_and_after_a_run() -> None:
    signals = (signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(signum) for signum in signals]
    with stop_requests() as request:
        assert signal.getsignal(signal.SIGINT) not in before
        signal.raise_signal(signal.SIGTERM)
        assert signal.getsignal(signal.SIGTERM) == before[1]
        signal.raise_signal(signal.SIGINT)
        assert request.signum == signal.SIGTERM
    assert [signal.getsignal(signum) for signum in signals] == before


def test_a_run_in_another_thread_gets_no_signals() -> None:
    def received() -> int:
        with stop_requests() as request:
            return request.signum

    with ThreadPoolExecutor(1) as executor:
        assert executor.submit(received).result() == 0
