"""The command line: options, output, exit codes, and that building is repeatable."""
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import onnxruntime
import pytest
from checkpoints import LLAMA, make_checkpoint, snapshot
from conftest import PROGRAM


@pytest.fixture
def model(tmp_path):
    return make_checkpoint(tmp_path / "model")


def usage_error(result) -> str:
    assert result.returncode == 2, result.stderr
    assert result.stderr.startswith("mobius: error: ") and not result.stdout
    return result.stderr


# ── what is built, and what is said ──────────────────────────────────────────────────────────────────────────────────────


def test_builds_a_package_and_lists_it(mobius, tmp_path):
    result = mobius("build", LLAMA, tmp_path / "out")
    assert result.returncode == 0, result.stderr
    files = {path.name: path.stat().st_size for path in (tmp_path / "out").iterdir()}
    assert {"model.onnx", "model.onnx.data", "config.json", "generation_config.json"} <= set(files)
    assert re.search(r"^llama, text-generation, in f32 for default; from llama \(sha256:[0-9a-f]{32}\)$", result.stdout, re.MULTILINE)
    for name, size in files.items():
        assert re.search(rf"^  {re.escape(name)} +{size:,}$", result.stdout, re.MULTILINE), name
    assert f"{sum(files.values()):,}" in result.stdout
    assert result.stderr == ""
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_lists_the_files_as_json(mobius, model, tmp_path):
    result = mobius("build", model, "-o", tmp_path / "out", "--json")
    listed = json.loads(result.stdout)
    assert {entry["name"]: entry["size"] for entry in listed["files"]} == {p.name: p.stat().st_size for p in (tmp_path / "out").iterdir()}
    assert listed["total_size"] == sum(entry["size"] for entry in listed["files"])


def test_quiet_says_nothing(mobius, model, tmp_path):
    result = mobius("build", model, tmp_path / "out", "--quiet")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_says_when_the_dtype_changes(mobius, tmp_path):
    folder = make_checkpoint(tmp_path / "model", {"torch_dtype": "bfloat16"}, "BF16")
    result = mobius("build", folder, tmp_path / "out")
    assert "bf16" in result.stderr and "f32" in result.stderr and result.stderr.count("\n") == 1
    assert ", in f32 for default;" in result.stdout


@pytest.mark.parametrize("spelling", ["f16", "float16", "FLOAT16", "half"])
def test_takes_dtypes_in_any_spelling(mobius, model, tmp_path, spelling):
    result = mobius("build", model, tmp_path / "out", "--dtype", spelling)
    assert result.returncode == 0 and ", in f16 for default;" in result.stdout


@pytest.mark.parametrize("arguments", [["--model", "{model}", "{out}"], ["--config", "{model}", "{out}"], ["{model}", "{out}", "--execution-provider", "cpu"],
                                       ["--model={model}", "-o", "{out}"]])
def test_the_originals_flags_work(mobius, model, tmp_path, arguments):
    result = mobius("build", *[a.format(model=model, out=tmp_path / "out") for a in arguments])
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "out" / "model.onnx").exists()


def test_trace_shows_the_stages(mobius, model, tmp_path):
    assert "Target: default" in mobius("build", model, tmp_path / "out", "--trace").stderr


def test_dry_run_writes_nothing_and_is_exact(mobius, model, tmp_path):
    plan = json.loads(mobius("build", model, tmp_path / "out", "--dry-run", "--json").stdout)
    assert not (tmp_path / "out").exists() and plan["free_disk_space"] > 0
    written = json.loads(mobius("build", model, tmp_path / "out", "--json").stdout)
    assert plan["files"] == written["files"] and plan["total_size"] == written["total_size"]
    text = mobius("build", model, "--dry-run")
    assert text.returncode == 0 and "would write" in text.stdout and "free disk space" in text.stdout


