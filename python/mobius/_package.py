"""ModelPackage: the graphs of a model by name, with the files that a runtime needs beside them."""

from __future__ import annotations

import json
import os
from collections import UserDict
from collections.abc import Callable, Mapping
from typing import Any

from mobius import _arguments, _log, _native  # noqa: F401
from mobius._errors import InvalidArgumentError, NotFoundError
from mobius._model import Model
from mobius._weights import bind_weights, checked_weights

_ROLES = {"vision": "vision", "vision_encoder": "vision", "embedding": "embedding", "encoder": "encoder"}


class ModelPackage(UserDict):
    """Models by component: "model" for a decoder-only language model; "vision", "embedding", "decoder", ... for others.

        package = mobius.build("Qwen/Qwen2.5-0.5B")
        package["model"].op_counts()
        package.save("out", runtime="ort-genai")
        package = mobius.ModelPackage.load("out")

    Values may be set as mobius.Model, onnx.ModelProto or onnx_ir.Model; they are kept as mobius.Model. Made from another package, it has that one's
    files too.
    """

    def __init__(self, models: Mapping[str, Any] | None = None, config: object | None = None, *, _native_package: Any = None, **more: Any) -> None:
        taken = _native_package or (models._package.copy() if isinstance(models, ModelPackage) else _native.Package())
        self._package = taken
        self._config: Any = models._config if isinstance(models, ModelPackage) else None
        super().__init__(models or {}, **more)
        if config is not None:
            self.config = config

    def __setitem__(self, name: str, model: Any) -> None:
        if not isinstance(name, str) or not name.isprintable() or name.strip(" .") != name or "/" in name or "\\" in name or not name:
            raise InvalidArgumentError(f"{name!r} is no name of a component: it names a folder")
        fresh = not isinstance(model, Model)
        model = Model.of(model)
        if fresh and "mobius.role" not in model.metadata:
            model.role = _ROLES.get(name, "decoder")
        super().__setitem__(name, model)

    def __or__(self, other: Any) -> ModelPackage:
        out = self.copy()
        out.update(other)
        return out

    def copy(self) -> ModelPackage:
        """A package of its own with the same models."""
        return ModelPackage(self)

    __copy__ = copy

    def __deepcopy__(self, memo: dict) -> ModelPackage:
        out = self.copy()
        for name, model in self.items():
            out[name] = model.clone()
        return out

    @property
    def config(self) -> Any:
        """The model's config.json; None when there is none. A dict that is assigned is what save writes."""
        return json.loads(self._package.config) if self._config is None else self._config

    @config.setter
    def config(self, config: object) -> None:
        self._config = None
        if not isinstance(config, (Mapping, type(None))):  # an ArchitectureConfig, or whatever the caller has
            self._config = config
            config = config.to_dict() if hasattr(config, "to_dict") else None
        try:
            self._package.config = json.dumps(dict(config) if config is not None else None, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as reason:
            raise type(reason)(f"config is no JSON: {reason}") from None

    @property
    def files(self) -> list[str]:
        """The files beside the graphs: config, tokenizer, licence."""
        return self._package.files

    def read_file(self, name: str) -> bytes:
        """The content of one of `files`."""
        return self._package.read_file(_arguments.text("name", name))

    @property
    def has_weights(self) -> bool:
        return all(not model._native.parameters() for model in self.values())

    def apply_weights(self, state_dict: Mapping[str, Any]) -> None:
        """As mobius.apply_weights, over all models of the package."""
        _arguments.mapping("state_dict", state_dict, "a dict of arrays by name")
        wanted = {key: {n for names, *_ in model._native.parameters() for n in names} for key, model in self.items()}
        unknown = [name for name in state_dict if not any(name in names for names in wanted.values())]
        taken = [name for name in unknown if any(model._native.has_value(name) for model in self.values())]
        if taken:
            raise InvalidArgumentError(f"{_arguments.one_line(taken)}: the package has a value for it already, and takes each weight once")
        if unknown:
            raise NotFoundError(f"no model of the package has a parameter {_arguments.one_line(unknown)}")
        parts = {key: {name: value for name, value in state_dict.items() if name in wanted[key]} for key in self}
        checked = {key: checked_weights(self[key], part) for key, part in parts.items()}
        for key, arrays in checked.items():  # all or nothing
            bind_weights(self[key], arrays)

    def plan(self, *, external_data: str = "onnx", max_shard_size: int | str = 0, runtime: str | None = None, context_length: int = 0) -> list[tuple[str, int]]:
        """What save would write: names and sizes. Nothing is written, no weight is read."""
        return self._package.plan(self._components(), _options(external_data, max_shard_size, runtime, context_length, False, None))

    def save(self, directory: str | os.PathLike, *, external_data: str = "onnx", max_shard_size: int | str = 0, runtime: str | None = None,
             context_length: int = 0, force: bool = False, progress: bool | Callable[[int, int], None] | None = None) -> list[tuple[str, int]]:
        """Writes the package to a folder, which appears complete or not at all; returns the names and sizes of its files.

        A folder may be new, empty, or a package that holds nothing else; others need `force`. `external_data`: "onnx" or "safetensors".
        `max_shard_size`: of safetensors files, as bytes or "5GB". `runtime`: "ort-genai" adds what ONNX Runtime GenAI needs; `context_length` is then
        the tokens of prompt and answer. `progress`: None: a tqdm bar on a terminal, where tqdm is installed; True: everywhere; False: none; a function
        is called with the bytes written and their total, from one thread at a time. Ctrl-C stops it and leaves what was there before.
        """
        from mobius._progress import progress_of

        path = _arguments.path("directory", directory)
        with progress_of(progress, os.path.basename(os.path.abspath(os.fsdecode(path)))) as told:
            options = _options(external_data, max_shard_size, runtime, context_length, force, told)
            return self._package.save(self._components(), path, options)

    @classmethod
    def load(cls, directory: str | os.PathLike) -> ModelPackage:
        """A package that was saved. Weights are mapped, not read. One that was saved without weights waits for them: apply_weights."""
        return package_of(*_native.Package.load(_arguments.path("directory", directory)))

    def _components(self) -> list[tuple[str, _native.Model]]:
        return [(name, model._native) for name, model in self.items()]

    def __repr__(self) -> str:
        if not self.data:
            return "ModelPackage({})"
        config = self.config
        model_type = config.get("model_type") if isinstance(config, dict) else None
        lines = [f"ModelPackage({model_type or ''}" + ("" if self.has_weights else ", without weights")]
        for name, model in self.items():
            meta, graph = model.metadata, model.graph
            size = sum(tensor.byte_size for tensor in graph.initializers._tensors.values())
            target = f"{meta['mobius.ep']} {meta['mobius.dtype']}, " if "mobius.ep" in meta and "mobius.dtype" in meta else ""
            lines.append(f"  {name}: {model.role}, {target}{len(graph)} nodes, {len(graph.initializers)} weights and constants ({_text_of(size)})")
            lines.append(f"    in   {_ports(graph.inputs)}")
            lines.append(f"    out  {_ports(graph.outputs)}")
        if self.files:
            lines.append(f"  files: {', '.join(self.files)}")
        return "\n".join(lines) + ")"


def _ports(values: list) -> str:
    shown = [f"{v.name} {v.dtype}[{', '.join('?' if d is None else str(d) for d in v.shape or ())}]" for v in values[:4]]
    return ", ".join(shown) + (f", ... ({len(values)})" if len(values) > 4 else "")


def _text_of(size: int) -> str:
    for unit in ("B", "KB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.2f} GB"


def _options(external_data: str, max_shard_size: int | str, runtime: str | None, context_length: int, force: bool, progress: Any) -> dict:
    from mobius._progress import size_of

    known = tuple(_native.runtime_names())
    return {"external_data": _arguments.choice("external_data", external_data, ("onnx", "safetensors")), "max_shard_size": size_of(max_shard_size),
            "runtime": "" if runtime is None else _arguments.choice("runtime", runtime, ("", *known)),
            "context_length": _arguments.integer("context_length", context_length, 0, "a number of tokens"),
            "force": _arguments.flag("force", force), "progress": progress}


def package_of(native: Any, components: list) -> ModelPackage:
    """What the library built, as Python's."""
    return ModelPackage({name: Model(model) for name, model in components}, _native_package=native)
