"""The models that are loaded, by name."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from api.problems import ProblemError
from api.schemas import Domain, Model
from api.settings import Settings
from calcgpt.checkpoint import CONFIG, Checkpoint, default_root, resolve
from calcgpt.errors import UserError
from calcgpt.inference.calculator import Calculator
from calcgpt.inference.engines import load_decoder
from calcgpt.inference.generate import Decoder
from datagen.notation import WIDTH

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LoadedModel:
    """A checkpoint, its decoder, and a calculator if the model knows the notation."""

    checkpoint: Checkpoint
    decoder: Decoder
    engine: str
    calculator: Calculator | None

    @property
    def name(self) -> str:
        """The name of the checkpoint."""
        return self.checkpoint.name

    def describe(self, default: bool) -> Model:
        """Returns its entry in /v1/models."""
        domain = None
        if self.calculator:
            below = self.calculator.domain.below
            domain = Domain(max_characters=WIDTH, below=below, works_in_steps=below is not None)
        scores = self.checkpoint.metrics.get("test")
        names = ("n", "char_accuracy", "exact_match", "by_operation")
        return Model(
            id=self.name,
            default=default,
            description=self.checkpoint.recipe.description,
            parameters=self.checkpoint.model.n_parameters(),
            engine=self.engine,
            domain=domain,
            metrics={name: scores[name] for name in names if name in scores}
            if isinstance(scores, dict)
            else None,
        )


Loader = Callable[[], Iterator[LoadedModel]]  # yields the default model first; may block


def load_model(checkpoint: Checkpoint, engine: str = "auto", threads: int = 1) -> LoadedModel:
    """Returns a model ready to answer. Raises UserError if the engine cannot run it."""
    name, decoder = load_decoder(checkpoint, engine, threads)
    try:
        calculator = Calculator(checkpoint, decoder)
    except UserError:  # the model is of plain text
        calculator = None
    return LoadedModel(checkpoint, decoder, name, calculator)


def load_models(
    reference: str, others: bool, engine: str = "auto", threads: int = 1
) -> Iterator[LoadedModel]:
    """Yields the checkpoint that `reference` means, then, with `others`, the shipped ones.

    Raises UserError if the first does not load. If another one does not, logs a warning.
    """
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
            log.warning("skipping a checkpoint: %s", error)
            continue
        names.add(loaded.name)
        yield loaded


def loader(settings: Settings) -> Loader:
    """Returns a loader of the models that the settings name."""
    return lambda: load_models(
        settings.checkpoint, settings.others, settings.engine, settings.threads
    )


class ModelPool:
    """The loaded models by name. The first is the default."""

    def __init__(self, load: Loader) -> None:
        self._load = load
        self._models: dict[str, LoadedModel] = {}
        self._is_complete = False

    async def load(self, on_ready: Callable[[LoadedModel], Any]) -> None:
        """Loads all models in a thread, one after the other. Calls `on_ready` with the first.

        Raises what the loader raises.
        """
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
        """The default model; None until it is loaded."""
        return next(iter(self._models.values()), None)

    def __iter__(self) -> Iterator[LoadedModel]:
        return iter(list(self._models.values()))

    def find(self, name: str | None = None) -> LoadedModel:
        """Returns the model of that name, or the default model.

        Raises ProblemError: 503 if the model may still be loading, else 404.
        """
        model = self.default if name is None else self._models.get(name)
        if model:
            return model
        if not self._is_complete:
            raise ProblemError(
                503, "the model is still loading", kind="loading", headers={"Retry-After": "1"}
            )
        names = ", ".join(self._models)
        raise ProblemError(404, f"no model {name!r}; there are: {names}", kind="unknown-model")
