"""What is no argument: every public function is called with odd things in each place. The message names the argument, what was found and what was
expected; nothing of the binding shows, and nothing is taken for something else in silence."""
import dataclasses
import itertools
import re

import mobius
import numpy as np
import pytest
from checkpoints import LLAMA
from conftest import ROOT, TESTDATA
from mobius import ArchitectureConfig, Model, ModelPackage

GGUF = TESTDATA / "gguf" / "tiny_llama.gguf"
CONFIG = ArchitectureConfig(vocab_size=64, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2)
ODD = [None, 5, -1, 2.5, True, "x", "", "a\0b", b"x", [], {}, [5], {"a": 1}, object(), np.zeros(2), np.array(None), (1, 2), float("nan"), 10**30, {1: 2}, int,
       len, "\udc80"]


@pytest.fixture(scope="module")
def package():
    return mobius.build(LLAMA, execution_provider="cpu")


@pytest.fixture(scope="module")
def waiting():
    return mobius.build(LLAMA, load_weights=False)


def build_from_module(**arguments):
    return mobius.build_from_module(**{"module": mobius.models.CausalLMModel(CONFIG), "config": CONFIG, **arguments})


def calls(package: ModelPackage, waiting: ModelPackage, folder) -> dict:
    """Name of an argument -> a call with it."""
    def each(function, names: str, **given):
        return {f"{function.__qualname__}({name})": lambda v, name=name: function(**{**given, name: v}) for name in names.split()}

    def optimize_model(**arguments):
        return mobius.optimize_model(**{"model": package["model"].clone(), **arguments})

    numbers = itertools.count()

    def save(**arguments):
        return package.copy().save(**{"directory": folder / f"save{next(numbers)}", **arguments})

    def save_model(**arguments):
        return package["model"].save(**{"path": folder / f"{next(numbers)}.onnx", **arguments})

    def change(name):
        return lambda v: setattr(package["model"].clone(), name, v)

    def context(capabilities, dtype):
        with mobius.build_context(capabilities, dtype):
            pass

    def config_of(**arguments):
        return mobius.models.CausalLMModel(dataclasses.replace(CONFIG, **arguments))

    out = {
        **each(mobius.build, "model_id task module_class dtype load_weights execution_provider trace_optimization opset padding as_type ignore_extra revision",
               model_id=LLAMA),
        **each(mobius.build_from_gguf, "gguf_path task dtype execution_provider trace_optimization", gguf_path=GGUF),
        **each(build_from_module, "module config task execution_provider trace_optimization weights dtype opset padding ignore_extra"),
        **each(optimize_model, "model ep dtype model_role trace padding opset skip"),
        **each(mobius.apply_weights, "model state_dict", model=waiting["model"], state_dict={}),
        **each(save, "directory external_data max_shard_size runtime context_length force"),
        **each(package.plan, "external_data max_shard_size runtime context_length"),
        **each(save_model, "path external_data max_shard_size"),
        **each(config_of, " ".join(f.name for f in dataclasses.fields(CONFIG))),
        **each(context, "capabilities dtype", capabilities=mobius.get_ep("cpu"), dtype="f32"),
        **{f"{f.__qualname__}": f for f in (ModelPackage.load, ModelPackage, Model, Model.load, Model.from_bytes, Model.from_text, Model.from_onnx, Model.from_onnx_ir,
                                            Model.of, package["model"].to_text, mobius.load_checkpoint, mobius.get_ep, mobius.register_ep, ArchitectureConfig.from_dict,
                                            ArchitectureConfig.from_pretrained, waiting.apply_weights, package.read_file)},
        "weight": lambda v: mobius.apply_weights(waiting["model"], {"model.norm.weight": v}),
        "weight of a package": lambda v: waiting.apply_weights({"model.norm.weight": v}),
        "role": change("role"), "metadata": change("metadata"), "folder": lambda v: Model.from_bytes(package["model"].to_bytes(), v),
        "component": lambda v: package.copy().__setitem__("x", v), "name": lambda v: package.copy().__setitem__(v, package["model"].clone()),
        "task.config": lambda v: mobius.CausalLMTask().build(mobius.models.CausalLMModel(CONFIG), v),
    }
    return out


def badly_told(places: dict) -> list[str]:
    """What comes of each odd thing in each place, where that is neither a result nor an error in words of Python."""
    wrong = []
    for (name, call), odd in itertools.product(places.items(), ODD):
        try:
            call(odd)
        except (TypeError, ValueError, mobius.Error) as error:
            if re.search("incompatible|Unable to cast|_native[.:]|pybind|C\\+\\+", str(error).replace("'mobius._native.Tensor'", "")) or isinstance(error, mobius.InternalError):
                wrong.append(f"{name} of {odd!r}: {error}")
        except Exception as error:  # noqa: BLE001
            wrong.append(f"{name} of {odd!r}: {type(error).__name__}: {error}")
    return wrong


