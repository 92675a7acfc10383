"""ModelPackage: a dict of models that can be saved, loaded, changed and looked at; progress and Ctrl-C."""
import json
import os
import signal
import subprocess
import sys
import time

import mobius
import numpy as np
import pytest
from checkpoints import LLAMA, make_checkpoint, snapshot
from conftest import run_mobius
from mobius import ModelPackage
from python_support import python, random_checkpoint, run_logits

IDS = np.array([[5, 17, 150, 3, 42, 99, 8]])


@pytest.fixture
def package():
    return mobius.build(LLAMA, execution_provider="cpu")


def test_is_a_dict_of_models(package):
    assert list(package) == ["model"] and len(package) == 1 and isinstance(package["model"], mobius.Model)
    copied = package.copy()
    copied["again"] = package["model"].clone()
    assert list(copied) == ["model", "again"] and list(package) == ["model"] and copied.config == package.config
    assert copied.pop("again") and copied.get("again") is None and copied.setdefault("model") is package["model"]
    assert list(ModelPackage.fromkeys(["a", "b"], package["model"])) == ["a", "b"]
    assert list(package | {"more": package["model"].clone()}) == ["model", "more"]
    with pytest.raises(ValueError, match="no name of a component"):
        package["a/b"] = package["model"]
    with pytest.raises(TypeError, match="expected a mobius.Model"):
        package["x"] = object()


def test_takes_models_of_others_and_gives_them_roles(package):
    made = ModelPackage({"model": package["model"].to_onnx(), "vision": mobius.nn.build_graph(lambda op, x: op.Relu(x), {"x": ("f32", [1])}).to_onnx_ir()})
    assert {name: model.role for name, model in made.items()} == {"model": "decoder", "vision": "vision"}


def test_repr_shows_what_is_inside(package):
    text = repr(package)
    for part in ("ModelPackage(llama", "model: decoder, cpu f32, ", " nodes, ", "input_ids INT64[batch, sequence_len]", "out  logits FLOAT[batch, sequence_len, 160]",
                 "files: config.json, generation_config.json"):
        assert part in text, text
    assert repr(ModelPackage()) == "ModelPackage({})"
    assert "without weights" in repr(mobius.build(LLAMA, load_weights=False))


def test_is_what_the_command_line_writes(package, tmp_path):
    written = package.save(tmp_path / "ours")
    assert written == package.plan() and {name for name, _ in written} == {p.name for p in (tmp_path / "ours").iterdir()}
    assert run_mobius("build", LLAMA, "-o", tmp_path / "theirs", "--ep", "cpu").returncode == 0
    assert snapshot(tmp_path / "ours") == snapshot(tmp_path / "theirs")


def test_loads_what_was_saved(package, tmp_path):
    package.save(tmp_path / "a")
    loaded = ModelPackage.load(tmp_path / "a")
    assert loaded.config == package.config == json.loads((tmp_path / "a" / "config.json").read_text()) and loaded.files == package.files
    assert loaded.read_file("config.json") == (tmp_path / "a" / "config.json").read_bytes()
    loaded.save(tmp_path / "b")
    assert snapshot(tmp_path / "a") == snapshot(tmp_path / "b")
    with pytest.raises(FileNotFoundError, match="no such folder"):
        ModelPackage.load(tmp_path / "absent")
    with pytest.raises(FileNotFoundError, match="no package"):
        ModelPackage.load(LLAMA)
    with pytest.raises(ValueError):
        loaded.save(tmp_path / "a")  # its weights are there


def test_options_of_save(package, tmp_path):
    names = {name for name, _ in package.save(tmp_path / "s", external_data="safetensors", max_shard_size="100KB")}
    assert "model.safetensors.index.json" in names and sum(name.startswith("model-0000") for name in names) >= 3
    assert "genai_config.json" in {name for name, _ in package.save(tmp_path / "g", runtime="ort-genai", context_length=64)}
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("x")
    with pytest.raises(ValueError, match="full"):
        package.save(tmp_path / "full")
    package.save(tmp_path / "full", force=True)
    for wrong in ({"external_data": "hdf5"}, {"runtime": "tflite"}, {"max_shard_size": "large"}):
        with pytest.raises(ValueError, match=next(iter(wrong.values()))):
            package.save(tmp_path / "never", **wrong)
    assert not (tmp_path / "never").exists()


def test_several_components_are_saved_in_folders(package, tmp_path):
    package["second"] = package["model"].clone()
    package.save(tmp_path / "out")
    assert (tmp_path / "out" / "second" / "model.onnx").exists()
    assert sorted(ModelPackage.load(tmp_path / "out")) == ["model", "second"]
    package["third"] = package["model"]
    with pytest.raises(ValueError, match="'third' is the same model as another component"):
        package.save(tmp_path / "again")
    assert package["model"].op_counts(), "the models are whole after a failed save"


