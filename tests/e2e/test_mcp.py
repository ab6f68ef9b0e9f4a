"""`calcgpt mcp` with the official client: over stdin and stdout, and over HTTP."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

import httpx2 as httpx
import pytest
from server_forks import ForkedProcess
from waiting import PATIENCE, wait_for

mcp = pytest.importorskip("mcp", reason="mcp is not installed: the extra `mcp` installs it")
import anyio  # noqa: E402
from mcp.client.stdio import StdioServerParameters, stdio_client  # noqa: E402
from mcp.shared.exceptions import MCPError  # noqa: E402

from api.mcp_server import MAX_CONNECTIONS, read_message  # noqa: E402

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
            ("calculate", {"expression": "1/3", "places": 31}, "places: Input should be less"),
            ("calculate", {"expression": "1/3", "places": True}, "places: Input should be a valid"),
            ("calculate", {"places": 2}, "calculate: expression: Field required"),
            ("calculate", {"expression": "1", "place": 2}, "unknown field 'place'; valid fields: "),
            ("calculate", {"expresion": "1"}, "unknown field 'expresion'; valid fields: "),
            ("calculator", {"expression": "1+1"}, "unknown tool 'calculator'"),
            ("calculate", {"expression": "1/0"}, "division by zero"),
            ("check_work", {"line": "1+1=2"}, "position 0"),
            ("check_work", {"line": "1" * 20_001}, "20000"),
        ]:
            refused = await client.call_tool(name, arguments)
            assert refused.is_error
            assert says in refused.content[0].text
            assert "\n" not in refused.content[0].text


def test_over_stdin_and_stdout() -> None:
    server = StdioServerParameters(command=sys.executable, args=["-m", "calcgpt", *COMMAND])
    anyio.run(use, mcp.Client(stdio_client(server)))


def rpc(number: int, method: str, **params: Any) -> bytes:
    message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    return json.dumps(message).encode() + b"\n"


OPENING = (
    rpc(
        0,
        "initialize",
        protocolVersion="2025-06-18",
        capabilities={},
        clientInfo={"name": "test", "version": "1"},
    )
    + b'{"jsonrpc": "2.0", "method": "notifications/initialized"}\n'
)


def call(number: int, expression: str) -> bytes:
    return rpc(number, "tools/call", name="calculate", arguments={"expression": expression})


def test_what_was_asked_before_the_end_of_the_input_is_answered() -> None:
    asked = OPENING + b"NaN\n" + b"".join(call(n, f"{n}*2") for n in range(1, 4))
    command = [sys.executable, "-m", "calcgpt", *COMMAND]
    ended = subprocess.run(command, input=asked, capture_output=True, timeout=PATIENCE)
    answers = [json.loads(line) for line in ended.stdout.splitlines()]
    refusals = [answer["error"]["message"] for answer in answers if answer["id"] is None]
    assert refusals == ["not JSON: NaN is not a JSON number"]
    answered = {a["id"]: a["result"] for a in answers if a["id"] is not None}
    results = {n: a.get("structuredContent", {}).get("result") for n, a in answered.items()}
    assert (ended.returncode, results) == (0, {0: None, 1: "2", 2: "4", 3: "6"}), ended.stderr


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (b"1+1", "not JSON: "),
        (b"[" * 50_000, "not JSON: "),
        (b'{"jsonrpc": "2.0", "id": NaN, "method": "tools/list"}', "NaN is not a JSON number"),
        (b'{"jsonrpc": "2.0", "id": 1, "id": 2, "method": "tools/list"}', "a duplicate member"),
        (b'{"jsonrpc": "2.0", "id": true, "method": "tools/list"}', "the id is not a text or"),
        (b'{"jsonrpc": "2.0", "id": 1}', "not a message of JSON-RPC"),
        (b"[]", "not a message of JSON-RPC"),
    ],
    ids=lambda value: repr(value[:60]),
)
def test_what_is_no_message_is_refused_in_one_line(wrong: bytes, says: str) -> None:
    with pytest.raises(MCPError) as refused:
        read_message(wrong.decode())
    assert says in refused.value.message
    assert "\n" not in refused.value.message


# A calculator that says when it begins, and calculates until it is told to stop.
ENDLESS = """
import sys, time
from api import mcp_server
from calcgpt.inference.calculator import Calculator

