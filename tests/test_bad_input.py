"""Bad input: one clear message, exit code 1, nothing half-written, and what was there before as it was."""
import contextlib
import json
import os
import re
import resource
import shutil
import signal
import struct
import subprocess
import time
from pathlib import Path

import pytest
from checkpoints import SHARDED, copy_of, header_of, make_checkpoint, shapes, snapshot, write_safetensors
from conftest import PROGRAM

LAYER = "model.layers.0."


@pytest.fixture
def model(tmp_path):
    return make_checkpoint(tmp_path / "model")


@pytest.fixture
def refused(mobius, tmp_path):
    """refused(model) -> the message. Builds over a package and checks that it stays as it was, and alone."""
    out = tmp_path / "output" / "package"
    old = make_checkpoint(tmp_path / "old_model", {"vocab_size": 50})
    assert mobius("build", old, out, "--quiet").returncode == 0
    before = snapshot(out)

    def run(folder, *options: str, lines: int = 1) -> str:
        result = mobius("build", folder, out, *options)
        assert result.returncode == 1, (result.returncode, result.stdout, result.stderr)
        assert result.stdout == ""
        assert result.stderr.startswith("mobius: error: ") and result.stderr.count("\n") == lines, result.stderr
        assert snapshot(out) == before and [path.name for path in out.parent.iterdir()] == ["package"]
        return result.stderr

    return run


def set_config(model: Path, **changes) -> Path:
    config = json.loads((model / "config.json").read_text()) | changes
    (model / "config.json").write_text(json.dumps({k: v for k, v in config.items() if v is not ...}))
    return model


# ── configs ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_no_config(refused, model):
    (model / "config.json").unlink()
    assert "has no config.json" in refused(model)


@pytest.mark.parametrize("text,expected", [("", "config.json"), ("{", "config.json"), ('{"model_type": "llama",}', "config.json"), ("[1]", "JSON object"),
                                           ("\xff\xfe", "config.json"), ("[" * 100_000, "config.json"), ("GGUF", "config.json")])
def test_broken_json(refused, model, text, expected):
    (model / "config.json").write_text(text, encoding="latin-1")
    assert expected in refused(model)


@pytest.mark.parametrize("kind", ["pipe", "folder", "endless"])
def test_a_config_that_is_no_file(refused, model, kind):
    (model / "config.json").unlink()
    {"pipe": os.mkfifo, "folder": os.mkdir, "endless": lambda path: os.symlink("/dev/zero", path)}[kind](model / "config.json")
    assert "is a folder" in refused(model) if kind == "folder" else "is not a regular file" in refused(model)


