"""Batches of cases."""

import numpy as np
import torch

from calcgpt.config import TrainConfig
from calcgpt_lab.data.cases import HARD, HARD_SHARE, MOST_DRAWS, CaseBatches, case_arrays, cases_of
from calcgpt_lab.data.tokenizers import TOKENIZERS
from calcgpt_lab.model.base import summed_loss
from calcgpt_lab.model.sources import next_cases
from datagen.cases import all_cases
from datagen.distributions import DISTRIBUTIONS
from datagen.notation import render_prompt
from datagen.sampling import bit_generator
from datagen.slots import Kind
from datagen.work import render

TOKENIZER = TOKENIZERS["scratchpad"]()
VOCABULARY = TOKENIZER.vocabulary


def batches() -> CaseBatches:
    return CaseBatches("", TOKENIZER, TrainConfig(seed=3), 40)


def test_arrays_are_the_cases_as_tokens() -> None:
    cases = all_cases()
    features, right = case_arrays(cases, TOKENIZER)
    for number in np.random.default_rng(0).integers(len(features), size=200).tolist():
        kind, *tokens = features[number].tolist()
        read = "".join("\0" if token < 0 else VOCABULARY[token] for token in tokens)
        assert (kind, read.encode()) == (cases.kinds[number], cases.sources[number].tobytes())
        characters = {VOCABULARY[token] for token in np.flatnonzero(right[number])}
        assert characters == {chr(code) for code in cases.right[number]}


def test_every_kind_is_drawn_and_quotient_digits_most() -> None:
    kinds = batches().batch(0, 20_000)[0][:, 0, 0]
    counts = torch.bincount(kinds, minlength=len(Kind)).tolist()
    cases = set(all_cases().kinds.tolist())
    assert {kind for kind, count in enumerate(counts) if count} == cases
    assert max(range(len(counts)), key=counts.__getitem__) == Kind.QUOTIENT_DIGIT


def test_cases_of_sums_are_those_of_texts_of_sums() -> None:
    cases = cases_of("+")
    kinds = set(cases.kinds.tolist())
    assert {Kind.SUM_DIGIT, Kind.A_DIGIT, Kind.ANSWER_DIGIT, Kind.END} <= kinds
    assert not {Kind.PRODUCT_DIGIT, Kind.QUOTIENT_DIGIT, Kind.NAN} & kinds
    assert len(cases.kinds) < len(all_cases().kinds) / 20
    assert cases_of("+*/").kinds.tolist() == cases_of("+-*/").kinds.tolist()
    problems = DISTRIBUTIONS["everyday"](bit_generator(0, 0, 0), 400)
    for problem in next(problems).to_problems():
        [line] = render([render_prompt(problem).encode()])
        drawn = set(next_cases(line)[line.index(b"=") : -1, 0].tolist())
        assert drawn <= kinds or problem.op not in "+-"


def test_hard_cases_are_drawn_more_often_but_not_too_often() -> None:
    source = batches()
    flags = np.zeros(len(source.features), bool)
    flags[100_000:100_010] = True
    source.set_hard(flags)
    hard = {row.tobytes() for row in source.features[flags].astype(np.int64)}
    inputs = source.batch(0, 1_000)[0].numpy()
    drawn = sum(row.tobytes() in hard for row in inputs)
    assert MOST_DRAWS * 10 <= drawn < 1.5 * MOST_DRAWS * 10
    source.set_hard(np.ones_like(flags))
    assert torch.equal(source.state[HARD], torch.ones(len(flags), dtype=torch.bool))
    assert 0 < HARD_SHARE < 1
    assert source.batch(0, 1_000)[0].shape == (1_000, 1, 8)


def test_the_loss_is_that_of_all_right_tokens_together() -> None:
    logits = torch.randn(5, 1, 4, dtype=torch.float64)
    flags = torch.tensor([[1, 0, 0, 0], [0, 1, 1, 0], [0, 0, 0, 1], [1, 1, 1, 1], [0, 1, 0, 1]])
    loss = summed_loss(lambda inputs, features: logits)(torch.zeros(5, 1), flags.bool()[:, None])
    right = (logits[:, 0].softmax(dim=1) * flags).sum(dim=1)
    torch.testing.assert_close(loss.double(), -right.log().sum(), rtol=1e-5, atol=1e-5)
