"""The peer of the benchmark of decoding: llama.cpp, by its package llama-cpp-python.

Sequences are decoded in parallel by `llama_decode`. Its defaults are the fastest: flash attention,
and a cache of f16 for each sequence. It was slower with a cache of float32, with one cache for all
sequences and without flash attention, and not faster with larger or smaller batches of prompts.

Shapes: B sequences, P tokens of a prompt, L written tokens, V vocabulary.
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

INSTALL = "pip install llama-cpp-python==0.3.36 gguf, which compiles it for this processor"
FORMATS = {"float32": 0, "f16": 1, "q8_0": 7}  # of the weights: llama_ftype


class LlamaCpp:
    """Decodes greedily, always to the given length. A matrix of `q8_0` whose rows are no multiple
    of 32 is f16."""

    def __init__(self, checkpoint: Checkpoint, kind: str, threads: int) -> None:
        if not is_installed("llama_cpp"):
            raise UserError(f"the peer needs llama-cpp-python: {INSTALL}")
        import llama_cpp

        logging.getLogger("llama-cpp-python").setLevel(logging.CRITICAL)
        self._library, self._n_vocab, self._threads = llama_cpp, len(checkpoint.tokenizer), threads
        self._contexts: dict[tuple[int, ...], Any] = {}
        with tempfile.TemporaryDirectory() as folder:
            path, converted = Path(folder, "float32.gguf"), Path(folder, "converted.gguf")
            write_gguf(checkpoint, path)
            options = llama_cpp.llama_model_quantize_default_params()
            options.ftype = FORMATS[kind]
            names = bytes(path), bytes(converted)
            assert not llama_cpp.llama_model_quantize(*names, ctypes.byref(options))
            options = llama_cpp.llama_model_default_params()
            self._model = llama_cpp.llama_model_load_from_file(bytes(converted), options)

    def __call__(self, length: int, prompts_BP: torch.Tensor) -> list[list[int]]:
        """Returns `length` tokens for each prompt."""
        batch, n_prompt = shape = tuple(prompts_BP.shape)
        if (*shape, length) not in self._contexts:
            self._contexts[*shape, length] = self._new_context(batch, n_prompt, length)
        context, reading, writing, token_B, position_B = self._contexts[*shape, length]
        library = self._library
        library.llama_memory_clear(library.llama_get_memory(context), False)
        np.ctypeslib.as_array(reading.token, shape)[:] = prompts_BP
        position_B[:] = n_prompt
        written_BL = np.empty((batch, length), np.int32)
        for index in range(length):
            assert not library.llama_decode(context, writing if index else reading)
            logits = library.llama_get_logits(context)
            logits_BV = np.ctypeslib.as_array(logits, (batch, self._n_vocab))
            token_B[:] = written_BL[:, index] = logits_BV.argmax(axis=1)
            position_B += index > 0
        answers: list[list[int]] = written_BL.tolist()
        return answers

    def _new_context(self, batch: int, n_prompt: int, length: int) -> tuple[Any, ...]:
        """Returns a context, the batch of the prompts, and that of a step with its arrays."""
        options = self._library.llama_context_default_params()
        options.n_seq_max, options.n_ctx = batch, batch * (n_prompt + length)
        options.n_batch = batch * n_prompt
        options.n_threads = options.n_threads_batch = self._threads
        context = self._library.llama_init_from_model(self._model, options)
        reading, writing = self._new_batch(batch, n_prompt), self._new_batch(batch, 1)
        arrays = (np.ctypeslib.as_array(part, (batch,)) for part in (writing.token, writing.pos))
        return context, reading, writing, *arrays

    def _new_batch(self, batch: int, n_token: int) -> Any:
        """Returns a batch of `n_token` tokens of each sequence, of which the last has logits."""
        result = self._library.llama_batch_init(batch * n_token, 0, 1)
        result.n_tokens = batch * n_token
        for index in range(batch * n_token):
            sequence, position = divmod(index, n_token)
            result.pos[index], result.n_seq_id[index] = position, 1
            result.seq_id[index][0] = sequence
            result.logits[index] = position == n_token - 1
        return result
