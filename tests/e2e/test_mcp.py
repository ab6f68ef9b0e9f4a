"""`calcgpt mcp` with the official client: over stdin and stdout, and over HTTP."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from forks import PATIENCE
from server_forks import ForkedProcess
from serving import wait_for

mcp = pytest.importorskip("mcp", reason="mcp is not installed: the extra `mcp` installs it")
import anyio  # noqa: E402
from mcp.client.stdio import StdioServerParameters, stdio_client  # noqa: E402

COMMAND = ["mcp", "--checkpoint", "calculator"]


async def use(client: Any) -> None:
    """Calls both tools, rightly and wrongly."""
    async with client:
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert listed.keys() == {"calculate", "check_work"}
        assert "verified" in listed["calculate"].output_schema["properties"]

        answer = await client.call_tool("calculate", {"expression": "(12.5+3)*2"})
        content = answer.structured_content
        assert (content["result"], content["exact"], content["verified"]) == ("31", "31", True)
        assert content["confidence"]["whole"] > 0.99
        assert content["notes"] == []
        first, second = content["work"]
        assert first.startswith("$8(00000012.5+0000000003)=")

        power = await client.call_tool("calculate", {"expression": "10%*1.05^2/3", "places": 2})
        assert power.structured_content["result"] == "0.04"
        assert power.structured_content["fraction"] == "147/4000"
        assert power.structured_content["notes"] == ["rounded to 2 places"]

        right = await client.call_tool("check_work", {"line": second})
        assert right.structured_content["right"] is True
        at = first.index(":") + 1
        changed = first[:at] + "6" + first[at + 1 :]
        wrong = (await client.call_tool("check_work", {"line": changed})).structured_content
        assert (wrong["right"], wrong["position"]) == (False, at)
        assert (wrong["expected"], wrong["found"], wrong["exact"]) == (first[at], "6", "15.5")

        shifted = await client.call_tool("check_work", {"line": f"   {changed} "})
        assert shifted.structured_content["position"] == at + 3

        for name, arguments, says in [
            ("calculate", {"expression": "1+x"}, "a number is expected, not 'x'"),
            ("calculate", {"expression": "1/3", "places": 31}, "places"),
            ("calculate", {"expression": "1/0"}, "division by zero"),
            ("check_work", {"line": "1+1=2"}, "position 0"),
            ("check_work", {"line": "1" * 20_001}, "20000"),
        ]:
            refused = await client.call_tool(name, arguments)
            assert refused.is_error
            assert says in refused.content[0].text
            assert "Traceback" not in refused.content[0].text


def test_over_stdin_and_stdout() -> None:
    server = StdioServerParameters(command=sys.executable, args=["-m", "calcgpt", *COMMAND])
    anyio.run(use, mcp.Client(stdio_client(server)))


def test_over_http(tmp_path: Path) -> None:
    log = tmp_path / "log"
    server = ForkedProcess([*COMMAND, "--engine", "native", "--http", "0"], dict(os.environ), log)
    try:
        wait_for(lambda: server.poll() is not None or (log.exists() and "\n" in log.read_text()))
        said, _, address = log.read_text().strip().rpartition(" ")
        assert said == "calculator answers on"
        anyio.run(use, mcp.Client(address))
        too_long = httpx.post(address, content=b" " * 100_000, timeout=PATIENCE)
        assert too_long.status_code == 413
    finally:
        server.kill()
        server.wait(PATIENCE)
