"""How Ray starts, and how a signal ends it; tests/e2e/test_sweep.py has a real one."""

import signal

import pytest

pytest.importorskip("ray", reason="Ray is not installed: the extra `ray` installs it")

from calcgpt.base.errors import UserError
from calcgpt_lab.studies.ray_cluster import connected


def test_a_start_that_takes_too_long_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    starts: list[str] = []
    n_slow = 2

    def init(address: str, **options: object) -> None:
        starts.append(address)
        if len(starts) <= n_slow:
            raise Exception("The current node timed out during startup.")

    monkeypatch.setattr("ray.init", init)
    monkeypatch.setattr("ray.shutdown", lambda: starts.append("shutdown"))
    with connected(None, 2):
        assert starts == ["local"] * 3
    assert starts.pop() == "shutdown"
    n_slow = 1000
    with pytest.raises(UserError, match="no Ray at this machine: The current node timed out"):
        connected(None, 2).__enter__()
    assert 3 < len(starts) < 10


def test_sigterm_is_an_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray's own handler, which it installs when it is started, would abort the process."""
    monkeypatch.setattr("ray.init", lambda *_, **__: signal.signal(signal.SIGTERM, signal.SIG_IGN))
    monkeypatch.setattr("ray.shutdown", lambda: None)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with pytest.raises(KeyboardInterrupt), connected(None, 2):
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
