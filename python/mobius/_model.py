"""Models: from and to files, bytes, text, onnx and onnx_ir; optimised in place."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from mobius import _arguments, _log, _native  # noqa: F401
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
        if not isinstance(native, _native.Model):
            raise TypeError(f"a Model is made of {_arguments.found(native)} by Model.of, Model.load, Model.from_bytes or their like")
        self._native = native
        self._graph: Graph | None = None

    # ── in ──

    @classmethod
    def load(cls, path: str | os.PathLike) -> Model:
        """A model file; its external data lies beside it. Weights are mapped, not read."""
        return cls(_native.Model.read(_arguments.path("path", path)))

    @classmethod
    def from_bytes(cls, data: bytes, folder: str | os.PathLike = "") -> Model:
        """A serialized ModelProto. `folder`: where external data lies, if there is any."""
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise _arguments.refuse("data", data, "bytes")
        return cls(_native.Model.parse(bytes(data), _arguments.path("folder", folder)))

    @classmethod
    def from_text(cls, text: str) -> Model:
        """A model in ONNX's textual syntax (onnx.printer)."""
        return cls(_native.Model.from_text(_arguments.text("text", text)))

    @classmethod
    def from_onnx(cls, proto: onnx.ModelProto, folder: str | os.PathLike = "") -> Model:
        """An onnx.ModelProto. `folder`: where external data lies, if there is any."""
        if not is_onnx(proto):
            raise _arguments.refuse("proto", proto, "an onnx.ModelProto")
        return cls.from_bytes(proto.SerializeToString(), folder)

    @classmethod
    def from_onnx_ir(cls, model: onnx_ir.Model) -> Model:
        """An onnx_ir.Model. Weights are taken over without copies; `model` stays as it is."""
        if not is_onnx_ir(model):
            raise _arguments.refuse("model", model, "an onnx_ir.Model")
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
        raise TypeError(f"expected a mobius.Model, onnx.ModelProto, onnx_ir.Model, bytes or a path, found {_arguments.found(model)}")

    # ── out ──

    def save(self, path: str | os.PathLike, *, external_data: bool | str | None = None, max_shard_size: int | str = 0,
             progress: bool | Callable[[int, int], None] | None = None) -> None:
        """Writes a model file. `external_data`: False: weights inside, True or "onnx": in NAME.data, "safetensors": in that format;
        None: inside while they have at most 64 MiB."""
        from mobius._progress import progress_of, size_of

        safetensors = external_data == "safetensors"
        if isinstance(external_data, str):
            _arguments.choice("external_data", external_data, ("onnx", "safetensors"))
        elif external_data is not None:
            external_data = _arguments.flag("external_data", external_data)
        size, encoded = size_of(max_shard_size), _arguments.path("path", path)
        if size and not safetensors:
            raise InvalidArgumentError("max_shard_size is of files in safetensors: give external_data='safetensors' too")
        with progress_of(progress, os.path.basename(os.fsdecode(encoded))) as told:
            self._native.write(encoded, None if external_data is None else bool(external_data), safetensors, size, told)

    def to_bytes(self) -> bytes:
        """A serialized ModelProto with all weights inside; less than 2 GiB."""
        return self._native.to_bytes()

    def to_text(self, max_elements: int = 2**63 - 1) -> str:
        """ONNX's textual syntax; larger tensors than `max_elements` as type and name only."""
        return self._native.text(_arguments.integer("max_elements", max_elements, 0))

    def to_onnx(self) -> onnx.ModelProto:
        """An onnx.ModelProto with all weights inside; less than 2 GiB."""
        import onnx

        return onnx.ModelProto.FromString(self.to_bytes())

    def to_onnx_ir(self) -> onnx_ir.Model:
        """An onnx_ir.Model. Its weights are views: of mapped files, or of what this model holds."""
        from mobius._onnx_ir import to_onnx_ir

        return to_onnx_ir(self._native)

    def clone(self) -> Model:
        """A model of its own with the same weights, which are shared, also those that it still waits for."""
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
        expected = "a dict of texts"
        self._native.metadata = {_arguments.text("metadata", key, expected): _arguments.text(f"metadata[{key!r}]", value)
                                 for key, value in _arguments.mapping("metadata", entries, expected).items()}

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


def checked_role(role: str, name: str = "role") -> str:
    if not isinstance(role, str):
        raise _arguments.refuse(name, role, f"one of {', '.join(ROLES)}")
    if role not in ROLES:
        raise InvalidArgumentError(f"{name} is {_arguments.found(role)}, expected one of {', '.join(ROLES)}")
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
    from mobius._ep import get_ep

    provider, names, traced = get_ep(ep).name, _arguments.names("skip", skip), _arguments.flag("trace", trace)
    _arguments.choice("padding", padding, ("right", "any"))
    opset = _arguments.optional(_arguments.integer, "opset", opset)
    chosen = optional_dtype(dtype)
    if chosen not in (None, *_COMPUTED_IN):
        raise InvalidArgumentError(f"dtype is {chosen}, expected FLOAT, FLOAT16 or BFLOAT16")
    if not (isinstance(model, Model) or is_onnx_ir(model) or is_onnx(model)):
        raise _arguments.refuse("model", model, "what can be changed in place: a mobius.Model (Model.load reads a file), onnx.ModelProto or onnx_ir.Model")
    own = Model.of(model)
    report = json.loads(own._native.optimize(provider, chosen, checked_role(model_role, "model_role"), traced, padding, opset, names))
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
