"""The OpenAPI document is complete, and its copy in the repository is current."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from jsonschema import Draft202012Validator

from api.app import create_app, document
from api.http import MEDIA_TYPE
from api.settings import Settings

COPY = Path(__file__).parents[3] / "docs" / "openapi.json"
DOCUMENT = document()
OPERATIONS = {
    f"{method.upper()} {path}": operation
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
}
SCHEMAS = DOCUMENT["components"]["schemas"]


def contents(operation: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Returns the bodies of the request and of successful responses."""
    yield from operation.get("requestBody", {"content": {}})["content"].values()
    for status, response in operation["responses"].items():
        if status.startswith("2"):
            yield from response["content"].values()


def examples(schema: dict[str, Any]) -> list[Any]:
    """Returns the examples of a schema, its own or made from those of its members."""
    if "$ref" in schema:
        return examples(SCHEMAS[schema["$ref"].rpartition("/")[2]])
    if "examples" in schema:
        return list(schema["examples"])
    for key in ("const", "default"):
        if key in schema:
            return [schema[key]]
    if "properties" in schema:
        members = {name: examples(member) for name, member in schema["properties"].items()}
        whole = all(members[name] for name in schema.get("required", []))
        return [{name: values[0] for name, values in members.items() if values}] if whole else []
    if "items" in schema:
        return [[one] for one in examples(schema["items"])]
    return [one for way in schema.get("anyOf", []) for one in examples(way)]


def test_the_copy_in_the_repository_is_current() -> None:
    assert json.loads(COPY.read_text("utf-8")) == json.loads(json.dumps(DOCUMENT)), (
        "docs/openapi.json is not what the service serves: `make openapi` renews it"
    )


def test_concurrent_first_requests_get_the_document() -> None:
    client = TestClient(create_app(Settings(), lambda: iter(())))
    with client, ThreadPoolExecutor(16) as threads:
        answers = list(threads.map(lambda _: client.get("/openapi.json"), range(16)))
    assert [answer.status_code for answer in answers] == [200] * 16
    assert {answer.content for answer in answers} == {json.dumps(DOCUMENT).encode()}


def test_a_wrong_method_is_told_the_methods_of_the_document() -> None:
    app = create_app(Settings(), lambda: iter(()))
    client = TestClient(app)
    for path, methods in DOCUMENT["paths"].items():
        for method in {"get", "post", "put", "patch", "delete", "options", "trace"} - {*methods}:
            response = client.request(method.upper(), path)
            assert response.status_code == 405
            allowed = [*sorted(map(str.upper, methods)), *(["HEAD"] if "get" in methods else [])]
            assert response.headers["allow"] == ", ".join(allowed)
    assert app.openapi_schema is None  # it takes too long to make for an error


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_every_operation_is_described_with_examples(operation: dict[str, Any]) -> None:
    assert operation["summary"]
    assert operation["description"].endswith(".")
    assert operation["tags"]
    for content in contents(operation):
        is_file = content["schema"].get("format") == "binary"
        assert is_file or "example" in content or examples(content["schema"])
    for status, response in operation["responses"].items():
        if status >= "400":
            assert response["content"].keys() == {MEDIA_TYPE}
            assert examples(response["content"][MEDIA_TYPE]["schema"])


@pytest.mark.parametrize("name", SCHEMAS)
def test_examples_are_valid_by_their_schemas(name: str) -> None:
    def check(schema: dict[str, Any]) -> None:
        validator = Draft202012Validator({**schema, "components": DOCUMENT["components"]})
        for example in examples(schema):
            validator.validate(example)
        for member in schema.get("properties", {}).values():
            check(member)

    Draft202012Validator.check_schema(SCHEMAS[name])
    check(SCHEMAS[name])
