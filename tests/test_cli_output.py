"""What the program looks like to who sits before it: on terminals of any width, in front of a pager, and of single model files."""
import fcntl
import json
import os
import pty
import re
import shutil
import signal
import struct
import subprocess
import termios
from pathlib import Path

import onnxruntime
import pytest
from checkpoints import LLAMA
from conftest import PROGRAM, TESTDATA
from test_cli import complete_in_bash
from test_genai import SMOLLM2

FOREIGN = TESTDATA / "foreign"
WHEEL = Path(onnxruntime.__file__).parent / "capi"


def on_terminal(columns: int, *arguments) -> str:
    """What a terminal of that width is sent."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen([PROGRAM, *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=its, stderr=its)
    os.close(its)
    seen = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # Linux: nobody has the other end any more
            part = b""
        if not part:
            break
        seen += part
    os.close(ours)
    assert process.wait() == 0, seen
    return seen.decode().replace("\r\n", "\n")


@pytest.mark.parametrize("columns", [45, 60, 80, 100, 200])
def test_help_fits_the_terminal(mobius, columns):
    for arguments in (["--help"], ["build", "--help"], ["optimize", "--help"], ["info", "--help"]):
        text = on_terminal(columns, *arguments)
        explained = re.sub(r"^Usage:.*|^  mobius .*", "", text, flags=re.MULTILINE)  # commands are to be copied
        longest = max(len(line) for line in explained.splitlines())
        assert longest <= min(columns, 100), explained
        assert text.split() == mobius(*arguments).stdout.split()


@pytest.mark.parametrize("columns", [20, 40, 60, 80, 120])
def test_progress_stays_on_its_line(tmp_path, columns):
    text = on_terminal(columns, "build", SMOLLM2, tmp_path / "out", "--dtype", "f16")
    drawn = re.findall(r"\r([^\r\x1b]+)\x1b\[K", text)
    assert drawn and max(map(len, drawn)) < columns, drawn
    assert ("[=" in drawn[-1]) == (columns >= 80)
    assert "%" in drawn[-1] or columns >= 80


@pytest.mark.parametrize("arguments", [["list", "eps", "--json"], ["build", "--help"], ["man"], ["build", LLAMA, "{out}"]])
def test_a_reader_that_has_enough_is_no_error_to_speak_of(tmp_path, arguments):
    reads, writes = os.pipe()
    os.close(reads)
    result = subprocess.run([PROGRAM, *(str(a).format(out=tmp_path / "out") for a in arguments)], stdout=writes, stderr=subprocess.PIPE, check=False)
    os.close(writes)
    assert result.stderr == b"" and result.returncode in (128 + signal.SIGPIPE, -signal.SIGPIPE)


def test_lists_have_no_holes(mobius):
    rows = mobius("list", "models").stdout.splitlines()
    assert all(len(re.split(r" {2,}", row.rstrip())) >= 5 for row in rows), [row for row in rows if len(re.split(r" {2,}", row.rstrip())) < 5]


# ── help ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_help_says_what_holds_otherwise(mobius):
    words = " ".join(mobius("build", "--help").stdout.split())
    for text in ("otherwise default, which is portable:", "otherwise right: right or any", "otherwise onnx: onnx or safetensors"):
        assert text in words, text
    assert "(mobius list models)" in words and "starcoder2" not in words


def test_steps_are_completed_and_listed_for_print_after(mobius, tmp_path):
    assert complete_in_bash(mobius, "mobius", "optimize", "--print-after", "GQA") == ["GQAFusion"]
    result = mobius("optimize", "a.onnx", "b.onnx", "--print-after", "Foo")
    assert result.returncode == 2 and "found 'Foo', expected" in result.stderr and "GQAFusion" in result.stderr


def test_the_manual_page_names_every_variable(mobius):
    pages = (TESTDATA.parent / "docs" / "command_line.md").read_text().split("## Environment")[1]
    for name in re.findall(r"`([A-Z_]+)`", pages):
        assert f"\\fB{name}\\fR" in mobius("man").stdout, name


# ── info and check ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_info_tells_which_operators_have_bodies(mobius, built):
    package = built(LLAMA, "--ep", "default")
    component, = json.loads(mobius("info", package, "--json").stdout)["components"]
    custom = {name for name in component["operators"] if name.startswith("com.microsoft")}
    assert custom and custom == set(component["functions"])
    for name in custom:
        assert re.search(rf"{name}  \(with its body\)$", mobius("info", package).stdout, re.MULTILINE)
    assert "with its body" not in mobius("info", built(LLAMA, "--ep", "onnx-standard")).stdout


def test_info_of_a_file_that_anybody_wrote(mobius):
    file = FOREIGN / "llama.transformers20.onnx"
    info = json.loads(mobius("info", file, "--json").stdout)
    assert info["kind"] == "file" and info["components"][0]["component"] == "llama.transformers20"
    assert re.search(r"^  past_key_values.layers.0.keys  +float\[", mobius("info", file).stdout, re.MULTILINE)
    assert mobius("info", "nowhere.onnx").stderr == "mobius: error: nowhere.onnx: cannot open: No such file or directory\n"


def test_check_runs_what_was_optimised(mobius, tmp_path):
    assert mobius("optimize", FOREIGN / "llama.dynamo18.sdpa.onnx", tmp_path / "fast.onnx", "--ep", "cpu").returncode == 0
    for file in (tmp_path / "fast.onnx", FOREIGN / "llama.dynamo18.sdpa.onnx", FOREIGN / "gpt2.optimum14.onnx"):
        result = mobius("check", file, "--onnxruntime", WHEEL)
        assert result.returncode == 0 and "runs two steps" in result.stdout, result.stderr
    result = mobius("check", FOREIGN / "bert.dynamo18.sdpa.onnx", "--onnxruntime", WHEEL)
    assert result.returncode == 0 and "runs one step in" in result.stdout
    result = mobius("check", FOREIGN / "llama.transformers20.onnx", "--onnxruntime", WHEEL)
    assert result.returncode == 1 and "this model may mean others" in result.stderr


def test_optimize_tells_which_other_files_are_needed(mobius, tmp_path):
    for name in ("llama.dynamo18.sdpa.onnx", "llama.weights"):
        shutil.copy(FOREIGN / name, tmp_path)
    result = mobius("optimize", "llama.dynamo18.sdpa.onnx", "fast.onnx", "--ep", "cpu", cwd=tmp_path)
    assert result.stdout.endswith("\nit needs beside it, for weights that stayed as they were: llama.weights\n")
    assert json.loads(mobius("optimize", "llama.dynamo18.sdpa.onnx", "fast.onnx", "--json", cwd=tmp_path).stdout)["refers_to"] == ["llama.weights"]
    elsewhere = mobius("optimize", "llama.dynamo18.sdpa.onnx", "other/fast.onnx", "--ep", "cpu", cwd=tmp_path)
    assert "beside it" not in elsewhere.stdout
    assert mobius("check", tmp_path / "other" / "fast.onnx", "--onnxruntime", WHEEL).returncode == 0


@pytest.mark.parametrize("command", ["build", "optimize"])
def test_times_have_a_unit_that_suits_them(mobius, tmp_path, command):
    source = LLAMA if command == "build" else FOREIGN / "llama.dynamo18.sdpa.onnx"
    assert re.search(r"^wrote .* in (\d+\.\d\d m?s|\d\d\.\d m?s|\d{3} ms):$", mobius(command, source, tmp_path / "out").stdout, re.MULTILINE)
