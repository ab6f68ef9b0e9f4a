"""A second implementation of the models, naive and slow: written only from the papers' formulas, in
NumPy, for one sequence, one head and one query at a time.

Its inputs are weights and a config. It does not call `calcgpt_lab.model`. Each table of that
package has a table here, or in `naive_layers`, with the same names.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from parity.naive_layers import Vector, Weights, feedforward, linear, norm, softmax

from calcgpt.config import ModelConfig
from datagen.answer_layout import answer_shape, answer_slots
from datagen.layout import layout, shape_of
from datagen.slots import MAX_SOURCES

Vectors = list[Vector]  # one per position


def logits(w: Weights, config: ModelConfig, vocab_size: int, tokens: Sequence[int]) -> np.ndarray:
    """Returns the logits of one sequence, (T, V). `w` is the model's `state_dict` as float64
    arrays."""
    return np.array(MODELS[config.architecture](w, config, vocab_size, list(tokens)))


def bigram(w: Weights, config: ModelConfig, vocab_size: int, tokens: list[int]) -> Vectors:
    return [w["table.weight"][token] for token in tokens]


def gpt(w: Weights, config: ModelConfig, vocab_size: int, tokens: list[int]) -> Vectors:
    scheme, position = ATTENTIONS[config.attention], POSITIONS[config.position]
    ids = scheme.insert(config, vocab_size, tokens)
    x = [
        w["token_embedding.weight"][token] + position.embed(w, config, ids, t)
        for t, token in enumerate(ids)
    ]
    block = BLOCKS[config.norm_position]
    for layer in range(config.n_layer):
        x = block.run(w, config, f"blocks.{layer}", layer, x, ids)
    if block.final_norm:
        x = [norm(w, "norm", config, x_t) for x_t in x]
    if config.tie_embeddings:
        y = [w["token_embedding.weight"][:vocab_size] @ x_t for x_t in x]
    else:
        y = [linear(w, "head", x_t, config.head_bias) for x_t in x]
    return [y_t for y_t, token in zip(y, ids, strict=True) if token < vocab_size]


def sources(w: Weights, config: ModelConfig, vocab_size: int, tokens: list[int]) -> Vectors:
    """The query stream of Yang et al. 2019, section 2.3, from the kind of the next slot on. It sees
    the embeddings of the sources alone, and a sink."""
    block = BLOCKS[config.norm_position]
    logits = []
    for t in range(len(tokens)):
        kind, *read = next_case(config, tokens[: t + 1])
        seen = [
            norm(w, "source_norm", config, w["token_embedding.weight"][token] + role)
            for token, role in zip(read, w["roles.weight"], strict=True)
            if token is not None
        ]
        x = w["kinds.weight"][kind]
        for layer in range(config.n_layer):
            name = f"blocks.{layer}"
            if not block.final_norm:  # after each part
                x = norm(w, f"{name}.attn_norm", config, x + to_sources(w, config, name, x, seen))
                y = x + feedforward(w, config, f"{name}.ff", x)
                x = norm(w, f"{name}.ff_norm", config, y)
                continue
            y = norm(w, f"{name}.attn_norm", config, x)
            x = x + to_sources(w, config, name, y, seen)
            y = norm(w, f"{name}.ff_norm", config, x)
            x = x + feedforward(w, config, f"{name}.ff", y)
        x = norm(w, "norm", config, x) if block.final_norm else x
        tied = {"head.weight": w["token_embedding.weight"]} if config.tie_embeddings else {}
        logits.append(linear({**w, **tied}, "head", x, config.head_bias))
    return logits


def next_case(config: ModelConfig, tokens: list[int]) -> list[int | None]:
    """The kind of the next slot and the tokens that its rule reads, from the layout itself."""
    known = len(config.characters)
    text = "".join(config.characters[token] if token < known else "\0" for token in tokens)
    shape = shape_of(text[: text.find("=") + 1])
    if shape is None:
        return [0] + [None] * MAX_SOURCES
    plan = layout(shape)
    slots = list(plan)
    if len(text) >= len(slots):
        slots += answer_slots(plan, answer_shape(plan, text.encode()))
    if not plan.prompt_length <= len(text) < len(slots):
        return [0] + [None] * MAX_SOURCES
    slot = slots[len(text)]
    read = [None if source < 0 else tokens[source] for source in slot.sources]
    return [int(slot.kind), *read, *[None] * (MAX_SOURCES - len(read))]


def to_sources(w: Weights, config: ModelConfig, name: str, x: Vector, seen: Vectors) -> Vector:
    """Vaswani et al. 2017, eq. 1, with a logit that no value belongs to."""
    H, G, D = config.n_head, config.kv_heads, config.head_dim
    queries = linear(w, f"{name}.attn.q", x, config.qkv_bias).reshape(H, D)
    both = [linear(w, f"{name}.attn.kv", s, config.qkv_bias).reshape(2, G, D) for s in seen]
    y = np.zeros((H, D))
    for h in range(H):
        q, keys = queries[h], [keys_values[0, h // (H // G)] for keys_values in both]
        if config.qk_norm:
            q = norm(w, f"{name}.attn.q_norm", config, q)
            keys = [norm(w, f"{name}.attn.k_norm", config, k) for k in keys]
        scores = [q @ k / math.sqrt(D) for k in keys] + [w[f"{name}.attn.sink"][h]]
        for keys_values, weight in zip(both, softmax(scores)[:-1], strict=True):
            y[h] += weight * keys_values[1, h // (H // G)]
    return linear(w, f"{name}.attn.out", y.reshape(-1), config.attn_out_bias)


MODELS = {"gpt": gpt, "bigram": bigram, "sources": sources}


# ------------------------------------------------------------------------------------ blocks


def pre(
    w: Weights, config: ModelConfig, name: str, layer: int, x: Vectors, ids: list[int]
) -> Vectors:
    """Xiong et al. 2020, table 1, right."""
    normed = [norm(w, f"{name}.attn_norm", config, x_t) for x_t in x]
    x = [x_t + a_t for x_t, a_t in zip(x, attention(w, config, layer, normed, ids), strict=True)]
    normed = [norm(w, f"{name}.ff_norm", config, x_t) for x_t in x]
    return [x_t + feedforward(w, config, f"{name}.ff", n) for x_t, n in zip(x, normed, strict=True)]


def post(
    w: Weights, config: ModelConfig, name: str, layer: int, x: Vectors, ids: list[int]
) -> Vectors:
    """Vaswani et al. 2017, section 3.1: LayerNorm(x + Sublayer(x))."""
    x = [x_t + a_t for x_t, a_t in zip(x, attention(w, config, layer, x, ids), strict=True)]
    x = [norm(w, f"{name}.attn_norm", config, x_t) for x_t in x]
    x = [x_t + feedforward(w, config, f"{name}.ff", x_t) for x_t in x]
    return [norm(w, f"{name}.ff_norm", config, x_t) for x_t in x]


class Block(NamedTuple):
    run: Callable[[Weights, ModelConfig, str, int, Vectors, list[int]], Vectors]
    final_norm: bool


BLOCKS = {"pre": Block(pre, True), "post": Block(post, False)}


# --------------------------------------------------------------------------------- attention


def attention(w: Weights, config: ModelConfig, layer: int, x: Vectors, ids: list[int]) -> Vectors:
    """Vaswani et al. 2017, eq. 1, with the heads of Ainslie et al. 2023: query heads share
    key/value heads in order."""
    H, G, D = config.n_head, config.kv_heads, config.head_dim
    scheme, position = ATTENTIONS[config.attention], POSITIONS[config.position]
    name = f"blocks.{layer}.attn"
    heads = [linear(w, f"{name}.qkv", x_t, config.qkv_bias).reshape(-1, D) for x_t in x]
    y = [np.zeros((H, D)) for _ in x]
    for h in range(H):
        g = h // (H // G)
        q, k, v = ([heads_t[n] for heads_t in heads] for n in (h, H + g, H + G + g))
        if config.qk_norm:
            q = [norm(w, f"{name}.q_norm", config, q_t) for q_t in q]
            k = [norm(w, f"{name}.k_norm", config, k_t) for k_t in k]
        q = [position.rotate(config, q_t, t) for t, q_t in enumerate(q)]
        k = [position.rotate(config, k_t, t) for t, k_t in enumerate(k)]
        for i in range(len(x)):
            scores = [
                q[i] @ k[j] / math.sqrt(D) + position.score(w, config, (layer, h), q[i], i, j)
                for j in range(i + 1)
            ]
            for j, weight in enumerate(scheme.weights(config, scores)):
                y[i][h] += weight * v[j]
    return [linear(w, f"{name}.out", y_t.reshape(-1), config.attn_out_bias) for y_t in y]


def window(config: ModelConfig, scores: list[float]) -> list[float]:
    """Jiang et al. 2023, section 2: the last `window` positions, the query's own included."""
    seen = scores[-config.window :]
    return [0.0] * (len(scores) - len(seen)) + softmax(seen)


