"""Every model type that the program builds, against the reference of its golden case: a type is in when this passes.

Cases are the folders of testdata/golden, testdata/golden_states (decoders with states) and of the folder that MOBIUS_GOLDEN names whose type `mobius list models` has.
test_golden and test_ep_numbers look deeper into the cases of testdata/golden.
"""
import json
import os
import re
from pathlib import Path

import onnx
import pytest
from conftest import ROOT, TESTDATA, run_mobius
from golden_check import Case, OnnxRuntime, load
from test_ep_numbers import F16_EPS, F16_ERROR, F32_EPS, assert_within, errors, runs_of

# Packages whose rows may be padded on either side.
PORTABLE = {"default": (), "onnx-standard": (), "cpu with any padding": ("--padding", "any")}


def known_types() -> set[str]:
    listed = json.loads(run_mobius("list", "models", "--json").stdout)
    return {row["type"] for row in listed}


def find_cases() -> dict[str, Path]:
    types, found = known_types(), {}
    for root in filter(None, [os.environ.get("MOBIUS_GOLDEN"), TESTDATA / "golden", TESTDATA / "golden_states"]):
        for file in Path(root).glob("*/case.json"):
            if json.loads((file.parent / "config.json").read_text())["model_type"] in types:
                found[file.parent.name] = file.parent
    return dict(sorted(found.items()))


FOLDERS = find_cases()


def each(key: str, choices):
    """Every case with every choice; a case's tests run in one process."""
    rows = [pytest.param(name, choice, marks=pytest.mark.xdist_group(name), id=f"{name}-{choice}") for name in FOLDERS for choice in choices]
    return pytest.mark.parametrize(f"name,{key}", rows)


def package_for(built, name: str, target: str) -> Path:
    ep, *_ = target.split()
    return built(FOLDERS[name], "--ep", ep, "--dtype", "f32", *PORTABLE.get(target, ()))


@each("target", [*PORTABLE, *(ep for ep in F32_EPS if ep not in PORTABLE)])
def test_matches_reference(name, target, built):
    case, package = Case(FOLDERS[name]), package_for(built, name, target)
    if target in PORTABLE:
        assert runs_of(case, package) == case.runs
    assert_within(errors(case, package), case.allowed_error)


@each("target", ["default", "cpu"])
def test_generates_the_same_tokens(name, target, built):
    for generated, expected in Case(FOLDERS[name]).greedy(package_for(built, name, target)):
        assert generated == expected


# Products with a weight that is 1 are left out: Gemma 4's layer_scalar.
KNOWS_MORE_WITH_WEIGHTS = {"gemma4_text"}


@each("ep", ["default", "cpu", "cuda"])
def test_the_graph_does_not_wait_for_weights(name, ep, tmp_path):
    """What is decided while a graph is built and optimised must not depend on whether its checkpoint was opened."""
    nodes = []
    for flags in ((), ("--no-weights",)):
        package = tmp_path / f"package{len(flags)}"
        done = run_mobius("build", FOLDERS[name], package, "--ep", ep, "--dtype", "f16" if ep == "cuda" else "f32", "--quiet", *flags)
        assert done.returncode == 0, done.stderr
        nodes.append([node.SerializeToString() for node in onnx.load(package / "model.onnx", load_external_data=False).graph.node])
    assert (nodes[0] == nodes[1]) != (name in KNOWS_MORE_WITH_WEIGHTS)


EVIDENCE = ROOT / "mobius" / "models" / "evidence.txt"
EVIDENCE_HEADING = """\
# What is proven of each model type: its golden cases / the execution providers whose packages meet their references, on ONNX Runtime.
# tests/test_families.py writes (MOBIUS_UPDATE=1) and compares it; `mobius list models` shows it.
"""


UPDATED_BY = "if that is meant, MOBIUS_UPDATE=1 pytest tests/test_families.py writes it anew: review the difference"


def test_evidence_is_what_is_tested():
    cases: dict[str, list[str]] = {}
    for name, folder in FOLDERS.items():
        cases.setdefault(json.loads((folder / "config.json").read_text())["model_type"], []).append(name)
    lines = [f"{kind}: {' '.join(names)} / {' '.join(F32_EPS)}" for kind, names in sorted(cases.items())]
    text = EVIDENCE_HEADING + "\n".join(lines) + "\n"
    if os.environ.get("MOBIUS_GOLDEN"):
        if os.environ.get("MOBIUS_UPDATE"):
            EVIDENCE.write_text(text)
        assert EVIDENCE.read_text() == text, UPDATED_BY
    else:  # not all cases are here
        listed = {line.split(":")[0]: line for line in EVIDENCE.read_text().splitlines() if not line.startswith("#")}
        assert all(set(names) <= set(listed[kind].split(" / ")[0].split()) for kind, names in cases.items())


