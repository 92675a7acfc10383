"""Graphs made to mislead the optimiser: equal names around subgraphs, numbers at the ends of their types, masks that change far out. Numbers stay."""
import numpy as np
import onnx
import onnxruntime
import pytest

RNG = np.random.default_rng(5)


def run(path, feeds: dict) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.graph_optimization_level = 4, onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"]).run(None, feeds)


def optimized(mobius, tmp_path, model: onnx.ModelProto, ep: str):
    """The paths of the model and of what became of it."""
    old, new = tmp_path / "old.onnx", tmp_path / "new.onnx"
    onnx.save(model, old)
    done = mobius("optimize", old, new, "--ep", ep)
    assert done.returncode == 0, done.stderr
    onnx.checker.check_model(new)
    return old, new


def model_of(graph: str, **tensors: np.ndarray) -> onnx.ModelProto:
    model = onnx.parser.parse_model(f'<ir_version: 11, opset_import: ["": 24]> {graph}')
    model.graph.initializer.extend(onnx.numpy_helper.from_array(value, name) for name, value in tensors.items())
    return model


# ── names ────────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("ep", ["cpu", "onnx-standard"])
@pytest.mark.parametrize("outside", ["k.Transpose", "RMSNormalization", "RMSNormalization_1"])
def test_what_is_made_in_a_subgraph_takes_no_name_from_outside(mobius, tmp_path, ep, outside):
    """A folded Transpose is named after its weight, a fused norm after its operator: those names may be taken, by what the subgraph reads."""
    model = model_of("""g (float[2,2] x, bool c) => (float[2,2] y) <int64[1] last = {-1}, float two = {2}, float eps = {0.001}, float[2] w = {3, 4}> { outside = Neg(x)
        y = If(c) <then_branch = t () => (u) { a = Transpose(k) b = Add(a, outside) d = Pow(b, two) e = ReduceMean(d, last) f = Add(e, eps) h = Sqrt(f) i = Div(b, h)
                                               j = Mul(i, w) u = Add(j, outside) }, else_branch = e () => (v) { v = Neg(x) }> }""",
                     k=np.array([[1, 2], [3, 4]], np.float32))
    model.graph.node[0].output[0] = outside
    for node in model.graph.node[1].attribute[0].g.node:
        node.input[:] = [outside if name == "outside" else name for name in node.input]
    old, new = optimized(mobius, tmp_path, model, ep)
    feeds = {"x": RNG.normal(size=(2, 2)).astype(np.float32), "c": np.array(True)}
    np.testing.assert_allclose(run(new, feeds)[0], run(old, feeds)[0], rtol=1e-5)


def test_results_of_a_subgraph_keep_what_is_stated_of_them(mobius, tmp_path):
    """Whoever can't infer them needs it: here what a function returns."""
    model = onnx.parser.parse_model("""<ir_version: 11, opset_import: ["": 24, "l": 1]> g (float[2,8] x, bool c) => (float[2,8] y)
        { y = If(c) <then_branch = t () => (float[2,8] u) { a = l.F(x) u = Identity(a) }, else_branch = e () => (float[2,8] v) { v = Neg(x) }> }
        <domain: "l", opset_import: ["": 24]> F (a) => (b) { b = Neg(a) }""")
    _, new = optimized(mobius, tmp_path, model, "cpu")
    branch = next(a.g for a in onnx.load(new).graph.node[0].attribute if a.name == "then_branch")
    assert [n.op_type for n in branch.node] == ["F"]
    assert [d.dim_value for d in branch.output[0].type.tensor_type.shape.dim] == [2, 8]


# ── constants ────────────────────────────────────────────────────────────────────────────────────────────────────────────

LARGE = [(2**63 - 1, 1), (-(2**63), -1), (2**62, 4), (2**53 + 1, 1), (2**63 - 1, 2**63 - 1), (7, -2), (-7, 2)]


