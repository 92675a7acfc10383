"""Makes the fixtures of this folder: small checkpoints exported to ONNX by the exporters that people use.

usage: python make.py [--golden DIR] [NAME ...]       all that this environment's packages can make, or those named

Three environments, each with torch 2.15.0, onnx 1.23.2, onnxscript 0.7.2, onnxruntime 1.32.0, safetensors 0.8.0 and
  transformers 5.24.0                                                            everything but optimum's
  transformers 4.57.6, optimum 2.1.0, optimum-onnx 0.1.0, accelerate 1.15.0      *.optimum18: the newest that optimum takes
  transformers 4.46.3, optimum 1.23.3, accelerate 1.15.0                         *.optimum14: of which the hubs are full
Not run in CI. Nothing is downloaded. To make all anew: delete *.onnx and *.weights, then run it in each of them.

What is done to a graph after its export, and no more: stack traces and the other long metadata of its nodes go, and
weights of 1 KiB and more move into MODEL.weights, which the fixtures of a model share: equal tensors are stored once.
Each graph is then run on ONNX Runtime, as it optimises and without optimisations, and compared with its case.
"""
import argparse
import fnmatch
import functools
import json
import pathlib
import shutil
import tempfile

import numpy as np
import onnx
import onnxruntime
import torch
import transformers
from onnx import numpy_helper
from safetensors.numpy import load_file, save_file
from transformers import AutoModelForCausalLM, BertConfig, BertModel, DynamicCache

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
MAIN, NEW_OPTIMUM, OLD_OPTIMUM = "5", "4.57", "4.46"
HERE_IS = next(e for e in (MAIN, NEW_OPTIMUM, OLD_OPTIMUM) if transformers.__version__.startswith(e + "."))
BATCH, NEW, PAST = 2, 3, 5  # sizes that the exporters see; all dynamic, and none of them 0 or 1, which torch.export treats apart

# name -> exporter, checkpoint, opset and attention implementation (None: what the exporter itself chooses)
FIXTURES = {
    "llama.dynamo18.sdpa": ("dynamo", "llama", 18, "sdpa"),
    "llama.dynamo18.eager": ("dynamo", "llama", 18, "eager"),
    "llama.dynamo23.sdpa": ("dynamo", "llama", 23, "sdpa"),
    "llama.dynamo23.eager": ("dynamo", "llama", 23, "eager"),
    "llama.dynamo24.sdpa": ("dynamo", "llama", 24, "sdpa"),
    "llama.script17.sdpa": ("script", "llama", 17, "sdpa"),
    "llama.script17.eager": ("script", "llama", 17, "eager"),
    "llama.transformers20": ("transformers", "llama", None, "sdpa"),
    "llama.transformers20.cpu": ("transformers-cpu", "llama", None, "sdpa"),
    "llama.optimum18": ("optimum", "llama", None, None),
    "llama.optimum14": ("optimum-old", "llama", None, None),
    "llama_f16.dynamo18.sdpa": ("dynamo", "llama_f16", 18, "sdpa"),
    "llama_f16.dynamo18.eager": ("dynamo", "llama_f16", 18, "eager"),
    "llama_f16.dynamo23.sdpa": ("dynamo", "llama_f16", 23, "sdpa"),
    "llama_f16.script17.eager": ("script", "llama_f16", 17, "eager"),
    "gpt2.dynamo18.sdpa": ("dynamo", "gpt2", 18, "sdpa"),
    "gpt2.dynamo18.eager": ("dynamo", "gpt2", 18, "eager"),
    "gpt2.dynamo23.sdpa": ("dynamo", "gpt2", 23, "sdpa"),
    "gpt2.script14.eager": ("script", "gpt2", 14, "eager"),
    "gpt2.optimum18": ("optimum", "gpt2", None, None),
    "gpt2.optimum14": ("optimum-old", "gpt2", None, None),
    "gpt_neox.dynamo18.sdpa": ("dynamo", "gpt_neox", 18, "sdpa"),
    "gpt_neox.dynamo23.sdpa": ("dynamo", "gpt_neox", 23, "sdpa"),
    "gpt_neox.script17.eager": ("script", "gpt_neox", 17, "eager"),
    "gpt_neox.optimum18": ("optimum", "gpt_neox", None, None),
    "bert.dynamo18.sdpa": ("dynamo", "bert", 18, "sdpa"),
    "bert.dynamo23.sdpa": ("dynamo", "bert", 23, "sdpa"),
    "bert.script14.eager": ("script", "bert", 14, "eager"),
    "bert.script17.sdpa": ("script", "bert", 17, "sdpa"),
    "bert.optimum18": ("optimum", "bert", None, None),
    "mixtral.dynamo18.batched": ("dynamo-batched", "mixtral", 18, "sdpa"),
    "mixtral.dynamo23.batched": ("dynamo-batched", "mixtral", 23, "sdpa"),
    "granitemoe.dynamo18.batched": ("dynamo-batched", "granitemoe", 18, "sdpa"),
    "pieces.dynamo18": ("dynamo", "pieces", 18, None),
    "pieces.dynamo23": ("dynamo", "pieces", 23, None),
    "pieces.script14": ("script", "pieces", 14, None),
    "pieces.script17": ("script", "pieces", 17, None),
}