def test_config_may_be_ones_own(package, tmp_path):
    own = {"model_type": "mine", "hidden_size": 64}
    made = ModelPackage({"model": package["model"]}, own)
    made.save(tmp_path / "out")
    assert made.config == own == ModelPackage.load(tmp_path / "out").config and made.files == ["config.json"]
    config = mobius.ArchitectureConfig.from_pretrained(LLAMA)
    assert ModelPackage({"model": package["model"]}, config).config is config
    package.config = own
    package.save(tmp_path / "changed")
    assert json.loads((tmp_path / "changed" / "config.json").read_text()) == own and "generation_config.json" in package.files
    package.config = None
    assert package.config is None and package.files == ["generation_config.json"]
    for wrong, kind in (({"a": object()}, TypeError), ({"a": float("nan")}, ValueError), ({"a": np.int64(1)}, TypeError), ({"a": "\ud800"}, ValueError)):
        with pytest.raises(kind, match="^config is no JSON: "):
            package.config = wrong
    assert package.config is None


def test_copies_are_packages_of_their_own(package):
    import copy

    made, deep = ModelPackage(package), copy.deepcopy(package)
    assert made.files == deep.files == package.files and made.config == deep.config == package.config
    assert made["model"] is package["model"] and deep["model"] is not package["model"] and deep["model"].to_bytes() == package["model"].to_bytes()
    made.config = {"model_type": "mine"}
    assert package.config["model_type"] == "llama"


def test_what_can_not_be_a_folder_of_models_is_told(package, tmp_path):
    for empty in (ModelPackage(), ModelPackage({}, {"model_type": "mine"})):
        with pytest.raises(ValueError, match="the package holds no model"):
            empty.save(tmp_path / "out")
    package["config.json"] = package["model"].clone()
    with pytest.raises(ValueError, match="component 'config.json' has the name of a file of the package"):
        package.save(tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_without_weights_no_data_is_written(tmp_path):
    package = mobius.build(LLAMA, load_weights=False)
    assert not package.has_weights
    package.save(tmp_path / "graph")
    assert not (tmp_path / "graph" / "model.onnx.data").exists()
    from safetensors.numpy import load_file

    weights = load_file(LLAMA / "model.safetensors")
    package.apply_weights({name: weights[name] for name in list(weights)[:3]})
    with pytest.raises(FileNotFoundError):  # a part of them is no package
        package.save(tmp_path / "part")
    with pytest.raises(FileNotFoundError, match="no model of the package has a parameter extra"):
        package.apply_weights({"extra": np.zeros(1)})
    package.apply_weights({name: value for name, value in weights.items() if name not in list(weights)[:3]})
    package.save(tmp_path / "whole")
    mobius.build(LLAMA).save(tmp_path / "want")
    assert snapshot(tmp_path / "whole") == snapshot(tmp_path / "want")


# ── progress ──


def test_progress_is_told(package, tmp_path):
    seen = []
    package.save(tmp_path / "out", progress=lambda done, total: seen.append((done, total)))
    assert seen and seen[-1][0] == seen[-1][1] and [d for d, _ in seen] == sorted(d for d, _ in seen)


def test_tqdm_shows_a_bar_when_it_is_asked_for(package, tmp_path, capfd):
    package.save(tmp_path / "a")
    assert capfd.readouterr().err == "", "not a terminal"
    package.save(tmp_path / "b", progress=True)
    assert "100%" in capfd.readouterr().err
    package.save(tmp_path / "c", progress=False)
    assert capfd.readouterr().err == ""


def test_without_tqdm_there_is_no_bar(package, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm", None)
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    package.save(tmp_path / "a", progress=True)


def test_an_exception_of_progress_stops_it_and_leaves_nothing(package, tmp_path):
    def stop(done: int, total: int) -> None:
        raise ZeroDivisionError("enough")

    with pytest.raises(ZeroDivisionError, match="enough"):
        package.save(tmp_path / "out", progress=stop)
    assert list(tmp_path.iterdir()) == []
    package.save(tmp_path / "out")
    assert np.isfinite(run_logits(tmp_path / "out" / "model.onnx", IDS)).all()


def test_ctrl_c_stops_a_save_cleanly(tmp_path):
    """The signal comes while weights are being written; the process has KeyboardInterrupt, the old package is as it was."""
    folder = make_checkpoint(tmp_path / "model", {"hidden_size": 1024, "intermediate_size": 8192, "vocab_size": 64000, "num_attention_heads": 8, "num_hidden_layers": 8})
    mobius.build(LLAMA).save(tmp_path / "out")
    before = snapshot(tmp_path / "out")
    code = f"""
import mobius, sys
package = mobius.build({str(folder)!r}, dtype='f16')
def tell(done, total):
    print(done, flush=True)
try:
    package.save({str(tmp_path / 'out')!r}, progress=tell)
except KeyboardInterrupt:
    print('stopped', package['model'].op_counts()['Attention'], flush=True)
    sys.exit(130)
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=os.environ)
    assert process.stdout.readline().strip().isdigit()
    process.send_signal(signal.SIGINT)
    rest = process.stdout.read()
    assert process.wait() == 130 and "stopped 8" in rest
    assert snapshot(tmp_path / "out") == before and sorted(p.name for p in tmp_path.iterdir()) == ["model", "out"]


def test_ctrl_c_stops_a_build(tmp_path):
    folder = make_checkpoint(tmp_path / "model", {"hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 400})
    code = f"""
import mobius
print('go', flush=True)
try:
    while True:
        mobius.build({str(folder)!r}, load_weights=False)
except KeyboardInterrupt:
    print('stopped')
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=os.environ)
    process.stdout.readline()
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=120)[0] == "stopped\n" and process.returncode == 0


