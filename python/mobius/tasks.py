"""Tasks: what a graph's inputs and outputs are."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mobius import _log, _native  # noqa: F401
from mobius._context import get_build_dtype
from mobius._errors import UnsupportedError

if TYPE_CHECKING:
    from mobius._config import ArchitectureConfig
    from mobius._package import ModelPackage


class ModelTask:
    """Makes the graphs of a module, for the execution provider and dtype of the current build context. They are not optimised:
    build_from_module does that too."""

    name = ""

    def build(self, module: Any, config: ArchitectureConfig) -> ModelPackage:
        """The module's graphs."""
        raise NotImplementedError


class CausalLMTask(ModelTask):
    """text-generation: input_ids, attention_mask, position_ids and the cache in; logits and the new cache out."""

    name = "text-generation"

    def __init__(self, *, static_cache: bool = False, max_seq_len: int | None = None, prune_lm_head: bool = False) -> None:
        for name, value in (("static_cache", static_cache), ("max_seq_len", max_seq_len), ("prune_lm_head", prune_lm_head)):
            if value:
                raise UnsupportedError(f"{name} is not supported")

    def build(self, module: Any, config: ArchitectureConfig) -> ModelPackage:
        """`module`: a mobius.nn.Module whose forward(op, input_ids, at) gives the logits."""
        from dataclasses import replace

        from mobius import _arguments
        from mobius._config import ArchitectureConfig
        from mobius._package import package_of

        if not isinstance(config, ArchitectureConfig):
            raise _arguments.refuse("config", config, "an ArchitectureConfig (ArchitectureConfig.from_dict makes one of a dict)")
        return package_of(*_native.task_build(named_forward(module), replace(config, dtype=get_build_dtype()).native()))


TASKS: dict[str, type[ModelTask]] = {CausalLMTask.name: CausalLMTask}


def get_task(name: str) -> ModelTask:
    """The task of this name. ValueError, with the known names, when there is none."""
    if name not in TASKS:
        from mobius._errors import InvalidArgumentError

        raise InvalidArgumentError(f"unknown task {name!r}; known: {', '.join(TASKS)}")
    return TASKS[name]()


def named_forward(module: Any) -> Callable:
    """The function that the library calls; parameters have their names from here on."""
    if hasattr(module, "name_parameters"):
        module.name_parameters()
    return module
