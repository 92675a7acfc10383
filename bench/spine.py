#!/usr/bin/env python3
"""Speed and memory of building a package, against a plain copy of the same bytes.

usage: spine.py [--program build/bin/mobius] [--work build/bench] [--rounds 5]

Makes random bfloat16 Llama checkpoints (hidden 2048, 32/8 heads, feed-forward 8192, vocabulary 128256, tied; with 4 layers
1 GB, with 16 layers 2.5 GB) and prints, each beside what is allowed:
- 16 layers without weights: time and peak memory;
- 4 layers as bf16, f16 and f32: time against `cp --reflink=never` of the written bytes, user CPU seconds per GB, peak memory,
  size of the data against the unique weights and rope tables;
- 16 layers as bf16, f16 and f32: peak memory, which should not have grown.
Copies and builds take turns, and each target is removed just before. Times are medians. Exit: 0 all within bounds, 1 not.
"""
import argparse
import json
import os
import shutil
import statistics
import struct
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 2048, "intermediate_size": 8192, "num_attention_heads": 32,
    "num_key_value_heads": 8, "head_dim": 64, "vocab_size": 128256, "tie_word_embeddings": True, "max_position_embeddings": 8192, "rms_norm_eps": 1e-5,
    "rope_theta": 500000.0, "hidden_act": "silu", "attention_bias": False, "mlp_bias": False, "bos_token_id": 1, "eos_token_id": 2, "torch_dtype": "bfloat16",
}
GB = 1e9
MB = 1e6
BYTES = {"bf16": 2, "f16": 2, "f32": 4}
EP = {"bf16": "cuda", "f16": "default", "f32": "default"}  # bf16 needs an EP with bf16 kernels


def shapes(layers: int) -> dict[str, list[int]]:
    hidden, ffn, kv = CONFIG["hidden_size"], CONFIG["intermediate_size"], CONFIG["num_key_value_heads"] * CONFIG["head_dim"]
    found = {"model.embed_tokens.weight": [CONFIG["vocab_size"], hidden], "model.norm.weight": [hidden]}
    for layer in range(layers):
        at = f"model.layers.{layer}."
        found |= {at + "input_layernorm.weight": [hidden], at + "post_attention_layernorm.weight": [hidden]}
        found |= {at + "self_attn.q_proj.weight": [hidden, hidden], at + "self_attn.o_proj.weight": [hidden, hidden]}
        found |= {at + "self_attn.k_proj.weight": [kv, hidden], at + "self_attn.v_proj.weight": [kv, hidden]}
        found |= {at + "mlp.gate_proj.weight": [ffn, hidden], at + "mlp.up_proj.weight": [ffn, hidden], at + "mlp.down_proj.weight": [hidden, ffn]}
    return found


def count(shape: list[int]) -> int:
    return shape[0] * (shape[1] if len(shape) > 1 else 1)


