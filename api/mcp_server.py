"""`calcgpt mcp`: the calculator as tools of the Model Context Protocol, for assistants.

An assistant starts it as a process and talks to it over stdin and stdout, or connects to it over
HTTP on this machine.
"""

from __future__ import annotations

import logging
import sys
import threading
from functools import partial
from io import StringIO, TextIOWrapper
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
from mcp.server.context import ServerRequestContext as Context
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp_types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    CallToolRequestParams,
    CallToolResult,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
    ToolAnnotations,
    jsonrpc_message_adapter,
)
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.responses import Response

from api.schemas import Input
from calcgpt import __version__
from calcgpt.base.errors import UserError, unknown_name
from calcgpt.base.files import strict_json
from calcgpt.inference.calculator import Calculator
from calcgpt.inference.results import Calculation, Confidence
from calcgpt.section import build
from datagen import work_errors
from datagen.arithmetic import MAX_ASKED_PLACES, answer
from datagen.notation import answer_text, parse_prompt

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_LINE = 20_000  # characters of a line to check
MAX_CONNECTIONS = 64
MAX_BODY = 65_536  # bytes
DEADLINE = 30.0  # seconds for an answer, as in the service
BODY_SECONDS = 5.0  # for the body of a request
DELIVERY_SECONDS = 30.0  # for a response
INSTRUCTIONS = (
    "A calculator whose answers come from a small GPT, each checked by exact arithmetic. Trust "
    "`result` only if `verified` is true. `exact` is the exact value of the expression, rounded "
    "once; `notes` say how it was read, if a reader could think otherwise."
)
refusal = partial(JSONRPCError, jsonrpc="2.0", id=None)  # of what is no message
READ_ONLY = ToolAnnotations(read_only_hint=True, open_world_hint=False)


class Answer(BaseModel):
    """The model's answer to an expression, and its evidence."""

    expression: str = Field(description="the expression as it was understood")
    result: str | None = Field(description="the model's answer; null if it is not a number")
    exact: str = Field(description="the exact value of the expression, rounded once")
    fraction: str | None = Field(description="the exact value as `5/6`; null if that is long")
    verified: bool = Field(
        description="whether the model is right at every operation, and `result` equals `exact`"
    )
    confidence: Confidence
    work: list[str] = Field(
        description="what the model read and wrote, one line for each operation; `check_work` "
        "checks such a line"
    )
    notes: list[str] = Field(
        description="how it was read, what is rounded, what is wrong and where"
    )

    @classmethod
    def of(cls, calculation: Calculation) -> Answer:
        """Returns the part of a calculation that an assistant needs."""
        return cls(
            expression=calculation.expression,
            result=calculation.result,
            exact=calculation.exact,
            fraction=calculation.fraction,
            verified=calculation.verified,
            confidence=calculation.confidence,
            work=[f"{node.prompt}{node.output}" for node in calculation.nodes if node.prompt],
            notes=[*calculation.notes, *calculation.errors],
        )


class Check(BaseModel):
    """Whether every character of a worked line follows from those before it."""

    right: bool
    exact: str = Field(description="the answer to the line's problem by exact arithmetic")
    position: int | None = Field(description="index of the first wrong character in the line")
    step: str | None = Field(description="what that character is for, such as `sum` or `rounding`")
    expected: str | None = Field(description="the right character; empty if there is one too many")
    found: str | None = Field(description="the wrong character; empty if the line ends too early")


def check(line: str) -> Check:
    """Returns whether a line `$8(A+B)=WORK=ANSWER$` is right, and if not, where it goes wrong.

    Raises UserError if the line does not begin with a question.
    """
    n_spaces = len(line) - len(line.lstrip())
    question, equals, completion = line.strip().partition("=")
    prompt = question + equals
    problem = parse_prompt(prompt)
    wrong = work_errors.first_error_of_completion(prompt, completion)
    return Check(
        right=wrong is None,
        exact=answer_text(answer(problem)),
        position=wrong and n_spaces + len(prompt) + wrong.position,
        step=wrong and wrong.kind.value,
        expected=wrong and wrong.expected,
        found=wrong and wrong.actual,
    )