@pytest.mark.parametrize("ep", ["cpu", "qnn"])
@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Max", "Min", "Div", "Mod", "Pow"])
@pytest.mark.parametrize("a, b", LARGE)
def test_integers_are_folded_where_that_is_exact(mobius, tmp_path, ep, op, a, b):
    """Of 64 bits, and cut to 32: what stands at the ends of a type wraps as the runtime has it."""
    model = model_of(f"""g (int64[1] x, int32[1] z) => (y, v) <int64[1] a = {{{a}}}, int64[1] b = {{{b}}}> {{ c = {op}(a, b) y = Add(c, x)
        d = Cast<to = 6>(a) e = Cast<to = 6>(b) f = Max(d, e) h = Mul(d, e) i = Add(f, h) v = Add(i, z) }}""")
    old, new = optimized(mobius, tmp_path, model, ep)
    if (a, op) in ((-(2**63), "Div"), (-(2**63), "Mod")):
        return  # the quotient is beyond the type: not even the runtime survives it
    feeds = {"x": np.array([1]), "z": np.array([1], np.int32)}
    for found, want in zip(run(new, feeds), run(old, feeds), strict=True):
        np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize("to", [2, 3, 5, 6, 7, 12, 13])
@pytest.mark.parametrize("number", [np.nan, np.inf, 3e9, -3e9, 1e20, -1.0, 300.0, -2.5])
def test_floats_beyond_an_integer_type_are_left_to_the_runtime(mobius, tmp_path, to, number):
    model = model_of(f"g (int64[1] x) => (y) {{ a = Cast<to = {to}>(k) b = Cast<to = 7>(a) y = Add(b, x) }}", k=np.array([number], np.float32))
    old, new = optimized(mobius, tmp_path, model, "cpu")
    np.testing.assert_array_equal(run(new, {"x": np.array([1])})[0], run(old, {"x": np.array([1])})[0])


def test_a_division_by_zero_is_for_the_runtime_to_say(mobius, tmp_path):
    model = model_of("""g (int64[1] x, bool c) => (y) <int64[1] a = {5}, int64[1] zero = {0}>
        { y = If(c) <then_branch = t () => (u) { q = Mod(a, zero) r = Div(a, zero) s = Add(q, r) u = Add(s, x) }, else_branch = e () => (v) { v = Neg(x) }> }""")
    old, new = optimized(mobius, tmp_path, model, "cpu")
    for path in (old, new):
        branches = {a.name: [n.op_type for n in a.g.node] for a in onnx.load(path).graph.node[0].attribute}
        assert branches["then_branch"] == ["Mod", "Div", "Add", "Add"]


# ── patterns ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("ep", ["onnx-standard", "qnn", "dml"])
@pytest.mark.parametrize("shape, bias, parts", [
    ([3, 4], 4, [1, 3]), ([3, 4], 4, [1, 1, 1, 1]), ([3, 4], 4, [1, 1, 2]), ([3, 1], 4, [1, 1, 2]), ([3, 4], 1, [1, 1, 2]), ([3, 4, 5], 5, [1, 1, 2]),
    ([3, 4, 4], 4, [1, 1, 2]),
])
def test_a_cut_that_is_none_of_queries_keys_and_values_stays(mobius, tmp_path, ep, shape, bias, parts):
    """A Split goes up through bias and product where those were packed: not for other parts, axes and broadcasts."""
    names = ", ".join(f"p{i}" for i in range(len(parts)))
    model = model_of(f"""g (float[B,{",".join(map(str, shape))}] x) => ({names}, {names.replace("p", "q")})
        {{ a = Neg(x) s = Add(a, b) {names} = Split<axis = 2>(s, parts) t = MatMul(a, w) {names.replace("p", "q")} = Split<axis = 2>(t, of_product) }}""",
                     b=RNG.normal(size=bias).astype(np.float32), w=RNG.normal(size=(shape[-1], shape[-1] if len(shape) > 2 else 4)).astype(np.float32),
                     parts=np.array(parts), of_product=np.array(parts))
    old, new = optimized(mobius, tmp_path, model, ep)
    feeds = {"x": RNG.normal(size=[2] + shape).astype(np.float32)}
    for found, want in zip(run(new, feeds), run(old, feeds), strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-6)


# ── functions ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def functions_of_functions(levels: int) -> onnx.ModelProto:
    """Each calls the one below three times."""
    bodies = [f'<domain: "l", opset_import: ["": 24, "l": 1]> F{i} (a) => (d) {{ b = l.F{i - 1}(a) c = l.F{i - 1}(b) d = l.F{i - 1}(c) }}' for i in range(1, levels + 1)]
    return onnx.parser.parse_model(f"""<ir_version: 11, opset_import: ["": 24, "l": 1]> g (float[2] x) => (float[2] y) {{ y = l.F{levels}(x) }}
        <domain: "l", opset_import: ["": 24]> F0 (a) => (b) {{ b = Neg(a) }}""" + "\n".join(bodies))


