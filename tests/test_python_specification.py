"""Every Python block of the specification of EP-aware building, by a short name.

Blocks are of three kinds: `runs` as it stands; `bound`: runs once the names that it leaves free have values; `sketch`: not code as it
stands (an argument `...`, fields without defaults), so its names, fields, defaults and messages are checked. Where the specification lies
beside the repository its own text is run, found by its hash; the snippets here say the same and run everywhere.
"""
import ast
import asyncio
import dataclasses
import functools
import hashlib
import inspect
import logging
import re

import mobius
import onnx_ir as ir
import pytest
from checkpoints import LLAMA, make_checkpoint
from mobius import nn
from python_support import SPECIFICATION, make_hub

FLOAT, FLOAT16, BFLOAT16 = ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16
SIZES = {"vocab_size": 160, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}


def config(**more) -> mobius.ArchitectureConfig:
    return mobius.ArchitectureConfig(**SIZES | more)


@pytest.fixture(autouse=True)
def hub(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("HF_HUB_CACHE", str(make_hub(tmp_path_factory.mktemp("hub"))))


@pytest.fixture
def register_again(monkeypatch):
    """Nothing leaves the registry, and the pages' blocks register the same name as the specification's."""
    monkeypatch.setattr(mobius, "register_ep", functools.partial(mobius.register_ep, overwrite=True))


# ── the blocks that are code ──

QUICK_START = '''
import mobius

pkg = mobius.build("Qwen/Qwen2.5-7B")
portable = pkg["model"].op_counts()
pkg = mobius.build("Qwen/Qwen2.5-7B", execution_provider="cuda")
fused = pkg["model"].op_counts()
import logging
logging.basicConfig(level=logging.INFO)
pkg = mobius.build("Qwen/Qwen2.5-7B", execution_provider="cuda", trace_optimization=True)
'''
REGISTER = '''
import onnx_ir as ir
from mobius import EpCapabilities, register_ep

register_ep(EpCapabilities(name="my-ep", gqa_dtypes=frozenset({ir.DataType.FLOAT16})))
'''
ENTRY = '''
EpCapabilities(name="my-ep", gqa_dtypes=frozenset({ir.DataType.FLOAT16}), qkv_pack_dtypes=frozenset({ir.DataType.FLOAT16}))
'''
TRACE = '''
import logging
logging.basicConfig(level=logging.INFO)
pkg = mobius.build("meta-llama/Llama-3.2-3B", execution_provider="cuda", dtype="f16", load_weights=False, trace_optimization=True)
'''
UNKNOWN_EP = '''
caps = ep_registry.get(ep)
if caps is None:
    raise ValueError(f"Unknown execution provider {ep!r}. Supported: {sorted(ep_registry)}")
'''
GET_EP = '''
from mobius import get_ep

get_ep("cuda")
get_ep("rocm")
'''
OPTIMIZE = '''
from mobius import optimize_model
import onnx_ir as ir

optimize_model(model, ep="cuda", dtype=ir.DataType.FLOAT16)
'''
CONTEXT = '''
import onnx_ir as ir
from mobius import build_context, ep_registry

capabilities = caps = ep_registry.require("cuda")
with build_context(caps, ir.DataType.FLOAT16):
    pkg = task.build(module, config)
'''
ASYNC = '''
import asyncio
import onnx_ir as ir
from mobius import build_context, ep_registry

async def build_cuda():
    caps = ep_registry.require("cuda")
    with build_context(caps, ir.DataType.FLOAT16):
        return task.build(module, config)

async def build_dml():
    caps = ep_registry.require("dml")
    with build_context(caps, ir.DataType.FLOAT16):
        return task.build(module, config)

cuda_pkg, dml_pkg = await asyncio.gather(build_cuda(), build_dml())
'''

# name: (kind, first line, number of lines, hash, the same in our words)
BLOCKS = {
    "quick start": ("runs", 9, 16, "95b9901b0ce6", QUICK_START),
    "build_from_module": ("sketch", 28, 10, "b370858f6608", None),
    "EpCapabilities": ("sketch", 165, 13, "787ed73eb3a1", None),
    "registry": ("sketch", 183, 17, "8febaaef645f", None),
    "register_ep": ("runs", 204, 7, "53fc52ff5d97", REGISTER),
    "a new entry": ("bound", 293, 5, "fda976db7a1b", ENTRY),
    "trace": ("bound", 329, 10, "a087089223a0", TRACE),
    "trace output": ("sketch", 342, 23, "10e67efd2039", None),
    "fusion warning": ("sketch", 380, 3, "63437e0a0f99", None),
    "unknown ep": ("bound", 390, 6, "fd0116142082", UNKNOWN_EP),
    "get_ep": ("runs", 399, 4, "79aabd559044", GET_EP),
    "_forward_pre_norm": ("sketch", 438, 16, "ebcf10cf62c4", None),
    "optimize_model": ("bound", 510, 5, "51b12d62f971", OPTIMIZE),
    "build_context": ("bound", 522, 6, "8a0c35f0a98e", CONTEXT),
    "reading the context": ("sketch", 563, 13, "2c6976a8729b", None),
    "setting the context": ("bound", 587, 6, "5e2723476270", CONTEXT),
    "asyncio": ("bound", 600, 16, "19323d0940cf", ASYNC),
}


def texts(name: str) -> list[str]:
    """Our words, and the specification's own where it is at hand."""
    _, first, count, digest, own = BLOCKS[name]
    found = [own] if own else []
    if SPECIFICATION.exists():
        text = "\n".join(SPECIFICATION.read_text().split("\n")[first - 1:first - 1 + count])
        assert hashlib.sha256(text.encode()).hexdigest()[:12] == digest, f"the specification's block '{name}' is not what was read: {text[:80]}"
        found.append(text)
    return found


def run(code: str, names: dict | None = None) -> dict:
    """Runs code at top level, where `await` may stand."""
    space = dict(names or {})
    compiled = compile(code, "<specification>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    result = eval(compiled, space)  # noqa: S307  (the specification's own text)
    if inspect.iscoroutine(result):
        asyncio.run(result)
    return space


def both(name: str):
    return pytest.mark.parametrize("code", texts(name), ids=lambda c: "")


def test_the_table_holds_every_block_of_python():
    if not SPECIFICATION.exists():
        pytest.skip("the specification is not beside the repository")
    lines = SPECIFICATION.read_text().split("\n")
    covered = {n for _, first, count, _, _ in BLOCKS.values() for n in range(first, first + count)}
    looks_like_code = re.compile(r"^(import |from \w+ import|@\w|class \w+:|async def|def \w+\(|with \w+\(|\w+ = (await |mobius\.|ep_registry)|get_ep\(|register_ep\(|EpCapabilities\()")
    assert [line for n, line in enumerate(lines, 1) if looks_like_code.match(line) and n not in covered] == []


@both("quick start")
def test_quick_start(code, caplog):
    with caplog.at_level(logging.INFO):
        space = run(code)
    assert isinstance(space["pkg"], mobius.ModelPackage)
    assert any(r.name == "mobius._optimizations" and r.message.startswith("[EP Trace] Target: cuda") for r in caplog.records)
    if "portable" in space:
        assert "com.microsoft::SkipSimplifiedLayerNormalization" in space["fused"] and "Attention" in space["portable"]


@both("register_ep")
def test_register_ep(code, register_again):
    run(code)
    ep = mobius.get_ep("my-ep")
    assert FLOAT16 in ep.gqa_dtypes and ep.qkv_pack_dtypes == frozenset() and ep.supports_fused_rope and "my-ep" in sorted(mobius.ep_registry)
    package = mobius.build(LLAMA, execution_provider="my-ep", dtype="f16")
    assert package["model"].op_counts()["com.microsoft::GroupQueryAttention"] == 2


@both("a new entry")
def test_a_new_entry(code):
    run(code, {"EpCapabilities": mobius.EpCapabilities, "ir": ir})


@both("trace")
def test_trace(code, caplog):
    with caplog.at_level(logging.INFO):
        package = run(code, {"mobius": mobius})["pkg"]
    assert not package.has_weights
    assert len([r for r in caplog.records if r.name == "mobius._optimizations"]) > 20


@both("unknown ep")
def test_unknown_ep(code):
    run(code, {"ep_registry": mobius.ep_registry, "ep": "cuda"})
    with pytest.raises(ValueError) as theirs:
        run(code, {"ep_registry": mobius.ep_registry, "ep": "rocm"})
    for ours in (lambda: mobius.optimize_model(mobius.build(LLAMA)["model"], ep="rocm"), lambda: mobius.build(LLAMA, execution_provider="rocm"),
                 lambda: mobius.build_from_module(mobius.models.CausalLMModel(config()), config(), execution_provider="rocm")):
        with pytest.raises(ValueError) as raised:
            ours()
        assert str(raised.value) == str(theirs.value)


@both("get_ep")
def test_get_ep(code):
    with pytest.raises(ValueError, match="^Unknown execution provider 'rocm'. "):
        run(code)
    assert repr(mobius.get_ep("cuda")).startswith("EpCapabilities(name='cuda', ")


@both("optimize_model")
def test_optimize_model(code):
    package = mobius.build(LLAMA, dtype="f16")
    model = package["model"].to_onnx_ir()
    run(code, {"model": model})
    assert sum(n.op_type == "GroupQueryAttention" for n in model.graph) == 2


class Asks(nn.Module):
    """A decoder that says in its graph what it is being built for."""

    def __init__(self, c):
        super().__init__()
        self.inner = mobius.models.CausalLMModel(c)
        self.seen = []

    def forward(self, op, input_ids, at):
        capabilities, dtype = mobius.ep_capabilities(), mobius.get_build_dtype()
        self.seen.append((capabilities.name, dtype))
        logits = self.inner(op, input_ids, at)
        return op.Neg(op.Neg(logits)) if dtype in capabilities.gqa_dtypes else logits


@pytest.mark.parametrize("name", ["build_context", "setting the context"])
def test_build_context(name):
    for code in texts(name):
        module = Asks(config())
        package = run(code, {"task": mobius.CausalLMTask(), "module": module, "config": config()})["pkg"]
        assert module.seen == [("cuda", FLOAT16)]
        assert package["model"].op_counts()["Neg"] >= 2 and package["model"].outputs[0].dtype == FLOAT16
    assert mobius.ep_capabilities().name == "default" and mobius.get_build_dtype() == FLOAT


@both("asyncio")
def test_asyncio(code):
    module = Asks(config())
    space = run(code, {"task": mobius.CausalLMTask(), "module": module, "config": config()})
    assert module.seen == [("cuda", FLOAT16), ("dml", FLOAT16)]
    assert isinstance(space["cuda_pkg"], mobius.ModelPackage) and isinstance(space["dml_pkg"], mobius.ModelPackage)


# ── sketches ──


@pytest.mark.parametrize("name", [name for name, block in BLOCKS.items() if block[0] == "sketch"])
def test_sketches_are_what_was_read(name):
    texts(name)


def test_build_from_module_as_sketched(caplog):
    from mobius import ArchitectureConfig, build_from_module
    from mobius.models import CausalLMModel

    c = ArchitectureConfig(**SIZES)
    with caplog.at_level(logging.INFO):
        package = build_from_module(CausalLMModel(c), c, execution_provider="cuda", trace_optimization=True)
    assert list(package) == ["model"] and any("[EP Trace] Target: cuda, dtype: FLOAT, role: decoder" in r.message for r in caplog.records)


def test_fields_of_ep_capabilities():
    assert dataclasses.is_dataclass(mobius.EpCapabilities) and mobius.EpCapabilities.__dataclass_params__.frozen
    sketched = {"name": None, "gqa_dtypes": frozenset(), "qkv_pack_dtypes": frozenset(), "supports_fused_rope": True, "supports_skip_layer_norm": True,
                "supports_fused_matmul": True, "supports_fused_moe": True, "supports_packed_multi_head_attention": False,
                "default_int4_accuracy_level": 0, "provider_options": {}, "enable_graph_capture": False}
    fields = {f.name: f for f in dataclasses.fields(mobius.EpCapabilities)}
    assert list(fields)[:len(sketched)] == list(sketched), "in the sketch's order"
    made = mobius.EpCapabilities(name="x")
    for name, default in list(sketched.items())[1:]:
        assert getattr(made, name) == default, name
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.supports_fused_rope = False
    assert dataclasses.replace(made, enable_graph_capture=True).enable_graph_capture


@pytest.mark.parametrize("name,stated", [
    ("default", {"gqa_dtypes": set()}),
    ("cpu", {"gqa_dtypes": {FLOAT}, "default_int4_accuracy_level": 4}),
    ("cuda", {"gqa_dtypes": {FLOAT16, BFLOAT16}, "provider_options": {"enable_cuda_graph": "0"}}),
    ("dml", {"gqa_dtypes": {FLOAT16}, "supports_fused_rope": False}),
    ("webgpu", {"gqa_dtypes": {FLOAT, FLOAT16}, "default_int4_accuracy_level": 4, "provider_options": {"enableGraphCapture": "0"}}),
    ("trt-rtx", {"gqa_dtypes": {FLOAT16, BFLOAT16}, "supports_skip_layer_norm": False, "enable_graph_capture": True, "provider_options": {"enable_cuda_graph": "1"}}),
    ("onnx-standard", {"gqa_dtypes": set(), "qkv_pack_dtypes": set(), "supports_fused_rope": False, "supports_skip_layer_norm": False,
                       "supports_fused_matmul": False, "supports_packed_multi_head_attention": False})])
def test_registry_entries(name, stated):
    ep = mobius.get_ep(name)
    for field, value in stated.items():
        if isinstance(value, dict):
            assert value.items() <= getattr(ep, field).items()
        else:
            assert getattr(ep, field) == value, field


def test_trace_lines_as_sketched(caplog, tmp_path):
    folder = make_checkpoint(tmp_path / "model", {"hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 28})
    with caplog.at_level(logging.INFO):
        mobius.build(folder, execution_provider="cuda", dtype="f16", load_weights=False, trace_optimization=True)
    lines = [f"{r.levelname} {r.name}: {r.getMessage()}" for r in caplog.records if r.name == "mobius._optimizations"]
    before = "INFO mobius._optimizations: [EP Trace] "
    assert all(line.startswith(before) for line in lines)
    assert lines[0] == before + "Target: cuda, dtype: FLOAT16, role: decoder"
    for pattern in (r"Stage 1: Cleanup \(\d+ passes\)", r"  Cleanup: \d+ → \d+ nodes \([+-]\d+\)", r"Stage 2: Fusion \(\d+ rule groups\)",
                    r"  GQAFusion                 : .*\+28 GroupQueryAttention, .*-28 Attention, .*", r"  PackQKV                   : \+28 Concat, -56 FusedMatMul",
                    r"  SkipLayerNorm             : no matches \(0 nodes affected\).*", r"  GeluFusion                : no matches \(0 nodes affected\).*",
                    r"Stage 2b: InlinePass \(expand unsupported custom ops\)", r"  InlinePass                : no matches \(0 nodes affected\)",
                    r"Stage 3: Lowering \(\d+ rule groups for cuda\)", r"Stage 4: Constant folding", r"  Fold: \d+ → \d+ nodes \([+-]\d+\)", "Summary:",
                    r"  Rule                      \| Matched \| \+Nodes \| -Nodes", r"  -------------------------\+--------\+-------\+-------",
                    r"  GQAFusion                 \|      28 \|  *\d+ \|  *\d+"):
        assert any(re.fullmatch(re.escape(before) + pattern, line) for line in lines), pattern


def test_fusion_warning_as_sketched(tmp_path):
    folder = make_checkpoint(tmp_path / "model", {"hidden_size": 48, "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 28})
    with pytest.warns(UserWarning) as caught:
        mobius.build(folder, execution_provider="cuda", dtype="f16", load_weights=False)
    assert str(caught[0].message) == (
        "GQA fusion expected for ep='cuda'/dtype=FLOAT16 but found 0 GroupQueryAttention and 28 Attention nodes. The model may run slower than expected on "
        "this EP. Check that the attention pattern matches the GQA rewrite rule.")
    assert caught[0].filename == __file__, "the warning points at the caller"


def test_forward_pre_norm_as_sketched():
    """The sketch's body, with its `...` filled in, is a decoder layer."""

    class Layer(mobius.components.DecoderLayer):
        def _forward_pre_norm(self, op, hidden_states, at):
            residual = hidden_states
            hidden_states = self.input_layernorm(op, hidden_states)
            attn_output, present_key_value = self.self_attn(op, hidden_states, at)
            hidden_states = op.Add(residual, attn_output)
            residual = hidden_states
            hidden_states = self.post_attention_layernorm(op, hidden_states)
            hidden_states = self.mlp(op, hidden_states)
            hidden_states = op.Add(residual, hidden_states)
            return hidden_states, present_key_value

    own, plain = (mobius.build_from_module(mobius.models.CausalLMModel(config(), *layer), config(), execution_provider="cuda", dtype="f16")["model"]
                  for layer in ((Layer,), ()))
    assert own.to_text(8) == plain.to_text(8)
    assert own.op_counts()["com.microsoft::SkipSimplifiedLayerNormalization"] == 4, "two in each layer, less the first, and the final norm"


def test_reading_the_context_as_sketched():
    from mobius import ep_capabilities, get_build_dtype

    class Branches(nn.Module):
        def forward(self, op, x):
            capabilities = ep_capabilities()
            dtype = get_build_dtype()
            if dtype in capabilities.gqa_dtypes:
                return op.FastGelu(x)
            return op.Gelu(x, approximate="tanh")

    for ep, dtype, operator in (("cuda", FLOAT16, "com.microsoft::FastGelu"), ("cuda", FLOAT, "Gelu"), ("cpu", FLOAT, "com.microsoft::FastGelu")):
        with mobius.build_context(mobius.get_ep(ep), dtype):
            assert nn.build_graph(Branches(), {"x": (dtype, ["batch", 8])}).op_counts() == {operator: 1}
    assert nn.build_graph(Branches(), {"x": ("f32", ["batch", 8])}).op_counts() == {"Gelu": 1}, "outside of any context: default, FLOAT"


# ── the same in C++ ──

# Each block's counterpart: a part of it that stands in a C++ block of docs/ (tests/test_docs.py sees to it that those compile and run).
IN_CPP = {
    "quick start": '{.execution_provider = "cuda", .trace_optimization = true}',
    "build_from_module": 'mobius::build_from_module(mobius::models::CausalLMModel(config), config, {.execution_provider = "cuda", .trace_optimization = true})',
    "EpCapabilities": "const mobius::EpCapabilities& cuda",
    "registry": "cuda.gqa_dtypes.contains(mobius::ir::DataType::float16)",
    "register_ep": 'mobius::register_ep({.name = "my-ep", .gqa_dtypes = {mobius::ir::DataType::float16}})',
    "a new entry": 'mobius::register_ep({.name = "my-npu"',
    "trace": '.dtype = mobius::ir::DataType::float16, .load_weights = false, .trace_optimization = true}',
    "trace output": "mobius::logging::set_sink(",
    "fusion warning": "mobius::logging::set_sink(",
    "unknown ep": 'mobius::ep_registry().get("rocm")',
    "get_ep": 'mobius::get_ep("cuda")',
    "_forward_pre_norm": "CausalLM<PreNormLayer<SelfAttention, ReluSquaredMLP>>",
    "optimize_model": "mobius::optimize_model(model, {.ep =",
    "build_context": 'mobius::build_context(mobius::ep_registry().require("cuda"), mobius::ir::DataType::float16)',
    "reading the context": "mobius::ep_capabilities()",
    "setting the context": "mobius::causal_lm(mobius::get_build_dtype()",
    "asyncio": "mobius::BuildContext::resume(here)",
}


@pytest.mark.parametrize("name", BLOCKS)
def test_its_counterpart_in_cpp_stands_in_the_pages(name):
    from test_docs import PAGES, blocks

    assert any(IN_CPP[name] in text for page in PAGES for language, text in blocks(page) if language == "cpp")
