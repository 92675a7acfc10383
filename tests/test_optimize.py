"""mobius optimize, and the options that it shares with build: numbers before and after on ONNX Runtime, files, mistakes."""
import json
import os
import stat
import shutil
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from checkpoints import LLAMA, make_checkpoint, snapshot
from golden_check import Case
from onnx import TensorProto, helper, numpy_helper

MY_EP = {"name": "my-npu", "dtypes": ["f32"], "supports_skip_layer_norm": False, "supports_attention": False, "supports_rotary_embedding": False}


def run(path: Path, feeds: dict) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"]).run(None, feeds)


def operators(path: Path) -> set[str]:
    return {(f"{node.domain}." if node.domain else "") + node.op_type for node in onnx.load(path, load_external_data=False).graph.node}


def locations(path: Path) -> set[str]:
    model = onnx.load(path, load_external_data=False)
    return {entry.value for tensor in model.graph.initializer for entry in tensor.external_data if entry.key == "location"}


def small_model(width: int = 48, opset: int = 24) -> tuple[onnx.ModelProto, dict]:
    """Skip norm, FusedMatMul and BiasGelu as others write them, without types of inner values, with metadata and a function."""
    rng = np.random.default_rng(1)
    nodes = [
        helper.make_node("SkipSimplifiedLayerNormalization", ["x", "r", "gamma"], ["n", "", "", "s"], "norm", domain="com.microsoft", epsilon=1e-5),
        helper.make_node("FusedMatMul", ["n", "w"], ["p"], "up", domain="com.microsoft", transB=1, alpha=0.5),
        helper.make_node("BiasGelu", ["p", "b"], ["g"], "act", domain="com.microsoft"),
        helper.make_node("Constant", [], ["two"], "two_node", value_float=2.0),
        helper.make_node("Double", ["s", "two"], ["d"], "double", domain="my"),
        helper.make_node("Add", ["g", "d"], ["y"], "sum"),
    ]
    weights = {"gamma": rng.normal(size=width), "w": rng.normal(size=(width, width)), "b": rng.normal(size=width)}
    shape = ["batch", "seq", width]
    graph = helper.make_graph(nodes, "small", [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n in "xr"],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
                              [numpy_helper.from_array(v.astype(np.float32), k) for k, v in weights.items()])
    function = helper.make_function("my", "Double", ["a", "f"], ["c"], [helper.make_node("Mul", ["a", "f"], ["c"])], [helper.make_opsetid("", opset)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1), helper.make_opsetid("my", 1)],
                              functions=[function], ir_version=10, producer_name="somebody")
    helper.set_model_props(model, {"author": "somebody"})
    feeds = {name: rng.normal(size=(2, 3, width)).astype(np.float32) for name in "xr"}
    return model, feeds


@pytest.fixture
def small(tmp_path):
    model, feeds = small_model()
    onnx.save(model, tmp_path / "in.onnx")
    return tmp_path / "in.onnx", feeds


def optimize(mobius, *arguments):
    result = mobius("optimize", *arguments)
    assert result.returncode == 0, result.stderr
    return result


# ── numbers ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("ep", ["default", "cpu", "onnx-standard", "trt-rtx", "webgpu", "qnn"])
@pytest.mark.parametrize("opset", [None, 21])
def test_numbers_stay(mobius, small, tmp_path, ep, opset):
    model, feeds = small
    out = tmp_path / "out.onnx"
    optimize(mobius, model, out, "--ep", ep, *(["--opset", opset] if opset else []))
    np.testing.assert_allclose(run(out, feeds)[0], run(model, feeds)[0], rtol=1e-4, atol=1e-5)
    onnx.checker.check_model(out)
    made = onnx.load(out)
    assert next(i.version for i in made.opset_import if i.domain == "") == (opset or 24)
    assert made.ir_version <= 11
    if ep == "onnx-standard":
        assert {n.domain for n in made.graph.node} == {""} and {i.domain for i in made.opset_import} == {""} and not made.functions
        assert "Transpose" not in operators(out)


def test_a_package_becomes_another(mobius, built, tmp_path):
    package = built(LLAMA, "--ep", "default")
    optimize(mobius, package / "model.onnx", tmp_path / "out" / "model.onnx", "--ep", "cpu")
    assert "com.microsoft.GroupQueryAttention" in operators(tmp_path / "out" / "model.onnx")
    case = Case(LLAMA)
    for name in set(case.runs) - {"left_padded"}:  # GroupQueryAttention counts tokens from the left
        assert case.error(name, tmp_path / "out") <= case.allowed_error


