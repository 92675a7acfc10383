"""Models: from and to files, bytes, text, onnx and onnx_ir; optimised in place."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from mobius import _log, _native  # noqa: F401
from mobius._dtypes import DataType, DTypeLike, optional_dtype
from mobius._errors import InvalidArgumentError

if TYPE_CHECKING:
    import numpy as np
    import onnx
    import onnx_ir

    from mobius._graph import Graph, Value

ROLES = ("decoder", "vision", "embedding", "encoder")


class Model:
    """One ONNX graph with its weights, which stay where they are until they are asked for.

        model = mobius.Model.load("model.onnx")
        mobius.optimize_model(model, ep="cuda", dtype="f16")
        model.save("model_cuda.onnx")

    A model is used by one call at a time: while a thread writes or optimises it, others are refused.
    """

    __slots__ = ("_native", "_graph")

    def __init__(self, native: _native.Model) -> None:
        self._native = native
        self._graph: Graph | None = None

    # ── in ──

    @classmethod
    def load(cls, path: str | os.PathLike) -> Model:
        """A model file; its external data lies beside it. Weights are mapped, not read."""
        return cls(_native.Model.read(os.fspath(path)))

    @classmethod
    def from_bytes(cls, data: bytes, folder: str | os.PathLike = "") -> Model:
        """A serialized ModelProto. `folder`: where external data lies, if there is any."""
        return cls(_native.Model.parse(bytes(data), os.fspath(folder)))

    @classmethod
    def from_text(cls, text: str) -> Model:
        """A model in ONNX's textual syntax (onnx.printer)."""
        return cls(_native.Model.from_text(text))

    @classmethod
    def from_onnx(cls, proto: onnx.ModelProto, folder: str | os.PathLike = "") -> Model:
        """An onnx.ModelProto. `folder`: where external data lies, if there is any."""
        return cls.from_bytes(proto.SerializeToString(), folder)

    @classmethod
    def from_onnx_ir(cls, model: onnx_ir.Model) -> Model:
        """An onnx_ir.Model. Weights are taken over without copies; `model` stays as it is."""
        from mobius._onnx_ir import from_onnx_ir

        return cls(from_onnx_ir(model))

    @classmethod
    def of(cls, model: Any) -> Model:
        """Any of them: mobius.Model (the same object), onnx.ModelProto, onnx_ir.Model, bytes, a path."""
        if isinstance(model, cls):
            return model
        if is_onnx_ir(model):
            return cls.from_onnx_ir(model)
        if is_onnx(model):
            return cls.from_onnx(model)
        if isinstance(model, (bytes, bytearray, memoryview)):
            return cls.from_bytes(bytes(model))
        if isinstance(model, (str, os.PathLike)):
            return cls.load(model)
        raise TypeError(f"expected a mobius.Model, onnx.ModelProto, onnx_ir.Model, bytes or a path, found {type(model).__name__}")

    # ── out ──

    def save(self, path: str | os.PathLike, *, external_data: bool | str | None = None, max_shard_size: int | str = 0,
             progress: bool | Callable[[int, int], None] | None = None) -> None:
        """Writes a model file. `external_data`: False: weights inside, True or "onnx": in NAME.data, "safetensors": in that format;
        None: inside while they have at most 64 MiB."""
        from mobius._progress import progress_of, size_of

        safetensors = external_data == "safetensors"
        if isinstance(external_data, str) and external_data not in ("onnx", "safetensors"):
            raise InvalidArgumentError(f"external_data is {external_data!r}, expected onnx or safetensors")
        with progress_of(progress, os.path.basename(os.fspath(path))) as told:
            self._native.write(os.fspath(path), None if external_data is None else bool(external_data), safetensors, size_of(max_shard_size), told)

    def to_bytes(self) -> bytes:
        """A serialized ModelProto with all weights inside; less than 2 GiB."""
        return self._native.to_bytes()

    def to_text(self, max_elements: int = 2**63) -> str:
        """ONNX's textual syntax; larger tensors than `max_elements` as type and name only."""
        return self._native.text(max_elements)

    def to_onnx(self) -> onnx.ModelProto:
        """An onnx.ModelProto with all weights inside; less than 2 GiB."""
        import onnx

        return onnx.ModelProto.FromString(self.to_bytes())

    def to_onnx_ir(self) -> onnx_ir.Model:
        """An onnx_ir.Model. Its weights are views: of mapped files, or of what this model holds."""
        from mobius._onnx_ir import to_onnx_ir

        return to_onnx_ir(self._native)

    def clone(self) -> Model:
        """A model of its own with the same weights, which are shared."""
        return Model(self._native.clone())

    __copy__ = clone

    def __deepcopy__(self, memo: dict) -> Model:
        return self.clone()

    def __reduce__(self) -> tuple:
        return Model.from_bytes, (self.to_bytes(),)

    # ── looking at it ──

    @property
    def graph(self) -> Graph:
        """A copy of the graph, to look at."""
        from mobius._graph import Graph

        if self._graph is None:
            self._graph = Graph(self._native.graph())
        return self._graph

    @property
    def inputs(self) -> list[Value]:
        return self.graph.inputs

    @property
    def outputs(self) -> list[Value]:
        return self.graph.outputs

    @property
    def initializers(self) -> Mapping[str, np.ndarray]:
        """Weights and constants by name, as arrays that can't be written to; nothing is copied where the bytes lie in memory or in a file."""
        return self.graph.initializers

    @property
    def functions(self) -> list[tuple[str, str]]:
        """Domain and name of each function body that the model holds."""
        return self._native.functions()

    def op_counts(self) -> dict[str, int]:
        """How many nodes there are of each operator: {"MatMul": 4, "com.microsoft::FusedMatMul": 2}."""
        return self._native.op_counts()

    def verify(self) -> list[str]:
        """What is wrong with the graph; empty when it is well formed."""
        return self._native.verify()

    @property
    def role(self) -> str:
        """"decoder", "vision", "embedding" or "encoder": some fusions are for decoders only."""
        return self._native.role

    @role.setter
    def role(self, role: str) -> None:
        self._native.role = checked_role(role)

    @property
    def metadata(self) -> dict[str, str]:
        """metadata_props; assign a dict to change them."""
        return self._native.metadata

    @metadata.setter
    def metadata(self, entries: Mapping[str, str]) -> None:
        self._native.metadata = dict(entries)

    @property
    def opset_imports(self) -> dict[str, int]:
        return self._native.opset_imports

    @property
    def ir_version(self) -> int:
        return self._native.ir_version

    @property
    def producer_name(self) -> str:
        return self._native.producer_name

    @property
    def doc_string(self) -> str:
        return self._native.doc_string

    def __repr__(self) -> str:
        graph = self.graph
        shown = ", ".join(v.name for v in graph.inputs[:4]) + (", ..." if len(graph.inputs) > 4 else "")
        return f"<mobius.Model {self.role}: {len(graph)} nodes, inputs {shown}>"

    __str__ = __repr__


