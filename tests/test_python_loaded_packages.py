"""Packages that were saved and loaded: without weights, for a runtime, changed since, damaged."""
import json
import shutil

import mobius
import numpy as np
import pytest
from checkpoints import LLAMA, snapshot
from mobius import ModelPackage
from python_support import run_logits
from test_families import FOLDERS

IDS = np.array([[5, 17, 150, 3, 42, 99, 8]])

# ── without weights ──


@pytest.mark.parametrize("case, options", [("llama", {}), ("llama", {"execution_provider": "cpu"}), ("gpt2", {"execution_provider": "cuda", "dtype": "f16"}),
                                           ("mixtral", {"execution_provider": "cpu", "padding": "any"}), ("falcon_h1", {"execution_provider": "cpu"})])
def test_a_package_without_weights_is_loaded_and_gets_them_later(case, options, tmp_path):
    """By their names in the checkpoint, although the file knows packed, interleaved and computed ones only as what they have become."""
    mobius.build(FOLDERS[case], load_weights=False, **options).save(tmp_path / "graph")
    loaded = ModelPackage.load(tmp_path / "graph")
    assert not loaded.has_weights and "without weights" in repr(loaded)
    loaded.save(tmp_path / "again")
    assert snapshot(tmp_path / "again") == snapshot(tmp_path / "graph")
    weights = mobius.load_checkpoint(FOLDERS[case])
    loaded.apply_weights(weights)
    assert loaded.has_weights
    loaded.save(tmp_path / "whole")
    mobius.build(FOLDERS[case], **options).save(tmp_path / "want")
    assert snapshot(tmp_path / "whole") == snapshot(tmp_path / "want")


def test_without_weights_a_module_of_ones_own_waits_by_the_names_of_its_graph(tmp_path):
    class Mine(mobius.models.CausalLMModel):
        def forward(self, op, input_ids, at):
            return op.Tanh(super().forward(op, input_ids, at))

    config = mobius.ArchitectureConfig.from_pretrained(LLAMA)
    mobius.build_from_module(Mine(config), config).save(tmp_path / "graph")
    whole = mobius.build_from_module(Mine(config), config, weights=LLAMA)
    loaded = ModelPackage.load(tmp_path / "graph")
    weights = whole["model"].initializers
    with pytest.raises(FileNotFoundError, match="no model of the package has a parameter lm_head.bias"):
        loaded.apply_weights({"lm_head.bias": np.zeros(1)})
    loaded.apply_weights({name: weights[name] for name in weights if name.endswith(".weight")})
    with pytest.raises(FileNotFoundError, match="rotary_emb.cos_cache"):  # tables are computed by the build, and not in the file either
        loaded.save(tmp_path / "part")
    loaded.apply_weights({name: weights[name] for name in weights if name.startswith("rotary_emb.")})
    loaded.save(tmp_path / "whole")
    assert np.array_equal(run_logits(tmp_path / "whole" / "model.onnx", IDS), run_logits(whole["model"].to_bytes(), IDS))


def test_each_weight_is_taken_once_and_all_or_none_of_a_call(tmp_path):
    package = mobius.build(LLAMA, load_weights=False)
    weights = mobius.load_checkpoint(LLAMA)
    package["more"] = mobius.build(LLAMA, load_weights=False, execution_provider="cpu")["model"]
    wrong = dict(weights) | {"model.norm.weight": np.zeros(3, np.float32)}
    with pytest.raises(ValueError, match=r"model.norm.weight is \[3\], expected \[64\]"):
        package.apply_weights(wrong)
    package.apply_weights(weights)
    assert package.has_weights
    for again in (lambda: package.apply_weights({"model.norm.weight": weights["model.norm.weight"]}),
                  lambda: mobius.apply_weights(package["model"], {"model.norm.weight": weights["model.norm.weight"]})):
        with pytest.raises(ValueError, match="^model.norm.weight: the (package|model) has a value for it already, and takes each weight once"):
            again()
    del package["more"]
    package.save(tmp_path / "out")
    with pytest.raises(ValueError, match="^model.norm.weight: the package has a value for it already"):
        ModelPackage.load(tmp_path / "out").apply_weights({"model.norm.weight": weights["model.norm.weight"]})

def test_arrays_of_any_layout_are_the_same_weights():
    weights = mobius.load_checkpoint(LLAMA)
    want = run_logits(mobius.build(LLAMA)["model"].to_bytes(), IDS)

    def strided(array):
        wide = np.zeros([2 * size for size in array.shape], array.dtype)
        part = wide[tuple(slice(None, None, 2) for _ in array.shape)]
        part[...] = array
        return part

    for layout in (lambda a: a.astype(">f4"), lambda a: a.astype(">f8"), strided, np.asfortranarray, lambda a: a[::-1].copy()[::-1], lambda a: a.tolist()):
        model = mobius.build(LLAMA, load_weights=False)["model"]
        mobius.apply_weights(model, {name: layout(array) for name, array in weights.items()})
        assert np.array_equal(run_logits(model.to_bytes(), IDS), want)


