"""What the endpoints share: models by name, and work that ends with its client."""

import asyncio
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from forks import PATIENCE
from starlette.requests import ClientDisconnect, Request
from starlette.types import Message

from api import service as module
from api.service import ModelPool, Service, load_models
from api.settings import Settings
from api.telemetry import Metrics


def test_a_checkpoint_of_ones_own_hides_the_shipped_one_of_its_name(
    tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("own/mine", "shipped/mine", "shipped/other"):
        shutil.copytree(tiny_folder, tmp_path / name)
    monkeypatch.setattr(module, "shipped_checkpoints", lambda: tmp_path / "shipped")
    loaded = load_models(str(tmp_path / "own" / "mine"), others=True, engine="torch")
    assert [model.name for model in loaded] == ["mine", "other"]


class EndlessWork:
    """Work that notes its beginning and its cancellation."""

    def __init__(self) -> None:
        self.begun, self.cancelled = asyncio.Event(), asyncio.Event()

    async def __call__(self, report: Callable[[str], None] = lambda event: None) -> None:
        report("first")
        self.begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise


@pytest.fixture
def service() -> Service:
    settings = Settings(deadline=2 * PATIENCE)  # no test waits for it
    return Service(settings, ModelPool(lambda: iter(())), Metrics())


def is_counted(service: Service) -> bool:
    """Whether one request is counted whose client has gone."""
    page = service.metrics.render()[0].decode()
    return 'calcgpt_sheds_total{reason="disconnected"} 1.0' in page.splitlines()


async def test_work_for_a_client_that_is_gone_is_cancelled_and_counted(service: Service) -> None:
    work = EndlessWork()

    async def receive() -> Message:
        await work.begun.wait()
        return {"type": "http.disconnect"}

    with pytest.raises(ClientDisconnect):
        await service.while_connected(Request({"type": "http"}, receive), ExitStack(), work())
    await work.cancelled.wait()
    assert is_counted(service)


async def test_the_work_for_a_stream_that_is_closed_is_cancelled_and_counted(
    service: Service,
) -> None:
    work = EndlessWork()
    events = service.follow(ExitStack(), work)
    assert await anext(events) == "first"
    await events.aclose()
    await work.cancelled.wait()
    assert is_counted(service)