def test_no_weights_leaves_the_data_out(mobius, tmp_path):
    folder = make_checkpoint(tmp_path / "model")
    assert mobius("build", folder, tmp_path / "with").returncode == 0
    (folder / "model.safetensors").unlink()
    result = mobius("build", folder, tmp_path / "out", "--no-weights")
    assert result.returncode == 0, result.stderr
    assert not (tmp_path / "out" / "model.onnx.data").exists()
    component = json.loads(mobius("info", tmp_path / "out", "--json").stdout)["components"][0]
    assert component["weights"] == "none"
    whole = json.loads(mobius("info", tmp_path / "with", "--json").stdout)["components"][0]
    assert component["operators"] == whole["operators"] and component["parameter_bytes"] == whole["parameter_bytes"]


def test_weights_as_safetensors_in_shards(mobius, model, tmp_path):
    result = mobius("build", model, tmp_path / "out", "--external-data", "safetensors", "--max-shard-size", "10kB")
    assert result.returncode == 0, result.stderr
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert "model.onnx.data" not in names and sum(name.endswith(".safetensors") for name in names) > 1


def test_builds_from_the_hub_cache(mobius, tmp_path):
    commit = "0123456789" * 4
    repository = tmp_path / "hub" / "models--org--tiny"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text(commit)
    (repository / "blobs").mkdir()
    snapshot_folder = repository / "snapshots" / commit
    snapshot_folder.mkdir(parents=True)
    for index, path in enumerate(sorted(make_checkpoint(tmp_path / "model").iterdir())):
        path.rename(repository / "blobs" / str(index))
        (snapshot_folder / path.name).symlink_to(f"../../blobs/{index}")
    env = {"HF_HUB_CACHE": str(tmp_path / "hub")}
    result = mobius("build", "org/tiny", tmp_path / "out", env=env)
    assert result.returncode == 0, result.stderr
    assert f"from org/tiny ({commit})" in result.stdout
    assert not any(path.is_symlink() for path in (tmp_path / "out").rglob("*"))
    assert mobius("build", "org/tiny", repository / "blobs", "--force", env=env).returncode == 1
    missing = mobius("build", "org/other", tmp_path / "out2", env=env)
    assert missing.returncode == 1 and "hf download org/other" in missing.stderr


# ── repeatable ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_two_builds_are_equal_whatever_the_threads(mobius, tmp_path):
    first = make_checkpoint(tmp_path / "a" / "model", {"hidden_size": 512, "vocab_size": 4000, "num_attention_heads": 8})
    header = (first / "model.safetensors").read_bytes()[:4]
    assert header
    with open(first / "model.safetensors", "r+b") as file:  # some bytes that are not all the same
        size = file.seek(0, os.SEEK_END)
        file.seek(size // 2)
        file.write(bytes(range(64)) * 4096)
    shutil.copytree(first, tmp_path / "b" / "model")
    packages = []
    for number, (folder, threads) in enumerate([("a", 1), ("a", 1), ("b", 7), ("a", 0)]):
        out = tmp_path / f"out{number}"
        assert mobius("build", tmp_path / folder / "model", out, "--threads", threads, "--dtype", "f16", "--quiet").returncode == 0
        packages.append(snapshot(out))
    assert all(package == packages[0] for package in packages)


def test_packages_hold_no_path_and_no_date(mobius, model, tmp_path):
    assert mobius("build", model, tmp_path / "out").returncode == 0
    content = (tmp_path / "out" / "model.onnx").read_bytes()
    assert str(tmp_path).encode() not in content and b"/tmp" not in content and b"20261" not in content


# ── list and info ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind,key,expected", [("models", "type", {"llama", "qwen2"}), ("tasks", "name", {"text-generation"}),
                                               ("eps", "name", {"default", "cpu", "cuda", "webgpu", "qnn"}), ("dtypes", "name", {"f32", "f16", "bf16"})])
def test_lists(mobius, kind, key, expected):
    entries = json.loads(mobius("list", kind, "--json").stdout)
    assert expected <= {entry[key] for entry in entries}
    text = mobius("list", kind).stdout
    assert text.count("\n") == len(entries) + 1 and all(name in text for name in expected)


