"""mobius.Model: from and to onnx, onnx_ir, bytes, text and files; weights as views; optimised in place."""
import copy
import pickle

import ml_dtypes
import mobius
import numpy as np
import onnx
import onnx_ir as ir
import pytest
from checkpoints import LLAMA
from python_support import run_logits

IDS = np.array([[5, 17, 150, 3, 42, 99, 8]])


@pytest.fixture
def model():
    return mobius.build(LLAMA)["model"]


def node_types(proto: onnx.ModelProto) -> list[str]:
    return [n.op_type for n in proto.graph.node]


def test_goes_through_every_form_unchanged(model, tmp_path):
    data = model.to_bytes()
    model.save(tmp_path / "model.onnx", external_data=True)
    assert (tmp_path / "model.onnx.data").exists()
    for back in (mobius.Model.from_bytes(data), mobius.Model.load(tmp_path / "model.onnx"), mobius.Model.from_onnx(model.to_onnx()),
                 mobius.Model.from_onnx_ir(model.to_onnx_ir()), mobius.Model.from_text(model.to_text()), model.clone(), copy.deepcopy(model),
                 pickle.loads(pickle.dumps(model)), mobius.Model.of(data), mobius.Model.of(tmp_path / "model.onnx")):
        assert back is not model and back.to_bytes() == data
    assert mobius.Model.of(model) is model


def test_onnx_checks_what_it_gives(model):
    onnx.checker.check_model(model.to_onnx(), full_check=False)
    assert model.verify() == []


@pytest.mark.parametrize("external", [False, True, "safetensors", None])
def test_saved_files_run(model, tmp_path, external):
    model.save(tmp_path / "m.onnx", external_data=external)
    names = {p.name for p in tmp_path.iterdir()}
    assert names == {False: {"m.onnx"}, None: {"m.onnx"}, True: {"m.onnx", "m.onnx.data"}, "safetensors": {"m.onnx", "m.safetensors"}}[external]
    if external != "safetensors":
        assert np.array_equal(run_logits(tmp_path / "m.onnx", IDS), run_logits(model.to_bytes(), IDS))


def test_unknown_values_are_told(model, tmp_path):
    with pytest.raises(ValueError, match="external_data is 'hdf5'"):
        model.save(tmp_path / "m.onnx", external_data="hdf5")
    with pytest.raises(ValueError, match="role is 'brain', expected one of decoder"):
        model.role = "brain"
    with pytest.raises(TypeError, match="found 7"):
        mobius.Model.of(7)
    with pytest.raises(ValueError, match="damaged protobuf"):
        mobius.Model.from_bytes(b"\xff\xff\xff")
    with pytest.raises(FileNotFoundError):
        mobius.Model.load(tmp_path / "absent.onnx")


def test_names_that_are_no_utf8_do_not_hide_the_rest():
    whole = mobius.Model.from_text("g (float[2] abc) => (float[2] y) { y = Relu(abc) }").to_bytes()
    strange = mobius.Model.from_bytes(whole.replace(b"Relu", b"R\xff\xfeu").replace(b"abc", b"\xfd\xfd\xfd"))
    assert strange.graph.nodes[0].op_type == "R\ufffd\ufffdu" and strange.inputs[0].name == "\ufffd" * 3
    with pytest.raises(ValueError, match='reads "\ufffd\ufffd\ufffd", which nothing defines'):
        mobius.Model.from_bytes(b"\xfd\xfd\xfd".join(whole.split(b"abc", 1)))


def test_weights_are_views(model, tmp_path):
    weight = model.initializers["model.norm.weight"]
    assert weight.dtype == np.float32 and not weight.flags.owndata and not weight.flags.writeable
    again = model.initializers["model.norm.weight"]
    assert weight.__array_interface__["data"] == again.__array_interface__["data"], "both are the file's own bytes"
    inner = model.to_onnx_ir().graph.initializers["model.norm.weight"].const_value.numpy()
    assert inner.__array_interface__["data"] == weight.__array_interface__["data"]


