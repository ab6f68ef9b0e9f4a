"""A GPT that learns to add, in one file: problems, tokenizer, model, training, sampling, score.

    python calcgpt_in_one_file.py

Read it from top to bottom; it needs torch alone. After a few minutes of one core, it adds two
numbers that it has never seen. The model is the package's: with the same weights, a test gets the
same loss from both. It has the posts' baseline and what they change: RoPE, grouped queries, SwiGLU.

Shapes: B lines, T tokens, C channels, H query heads, G key/value heads, D channels of a head,
V vocabulary.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable, Container
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

# 1. Problems. A line is a question, `=` and the answer; `$` opens and closes it. Numbers are padded
# to one length, so that each digit has its own position. The answer is reversed: who adds begins
# with the lowest digit, because the carry goes up from there.


def line(a: int, b: int) -> str:
    """Returns a problem as the package writes it: line(78, 345) is
    `$(0000000078+0000000345)=3240000000$`."""
    return f"$({a:010}+{b:010})=" + f"{a + b:010}"[::-1] + "$"


def draw(rng: random.Random, digits: int) -> tuple[int, int]:
    """Returns two numbers of 1 to `digits` digits, each length as often as the others."""
    a, b = (rng.randrange(10 ** rng.randint(1, digits)) for _ in range(2))
    return a, b


def draw_lines(
    rng: random.Random, count: int, digits: int, held_out: Container[str] = ()
) -> list[str]:
    """Returns `count` lines, none of them in `held_out`: those of the test are not trained on."""
    lines: list[str] = []
    while len(lines) < count:
        text = line(*draw(rng, digits))
        if text not in held_out:
            lines.append(text)
    return lines


# 2. Tokenizer. Each character is a token; its id is its place in the vocabulary.

VOCABULARY = "$()*+-./0123456789=an"  # of the posts: 21 characters


class Tokenizer:
    def __init__(self, vocabulary: str = VOCABULARY) -> None:
        self.vocabulary = vocabulary
        self.ids = {character: i for i, character in enumerate(vocabulary)}

    def encode(self, text: str) -> list[int]:
        return [self.ids[character] for character in text]

    def decode(self, ids: list[int]) -> str:
        return "".join(self.vocabulary[i] for i in ids)


def batch(lines: list[str], tokenizer: Tokenizer) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns tokens and, for each of them, the next one, (B,T). The question has no loss (-100):
    nothing can be learnt from it. Short lines are padded on their right, without loss."""
    width = max(map(len, lines)) - 1
    x_BT = torch.zeros(len(lines), width, dtype=torch.long)
    y_BT = torch.full_like(x_BT, -100)
    for row, text in enumerate(lines):
        ids, start = torch.tensor(tokenizer.encode(text)), text.index("=")
        x_BT[row, : len(ids) - 1] = ids[:-1]
        y_BT[row, start : len(ids) - 1] = ids[start + 1 :]
    return x_BT, y_BT


# 3. Model. The defaults are the posts' baseline, smaller; the names are the package's.


@dataclass
class Config:
    block_size: int = 36  # longest sequence, in tokens
    n_layer: int = 2
    n_embd: int = 96
    n_head: int = 4
    n_kv_head: int = 4  # fewer: grouped-query attention
    position: str = "learned"  # or "rope"
    feedforward: str = "relu"  # or "swiglu"


