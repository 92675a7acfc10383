"""Packages for ONNX Runtime GenAI of decoders with states beside or instead of keys and values; that they generate is in test_genai.py."""
import json
import shutil

import numpy as np
import onnxruntime_genai as og
import pytest
from golden_check import Case, load, step
from test_families import FOLDERS
from test_genai import CONTEXT, cut, eos_of, generate, read_config

OPTIONS = ["--ep", "cpu", "--runtime", "ort-genai"]


@pytest.mark.parametrize("name", ["falcon_h1", "lfm2", "mamba", "minimax", "qwen3_next"])
def test_a_prompt_may_come_in_turns(built, name):
    package = built(FOLDERS[name], *OPTIONS, "--dtype", "f32", *CONTEXT.get(name, []))
    config, greedy = read_config(package), Case(FOLDERS[name]).description["greedy"]
    prompt, ids = greedy["prompts"][0], greedy["ids"][0]
    model = og.Model(str(package))
    params = og.GeneratorParams(model)
    params.set_search_options(max_length=len(prompt) + len(ids), do_sample=False)
    generator = og.Generator(model, params)
    for turn in (prompt[:1], prompt[1:4], prompt[4:]):
        generator.append_tokens(np.array([turn], np.int32))
    while not generator.is_done():
        generator.generate_next_token()
    assert cut(generator.get_sequence(0)[len(prompt):], eos_of(config)) == cut(ids, eos_of(config))


@pytest.mark.parametrize("name", ["bamba", "lfm2", "mamba2", "minimax"])
def test_states_in_half_precision(built, name):
    package = built(FOLDERS[name], *OPTIONS, "--dtype", "f16", *CONTEXT.get(name, []))
    config, greedy = read_config(package), Case(FOLDERS[name]).description["greedy"]
    expected = [cut(ids, eos_of(config)) for ids in greedy["ids"]]
    assert generate(og.Model(str(package)), config, greedy["prompts"], len(greedy["ids"][0])) == expected


@pytest.mark.parametrize("name, beams, warning", [("bamba", 1, "has no beams with recurrent states; num_beams is 1 there"), ("lfm2", 3, "")])
def test_beams_only_where_the_runtime_follows_them(mobius, tmp_path, name, beams, warning):
    folder = tmp_path / name
    shutil.copytree(FOLDERS[name], folder)
    generation = json.loads((folder / "generation_config.json").read_text())
    (folder / "generation_config.json").write_text(json.dumps(generation | {"num_beams": 3}))
    result = mobius("build", folder, tmp_path / "out", *OPTIONS, "--quiet")
    assert result.returncode == 0 and warning in result.stderr and bool(warning) == bool(result.stderr)
    assert read_config(tmp_path / "out")["search"]["num_beams"] == beams


def test_recurrent_states_alone_go_by_a_pipeline_on_the_cpu(mobius, tmp_path):
    """One layer of lightning attention, nothing else to carry; and the runtime has no pipelines for such states elsewhere."""
    folder = tmp_path / "minimax"
    shutil.copytree(FOLDERS["minimax"], folder)
    description = json.loads((folder / "config.json").read_text())
    description |= {"num_hidden_layers": 1, "layer_types": description["layer_types"][:1]}
    (folder / "config.json").write_text(json.dumps(description))
    for _ in range(2):  # the second replaces the first with its additional model
        result = mobius("build", folder, tmp_path / "out", *OPTIONS, "--dtype", "f32", "--ignore-extra", "model.layers.1.*")
        assert result.returncode == 0, result.stderr
    config = read_config(tmp_path / "out")
    assert config["model"]["type"] == "decoder-pipeline" and (tmp_path / "out" / "model_states.onnx").exists()
    prompts = [[17, 103, 128, 8, 147, 137], [50, 76, 151]]
    model = og.Model(str(tmp_path / "out"))
    session, ids = load(tmp_path / "out", "model", "onnxruntime"), [list(prompt) for prompt in prompts]
    for row in ids:
        for _ in range(5):
            feed = {"input_ids": np.array([row]), "attention_mask": np.ones((1, len(row)), np.int64)}
            row.append(int(step(session, feed, {})["logits"][0, -1].argmax()))
    expected = [cut(row[len(prompt):], eos_of(config)) for row, prompt in zip(ids, prompts)]
    assert generate(model, config, prompts, 5) == expected

    on_cuda = mobius("build", FOLDERS["minimax"], "--dry-run", "--ep", "cuda", "--runtime", "ort-genai")
    assert on_cuda.returncode == 1 and "carries past_key_values.0.recurrent_state only with past_conv_names beside it" in on_cuda.stderr
    assert "built for the execution provider cpu, a pipeline carries it" in on_cuda.stderr


def test_says_that_rows_are_of_one_length_without_a_mask(mobius, tmp_path):
    result = mobius("build", FOLDERS["mamba"], tmp_path / "out", *OPTIONS, *CONTEXT["mamba"])
    assert result.returncode == 0 and "rows of a batch have to be equally long" in result.stderr


@pytest.mark.parametrize("name, shared", [("llama", True), ("lfm2", True), ("bamba", False), ("minimax", False)])
def test_only_recurrent_states_stand_in_the_way_of_a_shared_buffer(built, name, shared):
    package = built(FOLDERS[name], *OPTIONS, "--dtype", "f32", *CONTEXT.get(name, []))
    assert read_config(package)["search"]["past_present_share_buffer"] is shared
