"""Progress: whole lines where there is no terminal."""

from types import SimpleNamespace

import pytest

from calcgpt.base import progress


def test_a_file_gets_whole_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "SECONDS", float("inf"))
    with progress.progress_bar(100, unit="step") as bar:
        for _ in range(100):
            bar.update()
            bar.set_postfix_str("loss 0.5")  # a bar would be drawn again
    (line,) = capsys.readouterr().err.splitlines()  # the last one
    assert line.startswith("100% 100/100 [")
    assert line.endswith("loss 0.5]")
    monkeypatch.setattr(progress, "SECONDS", 0.0)
    with progress.progress_bar(3, unit="step", leave=False) as bar:
        for _ in range(3):
            bar.update()
            bar.refresh()
    error = capsys.readouterr().err
    assert "\r" not in error
    counts = [line.split()[1] for line in error.splitlines()]
    assert counts == sorted(counts)
    assert {"1/3", "2/3", "3/3"} <= set(counts)
    with progress.progress_bar(3, desc="drawing") as bar:
        bar.update()
    assert capsys.readouterr().err.splitlines()[-1].startswith("drawing:  33% 1/3 [")
    with progress.progress_bar(3, show=False) as bar:
        bar.update()
    assert capsys.readouterr().err == ""


def test_a_file_gets_a_line_every_half_minute_and_none_if_nothing_is_done(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 0.0
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: now))
    with progress.progress_bar(100, unit="step") as bar:
        for second in (1.0, 30.0, 31.0, 59.0, 60.0, 61.0):
            now = second
            bar.update()
            bar.refresh()
    counts = [line.split()[1] for line in capsys.readouterr().err.splitlines()]
    assert counts == ["2/100", "5/100", "6/100"]
    with progress.progress_bar(100, unit="step"):
        pass
    assert capsys.readouterr().err == ""
