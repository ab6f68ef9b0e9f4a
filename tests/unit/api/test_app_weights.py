"""What the engine in the browser loads of a model."""

from checkpoint_folders import make
from serving import client_of, problem

from api.service import load_model
from calcgpt.checkpoint import Checkpoint
from calcgpt.inference.browser import manifest_of
from calcgpt.registry import resolve


def test_weights_and_manifest_are_sent_once() -> None:
    folder = resolve("calculator")
    checkpoint = Checkpoint.load(folder)
    with client_of(load_model(checkpoint)) as client:
        found = client.get("/v1/models/calculator/manifest")
        assert found.json() == manifest_of(checkpoint)
        assert found.json()["vocabulary"] == "$()*+-./0123456789:;=an|"

        response = client.get("/v1/models/calculator/weights")
        assert response.status_code == 200
        assert response.headers["content-type"] == "application/octet-stream"
        assert response.content == (folder / "model.safetensors").read_bytes()
        tag = response.headers["etag"]
        again = client.get("/v1/models/calculator/weights", headers={"If-None-Match": tag})
        assert (again.status_code, again.headers["cache-control"]) == (304, "private, no-cache")
        problem(client.get("/v1/models/large/weights"), 404, "unknown-model")


def test_a_model_of_another_form_is_not_for_the_browser() -> None:
    with client_of(load_model(make())) as client:
        for file in ("weights", "manifest"):
            refused = problem(client.get(f"/v1/models/made/{file}"), 404, "no-weights")
            message = "the engine of the page does not support architecture 'gpt'"
            assert refused["detail"] == message