def checked_role(role: str) -> str:
    if role not in ROLES:
        raise InvalidArgumentError(f"role is {role!r}, expected one of {', '.join(ROLES)}")
    return role


def _comes_from(model: Any, package: str, name: str) -> bool:
    return any(c.__name__ == name and (c.__module__ or "").split(".")[0] == package for c in type(model).__mro__)


def is_onnx(model: Any) -> bool:
    return hasattr(model, "SerializeToString") and type(model).__name__ == "ModelProto"


def is_onnx_ir(model: Any) -> bool:
    return _comes_from(model, "onnx_ir", "Model")


def optimize_model(model: Model | onnx_ir.Model | onnx.ModelProto, ep: str = "default", dtype: DTypeLike | None = None, model_role: str = "decoder",
                   trace: bool = False, fp8_kv_cache: bool = False, kv_cache_scales: dict | None = None, *, padding: str = "right",
                   opset: int | None = None, skip: Iterable[str] = ()) -> dict:
    """Optimises a model for one execution provider, in place, whoever made it.

        optimize_model(model, ep="cuda", dtype=DataType.FLOAT16)

    `dtype`: what the model computes in; None: the type of its own float inputs and weights. `trace`: tells each stage and rule to the logger
    mobius._optimizations. `skip`: passes and rule groups to leave out. Returns the report: what each step did.
    ValueError: an unknown execution provider, or name in `skip`, with the known ones; a dtype that is not FLOAT, FLOAT16 or BFLOAT16. NotImplementedError: the execution provider can't run an operator.
    """
    if fp8_kv_cache or kv_cache_scales is not None:
        from mobius._errors import UnsupportedError

        raise UnsupportedError("fp8_kv_cache and kv_cache_scales: the cache in float8 is not supported")
    if padding not in ("right", "any"):
        raise InvalidArgumentError(f"padding is {padding!r}, expected right or any")
    from mobius._ep import get_ep

    get_ep(ep)
    if isinstance(skip, str):
        raise InvalidArgumentError(f"skip is {skip!r}, expected a list of names")
    chosen = optional_dtype(dtype)
    if chosen not in (None, *_COMPUTED_IN):
        raise InvalidArgumentError(f"dtype is {chosen}, expected {_names(_COMPUTED_IN)}")
    own = Model.of(model)
    report = json.loads(own._native.optimize(ep, chosen, checked_role(model_role), trace, padding, opset, list(skip)))
    own._graph = None
    if own is model:
        return report
    if is_onnx_ir(model):
        from mobius._onnx_ir import replace

        replace(model, own.to_onnx_ir())
    else:
        model.ParseFromString(own.to_bytes())
    return report


