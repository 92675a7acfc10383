"""README.md and docs/: every fenced block is run, or is named below with the place that runs it.

Each page gets a folder of its own with small checkpoints under the names that pages use. Its blocks run in order: `$` lines in a shell, Python in one
interpreter, JSON is written to the file that the page names next. C++ blocks stand word by word in examples/documentation, which is run too; C++ of
rules stands in a test of rules.
"""
import fnmatch
import functools
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import mobius
import pytest
from conftest import PROGRAM, ROOT, TESTDATA
from python_support import make_hub, random_checkpoint
from test_genai import SMOLLM2, byte_level

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
# Commands that other tests run, and which.
ELSEWHERE = {
    "./scripts/demo": ".ci/run demo", "./scripts/test": ".ci/run", "./scripts/setup": "scripts/build", "pip install .": "tests/test_python_wheel.py", "./scripts/wheel": "tests/test_python_wheel.py",
}
IDS = {"Qwen/Qwen2.5-7B": "qwen2", "Qwen/Qwen2.5-0.5B": "qwen2", "Qwen/Qwen2.5-0.5B-Instruct": "talker", "meta-llama/Llama-3.2-3B": "llama",
       "HuggingFaceTB/SmolLM2-135M": "llama", "HuggingFaceTB/SmolLM2-135M-Instruct": "llama"}
CPP_HOMES = [ROOT / "examples" / "documentation" / "main.cpp", *sorted((ROOT / "mobius" / "rules").glob("*_test.cpp"))]


def blocks(page: Path) -> list[tuple[str, str]]:
    return [(m[1], m[2]) for m in re.finditer(r"^```(\w*)\n(.*?)^```", page.read_text(), re.M | re.S)]


