"""Models of opsets 9 to 12, raised: the same numbers on ONNX Runtime, which runs the old ones as they are; what can't be raised is refused by name."""
import numpy as np
import onnx
import onnxruntime
import pytest

X = np.random.default_rng(2).normal(size=(2, 3, 4, 4)).astype(np.float32) * 3
X[0, 0, 0, 0], X[1, 2, 3, 3] = np.inf, -np.inf
FINITE = np.clip(X, -5, 5)

# body -> the opsets that have it in this form. y is the result.
FORMS = {
    **{f"y = {op}{attributes}(x)": range(9, 13) for op in ("Softmax", "LogSoftmax", "Hardmax") for attributes in ("", "<axis = 0>", "<axis = 2>", "<axis = 3>")},
    **{f"y = Softmax<axis = {axis}>(x)": range(11, 13) for axis in (-1, -2, -4)},
    "a = Neg(x) b = Softmax<axis = 2>(a) c = Softmax(b) y = Add(b, c)": range(9, 13),
    "a = Reshape(x, shape) b = Softmax(a) y = Neg(b)": range(9, 13),  # of a rank that only inference tells
    "a = Neg(x) b = Softmax<axis = 3>(a) y = MatMul(b, x)": range(9, 13),
    "y = If(flag) <then_branch = t () => (u) { u = Softmax(x) }, else_branch = e () => (v) { w = Unsqueeze<axes = [0]>(x) v = Squeeze<axes = [0]>(w) }>": range(9, 13),
    "a = Unsqueeze<axes = [0, 3]>(x) b = Squeeze<axes = [3]>(a) y = Neg(b)": range(9, 13),
    "y = Unsqueeze<axes = [-1]>(x)": range(11, 13),
    "y = ReduceSum<axes = [1, 2], keepdims = 0>(x)": range(9, 13),
    "y = ReduceSum<axes = [-1]>(x)": range(11, 13),
    "y = ReduceSum(x)": range(9, 13),
    "a = ReduceSum(x) y = Squeeze(a)": range(9, 13),
    "a = ReduceMean<axes = [1]>(x) b = ReduceMax<axes = [1], keepdims = 0>(x) c = ReduceMin(x) d = Add(a, c) e = Unsqueeze<axes = [0]>(b) y = Add(d, e)": range(9, 13),
    "a, b, d = Split<axis = 1>(x) y = Sub(a, d)": range(9, 13),
    "a, b = Split<axis = 3, split = [1, 3]>(x) y = Mul(a, b)": range(9, 13),
    "a, b = Split(x) y = Sub(a, b)": range(9, 13),
    "y = Slice<starts = [0, -3], ends = [1, 9], axes = [1, 2]>(x)": [9],
    "y = Slice<starts = [1, 1, -2], ends = [2, -1, 9223372036854775807]>(x)": [9],
    "y = Slice(x, one, two, one)": range(10, 13),
    "a, b = TopK<axis = 3, k = 2>(x) d = Cast<to = 1>(b) y = Concat<axis = 3>(a, d)": [9],
    "a, b = TopK<axis = 3>(x, two) d = Cast<to = 1>(b) y = Concat<axis = 3>(a, d)": range(10, 13),
    **{f"a = Neg(x) y = Clip{bounds}(a)": range(9, 11) for bounds in ("", "<min = -0.5>", "<max = 6.0>", "<min = 0.0, max = 6.0>")},
    "y = Clip(x, half, \"\")": range(11, 13),
    "y = Pad<pads = [0, 1, 0, 2, 0, 0, 3, 1], value = 1.5>(x)": range(9, 11),
    "a = Neg(x) y = Pad<pads = [0, 1, 0, 2, 0, 0, -1, 1]>(a)": range(9, 11),
    "a = Neg(x) y = Pad<mode = \"reflect\", pads = [0, 0, 1, 2, 0, 0, 1, 1], value = 1.5>(a)": range(9, 11),
    "y = Pad<mode = \"edge\", pads = [1, 0, 0, 2, 0, 0, 1, 1]>(x)": range(9, 11),
    "a = Dropout<ratio = 0.9>(x) y = Neg(a)": range(9, 12),
    "y = Dropout(x)": range(9, 13),
    "y = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(x)": range(9, 13),
    "y = AveragePool<kernel_shape = [2, 2], auto_pad = \"SAME_UPPER\">(x)": range(9, 13),
    "y = Conv<pads = [1, 1, 0, 0]>(x, filter)": range(9, 13),
    "y = ConvTranspose<strides = [2, 2], output_padding = [1, 1]>(x, turned)": range(9, 13),
    "y = DepthToSpace<blocksize = 2>(four)": range(9, 13),
    "a = Flatten<axis = 2>(x) b = Gather<axis = 1>(a, two) c = ArgMax<axis = 0>(a) d = Cast<to = 1>(c) y = Mul(b, d)": range(9, 13),
    "a = Pow(x, x) b = IsNaN(a) y = Where(b, half, a)": range(9, 13),
}
CASES = [(body, opset) for body, opsets in FORMS.items() for opset in opsets]


