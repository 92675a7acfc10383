"""The parts that decoders are made of, each as a small module with inputs of its own, as model code writes them.

One export of all of them (fixtures pieces.*) shows how an exporter writes each part; output NAME depends on the inputs
NAME.0, NAME.1, ... only. The model code is transformers' where it has the part, so that the chains are real ones.
"""
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from transformers.activations import ACT2FN
from transformers.models.cohere.modeling_cohere import apply_rotary_pos_emb as rotate_pairs_of_cohere
from transformers.models.gemma.modeling_gemma import GemmaRMSNorm
from transformers.models.gptj.modeling_gptj import apply_rotary_pos_emb as rotate_pairs_of_gptj
from transformers.models.llama.modeling_llama import LlamaRMSNorm, apply_rotary_pos_emb, repeat_kv
from transformers.models.t5.modeling_t5 import T5LayerNorm

HIDDEN, INNER, HEADS, GROUPS, DEPTH, BATCH, SEQUENCE, TOTAL = 16, 24, 4, 2, 8, 2, 5, 7
X = ("batch", "sequence", HIDDEN)
Q, K = ("batch", HEADS, "sequence", DEPTH), ("batch", HEADS, "total", DEPTH)
KV = ("batch", GROUPS, "total", DEPTH)
ANGLES, HALF_ANGLES = ("batch", "sequence", DEPTH), ("batch", "sequence", DEPTH // 2)
MASK = ("batch", 1, "sequence", "total")
SIZES = {"batch": BATCH, "sequence": SEQUENCE, "total": TOTAL}


class AfterLinear(nn.Module):
    """An activation after a linear layer with a bias: what BiasGelu is for."""

    def __init__(self, activation):
        super().__init__()
        self.linear, self.activation = nn.Linear(HIDDEN, INNER), activation

    def forward(self, x):
        return self.activation(self.linear(x))


class GatedMLP(nn.Module):
    def __init__(self, name):
        super().__init__()
        self.gate, self.up = nn.Linear(HIDDEN, INNER, bias=False), nn.Linear(HIDDEN, INNER, bias=False)
        self.down, self.activation = nn.Linear(INNER, HIDDEN, bias=False), ACT2FN[name]

    def forward(self, x):
        return self.down(self.activation(self.gate(x)) * self.up(x))


class LayerNormByHand(nn.Module):
    """As models wrote it before nn.LayerNorm was everywhere: divided by a root, or times its reciprocal."""

    def __init__(self, root):
        super().__init__()
        self.weight, self.bias, self.root = nn.Parameter(torch.ones(HIDDEN)), nn.Parameter(torch.zeros(HIDDEN)), root

    def forward(self, x):
        mean = x.mean(-1, keepdim=True)
        centred = x - mean
        variance = centred.pow(2).mean(-1, keepdim=True)
        scaled = centred / torch.sqrt(variance + 1e-5) if self.root else centred * torch.rsqrt(variance + 1e-5)
        return self.weight * scaled + self.bias


class RMSNormByHand(nn.Module):
    """The chain of many remote-code models: the root divides, the square is a product."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(HIDDEN))

    def forward(self, x):
        return x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-6) * self.weight


class SkipNorm(nn.Module):
    """Both uses of a residual sum: the norm's input and the next residual."""

    def __init__(self, norm):
        super().__init__()
        self.norm = norm

    def forward(self, x, skip):
        total = skip + x
        return torch.cat((self.norm(total), total), -1)


class OfFunction(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


def eager(q, k, v, mask):
    """Eager attention of grouped heads as transformers writes it, with the softmax in f32."""
    k, v = repeat_kv(k, HEADS // GROUPS), repeat_kv(v, HEADS // GROUPS)
    scores = torch.matmul(q, k.transpose(2, 3)) * DEPTH**-0.5 + mask
    weights = F.softmax(scores, dim=-1, dtype=torch.float32).to(q.dtype)
    return torch.matmul(weights, v).transpose(1, 2).contiguous()


def eager_divided(q, k, v, mask):
    """The older form: scores divided by a root, and the masked ones replaced."""
    scores = torch.matmul(q, k.transpose(-1, -2)) / DEPTH**0.5
    scores = scores.masked_fill(mask == 0, torch.finfo(scores.dtype).min)
    return torch.matmul(F.softmax(scores, dim=-1), v).permute(0, 2, 1, 3).reshape(q.shape[0], q.shape[2], -1)


def rotary_half(x, cos, sin):
    return apply_rotary_pos_emb(x, x, cos, sin)[0]


def rotary_partial(x, cos, sin):
    turned, rest = x[..., : DEPTH // 2], x[..., DEPTH // 2 :]
    return torch.cat((apply_rotary_pos_emb(turned, turned, cos, sin)[0], rest), -1)


def rotary_chunked(x, cos, sin):
    """With chunk instead of slices, and the two halves written out: tables of half the width."""
    first, second = x.chunk(2, -1)
    cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)


def rotary_pairs_gptj(x, sin, cos):
    return rotate_pairs_of_gptj(x.transpose(1, 2), sin, cos).transpose(1, 2)


def rotary_pairs_cohere(x, cos, sin):
    return rotate_pairs_of_cohere(x, x, cos, sin)[0]


def sdpa(**options):
    return OfFunction(lambda q, k, v, *mask: F.scaled_dot_product_attention(q, k, v, *mask, **options))


class Half(nn.Module):
    """The same part in half precision."""

    def __init__(self, part):
        super().__init__()
        self.part = part.half()

    def forward(self, *inputs):
        return self.part(*inputs)


def parts():
    """name -> (module, shapes of its inputs); a shape that starts with "mask" is of a boolean."""
    of = OfFunction
    found = {f"act_{name}": (AfterLinear(ACT2FN[name]), [X]) for name in ("gelu", "gelu_pytorch_tanh", "gelu_new", "gelu_fast",
             "gelu_python", "gelu_accurate", "quick_gelu", "silu", "relu2", "mish")}
    found |= {
        "mlp_silu": (GatedMLP("silu"), [X]),
        "mlp_gelu_tanh": (GatedMLP("gelu_pytorch_tanh"), [X]),
        "layer_norm": (nn.LayerNorm(HIDDEN), [X]),
        "layer_norm_no_bias": (nn.LayerNorm(HIDDEN, bias=False), [X]),
        "layer_norm_no_weights": (nn.LayerNorm(HIDDEN, elementwise_affine=False), [X]),
        "layer_norm_divided": (LayerNormByHand(True), [X]),
        "layer_norm_rsqrt": (LayerNormByHand(False), [X]),
        "rms_llama": (LlamaRMSNorm(HIDDEN), [X]),
        "rms_gemma": (GemmaRMSNorm(HIDDEN), [X]),
        "rms_t5": (T5LayerNorm(HIDDEN), [X]),
        "rms_torch": (nn.RMSNorm(HIDDEN, eps=1e-6), [X]),
        "rms_by_hand": (RMSNormByHand(), [X]),
        "skip_layer_norm": (SkipNorm(nn.LayerNorm(HIDDEN)), [X, X]),
        "skip_rms": (SkipNorm(LlamaRMSNorm(HIDDEN)), [X, X]),
        "rotary_half": (of(rotary_half), [Q, ANGLES, ANGLES]),
        "rotary_partial": (of(rotary_partial), [Q, HALF_ANGLES, HALF_ANGLES]),
        "rotary_chunked": (of(rotary_chunked), [Q, HALF_ANGLES, HALF_ANGLES]),
        "rotary_pairs_gptj": (of(rotary_pairs_gptj), [Q, HALF_ANGLES, HALF_ANGLES]),
        "rotary_pairs_cohere": (of(rotary_pairs_cohere), [Q, ANGLES, ANGLES]),
        "sdpa": (sdpa(), [Q, K, K]),
        "sdpa_scale": (sdpa(scale=0.3), [Q, K, K]),
        "sdpa_causal": (sdpa(is_causal=True), [Q, Q, Q]),
        "sdpa_mask_bool": (sdpa(), [Q, K, K, ("mask", *MASK)]),
        "sdpa_mask_float": (sdpa(), [Q, K, K, MASK]),
        "sdpa_grouped": (sdpa(enable_gqa=True), [Q, KV, KV, MASK]),
        "eager": (of(eager), [Q, KV, KV, MASK]),
        "eager_divided": (of(eager_divided), [Q, K, K, ("mask", *MASK)]),
    }
    halves = {"rms_llama": LlamaRMSNorm(HIDDEN), "rms_gemma": GemmaRMSNorm(HIDDEN), "rms_torch": nn.RMSNorm(HIDDEN, eps=1e-6),
              "act_gelu": AfterLinear(ACT2FN["gelu"]), "skip_rms": SkipNorm(LlamaRMSNorm(HIDDEN)), "eager": of(eager),
              "sdpa_mask_bool": sdpa()}  # fmt: skip
    return found | {f"{name}_f16": (Half(part), found[name][1]) for name, part in halves.items()}


def values(name, shapes):
    """Inputs of one part: the same whenever it is asked, with every row of a mask seeing something."""
    random = np.random.default_rng(sum(name.encode()))
    found = []
    for shape in shapes:
        sizes = [SIZES.get(d, d) for d in shape if d != "mask"]
        if shape[0] == "mask":
            mask = random.random(sizes) < 0.6
            mask[..., 0] = True
            found.append(torch.from_numpy(mask))
        else:
            data = random.standard_normal(sizes)
            found.append(torch.from_numpy(data.astype(np.float16 if name.endswith("_f16") else np.float32)))
    return found


class Pieces(nn.Module):
    def __init__(self, leave_out=()):
        super().__init__()
        kept = {name: part for name, part in parts().items() if name not in leave_out}
        self.shapes = {name: shapes for name, (_, shapes) in kept.items()}
        self.parts = nn.ModuleDict({name: module for name, (module, _) in kept.items()})
        randomise(self)
        self.eval()

    def names(self):
        return [f"{name}.{i}" for name, shapes in self.shapes.items() for i in range(len(shapes))]

    def dims(self):
        """Per input, which axes are dynamic and their names."""
        plain = [[d for d in shape if d != "mask"] for shapes in self.shapes.values() for shape in shapes]
        return [{i: d for i, d in enumerate(shape) if isinstance(d, str)} for shape in plain]

    def inputs(self):
        return [value for name, shapes in self.shapes.items() for value in values(name, shapes)]

    def forward(self, *inputs):
        given, outputs = iter(inputs), []
        for name, shapes in self.shapes.items():
            outputs.append(self.parts[name](*[next(given) for _ in shapes]))
        return tuple(outputs)


def randomise(module):
    """Every parameter random, biases and norms too: a fixture must show a bias that was lost. The seed is the name's,
    and the generator numpy's, so that any version of torch gives the same."""
    for name, parameter in sorted(module.named_parameters()):
        random = np.random.default_rng(list(name.encode()))
        data = random.standard_normal(parameter.shape) * 0.2 + (1 if "norm" in name.lower() and name.endswith("weight") else 0)
        parameter.data.copy_(torch.from_numpy(data.astype(np.float32)))
