"""What the Python tests share: the program under test, test data, and packages built once per test process."""
import json
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TESTDATA = ROOT / "testdata"
PROGRAM = Path(os.environ.get("MOBIUS_PROGRAM", ROOT / "build" / "bin" / "mobius"))


def run_mobius(*arguments, env: dict | None = None, cwd: Path | None = None, timeout: float = 300) -> subprocess.CompletedProcess:
    """Runs the program with its standard input closed; the result holds text and exit code."""
    return subprocess.run([PROGRAM, *map(str, arguments)], env={**os.environ, **(env or {})}, cwd=cwd, timeout=timeout, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, check=False)


def execution_providers(dtype: str) -> list[dict]:
    """The built-in ones that run whole models in this type, with all their facts: tests of every EP find a new one by themselves."""
    return [ep for ep in json.loads(run_mobius("list", "eps", "--json").stdout) if dtype in ep["dtypes"]]


@pytest.fixture(scope="session")
def mobius():
    """The program as a function: mobius("build", folder, "-o", out) -> CompletedProcess."""
    if not PROGRAM.exists():
        pytest.fail(f"{PROGRAM} does not exist: build first (scripts/build)")
    return run_mobius


@pytest.fixture(scope="session")
def built(mobius, tmp_path_factory):
    """built(checkpoint, *options) -> the folder of a package; the same call builds once."""
    packages: dict = {}

    def build(checkpoint: Path, *options: str) -> Path:
        key = (str(checkpoint), options)
        if key not in packages:
            out = tmp_path_factory.mktemp("packages") / Path(checkpoint).name
            result = mobius("build", checkpoint, "-o", out, *options)
            assert result.returncode == 0, f"mobius build {checkpoint} failed ({result.returncode}):\n{result.stdout}{result.stderr}"
            packages[key] = out
        return packages[key]

    return build
