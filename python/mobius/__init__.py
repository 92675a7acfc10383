"""Hugging Face models into ONNX packages that are optimised for one execution provider.

    import mobius

    package = mobius.build("Qwen/Qwen2.5-0.5B", execution_provider="cuda", dtype="f16")
    package.save("out")

Everything is imported when it is first used; numpy, the only package needed at run time, when weights are looked at.
"""

TYPE_CHECKING = False  # typing's own costs more time than all the rest of this file

if TYPE_CHECKING:
    from mobius import components, models, nn, tasks
    from mobius._build import build, build_from_gguf, build_from_module, load_checkpoint
    from mobius._config import ArchitectureConfig
    from mobius._context import build_context, ep_capabilities, get_build_dtype
    from mobius._dtypes import DataType
    from mobius._ep import EpCapabilities, EpRegistry, ep_registry, get_ep, register_ep
    from mobius._errors import CorruptFileError, Error, InputOutputError, InternalError, InvalidArgumentError, NotFoundError, UnsupportedError
    from mobius._model import Model, optimize_model
    from mobius._package import ModelPackage
    from mobius._registry import ModelRegistration, ModelRegistry, registry
    from mobius._weights import apply_weights
    from mobius.tasks import CausalLMTask, ModelTask

    __version__: str
    OPSET_VERSION: int

_HOMES = {
    "_build": ("build", "build_from_gguf", "build_from_module", "load_checkpoint"),
    "_config": ("ArchitectureConfig",),
    "_context": ("build_context", "ep_capabilities", "get_build_dtype"),
    "_dtypes": ("DataType",),
    "_ep": ("EpCapabilities", "EpRegistry", "ep_registry", "get_ep", "register_ep"),
    "_errors": ("CorruptFileError", "Error", "InputOutputError", "InternalError", "InvalidArgumentError", "NotFoundError", "UnsupportedError"),
    "_model": ("Model", "optimize_model"),
    "_package": ("ModelPackage",),
    "_registry": ("ModelRegistration", "ModelRegistry", "registry"),
    "_weights": ("apply_weights",),
    "tasks": ("CausalLMTask", "ModelTask"),
    "_native": ("__version__",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
_MODULES = ("components", "models", "nn", "tasks")
OPSET_VERSION = 24

__all__ = sorted([*(name for name in _HOME_OF if not name.startswith("_")), *_MODULES, "OPSET_VERSION"])


def __getattr__(name: str):
    from importlib import import_module

    if name in _MODULES:
        return import_module(f"mobius.{name}")
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'mobius' has no attribute {name!r}", name=name, obj=import_module("mobius"))
    if home == "_native":
        import_module("mobius._log")
    value = getattr(import_module(f"mobius.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
