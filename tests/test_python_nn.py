"""mobius.nn: operators, modules, parameters; numbers on ONNX Runtime; errors at the line that made them."""
import inspect

import mobius
import numpy as np
import onnxruntime
import pytest
from checkpoints import LLAMA
from mobius import DataType, nn
from mobius.nn import _operators
from python_support import run_logits

IDS = np.array([[5, 17, 150, 3, 42, 99, 8]])
X = {"x": ("f32", ["batch", 4, 8])}


def run(model: mobius.Model, **feed) -> list:
    return onnxruntime.InferenceSession(model.to_bytes(), providers=["CPUExecutionProvider"]).run(None, feed)


def line_of(function) -> int:
    return inspect.getsourcelines(function)[1]


# ── operators ──


def test_operators_of_the_standard_and_of_com_microsoft():
    def f(op, x):
        y = op.Softmax(op.MatMul(x, np.eye(8, dtype=np.float32)), axis=-1)
        z, _, _, _ = op.SkipSimplifiedLayerNormalization(y, x, np.ones(8, np.float32), epsilon=1e-6, _outputs=4)
        return op.FastGelu(z)

    model = nn.build_graph(f, X)
    assert model.op_counts() == {"MatMul": 1, "Softmax": 1, "com.microsoft::FastGelu": 1, "com.microsoft::SkipSimplifiedLayerNormalization": 1}
    assert model.opset_imports == {"": 24, "com.microsoft": 1} and model.outputs[0].shape == ("batch", 4, 8)
    x = np.random.default_rng(1).standard_normal((2, 4, 8)).astype(np.float32)
    e = np.exp(x - x.max(-1, keepdims=True))
    s = e / e.sum(-1, keepdims=True) + x
    n = s / np.sqrt((s * s).mean(-1, keepdims=True) + 1e-6)
    want = n * 0.5 * (1 + np.tanh(np.sqrt(2 / np.pi) * (n + 0.044715 * n**3)))
    assert np.abs(run(model, x=x)[0] - want).max() < 1e-4


def test_one_name_in_both_domains():
    ours = nn.build_graph(lambda op, x: op.ms.Gelu(x), X)
    assert ours.op_counts() == {"com.microsoft::Gelu": 1}
    assert nn.build_graph(lambda op, x: op.Gelu(x, _domain="com.microsoft"), X).op_counts() == ours.op_counts()
    assert nn.build_graph(lambda op, x: op.Gelu(x), X).op_counts() == {"Gelu": 1}


def test_arithmetic_and_numbers_take_the_other_operands_type():
    def f(op, x):
        y = 1 - (-x * 2 + 0.5) / [1.0] @ np.eye(8, dtype=np.float16)
        return y**2, op.Gather(y, 0), op.Where(op.Greater(y, 0), y, 0), op.Clip(y, max=1.0), op.Cast(y, to="f32")

    model = nn.build_graph(f, {"x": ("f16", ["batch", 4, 8])}, list("abcde"), dtype="f16")
    assert [v.dtype for v in model.outputs] == [DataType.FLOAT16] * 4 + [DataType.FLOAT]
    x = np.linspace(-1, 1, 64).reshape(2, 4, 8).astype(np.float16)
    y = 1 - (-x.astype(np.float32) * 2 + 0.5)
    a, b, c, d, e = run(model, x=x)
    for got, want in ((a, y**2), (b, y[0]), (c, np.maximum(y, 0)), (d, np.minimum(y, 1)), (e, y)):
        assert got.shape == want.shape and np.abs(got - want).max() < 0.02


@pytest.mark.parametrize("dtype", ["i64", "f64", "bf16"])
def test_numbers_take_the_type_of_the_tensor_whatever_the_graph_computes_in(dtype):
    model = nn.build_graph(lambda op, x: op.Mul(x + 1, [2]), {"x": (dtype, [3])}, dtype="f16")
    assert model.outputs[0].dtype == model.inputs[0].dtype and model.verify() == []
    assert {model.initializers.type_of(name).dtype for name in model.initializers} == {model.inputs[0].dtype}


