"""The models that are loaded, by name."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from api.problems import ProblemError
from api.schemas import Domain, Model
from calcgpt.checkpoint import CONFIG, Checkpoint, default_root, resolve
from calcgpt.errors import UserError
from calcgpt.inference.calculator import Calculator
from calcgpt.inference.engines import load_decoder
from calcgpt.inference.generate import Decoder
from datagen.notation import WIDTH

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LoadedModel:
    """A checkpoint, what runs it, and, where it knows the notation, the calculator on it."""

    checkpoint: Checkpoint
    decoder: Decoder
    engine: str
    calculator: Calculator | None

    @property
    def name(self) -> str:
        """The checkpoint's."""
        return self.checkpoint.name

    def described(self, default: bool) -> Model:
        """What /v1/models says of it."""
        domain = None
        if self.calculator:
            below = self.calculator.domain.below
            domain = Domain(max_characters=WIDTH, below=below, works_in_steps=below is not None)
        return Model(
            id=self.name,
            default=default,
            description=self.checkpoint.recipe.description,
            parameters=self.checkpoint.model.n_parameters(),
            engine=self.engine,
            domain=domain,
            metrics=_scores(self.checkpoint.metrics),
        )


Loader = Callable[[], Iterator[LoadedModel]]  # the default first; may take its time for each


def load_model(checkpoint: Checkpoint, engine: str = "auto", threads: int = 1) -> LoadedModel:
    """Ready to answer. Raises UserError where the engine cannot run it."""
    name, decoder = load_decoder(checkpoint, engine, threads)
    try:
        calculator = Calculator(checkpoint, decoder)
    except UserError:  # a model of other text
        calculator = None
    return LoadedModel(checkpoint, decoder, name, calculator)


def load_models(
    reference: str, others: bool, engine: str = "auto", threads: int = 1
) -> Iterator[LoadedModel]:
    """The checkpoint that `reference` means, and, if `others` are wanted, those beside the package
    or in checkpoints/ here. Raises UserError where the first does not load; of the others, one that
    does not is passed over with a warning."""
    first = load_model(Checkpoint.load(resolve(reference)), engine, threads)
    yield first
    names = {first.name}
    folders = sorted(file.parent for file in default_root().glob(f"[!.]*/{CONFIG}"))
    for folder in folders if others else []:
        if folder.name in names:
            continue
        try:
            loaded = load_model(Checkpoint.load(folder), engine, threads)
        except UserError as error:
            log.warning("passed over a checkpoint: %s", error)
            continue
        names.add(loaded.name)
        yield loaded


class ModelPool:
    """The models by name; the first that was loaded is the default."""

    def __init__(self, load: Loader) -> None:
        self._load = load
        self._models: dict[str, LoadedModel] = {}
        self._is_complete = False

    async def load(self, on_ready: Callable[[LoadedModel], Any]) -> None:
        """Load all in a thread, one after the other; `on_ready` is told of the first. What the
        loader raises comes out of here."""
        models = self._load()
        try:
            while (model := await asyncio.to_thread(next, models, None)) is not None:
                self._models[model.name] = model
                if len(self._models) == 1:
                    on_ready(model)
        finally:
            self._is_complete = bool(self._models)

    @property
    def default(self) -> LoadedModel | None:
        """The one that answers where none is named; None until it is loaded."""
        return next(iter(self._models.values()), None)

    def __iter__(self) -> Iterator[LoadedModel]:
        return iter(list(self._models.values()))

    def find(self, name: str | None = None) -> LoadedModel:
        """The model of that name, or the default. Raises ProblemError: 404 where there is none,
        503 where it may still come."""
        found = self.default if name is None else self._models.get(name)
        if found:
            return found
        if not self._is_complete:
            raise ProblemError(
                503, "the model is still loading", kind="loading", headers={"Retry-After": "1"}
            )
        known = ", ".join(self._models)
        raise ProblemError(404, f"no model {name!r}; there are: {known}", kind="unknown-model")


def _scores(metrics: dict[str, Any]) -> dict[str, Any] | None:
    """The scores on test problems, if it was published with any."""
    scores = metrics.get("test")
    if not isinstance(scores, dict):
        return None
    names = ("n", "char_accuracy", "exact_match", "by_operation")
    return {name: scores[name] for name in names if name in scores}
