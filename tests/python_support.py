"""What the tests of the Python module share: a local Hub cache of tiny checkpoints, runs on ONNX Runtime, fresh processes."""
import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
from checkpoints import CONFIG, header_of, shapes
from conftest import ROOT, TESTDATA
from safetensors.numpy import save_file

MODULE_FOLDER = ROOT / "build" / "python"
SPECIFICATION = ROOT.parent / "shared" / "spec" / "ep_aware_building.txt"
# The model ids of the specification, and of docs/, as checkpoints that are here.
MODELS = {"Qwen/Qwen2.5-7B": "qwen2", "Qwen/Qwen2.5-0.5B": "qwen2", "meta-llama/Llama-3.2-3B": "llama", "HuggingFaceTB/SmolLM2-135M": "llama"}


def make_hub(folder: Path, models: dict[str, str] = MODELS) -> Path:
    """A Hub cache, laid out as huggingface_hub does it: point $HF_HUB_CACHE at it."""
    for model_id, case in models.items():
        repository = folder / ("models--" + model_id.replace("/", "--"))
        commit = hashlib.sha1(model_id.encode()).hexdigest()
        (repository / "refs").mkdir(parents=True)
        (repository / "refs" / "main").write_text(commit)
        shutil.copytree(TESTDATA / "golden" / case, repository / "snapshots" / commit)
    return folder


def random_checkpoint(folder: Path, config: dict | None = None, seed: int = 0) -> Path:
    """A Llama checkpoint with weights that are not zeros."""
    folder.mkdir(parents=True, exist_ok=True)
    config = CONFIG | (config or {})
    random = np.random.default_rng(seed)
    save_file({name: (random.standard_normal(entry["shape"]) * 0.3).astype(np.float32) for name, entry in header_of(shapes(config)).items()},
              folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def run_logits(model: bytes | Path, ids: np.ndarray, **more: np.ndarray) -> np.ndarray:
    """Logits of a prompt with an empty cache."""
    import onnxruntime

    session = onnxruntime.InferenceSession(model if isinstance(model, bytes) else str(model), providers=["CPUExecutionProvider"])
    feed = {"input_ids": ids, "attention_mask": np.ones_like(ids), "position_ids": np.broadcast_to(np.arange(ids.shape[1]), ids.shape)} | more
    types = {"tensor(float)": np.float32, "tensor(float16)": np.float16}
    for i in session.get_inputs():
        if i.name not in feed:
            feed[i.name] = np.zeros([ids.shape[0] if j == 0 else d if isinstance(d, int) else 0 for j, d in enumerate(i.shape)], types[i.type])
    names = {i.name for i in session.get_inputs()}
    return session.run(["logits"], {name: np.ascontiguousarray(value) for name, value in feed.items() if name in names})[0]


def python(code: str, *, executable: str | Path = sys.executable, env: dict | None = None, cwd: Path | None = None, timeout: float = 300) -> str:
    """Runs code in a fresh process; what it prints."""
    result = subprocess.run([str(executable), "-c", code], capture_output=True, text=True, timeout=timeout, cwd=cwd, check=False,
                            env={**os.environ, **(env or {})})
    assert result.returncode == 0, f"{result.stdout}\n{result.stderr}"
    return result.stdout