@pytest.mark.parametrize("changes,expected", [
    ({"model_type": "lama"}, ["unknown model_type 'lama'", "llama"]),
    ({"model_type": ...}, ["model_type is missing"]),
    ({"model_type": 7}, ["model_type is", "a string"]),
    ({"rope_scaling": {"rope_type": "spiral", "factor": 2.0}}, ["spiral"]),
    ({"rope_parameters": {"rope_type": "helix", "rope_theta": 1e4}}, ["helix"]),
    ({"rope_scaling": {"type": "yarn", "factor": 2.0, "original_max_position_embeddings": 16, "beta_fast": -1}}, ["no finite numbers"]),
    ({"rope_scaling": {"type": "linear", "factor": 2.0}, "partial_rotary_factor": 0.5}, ["partial_rotary_factor = 0.5"]),
    ({"hidden_act": "softplus7"}, ["softplus7"]),
    ({"quantization_config": {"quant_method": "mxfp4"}}, ["mxfp4"]),
    ({"quantization_config": {"quant_method": "fp8"}}, ["fp8"]),
    ({"quantization_config": {"quant_method": "gptq", "bits": 4}}, ["gptq with 4 bits"]),
    ({"quantization_config": {"quant_method": "awq"}}, ["awq"]),
    ({"quantization_config": {"load_in_8bit": True}}, ["bitsandbytes"]),
    ({"model_type": "mystery", "auto_map": {"AutoModelForCausalLM": "modeling_mystery.Mystery"}}, ["modeling_mystery.Mystery", "never run"]),
    ({"hidden_size": -1}, ["hidden_size is -1"]),
    ({"hidden_size": "many"}, ["hidden_size", "many"]),
    ({"num_hidden_layers": 2**40}, ["num_hidden_layers"]),
    ({"torch_dtype": "float1"}, ["float1"]),
    ({"hidden_size": 1e12}, ["hidden_size is 1000000000000.0, expected at most 2147483647"]),
    ({"num_attention_heads": None}, ["num_attention_heads is null, expected a positive integer"]),
    ({"rms_norm_eps": None}, ["rms_norm_eps is null, expected a number"]),
    ({"head_dim": 2**31 - 2}, ["head size 2147483646 is too large, expected at most 65536"]),
    ({"model_type": "mamba", "num_hidden_layers": 2**30}, ["num_hidden_layers is 1073741824, expected at most 4096"]),
    ({"model_type": "mamba2", "num_hidden_layers": 2**30}, ["num_hidden_layers is 1073741824, expected at most 4096"]),
    ({"model_type": "qwen3_moe", "num_experts": 2**30}, ["there are 1073741824 experts, expected at most 65536"]),
    ({"architectures": 5}, ["architectures is 5, expected a list of strings"]),
    ({"layer_types": 7}, ["layer_types is 7, expected a list of strings"]),
    ({"layer_types": [7]}, ["layer_types[0] is 7, expected a string"]),
    ({"layer_types": ["full_attention"] * 9}, ["layer_types is a list of 9, expected 1 entries (num_hidden_layers)"]),
    ({"layer_types": ["sliding_attention"], "sliding_window": 4}, ["'sliding_attention'", "'llama' is not known to have"]),
    ({"mlp_layer_types": ["dense", "sparse"]}, ["mlp_layer_types is a list of 2"]),
    ({"model_type": "qwen3_moe", "mlp_only_layers": [0.5]}, ["mlp_only_layers[0] is 0.5, expected an index from 0 to 0"]),
    ({"model_type": "qwen3_moe", "mlp_only_layers": [0, 99]}, ["mlp_only_layers[1] is 99, expected an index from 0 to 0"]),
    ({"model_type": "bamba", "attn_layer_indices": [-1], "mamba_n_heads": 2, "mamba_d_head": 32}, ["attn_layer_indices[0] is -1"]),
    ({"model_type": "nemotron_h", "layers_block_type": []}, ["layers_block_type is [], expected a kind for each layer"]),
    ({"model_type": "smollm3", "no_rope_layers": [0.5]}, ["no_rope_layers[0] is 0.5, expected 0 or 1"]),
])
def test_configs_that_cant_be_built(refused, model, changes, expected):
    message = refused(set_config(model, **changes))
    assert "config.json" in message and all(text in message for text in expected), message


@pytest.mark.parametrize("changes", [
    {"layer_types": ["full_attention"]}, {"layer_types": None}, {"num_key_value_heads": None}, {"head_dim": None}, {"rope_scaling": None},
    {"sliding_window": None}, {"hidden_size": 32.0}, {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4}, "rope_theta": None},
])
def test_configs_whose_oddities_mean_something(mobius, model, tmp_path, changes):
    assert mobius("build", set_config(model, **changes), tmp_path / "out", "--no-weights", "--quiet").returncode == 0


# ── other folders ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_only_pickle_files(refused, model):
    (model / "model.safetensors").rename(model / "pytorch_model.bin")
    message = refused(model)
    assert "pytorch_model.bin" in message and "safetensors" in message


@pytest.mark.parametrize("keeps_config", [True, False])
def test_an_adapter(refused, model, keeps_config):
    (model / "model.safetensors").rename(model / "adapter_model.safetensors")
    (model / "adapter_config.json").write_text('{"base_model_name_or_path": "org/base"}')
    if not keeps_config:
        (model / "config.json").unlink()
    assert "adapter" in refused(model)


def test_no_weights_at_all(refused, model):
    (model / "model.safetensors").unlink()
    assert "holds no weights" in refused(model)


def test_what_was_built_already(refused, model, mobius, tmp_path):
    assert mobius("build", model, tmp_path / "built").returncode == 0
    assert "built is a package already; expected the model it was built from" in refused(tmp_path / "built")
    assert "model.onnx is an ONNX model already: optimize takes it" in refused(tmp_path / "built" / "model.onnx")


