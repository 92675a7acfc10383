"""Writes the graphs of this folder, in ONNX's textual syntax: python make_graphs.py

Two layers each of phi3, gpt2, gemma2 and BERT at opset 24, with the mask, cache and norms as our components write them and what is their
own as exporters do: phi3's fused projections, gpt2's weights as [in, out], gemma2's soft-caps and windows, BERT's erf chain. Weights are
declared by type and shape alone. structure.txt, which tells what becomes of them, is not written here but by package_test.
"""
import pathlib

HERE = pathlib.Path(__file__).parent
HIDDEN, HEADS, HEAD, FFN, VOCAB, LAYERS, POSITIONS = 64, 4, 16, 112, 160, 2, 96
IDS, MASK, PAST = "int64[batch,sequence_len]", "int64[batch,\"past_sequence_len + sequence_len\"]", "past_sequence_len"


class Writer:
    def __init__(self, name: str, about: str):
        self.name, self.about = name, about
        self.inputs, self.outputs, self.values, self.nodes = [], [], [], []
        self.counts: dict = {}

    def input(self, type_: str, name: str) -> str:
        self.inputs.append(f'{type_} "{name}"')
        return name

    def output(self, type_: str, name: str, value: str) -> None:
        """`value` gets this name, which only works for what was made just now."""
        self.outputs.append(f'{type_} "{name}"')
        self.nodes = [line.replace(f'"{value}"', f'"{name}"') for line in self.nodes]

    def weight(self, name: str, *dims: int) -> str:
        return self._value(f"float[{','.join(map(str, dims))}]", name)

    def number(self, value, type_: str = "float") -> str:
        return self._value(type_, f"{type_}_{value}".replace("-", "minus_"), f" = {{{value}}}")

    def integers(self, *values: int) -> str:
        return self._value(f"int64[{len(values)}]", "integers_" + "_".join(map(str, values)).replace("-", "minus_"), f" = {{{','.join(map(str, values))}}}")

    def _value(self, type_: str, name: str, data: str = "") -> str:
        line = f'{type_} "{name}"{data}'
        if line not in self.values:
            self.values.append(line)
        return name

    def op(self, scope: str, op: str, *inputs: str, results: int = 1, **attributes):
        number = self.counts[scope, op] = self.counts.get((scope, op), -1) + 1
        name = f"{scope}/{op}" + (f"_{number}" if number else "")
        names = [name] + [f"{name}:{i}" for i in range(1, results)]
        text = ", ".join(f"{key} = {self._attribute(value)}" for key, value in attributes.items())
        quoted = lambda names: ", ".join(f'"{n}"' for n in names)
        self.nodes.append(f'   ["{name}"] {quoted(names)} = {op}{f" <{text}> " if text else " "}({quoted(inputs)})')
        return name if results == 1 else names

    @staticmethod
    def _attribute(value) -> str:
        return f'"{value}"' if isinstance(value, str) else f"[{', '.join(map(str, value))}]" if isinstance(value, list) else str(value)

    def save(self) -> None:
        assert self.inputs and self.outputs
        parts = ["<\n   ir_version: 11,\n   opset_import: [\"\" : 24],\n   doc_string: \"" + self.about + "\"\n>",
                 f"{self.name} (" + ",\n   ".join(self.inputs) + ")\n=> (" + ",\n   ".join(self.outputs) + ")",
                 "<" + ",\n   ".join(self.values) + ">", "{", *self.nodes, "}"]
        (HERE / f"{self.name}.txt").write_text("\n".join(parts) + "\n")


