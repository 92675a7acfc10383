"""The wheel: what it holds and needs, and that it works in an environment with nothing else."""
import importlib.util
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from conftest import ROOT
from python_support import python
from test_genai import SMOLLM2

pytestmark = pytest.mark.xdist_group("wheel")
# What Debian's base system has.
BASE_LIBRARIES = {"linux-vdso.so.1", "libm.so.6", "libc.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    out = tmp_path_factory.mktemp("wheel")
    done = subprocess.run([ROOT / "scripts" / "wheel", out], capture_output=True, text=True, check=False, timeout=3000)
    assert done.returncode == 0, done.stdout + done.stderr
    assert Path(done.stdout.split()[-1]).parent == out, "it says where the wheel is"
    (path,) = out.glob("mobius-*.whl")
    return path


@pytest.fixture(scope="module")
def environment(wheel, tmp_path_factory):
    """An empty environment with the wheel alone: not even numpy."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    subprocess.run([folder / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "-q", "install", "--no-index", "--no-deps", wheel], check=True)
    return folder


CLEAN = {"PYTHONPATH": "", "PYTHONDONTWRITEBYTECODE": "1"}


def test_size_and_contents(wheel):
    assert wheel.stat().st_size <= 15_000_000
    names = zipfile.ZipFile(wheel).namelist()
    for name in ("mobius/__init__.py", "mobius/py.typed", "mobius/_native.pyi", "mobius/_ep.pyi", "mobius/nn/operators.txt"):
        assert name in names, name
    assert any(n.endswith("scripts/mobius") for n in names) and any(n.endswith("licenses/LICENSE") for n in names)
    assert not [n for n in names if n.startswith(("tests", "mobius/__pycache__", "lib", "include")) or n.endswith((".a", ".o", ".cpp"))]


def test_needs_numpy_alone(wheel):
    metadata = zipfile.Path(wheel, next(n for n in zipfile.ZipFile(wheel).namelist() if n.endswith("METADATA"))).read_text()
    always = [line.split(":", 1)[1].strip() for line in metadata.splitlines() if line.startswith("Requires-Dist") and "extra ==" not in line]
    assert len(always) == 1 and always[0].startswith("numpy"), always
    assert f"Version: {(ROOT / 'CMakeLists.txt').read_text().split('VERSION ')[2].split()[0]}" in metadata


def test_needs_no_library_that_the_base_system_lacks(wheel, tmp_path):
    zipfile.ZipFile(wheel).extractall(tmp_path)
    programs = [*tmp_path.glob("mobius/_native*.so"), *tmp_path.glob("*/scripts/mobius")]
    assert len(programs) == 2
    for program in programs:
        program.chmod(0o755)
        needed = {line.split()[0].rsplit("/", 1)[-1] for line in subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout.splitlines()}
        assert needed <= BASE_LIBRARIES, needed - BASE_LIBRARIES


def test_builds_a_real_model_without_torch_transformers_and_onnx(environment, tmp_path):
    code = f"""
import sys, mobius
mobius.build({str(SMOLLM2)!r}, execution_provider='cpu').save({str(tmp_path / 'out')!r})
for name in ('torch', 'transformers', 'onnx', 'onnx_ir', 'numpy'):
    assert name not in sys.modules, name
    try:
        __import__(name)
    except ImportError:
        continue
    raise SystemExit(name + ' is installed')
"""
    python(code, executable=environment / "bin" / "python", env=CLEAN, timeout=600)
    names = {p.name for p in (tmp_path / "out").iterdir()}
    assert {"model.onnx", "model.onnx.data", "config.json", "tokenizer.json"} <= names
    import onnx

    graph = onnx.load(tmp_path / "out" / "model.onnx", load_external_data=False).graph
    assert sum(n.op_type == "GroupQueryAttention" for n in graph.node) == 30


def test_looks_at_weights_with_numpy_alone(environment, tmp_path):
    """numpy's folder, and nothing else of this environment."""
    packages = Path(importlib.util.find_spec("numpy").origin).parent.parent
    for name in ("numpy", "numpy.libs"):
        if (packages / name).exists():
            (tmp_path / name).symlink_to(packages / name)
    file = ROOT / "testdata" / "golden" / "mistral_bf16"
    code = f"""
import mobius
package = mobius.build({str(file)!r}, dtype='bf16', execution_provider='cuda')
weight = package['model'].initializers['model.norm.weight']
assert weight.dtype == 'uint16', weight.dtype
model = mobius.build_from_module(mobius.models.CausalLMModel(config := mobius.ArchitectureConfig.from_pretrained({str(file)!r})), config, execution_provider='cuda', weights={str(file)!r})
print(model['model'].op_counts()['com.microsoft::GroupQueryAttention'])
"""
    assert int(python(code, executable=environment / "bin" / "python", env=CLEAN | {"PYTHONPATH": str(tmp_path)})) >= 1


def test_the_command_comes_with_it(environment, tmp_path):
    program = environment / "bin" / "mobius"
    result = subprocess.run([program, "build", ROOT / "testdata" / "golden" / "llama", "-o", tmp_path / "out", "--ep", "cpu"], capture_output=True, text=True, check=True)
    assert (tmp_path / "out" / "model.onnx").exists() and "wrote" in result.stdout + result.stderr
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    assert python("import mobius; print(mobius.__version__)", executable=environment / "bin" / "python", env=CLEAN).strip() in version


def test_import_time(environment):
    code = "import time; t = time.perf_counter(); import mobius; print(time.perf_counter() - t)"
    assert min(float(python(code, executable=environment / "bin" / "python", env=CLEAN)) for _ in range(5)) <= 0.05


def test_stubs_follow_the_module():
    import ast

    import mobius
    from mobius import _native

    folder = Path(mobius.__file__).parent
    stub = ast.parse((folder / "_native.pyi").read_text())
    names = {n.name for n in stub.body if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
    assert {n for n in vars(_native) if not n.startswith("_")} - {"context"} <= names
    fields = {n.target.id for n in ast.walk(ast.parse((folder / "_ep.pyi").read_text())) if isinstance(n, ast.AnnAssign)}
    assert {name for name, _, _, _ in _native.ep_fields()} <= fields


def test_what_is_public_says_what_it_is():
    import inspect

    import mobius

    silent = []
    for module in (mobius, mobius.nn, mobius.components, mobius.models):
        for name in module.__all__:
            value = getattr(module, name)
            if not (inspect.isclass(value) or inspect.isfunction(value)):
                continue
            silent += [] if (value.__doc__ or "").strip() else [name]
            members = vars(value).items() if inspect.isclass(value) else ()
            silent += [f"{name}.{m}" for m, f in members if inspect.isfunction(f) and not m.startswith("_") and not inspect.getdoc(getattr(value, m))]
    assert silent == []
