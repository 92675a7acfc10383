"""Numbers of packages for each execution provider: the golden cases on the runtimes that this machine has.

What a package is for mostly isn't here, but ONNX Runtime's CPU provider runs what it is made of: it has kernels for all operators that
we emit, and inserts casts around those that it only has in float32.
"""
import numpy as np
import onnx
import onnx.inliner
import pytest
from conftest import execution_providers
from golden_check import Case, OnnxRuntime
from test_golden import FOLDERS, RUNTIME_ERROR

# Packages that count tokens of right-padded rows give other numbers for left-padded ones; those that read the mask take both.
LEFT_PADDED = "left_padded"
# Those for any runtime come first.
F32_EPS = sorted((ep["name"] for ep in execution_providers("f32")), key=lambda name: name not in ("default", "onnx-standard"))
# Those with attention of their own in float16, or with nothing else; others get the operators that they have in float32.
F16_EPS = [ep["name"] for ep in execution_providers("f16") if "f16" in ep["gqa_dtypes"] or "f32" not in ep["dtypes"]]
F16_ERROR = 2e-2
# One graph at two of ONNX Runtime's optimisation levels: sums in another order, exponentials by other polynomials.
LEVEL_DIFFERENCE = 2e-5


def each(**parameters):
    """Every case with every combination; a case's tests run in one process, which builds each of its packages once."""
    names, values = ["name"], [[name] for name in FOLDERS]
    for key, choices in parameters.items():
        names.append(key)
        values = [[*row, choice] for row in values for choice in choices]
    return pytest.mark.parametrize(",".join(names), [pytest.param(*row, marks=pytest.mark.xdist_group(row[0])) for row in values])


def runs_of(case: Case, package) -> list[str]:
    padding = next(p.value for p in onnx.load(package / "model.onnx", load_external_data=False).metadata_props if p.key == "mobius.padding")
    assert padding in ("right", "any")
    return [run for run in case.runs if padding == "any" or run != LEFT_PADDED]


def errors(case: Case, package, **options) -> dict[str, float]:
    graphs = {"model": OnnxRuntime(package / "model.onnx", **options)}
    return {run: case.error(run, package, graphs=graphs) for run in runs_of(case, package)}


def assert_within(found: dict[str, float], allowed: float) -> None:
    assert found and not {run: error for run, error in found.items() if not error <= allowed}, (found, allowed)


@each(ep=F32_EPS)
def test_f32_matches_reference(name, ep, built):
    case, package = Case(FOLDERS[name]), built(FOLDERS[name], "--ep", ep, "--dtype", "f32")
    assert_within(errors(case, package), case.allowed_error)


@each(ep=["default", "onnx-standard", "cpu"])
def test_optimisation_levels_of_onnxruntime_agree(name, ep, built):
    case, package = Case(FOLDERS[name]), built(FOLDERS[name], "--ep", ep, "--dtype", "f32")
    as_it_is, optimised = ({"model": OnnxRuntime(package / "model.onnx", optimize=level)} for level in (False, True))
    runs = runs_of(case, package)
    assert_within({run: case.error(run, package, graphs=as_it_is) for run in runs}, case.allowed_error)
    assert_within({run: case.difference(run, package, as_it_is, optimised) for run in runs}, LEVEL_DIFFERENCE)


@each(ep=["default", "onnx-standard", "qnn", "openvino"])
def test_portable_packages_take_any_padding(name, ep, built):
    case, package = Case(FOLDERS[name]), built(FOLDERS[name], "--ep", ep, "--dtype", "f32")
    assert runs_of(case, package) == case.runs and LEFT_PADDED in case.runs


@each(ep=["default", "cpu", "trt-rtx"])
def test_function_bodies_say_what_kernels_compute(name, ep, built, tmp_path):
    """A runtime with a kernel never looks at the body: here bodies stand in for kernels."""
    case, package = Case(FOLDERS[name]), built(FOLDERS[name], "--ep", ep, "--dtype", "f32")
    model = onnx.inliner.inline_local_functions(onnx.load(package / "model.onnx"))
    if ep == "default":
        assert not {node.op_type for node in model.graph.node if node.domain}
    onnx.save(model, tmp_path / "model.onnx")
    assert_within(errors(case, tmp_path), RUNTIME_ERROR)


@each(ep=F16_EPS)
def test_f16_is_close_to_reference(name, ep, built):
    case, package = Case(FOLDERS[name]), built(FOLDERS[name], "--ep", ep, "--dtype", "f16")
    assert_within(errors(case, package), F16_ERROR)


@each(ep=["cpu", "webgpu"])
def test_any_padding_on_request(name, ep, built):
    case, package = Case(FOLDERS[name]), built(FOLDERS[name], "--ep", ep, "--dtype", "f32", "--padding", "any")
    assert runs_of(case, package) == case.runs
    assert_within(errors(case, package), case.allowed_error)
    operators = {node.op_type for node in onnx.load(package / "model.onnx", load_external_data=False).graph.node}
    assert "GroupQueryAttention" in operators and "Attention" not in operators


@each(ep=["default", "onnx-standard", "cpu", "webgpu"])
def test_opset_21_gives_equal_numbers(name, ep, built):
    case = Case(FOLDERS[name])
    package, newest = (built(FOLDERS[name], "--ep", ep, "--dtype", "f32", *options) for options in (["--opset", "21"], []))
    model = onnx.load(package / "model.onnx", load_external_data=False)
    assert {i.domain: i.version for i in model.opset_import}[""] == 21
    assert not {"Attention", "RotaryEmbedding", "RMSNormalization"} & {node.op_type for node in model.graph.node if not node.domain}
    assert_within(errors(case, package), case.allowed_error)
    graphs, others = ({"model": OnnxRuntime(folder / "model.onnx")} for folder in (package, newest))
    assert_within({run: case.difference(run, package, graphs, others) for run in runs_of(case, package)}, LEVEL_DIFFERENCE)


# The default package is compared on these runtimes in test_golden.
@each(backend=["reference", "openvino"])
def test_strict_onnx_matches_reference_on_other_runtimes(name, backend, built):
    case, package, graphs = Case(FOLDERS[name]), built(FOLDERS[name], "--ep", "onnx-standard", "--dtype", "f32"), {}
    assert_within({run: case.error(run, package, backend, graphs) for run in case.runs}, RUNTIME_ERROR)


def test_a_wrong_number_is_noticed(built, tmp_path):
    """The comparison itself: one weight changed by a tenth."""
    package = built(FOLDERS["llama"], "--ep", "cpu", "--dtype", "f32")
    model = onnx.load(package / "model.onnx")
    weight = next(t for t in model.graph.initializer if t.name == "model.norm.weight")
    values = onnx.numpy_helper.to_array(weight) * np.float32(1.1)
    weight.CopyFrom(onnx.numpy_helper.from_array(values, weight.name))
    onnx.save(model, tmp_path / "model.onnx")
    found = errors(Case(FOLDERS["llama"]), tmp_path)
    assert set(found) == {"right_padded", "chunked"} and min(found.values()) > 0.05
