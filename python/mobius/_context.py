"""The build context: which execution provider and element type a graph is being built for.

Kept in a context variable, so that threads and asyncio tasks each have their own.
"""

from __future__ import annotations

from contextlib import ContextDecorator

from mobius import _native
from mobius._dtypes import DataType, DTypeLike, as_dtype
from mobius._ep import EpCapabilities, capabilities_json, get_ep


class build_context(ContextDecorator):  # noqa: N801  (used like a function)
    """Graphs that are built inside see these capabilities and this dtype.

        with build_context(ep_registry.require("cuda"), DataType.FLOAT16):
            package = task.build(module, config)

    Contexts nest; the outer one is back at the end, also after an exception.
    """

    def __init__(self, capabilities: EpCapabilities, dtype: DTypeLike = DataType.FLOAT) -> None:
        if not isinstance(capabilities, EpCapabilities):
            raise TypeError(f"expected EpCapabilities (ep_registry.require(name) gives them), found {type(capabilities).__name__}")
        self._context = _native.Context(capabilities_json(capabilities), as_dtype(dtype), capabilities)
        self._tokens: list = []

    def _recreate_cm(self) -> build_context:
        return build_context(self._context.capabilities, self._context.dtype)

    def __enter__(self) -> None:
        self._tokens.append(_native.context.set(self._context))

    def __exit__(self, *exception) -> None:
        _native.context.reset(self._tokens.pop())


def ep_capabilities() -> EpCapabilities:
    """The execution provider that is being built for; outside of any build "default"."""
    here = _native.context.get(None)
    return get_ep("default") if here is None else here.capabilities


def get_build_dtype() -> DataType:
    """The element type that is being built in; outside of any build FLOAT."""
    here = _native.context.get(None)
    return DataType.FLOAT if here is None else here.dtype
