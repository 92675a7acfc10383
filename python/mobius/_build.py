"""build, build_from_module: models become packages for one execution provider."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from mobius import _log, _native  # noqa: F401
from mobius._config import ArchitectureConfig
from mobius._context import build_context
from mobius._dtypes import DTypeLike, as_dtype, optional_dtype
from mobius._ep import get_ep
from mobius._errors import UnsupportedError
from mobius._package import ModelPackage, package_of

if TYPE_CHECKING:
    from mobius.nn import Module
    from mobius.tasks import ModelTask


def _refuse(**switches: Any) -> None:
    """What the original has and this doesn't: refused by name, unless it is off."""
    for name, value in switches.items():
        if value:
            raise UnsupportedError(f"{name} is not supported")


def _name_of(task: Any) -> str:
    return "" if task is None else task if isinstance(task, str) else task.name


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
    get_ep(execution_provider)
    if module_class is not None:
        return _build_module_class(module_class, os.fspath(model_id), _name_of(task) or "text-generation", dtype, load_weights, revision, opset=opset,
                                   padding=padding, ignore_extra=ignore_extra, execution_provider=execution_provider, trace_optimization=trace_optimization)
    return package_of(*_native.build(os.fspath(model_id), {
        "execution_provider": execution_provider, "dtype": optional_dtype(dtype), "task": _name_of(task), "load_weights": load_weights,
        "trace_optimization": trace_optimization, "opset": opset, "padding": padding, "as_type": as_type or "", "ignore_extra": list(ignore_extra),
        "revision": revision or ""}))


def _build_module_class(module_class: type[Module], model_id: str, task: str, dtype: DTypeLike | None, load_weights: bool, revision: str | None,
                        **options: Any) -> ModelPackage:
    folder = _native.resolve(model_id, revision or "")
    config = ArchitectureConfig.from_pretrained(folder)
    return build_from_module(module_class(config), config, task, weights=folder if load_weights else None, dtype=dtype, **options)


def build_from_gguf(gguf_path: str | os.PathLike, *, task: str | None = None, dtype: DTypeLike | None = None, keep_quantized: bool = False,
                    execution_provider: str = "default", mmproj: str | os.PathLike | None = None, static_cache: bool = False,
                    max_seq_len: int | None = None, trace_optimization: bool = False) -> ModelPackage:
    """A GGUF file becomes a package; its weights are dequantised. `dtype`: None: f32."""
    _refuse(keep_quantized=keep_quantized, mmproj=mmproj, static_cache=static_cache, max_seq_len=max_seq_len)
    return build(gguf_path, task, dtype=dtype, execution_provider=execution_provider, trace_optimization=trace_optimization)


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
        raise TypeError(f"module is a {type(module).__name__}, expected a mobius.nn.Module or a function of (op, input_ids, at)")
    _refuse(fp8_kv_cache=fp8_kv_cache, kv_cache_scales=kv_cache_scales, prune_lm_head=prune_lm_head)
    capabilities = get_ep(execution_provider)
    name = _name_of(task) or CausalLMTask.name
    chosen = _native.choose_dtype(capabilities.name, optional_dtype(dtype), as_dtype(config.dtype))
    own = config if chosen == config.dtype else _with_dtype(config, chosen)
    arrays, path = _weights_of(module, weights)
    options = {"execution_provider": execution_provider, "ignore_extra": list(ignore_extra), "task": name, "opset": opset, "padding": padding,
               "trace_optimization": trace_optimization, "weights": path}
    with build_context(capabilities, chosen):
        package = package_of(*_native.build_from_module(named_forward(module), own.native(), options))
    if arrays is not None:
        _apply(package, arrays, list(ignore_extra))
    return package


def _with_dtype(config: ArchitectureConfig, dtype: Any) -> ArchitectureConfig:
    import dataclasses

    return dataclasses.replace(config, dtype=dtype)


def _weights_of(module: Any, weights: Any) -> tuple[Mapping[str, Any] | None, str | None]:
    """Arrays to apply, or a path that the library reads itself. A module that changes its weights gets them as arrays."""
    if weights is None:
        return None, None
    preprocess = getattr(module, "preprocess_weights", None)
    changed = preprocess is not None and getattr(type(module).preprocess_weights, "is_default", False) is False
    if isinstance(weights, Mapping):
        return (preprocess(dict(weights)) if changed else weights), None
    if not changed:
        return None, os.fspath(weights)
    return preprocess(load_checkpoint(weights)), None


def load_checkpoint(path: str | os.PathLike) -> dict[str, Any]:
    """The tensors of a checkpoint as arrays by name: views of its files."""
    from mobius._arrays import to_numpy

    return {name: to_numpy(tensor) for name, tensor in _native.checkpoint(os.fspath(path)).items()}


def _apply(package: ModelPackage, arrays: Mapping[str, Any], ignore_extra: list[str]) -> None:
    from fnmatch import fnmatchcase

    from mobius._errors import InvalidArgumentError

    wanted = [names for model in package.values() for names, *_ in model._native.parameters()]
    known = {name for names in wanted for name in names}
    missing = [names[0] for names in wanted if not any(name in arrays for name in names)]
    extra = [name for name in arrays if name not in known and not any(fnmatchcase(name, glob) for glob in ignore_extra)]
    if missing or extra:
        raise InvalidArgumentError("; ".join([f"{name} is missing" for name in missing] + [f"{name} is unused" for name in extra]))
    package.apply_weights({name: value for name, value in arrays.items() if name in known})
