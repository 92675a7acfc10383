"""Build contexts, execution providers and dtypes; builds in threads and asyncio tasks; memory over many builds."""
import asyncio
import contextvars
import gc
import threading
from concurrent.futures import ThreadPoolExecutor

import ml_dtypes
import mobius
import numpy as np
import onnx_ir as ir
import pytest
from checkpoints import LLAMA, make_checkpoint
from mobius import DataType
from python_support import python

DTYPE_OF = {"default": "f32", "cpu": "f32", "cuda": "f16", "dml": "f16", "webgpu": "f16", "mlx": "f16", "trt-rtx": "f16", "onnx-standard": "f32"}


def here() -> tuple:
    return mobius.ep_capabilities().name, mobius.get_build_dtype()


# ── contexts ──


def test_contexts_nest_and_are_restored_after_exceptions():
    assert here() == ("default", DataType.FLOAT)
    with mobius.build_context(mobius.get_ep("cuda"), "f16"):
        assert here() == ("cuda", DataType.FLOAT16)
        with pytest.raises(ZeroDivisionError):
            with mobius.build_context(mobius.get_ep("dml")):
                assert here() == ("dml", DataType.FLOAT)
                raise ZeroDivisionError
        assert here() == ("cuda", DataType.FLOAT16)
    assert here() == ("default", DataType.FLOAT)


def test_the_capabilities_are_the_very_object():
    mine = mobius.EpCapabilities(name="of-my-own", gqa_dtypes={DataType.BFLOAT16})
    with mobius.build_context(mine):
        assert mobius.ep_capabilities() is mine
    with pytest.raises(TypeError, match="expected EpCapabilities .*, found str"):
        mobius.build_context("cuda")


def test_a_context_decorates_functions_and_can_be_used_again():
    context = mobius.build_context(mobius.get_ep("cuda"), "bf16")
    for _ in range(2):
        with context:
            assert here() == ("cuda", DataType.BFLOAT16)
    assert context(here)() == ("cuda", DataType.BFLOAT16)


def test_threads_begin_outside_of_any_context():
    seen = []
    with mobius.build_context(mobius.get_ep("cuda"), "f16"):
        thread = threading.Thread(target=lambda: seen.append(here()))
        thread.start()
        thread.join()
        carried = contextvars.copy_context()
    assert seen == [("default", DataType.FLOAT)]
    assert carried.run(here) == ("cuda", DataType.FLOAT16)


def test_build_sees_its_own_context_whatever_is_around_it():
    names = []

    class Asks(mobius.models.CausalLMModel):
        def forward(self, op, input_ids, at):
            names.append(here())
            return super().forward(op, input_ids, at)

    config = mobius.ArchitectureConfig.from_pretrained(LLAMA)
    with mobius.build_context(mobius.get_ep("dml"), "f16"):
        mobius.build_from_module(Asks(config), config, execution_provider="cuda", dtype="bf16")
        assert here() == ("dml", DataType.FLOAT16)
    assert names == [("cuda", DataType.BFLOAT16)]


# ── execution providers ──


def test_the_registry_is_a_mapping():
    registry = mobius.ep_registry
    assert list(registry)[:3] == ["default", "cpu", "cuda"] and len(registry) >= 8 and "rocm" not in registry
    assert registry.get("rocm") is None and registry["cuda"] is registry.require("cuda") is mobius.get_ep("cuda")
    assert dict(registry.items())["webgpu"].provider_options["enableGraphCapture"] == "0"
    with pytest.raises(KeyError):
        registry["rocm"]