# Models with their example inputs -------------------------------------------------------------------------------------


class WithCache(torch.nn.Module):
    """A decoder whose cache is a flat list of tensors, as the graph's inputs and outputs are."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask, position_ids, *past):
        cache = DynamicCache(config=self.model.config)
        for layer in range(len(past) // 2):
            cache.update(past[2 * layer], past[2 * layer + 1], layer)
        found = self.model(input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids, past_key_values=cache, use_cache=True)
        return found.logits, *[x for layer in found.past_key_values.layers for x in (layer.keys, layer.values)]


class Graph:
    """What an exporter needs: a module, example inputs, names, and the names of dynamic axes per input and output."""

    def __init__(self, module, inputs, names, dims, outputs, output_dims):
        self.module, self.inputs, self.names, self.dims, self.outputs, self.output_dims = module, inputs, names, dims, outputs, output_dims


def decoder(model):
    config = model.config
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    depth = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    layers = range(config.num_hidden_layers)
    past = [torch.randn(BATCH, heads, PAST, depth, dtype=model.dtype) for _ in layers for _ in "kv"]
    ids = torch.arange(BATCH * NEW).reshape(BATCH, NEW) + 3
    positions = torch.arange(PAST, PAST + NEW).expand(BATCH, NEW).contiguous()
    names = ["input_ids", "attention_mask", "position_ids"] + [f"past_key_values.{i}.{x}" for i in layers for x in ("key", "value")]
    token = {0: "batch", 1: "sequence"}
    dims = [token, {0: "batch", 1: "total_sequence"}, token] + [{0: "batch", 2: "past_sequence"} for _ in past]
    return Graph(WithCache(model), [ids, torch.ones(BATCH, PAST + NEW, dtype=torch.int64), positions, *past], names, dims,
                 ["logits"] + [f"present.{i}.{x}" for i in layers for x in ("key", "value")],
                 [token] + [{0: "batch", 2: "total_sequence"} for _ in past])  # fmt: skip


class Encoder(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask, token_type_ids):
        return self.model(input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids).last_hidden_state


def encoder(model):
    ids = torch.arange(BATCH * NEW).reshape(BATCH, NEW) + 3
    token = {0: "batch", 1: "sequence"}
    return Graph(Encoder(model), [ids, torch.ones_like(ids), torch.zeros_like(ids)], ["input_ids", "attention_mask", "token_type_ids"], [token] * 3,
                 ["last_hidden_state"], [token])  # fmt: skip


def bert():
    """An encoder with made weights; its reference, bert/io.safetensors, is this model's eager output in f32."""
    from pieces import randomise

    config = BertConfig(vocab_size=160, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=112, max_position_embeddings=96)
    model = BertModel(config, add_pooling_layer=False).eval()
    randomise(model)
    return model


def load(checkpoint, attention, golden):
    if checkpoint == "bert":
        model = bert()
        model.set_attn_implementation(attention)
        return model
    return AutoModelForCausalLM.from_pretrained(case_folder(checkpoint, golden), attn_implementation=attention, dtype="auto").eval()


