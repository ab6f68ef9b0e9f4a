"""Export to GGUF, the format of llama.cpp: the weights and the tokenizer in one file."""

from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path

import gguf
import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel
from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

from calcgpt.base.errors import ConfigError
from calcgpt.base.files import new_folder, write_json, write_text
from calcgpt.checkpoint import CARD, METRICS, Checkpoint, check_replaceable
from calcgpt.errors import CheckpointError
from calcgpt.tokenizer import CharTokenizer
from calcgpt_lab.export.hf import (
    RMS_NORM_EPS,
    check_llama,
    llama_weights,
    logit_difference,
    prompt_of,
    random_tokens,
    stop_id,
)
from calcgpt_lab.model.gpt import GPT
from calcgpt_lab.saving import model_card

FILE = "model.gguf"
USE = Path(__file__).with_name("gguf_readme.md")  # of an export, below the card of the model


def export_gguf(checkpoint: Checkpoint, out: Path, force: bool) -> str:
    """Writes model.gguf, metrics.json and README.md; see `calcgpt_lab.export`.

    It is read with transformers, which has a reader of its own for GGUF.
    """
    check_expressible(checkpoint)
    check_replaceable(out, force, FILE, METRICS)
    with new_folder(out) as staging:
        write_gguf(checkpoint, staging / FILE)
        write_json(staging / METRICS, checkpoint.metrics)
        write_text(staging / CARD, _card(checkpoint, out.name))
        model, tokens_BT = checkpoint.model, random_tokens(checkpoint.model)
        if reason := logit_difference(model, _read(staging / FILE), tokens_BT):
            raise CheckpointError(f"{out} is not written: as a GGUF file, {reason}")
    return "a GGUF file for llama.cpp"


def check_expressible(checkpoint: Checkpoint) -> None:
    """Raises ConfigError unless llama.cpp's `llama` and one of its tokenizers do what `checkpoint`
    describes."""
    config, tokenizer = checkpoint.recipe.model, checkpoint.tokenizer
    check_llama(config, "gguf")
    if config.rope_base > torch.finfo(torch.float32).max:
        raise ConfigError("export to gguf: rope_base is beyond float32")
    # A character whose first byte is that of another one, but which is not in the vocabulary, would
    # stop llama.cpp's tokenizer for ever.
    if not isinstance(tokenizer, CharTokenizer) or not tokenizer.vocabulary.isascii():
        raise ConfigError("export to gguf needs a tokenizer of ASCII characters")


def _escaped(character: str) -> str:
    """Returns a character as llama.cpp's tokenizer of RWKV reads it."""
    is_plain = character.isprintable() and character != "\\"
    return character if is_plain else f"\\x{ord(character):02x}"


def write_gguf(checkpoint: Checkpoint, path: Path) -> None:
    """Writes a file for llama.cpp of a checkpoint that it can express.

    The tokenizer is that of RWKV, the only one there that neither changes spaces nor has an end of
    text by default: that of Llama ends every text at token 2. A character that is not in the
    vocabulary gets no id, and llama.cpp refuses to decode it.
    """
    model, config = checkpoint.model, checkpoint.model.config
    assert isinstance(model, GPT)
    assert isinstance(checkpoint.tokenizer, CharTokenizer)
    tokens = [_escaped(character) for character in checkpoint.tokenizer.vocabulary]
    writer = gguf.GGUFWriter(path, "llama")
    # No name: llama.cpp treats models with some names in other ways.
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_context_length(config.block_size)
    writer.add_embedding_length(config.n_embd)
    writer.add_block_count(config.n_layer)
    writer.add_feed_forward_length(config.ff_width)
    writer.add_head_count(config.n_head)
    writer.add_head_count_kv(config.kv_heads)
    writer.add_layer_norm_rms_eps(RMS_NORM_EPS)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_rope_freq_base(config.rope_base)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("rwkv")
    writer.add_token_list(tokens)
    writer.add_add_bos_token(False)
    if (stop := stop_id(checkpoint)) is not None:
        writer.add_eos_token_id(stop)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config.n_layer)
    for name, tensor in llama_weights(model).items():
        if name == "lm_head.weight" and config.tie_embeddings:
            continue  # llama.cpp then takes the token embedding
        if name.endswith(("q_proj.weight", "k_proj.weight")):
            # Rotated pairs are neighbours there, and half a head apart here.
            halves = tensor.view(-1, 2, config.head_dim // 2, config.n_embd)
            tensor = halves.transpose(1, 2).reshape(tensor.shape)
        writer.add_tensor(names.get_name(name, (".weight",)), tensor.numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _read(path: Path) -> PreTrainedModel:
    """Returns the model in a file, read by transformers."""
    config = LlamaConfig(**load_gguf_checkpoint(path)["config"])
    model = LlamaForCausalLM(config).eval()
    with redirect_stderr(StringIO()):  # a progress bar
        content = load_gguf_checkpoint(path, return_tensors=True, model_to_load=model)
    model.load_state_dict(content["tensors"], strict=not config.tie_word_embeddings)
    return model


def _card(checkpoint: Checkpoint, folder: str) -> str:
    """Returns the README in Markdown."""
    card = model_card(folder, checkpoint.recipe, checkpoint.metrics, "of the checkpoint")
    return f"{card}\n" + USE.read_text("utf-8").format(
        name=checkpoint.name,
        prompt=prompt_of(checkpoint),
        end="closing `$`" if stop_id(checkpoint) is not None else "end of the context",
    )