def peak_memory(process: int) -> int:
    """Bytes, of a running process; 0 when it has ended."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM:")), 0)


def make_checkpoint(folder: Path, layers: int) -> None:
    """Random weights between 2^-7 and 2^-3, either sign; kept from run to run."""
    if (folder / "config.json").exists():
        return
    print(f"making {folder} ...", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    header, at = {}, 0
    for name, shape in shapes(layers).items():
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + 2 * count(shape)]}
        at += 2 * count(shape)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    # The high byte of a bfloat16 is its sign and seven of eight exponent bits.
    sane = bytes((byte & 0x80) | 0x3C | (byte & 1) for byte in range(256))
    with open(folder / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        while at:
            chunk = bytearray(os.urandom(min(at, 1 << 24)))
            chunk[1::2] = chunk[1::2].translate(sane)
            file.write(chunk)
            at -= len(chunk)
    (folder / "config.json").write_text(json.dumps(CONFIG | {"num_hidden_layers": layers}, indent=1))


@dataclass
class Samples:
    seconds: list[float] = field(default_factory=list)
    user: list[float] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)  # bytes, peak resident

    def measure(self, command: list) -> None:
        # The kernel's own account of a child's peak (ru_maxrss) starts at what the parent held; the child's status does not.
        start, peak, done = time.perf_counter(), 0, 0
        process = os.posix_spawnp(str(command[0]), [str(part) for part in command], os.environ)
        while not done:
            peak = max(peak, peak_memory(process))
            time.sleep(0.0005)
            done, status, usage = os.wait4(process, os.WNOHANG)
        self.seconds.append(time.perf_counter() - start)
        self.user.append(usage.ru_utime)
        self.memory.append(peak)
        if status:
            sys.exit(f"failed: {' '.join(map(str, command))}")

    time = property(lambda self: statistics.median(self.seconds))
    cpu = property(lambda self: statistics.median(self.user))
    peak = property(lambda self: max(self.memory))


def remove(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


class Bench:
    def __init__(self, program: Path, work: Path, rounds: int):
        self.program, self.work, self.rounds = program, work, rounds
        self.missed = 0

    def row(self, what: str, got: str, allowed: str, holds: bool) -> None:
        print(f"{what:<46} {got:>12}   {allowed:<12} {'' if holds else 'MISSED'}".rstrip(), flush=True)
        self.missed += not holds

    def build(self, samples: Samples, layers: int, dtype: str, *options: str) -> Path:
        out = self.work / "out"
        remove(out)
        samples.measure([self.program, "build", self.work / f"llama_{layers}", "-o", out, "--ep", EP[dtype], "--dtype", dtype, "--quiet", *options])
        return out

    def without_weights(self) -> None:
        samples = Samples()
        for _ in range(2 * self.rounds):
            self.build(samples, 16, "f32", "--no-weights")
        self.row("16 layers, no weights: time", f"{samples.time * 1e3:.0f} ms", "<= 50 ms", samples.time <= 0.050)
        self.row("16 layers, no weights: peak memory", f"{samples.peak / MB:.0f} MB", "<= 60 MB", samples.peak <= 60 * MB)

    def against_copy(self, dtype: str) -> int:
        """Returns the peak memory of the builds."""
        built, copied = Samples(), Samples()
        # The first build is kept as the copy's source, and warms the caches for both.
        original, target = self.work / "original.data", self.work / "copy.data"
        remove(original)
        (self.build(Samples(), 4, dtype) / "model.onnx.data").rename(original)
        # Both targets exist before the first round. Each is removed just before it is written again and not earlier, so that both
        # find the same number of pages freed a moment ago; and who goes first changes from round to round.
        shutil.copyfile(original, target)
        self.build(Samples(), 4, dtype)
        for number in range(2 * self.rounds):
            if number % 4 in (0, 3):  # copy, build, build, copy, ...
                remove(target)
                copied.measure(["cp", "--reflink=never", original, target])
            else:
                self.build(built, 4, dtype)
        remove(target)
        size = original.stat().st_size
        remove(original)

        weights = sum(map(count, shapes(4).values()))
        rope = 2 * CONFIG["max_position_embeddings"] * CONFIG["head_dim"] // 2
        ratio, cpu, bulk = built.time / copied.time, built.cpu / (size / GB), size / ((weights + rope) * BYTES[dtype])
        name = f"4 layers, bf16 -> {dtype}, {size / GB:.2f} GB"
        self.row(f"{name}: {built.time:.2f} s / cp {copied.time:.2f} s", f"{ratio:.2f} x", "<= 1.50 x", ratio <= 1.5)
        self.row(f"{name}: user CPU", f"{cpu:.2f} s/GB", "<= 0.30 s/GB", cpu <= 0.3)
        self.row(f"{name}: peak memory", f"{built.peak / MB:.0f} MB", "<= 100 MB", built.peak <= 100 * MB)
        self.row(f"{name}: size to weights", f"{bulk:.4f} x", "<= 1.01 x", bulk <= 1.01)
        return built.peak

    def memory_of_more_layers(self, dtype: str, before: int) -> None:
        samples = Samples()
        self.build(samples, 16, dtype)
        growth = samples.peak / before - 1
        self.row(f"16 layers, bf16 -> {dtype}: peak memory", f"{samples.peak / MB:.0f} MB", "<= 100 MB", samples.peak <= 100 * MB)
        self.row(f"16 layers, bf16 -> {dtype}: against 4 layers", f"{growth:+.0%}", "+- 10 %", abs(growth) <= 0.10)

    def run(self) -> int:
        for layers in (4, 16):
            make_checkpoint(self.work / f"llama_{layers}", layers)
        self.without_weights()
        peaks = {dtype: self.against_copy(dtype) for dtype in BYTES}
        for dtype, peak in peaks.items():
            self.memory_of_more_layers(dtype, peak)
        remove(self.work / "out")
        print(f"{self.missed} bounds missed" if self.missed else "all within bounds")
        return 1 if self.missed else 0


def main() -> int:
    root = Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=Path, default=root / "build" / "bin" / "mobius")
    parser.add_argument("--work", type=Path, default=root / "build" / "bench", help="for checkpoints (3.5 GB, kept) and outputs (up to 8 GB)")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    return Bench(options.program, options.work, options.rounds).run()


if __name__ == "__main__":
    sys.exit(main())
