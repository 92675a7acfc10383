"""Conversations in ONNX Runtime GenAI: what docs/genai.md says of turns and of going back, on the real runtime, by logits of the whole text in one go."""
import json
import shutil

import numpy as np
import onnxruntime_genai as og
import pytest
from golden_check import Case
from test_families import FOLDERS
from test_genai import CONTEXT, read_config

MORE = [11, 12, 13]
TOLERANCE = 1e-5  # of logits in f32, where the order of sums is all that differs
# Attention with a buffer that is shared and without, states beside and instead of keys, convolutions alone, a pipeline.
PACKAGES = [("llama", "cpu"), ("llama", "default"), ("gemma4_text", "default"), ("falcon_h1", "cpu"), ("falcon_h1", "default"), ("mamba", "cpu"), ("qwen3_next", "cpu"),
            ("lfm2", "cpu"), ("lfm2", "default"), ("minimax", "cpu")]


class Package:
    """A model with a prompt. The end-of-sequence token is one that it doesn't come to, unless it is given."""

    def __init__(self, folder, name, eos=None):
        self.prompt, answer = (Case(FOLDERS[name]).description["greedy"][key][0] for key in ("prompts", "ids"))
        config = read_config(folder)
        unused = next(i for i in range(20, config["model"]["vocab_size"]) if i not in answer + self.prompt)
        config["model"] |= {"eos_token_id": unused if eos is None else eos, "pad_token_id": unused}
        (folder / "genai_config.json").write_text(json.dumps(config))
        self.model = og.Model(str(folder))

    def generator(self):
        params = og.GeneratorParams(self.model)
        params.set_search_options(max_length=40, do_sample=False)
        return og.Generator(self.model, params)

    def after_prompt(self, count):
        """A generator that has chosen `count` tokens."""
        generator = self.generator()
        generator.append_tokens(np.array([self.prompt], np.int32))
        for _ in range(count):
            generator.generate_next_token()
        return generator

    def differs(self, generator, ids) -> float:
        """From what all tokens at once give."""
        assert generator.get_sequence(0).tolist() == ids
        whole = self.generator()
        whole.append_tokens(np.array([ids], np.int32))
        return float(np.abs(last_logits(generator) - last_logits(whole)).max())


def last_logits(generator):
    logits = generator.get_logits()
    return logits.reshape(-1, logits.shape[-1])[-1]


@pytest.fixture
def package(built, tmp_path):
    def open_package(name, ep, **more):
        folder = built(FOLDERS[name], "--ep", ep, "--dtype", "f32", "--runtime", "ort-genai", *CONTEXT.get(name, []))
        shutil.copytree(folder, tmp_path / "package")
        return Package(tmp_path / "package", name, **more)

    return open_package


@pytest.mark.parametrize("name, ep", PACKAGES)
def test_a_turn_that_was_broken_off_goes_on_after_get_logits(package, name, ep):
    p = package(name, ep)
    generator = p.after_prompt(0)
    ids = list(p.prompt)
    for turn in range(3):
        for _ in range(2):
            generator.generate_next_token()
        ids = generator.get_sequence(0).tolist()
        assert not generator.is_done()
        generator.get_logits()
        more = [i + turn for i in MORE]
        generator.append_tokens(np.array([more], np.int32))
        ids += more
    assert p.differs(generator, ids) < TOLERANCE


@pytest.mark.parametrize("name, ep", [("llama", "cpu"), ("llama", "default"), ("mamba", "cpu"), ("minimax", "cpu")])
def test_without_get_logits_the_runtime_leaves_the_last_token_out(package, name, ep):
    """When this fails, the runtime has learned it: then docs/genai.md has to say so."""
    p = package(name, ep)
    generator = p.after_prompt(3)
    ids = generator.get_sequence(0).tolist() + MORE
    try:
        generator.append_tokens(np.array([MORE], np.int32))
    except RuntimeError as error:
        assert "total_sequence_length" in str(error)
    else:
        assert p.differs(generator, ids) > 0.01


@pytest.mark.parametrize("name, ep", PACKAGES)
def test_after_the_end_of_a_sequence_the_next_turn_follows_at_once(built, tmp_path, name, ep):
    folder = built(FOLDERS[name], "--ep", ep, "--dtype", "f32", "--runtime", "ort-genai", *CONTEXT.get(name, []))
    shutil.copytree(folder, tmp_path / "package")
    p = Package(tmp_path / "package", name)
    eos = p.after_prompt(2).get_sequence(0).tolist()[-1]
    p = Package(tmp_path / "package", name, eos=eos)
    generator = p.after_prompt(0)
    while not generator.is_done():
        generator.generate_next_token()
    ids = generator.get_sequence(0).tolist()
    assert eos not in ids[len(p.prompt):]
    generator.append_tokens(np.array([[eos, *MORE]], np.int32))
    assert p.differs(generator, [*ids, eos, *MORE]) < TOLERANCE


@pytest.mark.parametrize("ep", ["cpu", "default"])
@pytest.mark.parametrize("to", [0, 1, 5, -1])
def test_attention_alone_goes_back_to_any_token(package, ep, to):
    p = package("llama", ep)
    generator = p.after_prompt(3)
    ids = generator.get_sequence(0).tolist()
    generator.get_logits()
    kept = ids[:to % len(ids)]
    generator.rewind_to(len(kept))
    generator.append_tokens(np.array([MORE], np.int32))
    assert p.differs(generator, kept + MORE) < TOLERANCE


@pytest.mark.parametrize("name, ep", [("falcon_h1", "cpu"), ("falcon_h1", "default"), ("mamba", "cpu"), ("qwen3_next", "cpu")])
def test_recurrent_states_go_back_to_the_start_only(package, name, ep):
    p = package(name, ep)
    generator = p.after_prompt(3)
    generator.get_logits()
    with pytest.raises(RuntimeError, match="Recurrent states cannot be partially rewound"):
        generator.rewind_to(4)
    generator.rewind_to(0)
    generator.append_tokens(np.array([MORE], np.int32))
    assert p.differs(generator, MORE) < TOLERANCE


@pytest.mark.parametrize("name, ep, message", [("lfm2", "cpu", "not supported for lfm2"), ("minimax", "cpu", "not supported for decoder-pipeline"),
                                               ("gemma4_text", "default", "Requested length of rewind is greater")])
def test_others_do_not_go_back(package, name, ep, message):
    generator = package(name, ep).after_prompt(3)
    generator.get_logits()
    with pytest.raises(RuntimeError, match=message):
        generator.rewind_to(0)


def test_what_was_at_the_place_comes_again_when_nothing_is_appended(package):
    p = package("llama", "cpu")
    generator = p.after_prompt(3)
    ids = generator.get_sequence(0).tolist()
    generator.rewind_to(4)
    generator.generate_next_token()
    assert len(generator.get_sequence(0)) == 6 and generator.get_sequence(0).tolist()[:5] == ids[:5]


def test_batches_have_one_turn(package):
    p = package("llama", "cpu")
    params = og.GeneratorParams(p.model)
    params.set_search_options(batch_size=2, max_length=40, do_sample=False)
    generator = og.Generator(p.model, params)
    generator.append_tokens(np.array([p.prompt, p.prompt], np.int32))
    with pytest.raises(RuntimeError, match="AppendTokens can only be called once for batch_size > 1"):
        generator.append_tokens(np.array([MORE, MORE], np.int32))