def words(code: str) -> str:
    """Code without what layout changes."""
    lines = [line for line in code.splitlines() if not line.startswith("#include")]
    return re.sub(r"\s+", "", "\n".join(re.sub(r"(?<!:)//.*", "", line) for line in lines))


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    """Folders under the names of golden cases; "talker" has a tokenizer."""
    work = tmp_path_factory.mktemp("checkpoints")
    tokenizer = byte_level(None)
    random_checkpoint(work / "talker", {"vocab_size": tokenizer.get_vocab_size(), "max_position_embeddings": 4096})
    tokenizer.save(str(work / "talker" / "tokenizer.json"))
    (work / "talker" / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"}))
    (work / "talker" / "generation_config.json").write_text(json.dumps({"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}))
    return work


@pytest.fixture
def sandbox(tmp_path, checkpoints, monkeypatch):
    """The folder that a reader sits in."""
    hub = tmp_path / "hub"
    make_hub(hub, {model: str(checkpoints / "talker" if case == "talker" else TESTDATA / "golden" / case) for model, case in IDS.items()})
    here = tmp_path / "here"
    for name, case in (("SmolLM2-135M", "llama"), ("Qwen2.5-0.5B", "qwen2")):
        shutil.copytree(TESTDATA / "golden" / case, here / "models" / name)
    shutil.copy(TESTDATA / "gguf" / "tiny_llama.gguf", here / "model.Q8_0.gguf")
    (here / SMOLLM2.name).symlink_to(SMOLLM2)
    shutil.copy(TESTDATA / "foreign" / "llama.dynamo18.sdpa.onnx", here / "model.onnx")
    shutil.copy(TESTDATA / "foreign" / "llama.weights", here / "llama.weights")
    (here / "bin").mkdir()
    for name, target in (("mobius", PROGRAM), ("python", sys.executable)):
        (here / "bin" / name).symlink_to(target)
    monkeypatch.setenv("HF_HUB_CACHE", str(hub))
    # Nothing leaves the registry, and other tests register the pages' execution providers too.
    monkeypatch.setattr(mobius, "register_ep", functools.partial(mobius.register_ep, overwrite=True))
    monkeypatch.setenv("PATH", f"{here / 'bin'}:{os.environ['PATH']}")
    monkeypatch.chdir(here)
    return here


def run_shell(text: str) -> None:
    for line in text.splitlines():
        command = re.sub(r"\s{2,}#.*", "", line.removeprefix("$ ")).strip()
        if not line.startswith("$ ") or command in ELSEWHERE:
            continue
        result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=300, check=False, stdin=subprocess.DEVNULL)
        assert result.returncode == 0, f"$ {command}\n{result.stdout}{result.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_the_blocks_of_a_page_run(page, sandbox):
    space: dict = {"__name__": "__main__"}
    found = blocks(page)
    own = set()
    for i, (language, text) in enumerate(found):
        if language == "":
            assert text.startswith("$ "), f"{page.name}: a block that says nothing of its language is a shell's, with $ before each command:\n{text}"
            run_shell(text)
        elif language == "python":
            exec(compile(text, f"{page.name}, block {i + 1}", "exec"), space)  # noqa: S102
        elif language == "json":
            name = re.search(r"[\w-]+\.json", "".join(block for _, block in found[i + 1:]))
            assert name, f"{page.name}: nothing names the file of this JSON"
            (sandbox / name[0]).write_text(text)
            own.add(name[0])
        elif language == "cmake":
            theirs = (ROOT / "tests" / "install" / "CMakeLists.txt").read_text()  # which .ci/run install builds
            assert re.sub(r"\s*#.*", "", text).strip() in theirs, f"{page.name}: not in tests/install:\n{text}"
        else:
            assert language == "cpp", f"{page.name}: nobody runs a block of {language}"
            for header in re.findall(r'^#include "(.*)"', text, re.MULTILINE):
                assert (ROOT / header).exists(), f"{page.name}: {header}"
            assert any(words(text) in words(home.read_text()) for home in CPP_HOMES), f"{page.name}: this C++ is in none of the files that are compiled:\n{text}"
    # Who follows the page in a clone finds nothing there afterwards that git would add.
    left = {path.name for path in sandbox.iterdir()} - own - {"bin", "llama.weights"}
    assert all(ignored(name) for name in left), sorted(name for name in left if not ignored(name))


@pytest.mark.parametrize("ep", ["default", "cpu", "onnx-standard"])
def test_the_quick_start_runs_the_package_of_any_provider(sandbox, ep):
    """The reader may have built for another one than the page's last build."""
    code, = (text for language, text in blocks(ROOT / "docs" / "quick_start.md") if language == "python" and "onnxruntime" in text)
    mobius.build("HuggingFaceTB/SmolLM2-135M", execution_provider=ep).save("out")
    exec(compile(code, "quick_start.md", "exec"), {})  # noqa: S102


def ignored(name: str) -> bool:
    """By the patterns of .gitignore for names in the repository's folder."""
    patterns = [line.strip("/") for line in (ROOT / ".gitignore").read_text().splitlines() if line.startswith("/")]
    return any(fnmatch.fnmatch(name, pattern) for pattern in patterns)


def test_the_cpp_of_the_pages_runs(sandbox):
    result = subprocess.run([PROGRAM.parent / "documentation"], capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "[EP Trace] Target: cuda, dtype: FLOAT16, role: decoder" in result.stderr
    assert (sandbox / "model_cpu.onnx").exists() and (sandbox / "model_cuda.onnx").exists()


def test_links_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", re.sub(r"^```.*?^```|`[^`\n]*`", "", page.read_text(), flags=re.M | re.S)):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_every_page_is_reachable_from_the_readme():
    seen, to_read = set(), [ROOT / "README.md", ROOT / "HACKING.md"]
    while to_read:
        page = to_read.pop()
        if page in seen or page.suffix != ".md":
            continue
        seen.add(page)
        to_read += [(page.parent / t).resolve() for t in re.findall(r"\]\(([^)#]+\.md)", page.read_text()) if "://" not in t]
    assert set(PAGES) <= seen, sorted(p.name for p in set(PAGES) - seen)