def graph_of(checkpoint, attention, golden, exporter, opset):
    if checkpoint == "pieces":
        from pieces import Pieces

        # The TorchScript exporter has neither grouped SDPA nor torch's own RMSNorm. At opset 23 Gemma's norm in f16 becomes
        # RMSNormalization of f16 with a scale in f32: within the specification, but ONNX Runtime has no kernel for it.
        module = Pieces(leave_out=("sdpa_grouped", "rms_torch", "rms_torch_f16") if exporter == "script" else ("rms_gemma_f16",) if opset == 23 else ())
        return Graph(module, module.inputs(), module.names(), module.dims(), list(module.shapes), [{} for _ in module.shapes])
    model = load(checkpoint, attention, golden)
    if exporter == "dynamo-batched":
        model.set_experts_implementation("batched_mm")
    return encoder(model) if checkpoint == "bert" else decoder(model)


# Exporters: each leaves FOLDER/model.onnx -----------------------------------------------------------------------------


def export_dynamo(graph, folder, opset):
    # transformers' models take *past as one tuple of tensors, and so does torch.export
    fixed = [d for d, n in zip(graph.dims, graph.names) if "." not in n]
    rest = tuple(d for d, n in zip(graph.dims, graph.names) if "." in n)
    torch.onnx.export(graph.module, tuple(graph.inputs), folder / "model.onnx", input_names=graph.names, output_names=graph.outputs, opset_version=opset,
                      dynamo=True, external_data=False, verbose=False, dynamic_shapes=(*fixed, rest) if rest else tuple(fixed))  # fmt: skip


def export_script(graph, folder, opset):
    axes = dict(zip(graph.names + graph.outputs, graph.dims + graph.output_dims))
    torch.onnx.export(graph.module, tuple(graph.inputs), folder / "model.onnx", input_names=graph.names, output_names=graph.outputs, opset_version=opset,
                      dynamo=False, dynamic_axes={name: dims for name, dims in axes.items() if dims})  # fmt: skip