def test_a_range_longer_than_its_constant_is_an_error(mobius, tmp_path):
    """An EP without Range has the numbers up to 131072 as a constant."""
    graph = onnx.parser.parse_graph('g (int64 n) => (int64[R] y) <int64 a = {0}, int64 d = {1}> { y = Range(a, n, d) }')
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), tmp_path / "in.onnx")
    optimize(mobius, tmp_path / "in.onnx", tmp_path / "once.onnx", "--ep", "qnn")
    optimize(mobius, tmp_path / "once.onnx", tmp_path / "twice.onnx", "--ep", "qnn")
    for made in ("once.onnx", "twice.onnx"):
        assert "Range" not in operators(tmp_path / made)
        for n in (0, 1, 131072):
            np.testing.assert_array_equal(run(tmp_path / made, {"n": np.array(n)})[0], np.arange(n))
        with pytest.raises(onnxruntime.capi.onnxruntime_pybind11_state.Fail, match="Reshape"):
            run(tmp_path / made, {"n": np.array(131073)})


def concat_attention(order: str, length: int = 0) -> tuple[onnx.ModelProto, dict]:
    """Softmax attention over keys and values that are joined with a cache of this length, in this order."""
    key, value = (", ".join({"new": new, "past": past}[word] for word in order.split()) for new, past in (("k", "past_k"), ("v", "past_v")))
    model = onnx.parser.parse_model(f"""<ir_version: 11, opset_import: ["" : 23]>
        g (float[1,2,S,8] q, float[1,2,S,8] k, float[1,2,S,8] v, float[1,2,P,8] past_k, float[1,2,P,8] past_v)
          => (float[1,2,S,8] y, float[1,2,T,8] present_k, float[1,2,T,8] present_v) <float half = {{0.5}}>
        {{ present_k = Concat<axis = 2>({key}) present_v = Concat<axis = 2>({value}) t = Transpose<perm = [0,1,3,2]>(present_k)
          p = MatMul(q, t) s = Mul(p, half) w = Softmax(s) y = MatMul(w, present_v) }}""")
    rng = np.random.default_rng(3)
    return model, {name: rng.normal(size=(1, 2, length if name.startswith("past") else 3, 8)).astype(np.float32) for name in ("q", "k", "v", "past_k", "past_v")}


@pytest.mark.parametrize("ep", ["default", "cpu", "onnx-standard", "openvino"])
@pytest.mark.parametrize("order", ["past new", "new past"])
def test_a_cache_on_either_side_may_be_empty(mobius, tmp_path, ep, order):
    for length in (0, 4):
        model, feeds = concat_attention(order, length)
        onnx.save(model, tmp_path / "in.onnx")
        optimize(mobius, tmp_path / "in.onnx", tmp_path / "out.onnx", "--ep", ep)
        assert "Attention" in operators(tmp_path / "out.onnx")
        for found, want in zip(run(tmp_path / "out.onnx", feeds), run(tmp_path / "in.onnx", feeds), strict=True):
            np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("opset,ir_version", [(21, 10), (22, 10), (23, 11), (24, 11)])
def test_packages_for_older_opsets(mobius, tmp_path, opset, ir_version):
    result = mobius("build", LLAMA, tmp_path / "out", "--opset", opset)
    assert result.returncode == 0, result.stderr
    model = onnx.load(tmp_path / "out" / "model.onnx", load_external_data=False)
    assert model.ir_version == ir_version and {i.version for i in model.opset_import if i.domain == ""} == {opset}
    onnx.checker.check_model(tmp_path / "out" / "model.onnx")
    case = Case(LLAMA)
    for name in case.runs:
        assert case.error(name, tmp_path / "out") <= case.allowed_error
    component, = json.loads(mobius("info", tmp_path / "out", "--json").stdout)["components"]
    assert component["opset"] == str(opset)