def test_names_of_one_weight_hold_one_weight():
    norm = mobius.load_checkpoint(LLAMA)["model.norm.weight"]
    model = mobius.build(LLAMA, load_weights=False)["model"]
    with pytest.raises(ValueError, match="^norm.weight differs from model.norm.weight, although they are one weight of the model: give one of them"):
        mobius.apply_weights(model, {"model.norm.weight": norm, "norm.weight": norm * 2})
    with pytest.raises(TypeError, match="norm.weight is a MaskedArray, expected an array without a mask"):
        mobius.apply_weights(model, {"norm.weight": np.ma.array(norm, mask=True)})
    mobius.apply_weights(model, {"model.norm.weight": norm, "norm.weight": norm.astype(np.float64)})
    assert np.array_equal(model.initializers["model.norm.weight"], norm)


# ── what a runtime was told ──


@pytest.fixture
def piped(tmp_path):
    """A package for ONNX Runtime GenAI that has both of its files: the config and the small model."""
    mobius.build(FOLDERS["minimax"], execution_provider="cpu", dtype="f32").save(tmp_path / "piped", runtime="ort-genai")
    return ModelPackage.load(tmp_path / "piped")


def replaced(package):
    package["model"] = mobius.build(FOLDERS["llama"], execution_provider="cpu", dtype="f32")["model"]


def optimised(package):
    mobius.optimize_model(package["model"], ep="onnx-standard")


def one_more(package):
    package["more"] = package["model"].clone()


@pytest.mark.parametrize("change", [replaced, optimised, one_more], ids=lambda f: f.__name__)
def test_what_describes_other_graphs_is_left_out(piped, tmp_path, change):
    change(piped)
    with pytest.warns(UserWarning, match="^genai_config.json, model_states.onnx left out: made for the graphs that the package had before; runtime writes") as told:
        piped.save(tmp_path / "out")
    assert len(told) == 1 and not {"genai_config.json", "model_states.onnx"} & {p.name for p in (tmp_path / "out").iterdir()}


def test_what_describes_other_graphs_is_written_anew_for_the_runtime(piped, tmp_path, recwarn):
    replaced(piped)
    piped.config = json.loads((FOLDERS["llama"] / "config.json").read_text())
    piped.save(tmp_path / "out", runtime="ort-genai")
    assert not recwarn.list
    config = json.loads((tmp_path / "out" / "genai_config.json").read_text())
    assert config["model"]["type"] == "llama" and not (tmp_path / "out" / "model_states.onnx").exists()


def test_other_weights_leave_the_description_true(tmp_path, recwarn):
    folder = FOLDERS["llama"]
    mobius.build(folder, load_weights=False, execution_provider="cpu").save(tmp_path / "graph", runtime="ort-genai")
    loaded = ModelPackage.load(tmp_path / "graph")
    loaded.apply_weights(mobius.load_checkpoint(folder))
    loaded["model"] = loaded["model"].clone()
    loaded.copy().save(tmp_path / "whole")
    assert (tmp_path / "whole" / "genai_config.json").read_bytes() == (tmp_path / "graph" / "genai_config.json").read_bytes() and not recwarn.list


def test_a_checkpoint_s_own_description_is_of_other_graphs(tmp_path, recwarn):
    shutil.copytree(FOLDERS["llama"], tmp_path / "model")
    (tmp_path / "model" / "genai_config.json").write_text("{}")
    package = mobius.build(tmp_path / "model")
    assert "genai_config.json" not in package.files
    package.save(tmp_path / "out")
    assert not (tmp_path / "out" / "genai_config.json").exists() and not recwarn.list


def test_a_model_of_the_runtime_s_own_stays_with_its_package(tmp_path):
    """ONNX Runtime GenAI has a small model beside the decoder there."""
    mobius.build(FOLDERS["minimax"], execution_provider="cpu", dtype="f32").save(tmp_path / "one", runtime="ort-genai")
    loaded = ModelPackage.load(tmp_path / "one")
    assert list(loaded) == ["model"]
    for copy, options in (("two", {}), ("three", {"runtime": "ort-genai"})):
        loaded.save(tmp_path / copy, **options)
        for name in ("model_states.onnx", "genai_config.json"):
            assert (tmp_path / copy / name).read_bytes() == (tmp_path / "one" / name).read_bytes()


# ── damaged ones ──


def test_a_damaged_package_is_told_by_its_file(tmp_path):
    mobius.build(LLAMA).save(tmp_path / "good")
    def broken(name, content=None):
        shutil.rmtree(tmp_path / "bad", ignore_errors=True)
        shutil.copytree(tmp_path / "good", tmp_path / "bad")
        if content is None:
            (tmp_path / "bad" / name).unlink()
        else:
            (tmp_path / "bad" / name).write_bytes(content)
        return ModelPackage.load(tmp_path / "bad")

    with pytest.raises(FileNotFoundError, match="model.onnx.data"):
        broken("model.onnx.data")
    with pytest.raises(ValueError, match="model.onnx.data"):
        broken("model.onnx.data", b"short")
    with pytest.raises(ValueError, match="config.json"):
        broken("config.json", b"{")
    with pytest.raises(ValueError, match="model.onnx"):
        broken("model.onnx", (tmp_path / "good" / "model.onnx").read_bytes()[:-100])
    assert broken("config.json").config is None