def export_transformers(graph, folder, fusions):
    """The exporter that transformers has since version 5, with its defaults and dynamic shapes."""
    from transformers.exporters.exporter_onnx import OnnxConfig, OnnxExporter

    model, (ids, mask, positions, *past) = graph.module.model, graph.inputs
    cache = DynamicCache(config=model.config)
    for layer in range(len(past) // 2):
        cache.update(past[2 * layer], past[2 * layer + 1], layer)
    inputs = {"input_ids": ids, "attention_mask": mask, "position_ids": positions, "past_key_values": cache}
    OnnxExporter().export(model, inputs, config=OnnxConfig(dynamic=True, ort_fusions=fusions)).save_pretrained(folder)


def export_optimum(checkpoint, folder, golden):
    """What `optimum-cli export onnx` does."""
    if HERE_IS == OLD_OPTIMUM:  # from before torch had another exporter than TorchScript's as its default
        torch.onnx.export = functools.partial(torch.onnx.export, dynamo=False)
    from optimum.exporters.onnx import main_export

    source = folder / "checkpoint"
    if checkpoint == "bert":
        bert().save_pretrained(source)
    else:
        shutil.copytree(case_folder(checkpoint, golden), source, copy_function=shutil.copyfile)
        config = json.loads((source / "config.json").read_text())
        rope = config.get("rope_parameters", {})  # transformers 4 has these under older names
        config |= {"rope_theta": rope.get("rope_theta", 10000.0), "rotary_pct": rope.get("partial_rotary_factor", 1.0)}
        (source / "config.json").write_text(json.dumps(config))
    task = "feature-extraction" if checkpoint == "bert" else "text-generation-with-past"
    main_export(str(source), folder, task=task, do_validation=False)


def export(name, folder, golden):
    exporter, checkpoint, opset, attention = FIXTURES[name]
    torch.manual_seed(0)
    with torch.no_grad():
        if exporter.startswith("optimum"):
            return export_optimum(checkpoint, folder, golden)
        graph = graph_of(checkpoint, attention, golden, exporter, opset)
        if exporter.startswith("dynamo"):
            export_dynamo(graph, folder, opset)
        elif exporter == "script":
            export_script(graph, folder, opset)
        else:
            export_transformers(graph, folder, "cpu" if exporter == "transformers-cpu" else None)


# Storing --------------------------------------------------------------------------------------------------------------


def tidy(model):
    """Without stack traces and other long notes of the exporter, which name files of the machine that ran it."""
    kept = ("pkg.torch.onnx.name_scopes",)
    for node in model.graph.node:
        notes = [(p.key, p.value) for p in node.metadata_props if p.key in kept]
        del node.metadata_props[:]
        for key, value in notes:
            node.metadata_props.add(key=key, value=value)
        node.doc_string = ""
    del model.graph.metadata_props[:]
    assert not model.functions


def pool_weights(model, checkpoint):
    """Moves large weights to the file that the checkpoint's fixtures share."""
    path = HERE / f"{checkpoint}.weights"
    pool = bytearray(path.read_bytes() if path.exists() else b"")
    for tensor in model.graph.initializer:
        data = numpy_helper.to_array(tensor).tobytes()
        if len(data) < 1024:
            continue
        offset = pool.find(data)
        while offset % 64 and offset >= 0:
            offset = pool.find(data, offset + 1)
        if offset < 0:
            pool += bytes(-len(pool) % 64)
            offset = len(pool)
            pool += data
        tensor.ClearField("raw_data")
        tensor.data_location = onnx.TensorProto.EXTERNAL
        del tensor.external_data[:]
        for key, value in (("location", path.name), ("offset", offset), ("length", len(data))):
            tensor.external_data.add(key=key, value=str(value))
    path.write_bytes(pool)


def store(name, folder):
    model = onnx.load(folder / "model.onnx")
    tidy(model)
    pool_weights(model, FIXTURES[name][1])
    onnx.save(model, HERE / f"{name}.onnx")
    return model


# Checking -------------------------------------------------------------------------------------------------------------


def case_folder(checkpoint, golden):
    """The case's folder: bert's is here, the others' with the project's golden cases, or in the folder that was given."""
    for parent in (HERE, ROOT / "testdata" / "golden", golden):
        if (parent / checkpoint / "case.json").exists():
            return parent / checkpoint
    raise SystemExit(f"no case {checkpoint}: give its parent folder with --golden")


def relative_error(got, want, where=None):
    got, want = got.astype(np.float64), want.astype(np.float64)
    if where is not None:
        got, want = got[where.astype(bool)], want[where.astype(bool)]
    return float(np.abs(got - want).max() / max(np.abs(want).max(), 1e-9)) if np.isfinite(got).all() else float("inf")


def run_steps(session, steps, io, prefix):
    """The largest error over a run; what it returns beside the expected outputs is the cache, in the order of its inputs."""
    inputs, outputs = session.get_inputs(), [o.name for o in session.get_outputs()]
    cache_inputs = [i for i in inputs if i.name.startswith("past")]
    cache, worst = None, 0.0
    for number, step in enumerate(steps):
        feed = {name: io[f"{prefix}{number}.{name}"] for name in step["inputs"]}
        batch = next(iter(feed.values())).shape[0]
        types = {"tensor(float)": np.float32, "tensor(float16)": np.float16}
        if cache is None:
            # transformers' exporter writes some fixed sizes as symbols that read "2"
            cache = [np.zeros((batch, int(i.shape[1]), 0, int(i.shape[3])), types[i.type]) for i in cache_inputs]
        feed |= {i.name: value for i, value in zip(cache_inputs, cache)}
        found = dict(zip(outputs, session.run(None, {i.name: feed[i.name] for i in inputs})))
        cache = [found[name] for name in outputs if name not in step["outputs"]]
        for name in step["outputs"]:
            where = step.get("where", {}).get(name)
            want = io[f"{prefix}{number}.{name}"]
            worst = max(worst, relative_error(found[name], want, io[f"{prefix}{number}.{where}"] if where else None))
    return worst


def check_pieces(session):
    io = load_file(HERE / "pieces.safetensors")
    names = [o.name for o in session.get_outputs()]
    found = session.run(None, {i.name: io[i.name] for i in session.get_inputs()})
    return {"f32": max(relative_error(f, io[n]) for f, n in zip(found, names) if not n.endswith("f16")),
            "f16": max(relative_error(f, io[n]) for f, n in zip(found, names) if n.endswith("f16"))}  # fmt: skip


def check(name, golden):
    """run -> largest relative error, at ONNX Runtime's default level or without optimisations; too large a one ends all."""
    checkpoint, worst = FIXTURES[name][1], {}
    for level in (onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL, onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL):
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level, options.log_severity_level = level, 3
        session = onnxruntime.InferenceSession(HERE / f"{name}.onnx", options, providers=["CPUExecutionProvider"])
        if checkpoint == "pieces":
            errors, allowed = check_pieces(session), {"f32": 1e-5, "f16": 2e-3}
        else:
            folder = case_folder(checkpoint, golden)
            case, io = json.loads((folder / "case.json").read_text()), load_file(folder / "io.safetensors")
            errors = {run: max(run_steps(session, call["steps"], io, f"{run}.{call['component']}.") for call in calls) for run, calls in case["runs"].items()}
            # the references are in f32: what a graph in half precision may differ by is more
            allowed = dict.fromkeys(errors, 2e-2 if "float16" in {i.type[7:-1] for i in session.get_inputs()} else case["max_relative_error"])
        worst = {run: max(error, worst.get(run, 0.0)) for run, error in errors.items()}
    if any(error > allowed[run] for run, error in worst.items()):
        raise SystemExit(f"{name}: wrong numbers {worst}")
    return worst


# References that are made here ----------------------------------------------------------------------------------------


def make_bert_case():
    """bert/: two rows, the second one shorter, in the format of the golden cases; references have no padding."""
    folder, model = HERE / "bert", bert()
    model.set_attn_implementation("eager")
    folder.mkdir(exist_ok=True)
    random, lengths = np.random.default_rng(7), (9, 6)
    ids, kinds = random.integers(3, 160, (2, 9)), random.integers(0, 2, (2, 9))
    valid = np.array([[i < length for i in range(9)] for length in lengths]).astype(np.int64)
    hidden = np.zeros((2, 9, model.config.hidden_size), np.float32)
    for row, length in enumerate(lengths):
        given = [torch.from_numpy(x[row : row + 1, :length]) for x in (ids, valid, kinds)]
        with torch.no_grad():
            hidden[row, :length] = Encoder(model)(*given).numpy()[0]
    step = {"inputs": ["input_ids", "attention_mask", "token_type_ids"], "outputs": ["last_hidden_state"], "where": {"last_hidden_state": "valid"}}
    case = {"model_type": "bert", "task": "feature-extraction", "dtype": "float32", "max_relative_error": 0.0001,
            "runs": {"right_padded": [{"component": "model", "steps": [step]}]},
            "reference": f"transformers {transformers.__version__}: every row alone, unpadded, eager attention, float32 on CPU"}  # fmt: skip
    tensors = {"input_ids": ids, "attention_mask": valid, "token_type_ids": kinds, "valid": valid, "last_hidden_state": hidden}
    save_file({f"right_padded.model.0.{name}": np.ascontiguousarray(value) for name, value in tensors.items()}, folder / "io.safetensors")
    (folder / "case.json").write_text(json.dumps(case, indent=1) + "\n")
    (folder / "config.json").write_text(json.dumps(model.config.to_diff_dict() | {"architectures": ["BertModel"]}, indent=1, sort_keys=True) + "\n")


def make_pieces_case():
    """pieces.safetensors: the inputs of every part and its outputs in eager torch, under their names in the graphs."""
    from pieces import Pieces

    pieces = Pieces()
    with torch.no_grad():
        found = dict(zip(pieces.shapes, pieces(*pieces.inputs()))) | dict(zip(pieces.names(), pieces.inputs()))
    save_file({name: np.ascontiguousarray(value.numpy()) for name, value in found.items()}, HERE / "pieces.safetensors")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--golden", type=pathlib.Path, default=ROOT.parent / "shared" / "golden")
    parser.add_argument("--check", action="store_true", help="only check what is there")
    parser.add_argument("names", nargs="*", default=["*"])
    options = parser.parse_args()
    if HERE_IS == MAIN and not options.check:
        make_bert_case()
        make_pieces_case()
    for name, (exporter, *_) in FIXTURES.items():
        maker = {"optimum": NEW_OPTIMUM, "optimum-old": OLD_OPTIMUM}.get(exporter, MAIN)
        if not any(fnmatch.fnmatch(name, pattern) for pattern in options.names) or maker != HERE_IS and not options.check:
            continue
        if not options.check:
            with tempfile.TemporaryDirectory() as folder:
                export(name, pathlib.Path(folder), options.golden)
                store(name, pathlib.Path(folder))
        model = onnx.load(HERE / f"{name}.onnx", load_external_data=False)
        nodes, constants = len(model.graph.node), sum(n.op_type == "Constant" for n in model.graph.node)
        errors = ", ".join(f"{run} {error:.1e}" for run, error in check(name, options.golden).items())
        print(f"{name}: opset {model.opset_import[0].version}, {nodes - constants} nodes + {constants} Constant; {errors}", flush=True)


if __name__ == "__main__":
    main()