def test_registering_is_checked():
    with pytest.raises(ValueError, match="'cuda'"):
        mobius.register_ep(mobius.EpCapabilities(name="cuda"))
    with pytest.raises(ValueError, match="'name' is missing"):
        mobius.register_ep(mobius.EpCapabilities(name=""))
    with pytest.raises(ValueError, match="supports_fused_rope = false needs empty qkv_pack_dtypes"):
        mobius.register_ep(mobius.EpCapabilities(name="odd", supports_fused_rope=False, qkv_pack_dtypes={"f16"}))
    with pytest.raises(TypeError, match="found dict"):
        mobius.register_ep({"name": "x"})
    with pytest.raises(mobius.Error, match="'f31' is no element type"):
        mobius.EpCapabilities(name="x", gqa_dtypes={"f31"})
    mobius.register_ep(mobius.EpCapabilities(name="again"), overwrite=True)
    mobius.register_ep(mobius.EpCapabilities(name="again", enable_graph_capture=True), overwrite=True)
    assert mobius.get_ep("again").enable_graph_capture


def test_every_field_of_the_library_is_there_with_its_default():
    import dataclasses
    import json

    from mobius import _native

    fields = {f.name for f in dataclasses.fields(mobius.EpCapabilities)}
    table = {name: json.loads(default) for name, _, default, _ in _native.ep_fields()}
    assert fields == set(table)
    for name in mobius.ep_registry:  # to Python and back
        from mobius._ep import capabilities_json

        assert json.loads(capabilities_json(mobius.get_ep(name))).keys() == table.keys()


# ── dtypes ──


@pytest.mark.parametrize("given,want", [
    ("f16", "FLOAT16"), ("float16", "FLOAT16"), ("FLOAT16", "FLOAT16"), ("half", "FLOAT16"), ("torch.bfloat16", "BFLOAT16"), (np.float16, "FLOAT16"),
    (np.dtype("float32"), "FLOAT"), (ml_dtypes.bfloat16, "BFLOAT16"), (np.dtype(ml_dtypes.bfloat16), "BFLOAT16"), (ir.DataType.BFLOAT16, "BFLOAT16"),
    (DataType.FLOAT, "FLOAT"), (10, "FLOAT16"), (np.bool_, "BOOL"), (ml_dtypes.float8_e4m3fn, "FLOAT8E4M3FN"), ("INT4", "INT4")])
def test_dtypes_are_taken_in_every_form(given, want):
    with mobius.build_context(mobius.get_ep("default"), given):
        assert mobius.get_build_dtype() == ir.DataType[want] and repr(mobius.get_build_dtype()) == want


@pytest.mark.parametrize("given", ["f31", float, 99, object()])
def test_what_is_no_dtype_is_told(given):
    with pytest.raises(ValueError):
        mobius.build(LLAMA, dtype=given)


def test_dtypes_equal_those_of_onnx_ir():
    assert ir.DataType.FLOAT16 in mobius.get_ep("cuda").gqa_dtypes and DataType.FLOAT16 in {ir.DataType.FLOAT16}
    for ours in DataType:
        assert ours == ir.DataType(ours.value) and ours.name == ir.DataType(ours.value).name
    assert DataType.BFLOAT16.numpy() == ml_dtypes.bfloat16 and DataType.FLOAT.numpy() == np.float32


def test_the_dtype_is_the_checkpoints_or_what_the_ep_runs(tmp_path):
    folder = make_checkpoint(tmp_path / "bf16", {"torch_dtype": "bfloat16"}, "BF16")
    assert {ep: mobius.build(folder, execution_provider=ep, load_weights=False)["model"].metadata["mobius.dtype"] for ep in ("cuda", "cpu", "webgpu")} == \
        {"cuda": "bf16", "cpu": "f32", "webgpu": "f16"}
    with pytest.raises(ValueError, match="bf16"):
        mobius.build(folder, execution_provider="cpu", dtype="bf16")


# ── side by side ──


def one(ep: str) -> bytes:
    return mobius.build(LLAMA, execution_provider=ep, dtype=DTYPE_OF[ep])["model"].to_bytes()


@pytest.fixture(scope="module")
def serial():
    return {ep: one(ep) for ep in DTYPE_OF}


def test_32_threads_with_different_eps_build_what_one_does(serial):
    eps = [list(DTYPE_OF)[i % len(DTYPE_OF)] for i in range(32)]
    barrier = threading.Barrier(32)

    def work(ep: str) -> bool:
        barrier.wait()
        return one(ep) == serial[ep]

    with ThreadPoolExecutor(32) as pool:
        assert all(pool.map(work, eps))


