"""The weights that the engine in the browser loads."""

import json
from dataclasses import replace

import numpy as np
from checkpoint_folders import make
from safetensors.numpy import load
from serving import client_of, problem

from api.service import load_model
from calcgpt.checkpoint import Checkpoint
from calcgpt.inference.browser import weights_file


def test_weights_come_with_a_manifest_and_are_sent_once(tiny: Checkpoint) -> None:
    with client_of(load_model(tiny)) as client:
        response = client.get("/v1/models/tiny/weights")
        assert response.status_code == 200
        assert response.headers["content-type"] == "application/octet-stream"
        tensors = load(response.content)
        assert {name: tensor.shape for name, tensor in tensors.items()} == {
            name: array.shape for name, array in tiny.arrays.items()
        }
        for name, tensor in tensors.items():
            assert tensor.dtype == np.float16
            np.testing.assert_allclose(tensor, tiny.arrays[name], rtol=1e-3, atol=1e-6)
        size = int.from_bytes(response.content[:8], "little")
        manifest = json.loads(
            json.loads(response.content[8 : 8 + size])["__metadata__"]["manifest"]
        )
        assert manifest["vocabulary"] == "$()*+-./0123456789=an"
        assert manifest["model"]["head_dim"] == 8

        tag = response.headers["etag"]
        for known in (tag, f"W/{tag}", f'"other", {tag}', "*"):
            again = client.get("/v1/models/tiny/weights", headers={"If-None-Match": known})
            assert (again.status_code, again.content) == (304, b"")
            assert again.headers["cache-control"] == "private, no-cache"
        other = client.get("/v1/models/tiny/weights", headers={"If-None-Match": '"other"'})
        assert other.content == response.content
        problem(client.get("/v1/models/large/weights"), 404, "unknown-model")


def test_weights_that_are_too_large_for_16_bits_have_32(tiny: Checkpoint) -> None:
    arrays = {**tiny.arrays, "head.bias": np.full_like(tiny.arrays["head.bias"], 70_000)}
    large = replace(tiny, arrays=arrays)
    tensors = load(weights_file(large))
    assert {tensor.dtype for tensor in tensors.values()} == {np.dtype(np.float32)}
    np.testing.assert_array_equal(tensors["head.bias"], arrays["head.bias"])


def test_a_model_that_the_browser_cannot_run_has_no_weights_for_it() -> None:
    with client_of(load_model(make(position="alibi"), engine="torch")) as client:
        refused = problem(client.get("/v1/models/made/weights"), 404, "no-weights")
        assert refused["detail"] == "the engine in the browser does not support position 'alibi'"