def landmark(config: ModelConfig, scores: list[float]) -> list[float]:
    """Mohtashami & Jaggi 2023, eqs. 1 to 4. Query i is the last of `scores`."""
    i, size = len(scores) - 1, config.landmark_block + 1
    past = range(i + 1)
    p = [j // size * size + config.landmark_block for j in past]  # position of j's landmark
    group = []
    for j in past:
        if p[j] != j:
            group.append(p[j])  # a token of the text: the group of its block
        elif p[i] == j:
            group.append(-1)  # a landmark that sees itself: ignored
        else:
            group.append(p[i])  # landmarks of other blocks: with the query's own block
    S = [
        math.exp(scores[j]) / sum(math.exp(scores[k]) for k in past if group[k] == group[j])
        for j in past
    ]
    weights = []
    for j in past:
        if p[j] == j:
            weights.append(0.0)
        elif group[j] == p[i]:
            weights.append(S[j])
        else:
            weights.append(S[j] * S[p[j]])
    return weights


def with_landmarks(config: ModelConfig, vocab_size: int, tokens: list[int]) -> list[int]:
    ids = []
    for count, token in enumerate(tokens, start=1):
        ids.append(token)
        if count % config.landmark_block == 0:
            ids.append(vocab_size)
    return ids


class Scheme(NamedTuple):
    weights: Callable[[ModelConfig, list[float]], list[float]]
    insert: Callable[[ModelConfig, int, list[int]], list[int]] = lambda config, vocab, text: text


ATTENTIONS = {
    "full": Scheme(lambda config, scores: softmax(scores)),
    "window": Scheme(window),
    "landmark": Scheme(landmark, with_landmarks),
}


# --------------------------------------------------------------------------------- positions


def sinusoidal(w: Weights, config: ModelConfig, ids: list[int], t: int) -> Vector:
    """Vaswani et al. 2017, section 3.5."""
    vector = np.zeros(config.n_embd)
    for i in range(config.n_embd // 2):
        angle = t / 10_000 ** (2 * i / config.n_embd)
        vector[2 * i], vector[2 * i + 1] = math.sin(angle), math.cos(angle)
    return vector


def learned(w: Weights, config: ModelConfig, ids: list[int], t: int) -> Vector:
    return w["positions.table.weight"][t]


def coupled(w: Weights, config: ModelConfig, ids: list[int], t: int) -> Vector:
    """The vectors of the distance from the last mark up to t, and of that mark."""
    distance, row = -1, 0
    for token in ids[: t + 1]:
        distance += 1
        if token in config.row_marks:
            distance, row = 0, 1 + config.row_marks.index(token)
    distance = min(distance, config.n_place - 1)
    return w["positions.places.weight"][distance] + w["positions.rows.weight"][row]


def rotate(config: ModelConfig, x: Vector, t: int) -> Vector:
    """Su et al. 2021, eq. 34; channel i is paired with i + D/2."""
    half = len(x) // 2
    y = np.array(x)
    for i in range(half):
        angle = t * config.rope_base ** (-2 * i / len(x))
        cos, sin = math.cos(angle), math.sin(angle)
        y[i] = x[i] * cos - x[i + half] * sin
        y[i + half] = x[i + half] * cos + x[i] * sin
    return y


Head = tuple[int, int]  # layer and query head


def integrated(w: Weights, config: ModelConfig, at: Head, q: Vector, i: int, j: int) -> float:
    """q (k + p) / sqrt(D) is the score without p plus this."""
    layer, head = at
    table = w["positions.table"][layer]  # one for all heads, or one for each key/value head
    group = head // (config.n_head // config.kv_heads) if len(table) > 1 else 0
    return q @ table[group, j] / math.sqrt(config.head_dim)


def shaw(w: Weights, config: ModelConfig, at: Head, q: Vector, i: int, j: int) -> float:
    """Shaw et al. 2018, eq. 5: x_i W^Q (a^K_ij)^T / sqrt(d_z), i - j clipped."""
    layer, _ = at
    distance = min(i - j, config.max_distance)
    return q @ w["positions.table"][layer, distance] / math.sqrt(config.head_dim)


def t5(w: Weights, config: ModelConfig, at: Head, q: Vector, i: int, j: int) -> float:
    """Raffel et al. 2020, section 2.1: a scalar added to the logit, for all layers."""
    _, head = at
    return w["positions.table"][head, i - j]


def t5_bucket(distance: int, n_bucket: int, max_distance: int) -> int:
    """`_relative_position_bucket` of mesh-tensorflow, not bidirectional."""
    max_exact = n_bucket // 2
    if distance < max_exact:
        return distance
    share = math.log(distance / max_exact) / math.log(max_distance / max_exact)
    return min(max_exact + int(share * (n_bucket - max_exact)), n_bucket - 1)


def t5_buckets(w: Weights, config: ModelConfig, at: Head, q: Vector, i: int, j: int) -> float:
    _, head = at
    return w["positions.table"][head, t5_bucket(i - j, config.n_bucket, config.max_distance)]


def alibi_slopes(n_head: int) -> list[float]:
    """Press et al. 2022, section 3: a geometric sequence that starts at 2^(-8/n) with that ratio.
    If n is not a power of two, as in the authors' `get_slopes`."""
    power = 2 ** (n_head.bit_length() - 1)  # the largest that is not above n_head
    slopes = [(2 ** (-8 / power)) ** (1 + i) for i in range(power)]
    if power == n_head:
        return slopes
    return slopes + alibi_slopes(2 * power)[0::2][: n_head - power]


def alibi(w: Weights, config: ModelConfig, at: Head, q: Vector, i: int, j: int) -> float:
    _, head = at
    return -alibi_slopes(config.n_head)[head] * (i - j)


class Position(NamedTuple):
    """What a scheme adds to a token, how it rotates queries and keys, what it adds to a score."""

    embed: Callable[[Weights, ModelConfig, list[int], int], Vector | float] = lambda *_: 0.0
    rotate: Callable[[ModelConfig, Vector, int], Vector] = lambda _, x, t: x
    score: Callable[[Weights, ModelConfig, Head, Vector, int, int], float] = lambda *_: 0.0


POSITIONS = {
    "none": Position(),
    "sinusoidal": Position(embed=sinusoidal),
    "learned": Position(embed=learned),
    "integrated": Position(score=integrated),
    "integrated-per-head": Position(score=integrated),
    "shaw": Position(score=shaw),
    "t5": Position(score=t5),
    "t5-buckets": Position(score=t5_buckets),
    "rope": Position(rotate=rotate),
    "alibi": Position(score=alibi),
    "coupled": Position(embed=coupled),
    "learned+rope": Position(embed=learned, rotate=rotate),
    "coupled+rope": Position(embed=coupled, rotate=rotate),
}
