"""Execution providers: what is known of each, and the registry of them."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from typing import Any

from mobius import _log, _native  # noqa: F401  (messages go to logging from the first call on)
from mobius._dtypes import DataType, as_dtype
from mobius._errors import InvalidArgumentError

# The order of the specification; what else is known follows in the library's own.
_FIRST = ("name", "gqa_dtypes", "qkv_pack_dtypes", "supports_fused_rope", "supports_skip_layer_norm", "supports_fused_matmul", "supports_fused_moe",
          "supports_packed_multi_head_attention", "default_int4_accuracy_level", "provider_options", "enable_graph_capture")
_TABLE = {name: (kind, json.loads(default), text) for name, kind, default, text in _native.ep_fields()}
_DTYPE_SETS = frozenset(name for name, (kind, _, _) in _TABLE.items() if "list" in kind)
_DTYPES = frozenset(name for name in _TABLE if name == "fallback_dtype")


def _from_json(name: str, value: Any) -> Any:
    if name in _DTYPE_SETS:
        return frozenset(as_dtype(item) for item in value)
    return as_dtype(value) if name in _DTYPES else value


def _fields() -> list:
    out: list = []
    for name in (*_FIRST, *(name for name in _TABLE if name not in _FIRST)):
        value = _from_json(name, _TABLE[name][1])
        if name == "name":
            out.append((name, str))
        elif isinstance(value, dict):
            out.append((name, dict, dataclasses.field(default_factory=dict)))
        else:
            out.append((name, type(value) if value is not None else Any, dataclasses.field(default=value)))
    return out


def _normalise(self) -> None:
    for name in _DTYPE_SETS:
        object.__setattr__(self, name, frozenset(as_dtype(item) for item in getattr(self, name)))
    for name in _DTYPES:
        object.__setattr__(self, name, as_dtype(getattr(self, name)))
    object.__setattr__(self, "provider_options", dict(self.provider_options))


EpCapabilities = dataclasses.make_dataclass("EpCapabilities", _fields(), frozen=True, namespace={
    "__module__": "mobius", "__post_init__": _normalise, "__hash__": lambda self: hash(self.name),
    "__doc__": "Everything that is known of an execution provider, as facts about its kernels.\n\n" +
               "\n".join(f"    {name}: {text}" for name, (_, _, text) in _TABLE.items())})


def capabilities_json(capabilities: EpCapabilities) -> str:
    """As the library reads it."""
    def plain(name: str) -> Any:
        value = getattr(capabilities, name)
        if name in _DTYPE_SETS:
            return [item.name for item in sorted(value)]
        return value.name if name in _DTYPES else value

    return json.dumps({name: plain(name) for name in _TABLE})


class EpRegistry(Mapping):
    """The execution providers by name: the built-in ones, in the table's order, then those that were registered."""

    def __init__(self) -> None:
        self._known: dict[str, EpCapabilities] = {}

    def get(self, name: str, default: Any = None) -> EpCapabilities | Any:
        """The execution provider of this name, or `default`."""
        return self.require(name) if name in self else default

    def require(self, name: str) -> EpCapabilities:
        """The execution provider of this name. ValueError, with the known names, when there is none."""
        if name not in self:
            raise InvalidArgumentError(f"Unknown execution provider {name!r}. Supported: {sorted(self)}")
        if name not in self._known:
            entries = json.loads(_native.ep_json(name))
            self._known[name] = EpCapabilities(**{key: _from_json(key, value) for key, value in entries.items()})
        return self._known[name]

    def register(self, caps: EpCapabilities, *, overwrite: bool = False) -> None:
        """Adds one. ValueError when the name is taken (unless `overwrite`) or fields contradict each other."""
        if not isinstance(caps, EpCapabilities):
            raise TypeError(f"expected EpCapabilities, found {type(caps).__name__}")
        _native.register_ep(capabilities_json(caps), overwrite)
        self._known[caps.name] = caps

    def __getitem__(self, name: str) -> EpCapabilities:
        if name not in self:
            raise KeyError(name)
        return self.require(name)

    def __contains__(self, name: object) -> bool:
        return name in _native.ep_names()

    def __iter__(self) -> Iterator[str]:
        return iter(_native.ep_names())

    def __len__(self) -> int:
        return len(_native.ep_names())

    def __repr__(self) -> str:
        return f"EpRegistry({', '.join(self)})"


ep_registry = EpRegistry()


def get_ep(name: str) -> EpCapabilities:
    """The execution provider of this name. ValueError, with the known names, when there is none."""
    return ep_registry.require(name)


def register_ep(caps: EpCapabilities, *, overwrite: bool = False) -> None:
    """Makes an execution provider known: `build(..., execution_provider=caps.name)` then builds for it.

        register_ep(EpCapabilities(name="my-ep", gqa_dtypes=frozenset({DataType.FLOAT16})))
    """
    ep_registry.register(caps, overwrite=overwrite)


__all__ = ["DataType", "EpCapabilities", "EpRegistry", "ep_registry", "get_ep", "register_ep"]
