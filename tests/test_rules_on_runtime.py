"""Every rewrite rule on ONNX Runtime: each example before and after gives the reference's numbers there, with and without ORT's own optimisations.

rules_test writes the pairs (mobius/rules/rule_pairs_test.cpp). Where the CPU has no kernel for a form, NO_KERNEL says so by name, and the test
asserts that ORT still refuses it: a list that went out of date fails.
"""
import json
from pathlib import Path

import onnx
import onnx.inliner
import pytest
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, NotImplemented

from ort_check import LEVELS, assert_close, numbers, run, value, with_float_results, written_by

TOLERANCE = {"float": 1e-5, "float16": 2e-2, "bfloat16": 5e-2}

# What ONNX Runtime's CPU provider can't run: float type -> operators without a kernel for it. A model that has one of these is refused.
NO_KERNEL = {
    "float": set(),
    "float16": set(),
    "bfloat16": {"Add", "Attention", "BiasGelu", "Cos", "Div", "FastGelu", "FusedMatMul", "Gelu", "Gemm", "GroupQueryAttention", "MatMul", "MoE", "Mul", "Neg",
                 "RMSNormalization", "ReduceMean", "RotaryEmbedding"},
}
# Operators that only other providers have kernels for: their function bodies run instead.
ELSEWHERE = [("com.microsoft", "PackedMultiHeadAttention")]
# Models that it refuses for another reason.
REFUSED = {
    ("RMSNormOneType-1-float16", "original"): "ORT's own body of RMSNormalization multiplies two types when the scale has a type of its own",
}


def read_pairs(folder: Path) -> dict:
    pairs = {pair["name"]: pair for pair in json.loads((folder / "pairs.json").read_text())}
    for name, pair in pairs.items():
        pair["dtype"] = name.rsplit("-", 1)[1]
        for side in ("original", "rewritten"):
            pair[side] = onnx.inliner.inline_selected_functions(onnx.load(folder / f"{name}.{side}.onnx"), ELSEWHERE)
    return pairs


PAIRS = written_by("rules_test", "RulePairs.*", "MOBIUS_RULE_PAIRS", read_pairs)


def lacking(model: onnx.ModelProto, dtype: str) -> set:
    return {node.op_type for node in model.graph.node} & NO_KERNEL[dtype]


def run_or_tell(model: onnx.ModelProto, level, inputs: dict, dtype: str) -> list:
    try:
        return run(model, level, inputs)
    except NotImplemented as error:
        pytest.fail(f"{error}\nAn operator that the CPU provider has no kernel for in {dtype} goes on the list NO_KERNEL", pytrace=False)


@pytest.mark.parametrize("name", PAIRS)
def test_rewritten_model_runs_with_ort(name):
    pair = PAIRS[name]
    for side in ("original", "rewritten"):
        refused = lacking(pair[side], pair["dtype"]) or REFUSED.get((name, side))
        model = with_float_results(onnx.ModelProto.FromString(pair[side].SerializeToString()))
        for turn in pair["rounds"]:
            inputs = {input_name: value(t) for input_name, t in turn["inputs"].items()}
            for what, level in LEVELS.items():
                if refused:
                    with pytest.raises((NotImplemented, Fail)):
                        run(model, level, inputs)
                else:
                    found, want = run_or_tell(model, level, inputs, pair["dtype"]), [numbers(t) for t in turn["outputs"].values()]
                    assert_close(found, want, TOLERANCE[pair["dtype"]], f"{side} {what}")


@pytest.mark.parametrize("dtype, least", [("float", 80), ("float16", 80), ("bfloat16", 8)])
def test_most_pairs_run(dtype, least):
    """Not a wall of refusals: so many rewritten models of each type do run."""
    runs = [name for name, p in PAIRS.items() if p["dtype"] == dtype and not lacking(p["rewritten"], dtype)]
    assert len(runs) >= least, runs