def test_odd_arguments_are_told_in_words_of_python(package, waiting, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert not badly_told(calls(package, waiting, tmp_path))
    assert not waiting.has_weights, "nothing of that was a weight"


def test_odd_arguments_of_modules_are_told_in_words_of_python():
    nn = mobius.nn

    def graph(body, **x):
        return nn.build_graph(body, x or {"x": ("f32", ["batch", 4])})

    places = {
        "function": lambda v: nn.build_graph(v, {"x": ("f32", [1])}), "inputs": lambda v: nn.build_graph(lambda op, **x: op.Relu(0.5), v),
        "input": lambda v: graph(lambda op, x: op.Relu(x), x=v), "dtype": lambda v: graph(lambda op, x: op.Relu(x), x=(v, [1])),
        "shape": lambda v: graph(lambda op, x: op.Relu(x), x=("f32", v)), "size": lambda v: graph(lambda op, x: op.Relu(x), x=("f32", [v])),
        "result": lambda v: graph(lambda op, x: v), "in_features": lambda v: nn.Linear(v, 4), "parameter": lambda v: nn.Parameter(v),
        "operand": lambda v: graph(lambda op, x: op.Add(x, v)), "axis": lambda v: graph(lambda op, x: op.Softmax(x, axis=v)),
        "perm": lambda v: graph(lambda op, x: op.Transpose(x, perm=v)), "alpha": lambda v: graph(lambda op, x: op.LeakyRelu(x, alpha=v)),
        "_outputs": lambda v: graph(lambda op, x: op.Split(x, axis=1, num_outputs=2, _outputs=v)[0]), "to": lambda v: graph(lambda op, x: op.Cast(x, to=v)),
        "constant": lambda v: graph(lambda op, x: op.constant(v)), "activation": lambda v: graph(lambda op, x: op.activation(v, x)),
        "layer_idx": lambda v: mobius.components.Attention(CONFIG, v), "rope": lambda v: build_from_module(module=lambda op, ids, at: at.rope(v, 2, CONFIG.native())),
        "logits": lambda v: build_from_module(module=lambda op, ids, at: v), "modules": lambda v: nn.ModuleList(v),
    }
    assert not badly_told(places)
    with pytest.raises(ValueError, match="_outputs is 10+, expected a number of results"):
        places["_outputs"](10**30)
    with pytest.raises(ValueError, match="Split would have 1000000 results, expected at most 65536"):
        places["_outputs"](10**6)
    with pytest.raises(TypeError, match=r"the shape of input x\[0\] is 2.5, expected a number of elements, a name or None"):
        places["size"](2.5)
    with pytest.raises(TypeError, match="the result for output is None, expected a tensor of the graph"):
        places["result"](None)


def save(package, **arguments):
    package.save("never", **arguments)


@pytest.mark.parametrize("call, kind, message", [
    (lambda p, w: mobius.apply_weights(w, {}), TypeError, r"model is a ModelPackage, expected a mobius.Model \(a package has apply_weights itself\)"),
    (lambda p, w: mobius.apply_weights(w["model"], [1]), TypeError, "state_dict is a list, expected a dict of arrays by name"),
    (lambda p, w: mobius.apply_weights(w["model"], {5: 1}), TypeError, "state_dict has the key 5, expected a dict of arrays by name"),
    (lambda p, w: w.apply_weights(None), TypeError, "state_dict is None, expected a dict"),
    (lambda p, w: w.apply_weights({"model.norm.weight": None}), TypeError, "model.norm.weight is None, expected an array"),
    (lambda p, w: w.apply_weights({"model.norm.weight": np.array([None] * 64)}), TypeError,
     r"model.norm.weight is a ndarray, expected an array of numbers: its elements are Python objects \(NoneType\)"),
    (lambda p, w: w.apply_weights({"model.norm.weight": [[1], [1, 2]]}), ValueError, "model.norm.weight is a list, expected an array of numbers"),
    (lambda p, w: mobius.optimize_model(p["model"], skip=[5]), TypeError, r"skip\[0\] is 5, expected a str"),
    (lambda p, w: mobius.optimize_model(p["model"], skip=5), TypeError, "skip is 5, expected a list of names"),
    (lambda p, w: mobius.optimize_model(p["model"], opset="a"), TypeError, "opset is 'a', expected a whole number"),
    (lambda p, w: mobius.optimize_model(p["model"], dtype=5), ValueError, "dtype is INT16, expected FLOAT, FLOAT16 or BFLOAT16"),
    (lambda p, w: mobius.optimize_model(p["model"], dtype=99), ValueError, "dtype 99 is not the number of an element type"),
    (lambda p, w: mobius.optimize_model("model.onnx"), TypeError, r"model is 'model.onnx', expected what can be changed in place: a mobius.Model \(Model.load reads"),
    (lambda p, w: build_from_module(config={}), TypeError, r"config is a dict, expected an ArchitectureConfig \(ArchitectureConfig.from_dict makes one of a dict\)"),
    (lambda p, w: build_from_module(config=None), TypeError, "config is None, expected an ArchitectureConfig"),
    (lambda p, w: build_from_module(config=ArchitectureConfig), TypeError, "config is the class ArchitectureConfig, expected an ArchitectureConfig"),
    (lambda p, w: build_from_module(config=p.config), TypeError, "config is a dict, expected"),
    (lambda p, w: mobius.build(LLAMA, module_class=mobius.models.CausalLMModel, as_type="llama"), ValueError, "as_type is for models that mobius has"),
    (lambda p, w: mobius.build(LLAMA, load_weights="no"), TypeError, "load_weights is 'no', expected True or False"),
    (lambda p, w: mobius.build(LLAMA, task=5), TypeError, "task is 5, expected the name of a task, or a ModelTask"),
    (lambda p, w: mobius.build("a\0b"), ValueError, "model_id is 'a.x00b', which no path can be: it has a NUL character"),
    (lambda p, w: save(p, context_length="5"), TypeError, "context_length is '5', expected a number of tokens"),
    (lambda p, w: save(p, context_length=64), ValueError, "context_length is 64, which says something to a runtime only; give runtime too"),
    (lambda p, w: save(p, max_shard_size="5GB"), ValueError, "max_shard_size is of files in safetensors; give external_data safetensors too"),
    (lambda p, w: save(p, runtime=5), TypeError, "runtime is 5, expected ort-genai"),
    (lambda p, w: save(p, runtime="tflite"), ValueError, "runtime is 'tflite', expected ort-genai"),
    (lambda p, w: p["model"].save("never.onnx", max_shard_size=5), ValueError, "give external_data='safetensors' too"),
    (lambda p, w: p.__setitem__("..", p["model"]), ValueError, "'..' is no name of a component"),
], ids=lambda v: "")
def test_messages_say_argument_found_and_expected(package, waiting, tmp_path, monkeypatch, call, kind, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(kind, match=message):
        call(package, waiting)
    assert not list(tmp_path.iterdir())


def test_what_stands_for_an_argument_is_taken(package, tmp_path):
    plain = package.plan()
    assert package.plan(context_length=np.int64(0), max_shard_size=np.int32(0)) == plain
    mobius.build(str(LLAMA).encode(), load_weights=np.bool_(False), ignore_extra=("a", "b"), opset=np.int64(21))
    report = mobius.optimize_model(package["model"].clone(), skip={"GQAFusion": 1}, trace=np.bool_(False))
    assert report


def test_paths_may_hold_any_bytes(package, tmp_path):
    """A name that is no UTF-8, as Python has it and as bytes; blanks and other alphabets."""
    import os

    for name in (os.fsdecode(b"a\xff"), b"b\xff", "in 中 ünï \U0001f600", " "):
        path = os.path.join(os.fsencode(tmp_path), name) if isinstance(name, bytes) else tmp_path / name
        package.save(path, progress=True)
        assert os.path.exists(os.path.join(path, b"model.onnx" if isinstance(path, bytes) else "model.onnx"))
        loaded = ModelPackage.load(path)
        assert loaded["model"].op_counts() == package["model"].op_counts()
        file = os.path.join(os.fsencode(path), b"x\xfe.onnx")
        loaded["model"].save(file)
        assert Model.load(file).op_counts() == package["model"].op_counts()


def test_messages_name_options_as_python_has_them(package, tmp_path):
    """The program's flags are its own."""
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("x")
    with pytest.raises(ValueError, match="; force replaces it"):
        package.save(tmp_path / "full")
    (tmp_path / "full" / "mine.txt").unlink()
    package.save(tmp_path / "full")
    (tmp_path / "full" / "mine.txt").write_text("x")
    with pytest.raises(ValueError, match="; force replaces "):
        package.save(tmp_path / "full")
    without_length = ModelPackage({"model": package["model"].clone()}, {"vocab_size": 160})
    with pytest.raises(FileNotFoundError, match=r"give the context length \(context_length\)"):
        without_length.save(tmp_path / "never", runtime="ort-genai")
    config = ArchitectureConfig.from_pretrained(LLAMA)
    smaller = dataclasses.replace(config, num_hidden_layers=config.num_hidden_layers - 1)
    with pytest.raises(ValueError, match=r"\(ignore_extra GLOB to allow unused tensors\)"):
        mobius.build_from_module(mobius.models.CausalLMModel(smaller), smaller, weights=LLAMA)


def test_the_library_says_no_flags():
    """What it writes is read by users of C++ and Python too; option_name("force") is --force for the program's alone."""
    sources = [p for p in (ROOT / "mobius").rglob("*.[ch]pp") if not p.name.endswith("_test.cpp")]
    said = {f"{p.relative_to(ROOT)}: {line.strip()}" for p in sources for line in p.read_text().splitlines()
            if re.search(r'"[^"]*--[a-z][a-z-]+[^"]*"', line) and "hf download" not in line and "--revision" not in line and not line.strip().startswith("//")}
    assert not {line for line in said if "w.auto_pad" not in line}