_COMPUTED_IN = (DataType.FLOAT, DataType.FLOAT16, DataType.BFLOAT16)
_FLOATS = (*_COMPUTED_IN, DataType.DOUBLE)
_INTEGERS = (DataType.BOOL, *(DataType[f"{sign}INT{bits}"] for sign in ("", "U") for bits in (8, 16, 32, 64)))


def _names(dtypes: tuple) -> str:
    return ", ".join(map(str, dtypes[:-1])) + f" or {dtypes[-1]}"


def apply_weights(model: Model, state_dict: Mapping[str, Any]) -> None:
    """Gives a model that was built without weights its own, by their names in the checkpoint.

        package = mobius.build("Qwen/Qwen2.5-0.5B", load_weights=False)
        mobius.apply_weights(package["model"], {"model.norm.weight": array, ...})

    Arrays are numpy's (or what numpy takes) and are referred to, not copied. What is done to a checkpoint as a whole when `build` reads it, is
    not done here: a weight that a checkpoint may leave out has to be given. ValueError: a name that the model has no parameter for,
    another shape, integers for a float parameter or the other way round.
    """
    from mobius._arrays import from_numpy

    parameters = {name: (dims, dtype) for names, dims, dtype in model._native.parameters() for name in names}
    unknown = [name for name in state_dict if name not in parameters]
    if unknown:
        raise InvalidArgumentError(f"the model has no parameter {', '.join(sorted(unknown)[:5])}" + (", ..." if len(unknown) > 5 else ""))
    arrays = {name: from_numpy(value) for name, value in state_dict.items()}
    wrong = []
    for name, tensor in arrays.items():
        dims, dtype = parameters[name]
        allowed = _FLOATS if dtype in _FLOATS else _INTEGERS
        if list(tensor.dims) != list(dims):
            wrong.append(f"{name} is {list(tensor.dims)}, expected {list(dims)}")
        elif tensor.dtype not in allowed:
            wrong.append(f"{name} is {tensor.dtype}, expected {_names(allowed)}")
    if wrong:
        raise InvalidArgumentError("; ".join(wrong))
    model._native.bind(arrays)
    model._graph = None