def test_a_view_outlives_its_model():
    model = mobius.build(LLAMA)["model"]
    weight = model.initializers["model.norm.weight"]
    want = weight.copy()
    del model
    assert np.array_equal(weight, want)


def test_arrays_of_onnx_ir_are_taken_without_copies(model):
    owner = model.to_onnx_ir()
    array = np.arange(64, dtype=np.float32)
    owner.graph.initializers["model.norm.weight"].const_value = ir.Tensor(array, name="model.norm.weight")
    taken = mobius.Model.from_onnx_ir(owner).initializers["model.norm.weight"]
    assert taken.__array_interface__["data"][0] == array.__array_interface__["data"][0]


def test_external_tensors_of_onnx_ir_stay_in_their_file(model, tmp_path):
    model.save(tmp_path / "m.onnx", external_data=True)
    loaded = ir.load(tmp_path / "m.onnx")
    assert mobius.Model.from_onnx_ir(loaded).to_bytes() == model.to_bytes()
    assert isinstance(loaded.graph.initializers["model.embed_tokens.weight"].const_value, ir.ExternalTensor), "the caller's model is as it was"


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64", "int8", "uint16", "int64", "bool", "complex64", "bfloat16", "float8_e4m3fn",
                                   "float8_e5m2", "int4", "uint4", "float4_e2m1fn"])
def test_every_element_type_crosses(dtype):
    kind = np.dtype(getattr(ml_dtypes, dtype, None) or dtype)
    array = (np.arange(1, 7).reshape(2, 3) % 4).astype(kind)
    given = mobius.nn.build_graph(lambda op, x: op.Identity(op.constant(array)), {"x": ("f32", [1])})
    (value,) = given.initializers.values()
    assert value.dtype == kind and value.shape == (2, 3) and np.array_equal(value, array)
    assert mobius.Model.from_onnx_ir(given.to_onnx_ir()).to_bytes() == given.to_bytes()
    onnx_value = onnx.numpy_helper.to_array(given.to_onnx().graph.initializer[0])
    assert np.array_equal(onnx_value, array)


def test_big_endian_and_strided_arrays_keep_their_values():
    array = np.arange(24, dtype=">f4").reshape(4, 6)[:, ::2]
    model = mobius.nn.build_graph(lambda op, x: op.Identity(op.constant(array)), {"x": ("f32", [1])})
    assert np.array_equal(next(iter(model.initializers.values())), array)


# ── optimize_model ──


def test_optimises_its_own_in_place(model):
    report = mobius.optimize_model(model, ep="cpu")
    assert model.op_counts()["com.microsoft::GroupQueryAttention"] == 2
    assert report["ep"] == "cpu" and any(step["name"] == "GQAFusion" for step in report["steps"])


def test_optimises_onnx_ir_in_place(model):
    want = run_logits(model.to_bytes(), IDS)
    theirs = model.to_onnx_ir()
    graph, first = theirs.graph, theirs.graph.inputs[0]
    mobius.optimize_model(theirs, ep="cpu", dtype=ir.DataType.FLOAT)
    assert theirs.graph is graph and graph.inputs[0] is first
    assert sum(n.op_type == "GroupQueryAttention" for n in graph) == 2 and not any(n.op_type == "Attention" for n in graph)
    for node in graph:
        for value in node.inputs:
            assert value is None or value.graph is graph, value
    got = run_logits(ir.to_proto(theirs).SerializeToString(), IDS)
    assert np.abs(got - want).max() <= 1e-4 * np.abs(want).max()


def test_optimises_a_model_proto_in_place(model):
    theirs = model.to_onnx()
    mobius.optimize_model(theirs, "onnx-standard")
    assert all(not n.domain for n in theirs.graph.node) and not theirs.functions
    assert np.abs(run_logits(theirs.SerializeToString(), IDS) - run_logits(model.to_bytes(), IDS)).max() < 1e-4