def test_not_a_model(refused, tmp_path):
    (tmp_path / "text.txt").write_text("hello")
    assert "is a file, expected" in refused(tmp_path / "text.txt")
    assert "does not exist" in refused(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    assert "has no config.json" in refused(tmp_path / "empty")


# ── weights ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_shard_is_absent(refused, tmp_path):
    model = copy_of(SHARDED, tmp_path / "sharded")
    index = json.loads((model / "model.safetensors.index.json").read_text())["weight_map"]
    shard = sorted(set(index.values()))[-1]
    (model / shard).unlink()
    message = refused(model)
    assert shard in message and "missing" in message
    assert any(tensor in message for tensor, where in index.items() if where == shard)


def test_truncated_safetensors(refused, model):
    content = (model / "model.safetensors").read_bytes()
    for size in (0, 4, 8, 100, len(content) // 2, len(content) - 1):
        (model / "model.safetensors").write_bytes(content[:size])
        assert "model.safetensors" in refused(model), size


@pytest.mark.parametrize("length", [10**6, 2**63 - 1, 2**64 - 1, 2**64 - 8])
def test_header_longer_than_the_file(refused, model, length):
    content = (model / "model.safetensors").read_bytes()
    (model / "model.safetensors").write_bytes(struct.pack("<Q", length) + content[8:])
    assert "model.safetensors" in refused(model)


@pytest.mark.parametrize("offsets", ["overlap", "behind", "backwards", "negative", "huge"])
def test_impossible_offsets(refused, model, offsets):
    header = header_of(shapes())
    end = max(entry["data_offsets"][1] for entry in header.values())
    first, last = header["model.embed_tokens.weight"], header[LAYER + "post_attention_layernorm.weight"]
    length = last["data_offsets"][1] - last["data_offsets"][0]
    last["data_offsets"] = {"overlap": first["data_offsets"][:1] + [length], "behind": [end, end + length], "backwards": [end, end - length],
                            "negative": [-length, 0], "huge": [2**64 - length, 2**64 - 1]}[offsets]
    write_safetensors(model / "model.safetensors", header, size=end)
    message = refused(model)
    assert "model.safetensors" in message and ("post_attention_layernorm" in message or "embed_tokens" in message), message


def test_a_name_with_control_characters(refused, tmp_path):
    model = make_checkpoint(tmp_path / "model", tensors=shapes() | {"a\n\x1b[31m": [1]})
    assert 'the name of tensor "a\\n\\u001b[31m" has a control character' in refused(model)


@pytest.mark.parametrize("shard", ["model.safetensors\0", "a\nb.safetensors"])
def test_a_shard_whose_name_has_control_characters(refused, model, shard):
    (model / "model.safetensors").rename(model / "real.safetensors")
    (model / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {name: shard for name in shapes()}}))
    assert "which is not a file name" in refused(model)


def test_an_index_that_is_a_folder(refused, model):
    (model / "model.safetensors").unlink()
    (model / "model.safetensors.index.json").mkdir()
    assert refused(model).count("model.safetensors.index.json") == 1


POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 4\n"


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "tokenizer.model"])
def test_a_clone_without_git_lfs(refused, model, name):
    (model / name).write_text(POINTER)
    message = refused(model)
    assert f"{name}: is a Git LFS pointer" in message and "git lfs pull" in message


@pytest.mark.parametrize("text,expected", [("", "is empty"), (" \n", "is empty"), ('{"model": {"vocab"', "the file is truncated")])
def test_a_tokenizer_that_was_cut_off(refused, model, text, expected):
    (model / "tokenizer.json").write_text(text)
    message = refused(model)
    assert "tokenizer.json: " in message and expected in message


@pytest.mark.parametrize("kind", ["pipe", "folder", "endless"])
def test_a_tokenizer_that_is_no_file(refused, model, kind):
    {"pipe": os.mkfifo, "folder": os.mkdir, "endless": lambda path: os.symlink("/dev/zero", path)}[kind](model / "tokenizer.json")
    assert "tokenizer.json: is a folder" in refused(model) if kind == "folder" else "tokenizer.json: is not a regular file" in refused(model)


