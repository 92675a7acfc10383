"""Packages for ONNX Runtime GenAI of decoders with states beside or instead of keys and values; that they generate is in test_genai.py."""
import json
import shutil

import numpy as np
import onnxruntime_genai as og
import pytest
from golden_check import Case
from test_families import FOLDERS
from test_genai import CONTEXT, cut, eos_of, generate, read_config

OPTIONS = ["--ep", "cpu", "--runtime", "ort-genai"]


@pytest.mark.parametrize("name", ["falcon_h1", "lfm2", "mamba", "qwen3_next"])
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


@pytest.mark.parametrize("name", ["bamba", "lfm2", "mamba2"])
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


def test_says_that_rows_are_of_one_length_without_a_mask(mobius, tmp_path):
    result = mobius("build", FOLDERS["mamba"], tmp_path / "out", *OPTIONS, *CONTEXT["mamba"])
    assert result.returncode == 0 and "rows of a batch have to be equally long" in result.stderr