def test_inputs_with_defaults_stay_one_value():
    given = mobius.nn.build_graph(lambda op, x, w: op.Relu(op.Identity(x) * w), {"x": ("f32", [2]), "w": ("f32", [2])}).to_onnx_ir()
    w = given.graph.inputs[1]
    w.const_value = ir.Tensor(np.array([3, 4], np.float32), name="w")
    given.graph.register_initializer(w)
    mobius.optimize_model(given, "default")
    assert given.graph.inputs[1] is w and given.graph.initializers["w"] is w and np.array_equal(w.const_value.numpy(), [3, 4])
    import onnxruntime

    session = onnxruntime.InferenceSession(ir.to_proto(given).SerializeToString())
    assert session.run(None, {"x": np.array([1, -1], np.float32)})[0].tolist() == [3, 0]


def test_onnx_ir_and_model_proto_and_own_give_the_same(model):
    own, theirs, proto = model.clone(), model.to_onnx_ir(), model.to_onnx()
    for each in (own, theirs, proto):
        mobius.optimize_model(each, "cpu")
    assert node_types(proto) == node_types(own.to_onnx()) == [n.op_type for n in theirs.graph]


def test_an_unknown_ep_leaves_the_model_as_it_was(model):
    before = model.to_bytes()
    with pytest.raises(ValueError, match="Unknown execution provider 'rocm'. Supported: \\[.*'cpu', 'cuda'"):
        mobius.optimize_model(model, ep="rocm")
    assert model.to_bytes() == before


def test_role_gates_fusions(model):
    mobius.optimize_model(model, ep="cpu", model_role="vision")
    assert "com.microsoft::GroupQueryAttention" not in model.op_counts() and model.role == "vision"


def test_steps_can_be_skipped(model):
    with pytest.warns(UserWarning, match="GQA fusion expected"):
        mobius.optimize_model(model, ep="cpu", skip=["GQAFusion"])
    assert "com.microsoft::GroupQueryAttention" not in model.op_counts()


def test_names_and_types_are_checked_before_anything_is_done(model):
    before = model.to_bytes()
    with pytest.raises(ValueError, match="skip is 'GQAfusion', expected one of ConstantsToInitializers, .*, GQAFusion, "):
        mobius.optimize_model(model, ep="cpu", skip=["GQAFusion", "GQAfusion"])
    with pytest.raises(ValueError, match="skip is 'GQAFusion', expected a list of names"):
        mobius.optimize_model(model, ep="cpu", skip="GQAFusion")
    for dtype in ("int32", mobius.DataType.STRING, np.float64, mobius.DataType.UNDEFINED):
        with pytest.raises(ValueError, match="expected FLOAT, FLOAT16 or BFLOAT16"):
            mobius.optimize_model(model, ep="cpu", dtype=dtype)
    assert model.to_bytes() == before


# ── weights later ──


def test_a_model_without_weights_takes_them_later():
    from safetensors.numpy import load_file

    want = mobius.build(LLAMA, execution_provider="cpu")["model"]
    model = mobius.build(LLAMA, execution_provider="cpu", load_weights=False)["model"]
    with pytest.raises(FileNotFoundError, match="has no data"):
        model.initializers["model.norm.weight"]
    weights = load_file(LLAMA / "model.safetensors")
    with pytest.raises(ValueError, match="no parameter model.phase"):
        mobius.apply_weights(model, {"model.phase": np.zeros(1)})
    with pytest.raises(ValueError, match=r"model.norm.weight is \[3\], expected \[64\]"):
        mobius.apply_weights(model, {"model.norm.weight": np.zeros(3)})
    for dtype in (np.int64, np.bool_, np.complex64):
        with pytest.raises(ValueError, match="model.norm.weight is [A-Z0-9]+, expected FLOAT, FLOAT16, BFLOAT16 or DOUBLE"):
            mobius.apply_weights(model, {"model.norm.weight": np.zeros(64, dtype)})
    mobius.apply_weights(model, {name: value for name, value in weights.items() if name != "model.norm.weight"})
    assert model.metadata["mobius.weights"] == "none"
    mobius.apply_weights(model, {"model.norm.weight": weights["model.norm.weight"]})
    assert model.to_bytes() == want.to_bytes()
    assert np.array_equal(run_logits(model.to_bytes(), IDS), run_logits(want.to_bytes(), IDS))