def test_threads_with_modules_of_their_own(serial):
    config = mobius.ArchitectureConfig.from_pretrained(LLAMA)

    def work(ep: str) -> bytes:
        package = mobius.build_from_module(mobius.models.CausalLMModel(config), config, execution_provider=ep, dtype=DTYPE_OF[ep], weights=LLAMA)
        return package["model"].to_text(8).encode()

    want = {ep: work(ep) for ep in DTYPE_OF}
    eps = list(DTYPE_OF) * 2
    with ThreadPoolExecutor(len(eps)) as pool:
        for ep, got in zip(eps, pool.map(work, eps)):
            assert got == want[ep], ep


def test_asyncio_tasks_that_meet_inside_their_contexts():
    config = mobius.ArchitectureConfig.from_pretrained(LLAMA)
    task = mobius.CausalLMTask()

    class Branches(mobius.models.CausalLMModel):
        def forward(self, op, input_ids, at):
            logits = super().forward(op, input_ids, at)
            return op.Neg(op.Neg(logits)) if mobius.ep_capabilities().supports_fused_rope else logits

    async def build(ep: str) -> bytes:
        with mobius.build_context(mobius.ep_registry.require(ep), DTYPE_OF[ep]):
            await asyncio.sleep(0)
            first = here()
            package = task.build(Branches(config), config)
            await asyncio.sleep(0.001)
            assert here() == first and first[0] == ep
            return package["model"].to_text().encode()

    async def together() -> list[bytes]:
        return await asyncio.gather(*(build(ep) for ep in DTYPE_OF for _ in range(3)))

    alone = {ep: asyncio.run(build(ep)) for ep in DTYPE_OF}
    assert asyncio.run(together()) == [alone[ep] for ep in DTYPE_OF for _ in range(3)]
    assert b"Neg" in alone["cuda"] and b"Neg_1" not in alone["dml"]
    assert here() == ("default", DataType.FLOAT)


def test_python_runs_while_a_package_is_built_and_saved(tmp_path):
    folder = make_checkpoint(tmp_path / "model", {"hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 60})
    ticks, stop = [0], threading.Event()

    def count() -> None:
        while not stop.is_set():
            ticks[0] += 1
            stop.wait(0.0005)

    thread = threading.Thread(target=count)
    thread.start()
    before = ticks[0]
    package = mobius.build(folder, execution_provider="cuda", dtype="f16")
    during_build = ticks[0] - before
    package.save(tmp_path / "out", progress=False)
    stop.set()
    thread.join()
    assert during_build >= 5


def test_a_model_in_use_is_refused_instead_of_shared(tmp_path):
    package = mobius.build(LLAMA)
    told = []

    def look(done: int, total: int) -> None:
        try:
            package["model"].to_bytes()
        except ValueError as error:
            told.append(str(error))

    package.save(tmp_path / "out", progress=look)
    assert told and "in use by another call" in told[0]
    assert package["model"].op_counts()["Attention"] == 2


def test_memory_stays_flat():
    """RSS after 200 builds is at most 5 % above that after 20."""
    code = f"""
import gc, mobius
def rss():
    gc.collect()
    return int(open('/proc/self/statm').read().split()[1]) * 4096
def build(i):
    ep = ('default', 'cpu', 'onnx-standard')[i % 3]
    package = mobius.build({str(LLAMA)!r}, execution_provider=ep)
    package['model'].initializers['model.norm.weight'].sum()
    if i % 10 == 0:
        config = mobius.ArchitectureConfig.from_pretrained({str(LLAMA)!r})
        mobius.build_from_module(mobius.models.CausalLMModel(config), config)
for i in range(20): build(i)
first = rss()
for i in range(20, 200): build(i)
print(first, rss())
"""
    gc.collect()
    first, last = map(int, python(code).split())
    assert last <= 1.05 * first, (first, last)
