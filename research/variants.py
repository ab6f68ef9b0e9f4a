"""The table of variants: parameters, speed, and the difference from other implementations.

    python -m research.variants --parity parity.json [--json FILE] [--markdown FILE]

Each variant is one change to the blog's model, at the blog's size: 8 layers of 96, 8 heads, 128
positions. Training uses batches of 16 by 128 tokens. Decoding is greedy, 64 problems at once, with
a prompt of 25 characters and an answer of 11. The variants alternate in every round. Speeds are
medians relative to the baseline's. A difference is the largest of all comparisons of the variant,
relative to the largest logit.

Ran at commit 212e06a and before.
"""

import json
import time
from functools import partial
from pathlib import Path
from typing import Any

import torch

from benchmarks.measure import alternate, environment, parser, run, summary, write
from benchmarks.train import Loop
from calcgpt.config import ModelConfig
from calcgpt_lab.data.tokenizers import TOKENIZERS
from calcgpt_lab.model.base import LanguageModel, summed_loss
from calcgpt_lab.model.decoding import generate
from calcgpt_lab.model.gpt import build_model
from calcgpt_lab.model.layers import FEEDFORWARDS
from calcgpt_lab.recipe import PRESETS, load_preset
from calcgpt_lab.tables import markdown_table
from tools.agreement import variants

BASELINE = "minigpt"
BATCH, PROBLEMS, PROMPT, ANSWER = 16, 64, 25, 11
TOKENIZER = TOKENIZERS["arithmetic"]("")
NAMED = ("position", "attention", "feedforward", "norm", "norm_position")  # in parity labels
Fields = dict[str, Any]


def decode_rate(model: LanguageModel, prompts_BP: torch.Tensor) -> float:
    """Returns problems per second. The weights are random, and no token ends an answer."""
    model.eval()
    start = time.perf_counter()
    generate(model, prompts_BP.numpy(), stop_token=-1, max_new_tokens=ANSWER)
    rate = len(prompts_BP) / (time.perf_counter() - start)
    model.train()
    return rate


def speeds(configs: dict[str, ModelConfig], runs: int) -> dict[str, dict[str, Any]]:
    """Returns the speeds of training and decoding, each a `summary` over all variants."""
    generator = torch.Generator().manual_seed(0)
    size = BATCH, load_preset(BASELINE).block_size + 1
    batch_BT = torch.randint(len(TOKENIZER), size, generator=generator)
    prompts_BP = torch.randint(len(TOKENIZER), (PROBLEMS, PROMPT), generator=generator)
    train, decode = {}, {}
    for name, config in configs.items():
        torch.manual_seed(0)
        model = build_model(config, len(TOKENIZER))
        train[name] = Loop(model, summed_loss(model), batch_BT).rate
        decode[name] = partial(decode_rate, model, prompts_BP)
    [first, *_] = configs
    return {
        "training": summary(alternate(train, runs), first),
        "decoding": summary(alternate(decode, runs), first),
    }


def compared(label: str) -> Fields:
    """Returns the fields that a comparison of the parity report tested, if its label names them:
    `llama, n_kv_head=2 vs LlamaForCausalLM`, or `naive implementation: rope, full, relu, ...`."""
    if label.startswith("naive implementation: "):
        names = label.removeprefix("naive implementation: ").split(", ")
        if len(names) == 1:
            return {"architecture": names[0]}
        return dict(zip(NAMED, (name.removesuffix("-norm") for name in names), strict=True))
    subject, reference, _ = label.partition(" vs ")
    preset, *parts = subject.split(", ")
    if not reference or preset not in PRESETS:
        return {}
    fields = load_preset(preset).model_dump()
    for part in parts:
        field, equals, value = part.partition("=")
        if equals:
            fields[field] = int(value) if value.isdigit() else value
        elif part in FEEDFORWARDS:
            fields["feedforward"] = part
    return fields


def differences(change: str, config: ModelConfig, report: dict[str, float]) -> dict[str, float]:
    """Returns the largest difference from the naive implementation and from transformers, in the
    comparisons of the variant that `change` names."""
    field, _, value = change.partition(" = ")
    name = json.loads(value.partition(",")[0])
    largest: dict[str, float] = {}
    for label, error in report.items():
        kind = "naive" if label.startswith("naive") else "transformers"
        if not (fields := compared(label)):
            continue
        if field == "preset" and kind == "naive":
            same = all(getattr(config, key) == value for key, value in fields.items())
        elif field == "preset":
            same = label.partition(" vs ")[0].partition(",")[0] == name
        else:
            same = str(fields.get(field)) == str(name)
        if same:
            largest[kind] = max(largest.get(kind, 0.0), error)
    return largest


def markdown(rows: dict[str, Fields]) -> str:
    """Returns the table."""
    kinds = ["training", "decoding"]
    header = ["`[model]`", "parameters", *kinds, "from the naive one", "from transformers"]
    table = []
    for change, row in rows.items():
        errors = [f"{row[key]:.0e}" if key in row else "" for key in ("naive", "transformers")]
        rates = [f"{row[kind]:.2f}" for kind in kinds]
        table.append([f"`{change}`", f"{row['parameters']:,}", *rates, *errors])
    return markdown_table(header, table)


def main() -> None:
    """Run the benchmark and print the table."""
    options = parser("Measure every variant.", runs=7)
    options.add_argument("--parity", type=Path, required=True, help="file of errors, by variant")
    options.add_argument("--markdown", type=Path, help="also write the table to this file")
    arguments = options.parse_args()
    torch.set_num_threads(arguments.threads)

    configs = variants()
    report = json.loads(arguments.parity.read_text("utf-8"))
    measured = speeds(configs, arguments.runs)
    rows = {
        change: {
            "parameters": build_model(config, len(TOKENIZER)).n_parameters(),
            **{kind: speed["ratio"][change] for kind, speed in measured.items()},
            **differences(change, config, report),
        }
        for change, config in configs.items()
    }
    table = markdown(rows)
    print(table)
    if arguments.markdown:
        arguments.markdown.write_text(table + "\n", encoding="utf-8")
    machine = environment(torch.device("cpu"))
    write(arguments.json, {"environment": machine, "variants": rows, **measured})


if __name__ == "__main__":
    run(main)