def test_shapes_are_inferred_at_once():
    seen = []

    def f(op, x):
        y = op.Reshape(x, [0, -1, 2])
        a, b = op.Split(x, num_outputs=2, axis=-1)
        c, d, e = op.Split(x, [1, 2, 5], axis=-1)
        values, indices = op.TopK(x, [3])
        seen.extend([y.shape, a.shape, e.shape, values.shape, indices.dtype, op.Shape(x).shape])
        return y

    nn.build_graph(f, X)
    assert seen == [("batch", 16, 2), ("batch", 4, 4), ("batch", 4, 5), ("batch", 4, 3), DataType.INT64, (3,)]


def test_operators_without_inference_have_the_schemas_type():
    def f(op, x):
        y = op.Celu(x)
        assert y.dtype == DataType.FLOAT
        return op.Cast(op.Bernoulli(x, dtype=6), to=DataType.FLOAT)

    assert nn.build_graph(f, X).outputs[0].dtype == DataType.FLOAT


def test_operators_without_operands():
    model = nn.build_graph(lambda op, x: x + op.RandomNormal(shape=[4, 8]), X, opset=21)
    assert run(model, x=np.zeros((1, 4, 8), np.float32))[0].shape == (1, 4, 8)


def test_bodies_are_functions():
    def f(op, x, n):
        y = op.If(op.Greater(op.ReduceSum(x, keepdims=0), 0), then_branch=lambda: op.Relu(x) + 1, else_branch=lambda: x)
        total, doubled = op.Loop(n, True, op.constant(np.zeros((4, 8), np.float32)),
                                 body=lambda i, go_on, state: (go_on, state + op.Cast(i, to="f32"), state * 2))
        last, sums = op.Scan(op.constant(np.zeros(8, np.float32)), op.Squeeze(x, [0]), num_scan_inputs=1,
                             body=lambda state, row: (state + row, op.Identity(state + row)))
        assert total.shape == (4, 8) and sums.shape == (4, 8) and y.dtype == DataType.FLOAT
        return y, total, doubled, last, sums

    model = nn.build_graph(f, {"x": ("f32", [1, 4, 8]), "n": ("i64", [])}, list("abcde"))
    assert model.verify() == []
    x = np.random.default_rng(2).standard_normal((1, 4, 8)).astype(np.float32)
    for sign in (1, -1):
        given = sign * abs(x)
        y, total, doubled, last, sums = run(model, x=given, n=np.array(3))
        assert np.allclose(y, given + 1 if sign > 0 else given)
        assert np.allclose(total, 3) and doubled.shape == (3, 4, 8) and np.allclose(doubled[:, 0, 0], [0, 0, 2])
        assert np.allclose(sums, given[0].cumsum(0), atol=1e-5) and np.allclose(last, given[0].sum(0), atol=1e-5)


def test_mistakes_in_bodies_are_told_once_and_leave_nothing_behind():
    def f(op, x):
        for wrong, message in ((lambda: op.MatMul(x, np.ones((3, 3), np.float32)), "inner dimensions"), (lambda: (x, x), "branches have 1 and 2 outputs")):
            with pytest.raises(ValueError, match=message) as raised:
                op.If(True, then_branch=lambda: op.Relu(x), else_branch=wrong)
            assert str(raised.value).count(__file__) == 1
        with pytest.raises(ZeroDivisionError):
            op.If(True, then_branch=lambda: 1 / 0, else_branch=lambda: x)
        return op.Relu(x)

    model = nn.build_graph(f, X)
    assert model.op_counts() == {"Relu": 1} and model.verify() == []


def test_what_a_body_makes_stays_in_it():
    kept = []

    def f(op, x):
        def body():
            kept.append(op.Relu(x))
            return kept[0]

        y = op.If(True, then_branch=body, else_branch=lambda: x)
        for use in (lambda: op.Neg(kept[0]), lambda: kept[0].shape, lambda: op.If(True, then_branch=lambda: kept[0], else_branch=lambda: x)):
            with pytest.raises(ValueError, match="a body that is finished"):
                use()
        return op.If(True, then_branch=lambda: op.If(False, then_branch=lambda: y + x, else_branch=lambda: y * 2), else_branch=lambda: x)

    model = nn.build_graph(f, X)
    assert model.verify() == []
    x = np.ones((1, 4, 8), np.float32)
    assert np.array_equal(run(model, x=x)[0], 2 * x)


def test_tensors_of_two_graphs_do_not_mix():
    def outer(op, x):
        with pytest.raises(ValueError, match="another graph"):
            nn.build_graph(lambda inner, y: inner.Add(x, y), X)
        return op.Relu(x)

    assert nn.build_graph(outer, X).verify() == []