def calculate(self, expression, places, check):
    print("begun", flush=True)
    try:
        while True:
            check()
            time.sleep(0.01)
    finally:
        print("ended", flush=True)

Calculator.calculate = calculate
mcp_server.DEADLINE = float(sys.argv[1])
mcp_server.serve_http(Calculator.load("calculator"), 0)
"""
HEADERS = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


@contextmanager
def endless(deadline: float) -> Iterator[tuple[IO[str], str]]:
    """Yields a process that serves such a calculator, and its address."""
    program = [sys.executable, "-c", ENDLESS, str(deadline)]
    pipe = subprocess.PIPE
    process = subprocess.Popen(program, stdout=pipe, stderr=pipe, text=True)
    assert process.stdout
    assert process.stderr
    try:
        yield process.stdout, process.stderr.readline().split()[-1]
    finally:
        process.kill()
        process.communicate()


def test_work_ends_with_its_client() -> None:
    with endless(PATIENCE) as (output, address):
        url = urlsplit(address)
        connection = HTTPConnection(url.hostname or "", url.port, timeout=PATIENCE)
        connection.request("POST", url.path, call(1, "1+1"), HEADERS)
        assert output.readline() == "begun\n"
        connection.close()
        assert output.readline() == "ended\n"


@pytest.fixture(scope="module")
def hasty() -> Iterator[tuple[IO[str], str]]:
    """Such a process, which works for half a second at most."""
    with endless(0.5) as running:
        yield running


def test_work_ends_at_the_deadline(hasty: tuple[IO[str], str]) -> None:
    output, address = hasty
    response = httpx.post(address, content=call(1, "1+1"), headers=HEADERS, timeout=PATIENCE)
    [content] = response.json()["result"]["content"]
    assert content["text"].endswith("not answered within 0.5 s")
    assert [output.readline() for _ in range(2)] == ["begun\n", "ended\n"]


def test_silent_connections_and_idle_streams_keep_nobody_out(hasty: tuple[IO[str], str]) -> None:
    _, address = hasty
    with ExitStack() as stack:
        url = urlsplit(address)
        for _ in range(MAX_CONNECTIONS):
            silent = socket.create_connection((url.hostname, url.port), PATIENCE)
            stack.enter_context(silent)
        assert silent.recv(1) == b""  # it is closed before its client says anything
        for _ in range(MAX_CONNECTIONS + 1):
            connection = HTTPConnection(url.hostname or "", url.port, timeout=PATIENCE)
            stack.callback(connection.close)
            connection.request("GET", url.path, headers=HEADERS)
        response = connection.getresponse()
        assert (response.status, response.headers["Allow"]) == (405, "POST")
        listed = httpx.post(
            address, content=rpc(1, "tools/list"), headers=HEADERS, timeout=PATIENCE
        )
        assert len(listed.json()["result"]["tools"]) == 2


def test_over_http(tmp_path: Path) -> None:
    log = tmp_path / "log"
    server = ForkedProcess([*COMMAND, "--engine", "cases", "--http", "0"], dict(os.environ), log)
    try:
        wait_for(lambda: server.poll() is not None or (log.exists() and "\n" in log.read_text()))
        said, _, address = log.read_text().strip().rpartition(" ")
        assert said == "calculator answers on"
        anyio.run(use, mcp.Client(address))
        too_long = httpx.post(address, content=b" " * 100_000, timeout=PATIENCE)
        assert too_long.status_code == 413
        refused = httpx.post(address, content=b"NaN", headers=HEADERS, timeout=PATIENCE)
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, -32700)
    finally:
        server.kill()
        server.wait(PATIENCE)