def test_wrong_shape(refused, tmp_path):
    tensors = shapes() | {LAYER + "mlp.up_proj.weight": [48, 31]}
    message = refused(make_checkpoint(tmp_path / "wrong", tensors=tensors))
    assert LAYER + "mlp.up_proj.weight is [48, 31], expected [48, 32] (model.safetensors)" in message


@pytest.mark.parametrize("dtype,found", [("I32", "i32"), ("U8", "u8")])
def test_wrong_dtype(refused, tmp_path, dtype, found):
    message = refused(make_checkpoint(tmp_path / "wrong", dtype=dtype), lines=len(shapes()) + 1)
    assert f"model.norm.weight is {found}, expected f32, f16 or bf16 (model.safetensors)" in message


def test_unknown_dtype(refused, model):
    header = header_of(shapes())
    header["model.norm.weight"]["dtype"] = "F7"
    write_safetensors(model / "model.safetensors", header)
    assert "F7" in refused(model)


def test_missing_and_extra_tensors_are_all_named(refused, tmp_path):
    tensors = shapes() | {"model.layers.0.self_attn.phase": [4], "model.layers.7.mlp.up_proj.weight": [48, 32]}
    del tensors[LAYER + "mlp.up_proj.weight"], tensors["model.norm.weight"]
    model = make_checkpoint(tmp_path / "wrong", tensors=tensors)
    message = refused(model, lines=5)
    for text in (LAYER + "mlp.up_proj.weight is not in model.safetensors", "model.norm.weight is not in model.safetensors",
                 "model.layers.0.self_attn.phase is in the checkpoint but unused\n", "model.layers.7.mlp.up_proj.weight is in the checkpoint",
                 "--ignore-extra GLOB"):
        assert text in message
    assert "phase" not in refused(model, "--ignore-extra", "*.phase", "--ignore-extra", "model.layers.7.*", lines=3)


def test_tied_weights_that_differ(refused, mobius, tmp_path):
    model = make_checkpoint(tmp_path / "tied", {"tie_word_embeddings": True}, tensors=shapes())
    assert mobius("build", model, tmp_path / "equal", "--quiet").returncode == 0
    header = header_of(shapes())
    with open(model / "model.safetensors", "r+b") as file:
        file.seek(8 + len(json.dumps(header).encode()) + header["lm_head.weight"]["data_offsets"][0])
        file.write(struct.pack("<f", 1.0))
    assert "lm_head.weight differs from model.embed_tokens.weight" in refused(model)
    # Either way out that the message names.
    assert mobius("build", model, tmp_path / "one", "--ignore-extra", "lm_head.weight").returncode == 0
    assert mobius("build", set_config(model, tie_word_embeddings=False), tmp_path / "two").returncode == 0


def test_extra_tensors_can_be_allowed(mobius, tmp_path):
    model = make_checkpoint(tmp_path / "extra", tensors=shapes() | {"model.layers.0.self_attn.phase": [4], "model.layers.0.self_attn.rotary_emb.inv_freq": [8]})
    result = mobius("build", model, tmp_path / "out", "--ignore-extra", "*.phase")
    assert result.returncode == 0 and "phase" in result.stderr and "inv_freq" in result.stderr


# ── GGUF ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def gguf(tensors: int, values: int, rest: bytes = b"", version: int = 3) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, tensors, values) + rest


def gguf_string(text: str, length: int | None = None) -> bytes:
    return struct.pack("<Q", len(text) if length is None else length) + text.encode()


