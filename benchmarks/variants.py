"""The table of variants: parameters, speed, and how far each is from other implementations.

    pytest tests/parity --parity-report parity.json
    python -m benchmarks.variants --parity parity.json [--json FILE] [--markdown FILE]

Every registered variant is one change to the blog's model, at the blog's size (8 layers of 96, 8
heads, 128 positions). Training is batches of 16 by 128 tokens; decoding is greedy, 64 problems at
once, a prompt of 25 characters and an answer of 11. All take their turn in every round, and the
medians are given over the baseline's. Differences are the largest of all comparisons in which the
variant took part, over the largest logit.
"""

import json
import time
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch

from benchmarks.measure import alternate, environment, parser, summary, write
from benchmarks.train import Loop
from calcgpt.config import ModelConfig
from calcgpt.data.tokenizer import TOKENIZERS
from calcgpt.inference.generate import generate
from calcgpt.model.attention import ATTENTIONS
from calcgpt.model.gpt import BLOCKS, MODELS, LanguageModel, build_model
from calcgpt.model.layers import FEEDFORWARDS, NORMS
from calcgpt.model.positions import POSITIONS
from calcgpt.recipe import load_preset, preset_names
from calcgpt.tables import markdown_table

BASELINE = "minigpt"
BATCH, PROBLEMS, PROMPT, ANSWER = 16, 64, 25, 11
TOKENIZER = TOKENIZERS["arithmetic"]("")
NAMED = ("position", "attention", "feedforward", "norm", "norm_position")  # in parity labels
Fields = dict[str, Any]


def variants() -> dict[str, ModelConfig]:
    """What the table has a row for, by what is said of it in a recipe's [model]."""
    marks = TOKENIZER.encode("$(+-*/=").tolist()  # coupled: where a number, or the answer, begins
    base = load_preset(BASELINE).model_copy(update={"row_marks": marks})
    registries: dict[str, Iterable[str]] = {
        "architecture": MODELS,
        "position": POSITIONS,
        "attention": ATTENTIONS,
        "feedforward": FEEDFORWARDS,
        "norm": NORMS,
        "norm_position": BLOCKS,
    }
    changes: list[Fields] = [{field: name} for field, names in registries.items() for name in names]
    changes += [{"n_kv_head": heads} for heads in (2, 1)]
    changes += [{"qk_norm": True}, {"tie_embeddings": True, "head_bias": False}]
    table = {f'preset = "{BASELINE}"': base}
    for change in changes:
        if any(getattr(base, field) != value for field, value in change.items()):
            table[line(change)] = base.model_copy(update=change)
    presets = [name for name in preset_names() if name not in (BASELINE, "nano")]
    return table | {f'preset = "{name}"': load_preset(name) for name in presets}


def line(change: Fields) -> str:
    """A change as TOML has it."""
    return ", ".join(f"{field} = {json.dumps(value)}" for field, value in change.items())


def decode_rate(model: LanguageModel, prompts_BP: torch.Tensor) -> float:
    """Problems per second; the weights are random, and no token ends an answer."""
    model.eval()
    start = time.perf_counter()
    generate(model, prompts_BP, stop_token=-1, max_new_tokens=ANSWER)
    rate = len(prompts_BP) / (time.perf_counter() - start)
    model.train()
    return rate


def speeds(configs: dict[str, ModelConfig], runs: int) -> dict[str, dict[str, Any]]:
    """Training and decoding, each a `summary` over all variants."""
    generator = torch.Generator().manual_seed(0)
    size = BATCH, load_preset(BASELINE).block_size + 1
    batch_BT = torch.randint(len(TOKENIZER), size, generator=generator)
    prompts_BP = torch.randint(len(TOKENIZER), (PROBLEMS, PROMPT), generator=generator)
    train, decode = {}, {}
    for name, config in configs.items():
        torch.manual_seed(0)
        model = build_model(config, len(TOKENIZER))
        train[name] = Loop(model, model, batch_BT).rate
        decode[name] = partial(decode_rate, model, prompts_BP)
    [first, *_] = configs
    return {
        "training": summary(alternate(train, runs), first),
        "decoding": summary(alternate(decode, runs), first),
    }


def compared(label: str) -> Iterator[Fields]:
    """The fields that a comparison of the parity report was about, where its label says so:
    `llama, n_kv_head=2 vs LlamaForCausalLM`, or `naive implementation: rope, full, relu, ...`."""
    subject, against, _ = label.partition(" vs ")
    preset, *parts = subject.split(", ")
    if against and preset in preset_names():
        fields = load_preset(preset).model_dump()
        for part in parts:
            field, equals, value = part.partition("=")
            if equals:
                fields[field] = int(value) if value.isdigit() else value
            elif part in FEEDFORWARDS:
                fields["feedforward"] = part
        fields["attention"] = "window" if "window=" in subject else fields["attention"]
        yield fields
    elif label.startswith("naive implementation: "):
        names = label.removeprefix("naive implementation: ").split(", ")
        keys = ("position", "attention", "feedforward", "norm", "norm_position")
        values = [name.removesuffix("-norm") for name in names]
        yield (
            dict(zip(keys, values, strict=False)) if len(names) > 1 else {"architecture": names[0]}
        )


def differences(change: str, config: ModelConfig, report: dict[str, float]) -> dict[str, float]:
    """The largest difference from the naive implementation and from transformers, where the
    variant that `change` names was compared."""
    field, _, value = change.partition(" = ")
    name = json.loads(value.partition(",")[0])
    found: dict[str, float] = {}
    for label, error in report.items():
        kind = "naive" if label.startswith("naive") else "transformers"
        for fields in compared(label):
            if field == "preset" and kind == "naive":
                same = all(getattr(config, key) == value for key, value in fields.items())
            elif field == "preset":
                same = label.partition(" vs ")[0].partition(",")[0] == name
            else:
                same = str(fields.get(field)) == str(name)
            if same:
                found[kind] = max(found.get(kind, 0.0), error)
    return found


def markdown(rows: dict[str, Fields]) -> str:
    """The table."""
    header = ["`[model]`", "parameters", "training", "decoding", "from the naive one",
              "from transformers"]  # fmt: skip
    table = []
    for change, row in rows.items():
        errors = [f"{row[of]:.0e}" if of in row else "" for of in ("naive", "transformers")]
        speeds = [f"{row['training']:.2f}", f"{row['decoding']:.2f}"]
        table.append([f"`{change}`", f"{row['parameters']:,}", *speeds, *errors])
    return markdown_table(header, table)


def main() -> None:
    """Run the benchmark and print the table."""
    options = parser("Measure every variant.", runs=7)
    options.add_argument("--parity", type=Path, required=True, help="what --parity-report wrote")
    options.add_argument("--markdown", type=Path, help="write the table to this file, too")
    arguments = options.parse_args()
    torch.set_num_threads(arguments.threads)

    configs = variants()
    report = json.loads(arguments.parity.read_text("utf-8"))
    measured = speeds(configs, arguments.runs)
    rows = {
        change: {
            "parameters": build_model(config, len(TOKENIZER)).n_parameters(),
            **{kind: of["ratio"][change] for kind, of in measured.items()},
            **differences(change, config, report),
        }
        for change, config in configs.items()
    }
    table = markdown(rows)
    print(table)
    if arguments.markdown:
        arguments.markdown.write_text(table + "\n", encoding="utf-8")
    used = environment(torch.device("cpu"))
    write(arguments.json, {"environment": used, "variants": rows, **measured})


if __name__ == "__main__":
    main()
