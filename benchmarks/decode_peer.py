"""The peer of the benchmark of decoding: llama.cpp, by its package llama-cpp-python.

Sequences are decoded in parallel by `llama_decode`, with a cache of its own for each, which is
faster on a processor than the unified one, and the most probable tokens are taken by NumPy from all
logits at once.

Shapes: B sequences, P tokens of a prompt, V vocabulary.
"""

import ctypes
import logging
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from calcgpt.checkpoint import Checkpoint
from calcgpt.export.gguf import write_gguf
from datagen.errors import UserError
from datagen.extras import is_installed

INSTALL = """CMAKE_ARGS="-DGGML_NATIVE=ON -DGGML_OPENMP=OFF" \
pip install --no-binary llama-cpp-python llama-cpp-python==0.3.36"""
FORMATS = {"float32": 0, "f16": 1, "q8_0": 7}  # llama_ftype


class LlamaCpp:
    """Decodes greedily with llama.cpp, always to the given length.

    The weights are float32, f16 or q8_0 (a matrix whose rows are no multiple of 32, f16 instead).
    Keys and values are float32 with weights of float32, else f16.
    """

    def __init__(self, checkpoint: Checkpoint, kind: str, threads: int) -> None:
        if not is_installed("llama_cpp"):
            raise UserError(f"the peer needs llama-cpp-python: {INSTALL}")
        import llama_cpp

        logging.getLogger("llama-cpp-python").setLevel(logging.ERROR)
        self._library, self._n_vocab = llama_cpp, len(checkpoint.tokenizer)
        self._is_float32, self._threads = kind == "float32", threads
        self._contexts: dict[tuple[int, int, int], Any] = {}
        with tempfile.TemporaryDirectory() as folder:
            path, converted = Path(folder, "float32.gguf"), Path(folder, "converted.gguf")
            write_gguf(checkpoint, path)
            if not self._is_float32:
                options = llama_cpp.llama_model_quantize_default_params()
                options.ftype = FORMATS[kind]
                names = (str(path).encode(), str(converted).encode())
                assert not llama_cpp.llama_model_quantize(*names, ctypes.byref(options))
                path = converted
            options = llama_cpp.llama_model_default_params()
            self._model = llama_cpp.llama_model_load_from_file(str(path).encode(), options)

    def __call__(self, length: int, prompts_BP: torch.Tensor) -> list[list[int]]:
        """Returns `length` tokens for each prompt."""
        batch, n_prompt = prompts_BP.shape
        key = batch, n_prompt, length
        if key not in self._contexts:
            self._contexts[key] = self._new_context(*key)
        context, reading, writing, token_B, position_B = self._contexts[key]
        library = self._library
        library.llama_memory_clear(library.llama_get_memory(context), False)
        token_BP = np.ctypeslib.as_array(reading.token, (batch, n_prompt))
        token_BP[:] = prompts_BP
        written_BL = np.empty((batch, length), np.int32)
        step = reading
        position_B[:] = n_prompt
        for index in range(length):
            assert not library.llama_decode(context, step)
            logits = library.llama_get_logits(context)
            logits_BV = np.ctypeslib.as_array(logits, (batch, self._n_vocab))
            token_B[:] = written_BL[:, index] = logits_BV.argmax(axis=1)
            position_B += index > 0
            step = writing
        answers: list[list[int]] = written_BL.tolist()
        return answers

    def _new_context(self, batch: int, n_prompt: int, length: int) -> Any:
        """Returns a context, the batch of the prompts and that of a step with its arrays."""
        library = self._library
        options = library.llama_context_default_params()
        options.n_seq_max = batch
        options.n_ctx = batch * (n_prompt + length)
        options.n_batch = options.n_ubatch = batch * n_prompt
        options.n_threads = options.n_threads_batch = self._threads
        options.kv_unified = False
        if self._is_float32:
            options.type_k = options.type_v = library.GGML_TYPE_F32
        context = library.llama_init_from_model(self._model, options)
        reading = self._new_batch(batch, n_prompt)
        writing = self._new_batch(batch, 1)
        arrays = (np.ctypeslib.as_array(part, (batch,)) for part in (writing.token, writing.pos))
        return context, reading, writing, *arrays

    def _new_batch(self, batch: int, n_token: int) -> Any:
        """Returns a batch of `n_token` tokens of each sequence. The last one has logits."""
        result = self._library.llama_batch_init(batch * n_token, 0, 1)
        result.n_tokens = batch * n_token
        for index in range(batch * n_token):
            result.pos[index] = index % n_token
            result.n_seq_id[index] = 1
            result.seq_id[index][0] = index // n_token
            result.logits[index] = index % n_token == n_token - 1
        return result
