"""build, build_from_module: models become packages for one execution provider."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from mobius import _arguments, _log, _native  # noqa: F401
from mobius._arguments import flag, integer, names, optional, task_name, text
from mobius._config import ArchitectureConfig
from mobius._context import build_context
from mobius._dtypes import DTypeLike, as_dtype, optional_dtype
from mobius._ep import get_ep
from mobius._errors import InvalidArgumentError, UnsupportedError
from mobius._package import ModelPackage, package_of

if TYPE_CHECKING:
    from mobius.nn import Module
    from mobius.tasks import ModelTask


def _refuse(**switches: Any) -> None:
    """What the original has and this doesn't: refused by name, unless it is off."""
    for name, value in switches.items():
        if value:
            raise UnsupportedError(f"{name} is not supported")


def build(model_id: str | os.PathLike, task: str | ModelTask | None = None, *, module_class: type[Module] | None = None, dtype: DTypeLike | None = None,
          output_layer_indices: list[int] | None = None, load_weights: bool = True, trust_remote_code: bool = False, execution_provider: str = "default",
          trace_optimization: bool = False, text_only: bool = False, fp8_kv_cache: bool = False, kv_cache_scales: Mapping | None = None,
          prune_lm_head: bool = False, opset: int | None = None, padding: str = "right", as_type: str | None = None, ignore_extra: Iterable[str] = (),
          revision: str | None = None) -> ModelPackage:
    """A Hugging Face model becomes a package for one execution provider.

        package = mobius.build("Qwen/Qwen2.5-0.5B", execution_provider="cuda", dtype="f16")
        package.save("out")

    `model_id`: a model id that is in the local Hugging Face cache, a folder in the Hugging Face layout, or a .gguf file.
    `dtype`: None: the checkpoint's, if the execution provider runs it. `load_weights=False`: the graphs alone (apply_weights adds them later).
    `module_class`: build this Python module, made from the checkpoint's config, instead of the model type's own.
    `trace_optimization`: tells each stage and rule to the logger mobius._optimizations. `padding`: "right", or "any" for batches padded on any side.
    `as_type`: build as this model_type, whatever config.json says. `ignore_extra`: globs of checkpoint tensors that may stay unused.
    `trust_remote_code` is taken and changes nothing: code of a checkpoint is never run.

    Everything that can be wrong with the model is found here. ValueError: an unknown execution provider, dtype or task; tensors that are missing,
    unknown or of another shape. FileNotFoundError: no such model, config or weights. NotImplementedError: a model type, a quantisation, ... by name.
    """
    _refuse(output_layer_indices=output_layer_indices, text_only=text_only, fp8_kv_cache=fp8_kv_cache, kv_cache_scales=kv_cache_scales,
            prune_lm_head=prune_lm_head)
    del trust_remote_code
    model, options = _arguments.path("model_id", model_id), _options(execution_provider, task, trace_optimization, opset, padding, ignore_extra)
    commit = optional(text, "revision", revision) or ""
    loads = flag("load_weights", load_weights)
    if module_class is not None:
        if not callable(module_class):
            raise _arguments.refuse("module_class", module_class, "a class made as module_class(config)")
        if as_type is not None:
            raise InvalidArgumentError("as_type is for models that mobius has: module_class says what is built")
        return _build_module_class(module_class, model, dtype, loads, commit, options)
    return package_of(*_native.build(model, {**options, "dtype": optional_dtype(dtype), "load_weights": loads, "revision": commit,
                                             "as_type": optional(text, "as_type", as_type) or ""}))


def _options(execution_provider: str, task: Any, trace_optimization: bool, opset: int | None, padding: str, ignore_extra: Iterable[str]) -> dict[str, Any]:
    """What builds of each kind take, checked."""
    return {"execution_provider": get_ep(execution_provider).name, "task": task_name(task), "opset": optional(integer, "opset", opset),
            "trace_optimization": flag("trace_optimization", trace_optimization), "padding": _arguments.choice("padding", padding, ("right", "any")),
            "ignore_extra": names("ignore_extra", ignore_extra)}


def _build_module_class(module_class: type[Module], model_id: bytes, dtype: DTypeLike | None, load_weights: bool, revision: str,
                        options: dict[str, Any]) -> ModelPackage:
    folder = _native.resolve(model_id, revision)
    config = ArchitectureConfig.from_pretrained(folder)
    task = options.pop("task") or "text-generation"
    return build_from_module(module_class(config), config, task, weights=folder if load_weights else None, dtype=dtype, **options)


