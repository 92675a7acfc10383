"""The model types that can be built."""

from __future__ import annotations

import difflib
from collections import namedtuple
from collections.abc import Iterator, Mapping

from mobius import _native


class ModelRegistration(namedtuple("ModelRegistration", ["model_type", "family", "task"])):
    """A model type of config.json, the family that builds it, and the task that it is for."""

    __slots__ = ()


class ModelRegistry(Mapping):
    """Model types by name: `"qwen3" in registry`, `registry["qwen3"].task`."""

    def __init__(self) -> None:
        self._types = {row[0]: ModelRegistration(*row) for row in sorted(_native.families())}

    def __getitem__(self, model_type: str) -> ModelRegistration:
        if model_type not in self._types:
            near = difflib.get_close_matches(model_type, self._types, 3)
            raise KeyError(f"unknown model type {model_type!r}" + (f"; near: {', '.join(near)}" if near else ""))
        return self._types[model_type]

    def __iter__(self) -> Iterator[str]:
        return iter(self._types)

    def __len__(self) -> int:
        return len(self._types)

    def __repr__(self) -> str:
        return f"ModelRegistry({', '.join(self)})"


registry = ModelRegistry()