# ── what is kept ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_names_metadata_and_functions_stay(mobius, small, tmp_path):
    model, _ = small
    optimize(mobius, model, tmp_path / "out.onnx", "--ep", "cpu")
    before, after = onnx.load(model), onnx.load(tmp_path / "out.onnx")
    assert after.producer_name == "somebody" and after.graph.name == "small"
    properties = {p.key: p.value for p in after.metadata_props}
    assert properties["author"] == "somebody" and properties["mobius.ep"] == "cpu"
    assert "mobius.version" not in properties, "the folder is no package"
    assert [i.name for i in after.graph.input] == [i.name for i in before.graph.input]
    assert {n.name for n in after.graph.node} == {n.name for n in before.graph.node} - {"two_node"}
    assert ("my", "Double") in {(f.domain, f.name) for f in after.functions}


def test_small_models_stay_in_one_file(mobius, small, tmp_path):
    model, _ = small
    listed = json.loads(optimize(mobius, model, tmp_path / "o" / "out.onnx", "--json").stdout)
    assert [f["name"] for f in listed["files"]] == ["out.onnx"] == sorted(p.name for p in (tmp_path / "o").iterdir())
    assert listed["files"][0]["size"] == (tmp_path / "o" / "out.onnx").stat().st_size


@pytest.fixture
def external(tmp_path):
    """A model with its weights in weights.bin."""
    folder = tmp_path / "in"
    folder.mkdir()
    model, feeds = small_model()
    onnx.save(model, folder / "in.onnx", save_as_external_data=True, location="weights.bin", size_threshold=1024)
    return folder / "in.onnx", feeds


def test_in_the_same_folder_weights_stay_where_they_are(mobius, external):
    model, feeds = external
    before = (model.parent / "weights.bin").read_bytes()
    optimize(mobius, model, model.with_name("out.onnx"), "--ep", "cpu")
    assert sorted(p.name for p in model.parent.iterdir()) == ["in.onnx", "out.onnx", "weights.bin"]
    assert locations(model.with_name("out.onnx")) == {"weights.bin"} and (model.parent / "weights.bin").read_bytes() == before
    np.testing.assert_allclose(run(model.with_name("out.onnx"), feeds)[0], run(model, feeds)[0], rtol=1e-5, atol=1e-6)


def test_what_changed_gets_a_file_of_its_own(mobius, external):
    model, feeds = external
    optimize(mobius, model, model.with_name("out.onnx"), "--ep", "onnx-standard")  # the Transpose of w becomes part of it
    assert locations(model.with_name("out.onnx")) == {"out.onnx.data"}
    assert (model.parent / "out.onnx.data").stat().st_size == 48 * 48 * 4
    np.testing.assert_allclose(run(model.with_name("out.onnx"), feeds)[0], run(model, feeds)[0], rtol=1e-4, atol=1e-5)


def test_in_another_folder_weights_are_copied(mobius, external, tmp_path):
    model, feeds = external
    optimize(mobius, model, tmp_path / "out" / "new" / "out.onnx", "--ep", "cpu")
    assert sorted(p.name for p in (tmp_path / "out" / "new").iterdir()) == ["out.onnx", "out.onnx.data"]
    expected = run(model, feeds)[0]
    shutil.rmtree(model.parent)
    np.testing.assert_allclose(run(tmp_path / "out" / "new" / "out.onnx", feeds)[0], expected, rtol=1e-5, atol=1e-6)


def test_models_of_more_than_two_gigabytes(mobius, tmp_path):
    rows, width = 300_000, 2048  # 2.4 GB, as a file without blocks
    tensor = TensorProto(name="table", data_type=TensorProto.FLOAT, dims=[rows, width], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="table.bin")
    with open(tmp_path / "table.bin", "wb") as file:
        file.truncate(rows * width * 4)
    graph = helper.make_graph([helper.make_node("Gather", ["table", "ids"], ["e"], "gather"), helper.make_node("Identity", ["e"], ["f"]),
                               helper.make_node("Neg", ["f"], ["y"], "neg")], "big",
                              [helper.make_tensor_value_info("ids", TensorProto.INT64, ["n"])], [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
                              [tensor])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), tmp_path / "in.onnx")
    result = optimize(mobius, tmp_path / "in.onnx", tmp_path / "out.onnx", "--ep", "cuda")
    assert "3 → 2 nodes" in result.stdout and locations(tmp_path / "out.onnx") == {"table.bin"}
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in.onnx", "out.onnx", "table.bin"]