class Decoder(Writer):
    """The parts of our components: Linear, norms, the decoder's mask, rope and cache."""

    def __init__(self, name: str, about: str, kv_heads: int, head: int = HEAD):
        super().__init__(name, about)
        self.kv_heads, self.head = kv_heads, head
        self.ids, self.mask = self.input(IDS, "input_ids"), self.input(MASK, "attention_mask")
        self.positions = self.input(IDS, "position_ids")
        self.presents: list = []
        self.ordinals: tuple | None = None
        self.masks: dict = {}

    def linear(self, scope: str, x: str, n_in: int, n_out: int, bias: bool = False) -> str:
        y = self.op(scope, "MatMul", x, self.op(scope, "Transpose", self.weight(f"{scope}.weight", n_out, n_in), perm=[1, 0]))
        return self.op(scope, "Add", y, self.weight(f"{scope}.bias", n_out)) if bias else y

    def rms_norm(self, scope: str, x: str, epsilon: float) -> str:
        return self.op(scope, "RMSNormalization", x, self.weight(f"{scope}.weight", HIDDEN), epsilon=epsilon)

    def layer_norm(self, scope: str, x: str, epsilon: float) -> str:
        return self.op(scope, "LayerNormalization", x, self.weight(f"{scope}.weight", HIDDEN), self.weight(f"{scope}.bias", HIDDEN), axis=-1, epsilon=epsilon)

    def visible(self, window: int | None = None) -> str:
        s = "attention_mask"
        if self.ordinals is None:
            count = self.op(s, "CumSum", self.mask, self.number(1, "int64"))
            key = self.op(s, "Where", self.op(s, "Cast", self.mask, to=9), count, self.number(2147483647, "int64"))
            new = self.op(s, "Neg", self.op(s, "Shape", self.ids, start=1, end=2))
            recent = self.op(s, "Slice", count, new, self.integers(9223372036854775807), self.integers(1))
            query = self.op(s, "Max", recent, self.number(1, "int64"))
            self.ordinals = self.op(s, "Unsqueeze", key, self.integers(1, 2)), self.op(s, "Unsqueeze", query, self.integers(1, 3))
        if window not in self.masks:
            key, query = self.ordinals
            seen = self.op(s, "LessOrEqual", key, query)
            if window:
                seen = self.op(s, "And", seen, self.op(s, "Greater", key, self.op(s, "Sub", query, self.number(window, "int64"))))
            self.masks[window] = seen
        return self.masks[window]

    def rope(self, scope: str, x: str, heads: int) -> str:
        cos, sin = (self.weight(f"rotary_emb.{table}_cache", POSITIONS, self.head // 2) for table in ("cos", "sin"))
        return self.op(scope, "RotaryEmbedding", x, cos, sin, self.positions, num_heads=heads)

    def attend(self, scope: str, q: str, k: str, v: str, window: int | None = None, **attributes) -> str:
        i = len(self.presents)
        cache = f"float[batch,{self.kv_heads},{PAST},{self.head}]"
        past = [self.input(cache, f"past_key_values.{i}.{part}") for part in ("key", "value")]
        y, *present = self.op(scope, "Attention", q, k, v, self.visible(window), *past, results=3, q_num_heads=HEADS, kv_num_heads=self.kv_heads, **attributes)
        self.presents.append(present)
        return y

    def finish(self, logits: str) -> None:
        self.output(f"float[batch,sequence_len,{VOCAB}]", "logits", logits)
        for i, present in enumerate(self.presents):
            for part, value in zip(("key", "value"), present):
                self.output(f'float[batch,{self.kv_heads},"{PAST} + sequence_len",{self.head}]', f"present.{i}.{part}", value)
        self.save()


def phi3() -> None:
    g = Decoder("phi3_exported", "Phi-3: fused projections that Split takes apart, a window, a gated MLP with SiLU", kv_heads=2)
    x = g.op("model.embed_tokens", "Gather", g.weight("model.embed_tokens.weight", VOCAB, HIDDEN), g.ids, axis=0)
    for i in range(LAYERS):
        s = f"model.layers.{i}"
        h = g.rms_norm(f"{s}.input_layernorm", x, 1e-5)
        qkv = g.linear(f"{s}.self_attn.qkv_proj", h, HIDDEN, (HEADS + 4) * HEAD)
        q, k, v = g.op(f"{s}.self_attn", "Split", qkv, g.integers(HEADS * HEAD, 2 * HEAD, 2 * HEAD), results=3, axis=-1)
        y = g.attend(f"{s}.self_attn", g.rope(f"{s}.self_attn", q, HEADS), g.rope(f"{s}.self_attn", k, 2), v, window=8)
        x = g.op(s, "Add", x, g.linear(f"{s}.self_attn.o_proj", y, HIDDEN, HIDDEN))
        h = g.rms_norm(f"{s}.post_attention_layernorm", x, 1e-5)
        gate, up = g.op(f"{s}.mlp", "Split", g.linear(f"{s}.mlp.gate_up_proj", h, HIDDEN, 2 * FFN), results=2, axis=-1, num_outputs=2)
        h = g.op(f"{s}.mlp", "Mul", up, g.op(f"{s}.mlp", "Mul", gate, g.op(f"{s}.mlp", "Sigmoid", gate)))
        x = g.op(s, "Add", x, g.linear(f"{s}.mlp.down_proj", h, FFN, HIDDEN))
    g.finish(g.linear("lm_head", g.rms_norm("model.norm", x, 1e-5), HIDDEN, VOCAB))


def gpt2() -> None:
    g = Decoder("gpt2", "GPT-2: learned positions, LayerNorm, weights as [in, out], gelu_new, a tied head", kv_heads=HEADS)
    conv = lambda scope, x, n_in, n_out: g.op(scope, "Add", g.op(scope, "MatMul", x, g.weight(f"{scope}.weight", n_in, n_out)), g.weight(f"{scope}.bias", n_out))
    words = g.weight("transformer.wte.weight", VOCAB, HIDDEN)
    x = g.op("transformer", "Add", g.op("transformer.wte", "Gather", words, g.ids, axis=0),
             g.op("transformer.wpe", "Gather", g.weight("transformer.wpe.weight", POSITIONS, HIDDEN), g.positions, axis=0))
    for i in range(LAYERS):
        s = f"transformer.h.{i}"
        h = g.layer_norm(f"{s}.ln_1", x, 1e-5)
        q, k, v = (conv(f"{s}.attn.c_attn_{part}", h, HIDDEN, HIDDEN) for part in "qkv")
        x = g.op(s, "Add", x, conv(f"{s}.attn.c_proj", g.attend(f"{s}.attn", q, k, v), HIDDEN, HIDDEN))
        h = conv(f"{s}.mlp.c_fc", g.layer_norm(f"{s}.ln_2", x, 1e-5), HIDDEN, 4 * HIDDEN)
        x = g.op(s, "Add", x, conv(f"{s}.mlp.c_proj", g.op(f"{s}.mlp", "Gelu", h, approximate="tanh"), 4 * HIDDEN, HIDDEN))
    h = g.layer_norm("transformer.ln_f", x, 1e-5)
    g.finish(g.op("lm_head", "MatMul", h, g.op("lm_head", "Transpose", words, perm=[1, 0])))


def gemma2() -> None:
    g = Decoder("gemma2", "Gemma 2: norms before and after, soft-caps, every other layer with a window, GeGLU, a tied and capped head", kv_heads=2)
    words = g.weight("model.embed_tokens.weight", VOCAB, HIDDEN)
    x = g.op("model", "Mul", g.op("model.embed_tokens", "Gather", words, g.ids, axis=0), g.number(8.0))
    for i in range(LAYERS):
        s = f"model.layers.{i}"
        h = g.rms_norm(f"{s}.input_layernorm", x, 1e-6)
        q, k, v = (g.linear(f"{s}.self_attn.{part}_proj", h, HIDDEN, heads * HEAD) for part, heads in (("q", HEADS), ("k", 2), ("v", 2)))
        y = g.attend(f"{s}.self_attn", g.rope(f"{s}.self_attn", q, HEADS), g.rope(f"{s}.self_attn", k, 2), v, window=None if i % 2 else 8, scale=0.125, softcap=50.0)
        h = g.rms_norm(f"{s}.post_attention_layernorm", g.linear(f"{s}.self_attn.o_proj", y, HIDDEN, HIDDEN), 1e-6)
        x = g.op(s, "Add", x, h)
        h = g.rms_norm(f"{s}.pre_feedforward_layernorm", x, 1e-6)
        gate = g.op(f"{s}.mlp", "Gelu", g.linear(f"{s}.mlp.gate_proj", h, HIDDEN, FFN), approximate="tanh")
        h = g.op(f"{s}.mlp", "Mul", gate, g.linear(f"{s}.mlp.up_proj", h, HIDDEN, FFN))
        x = g.op(s, "Add", x, g.rms_norm(f"{s}.post_feedforward_layernorm", g.linear(f"{s}.mlp.down_proj", h, FFN, HIDDEN), 1e-6))
    h = g.op("lm_head", "MatMul", g.rms_norm("model.norm", x, 1e-6), g.op("lm_head", "Transpose", words, perm=[1, 0]))
    capped = g.op("lm_head", "Tanh", g.op("lm_head", "Div", h, g.number(30.0)))
    g.finish(g.op("lm_head", "Mul", capped, g.number(30.0)))


def bert() -> None:
    g = Writer("bert", "BERT: a padding mask, no cache, LayerNorm behind each sum, the erf form of GELU written out")
    ids, mask, kinds = (g.input(IDS, name) for name in ("input_ids", "attention_mask", "token_type_ids"))
    part = Decoder.linear
    norm = lambda scope, x: Decoder.layer_norm(g, scope, x, 1e-12)
    s = "bert.embeddings"
    words = g.op(f"{s}.word_embeddings", "Gather", g.weight(f"{s}.word_embeddings.weight", VOCAB, HIDDEN), ids, axis=0)
    types = g.op(f"{s}.token_type_embeddings", "Gather", g.weight(f"{s}.token_type_embeddings.weight", 2, HIDDEN), kinds, axis=0)
    length = g.op(s, "Shape", ids, start=1, end=2)
    numbers = g.op(s, "Range", g.number(0, "int64"), g.op(s, "Squeeze", length, g.integers(0)), g.number(1, "int64"))
    places = g.op(f"{s}.position_embeddings", "Gather", g.weight(f"{s}.position_embeddings.weight", POSITIONS, HIDDEN), numbers, axis=0)
    x = norm(f"{s}.LayerNorm", g.op(s, "Add", g.op(s, "Add", words, types), places))
    seen = g.op("attention_mask", "Unsqueeze", g.op("attention_mask", "Cast", mask, to=9), g.integers(1, 2))
    square = g.op("attention_mask", "Concat", g.op("attention_mask", "Shape", ids, start=0, end=1), g.integers(1), length, length, axis=0)
    seen = g.op("attention_mask", "Expand", seen, square)
    for i in range(LAYERS):
        s = f"bert.encoder.layer.{i}"
        q, k, v = (part(g, f"{s}.attention.self.{name}", x, HIDDEN, HIDDEN, True) for name in ("query", "key", "value"))
        y = g.op(f"{s}.attention.self", "Attention", q, k, v, seen, q_num_heads=HEADS, kv_num_heads=HEADS)
        x = norm(f"{s}.attention.output.LayerNorm", g.op(f"{s}.attention.output", "Add", part(g, f"{s}.attention.output.dense", y, HIDDEN, HIDDEN, True), x))
        h, a = part(g, f"{s}.intermediate.dense", x, HIDDEN, FFN, True), f"{s}.intermediate"
        erf = g.op(a, "Add", g.op(a, "Erf", g.op(a, "Div", h, g.number(1.4142135381698608))), g.number(1.0))
        h = g.op(a, "Mul", g.op(a, "Mul", h, erf), g.number(0.5))
        x = norm(f"{s}.output.LayerNorm", g.op(f"{s}.output", "Add", part(g, f"{s}.output.dense", h, FFN, HIDDEN, True), x))
    g.output(f"float[batch,sequence_len,{HIDDEN}]", "last_hidden_state", x)
    g.save()


for make in (phi3, gpt2, gemma2, bert):
    make()
