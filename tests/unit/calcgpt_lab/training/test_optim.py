import itertools
import math

import pytest
import torch
from torch import nn

from calcgpt.config import ModelConfig, TrainConfig
from calcgpt_lab.model.gpt import GPT
from calcgpt_lab.training.optim import OPTIMIZERS, SCHEDULES, Muon, lr_factor

MODEL = ModelConfig(n_layer=1, n_embd=16, n_head=2, block_size=16)


@pytest.mark.parametrize("name", list(SCHEDULES))
def test_schedules_warm_up_linearly_then_never_rise(name: str) -> None:
    config = TrainConfig(schedule=name, steps=100, warmup_steps=10, min_lr_ratio=0.1)
    factors = [lr_factor(config, step) for step in range(100)]
    assert factors[:10] == pytest.approx([(step + 1) / 10 for step in range(10)])
    assert factors[10] == 1.0
    assert all(later <= earlier for earlier, later in itertools.pairwise(factors[10:]))


@pytest.mark.parametrize(
    ("name", "middle", "end"), [("constant", 1.0, 1.0), ("linear", 0.6, 0.2), ("cosine", 0.6, 0.2)]
)
def test_schedules_end_where_they_should(name: str, middle: float, end: float) -> None:
    config = TrainConfig(schedule=name, steps=100, min_lr_ratio=0.2)
    assert lr_factor(config, 50) == pytest.approx(middle)
    assert lr_factor(config, 100) == pytest.approx(end)
    quarter = 0.2 + 0.8 * 0.5 * (1 + math.cos(math.pi / 4))
    if name == "cosine":
        assert lr_factor(config, 25) == pytest.approx(quarter)


@pytest.mark.parametrize("name", list(OPTIMIZERS))
def test_optimizers_own_every_parameter_once_and_lower_the_loss(name: str) -> None:
    torch.manual_seed(0)
    model = GPT(MODEL, 21)
    optimizers = OPTIMIZERS[name](model, TrainConfig(optimizer=name, lr=1e-2, muon_lr=1e-2))
    owned = [p for o in optimizers for group in o.param_groups for p in group["params"]]
    assert sorted(map(id, owned)) == sorted(map(id, model.parameters()))
    tokens = torch.randint(21, (8, 16))
    losses = []
    for _ in range(15):
        logits = model(tokens[:, :-1])
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        losses.append(loss.item())
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
    assert losses[-1] < 0.8 * losses[0]


def test_an_update_of_muon_equals_torchs_up_to_bfloat16() -> None:
    torch.manual_seed(0)
    shapes = [(24, 8), (8, 24), (24, 8), (8, 8)]  # two of one shape are a batch
    parameters, others = ([nn.Parameter(torch.ones(shape)) for shape in shapes] for _ in range(2))
    optimizer = Muon(parameters, lr=0.1, weight_decay=0.2, momentum=0.95)
    reference = torch.optim.Muon(others, lr=0.1, weight_decay=0.2, momentum=0.95)
    for _ in range(3):
        for parameter, other in zip(parameters, others, strict=True):
            parameter.grad = torch.randn_like(parameter)
            other.grad = parameter.grad.clone()
        optimizer.step()
        reference.step()
    for parameter, other in zip(parameters, others, strict=True):
        torch.testing.assert_close(parameter, other, rtol=0, atol=5e-3)
        moved = (parameter - 1).norm()
        assert (parameter - other).norm() < 0.02 * moved


@pytest.mark.parametrize("name", list(OPTIMIZERS))
@pytest.mark.parametrize("tied", [False, True])
def test_only_matrices_decay_if_it_is_asked_for(name: str, tied: bool) -> None:
    change = {"tie_embeddings": tied, "head_bias": False, "qkv_bias": True}
    model = GPT(MODEL.model_copy(update=change), 21)
    config = TrainConfig(optimizer=name, weight_decay=0.1, decayed="matrices")
    decay = {
        id(p): group["weight_decay"]
        for optimizer in OPTIMIZERS[name](model, config)
        for group in optimizer.param_groups
        for p in group["params"]
    }
    decayed = {name for name, p in model.named_parameters() if decay[id(p)]}
    matrices = {f"blocks.0.{part}.weight" for part in ("attn.qkv", "attn.out", "ff.up", "ff.down")}
    assert decayed == matrices | (set() if tied else {"head.weight"})
    assert len(decay) == len(list(model.parameters()))


def test_adamw_is_torchs_own() -> None:
    [optimizer] = OPTIMIZERS["adamw"](GPT(MODEL, 21), TrainConfig(lr=0.5, beta2=0.9))
    [group] = optimizer.param_groups
    assert (group["lr"], group["betas"], group["weight_decay"]) == (0.5, (0.9, 0.9), 0.01)