class Calculate(Input):
    """Calculate an expression with a small GPT, and check the answer by exact arithmetic."""

    expression: str = Field(
        description="numbers, + - * / and parentheses, such as (12.5+3)*2; also powers "
        "(2^10), percent (7.5% of 200), 17//5, 10 mod 3, 5!, |3-5|, functions such as "
        "sqrt(2), ln(10) and sin(30°), pi and e"
    )
    places: int | None = Field(
        None,
        ge=0,
        le=MAX_ASKED_PLACES,
        description="decimal places of the answer; null means the model's default",
    )


class CheckWork(Input):
    """Check a line of worked steps character by character, and name the first wrong one."""

    model_config = ConfigDict(title="Check worked steps")

    line: str = Field(
        max_length=MAX_LINE, description="one line of `work`, as `calculate` returns it"
    )


TOOLS: dict[str, tuple[type[Calculate | CheckWork], type[BaseModel]]] = {
    "calculate": (Calculate, Answer),
    "check_work": (CheckWork, Check),
}


class Tools:
    """The tools `calculate` and `check_work`."""

    def __init__(self, calculator: Calculator) -> None:
        self._calculator = calculator
        self._one_at_a_time = anyio.Lock()  # two would compete for the CPU

    async def describe(self, _: Context, asked: PaginatedRequestParams | None) -> ListToolsResult:
        """Returns what the tools take and return."""
        described = [
            Tool(
                name=name,
                title=takes.model_config.get("title", takes.__name__),
                description=takes.__doc__,
                input_schema=takes.model_json_schema(),
                output_schema=returns.model_json_schema(),
                annotations=READ_ONLY,
            )
            for name, (takes, returns) in TOOLS.items()
        ]
        return ListToolsResult(tools=described)

    async def call(self, _: Context, called: CallToolRequestParams) -> CallToolResult:
        """Returns what a tool returns, or the error in one line."""
        try:
            result = await self._use(called.name, called.arguments or {})
        except UserError as error:
            block = TextContent(type="text", text=f"{error!s:.1000}")
            return CallToolResult(content=[block], is_error=True)
        block = TextContent(type="text", text=result.model_dump_json(indent=2))
        return CallToolResult(content=[block], structured_content=result.model_dump(mode="json"))

    async def _use(self, name: str, arguments: dict[str, Any]) -> BaseModel:
        if name not in TOOLS:
            raise UserError(unknown_name("tool", name, TOOLS))
        asked = build(TOOLS[name][0], arguments, name)
        if isinstance(asked, Calculate):
            return await self._calculate(asked)
        if not self._calculator.checkpoint.recipe.has_work:
            raise UserError(f"{self._calculator.checkpoint.name} writes no worked steps")
        return await anyio.to_thread.run_sync(check, asked.line)

    async def _calculate(self, asked: Calculate) -> Answer:
        is_over = threading.Event()

        def check() -> None:
            if is_over.is_set():
                raise UserError("nobody waits for the answer")

        def work() -> Answer:
            calculate = self._calculator.calculate
            return Answer.of(calculate(asked.expression, asked.places, check=check))

        try:
            with anyio.fail_after(DEADLINE):
                async with self._one_at_a_time:
                    return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
        except TimeoutError:
            raise UserError(f"not answered within {DEADLINE:g} s") from None
        finally:  # also if the client is gone
            is_over.set()


def server_of(calculator: Calculator) -> Server[Any]:
    """Returns a server of the tools."""
    logging.getLogger("mcp").setLevel(logging.ERROR)  # clients can cause warnings
    tools = Tools(calculator)
    return Server(
        "calcgpt",
        title="CalcGPT",
        instructions=INSTRUCTIONS,
        version=__version__,
        on_list_tools=tools.describe,
        on_call_tool=tools.call,
    )


def read_message(text: str) -> JSONRPCMessage:
    """Returns a message of JSON-RPC. Raises MCPError, one line, for what is none.

    The SDK would take NaN, the last of two members of one name, and a request whose id is no id as
    a notification, which nobody answers.
    """
    try:
        content = strict_json(text)
        message = jsonrpc_message_adapter.validate_python(content, by_name=False)
    except ValidationError:
        raise MCPError(INVALID_REQUEST, "not a message of JSON-RPC 2.0") from None
    except (ValueError, RecursionError) as error:
        raise MCPError(PARSE_ERROR, f"not JSON: {error!s:.200}") from None
    if isinstance(message, JSONRPCNotification) and "id" in content:
        raise MCPError(INVALID_REQUEST, "the id is not a text or a whole number")
    return message


