"""Whether every variant trains on another device, in another precision or compiled, as on the CPU.

    python -m tools.agreement [--device cuda] [--compile] [--json FILE] [VARIANT ...]

The losses of 20 steps from the same weights are compared with those of the CPU in float32. A
variant agrees if those in float32 differ by less than a thousandth.
"""

import json
from collections.abc import Iterable
from typing import Any

import torch

from benchmarks.measure import environment, parser, run, write
from benchmarks.train import Loop
from calcgpt.config import ModelConfig
from calcgpt_lab.data.tokenizers import TOKENIZERS
from calcgpt_lab.model.attention import ATTENTIONS
from calcgpt_lab.model.base import BLOCKS, LanguageModel, Loss, summed_loss
from calcgpt_lab.model.gpt import MODELS, build_model, compiled
from calcgpt_lab.model.layers import FEEDFORWARDS, NORMS
from calcgpt_lab.model.positions import POSITIONS
from calcgpt_lab.recipe import PRESETS, load_preset

VOCABULARY, STEPS, TOLERANCE = 64, 20, 1e-3
Row = dict[str, Any]


def variants() -> dict[str, ModelConfig]:
    """Returns every variant of the blog's model: the line of a recipe's [model] -> the config."""
    # Of coupled positions: the characters before a number or the answer.
    marks = TOKENIZERS["arithmetic"]("").encode("$(+-*/=").tolist()
    base = load_preset("minigpt").model_copy(update={"row_marks": marks})
    tables: dict[str, Iterable[str]] = {
        "architecture": MODELS,
        "position": POSITIONS,
        "attention": ATTENTIONS,
        "feedforward": FEEDFORWARDS,
        "norm": NORMS,
        "norm_position": BLOCKS,
    }
    changes: list[Row] = [{field: name} for field, names in tables.items() for name in names]
    changes += [{"n_kv_head": heads} for heads in (2, 1)]
    changes += [{"qk_norm": True}, {"tie_embeddings": True, "head_bias": False}]
    table = {'preset = "minigpt"': base}
    for change in changes:
        if any(getattr(base, field) != value for field, value in change.items()):
            table[line(change)] = base.model_copy(update=change)
    presets = [name for name in PRESETS if name not in ("minigpt", "nano")]
    return table | {f'preset = "{name}"': load_preset(name) for name in presets}


def line(change: Row) -> str:
    """Returns a change as TOML, on one line."""
    return ", ".join(f"{field} = {json.dumps(value)}" for field, value in change.items())


def losses(
    config: ModelConfig, device: torch.device, bf16: bool, compile: bool, n_step: int
) -> torch.Tensor:
    """Returns the losses of a few steps from the same weights, (n_step,), on the CPU."""
    if compile:
        torch.compiler.reset()  # torch limits how often it compiles one function
    torch.manual_seed(0)
    model = build_model(config, VOCABULARY)
    batch = torch.randint(VOCABULARY, (8, config.block_size + 1)).to(device)
    model = model.to(device)
    loop = Loop(model, _loss(model, device, bf16, compile), batch)
    return torch.stack([loop.step() for _ in range(n_step)]).cpu()


def _loss(model: LanguageModel, device: torch.device, bf16: bool, compile: bool) -> Loss:
    call = compiled(summed_loss(model), model) if compile else summed_loss(model)

    def loss(inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        with torch.autocast(device.type, torch.bfloat16, enabled=bf16):
            return call(inputs, targets)

    return loss


def agreement(config: ModelConfig, device: torch.device, compile: bool) -> Row:
    """Returns the largest relative difference of a loss, in both precisions."""
    config = config.model_copy(update={"n_layer": 2, "block_size": 128})
    expected = losses(config, torch.device("cpu"), False, False, STEPS)
    differences = {}
    for name, bf16 in (("float32", False), ("bf16", True)):
        actual = losses(config, device, bf16, compile, STEPS)
        differences[name] = float((actual / expected - 1).abs().max())
    return {**differences, "agrees": differences["float32"] < TOLERANCE}


def main() -> None:
    options = parser("Compare how every variant trains on a device and on the CPU.")
    options.add_argument("--device", type=torch.device, default=torch.device("cpu"))
    options.add_argument("--compile", action="store_true")
    options.add_argument("variants", nargs="*", metavar="VARIANT", help="default: all")
    arguments = options.parse_args()
    torch.set_num_threads(arguments.threads)
    rows = {}
    for name, config in variants().items():
        if name in (arguments.variants or [name]):
            rows[name] = agreement(config, arguments.device, arguments.compile)
            print(name, json.dumps(rows[name]), flush=True)
    write(arguments.json, {"environment": environment(arguments.device), "rows": rows})


if __name__ == "__main__":
    run(main)
