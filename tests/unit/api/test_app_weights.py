"""The weights and the manifest that the engine in the browser loads."""

import numpy as np
from safetensors.numpy import load
from serving import client_of, problem

from api.service import load_model
from calcgpt.checkpoint import Checkpoint
from calcgpt.registry import resolve


def test_weights_come_with_a_manifest_and_are_sent_once(tiny: Checkpoint) -> None:
    checkpoint = Checkpoint.load(resolve("calculator"))
    with client_of(load_model(checkpoint), load_model(tiny)) as client:
        response = client.get("/v1/models/calculator/weights")
        assert response.status_code == 200
        assert response.headers["content-type"] == "application/octet-stream"
        stored, tensors = checkpoint.stored_arrays, load(response.content)
        assert tensors.keys() == stored.keys()
        for name, tensor in tensors.items():
            np.testing.assert_array_equal(tensor, stored[name])
        manifest = client.get("/v1/models/calculator/manifest").json()
        assert (manifest["id"], manifest["layers"], manifest["heads"]) == ("calculator", 3, 4)

        tag = response.headers["etag"]
        for known in (tag, f"W/{tag}", f'"other", {tag}', "*"):
            again = client.get("/v1/models/calculator/weights", headers={"If-None-Match": known})
            assert (again.status_code, again.content) == (304, b"")
            assert again.headers["cache-control"] == "private, no-cache"
        other = client.get("/v1/models/calculator/weights", headers={"If-None-Match": '"other"'})
        assert other.content == response.content
        problem(client.get("/v1/models/large/weights"), 404, "unknown-model")
        for file in ("weights", "manifest"):
            refused = problem(client.get(f"/v1/models/tiny/{file}"), 404, "no-weights")
            assert refused["detail"].endswith("does not support architecture 'gpt'")