def build_from_gguf(gguf_path: str | os.PathLike, *, task: str | None = None, dtype: DTypeLike | None = None, keep_quantized: bool = False,
                    execution_provider: str = "default", mmproj: str | os.PathLike | None = None, static_cache: bool = False,
                    max_seq_len: int | None = None, trace_optimization: bool = False) -> ModelPackage:
    """A GGUF file becomes a package; its weights are dequantised. `dtype`: None: f32."""
    _refuse(keep_quantized=keep_quantized, mmproj=mmproj, static_cache=static_cache, max_seq_len=max_seq_len)
    return build(_arguments.path("gguf_path", gguf_path), task, dtype=dtype, execution_provider=execution_provider, trace_optimization=trace_optimization)


def build_from_module(module: Module | Callable, config: ArchitectureConfig, task: str | ModelTask = "text-generation", *,
                      execution_provider: str = "default", trace_optimization: bool = False, fp8_kv_cache: bool = False,
                      kv_cache_scales: Mapping | None = None, prune_lm_head: bool = False, weights: str | os.PathLike | Mapping[str, Any] | None = None,
                      dtype: DTypeLike | None = None, opset: int | None = None, padding: str = "right", ignore_extra: Iterable[str] = ()) -> ModelPackage:
    """A decoder that is written in Python becomes a package for one execution provider.

        package = mobius.build_from_module(CausalLMModel(config), config, execution_provider="cuda", weights="models/mine")

    `module`: a mobius.nn.Module whose forward(op, input_ids, at) gives the logits; its parameters carry the checkpoint's names.
    `weights`: a folder with safetensors, such a file, or arrays by name; None: the package waits for them (apply_weights).
    `dtype`: None: config.dtype, if the execution provider runs it.
    """
    from mobius.tasks import CausalLMTask, named_forward

    if isinstance(module, type):
        raise TypeError(f"module is the class {module.__name__}, expected one of its kind: {module.__name__}(config)")
    if not callable(module):
        raise _arguments.refuse("module", module, "a mobius.nn.Module or a function of (op, input_ids, at)")
    if not isinstance(config, ArchitectureConfig):
        raise _arguments.refuse("config", config, "an ArchitectureConfig (ArchitectureConfig.from_dict makes one of a dict)")
    _refuse(fp8_kv_cache=fp8_kv_cache, kv_cache_scales=kv_cache_scales, prune_lm_head=prune_lm_head)
    options = _options(execution_provider, task, trace_optimization, opset, padding, ignore_extra)
    options["task"] = options["task"] or CausalLMTask.name
    capabilities = get_ep(execution_provider)
    chosen = _native.choose_dtype(capabilities.name, optional_dtype(dtype), as_dtype(config.dtype))
    own = config if chosen == config.dtype else _with_dtype(config, chosen)
    arrays, options["weights"] = _weights_of(module, weights)
    with build_context(capabilities, chosen):
        package = package_of(*_native.build_from_module(named_forward(module), own.native(), options))
    if arrays is not None:
        _apply(package, arrays, options["ignore_extra"])
    return package


def _with_dtype(config: ArchitectureConfig, dtype: Any) -> ArchitectureConfig:
    import dataclasses

    return dataclasses.replace(config, dtype=dtype)


def _weights_of(module: Any, weights: Any) -> tuple[Mapping[str, Any] | None, bytes | None]:
    """Arrays to apply, or a path that the library reads itself. A module that changes its weights gets them as arrays."""
    if weights is None:
        return None, None
    preprocess = getattr(module, "preprocess_weights", None)
    changed = preprocess is not None and getattr(type(module).preprocess_weights, "is_default", False) is False
    if not changed:
        return (weights, None) if isinstance(weights, Mapping) else (None, _arguments.path("weights", weights))
    arrays = preprocess(dict(weights) if isinstance(weights, Mapping) else load_checkpoint(weights))
    if not isinstance(arrays, Mapping):
        raise _arguments.refuse("what preprocess_weights returned", arrays, "a dict of arrays by name")
    return arrays, None


def load_checkpoint(path: str | os.PathLike) -> dict[str, Any]:
    """The tensors of a checkpoint as arrays by name: views of its files."""
    from mobius._arrays import to_numpy

    return {name: to_numpy(tensor) for name, tensor in _native.checkpoint(_arguments.path("path", path)).items()}


def _apply(package: ModelPackage, arrays: Mapping[str, Any], ignore_extra: list[str]) -> None:
    from fnmatch import fnmatchcase

    wanted = [names for model in package.values() for names, *_ in model._native.parameters()]
    known = {name for names in wanted for name in names}
    missing = [names[0] for names in wanted if not any(name in arrays for name in names)]
    extra = [name for name in arrays if name not in known and not any(fnmatchcase(name, glob) for glob in ignore_extra)]
    if missing or extra:
        raise InvalidArgumentError("; ".join([f"{name} is missing" for name in missing] + [f"{name} is unused" for name in extra]))
    package.apply_weights({name: value for name, value in arrays.items() if name in known})