def test_a_type_that_cannot_be_inferred_can_be_said():
    assert nn.build_graph(lambda op, x: op.ScaledSiLU(x, alpha=1.0).typed("f32", ["batch", 4, 8]), X).outputs[0].shape == ("batch", 4, 8)


@pytest.mark.parametrize("wrong,kind,message", [
    (lambda op, x: op.MatMu(x, x), AttributeError, "there is no operator MatMu; near: MatMul"),
    (lambda op, x: op.ms.MatMul(x, x), AttributeError, "there is no operator MatMul in com.microsoft"),
    (lambda op, x: op.Softmax(x, axes=1), TypeError, "Softmax has no attribute or operand axes; it has input, axis"),
    (lambda op, x: op.MatMul(x), TypeError, "MatMul needs B"),
    (lambda op, x: op.Relu(x, x), TypeError, "Relu takes 1 operands, 2 were given"),
    (lambda op, x: op.Concat(x, x), TypeError, "Concat needs axis"),
    (lambda op, x: op.Split(x), TypeError, "give _outputs="),
    (lambda op, x: op.Relu("x"), TypeError, "str can't be an operand"),
    (lambda op, x: op.Softmax(x, axis="last"), ValueError, "attribute axis is 'last', expected an integer"),
    (lambda op, x: x if x else x, TypeError, "has no value while the graph is built"),
])
def test_mistakes_are_told(wrong, kind, message):
    with pytest.raises(kind) as raised:
        nn.build_graph(wrong, X)
    assert message in str(raised.value)