def test_info_of_a_package(mobius, tmp_path):
    assert mobius("build", LLAMA, tmp_path / "out").returncode == 0
    info = json.loads(mobius("info", tmp_path / "out", "--json").stdout)
    component, = info["components"]
    assert info["kind"] == "package" and component["component"] == "model" and component["role"] == "decoder"
    assert component["ep"] == "default" and component["dtype"] == "f32" and component["source"] == "llama" and component["padding"] == "any"
    assert component["opset"] == "24" and component["min_onnxruntime"] == "1.24"
    assert component["inputs"][0] == {"name": "input_ids", "dtype": "i64", "shape": ["batch", "sequence_len"]}
    assert component["outputs"][0]["name"] == "logits" and component["outputs"][0]["shape"][-1] == 160
    assert sum(component["operators"].values()) == component["nodes"] > 0
    weights = sum(e["data_offsets"][1] - e["data_offsets"][0] for e in json_header(LLAMA / "model.safetensors").values())
    assert weights <= component["parameter_bytes"] <= weights + 96 * 16 * 4 + 1024
    text = mobius("info", tmp_path / "out").stdout
    assert "input_ids" in text and "past_key_values.0.key" in text and "like it" in text


def json_header(path):
    content = path.read_bytes()
    header = json.loads(content[8:8 + int.from_bytes(content[:8], "little")])
    header.pop("__metadata__", None)
    return header


def test_info_of_a_model_counts_its_parameters(mobius, tmp_path):
    folder = make_checkpoint(tmp_path / "model", {"torch_dtype": "bfloat16", "tie_word_embeddings": True}, "BF16")
    expected = sum(e["data_offsets"][1] - e["data_offsets"][0] for e in json_header(folder / "model.safetensors").values()) // 2
    (folder / "model.safetensors").unlink()
    info = json.loads(mobius("info", folder, "--json").stdout)
    assert (info["kind"], info["model_type"], info["family"], info["task"], info["dtype"]) == ("model", "llama", "llama", "text-generation", "bf16")
    assert info["parameters"] == expected and info["bytes"] == {"f32": 4 * expected, "f16": 2 * expected, "bf16": 2 * expected}
    assert f"{expected:,}" in mobius("info", folder).stdout


# ── check ────────────────────────────────────────────────────────────────────────────────────────────────────────────────

WHEEL = Path(onnxruntime.__file__).parent / "capi"


@pytest.mark.parametrize("ep", ["default", "cpu"])
def test_check_runs_a_package_in_onnxruntime(mobius, built, ep):
    package = built(LLAMA, "--ep", ep)
    result = mobius("check", package, "--onnxruntime", WHEEL)
    assert result.returncode == 0 and onnxruntime.__version__ in result.stdout and "runs two steps" in result.stdout
    found = json.loads(mobius("check", package, "--json", env={"MOBIUS_ONNXRUNTIME": str(WHEEL)}).stdout)
    assert found["onnxruntime"] == onnxruntime.__version__ and found["components"][0]["problems"] == []


def test_check_tells_what_is_not_finite(mobius, tmp_path):
    folder = make_checkpoint(tmp_path / "model")
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes().replace(b"\0" * 1024, b"\xff" * 1024))  # NaN
    assert mobius("build", folder, tmp_path / "out").returncode == 0
    result = mobius("check", tmp_path / "out", "--onnxruntime", WHEEL)
    assert result.returncode == 1 and "logits has values that are not finite" in result.stdout


def test_check_needs_a_package_with_weights_and_a_library(mobius, built, tmp_path):
    result = mobius("check", tmp_path)
    assert result.returncode == 1 and "is no package" in result.stderr
    result = mobius("check", tmp_path / "nowhere")
    assert result.returncode == 1 and "nowhere does not exist" in result.stderr
    result = mobius("check", built(LLAMA, "--no-weights"), "--onnxruntime", WHEEL)
    assert result.returncode == 1 and "was built with --no-weights" in result.stderr
    result = mobius("check", built(LLAMA, "--ep", "default"), "--onnxruntime", tmp_path / "none")
    assert result.returncode == 1 and str(tmp_path / "none") in result.stderr


