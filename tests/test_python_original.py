"""docs/coming_from_python_original.md, line by line: what it says is here is here, what it says is not is not, and signatures are taken."""
import inspect
import re

import mobius
import pytest
from checkpoints import LLAMA
from conftest import ROOT, run_mobius

PAGE = ROOT / "docs" / "coming_from_python_original.md"
FACTS = ROOT.parent / "shared" / "facts" / "original_api.md"
NONE = "—"

# The original's parameters, in order; those behind the bar by name only.
SIGNATURES = {
    "build": "model_id task | module_class dtype output_layer_indices load_weights trust_remote_code execution_provider trace_optimization text_only "
             "fp8_kv_cache kv_cache_scales",
    "build_from_module": "module config task | execution_provider trace_optimization fp8_kv_cache kv_cache_scales prune_lm_head",
    "build_from_gguf": "gguf_path | task dtype keep_quantized execution_provider mmproj static_cache max_seq_len",
    "optimize_model": "model ep dtype model_role trace fp8_kv_cache kv_cache_scales",
    "apply_weights": "model state_dict",
    "build_context": "capabilities dtype",
    "ep_capabilities": "",
    "get_build_dtype": "",
    "get_ep": "name",
    "register_ep": "caps | overwrite",
    "CausalLMTask": "| static_cache max_seq_len prune_lm_head",
    "ModelPackage": "models config",
}
DEFAULTS = {"execution_provider": "default", "trace_optimization": False, "load_weights": True, "ep": "default", "model_role": "decoder", "trace": False,
            "overwrite": False, "trust_remote_code": False}
MEMBERS = "apply_weights clear copy fromkeys get items keys load pop popitem save setdefault update values".split()


def rows() -> list[tuple[str, str, str, str]]:
    """Section, original, here, differences."""
    section, out = "", []
    for line in PAGE.read_text().splitlines():
        if line.startswith("## "):
            section = line[3:]
        elif line.startswith("| ") and not line.startswith("| original"):
            original, here, differences = (cell.strip() for cell in line.strip("|").split("|"))
            out.append((section, original.strip("`"), here.strip("`"), differences))
    return out


ROWS = rows()
NAMES = [row for row in ROWS if row[0] != "The command line"]
COMMANDS = [row for row in ROWS if row[0] == "The command line"]


def test_the_page_has_every_public_name():
    if not FACTS.exists():
        pytest.skip("the list of the original's names is not beside the repository")
    stated = set(re.findall(r"^\| (\w+) \| (?:class|function|module|object)", FACTS.read_text(), re.M))
    assert {row[1] for row in NAMES} == stated and len(NAMES) == len(stated)


@pytest.mark.parametrize("section,original,here,differences", NAMES, ids=[row[1] for row in NAMES])
def test_each_name(section, original, here, differences):
    if here == NONE:
        assert not hasattr(mobius, original) and differences
        with pytest.raises(AttributeError, match=original):
            getattr(mobius, original)
        return
    assert here in mobius.__all__ and getattr(mobius, here) is not None and here in dir(mobius)
    if original in SIGNATURES:
        before, _, after = SIGNATURES[original].partition("|")
        parameters = inspect.signature(getattr(mobius, here)).parameters
        kinds = {name: p.kind for name, p in parameters.items()}
        assert list(parameters)[:len(before.split())] == before.split()
        for name in (*before.split(), *after.split()):
            assert name in kinds, name
            if name in DEFAULTS:
                assert parameters[name].default == DEFAULTS[name]


@pytest.mark.parametrize("section,original,here,differences", [row for row in NAMES if f": {NONE}" in row[3]], ids=lambda v: v if v.isidentifier() else "")
def test_options_without_a_counterpart_are_refused_by_name(section, original, here, differences):
    options = re.findall(r"`(\w+)`", re.search(rf"((?:`\w+`(?:, )?)+): {NONE}", differences)[1])
    config = mobius.ArchitectureConfig.from_pretrained(LLAMA)
    calls = {
        "build": lambda **o: mobius.build(LLAMA, **o),
        "build_from_module": lambda **o: mobius.build_from_module(mobius.models.CausalLMModel(config), config, **o),
        "build_from_gguf": lambda **o: mobius.build_from_gguf("x.gguf", **o),
        "optimize_model": lambda **o: mobius.optimize_model(mobius.build(LLAMA)["model"], **o),
        "CausalLMTask": lambda **o: mobius.CausalLMTask(**o),
    }
    assert options
    for option in options:
        with pytest.raises(NotImplementedError, match=option):
            calls[original](**{option: [1]})


def test_members_of_model_package():
    for name in MEMBERS:
        assert callable(getattr(mobius.ModelPackage, name)), name


def test_fields_of_the_configs_are_taken():
    fields = "vocab_size hidden_size intermediate_size num_hidden_layers num_attention_heads num_key_value_heads head_dim hidden_act pad_token_id tie_word_embeddings " \
             "attn_qkv_bias attn_o_bias dtype max_position_embeddings".split()
    parameters = inspect.signature(mobius.ArchitectureConfig).parameters
    assert list(parameters)[:len(fields)] == fields and parameters["head_dim"].default == -42 and parameters["hidden_act"].default is None


def test_what_optimize_model_says_of_dtype():
    half = mobius.build(LLAMA, dtype="f16")["model"]
    assert mobius.optimize_model(half, ep="cuda")["dtype"] in ("f16", "FLOAT16")


def test_opset():
    assert mobius.OPSET_VERSION == 24 == mobius.build(LLAMA)["model"].opset_imports[""]


@pytest.fixture(scope="module")
def help_text():
    return {command: run_mobius(*command.split(), "--help").stdout for command in ("build", "build-gguf", "list", "info", "optimize")} | {"": run_mobius("--help").stdout}


@pytest.mark.parametrize("section,original,here,differences", COMMANDS, ids=[row[1] for row in COMMANDS])
def test_each_command_and_flag(section, original, here, differences, help_text, tmp_path):
    if original.startswith("mobius build --"):
        flag = original.split()[2]
        result = run_mobius("build", flag, LLAMA, tmp_path / "out")
        assert result.returncode == 0, result.stderr
    elif original.startswith("mobius list"):
        assert run_mobius(*original.split()[1:]).returncode == 0
    elif original == "mobius build-gguf":
        assert all(f"--{word}" not in help_text["build-gguf"] for word in ("keep-quantized", "mmproj", "static-cache")) and "--dtype" in help_text["build-gguf"]
    elif original.startswith("mobius "):
        assert (original.split()[1] in help_text[""]) == (here != NONE)
    else:
        assert (re.search(rf"{original}\b", help_text["build"]) is not None) == (here != NONE)