class Wrong(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(7, 3)

    def forward(self, op, x):
        return self.proj(op, x)


def test_errors_of_shapes_point_at_the_line_and_name_the_module():
    def f(op, x):
        return op.MatMul(x, np.ones((3, 3), np.float32))

    with pytest.raises(ValueError) as raised:
        nn.build_graph(f, X)
    assert str(raised.value).endswith(f"inner dimensions 8 and 3 differ ({__file__}:{line_of(f) + 1})")
    with pytest.raises(ValueError) as raised:
        nn.build_graph(Wrong(), X)
    assert str(raised.value).startswith("proj/MatMul: ") and f"{__file__}:{line_of(Wrong.forward) + 1}" in str(raised.value)


def test_a_refused_operator_leaves_nothing_behind():
    def f(op, x):
        try:
            return op.MatMul(x, np.ones((3, 3), np.float32))
        except ValueError:
            return op.Relu(x)

    assert nn.build_graph(f, X).op_counts() == {"Relu": 1}


def test_tensors_do_not_outlive_their_graph():
    kept = []
    nn.build_graph(lambda op, x: kept.extend([op, x]) or op.Relu(x), X)
    op, x = kept
    for use in (lambda: x.shape, lambda: op.Relu(x), lambda: x + 1):
        with pytest.raises(ValueError, match="a graph that is finished"):
            use()


def test_the_table_is_what_onnx_and_onnxruntime_say():
    import subprocess
    import sys

    from conftest import ROOT

    assert subprocess.run([sys.executable, ROOT / "scripts" / "make_operators.py", "--check"], check=False).returncode == 0
    for name in _operators.names():  # each line can be read
        assert _operators.find(name, None).name == name


# ── modules ──


def test_names_are_paths_of_attributes():
    config = mobius.ArchitectureConfig.from_pretrained(LLAMA)
    module = mobius.models.CausalLMModel(config)
    module.name_parameters()
    names = [name for name, _ in module.named_parameters()]
    assert names[:2] == ["model.embed_tokens.weight", "model.layers.0.input_layernorm.weight"] and names[-1] == "lm_head.weight"
    assert nn.state_names(module)["model.layers.1.mlp.down_proj.weight"] == [64, 112]
    assert "ModuleList" in repr(module) and "down_proj: Linear(112, 64" in repr(module)


def test_tied_weights_are_one_parameter():
    config = mobius.ArchitectureConfig.from_pretrained(LLAMA)
    config.tie_word_embeddings = True
    module = mobius.models.CausalLMModel(config)
    assert len(module.parameters()) == len(list(module.named_parameters())) - 1
    package = mobius.build_from_module(module, config)
    assert "lm_head.weight" not in package["model"].initializers
    module.name_parameters()
    assert module.lm_head.weight.names == ["model.embed_tokens.weight", "lm_head.weight"]


def test_what_is_no_module_is_told():
    config = mobius.ArchitectureConfig.from_pretrained(LLAMA)
    with pytest.raises(TypeError, match=r"module is the class CausalLMModel, expected one of its kind: CausalLMModel\(config\)"):
        mobius.build_from_module(mobius.models.CausalLMModel, config)
    with pytest.raises(TypeError, match="module is 'llama', expected a mobius.nn.Module or a function"):
        mobius.build_from_module("llama", config)


def test_mistakes_in_modules_are_told():
    class Forgetful(nn.Module):
        def __init__(self):
            self.proj = nn.Linear(1, 1)

    with pytest.raises(AttributeError, match="Forgetful.__init__ has to call super"):
        Forgetful()

    class Lists(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = [nn.Linear(1, 1)]

    with pytest.raises(TypeError, match="use ModuleList"):
        Lists()
    stray = nn.Linear(8, 8)
    with pytest.raises(ValueError, match="no attribute of the module leads to"):
        nn.build_graph(lambda op, x: stray(op, x), X)
    with pytest.raises(NotImplementedError, match="has no forward"):
        nn.build_graph(nn.Module(), X)
    with pytest.raises(ValueError, match="ArchitectureConfig: hidden_size, num_attention_heads are not given"):
        mobius.models.CausalLMModel(mobius.ArchitectureConfig(vocab_size=4, intermediate_size=4, num_hidden_layers=1))


def test_parameters_with_data_of_their_own():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(data=np.arange(8, dtype=np.float32))
            self.norm = nn.RMSNorm(8)

        def forward(self, op, x):
            return x * op.parameter(self.scale)

    x = np.ones((1, 4, 8), np.float32)
    assert np.array_equal(run(nn.build_graph(Scaled(), X), x=x)[0][0, 0], np.arange(8))


def test_a_module_of_our_parts_is_the_librarys_own_graph():
    """CausalLMModel in Python writes, node for node and name for name, what the native family does."""
    config = mobius.ArchitectureConfig.from_pretrained(LLAMA)
    for ep in ("default", "cpu", "onnx-standard", "webgpu", "openvino"):
        native = mobius.build(LLAMA, execution_provider=ep)["model"]
        ours = mobius.build_from_module(mobius.models.CausalLMModel(config), config, execution_provider=ep, weights=LLAMA)["model"]
        ours.metadata = native.metadata
        assert ours.to_bytes() == native.to_bytes(), ep


def test_layers_can_be_replaced():
    config = mobius.ArchitectureConfig.from_pretrained(LLAMA)
    module = mobius.models.CausalLMModel(config)
    module.model.layers[1] = module.model.layers[0]
    package = mobius.build_from_module(module, config, weights=LLAMA, ignore_extra=["model.layers.1.*"])
    assert package["model"].op_counts()["Attention"] == 2
    assert not [name for name in package["model"].initializers if name.startswith("model.layers.1.")]


def test_preprocess_weights_renames_and_splits():
    from safetensors.numpy import load_file

    class Renamed(mobius.models.CausalLMModel):
        def preprocess_weights(self, state_dict):
            return {name.replace("transformer.", "model."): value for name, value in state_dict.items()}

    config = mobius.ArchitectureConfig.from_pretrained(LLAMA)
    weights = {name.replace("model.", "transformer.", 1): value for name, value in load_file(LLAMA / "model.safetensors").items()}
    package = mobius.build_from_module(Renamed(config), config, weights=weights)
    want = mobius.build(LLAMA)["model"]
    assert np.array_equal(run_logits(package["model"].to_bytes(), IDS), run_logits(want.to_bytes(), IDS))
    del weights["lm_head.weight"]
    with pytest.raises(ValueError, match="lm_head.weight is missing"):
        mobius.build_from_module(Renamed(config), config, weights=weights)
    with pytest.raises(ValueError, match="more is unused"):
        mobius.build_from_module(Renamed(config), config, weights=weights | {"lm_head.weight": np.zeros((160, 64), np.float32), "more": np.zeros(1)})


@pytest.mark.parametrize("returned", [None, [1]])
def test_preprocess_weights_that_returns_no_weights_is_told(returned):
    class Forgetful(mobius.models.CausalLMModel):
        def preprocess_weights(self, state_dict):
            return returned

    config = mobius.ArchitectureConfig.from_pretrained(LLAMA)
    for weights in (LLAMA, {"lm_head.weight": np.zeros((160, 64), np.float32)}):
        with pytest.raises(TypeError, match="what preprocess_weights returned is .*, expected a dict of arrays by name"):
            mobius.build_from_module(Forgetful(config), config, weights=weights)


def test_bodies_may_pass_several_values_on():
    loop = nn.build_graph(lambda op, x: op.Loop(3, True, x, body=lambda i, go, s: (go, s)), {"x": ("f32", ["batch", 8])})
    x = np.ones((2, 8), np.float32)
    assert np.array_equal(run(loop, x=x)[0], x)


@pytest.mark.parametrize("inputs,outputs,message", [(["x"], ["x"], "x is the name of two"), (["x"], ["y", "y"], "y is the name of two"), (["x"], [""], "empty name"),
                                                    ([""], ["y"], "empty name")])
def test_names_of_a_graph_are_told_apart(inputs, outputs, message):
    with pytest.raises(ValueError, match=message):
        nn.build_graph(lambda op, x: tuple([x * 2] * len(outputs)), {name: ("f32", [2]) for name in inputs}, outputs)


def test_module_class_builds_ones_own_from_a_checkpoint():
    package = mobius.build(LLAMA, module_class=mobius.models.CausalLMModel, execution_provider="cpu")
    assert np.array_equal(run_logits(package["model"].to_bytes(), IDS), run_logits(mobius.build(LLAMA, execution_provider="cpu")["model"].to_bytes(), IDS))


def test_an_exception_of_forward_comes_through_unchanged():
    class Broken(mobius.models.CausalLMModel):
        def forward(self, op, input_ids, at):
            raise ZeroDivisionError("mine")

    config = mobius.ArchitectureConfig.from_pretrained(LLAMA)
    with pytest.raises(ZeroDivisionError, match="mine"):
        mobius.build_from_module(Broken(config), config)
    assert mobius.ep_capabilities().name == "default"

    class Silent(mobius.models.CausalLMModel):
        def forward(self, op, input_ids, at):
            return None

    with pytest.raises(TypeError, match="expected a tensor of the graph, found <class 'NoneType'>"):
        mobius.build_from_module(Silent(config), config)


def test_another_architecture_is_refused():
    config = mobius.ArchitectureConfig.from_pretrained(LLAMA)
    config.model_type = "qwen3"
    with pytest.raises(NotImplementedError, match="model_type 'qwen3' is another architecture"):
        mobius.models.CausalLMModel(config)

    class Own(mobius.components.DecoderLayer):
        pass

    mobius.models.CausalLMModel(config, Own)


def test_the_configs_dtype_gives_way_where_the_ep_does_not_run_it():
    config = mobius.ArchitectureConfig.from_pretrained(LLAMA)
    config.dtype = "bf16"
    module = mobius.models.CausalLMModel(config)
    assert {ep: mobius.build_from_module(module, config, execution_provider=ep)["model"].outputs[0].dtype.name for ep in ("cpu", "cuda", "webgpu")} == \
        {"cpu": "FLOAT", "cuda": "BFLOAT16", "webgpu": "FLOAT16"}
    with pytest.raises(ValueError, match="bf16"):
        mobius.build_from_module(module, config, execution_provider="cpu", dtype="bf16")


def test_windows_biases_and_rope_kinds_reach_the_graph():
    sizes = {"vocab_size": 96, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = mobius.ArchitectureConfig(**sizes, sliding_window=4, layer_types=["sliding_attention", "full_attention"], attn_qkv_bias=True,
                                       rope_scaling={"rope_type": "linear", "factor": 2.0})
    names = nn.state_names(mobius.models.CausalLMModel(config))
    assert "model.layers.0.self_attn.q_proj.bias" in names and "model.layers.0.self_attn.o_proj.bias" not in names
    package = mobius.build_from_module(mobius.models.CausalLMModel(config), config, execution_provider="cpu")
    windows = sorted(n.attributes.get("local_window_size", -1) for n in package["model"].graph if n.op_type == "GroupQueryAttention")
    assert windows == [-1, 4]
    with pytest.raises(NotImplementedError, match="rope"):
        mobius.models.CausalLMModel(mobius.ArchitectureConfig(**sizes, rope_scaling={"rope_type": "spiral"}))