@pytest.mark.parametrize("command", ["info", "check"])
@pytest.mark.parametrize("damage,expected", [(lambda path: os.truncate(path, 0), "model.onnx"), (lambda path: os.truncate(path, 1000), "model.onnx: "),
                                             (lambda path: path.write_bytes(path.read_bytes()[:-1]), "model.onnx: ")])
def test_a_damaged_package_is_said_to_be_one(mobius, tmp_path, command, damage, expected):
    assert mobius("build", make_checkpoint(tmp_path / "model"), tmp_path / "out").returncode == 0
    damage(tmp_path / "out" / "model.onnx")
    result = mobius(command, tmp_path / "out")
    assert result.returncode == 1 and result.stdout == "" and expected in result.stderr and result.stderr.count("\n") == 1, result.stderr


# ── wrong use ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("arguments,found,listed", [
    (["--ep", "rocm"], "rocm", ["default", "cuda"]), (["--dtype", "f31"], "f31", ["f32", "f16", "bf16"]), (["--dtype", "int4"], "int4", ["f16"]),
    (["--ep", ""], "", ["default", "cuda"]), (["--task", "poetry"], "poetry", ["text-generation"]),
    (["--external-data", "zip"], "zip", ["safetensors"]), (["--as", "lama"], "lama", ["llama"]),
])
def test_values_outside_a_listed_set(mobius, model, tmp_path, arguments, found, listed):
    message = usage_error(mobius("build", model, tmp_path / "out", *arguments))
    assert arguments[0] in message and f"found '{found}'" in message and all(name in message for name in listed)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("arguments,expected", [
    (["build"], "MODEL is missing"), (["build", "{model}"], "output folder is missing"), (["build", "{model}", "a", "-o", "b"], "given twice"),
    (["build", "{model}", "a", "b"], "b"), (["build", "{model}", "a", "--frobnicate"], "--frobnicate"), (["build", "{model}", "a", "--threads", "many"], "found 'many'"),
    (["build", "{model}", "a", "--threads", "-1"], "found '-1'"), (["build", "{model}", "a", "--threads", "99999999999999999999"], "--threads"),
    (["build", "{model}", "a", "--ep"], "NAME"),
    (["build", "--model", "x", "--config", "y", "out"], "one of them"), (["build", "{model}", "a", "--max-shard-size", "5GB"], "--external-data safetensors"),
    (["build", "{model}", "a", "--external-data", "safetensors", "--max-shard-size", "huge"], "huge"), (["list"], "KIND"), (["list", "colours"], "models"),
    (["frobnicate"], "build"), (["info"], "WHAT"), (["completion", "tcsh"], "bash"), (["build", "{model}", "a", "--dtype"], "--dtype"),
    (["build-gguf"], "FILE"),
])
def test_usage_errors(mobius, model, tmp_path, arguments, expected):
    message = usage_error(mobius(*[a.format(model=model) for a in arguments], cwd=tmp_path))
    assert expected in message and "--help" in message


def test_without_a_command_there_is_help(mobius):
    result = mobius()
    assert result.returncode == 2 and "Commands:" in result.stderr


def test_help_and_version(mobius):
    assert re.fullmatch(r"mobius \d+\.\d+\.\d+\n", mobius("--version").stdout)
    program = mobius("--help")
    assert program.returncode == 0
    for command in re.findall(r"^  (\S+)  +\S", program.stdout.split("Options:")[0], re.MULTILINE):
        result = mobius(command, "--help")
        assert result.returncode == 0 and f"Usage: mobius {command}" in result.stdout and "Examples:" in result.stdout, command
        assert max(map(len, result.stdout.splitlines())) <= 120