def model_of(body: str, opset: int) -> onnx.ModelProto:
    graph = onnx.parser.parse_graph(f"""g (float[A,3,C,4] x, float[A,4,C,4] four, bool flag) => (float y)
        <int64[1] one = {{1}}, int64[1] two = {{2}}, int64[3] shape = {{2, 3, 16}}, float half = {{0.5}}, int64 depth = {{4}}, float[2] off_on = {{0, 1}},
         float[4] scales = {{1, 1, 2, 2}}> {{ {body} }}""")
    graph.output[0].type.tensor_type.ClearField("shape")
    weights = np.random.default_rng(3).normal(size=(2, 3, 2, 2)).astype(np.float32)
    graph.initializer.extend([onnx.numpy_helper.from_array(weights, "filter"), onnx.numpy_helper.from_array(weights.transpose(1, 0, 2, 3), "turned")])
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)], ir_version=6)


def run(model, x: np.ndarray, level=onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL) -> np.ndarray:
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.graph_optimization_level = 4, level
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    feeds = {"x": x, "four": np.concatenate([x, x[:, :1]], 1), "flag": np.array(True)}
    return session.run(None, {i.name: feeds[i.name] for i in session.get_inputs()})[0]


@pytest.mark.parametrize("body, opset", CASES)
def test_numbers_stay(mobius, tmp_path, body, opset):
    old = model_of(body, opset)
    onnx.save(old, tmp_path / "old.onnx")
    done = mobius("optimize", tmp_path / "old.onnx", tmp_path / "new.onnx", "--ep", "onnx-standard", "--opset", 24)
    assert done.returncode == 0, done.stderr
    onnx.checker.check_model(tmp_path / "new.onnx")
    assert onnx.load(tmp_path / "new.onnx").opset_import[0].version == 24
    takes_nothing = "Clip" in body or body == "y = Softmax(x)"
    for x in [FINITE, X] + [FINITE[:1, :, :0]] * takes_nothing:
        np.testing.assert_allclose(run(tmp_path / "new.onnx", x), run(old.SerializeToString(), x), rtol=1e-5, atol=1e-6)


def test_a_softmax_over_the_last_axis_stays_one_node(mobius, tmp_path):
    onnx.save(model_of("a = Reshape(x, shape) y = Softmax<axis = 2>(a)", 11), tmp_path / "old.onnx")
    assert mobius("optimize", tmp_path / "old.onnx", tmp_path / "new.onnx", "--ep", "cpu").returncode == 0
    assert [n.op_type for n in onnx.load(tmp_path / "new.onnx").graph.node] == ["Reshape", "Softmax"]


@pytest.mark.parametrize("body, opset, refused", [
    ("y = Upsample(x, scales)", 9, "Upsample of opset 9"), ("y = Resize(x, scales)", 10, "Resize of opset 10"),
    ("a = Cast<to = 7>(x) y = OneHot(a, depth, off_on)", 10, "OneHot of opset 10"),
    ("a, m = Dropout(x) b = Cast<to = 1>(m) y = Mul(a, b)", 10, "Dropout of opset 10 can't be raised to opset 24: its mask is used"),
    ("y = ConvTranspose<strides = [2, 2], auto_pad = \"SAME_UPPER\">(x, turned)", 10, "ConvTranspose of opset 10"),
    ("y = Softmax<axis = 4>(x)", 9, "Softmax of opset 9 can't be raised to opset 24: it has no axis 4"), ("y = Neg(x)", 8, "Neg of opset 8"),
])
def test_what_cannot_be_raised_is_refused_by_name(mobius, tmp_path, body, opset, refused):
    onnx.save(model_of(body, opset), tmp_path / "old.onnx")
    done = mobius("optimize", tmp_path / "old.onnx", tmp_path / "new.onnx", "--ep", "cpu", "--opset", 24)
    assert done.returncode == 1 and refused in done.stderr and not (tmp_path / "new.onnx").exists()
    done = mobius("optimize", tmp_path / "old.onnx", tmp_path / "new.onnx", "--ep", "cpu")
    assert done.returncode == 0, done.stderr
    assert onnx.load(tmp_path / "new.onnx").opset_import[0].version == opset


INSIDE = ("x", "four", "flag", "one", "two", "shape", "half", "depth", "off_on", "scales", "filter", "turned")