def test_functions_that_grow_without_end_are_refused_where_they_would_be_expanded(mobius, tmp_path):
    onnx.save(functions_of_functions(24), tmp_path / "in.onnx")
    assert mobius("optimize", tmp_path / "in.onnx", tmp_path / "kept.onnx", "--ep", "cpu").returncode == 0
    assert len(onnx.load(tmp_path / "kept.onnx").functions) == 25
    refused = mobius("optimize", tmp_path / "in.onnx", tmp_path / "out.onnx", "--ep", "onnx-standard")
    assert refused.returncode == 1 and "calls of functions would have to be expanded" in refused.stderr and not (tmp_path / "out.onnx").exists()


def test_functions_of_functions_are_expanded(mobius, tmp_path):
    old, new = optimized(mobius, tmp_path, functions_of_functions(3), "onnx-standard")
    feeds = {"x": RNG.normal(size=2).astype(np.float32)}
    np.testing.assert_array_equal(run(new, feeds)[0], run(old, feeds)[0])
    assert not onnx.load(new).functions


# ── nothing to compute ───────────────────────────────────────────────────────────────────────────────────────────────────

ROWS_COME_BACK = """g (float[B,S,2,2] x) => (y) <int64[2] flat = {-1, 4}, int64[1] four = {4}, float[4] b = {1, 2, 3, 4}>
    { a = Reshape(x, flat) p = Gemm(a, w, b) s = Shape<start = 0, end = 2>(x) t = Concat<axis = 0>(s, four) y = Reshape<allowzero = 1>(p, t) }"""
TIED = "g (float[B,S,2,4] x, int64[N] ids) => (y, e) { t = Transpose<perm = [1, 0]>(w) y = MatMul(x, t) e = Gather(w, ids) }"


@pytest.mark.parametrize("ep", ["cpu", "default", "onnx-standard", "qnn", "webgpu"])
@pytest.mark.parametrize("graph, rest", [(ROWS_COME_BACK, (2, 2)), (TIED, (2, 4))])
def test_products_of_no_rows_are_none(mobius, tmp_path, ep, graph, rest):
    old, new = optimized(mobius, tmp_path, model_of(graph, w=RNG.normal(size=(4, 4)).astype(np.float32)), ep)
    # (TiedHead restores rows by their sizes: there 0 means "as before" in all but the first.)
    for rows in ((0, 3), (2, 0), (2, 3))[:: 2 if graph is TIED else 1]:
        feeds = {"x": RNG.normal(size=rows + rest).astype(np.float32)} | ({"ids": np.arange(3)} if graph is TIED else {})
        for found, want in zip(run(new, feeds), run(old, feeds), strict=True):
            np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-6)


# ── masks ────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def decoder(mask: str, inits: str = "", **tensors: np.ndarray) -> onnx.ModelProto:
    return model_of(f"""g (float[B,S,16] q, float[B,S,8] k, float[B,S,8] v, float[B,1,P,8] past_k, float[B,1,P,8] past_v, int64[B,T] attention_mask) => (y, present_k, present_v)
        <int64[1] zero = {{0}}, int64[1] one = {{1}}, int64[2] ax01 = {{0, 1}}, int64[2] ax12 = {{1, 2}}, int64 i0 = {{0}}, int64 i1 = {{1}}, float nothing = {{0}},
         float lowest = {{-3.4e38}} {inits}> {{
        past = Shape<start = 2, end = 3>(past_k) new = Shape<start = 1, end = 2>(q) total = Add(past, new) t0 = Squeeze(total) p0 = Squeeze(past)
        key = Range(i0, t0, i1) own = Range(p0, t0, i1) query = Unsqueeze(own, one) causal = LessOrEqual(key, query) distance = Sub(query, key)
        tokens_2 = Cast<to = 9>(attention_mask) tokens = Unsqueeze(tokens_2, ax12)
        {mask}
        y, present_k, present_v = Attention<q_num_heads = 2, kv_num_heads = 1>(q, k, v, mask, past_k, past_v) }}""", **tensors)


def same_on(old, new, total: int):
    """A prompt, then one token more, then three."""
    for past, length in ((0, total), (total - 1, 1), (total - 3, 3)):
        feeds = {"q": RNG.normal(size=(1, length, 16)), "k": RNG.normal(size=(1, length, 8)), "v": RNG.normal(size=(1, length, 8)),
                 "past_k": RNG.normal(size=(1, 1, past, 8)), "past_v": RNG.normal(size=(1, 1, past, 8))}
        feeds = {name: value.astype(np.float32) for name, value in feeds.items()} | {"attention_mask": np.ones((1, past + length), np.int64)}
        np.testing.assert_allclose(run(new, feeds)[0], run(old, feeds)[0], rtol=1e-4, atol=1e-5)


