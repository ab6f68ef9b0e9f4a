"""LangChain and LiteLLM against a service with the shipped model."""

import os
from collections.abc import Iterator
from typing import Any

import pytest
from serving import server

for package in ("langchain", "langchain_openai", "litellm"):
    pytest.importorskip(package, reason="the extra `clients` is not installed")

QUESTION = "12.5+3"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with server("calculator") as running:
        yield f"{running.address}/v1"


@pytest.fixture
def model(address: str) -> Any:
    from langchain_openai import ChatOpenAI

    return ChatOpenAI(model="calculator", base_url=address, api_key="none", max_retries=0)


def test_langchain_asks_in_each_of_its_ways(model: Any) -> None:
    from langchain_core.messages import HumanMessage, SystemMessage

    system = SystemMessage("You are a calculator.")
    parts = HumanMessage([{"type": "text", "text": QUESTION}])
    sampled = model.bind(temperature=0.2, top_p=0.9, seed=1, stop=["\n"], logprobs=True)
    as_json = model.bind(response_format={"type": "json_object"})
    for runnable in (model, sampled, as_json):
        for asked in (QUESTION, [system, HumanMessage(QUESTION)], [parts]):
            assert runnable.invoke(asked).content == "15.5"
    assert "".join(chunk.content for chunk in model.stream(QUESTION)) == "15.5"
    assert [answer.content for answer in model.batch(["1+1", "2*3"])] == ["2", "6"]


def test_an_agent_of_langchain_calls_it_as_a_tool(model: Any) -> None:
    """A script stands for the agent's own model, and the calculator answers the tool's call."""
    from langchain.agents import create_agent
    from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.tools import tool

    @tool
    def calculate(expression: str) -> str:
        """Calculates an expression exactly."""
        return str(model.invoke(expression).content)

    class Script(GenericFakeChatModel):
        def bind_tools(self, tools: Any, **options: Any) -> Any:
            return self

    call = {"name": "calculate", "args": {"expression": "471/299"}, "id": "call_1"}
    script = Script(messages=iter([AIMessage("", tool_calls=[call]), AIMessage("done")]))
    question = {"messages": [("human", "How often is 299 in 471?")]}
    messages = create_agent(script, [calculate]).invoke(question)["messages"]
    assert [message.content for message in messages[2:]] == ["1.57525084", "done"]
    # The calculator as the agent's own model: it is offered the tool, and answers itself.
    messages = create_agent(model, [calculate]).invoke({"messages": [("human", QUESTION)]})
    assert messages["messages"][-1].content == "15.5"
    messages["messages"].append(("human", "15.5*2"))  # the conversation, sent as it is
    assert create_agent(model, [calculate]).invoke(messages)["messages"][-1].content == "31"


def test_litellm_asks_and_gets_the_errors(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "LITELLM_LOCAL_MODEL_COST_MAP", "True")  # it asks no host
    import litellm

    def ask(text: str, **options: Any) -> Any:
        return litellm.completion(
            model="openai/calculator",
            api_base=address,
            api_key="none",
            messages=[{"role": "user", "content": text}],
            num_retries=0,
            **options,
        )

    tool = {"type": "function", "function": {"name": "calculate", "parameters": {}}}
    for options in ({}, {"temperature": 0, "tools": [tool], "tool_choice": "auto"}):
        assert ask(QUESTION, **options).choices[0].message.content == "15.5"
    chunks = [chunk.choices[0].delta.content or "" for chunk in ask(QUESTION, stream=True)]
    assert "".join(chunks) == "15.5"
    with pytest.raises(litellm.BadRequestError, match="position 3"):
        ask("12+")