def test_the_input_itself_only_by_force(mobius, external):
    model, feeds = external
    expected, before = run(model, feeds)[0], snapshot(model.parent)
    result = mobius("optimize", model, model, "--ep", "onnx-standard")
    assert result.returncode == 1 and "--force" in result.stderr and snapshot(model.parent) == before
    optimize(mobius, model, model, "--ep", "onnx-standard", "--force")
    assert (model.parent / "weights.bin").read_bytes() == before["weights.bin"]
    np.testing.assert_allclose(run(model, feeds)[0], expected, rtol=1e-4, atol=1e-5)


def test_a_data_file_in_use_is_never_written(mobius, tmp_path):
    model, feeds = small_model()
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="m.onnx.data", size_threshold=1024)
    expected = run(tmp_path / "m.onnx", feeds)[0]
    optimize(mobius, tmp_path / "m.onnx", tmp_path / "m.onnx", "--ep", "onnx-standard", "--force")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.onnx", "m.onnx.1.data", "m.onnx.data"]
    np.testing.assert_allclose(run(tmp_path / "m.onnx", feeds)[0], expected, rtol=1e-4, atol=1e-5)
    result = mobius("optimize", tmp_path / "m.onnx", tmp_path / "m.onnx.1.data")
    assert result.returncode == 1 and "holds weights" in result.stderr


# ── options ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_trace_skip_and_print(mobius, small, tmp_path):
    model, _ = small
    result = optimize(mobius, model, tmp_path / "out.onnx", "--ep", "trt-rtx", "--trace", "--trace-json", tmp_path / "t.json", "--print-after", "InlinePass")
    assert "InlinePass                : +2 Add, +1 Gelu" in result.stderr
    assert "// after InlinePass" in result.stdout and "RMSNormalization" in result.stdout
    trace = json.loads((tmp_path / "t.json").read_text())
    step = next(s for s in trace["steps"] if s["name"] == "InlinePass")
    assert trace["ep"] == "trt-rtx" and step["matched"] == 2 and step["changes"]["RMSNormalization"] == 1
    skipped = optimize(mobius, model, tmp_path / "out.onnx", "--ep", "trt-rtx", "--skip", "InlinePass", "--trace")
    assert "com.microsoft.SkipSimplifiedLayerNormalization" in operators(tmp_path / "out.onnx") and "InlinePass    " not in skipped.stderr


def test_a_step_that_is_not_run_prints_nothing_and_says_so(mobius, small, tmp_path):
    result = optimize(mobius, small[0], tmp_path / "out.onnx", "--ep", "cpu", "--print-after", "DecomposeAttention")
    assert "// after" not in result.stdout and "--print-after: DecomposeAttention is not run for cpu" in result.stderr
    result = optimize(mobius, small[0], tmp_path / "out.onnx", "--ep", "qnn", "--print-after", "DecomposeAttention")
    assert "// after DecomposeAttention" in result.stdout and "is not run" not in result.stderr


def test_an_ep_of_ones_own(mobius, small, tmp_path):
    model, feeds = small
    file = tmp_path / "my.json"
    file.write_text(json.dumps(MY_EP))
    for arguments in (["--ep-file", file], ["--ep-file", file, "--ep", "my-npu"]):
        result = optimize(mobius, model, tmp_path / "out.onnx", *arguments)
        assert "for my-npu" in result.stdout and "RMSNormalization" in operators(tmp_path / "out.onnx")
    result = mobius("build", LLAMA, tmp_path / "package", "--ep-file", file, "--trace-json", tmp_path / "t.json")
    assert result.returncode == 0 and "in f32 for my-npu" in result.stdout, result.stderr
    assert not {"Attention", "RotaryEmbedding"} & operators(tmp_path / "package" / "model.onnx")
    assert json.loads((tmp_path / "t.json").read_text())["model"]["ep"] == "my-npu"
    case = Case(LLAMA)
    assert case.error(case.runs[0], tmp_path / "package") <= case.allowed_error


def test_a_type_that_the_ep_does_not_run_is_told(mobius, small, tmp_path):
    file = tmp_path / "half.json"
    file.write_text(json.dumps({"name": "half", "dtypes": ["f16"], "fallback_dtype": "f16"}))
    result = optimize(mobius, small[0], tmp_path / "out.onnx", "--ep-file", file)
    assert result.stderr == "mobius: warning: The model is in f32, which 'half' does not run; nothing is converted\n"
    assert optimize(mobius, small[0], tmp_path / "out.onnx").stderr == ""
    onnx.save(onnx.parser.parse_model('<ir_version: 10, opset_import: ["" : 21]> g (int64[N] x) => (int64[N] y) { y = Neg(x) }'), tmp_path / "integers.onnx")
    assert optimize(mobius, tmp_path / "integers.onnx", tmp_path / "out.onnx", "--ep-file", file).stderr == ""


