"""Fixtures that several tests share: a tiny data set, a tiny model with random weights.

Every test is marked by the folder it stands in: `unit`, `parity` or `e2e`.
"""

from __future__ import annotations

import gc
import logging
import os
import random
import resource
import secrets
import shutil
import signal
import socketserver
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

# Dozens of processes import the code: they compile it once, not each for itself.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# Before torch is imported, and for the processes that tests start: one thread each, so that tests
# run beside each other without competing, and sum in one order everywhere.
os.environ["OMP_NUM_THREADS"] = "1"
# Ray listens on the loopback alone, for processes with this token, which is not written to a file.
# Long timeouts keep Ray from taking a busy machine for a dead one.
os.environ |= {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": secrets.token_hex(32),
    "RAY_health_check_failure_threshold": "50",
    "RAY_worker_register_timeout_seconds": "200",
    "RAY_worker_niceness": "0",  # Ray's own is 15: beside other tests, workers would starve
    "RAY_prestart_worker_first_driver": "0",  # that process runs no tasks
    "RAY_TRAIN_ENABLE_PREEMPTION_WATCHER": "0",  # it takes a process for each training
}
# The table of cases is kept between runs, but not among the user's.
os.environ["CALCGPT_CACHE"] = str(Path(__file__).parents[1] / ".pytest_cache" / "calcgpt")

import pytest
from commands import Outcome, RunCli
from hypothesis import HealthCheck, Phase, settings

if TYPE_CHECKING:
    from calcgpt.checkpoint import Checkpoint

sys.dont_write_bytecode = False  # this process has read PYTHONDONTWRITEBYTECODE already
# Imported modules stay in memory, and to search them for garbage takes seconds. The collector is
# enabled again when all tests are collected.
gc.disable()

TESTS = Path(__file__).parent
# Test files that share a fixture that takes seconds: a cluster, a service.
TOGETHER = {
    "ray": ("test_guide.py", "test_sweep.py"),
}
# Files whose tests take minutes together: `make check` runs them, `make test` does not.
SLOW = (
    *("test_ablate.py", "test_clients.py", "test_contract.py", "test_course.py"),
    *("test_guide.py", "test_proof.py", "test_wandb.py"),
    "e2e/test_sweep.py",
)
KINDS = {
    "unit": "one module at a time",
    "parity": "against an independent implementation",
    "e2e": "the commands, as a person runs them",
}