def serve_stdio(calculator: Calculator) -> None:
    """Serves the tools on stdin and stdout. At the end of the input, what was asked is answered."""
    anyio.run(_serve_stdio, server_of(calculator))


async def _serve_stdio(server: Server[Any]) -> None:
    """Runs a server, as the SDK does. That one ends with the input, also if a tool works."""
    asked, changed = set[str | int](), anyio.Event()
    to_server, server_reads = anyio.create_memory_object_stream[SessionMessage | Exception]()
    server_writes, from_server = anyio.create_memory_object_stream[SessionMessage]()
    lines = TextIOWrapper(sys.stdin.buffer, "utf-8", errors="replace")

    async def pass_questions() -> None:
        nonlocal changed
        async with to_server:
            async for line in anyio.wrap_file(lines):
                try:
                    message = read_message(line)
                except MCPError as error:
                    await answers.send(SessionMessage(refusal(error=error.error)))
                    continue
                if isinstance(message, JSONRPCRequest):
                    asked.add(message.id)
                await to_server.send(SessionMessage(message))
            with anyio.move_on_after(DEADLINE):  # what was cancelled is never answered
                while asked:
                    changed = anyio.Event()
                    await changed.wait()

    async def pass_answers() -> None:
        async with answers:
            async for item in from_server:
                await answers.send(item)
                if isinstance(item.message, JSONRPCResponse | JSONRPCError):
                    asked.difference_update([item.message.id])
                    changed.set()

    nothing = anyio.wrap_file(StringIO())  # the SDK reads no lines itself
    async with stdio_server(nothing) as (_, answers), anyio.create_task_group() as group:
        group.start_soon(pass_questions)
        group.start_soon(pass_answers)
        async with server_writes:
            await server.run(server_reads, server_writes, server.create_initialization_options())


class OnlyCalls:
    """Answers POST alone, for which the client waits: ends the work for a client that is gone, or
    that reads too slowly. Streams of the server's own, which GET asks for, would never say anything
    and keep connections."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        if scope["method"] != "POST":
            headers = [(b"allow", b"POST"), (b"connection", b"close"), (b"content-length", b"0")]
            await send({"type": "http.response.start", "status": 405, "headers": headers})
            return await send({"type": "http.response.body"})
        body = [await receive()]  # whole: BodyLimit has read it
        try:
            read_message(body[0].get("body", b"").decode("utf-8", "replace"))
        except MCPError as error:
            content = refusal(error=error.error).model_dump_json()
            response = Response(content, 400, media_type="application/json")
            return await response(scope, receive, send)

        async def receive_once() -> Message:
            if not body:
                await anyio.sleep_forever()
            return body.pop()

        async def end_without_client() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            group.cancel_scope.cancel()

        with anyio.move_on_after(DEADLINE + DELIVERY_SECONDS):
            async with anyio.create_task_group() as group:
                group.start_soon(end_without_client)
                await self._app(scope, receive_once, send)
                group.cancel_scope.cancel()
        return None


def serve_http(calculator: Calculator, port: int) -> None:
    """Serves the tools under /mcp on 127.0.0.1 until SIGINT or SIGTERM. Port 0 takes a free one.

    Only this machine can connect, and no page of another origin (`Host` and `Origin` are checked).
    """
    import uvicorn  # not above: the server on stdin and stdout starts seconds earlier without it

    from api.connections import LocalConnection
    from api.middleware import BodyLimit
    from api.server import COMMON, listen, url_of

    app = server_of(calculator).streamable_http_app(stateless_http=True, json_response=True)
    listener = listen("127.0.0.1", port)
    print(f"{calculator.checkpoint.name} answers on {url_of(listener)}/mcp", file=sys.stderr)
    config = uvicorn.Config(
        BodyLimit(OnlyCalls(app), MAX_BODY, seconds=BODY_SECONDS),
        **COMMON | {"http": LocalConnection},
        limit_concurrency=MAX_CONNECTIONS,
    )
    uvicorn.Server(config).run(sockets=[listener])