@pytest.mark.parametrize("text,expected", [
    ("{", "my.json"), ("[]", "expected an object"), ('{"gqa_dtypes": []}', "the field 'name' is missing"),
    ('{"name": "x", "gqa_dtype": []}', "unknown field 'gqa_dtype'; known are name, description, dtypes"), ('{"name": "x", "dtypes": ["f33"]}', "dtypes[0] is 'f33'"),
    ('{"name": "x", "max_opset": true}', "max_opset is boolean, expected a whole number"), ('{"name": "cuda"}', "'cuda' is already registered; give yours another name"),
    ('{"name": "x", "supports_fused_rope": false, "qkv_pack_dtypes": ["f16"]}', "needs empty qkv_pack_dtypes"),
    ('{"name": "x", "max_opset": 21, "max_opset": 24}', "the key 'max_opset' is given twice"), ('{"name": "x"}\0{"name": "y"}', "at byte 13: found a NUL"),
    ('{"name": "x\0y"}', "at byte"),
])
def test_files_that_describe_no_ep(mobius, small, tmp_path, text, expected):
    (tmp_path / "my.json").write_text(text)
    result = mobius("optimize", small[0], tmp_path / "out.onnx", "--ep-file", tmp_path / "my.json")
    assert result.returncode == 1 and "my.json" in result.stderr and expected in result.stderr and result.stderr.count("\n") == 1
    assert not (tmp_path / "out.onnx").exists()


def test_padding_on_any_side_is_told(mobius, tmp_path):
    for padding in ("right", "any"):
        out = tmp_path / padding
        assert mobius("build", LLAMA, out, "--ep", "cpu", "--padding", padding).returncode == 0
        component, = json.loads(mobius("info", out, "--json").stdout)["components"]
        assert component["padding"] == padding
    case = Case(LLAMA)
    for name in case.runs:
        assert case.error(name, tmp_path / "any") <= case.allowed_error


# ── mistakes ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("arguments,expected", [
    (["--ep", "rocm"], "--ep: found 'rocm', expected default, cpu"), (["--role", "poet"], "--role: found 'poet', expected decoder"),
    (["--skip", "Foo"], "--skip: found 'Foo', expected"), (["--print-after", "Foo"], "--print-after: found 'Foo'"), (["--padding", "left"], "found 'left'"),
    (["--dtype", "f31"], "found 'f31'"), (["--opset", "old"], "found 'old'"),
])
def test_wrong_use(mobius, small, tmp_path, arguments, expected):
    result = mobius("optimize", small[0], tmp_path / "out.onnx", *arguments)
    assert result.returncode == 2 and expected in result.stderr and not (tmp_path / "out.onnx").exists()


def test_bad_input_is_one_clear_error(mobius, small, tmp_path):
    out = tmp_path / "new" / "out.onnx"
    (tmp_path / "text.onnx").write_text("this is no model")
    (tmp_path / "cut.onnx").write_bytes(small[0].read_bytes()[:-100])
    for arguments, expected in [(["nowhere.onnx"], "nowhere.onnx"), ([tmp_path / "text.onnx"], "text.onnx"), ([tmp_path / "cut.onnx"], "cut.onnx"),
                                ([tmp_path], str(tmp_path)), ([small[0], "--opset", "20"], "expected 21 to 24"), ([small[0], "--opset", "25"], "expected 21 to 24")]:
        result = mobius("optimize", arguments[0], out, *arguments[1:])
        assert result.returncode == 1 and expected in result.stderr and result.stderr.count("\n") == 1, result.stderr
        assert not out.parent.exists()
    result = mobius("optimize", small[0], tmp_path)
    assert result.returncode == 1 and "this is a folder" in result.stderr


