"""A signal within a validation, in this process. tests/e2e has signals to real processes."""

import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NoReturn

import pytest
from small_runs import assert_same_state, rows, run

from calcgpt.checkpoint import Checkpoint
from calcgpt_lab.training import train as training_module
from calcgpt_lab.training.stopping import Interrupted, StopRequest, stop_requests

TIMES = {"seconds", "tokens_per_s"}


def without_times(out: Path) -> list[dict[str, float]]:
    return [{key: row[key] for key in row.keys() - TIMES} for row in rows(out)]


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    ("n_earlier", "step"), [(0, 10), (1, 20)], ids=["in the middle", "after the last step"]
)
def test_a_signal_cuts_a_validation_short_and_resuming_repeats_it(
    data: Path, tmp_path: Path, n_earlier: int, step: int, signum: int
) -> None:
    overrides = ("train.ema_decay=0.9", "model.dropout=0.1")
    whole, out = run(data, tmp_path / "whole", *overrides), tmp_path / "cut"
    evaluate, n_validation = training_module.evaluate, 0

    def evaluate_until_the_signal(*arguments: Any) -> Any:
        nonlocal n_validation
        n_validation += 1
        return evaluate(*arguments) if n_validation <= n_earlier else interrupted()

    def interrupted() -> NoReturn:
        signal.raise_signal(signum)
        raise AssertionError("the validation went on")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training_module, "evaluate", evaluate_until_the_signal)
        with pytest.raises(Interrupted) as stop:
            run(data, out, *overrides)
    assert str(stop.value) == f"stopped after step {step}, which is saved; --resume continues"
    assert stop.value.signum == signum
    assert "val_loss" not in Checkpoint.load(out / f"step-{step:08d}").metrics
    assert [row["step"] for row in rows(out) if "val_loss" in row] == [10][:n_earlier]

    last = run(data, out, *overrides, resume=True)
    assert_same_state(last, whole)
    assert without_times(out) == without_times(whole.parent)
    metrics, expected = Checkpoint.load(last).metrics, Checkpoint.load(whole).metrics
    assert metrics["validation"] == expected["validation"]
    assert run(data, out, *overrides, resume=True) == last
    assert without_times(out) == without_times(whole.parent)  # nothing is done twice


def test_a_step_without_a_row_gets_one_when_a_signal_saves_it(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        training_module, "evaluate", lambda *arguments: signal.raise_signal(signal.SIGTERM)
    )
    settings = ("train.eval_interval=7", "train.log_interval=100", "train.checkpoint_interval=100")
    with pytest.raises(Interrupted, match="stopped after step 7"):
        run(data, tmp_path, *settings)
    assert [(row["step"], "loss" in row) for row in rows(tmp_path)] == [(7, True)]


def test_a_signal_before_the_work_leaves_it_out() -> None:
    request = StopRequest()
    assert request.run_interruptible(lambda: "done") == "done"
    request.receive(signal.SIGTERM)
    assert request.run_interruptible(lambda: "done") is None


def test_signals_have_their_usual_effect_again_after_a_run() -> None:
    signals = (signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(signum) for signum in signals]
    with stop_requests():
        assert signal.getsignal(signal.SIGINT) not in before
    assert [signal.getsignal(signum) for signum in signals] == before


def test_a_run_in_another_thread_gets_no_signals() -> None:
    def received() -> int:
        with stop_requests() as request:
            return request.signum

    with ThreadPoolExecutor(1) as executor:
        assert executor.submit(received).result() == 0