def called(body: str, opset: int, in_branch: bool) -> onnx.ModelProto:
    """The body as a function, called by the graph or by a branch of it."""
    model = model_of("y = Neg(x)", opset)
    inner = onnx.parser.parse_graph(f"g ({', '.join(f'float {name}' for name in INSIDE)}) => (float y) {{ {body} }}")
    imports = [onnx.helper.make_opsetid("", opset)]
    model.functions.append(onnx.helper.make_function("local", "F", INSIDE, ["y"], inner.node, imports))
    model.opset_import.append(onnx.helper.make_opsetid("local", 1))
    model.ir_version = 8
    call = f"local.F({', '.join(INSIDE)})"
    otherwise = f"n = Neg(x) v = {call.replace('x', 'n', 1)}"
    text = f"y = If(flag) <then_branch = t () => (u) {{ u = {call} }}, else_branch = e () => (v) {{ {otherwise} }}>" if in_branch else f"y = {call}"
    del model.graph.node[:]
    model.graph.node.extend(onnx.parser.parse_graph(f"g () => (y) {{ {text} }}").node)
    model.graph.output[0].type.tensor_type.shape.SetInParent()
    for _ in run(model.SerializeToString(), FINITE).shape:
        model.graph.output[0].type.tensor_type.shape.dim.add()
    return model


# A Clip or Pad in a function knows no type, a Softmax no rank.
@pytest.mark.parametrize("ep", ["cpu", "onnx-standard"])
@pytest.mark.parametrize("body, opset", [case for case in CASES if case[1] in (9, 12)])
def test_numbers_of_functions_stay(mobius, tmp_path, body, opset, ep):
    """Kept by cpu, put in place of its calls by strict ONNX; in a branch and outside."""
    for in_branch in (False, True):
        old = called(body, opset, in_branch)
        onnx.save(old, tmp_path / "old.onnx")
        done = mobius("optimize", tmp_path / "old.onnx", tmp_path / "new.onnx", "--ep", ep)
        assert done.returncode == 0, done.stderr
        onnx.checker.check_model(tmp_path / "new.onnx")
        new = onnx.load(tmp_path / "new.onnx")
        assert new.opset_import[0].version == 24 and [f.name for f in new.functions] == ["F"] * (ep == "cpu")
        for x in (FINITE, X):
            np.testing.assert_allclose(run(tmp_path / "new.onnx", x), run(old.SerializeToString(), x), rtol=1e-5, atol=1e-6)


def test_functions_are_of_the_models_opset(mobius, tmp_path):
    """Checkers compare the two, even where no node is written anew."""
    onnx.save(called("y = Neg(x)", 12, False), tmp_path / "old.onnx")
    assert mobius("optimize", tmp_path / "old.onnx", tmp_path / "new.onnx", "--ep", "cpu").returncode == 0
    new = onnx.load(tmp_path / "new.onnx")
    assert {i.domain: i.version for i in new.functions[0].opset_import} == {"": 24}
    onnx.checker.check_model(tmp_path / "new.onnx")


@pytest.mark.parametrize("function, reason", [
    ('<axis>(a) => (b) { b = Softmax<axis: int = @axis>(a) }', "Softmax of opset 12 can't be raised to opset 24: its axis comes from the function's caller"),
    ('(a) => (b) { b = Resize(a, a, a) }', "Resize of opset 12 can't be raised to opset 24"),
])
def test_a_function_that_cannot_be_raised_keeps_the_models_opset(mobius, tmp_path, function, reason):
    attributes = "<axis: int = 1>" if "axis" in function else ""
    old = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 12, "local": 1]> g (float[2,3,4] x) => (y) {{ y = local.F{attributes}(x) }}\n'
                                  f'<domain: "local", opset_import: ["": 12]> F {function}')
    onnx.save(old, tmp_path / "old.onnx")
    assert mobius("optimize", tmp_path / "old.onnx", tmp_path / "new.onnx", "--ep", "cpu").returncode == 0
    assert onnx.load(tmp_path / "new.onnx").opset_import[0].version == 12
    refused = mobius("optimize", tmp_path / "old.onnx", tmp_path / "again.onnx", "--ep", "cpu", "--opset", 24)
    assert refused.returncode == 1 and f"function F: {reason}" in refused.stderr


def test_a_function_that_its_model_reads_otherwise_keeps_the_models_opset(mobius, tmp_path):
    """Runtimes read a function's body at the model's opset: its own says that Softmax is over both axes, the model's that it is over one."""
    old = onnx.parser.parse_model('<ir_version: 8, opset_import: ["": 13, "local": 1]> g (float[2,3,4] x) => (y) { y = local.F(x) }\n'
                                  '<domain: "local", opset_import: ["": 12]> F (a) => (b) { b = Softmax<axis = 1>(a) }')
    onnx.save(old, tmp_path / "old.onnx")
    assert mobius("optimize", tmp_path / "old.onnx", tmp_path / "new.onnx", "--ep", "cpu").returncode == 0
    x = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)
    np.testing.assert_allclose(run(tmp_path / "new.onnx", x), run(old.SerializeToString(), x), rtol=1e-5)
    refused = mobius("optimize", tmp_path / "old.onnx", tmp_path / "again.onnx", "--ep", "default")
    assert refused.returncode == 1 and "function local::F is written for opset 12" in refused.stderr