# The same examples everywhere: a failure on one machine is a failure on all. A busy machine may
# take any time to draw them.
settings.register_profile(
    "calcgpt", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(  # for `make mutants`, which asks only whether a test fails
    "mutants", settings.get_profile("calcgpt"), phases=[Phase.explicit, Phase.generate]
)
settings.load_profile("calcgpt")


_handle_error = socketserver.BaseServer.handle_error


def _report_unless_gone(server: socketserver.BaseServer, *connection: Any) -> None:
    """A browser or a client that closes its connection is no error of the server of a test."""
    if not isinstance(sys.exception(), ConnectionError):
        _handle_error(server, *connection)


socketserver.BaseServer.handle_error = _report_unless_gone  # type: ignore[method-assign]


def pytest_configure(config: pytest.Config) -> None:
    for kind, meaning in KINDS.items():
        config.addinivalue_line("markers", f"{kind}: {meaning}")
    config.addinivalue_line("markers", "slow: for `make check`, before a release and at night")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Does not import files with slow tests if none is to run: what they import is slow, too."""
    return (config.option.markexpr == "not slow" and _is_slow(collection_path)) or None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the tests. Those of the page come first: they take longest, and a process of xdist
    starts one browser for all of its own."""
    for item in items:
        kind = item.path.relative_to(TESTS).parts[0]
        if kind in KINDS:
            item.add_marker(kind)
        if _is_slow(item.path):
            item.add_marker("slow")
    items.sort(key=lambda item: "page" not in str(item.path.relative_to(TESTS)))


def _is_slow(path: Path) -> bool:
    return any(path.match(pattern) for pattern in SLOW)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """The tests of a file, and of files that share much, run in one process."""
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            groups = (
                group
                for group, patterns in TOGETHER.items()
                if any(Path(file).match(pattern) for pattern in patterns)
            )
            return next(groups, file)

    config.option.loadscopereorder = False
    return ByFile(config, log)


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Seeds the global generators, so that a test draws the same numbers whatever ran before it."""
    random.seed(0)
    if torch := sys.modules.get("torch"):
        torch.default_generator.manual_seed(0)  # torch.manual_seed takes a millisecond


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Names a test when it fails, because a run that is stopped has no summary."""
    if report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        print(f"\n{report.nodeid}: {report.when} failed, {report.duration:.0f} s", flush=True)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says in one line for each reason why tests were skipped, and so what to install."""
    reasons = Counter(
        report.longrepr[2].removeprefix("Skipped: ")
        for report in terminalreporter.stats.get("skipped", [])
        if isinstance(report.longrepr, tuple)
    )
    for reason, n in reasons.items():
        terminalreporter.write_line(f"{n} skipped: {reason}")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """What runs the tests that are coroutines."""
    return "asyncio"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, which is the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def recipe_file(tmp_path: Path) -> Callable[[str], str]:
    """Writes a recipe, returns its path."""

    def write(text: str) -> str:
        path = tmp_path / "mine.toml"
        path.write_text(text, "utf-8")
        return str(path)

    return write


@pytest.fixture
def forget() -> Iterator[Callable[[], None]]:
    """Undoes plug-ins, as a new process has none."""
    from calcgpt.base import plugins
    from calcgpt.variants import FILES, TABLES

    def undo() -> None:
        for table, own in TABLES.values():
            table.clear()
            table.update(own)
        FILES.clear()
        plugins.files.clear()
        plugins._installed.clear()
        sys.modules.pop("problems_of_mine", None)

    yield undo
    undo()


@pytest.fixture(scope="session")
def data_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set of 200 training, 40 validation and 40 test problems. Not to be changed."""
    from calcgpt_lab.data.dataset import DatasetPlan, generate

    folder = tmp_path_factory.mktemp("data") / "tiny"
    generate(folder, DatasetPlan(train=200, val=40, test=40, seed=0), progress=False)
    return folder


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of a one-layer model with random weights, named `tiny`. Not to be changed."""
    from checkpoint_folders import make

    from calcgpt_lab.saving import save

    checkpoint = make()
    scores = {"n": 4, "char_accuracy": 0.5, "exact_match": 0.25, "by_operation": {}}
    metrics = {"parameters": checkpoint.n_parameters, "step": 0, "validation": scores}
    folder = tmp_path_factory.mktemp("checkpoints") / "tiny"
    save(replace(checkpoint, metrics=metrics), folder)
    return folder


@pytest.fixture(scope="session")
def tiny(tiny_folder: Path) -> Checkpoint:
    """The checkpoint of `tiny_folder`, loaded."""
    from calcgpt.checkpoint import Checkpoint

    return Checkpoint.load(tiny_folder)


@pytest.fixture
def tiny_copy(tiny_folder: Path, tmp_path: Path) -> Path:
    """A copy of the checkpoint of `tiny_folder`, to be damaged."""
    return Path(shutil.copytree(tiny_folder, tmp_path / "copies" / "tiny"))


@pytest.fixture
def run_cli(capsys: pytest.CaptureFixture[str]) -> RunCli:
    """`calcgpt ARGS...` within this process."""
    from calcgpt.cli import cli

    def run(*args: str | Path) -> Outcome:
        capsys.readouterr()
        try:
            code = cli.main(args=[str(arg) for arg in args], prog_name="calcgpt") or 0
        except SystemExit as stop:
            code = stop.code
        return Outcome(code, *capsys.readouterr())

    return run


@pytest.fixture
def serve_here(run_cli: RunCli) -> Iterator[RunCli]:
    """`calcgpt serve ARGS...` within this process, for services that end by themselves.

    Restores what a service changes in its process.
    """
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGTTIN, signal.SIGTTOU)
    signals = {number: signal.getsignal(number) for number in numbers}
    open_files, interval = resource.getrlimit(resource.RLIMIT_NOFILE), sys.getswitchinterval()
    yield lambda *args: run_cli("serve", *args)
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(False)
    for number, handler in signals.items():
        signal.signal(number, handler)
    resource.setrlimit(resource.RLIMIT_NOFILE, open_files)
    sys.setswitchinterval(interval)
