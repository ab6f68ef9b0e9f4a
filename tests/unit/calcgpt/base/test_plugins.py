"""What packages add to this one."""

from importlib.metadata import EntryPoint

import pytest

from calcgpt.base import plugins


def test_a_checkout_adds_what_its_project_says_whatever_is_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It may not be installed, while another package is, or it was installed before a change."""
    group = "calcgpt.commands"
    entries = [EntryPoint("other", "elsewhere", group), EntryPoint("train", "before:train", group)]
    monkeypatch.setattr(plugins, "entry_points", lambda group: entries)
    found = plugins.extensions(group)
    assert found["other"].value == "elsewhere"
    assert found["train"].value == "calcgpt_lab.cli.training:train"
    assert found["sweep"].load().name == "sweep"