@pytest.mark.parametrize("content", [
    b"", b"GGUF", b"GGML" + bytes(20), gguf(2**63, 0), gguf(0, 2**63), gguf(2**64 - 1, 2**64 - 1), gguf(1, 0), gguf(0, 1), gguf(0, 0, version=99),
    gguf(0, 1, gguf_string("general.architecture", 2**62)), gguf(0, 1, gguf_string("a") + struct.pack("<I", 77)),
    gguf(0, 1, gguf_string("a") + struct.pack("<IIQ", 9, 4, 2**61)), gguf(0, 1, gguf_string("a") + struct.pack("<IIQ", 9, 9, 2**40)),
    gguf(0, 1, gguf_string("general.architecture") + struct.pack("<I", 8) + gguf_string("llama")),
    gguf(0, 1, gguf_string("general.architecture") + struct.pack("<I", 8) + gguf_string("unheard_of")),
    gguf(1, 1, gguf_string("general.architecture") + struct.pack("<I", 8) + gguf_string("llama") + gguf_string("blk.0.attn_q.weight") +
         struct.pack("<IQQIQ", 2, 2**40, 2**40, 0, 0)),
], ids=["empty", "magic", "ggml", "tensors", "values", "both", "no_tensor", "no_value", "version", "string", "type", "array", "nested", "no_keys", "architecture",
        "dimensions"])
def test_impossible_gguf(refused, tmp_path, content):
    (tmp_path / "bad.gguf").write_bytes(content)
    assert "bad.gguf" in refused(tmp_path / "bad.gguf")


# ── outputs ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def fails(result, *expected: str) -> None:
    assert result.returncode == 1, (result.returncode, result.stderr)
    assert result.stderr.startswith("mobius: error: ") and result.stderr.count("\n") == 1, result.stderr
    for text in expected:
        assert text in result.stderr


def test_output_is_the_model(mobius, model):
    before = snapshot(model)
    for out in (model, model / "onnx", model.parent, f"{model}/../model"):
        fails(mobius("build", model, out, "--force"), "the model that is read")
    fails(mobius("build", ".", ".", "--force", cwd=model), "the model that is read")
    assert snapshot(model) == before


