"""The trace of the optimisation: its lines and its table as the specification shows them, and figures that add up."""
import re

import pytest
from checkpoints import CONFIG, make_checkpoint
from conftest import execution_providers

PREFIX = "[EP Trace] "
DASHES = "-------------------------+--------+-------+-------"


def config(**changes) -> dict:
    return CONFIG | {"hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 28} | changes


@pytest.fixture(scope="module")
def trace(mobius, tmp_path_factory):
    """trace(ep, dtype, **config) -> (the lines of the trace, the other lines of standard error), without weights."""
    work = tmp_path_factory.mktemp("trace")

    def run(ep: str, dtype: str, **changes) -> tuple[list[str], list[str]]:
        folder = make_checkpoint(work / "_".join(["model", *(f"{key}_{value}" for key, value in changes.items())]), config(**changes))
        result = mobius("build", folder, "-o", work / "out", "--ep", ep, "--dtype", dtype, "--no-weights", "--trace", "--quiet", "--force")
        assert result.returncode == 0, result.stderr
        lines = result.stderr.splitlines()
        return [line.removeprefix(PREFIX) for line in lines if line.startswith(PREFIX)], [line for line in lines if not line.startswith(PREFIX)]

    return run


def table(lines: list[str]) -> dict[str, tuple[int, int, int]]:
    """The summary: rule -> matched, added, removed."""
    rows = lines[lines.index("Summary:") + 3:]
    return {row[:26].strip(): tuple(int(cell) for cell in row[26:].strip(" |").split("|")) for row in rows}


def own_line(lines: list[str], rule: str) -> str:
    return next(line for line in lines if re.fullmatch(rf"  {rule} *: .*", line)).split(": ", 1)[1]


def count_change(lines: list[str], stage: str) -> tuple[int, int]:
    """Nodes before and after a stage that tells them."""
    before, after, change = re.fullmatch(rf"  {stage}: (\d+) → (\d+) nodes \(([+-]\d+)\)", next(l for l in lines if l.startswith(f"  {stage}: "))).groups()
    assert int(after) - int(before) == int(change)
    return int(before), int(after)


@pytest.fixture(scope="module")
def cuda(trace):
    return trace("cuda", "f16")[0]


def test_names_target_and_stages(cuda):
    stages = [line for line in cuda if not line.startswith("  ")]
    assert stages[0] == "Target: cuda, dtype: FLOAT16, role: decoder"
    patterns = [r"Stage 1: Cleanup \(\d+ passes\)", r"Stage 2: Fusion \(\d+ rule groups\)", r"Stage 2b: InlinePass \(expand unsupported custom ops\)",
                r"Stage 3: Lowering \(\d+ rule groups for cuda\)", r"Stage 4: Constant folding", r"Summary:"]
    assert len(stages) == 1 + len(patterns), stages
    for line, pattern in zip(stages[1:], patterns):
        assert re.fullmatch(pattern, line)


def test_counts_the_groups_that_follow(cuda):
    for stage in ("Stage 2", "Stage 3"):
        head = next(i for i, line in enumerate(cuda) if line.startswith(stage + ":"))
        stated = int(re.search(r"\((\d+) rule groups", cuda[head])[1])
        behind = next(i for i in range(head + 1, len(cuda)) if not cuda[i].startswith("  "))
        assert stated == behind - head - 1


def test_lays_out_lines_as_specified(cuda):
    assert any(line.startswith("  GQAFusion                 : ") for line in cuda)
    assert "  InlinePass                : no matches (0 nodes affected)" in cuda
    start = cuda.index("Summary:")
    assert cuda[start + 1:start + 3] == ["  Rule                      | Matched | +Nodes | -Nodes", "  " + DASHES]
    for row in cuda[start + 3:]:
        assert re.fullmatch(r"  (\w+) *\| +\d+ \| +\d+ \| +\d+", row) and [i for i, c in enumerate(row) if c == "|"] == [28, 38, 47], row


def test_a_decoder_of_28_layers_has_56_skip_norms_and_28_attentions(cuda):
    rows = table(cuda)
    assert rows["GQAFusion"][0] == 28
    assert rows["PackQKV"][0] == 28
    # 28 before the MLPs, 27 across layers, 1 at the final norm: the very first one has no residual before it.
    assert rows["SkipNorm"] == (56, 56, 112)
    assert own_line(cuda, "SkipNorm") == "+56 SkipSimplifiedLayerNormalization, -56 Add, -56 RMSNormalization"
    assert "+28 GroupQueryAttention" in own_line(cuda, "GQAFusion") and "-28 Attention" in own_line(cuda, "GQAFusion")
    assert own_line(cuda, "PackQKV") == "+28 Concat, -56 FusedMatMul"


@pytest.mark.parametrize("ep,dtype", [("default", "f32"), ("cpu", "f32"), ("cuda", "f16"), ("dml", "f16"), ("webgpu", "f32"), ("mlx", "bf16"),
                                      ("trt-rtx", "f16"), ("onnx-standard", "f32"), ("openvino", "f32"), ("qnn", "f32")])
def test_node_counts_add_up(trace, ep, dtype):
    lines = trace(ep, dtype)[0]
    nodes = count_change(lines, "Cleanup")[1]
    for rule, (matched, added, removed) in table(lines).items():
        nodes += added - removed
        changes = {op: int(n) for n, op in re.findall(r"([+-]\d+) (\w+)", own_line(lines, rule))}
        if own_line(lines, rule).startswith("no matches"):
            assert (matched, added, removed) == (0, 0, 0), rule
        else:
            assert matched > 0 and sum(changes.values()) == added - removed, rule
    assert nodes == count_change(lines, "Fold")[0]


def test_says_why_the_nearest_place_did_not_match(trace):
    lines, others = trace("cuda", "f16", head_dim=12)
    assert own_line(lines, "GQAFusion") == \
        "no matches (0 nodes affected); nearest: model.layers.0.self_attn/Attention: the head size 12 is no multiple of 8"
    assert others == ["mobius: warning: GQA fusion expected for ep='cuda'/dtype=FLOAT16 but found 0 GroupQueryAttention and 28 Attention nodes. The model "
                      "may run slower than expected on this EP. Check that the attention pattern matches the GQA rewrite rule."]


def test_warns_only_where_fusion_was_expected(trace):
    assert trace("cuda", "f16")[1] == []
    assert trace("cuda", "f32", head_dim=12)[1] == []  # no kernel for this dtype anyway
    assert trace("default", "f16", head_dim=12)[1] == []


def test_an_unknown_ep_is_refused_with_the_known_ones(mobius, tmp_path):
    folder = make_checkpoint(tmp_path / "model", config(num_hidden_layers=1))
    result = mobius("build", folder, "-o", tmp_path / "out", "--ep", "rocm", "--no-weights")
    assert result.returncode == 2
    known = [ep["name"] for ep in execution_providers("f16")]
    assert f"found 'rocm', expected {', '.join(known[:-1])} or {known[-1]}" in result.stderr
    assert not (tmp_path / "out").exists()
