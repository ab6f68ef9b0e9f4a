"""What the endpoints share: models by name, and work that ends with its client."""

import asyncio
import shutil
from functools import partial
from pathlib import Path

import pytest
from fake_decoder import worked_model
from starlette.requests import ClientDisconnect, Request
from starlette.types import Message
from waiting import PATIENCE

from api import service as module
from api.service import ModelPool, Service, load_models
from api.settings import Settings
from api.telemetry import Metrics
from calcgpt.inference.decoding import Written


def test_a_checkpoint_of_ones_own_hides_the_shipped_one_of_its_name(
    tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("own/mine", "shipped/mine", "shipped/other"):
        shutil.copytree(tiny_folder, tmp_path / name)
    monkeypatch.setattr(module, "shipped_checkpoints", lambda: tmp_path / "shipped")
    loaded = load_models(str(tmp_path / "own" / "mine"), others=True, engine="torch")
    assert [model.name for model in loaded] == ["mine", "other"]


@pytest.fixture
def service() -> Service:
    settings = Settings(deadline=2 * PATIENCE)  # no test waits for it
    return Service(settings, ModelPool(lambda: iter(())), Metrics())


async def test_a_client_that_is_gone_when_its_turn_comes_is_counted(service: Service) -> None:
    gone: list[Message] = [{"type": "http.request"}, {"type": "http.disconnect"}]

    async def receive() -> Message:
        return gone.pop(0) if gone else await asyncio.Event().wait()  # type: ignore[return-value]

    service.require_client(
        Request({"type": "http"}, partial(asyncio.sleep, PATIENCE))
    )  # it is there
    with pytest.raises(ClientDisconnect):
        service.require_client(Request({"type": "http"}, receive))
    assert 'calcgpt_sheds_total{reason="disconnected"} 1.0' in service.metrics.render()[0].decode()


@pytest.mark.parametrize("is_heard", [False, True])
async def test_a_long_text_lets_others_write(service: Service, is_heard: bool) -> None:
    parts: list[str] = []
    written: list[str] = []
    model = worked_model()
    calculator = model.calculator

    async def write(client: str, expression: str, hear: bool = False) -> None:
        computation = calculator.begin(expression)
        [question] = computation.questions()
        decoder, prompt = calculator.decoder, question.prompt

        def report(part: Written) -> None:
            parts.append(part.text)

        async with service.shift(decoder, client, computation.cost) as shift:
            length = computation.n_characters
            text = await service.write(
                "worked", decoder, prompt, length, shift, report if hear else None
            )
        written.append(client)
        if hear:
            assert text.text == "".join(parts)

    long = asyncio.create_task(write("long", "123456*654321", is_heard))
    await asyncio.sleep(0)
    await asyncio.wait_for(asyncio.gather(long, write("short", "1+1")), PATIENCE)
    assert written == ["short", "long"]