def test_output_holds_other_things(mobius, model, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years")
    fails(mobius("build", model, tmp_path / "mine"), "--force")
    fails(mobius("build", model, tmp_path / "mine" / "thesis.txt", "--force"), "is a file")
    fails(mobius("build", model, tmp_path / "mine" / "thesis.txt" / "out"), "is no folder")
    assert snapshot(tmp_path / "mine") == {"thesis.txt": b"years"}
    assert mobius("build", model, tmp_path / "mine", "--force").returncode == 0
    (tmp_path / "mine" / "notes.txt").write_text("new")
    fails(mobius("build", model, tmp_path / "mine"), "notes.txt")


@pytest.mark.parametrize("options", [[], ["--force"], ["--dry-run", "--quiet"]])
def test_output_is_a_link_that_leads_nowhere(mobius, model, tmp_path, options):
    for number, target in enumerate(["nowhere", "link1"]):  # the second one leads to itself
        link = tmp_path / f"link{number}"
        link.symlink_to(target)
        fails(mobius("build", model, link, *options), str(link), "leads nowhere")
        assert link.is_symlink() and not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("length", [200, 250, 255])
def test_an_output_with_a_long_name(mobius, model, tmp_path, length):
    out = tmp_path / ("ö" * (length // 2) + "x" * (length % 2))
    for _ in range(2):
        result = mobius("build", model, out, "--quiet", timeout=30)
        assert result.returncode == 0, result.stderr
    assert (out / "model.onnx").exists() and not any(path.name.startswith(".") for path in tmp_path.iterdir())


def test_an_output_with_too_long_a_name(mobius, model, tmp_path):
    fails(mobius("build", model, tmp_path / ("x" * 256), timeout=30), "File name too long")


def test_output_that_cant_be_made(mobius, model):
    fails(mobius("build", model, "/proc/out"), "/proc")
    fails(mobius("build", model, "/dev/null/out"), "/dev/null")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere; the next test does this for root")
def test_output_without_permission(mobius, model, tmp_path):
    (tmp_path / "locked").mkdir(mode=0o555)
    fails(mobius("build", model, tmp_path / "locked" / "out"), "cannot write")


@contextlib.contextmanager
def mounted(folder: Path, *options: str):
    """A file system on `folder`, or a skip where this user may not mount."""
    folder.mkdir(exist_ok=True)
    if os.geteuid() != 0 or not shutil.which("mount") or subprocess.run(["mount", *options, folder], capture_output=True, check=False).returncode != 0:
        pytest.skip("file systems can't be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=False)


def test_output_on_a_read_only_disk(mobius, model, tmp_path):
    with mounted(tmp_path / "disk", "-t", "tmpfs", "-o", "ro,size=1m", "tmpfs") as disk:
        fails(mobius("build", model, disk / "out"), "disk", "ead-only")


def test_output_is_a_mount_point(mobius, model, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    with mounted(out, "-t", "tmpfs", "-o", "size=8m", "tmpfs"):
        fails(mobius("build", model, out), "out is a mount point, and can't be replaced; name a folder in it")
        assert not list(out.iterdir()) and sorted(path.name for path in tmp_path.iterdir()) == ["model", "out"]
        assert mobius("build", model, out / "package", "--quiet").returncode == 0


def test_a_full_disk_is_found_before_writing(mobius, tmp_path):
    model = make_checkpoint(tmp_path / "model", {"vocab_size": 20_000})
    with mounted(tmp_path / "disk", "-t", "tmpfs", "-o", "size=1m", "tmpfs") as disk:
        small = make_checkpoint(tmp_path / "small")
        assert mobius("build", small, disk / "out").returncode == 0
        before = snapshot(disk)
        result = mobius("build", model, disk / "out")
        fails(result, "too full")
        needed, free = map(int, re.findall(r"(\d+) bytes, (\d+) are free", result.stderr)[0])
        assert needed > free > 0
        assert snapshot(disk) == before
        fails(mobius("build", model, disk / "out", "--dry-run", "--quiet"), "too full")


def limit_file_size(size: int):
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def test_a_write_that_fails_halfway(mobius, tmp_path):
    """A limit on the size of files stands in for a disk that fills up meanwhile: space can't be reserved."""
    out = tmp_path / "output" / "package"
    assert mobius("build", make_checkpoint(tmp_path / "small"), out, "--quiet").returncode == 0
    before = snapshot(out.parent)
    model = make_checkpoint(tmp_path / "model", {"vocab_size": 20_000})
    result = subprocess.run([PROGRAM, "build", model, out], preexec_fn=limit_file_size(1 << 20), capture_output=True, text=True, check=False)
    fails(result, "model.onnx.data")
    assert snapshot(out.parent) == before


# ── interruptions ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def large_model(tmp_path_factory):
    """Two gigabytes of zeros that take no space; converting them takes a while."""
    tensors = {"vocab_size": 60_000, "hidden_size": 4096, "intermediate_size": 8192, "num_attention_heads": 32, "num_key_value_heads": 8}
    return make_checkpoint(tmp_path_factory.mktemp("large") / "model", tensors)


def interrupt(model: Path, out: Path, number: int) -> subprocess.Popen:
    """Sends a signal while the weights are being written."""
    process = subprocess.Popen([PROGRAM, "build", model, out, "--dtype", "f16", "--threads", "1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not any(out.parent.glob(f".{out.name}.*.tmp/*.data*")) and not any(out.parent.glob(f".{out.name}.*.tmp/.model*")):
        assert time.monotonic() < deadline and process.poll() is None, process.communicate()
        time.sleep(0.002)
    process.send_signal(number)
    process.wait(60)
    return process


def test_killed_while_writing(mobius, large_model, tmp_path):
    out = tmp_path / "output" / "package"
    small = make_checkpoint(tmp_path / "small")
    assert mobius("build", small, out, "--quiet").returncode == 0
    before = snapshot(out)
    assert interrupt(large_model, out, signal.SIGKILL).returncode == -signal.SIGKILL
    assert snapshot(out) == before
    left = [path for path in out.parent.iterdir() if path != out]
    assert len(left) == 1 and left[0].name.startswith(".package.")  # what a kill leaves ...
    assert mobius("build", small, out, "--quiet").returncode == 0
    assert list(out.parent.iterdir()) == [out]  # ... the next build removes
    assert snapshot(out) == before


@pytest.mark.parametrize("number,code,word", [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")])
def test_interrupted_while_writing(large_model, tmp_path, number, code, word):
    out = tmp_path / "output" / "package"
    out.parent.mkdir()
    process = interrupt(large_model, out, number)
    assert process.returncode == code
    assert process.stderr.read() == f"mobius: error: {word}\n"
    assert list(out.parent.iterdir()) == []