def test_an_operator_that_strict_onnx_can_not_say(mobius, tmp_path):
    graph = helper.make_graph([helper.make_node("Odd", ["x"], ["y"], "odd_node", domain="other")], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid("other", 1)], ir_version=10), tmp_path / "in.onnx")
    result = mobius("optimize", tmp_path / "in.onnx", tmp_path / "out.onnx", "--ep", "onnx-standard")
    assert result.returncode == 1 and "odd_node (other::Odd)" in result.stderr and not (tmp_path / "out.onnx").exists()
    result = mobius("optimize", tmp_path / "in.onnx", tmp_path / "out.onnx")
    assert result.returncode == 0 and "warning: odd_node (other::Odd) stays" in result.stderr


def test_models_without_types_and_with_contradictions(mobius, tmp_path):
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["a"]), helper.make_node("Neg", ["x"], ["y"])], "g",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3]), helper.make_tensor_value_info("w", TensorProto.FLOAT, [5, 4])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None), helper.make_tensor_value_info("a", TensorProto.FLOAT, None)])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "in.onnx")
    optimize(mobius, tmp_path / "in.onnx", tmp_path / "out.onnx", "--ep", "cpu")
    assert onnx.load(tmp_path / "out.onnx").opset_import[0].version == 24


def test_a_full_disk_or_a_closed_folder_leaves_nothing(mobius, small, tmp_path):
    if os.geteuid() == 0:
        target = Path("/proc/mobius_test/out.onnx")
    else:
        target = tmp_path / "closed" / "out.onnx"
        target.parent.mkdir(mode=0o500)
    result = mobius("optimize", small[0], target)
    assert result.returncode == 1 and result.stderr.count("\n") == 1


@pytest.mark.parametrize("ep", ["default", "cpu", "cuda", "onnx-standard", "qnn"])
def test_the_default_of_an_input_is_no_constant(mobius, tmp_path, ep):
    """Callers may feed another value: what is made of the default must not stay in the graph."""
    text = """<ir_version: 10, opset_import: ["" : 24]>
    g (float[2,3,4] x, float w) => (float[2,3,4] y) <float two = {2}, float w = {3}> { a = Mul(w, two) z = Mul(x, a) y = Add(z, w) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "in.onnx")
    done = mobius("optimize", tmp_path / "in.onnx", tmp_path / "out.onnx", "--ep", ep, "--dtype", "f32")
    assert done.returncode == 0, done.stderr
    x = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)
    session = onnxruntime.InferenceSession(tmp_path / "out.onnx", providers=["CPUExecutionProvider"])
    for feed, w in (({}, 3), ({"w": np.array(5, np.float32)}, 5)):
        np.testing.assert_allclose(session.run(None, {"x": x} | feed)[0], x * 2 * w + w, rtol=1e-6)


def test_a_trace_replaces_only_a_trace(mobius, small, tmp_path):
    model = tmp_path / "in.onnx"
    before = model.read_bytes()
    done = mobius("optimize", model, tmp_path / "out.onnx", "--ep", "cpu", "--trace-json", model)
    assert done.returncode == 1 and "is no trace" in done.stderr and model.read_bytes() == before and not (tmp_path / "out.onnx").exists()
    for _ in range(2):
        assert mobius("optimize", model, tmp_path / "out.onnx", "--ep", "cpu", "--force", "--trace-json", tmp_path / "t.json").returncode == 0
    done = mobius("build", LLAMA, "--dry-run", "--trace-json", model)
    assert done.returncode == 1 and model.read_bytes() == before


@pytest.mark.parametrize("name", ["-", "/dev/stdout", "pipe", "."])
def test_a_trace_goes_to_a_file(mobius, small, tmp_path, name):
    os.mkfifo(tmp_path / "pipe")
    path = name if name in ("-", "/dev/stdout") else tmp_path / name
    done = mobius("optimize", small[0], tmp_path / "out.onnx", "--ep", "cpu", "--trace-json", path, cwd=tmp_path, timeout=20)
    assert done.returncode == 1 and f"--trace-json: {path} is no file; name one" in done.stderr
    assert not done.stdout and not (tmp_path / "out.onnx").exists() and not (tmp_path / "-").exists()


def test_a_pipe_is_not_replaced_by_a_file(mobius, small, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    done = mobius("optimize", tmp_path / "in.onnx", tmp_path / "pipe", "--ep", "cpu", "--force")
    assert done.returncode == 1 and "neither a file nor a folder" in done.stderr
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    assert not [path for path in tmp_path.iterdir() if path.name not in ("in.onnx", "pipe")]