def is_fused(path) -> bool:
    return any(n.op_type == "GroupQueryAttention" for n in onnx.load(path).graph.node)


READS_TABLE = {
    "sliced": "a = Slice(table, past, total, zero) b = Slice(a, zero, total, one) seen = Unsqueeze(b, ax01) mask = And(seen, tokens)",
    "gathered": "rows = Gather<axis = 0>(table, own) b = Gather<axis = 1>(rows, key) seen = Unsqueeze(b, ax01) mask = And(seen, tokens)",
    "added": """a = Slice(table, past, total, zero) b = Slice(a, zero, total, one) c = Unsqueeze(b, ax01) seen = Where(c, nothing, lowest)
                padding = Where(tokens, nothing, lowest) mask = Add(seen, padding)""",
}


@pytest.mark.parametrize("window, length", [(40, 64), (64, 65), (200, 300)])
@pytest.mark.parametrize("how", READS_TABLE)
def test_a_window_in_a_table_is_seen(mobius, tmp_path, how, window, length):
    """GPT-Neo keeps its local layers' mask as a table of all positions."""
    i, j = np.indices((length, length))
    old, new = optimized(mobius, tmp_path, decoder(READS_TABLE[how], table=(j <= i) & (i - j < window)), "cpu")
    assert is_fused(new)
    same_on(old, new, length)


@pytest.mark.parametrize("hole", [(50, 20), (63, 0), (7, 7)])
def test_a_hole_in_a_table_is_seen(mobius, tmp_path, hole):
    table = np.tril(np.ones((64, 64), bool))
    table[hole] = False
    old, new = optimized(mobius, tmp_path, decoder(READS_TABLE["sliced"], table=table), "cpu")
    same_on(old, new, 64)


@pytest.mark.parametrize("factor, limit, window", [(0.5, 20.5, 41), (0.015625, 0.9, 58), (1.0, 33.25, 34), (1 / 4096, 1.0, 4096)])
def test_a_window_of_fractions_is_measured(mobius, tmp_path, factor, limit, window):
    mask = "d = Cast<to = 1>(distance) e = Mul(d, factor) near = Less(e, limit) f = And(near, causal) seen = Unsqueeze(f, ax01) mask = And(seen, tokens)"
    old, new = optimized(mobius, tmp_path, decoder(mask, f", float factor = {{{factor}}}, float limit = {{{limit}}}"), "cpu")
    assert is_fused(new)
    same_on(old, new, window + 9)


CHUNKS = {  # of 4096
    "shifted": """qu = Cast<to = 13>(query) ku = Cast<to = 13>(key) a = BitShift<direction = "RIGHT">(qu, twelve) b = BitShift<direction = "RIGHT">(ku, twelve)
                  same = Equal(a, b) f = And(same, causal) seen = Unsqueeze(f, ax01) mask = And(seen, tokens)""",
    "rounded": """qf = Cast<to = 1>(query) kf = Cast<to = 1>(key) qs = Mul(qf, part) ks = Mul(kf, part) a = Floor(qs) b = Floor(ks)
                  same = Equal(a, b) f = And(same, causal) seen = Unsqueeze(f, ax01) mask = And(seen, tokens)""",
}


@pytest.mark.parametrize("how", CHUNKS)
def test_chunks_far_out_are_seen(mobius, tmp_path, how):
    """No number of the graph tells how long they are."""
    old, new = optimized(mobius, tmp_path, decoder(CHUNKS[how], ", uint64 twelve = {12}, float part = {0.000244140625}"), "cpu")
    same_on(old, new, 4100)


@pytest.mark.parametrize("mask", [
    "strict = Less(key, query) seen = Unsqueeze(strict, ax01) mask = And(seen, tokens)",  # the first token sees nothing
    "late = GreaterOrEqual(query, far) all = Or(causal, late) seen = Unsqueeze(all, ax01) mask = And(seen, tokens)",  # from 40 on, tokens look ahead
])
def test_what_the_kernel_cannot_be_told_stays(mobius, tmp_path, mask):
    old, new = optimized(mobius, tmp_path, decoder(mask, ", int64 far = {40}"), "cpu")
    same_on(old, new, 48)