# ── what graphs are made of ──────────────────────────────────────────────────────────────────────────────────────────────

# The operators that a kernel has to be there for; all others are elementwise, products or about shapes.
HEAVY = ["Attention", "GroupQueryAttention", "MultiHeadAttention", "LinearAttention", "CausalConvWithState", "MoE", "QMoE", "Softmax", "Conv", "Scan", "Loop",
         "CumSum", "TopK"]
TABLE = TESTDATA / "structure" / "families.txt"
HEADING = """\
# Every golden case in float16: how many of these operators there are, then the number of all nodes, by execution provider; and where attention
# was expected to be fused and is not, why. tests/test_families.py writes (MOBIUS_UPDATE=1) and compares this table.
"""


def structure_of(name: str, ep: str, tmp_path: Path) -> str:
    package, trace = tmp_path / ep, tmp_path / f"{ep}.json"
    built = run_mobius("build", FOLDERS[name], package, "--ep", ep, "--dtype", "f16", "--trace-json", trace)
    assert built.returncode == 0, built.stderr
    nodes = onnx.load(package / "model.onnx", load_external_data=False).graph.node
    counts = {op: sum(node.op_type == op for node in nodes) for op in HEAVY}
    text = ", ".join(f"{op} {count}" for op, count in counts.items() if count)
    fusion = next((s for s in json.loads(trace.read_text())["model"]["steps"] if s["name"] == "GQAFusion"), {})
    # The warning of a fusion that was expected, and what the trace says about the nearest place. (A lower opset has no Attention to stay.)
    warned, miss = "GQA fusion expected" in built.stderr, fusion.get("nearest_miss", "")
    assert warned == (bool(miss) and not miss.startswith("the graph has no ") and not counts["GroupQueryAttention"])
    why = f"; Attention stays: {fusion['nearest_miss'].split(': ', 1)[-1]}" if fusion and counts["Attention"] else ""
    return f"{text}; {len(nodes)}{why}"


def table_of(name: str, tmp_path: Path) -> list[str]:
    """One line for all execution providers that give the same."""
    lines: dict[str, list[str]] = {}
    for ep in F16_EPS:
        lines.setdefault(structure_of(name, ep, tmp_path), []).append(ep)
    return [f"  {', '.join(eps):<32} {text}" for text, eps in lines.items()]


def read_table() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in TABLE.read_text().splitlines() if TABLE.exists() else []:
        if line.startswith("  "):
            found[next(reversed(found))].append(line)
        elif line and not line.startswith("#"):
            found[line] = []
    return found


def eps_by_structure(lines: list[str]) -> dict[str, set[str]]:
    found = (re.fullmatch(r"  ((?:[\w-]+, )*[\w-]+) +(.*)", line).groups() for line in lines)
    return {text: set(eps.split(", ")) for eps, text in found}


# The kernel of experts takes routers in the model's own type.
WITH_EXPERTS = [name for name, rows in read_table().items() if name in FOLDERS and any(" MoE " in row for row in rows)]


def test_the_table_has_experts():
    assert WITH_EXPERTS or "mixtral" not in FOLDERS


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in WITH_EXPERTS])
def test_experts_match_reference_in_f16(name, built):
    case, package = Case(FOLDERS[name]), built(FOLDERS[name], "--ep", "cuda", "--dtype", "f16")
    assert any(node.op_type == "MoE" for node in onnx.load(package / "model.onnx", load_external_data=False).graph.node)
    assert_within(errors(case, package), F16_ERROR)


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in FOLDERS])
def test_f16_graphs_are_as_reviewed(name, tmp_path):
    lines = table_of(name, tmp_path)
    if os.environ.get("MOBIUS_UPDATE"):
        table = read_table() | {name: lines}
        TABLE.write_text(HEADING + "".join(f"\n{key}\n" + "\n".join(rows) + "\n" for key, rows in sorted(table.items())))
    assert eps_by_structure(lines) == eps_by_structure(read_table().get(name, [])), f"{TABLE.name}: {UPDATED_BY}"