def rotate(x_BHTD: torch.Tensor) -> torch.Tensor:
    """Rotates each pair of channels, i and i + D/2, by an angle that grows with the position t:
    t / 10000^(2i/D). So the product of a query and a key depends on their distance alone."""
    T, D = x_BHTD.shape[2:]
    frequencies = 10_000.0 ** (-torch.arange(D // 2, dtype=torch.float64) / (D // 2))
    angles = torch.arange(T, dtype=torch.float64)[:, None] * frequencies  # (T, D/2)
    cos, sin = angles.cos().float(), angles.sin().float()
    first, second = x_BHTD.chunk(2, dim=3)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=3)


class Attention(nn.Module):
    """Each token looks back and takes a weighted mean of what earlier tokens offer."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config, self.D = config, config.n_embd // config.n_head
        heads = config.n_head + 2 * config.n_kv_head
        self.qkv = nn.Linear(config.n_embd, heads * self.D, bias=False)
        self.out = nn.Linear(config.n_embd, config.n_embd)

    def forward(self, x_BTC: torch.Tensor) -> torch.Tensor:
        B, T, C = x_BTC.shape
        H, G = self.config.n_head, self.config.n_kv_head
        qkv = self.qkv(x_BTC).view(B, T, H + 2 * G, self.D).transpose(1, 2)
        q_BHTD, k_BGTD, v_BGTD = qkv.split((H, G, G), dim=1)
        if self.config.position == "rope":
            q_BHTD, k_BGTD = rotate(q_BHTD), rotate(k_BGTD)
        # Each key/value head serves a group of H / G query heads.
        k_BHTD, v_BHTD = (x.repeat_interleave(H // G, dim=1) for x in (k_BGTD, v_BGTD))
        scores_BHTT = q_BHTD @ k_BHTD.transpose(2, 3) / self.D**0.5
        future = torch.ones(T, T, dtype=torch.bool).triu(1)
        weights_BHTT = scores_BHTT.masked_fill(future, float("-inf")).softmax(dim=3)
        y_BHTD = weights_BHTT @ v_BHTD
        return self.out(y_BHTD.transpose(1, 2).reshape(B, T, C))


class FeedForward(nn.Module):
    """max(0, x W1) W2, on each token alone."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.up = nn.Linear(config.n_embd, 4 * config.n_embd, bias=False)
        self.down = nn.Linear(4 * config.n_embd, config.n_embd, bias=False)

    def forward(self, x_BTC: torch.Tensor) -> torch.Tensor:
        return self.down(F.relu(self.up(x_BTC)))


class SwiGLU(nn.Module):
    """(silu(x W) * x V) W2, with 2/3 of the width: as many parameters as `FeedForward`."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width = 4 * int(2 * config.n_embd / 3)
        self.gate_up = nn.Linear(config.n_embd, 2 * width, bias=False)  # W and V
        self.down = nn.Linear(width, config.n_embd, bias=False)

    def forward(self, x_BTC: torch.Tensor) -> torch.Tensor:
        gate, up = self.gate_up(x_BTC).chunk(2, dim=2)
        return self.down(F.silu(gate) * up)


class Block(nn.Module):
    """Communicate, then compute. Each part adds to the residual stream, and reads it normalised."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.attn_norm = nn.LayerNorm(config.n_embd)
        self.attn = Attention(config)
        self.ff_norm = nn.LayerNorm(config.n_embd)
        self.ff = (SwiGLU if config.feedforward == "swiglu" else FeedForward)(config)

    def forward(self, x_BTC: torch.Tensor) -> torch.Tensor:
        x_BTC = x_BTC + self.attn(self.attn_norm(x_BTC))
        return x_BTC + self.ff(self.ff_norm(x_BTC))


class GPT(nn.Module):
    def __init__(self, config: Config, vocab_size: int) -> None:
        super().__init__()
        self.config = config
        self.token_embedding = nn.Embedding(vocab_size, config.n_embd)
        self.positions = nn.ModuleDict()
        if config.position == "learned":
            self.positions["table"] = nn.Embedding(config.block_size, config.n_embd)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.n_layer))
        self.norm = nn.LayerNorm(config.n_embd)
        self.head = nn.Linear(config.n_embd, vocab_size)

    def forward(self, x_BT: torch.Tensor) -> torch.Tensor:
        """Returns the logits of each next token, (B,T,V)."""
        x_BTC = self.token_embedding(x_BT)
        if self.config.position == "learned":
            x_BTC = x_BTC + self.positions["table"].weight[: x_BT.size(1)]
        for block in self.blocks:
            x_BTC = block(x_BTC)
        return self.head(self.norm(x_BTC))

    def loss(self, x_BT: torch.Tensor, y_BT: torch.Tensor) -> torch.Tensor:
        """Returns the mean of -log p(right token), in nats, over the tokens that have a loss."""
        return F.cross_entropy(self(x_BT).flatten(0, 1), y_BT.flatten(), ignore_index=-100)