def test_the_graph_can_be_looked_at(model):
    graph = model.graph
    assert graph.inputs[0] == ("input_ids", mobius.DataType.INT64, ("batch", "sequence_len"))
    assert len(graph) == sum(model.op_counts().values())
    attention = next(n for n in graph if n.op_type == "Attention")
    assert attention.attributes["q_num_heads"] == 4 and attention.outputs[0].dtype == mobius.DataType.FLOAT
    assert "nodes" in repr(graph) and "decoder" in repr(model)


def test_what_an_onnx_ir_model_can_not_give_is_told(tmp_path):
    waiting = mobius.build(LLAMA, load_weights=False)["model"].to_onnx_ir()
    with pytest.raises(ValueError, match="initializer model.embed_tokens.weight of the onnx_ir.Model has no const_value"):
        mobius.optimize_model(waiting)
    np.eye(64, dtype=np.float32).tofile(tmp_path / "w.bin")
    size = 64 * 64 * 4
    for offset, length in ((-4, size), (0, 16)):
        model = mobius.nn.build_graph(lambda op, x: op.MatMul(x, np.zeros((64, 64), np.float32)), {"x": ("f32", [64, 64])}).to_onnx_ir()
        weight = next(v for v in model.graph.initializers.values() if v.shape == (64, 64))
        weight.const_value = ir.ExternalTensor("w.bin", offset, length, ir.DataType.FLOAT, shape=ir.Shape([64, 64]), name="w", base_dir=str(tmp_path))
        with pytest.raises(ValueError, match=f"external data of w is {length} bytes at {offset}, expected {size} bytes at 0 or more"):
            mobius.optimize_model(model)


def test_strings_that_are_no_text(tmp_path):
    """ONNX's strings are bytes: values stay what they are, names are shown as far as they can be."""
    blob, h = b"\xff\x00\x01", onnx.helper
    context = h.make_node("EPContext", ["x"], ["zzz"], domain="com.microsoft", ep_cache_context=blob, notes=[b"\xfe", "é"])
    join = h.make_node("StringConcat", ["zzz", "s"], ["y"])
    strings = onnx.TensorProto(name="s", data_type=onnx.TensorProto.STRING, dims=[2], string_data=[blob, "é".encode()])
    graph = h.make_graph([context, join], "g", [h.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2])],
                         [h.make_tensor_value_info("y", onnx.TensorProto.STRING, [2])], [strings])
    proto = h.make_model(graph, opset_imports=[h.make_opsetid("", 20), h.make_opsetid("com.microsoft", 1)], ir_version=10)
    model = mobius.Model.from_bytes(proto.SerializeToString().replace(b"zzz", b"\xff\xfe\xfd"))
    node = model.graph.nodes[0]
    assert node.attributes["ep_cache_context"] == blob and node.attributes["notes"] == [b"\xfe", "é"]
    assert node.outputs[0].name == "\ufffd\ufffd\ufffd" == model.graph.nodes[1].inputs[0]
    assert list(model.initializers["s"]) == [blob, "é"] and "g" in model.to_text() and repr(model) and model.op_counts()["StringConcat"] == 1
    from mobius._arrays import from_numpy, to_numpy

    assert list(to_numpy(from_numpy(np.array([blob, "é"], dtype=object)))) == [blob, "é"]