@pytest.mark.parametrize("arguments", [["list", "models"], ["man"], ["completion", "zsh"], ["--help"], ["build", "--help"], ["--version"], ["build", "{model}", "{out}"]])
@pytest.mark.parametrize("where", ["full", "closed"])
def test_standard_output_that_cant_be_written_is_a_failure(model, tmp_path, arguments, where):
    command = [PROGRAM, *(a.format(model=model, out=tmp_path / "out") for a in arguments)]
    with open("/dev/full", "w") as full:
        result = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False,
                                preexec_fn=(lambda: os.close(1)) if where == "closed" else None)
    assert result.returncode == 1 and result.stderr == "mobius: error: cannot write to standard output\n"


@pytest.mark.parametrize("arguments,code", [(["build"], 2), ([], 2), (["build", "nowhere", "out"], 1)])
@pytest.mark.parametrize("where", ["full", "closed"])
def test_the_exit_code_holds_when_nobody_reads_the_message(arguments, code, where):
    with open("/dev/full", "w") as full:
        result = subprocess.run([PROGRAM, *arguments], stderr=full, stdout=subprocess.DEVNULL, check=False,
                                preexec_fn=(lambda: os.close(2)) if where == "closed" else None)
    assert result.returncode == code


def test_closed_streams_take_no_file_s_place(mobius, tmp_path):
    model = make_checkpoint(tmp_path / "model", {"torch_dtype": "bfloat16"}, "BF16")  # building says that the dtype changes
    assert mobius("build", model, tmp_path / "expected", "--quiet").returncode == 0
    result = subprocess.run([PROGRAM, "build", model, tmp_path / "out", "--trace"], preexec_fn=lambda: os.closerange(0, 3), check=False)
    assert result.returncode == 1
    assert snapshot(tmp_path / "out") == snapshot(tmp_path / "expected")


# ── completions and the manual page ──────────────────────────────────────────────────────────────────────────────────────


def complete_in_bash(mobius, *words):
    script = mobius("completion", "bash").stdout
    quoted = " ".join(f"'{word}'" for word in words)
    program = f"{script}\nCOMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _mobius; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    return subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=True).stdout.split()


def test_bash_completes(mobius):
    assert complete_in_bash(mobius, "mobius", "bu") == ["build", "build-gguf"]
    assert complete_in_bash(mobius, "mobius", "build", "--ep", "c") == ["cpu", "cuda"]
    assert complete_in_bash(mobius, "mobius", "build", "x", "--no") == ["--no-weights"]
    assert complete_in_bash(mobius, "mobius", "list", "e") == ["eps", "ep-fields"]


def test_the_example_of_completion_works_as_it_stands(mobius):
    example = re.search(r"^  (.*mobius completion bash.*)$", mobius("--help").stdout, re.MULTILINE)[1]
    result = subprocess.run(["bash", "-c", f"{example} && complete -p mobius"], capture_output=True, text=True, check=False,
                            env={**os.environ, "PATH": f"{PROGRAM.parent}:{os.environ['PATH']}", "HOME": "/nowhere"})
    assert result.returncode == 0 and result.stdout == "complete -F _mobius mobius\n", result.stderr


@pytest.mark.parametrize("shell,check", [("bash", ["bash", "-n"]), ("zsh", ["zsh", "-n"]), ("fish", ["fish", "--no-execute"])])
def test_completion_scripts_parse(mobius, tmp_path, shell, check):
    script = tmp_path / "script"
    script.write_text(mobius("completion", shell).stdout)
    for word in ("build-gguf", "no-weights", "onnx-standard", "text-generation"):
        assert word in script.read_text()
    if shutil.which(shell):
        subprocess.run([*check, script], check=True)


def test_the_manual_page_names_every_option(mobius):
    page = mobius("man").stdout
    assert page.startswith(".TH MOBIUS 1")
    for option in re.findall(r"--[a-z-]+", mobius("build", "--help").stdout):
        assert option.replace("-", "\\-") in page, option
    if shutil.which("groff"):
        result = subprocess.run(["groff", "-man", "-Tascii", "-ww"], input=page, capture_output=True, text=True, check=True)
        assert result.stderr == ""
