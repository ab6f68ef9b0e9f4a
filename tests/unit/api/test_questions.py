"""/v1/ask, and models of a user's own task beside those that calculate."""

from __future__ import annotations

from fake_decoder import calculator_model, task_model
from serving import client_of, problem


def test_a_model_of_a_task_is_asked_and_does_not_calculate() -> None:
    written = {"ab=": "b,a=ba$", "b=": "b$", "aaa=": "a" * 600}
    with client_of(task_model(written), calculator_model()) as client:

        def ask(question: object, **more: object) -> object:
            response = client.post("/v1/ask", json={"question": question, **more})
            assert response.status_code == 200, response.text
            return [response.json()[name] for name in ("question", "result", "work", "model")]

        assert ask("ab") == ["ab", "ba", "b,a", "task"]
        assert ask("b", model="task") == ["b", "b", None, "task"]
        assert ask("aaa") == ["aaa", None, None, "task"]
        task, calculator = client.get("/v1/models").json()["data"]
        assert (task["domain"], calculator["task"]) == (None, None)
        assert task["task"] == {"examples": ["ab"], "characters": "(,ab", "max_characters": 511}

        for question in ("", "x", "a" * 512):
            problem(client.post("/v1/ask", json={"question": question}), 422, "bad-question")
        problem(client.post("/v1/ask", json={"question": ["a"]}), 422, "invalid-request")
        other = client.post("/v1/ask", json={"question": "a", "model": "fake"})
        assert "POST /v1/calculate" in problem(other, 422, "other-task")["detail"]
        for path, body in (
            ("calculate", {"expression": "1+1"}),
            ("calculate/batch", {"expressions": ["1+1"]}),
            ("calculate/stream", {"expression": "1+1"}),
            ("chat/completions", {"messages": [{"role": "user", "content": "1+1"}]}),
        ):
            refused = client.post(f"/v1/{path}", json={"model": "task", **body})
            assert "POST /v1/ask" in problem(refused, 422, "other-task")["detail"]