# 4. Training: loss, gradient, a step of AdamW. The learning rate rises, then falls to zero.


def train(
    model: GPT,
    batches: Callable[[], tuple[torch.Tensor, torch.Tensor]],
    steps: int,
    lr: float = 2e-3,
    report: Callable[[int, float], None] = lambda step, loss: None,
) -> list[float]:
    """Trains for `steps` batches; returns the loss of each. `report` is called after each step."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, betas=(0.9, 0.99), weight_decay=0.01)
    losses: list[float] = []
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = lr * min((step + 1) / 100, 1 - step / steps)
        loss = model.loss(*batches())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
        report(step, losses[-1])
    return losses


# 5. Sampling: one token after the other, each chosen from the probabilities of the next.


@torch.no_grad()
def sample(
    model: GPT, x_BT: torch.Tensor, count: int, stop: int = -1, temperature: float = 0.0
) -> torch.Tensor:
    """Returns the tokens, (B,T), with up to `count` more. At temperature 0, the most probable is
    chosen. Sampling ends early when each line has the token `stop` among its new ones."""
    start = x_BT.size(1)
    for _ in range(count):
        logits_BV = model(x_BT[:, -model.config.block_size :])[:, -1]
        if temperature == 0:
            next_B1 = logits_BV.argmax(dim=1, keepdim=True)
        else:
            next_B1 = (logits_BV / temperature).softmax(dim=1).multinomial(1)
        x_BT = torch.cat((x_BT, next_B1), dim=1)
        if (x_BT[:, start:] == stop).any(dim=1).all():
            break
    return x_BT


# 6. Score: exact match, the share of answers that are right in every character.


def answers(model: GPT, tokenizer: Tokenizer, questions: list[str], count: int) -> list[str]:
    """Returns what the model writes after questions of one length, up to `$`."""
    x_BT = torch.tensor([tokenizer.encode(question) for question in questions])
    written_BT = sample(model, x_BT, count, stop=tokenizer.ids["$"])[:, x_BT.size(1) :]
    return [tokenizer.decode(ids).partition("$")[0] for ids in written_BT.tolist()]


def exact_match(model: GPT, tokenizer: Tokenizer, lines: list[str]) -> float:
    """Returns the share of lines whose answer, after the last `=`, is what the model writes. The
    questions, up to the first `=`, have one length."""
    questions = [text[: text.index("=") + 1] for text in lines]
    written = answers(model, tokenizer, questions, max(map(len, lines)) - len(questions[0]))
    pairs = zip(questions, written, lines, strict=True)
    return sum(f"{a}{b}$".split("=")[-1] == c.split("=")[-1] for a, b, c in pairs) / len(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="Trains a GPT to add two numbers.")
    parser.add_argument("--steps", type=int, default=2000, help="batches")
    parser.add_argument("--test", type=int, default=2000, help="problems that are held out")
    parser.add_argument("--digits", type=int, default=5, help="of the longest number, up to 9")
    options = parser.parse_args()
    torch.set_num_threads(1)  # a second thread would only wait for the first
    torch.manual_seed(1)
    tokenizer, begin = Tokenizer(), time.perf_counter()
    model = GPT(Config(), len(VOCABULARY))
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters")
    test = draw_lines(random.Random("test"), options.test, options.digits)
    rng, held_out = random.Random("training"), set(test)

    def batches() -> tuple[torch.Tensor, torch.Tensor]:
        return batch(draw_lines(rng, 64, options.digits, held_out), tokenizer)

    def report(step: int, loss: float) -> None:
        if step % 250 == 0 or step == options.steps - 1:
            share, seconds = exact_match(model, tokenizer, test[:200]), time.perf_counter() - begin
            print(f"step {step:4}  loss {loss:.4f}  exact match {share:.3f}  {seconds:.0f} s")

    train(model, batches, options.steps, report=report)
    score = exact_match(model, tokenizer, test)
    print(f"exact match on {len(test):,} problems that it has never seen: {score:.4f}")
    for a, b in [(78, 345), (99999, 1), (12345, 67890)]:
        question = line(a, b)[:25]
        print(f"{question}{answers(model, tokenizer, [question], 11)[0]}", a + b)


if __name__ == "__main__":
    main()