# ── from other sources ──


def test_builds_from_a_gguf_file():
    from conftest import TESTDATA

    file = TESTDATA / "gguf" / "tiny_llama.gguf"
    package = mobius.build_from_gguf(file)
    assert package["model"].metadata["mobius.dtype"] == "f32" and package["model"].to_bytes() == mobius.build(file)["model"].to_bytes()
    for more in ({"keep_quantized": True}, {"mmproj": "x"}, {"static_cache": True}, {"max_seq_len": 4}):
        with pytest.raises(NotImplementedError, match=next(iter(more))):
            mobius.build_from_gguf(file, **more)


def test_options_reach_the_build(tmp_path):
    folder = random_checkpoint(tmp_path / "model")
    assert mobius.build(folder, opset=21)["model"].opset_imports[""] == 21
    assert mobius.build(folder, execution_provider="cpu", padding="any")["model"].metadata["mobius.padding"] == "any"
    assert mobius.build(folder, as_type="mistral")["model"].metadata["mobius.model_type"] == "mistral"
    assert mobius.build(folder, "text-generation", trust_remote_code=True)
    with pytest.raises(ValueError, match="task 'feature-extraction'"):
        mobius.build(folder, task="feature-extraction")
    with pytest.raises(ValueError, match="padding is 'left'"):
        mobius.build(folder, padding="left")
    for more in ({"output_layer_indices": [1]}, {"text_only": True}, {"fp8_kv_cache": True}, {"kv_cache_scales": {0: (1.0, 1.0)}}, {"prune_lm_head": True}):
        with pytest.raises(NotImplementedError, match=next(iter(more))):
            mobius.build(folder, **more)


def test_errors_are_pythons(tmp_path):
    with pytest.raises(FileNotFoundError) as absent:
        mobius.build("nobody/nothing")
    assert isinstance(absent.value, mobius.Error) and isinstance(absent.value, KeyError) and "nobody/nothing" in str(absent.value)
    strange = make_checkpoint(tmp_path / "strange", {"model_type": "quantum"})
    with pytest.raises(NotImplementedError, match="quantum"):
        mobius.build(strange)
    (tmp_path / "strange" / "config.json").write_text("{")
    with pytest.raises(ValueError, match="config.json"):
        mobius.build(strange)


def test_errors_name_arguments_not_options(package, tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(ValueError, match="; force replaces it with all its files"):
        package.save(tmp_path)
    folder = make_checkpoint(tmp_path / "model", {"num_hidden_layers": 3})
    config = json.loads((folder / "config.json").read_text()) | {"num_hidden_layers": 2}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match=r"\(ignore_extra GLOB to allow unused tensors\)"):
        mobius.build(folder)


def test_what_is_told_goes_to_logging_and_warnings(tmp_path):
    code = f"""
import logging, warnings, mobius
logging.basicConfig(level=logging.INFO, format='%(name)s|%(levelname)s|%(message)s')
logging.captureWarnings(True)
mobius.build({str(make_checkpoint(tmp_path / 'bf16', {'torch_dtype': 'bfloat16'}, 'BF16'))!r}, execution_provider='cpu', load_weights=False)
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "" and any(line.startswith("mobius|INFO|") for line in result.stderr.splitlines()), result.stderr


def test_warnings_may_be_errors(tmp_path):
    folder = make_checkpoint(tmp_path / "model", {"hidden_size": 48, "num_attention_heads": 4, "num_key_value_heads": 2})
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="GQA fusion expected"):
            mobius.build(folder, execution_provider="cuda", dtype="f16", load_weights=False)


def test_the_registry_of_model_types():
    assert "qwen3" in mobius.registry and mobius.registry["qwen3"].task == "text-generation" and mobius.registry["code_llama"].family == "llama"
    with pytest.raises(KeyError, match="near: .*llama"):
        mobius.registry["lama"]


def test_importing_costs_little():
    code = "import time; t = time.perf_counter(); import mobius; print(time.perf_counter() - t); import sys; print('numpy' in sys.modules)"
    runs = [python(code).split() for _ in range(5)]
    assert min(float(seconds) for seconds, _ in runs) <= 0.05 and all(numpy == "False" for _, numpy in runs)
