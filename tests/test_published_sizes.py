"""Published models by their configs alone: what Mobius counts is what they are known to have, and their graphs are made at once.

`source` says where a count was read. It is the published one, or differs from it by what `source` names. The configs hold only what sets a model
apart from its type's defaults, and the sizes that tell the reader what it is.
"""
import json
import subprocess
import sys
from dataclasses import dataclass

import onnx
import pytest
from conftest import PROGRAM, execution_providers

EPS = [ep["name"] for ep in execution_providers("f32")]


@dataclass
class Published:
    parameters: float
    within: float  # relative
    source: str
    config: dict


def exactly(parameters: int, source: str, **config) -> Published:
    return Published(parameters, 0, source, config)


def rounded(parameters: float, unit: float, source: str, **config) -> Published:
    """As published to a unit: 6.9e9 to 0.1e9."""
    return Published(parameters, unit / 2 / parameters, source, config)


KERAS = "github.com/keras-team/keras-hub, keras_hub/src/models/"  # the presets state the parameters counted in each converted checkpoint
LEADERBOARD = "huggingface.co/datasets/open-llm-leaderboard/requests, "  # the parameters in each checkpoint's safetensors, in billions
CHATLLM = "github.com/foldl/chatllm.cpp, docs/tool_calling.md: the parameters of the models it loads"
# GPT-J's count is that of its training program, which sums over 8 shards. Each holds a copy of every LayerNorm (weight and bias) and of the bias behind
# each MLP, and a bias of its own for the embedding.
GPT_J_COPIES = 7 * 28 * (2 * 4096 + 4096) + 7 * 2 * 4096 + 8 * 4096
MODELS = {
    "Meta-Llama-3-8B": exactly(8_030_261_248, KERAS + "llama3/llama3_presets.py, llama3_8b_en", model_type="llama", vocab_size=128256, hidden_size=4096,
                               intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=8),
    "TinyLlama-1.1B": rounded(1.1e9, 0.1e9, "github.com/Lightning-AI/litgpt, tutorials/pretrain_tinyllama.md: its table has the sizes as well",
                              model_type="llama", vocab_size=32000, hidden_size=2048, intermediate_size=5632, num_hidden_layers=22, num_attention_heads=32,
                              num_key_value_heads=4),
    "Mistral-7B": exactly(7_241_732_096, KERAS + "mistral/mistral_presets.py, mistral_7b_en", model_type="mistral", vocab_size=32000, hidden_size=4096,
                          intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=8),
    "Qwen2.5-0.5B": exactly(494_032_768, KERAS + "qwen/qwen_presets.py, qwen2.5_0.5b_en", model_type="qwen2", vocab_size=151936, hidden_size=896,
                            intermediate_size=4864, num_hidden_layers=24, num_attention_heads=14, num_key_value_heads=2, tie_word_embeddings=True),
    "Qwen3-0.6B": exactly(596_049_920, KERAS + "qwen3/qwen3_presets.py, qwen3_0.6b_en", model_type="qwen3", vocab_size=151936, hidden_size=1024,
                          intermediate_size=3072, num_hidden_layers=28, num_attention_heads=16, num_key_value_heads=8, head_dim=128,
                          tie_word_embeddings=True),
    "Phi-3-mini": exactly(3_821_079_552, KERAS + "phi3/phi3_presets.py, phi3_mini_4k_instruct_en", model_type="phi3", vocab_size=32064, hidden_size=3072,
                          intermediate_size=8192, num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=32, pad_token_id=32000),
    "phi-2": rounded(2.78e9, 0.01e9,
                     "huggingface.co/datasets/eduagarcia-temp/llm_pt_leaderboard_requests, microsoft/phi-2_eval_request_False_float16_Original.json",
                     model_type="phi", vocab_size=51200, hidden_size=2560, intermediate_size=10240, num_hidden_layers=32, num_attention_heads=32,
                     partial_rotary_factor=0.4),
    "GPT-2": exactly(124_439_808, KERAS + "gpt2/gpt2_presets.py, gpt2_base_en", model_type="gpt2", vocab_size=50257, n_positions=1024, n_embd=768, n_layer=12,
                     n_head=12),
    "GPT-2 XL": exactly(1_557_611_200, KERAS + "gpt2/gpt2_presets.py, gpt2_extra_large_en", model_type="gpt2", vocab_size=50257, n_positions=1024,
                        n_embd=1600, n_layer=48, n_head=25),
    "GPT-J-6B": exactly(6_053_381_344 - GPT_J_COPIES,
                        "github.com/kingoflolz/mesh-transformer-jax: README.md, model details; mesh_transformer/layers.py and transformer_shard.py, which "
                        "prints the size of all that the shards hold; configs/6B_roto_256.json",
                        model_type="gptj", vocab_size=50400, n_positions=2048, n_embd=4096, n_layer=28, n_head=16, rotary_dim=64),
    "GPT-NeoX-20B": exactly(20_554_567_680, "huggingface.co/EleutherAI/gpt-neox-20b, its table of hyperparameters", model_type="gpt_neox", vocab_size=50432,
                            hidden_size=6144, intermediate_size=24576, num_hidden_layers=44, num_attention_heads=64, rotary_pct=0.25),
    "OPT-125M": exactly(125_237_760 + 2 * 768, KERAS + "opt/opt_presets.py, opt_125m_en, which has no rows for the two positions before the first token",
                        model_type="opt", vocab_size=50272, hidden_size=768, ffn_dim=3072, num_hidden_layers=12, num_attention_heads=12,
                        max_position_embeddings=2048, word_embed_proj_dim=768),
    "BLOOM-560M": exactly(559_214_592, KERAS + "bloom/bloom_presets.py, bloom_560m_multi", model_type="bloom", vocab_size=250880, hidden_size=1024,
                          n_layer=24, n_head=16),
    "BLOOM": exactly(352_494_542_848 // 2,
                     "github.com/amansingh61/bloom, a copy of bigscience/bloom: total_size in model.safetensors.index.json; its config.json",
                     model_type="bloom", vocab_size=250880, n_embed=14336, n_layer=70, num_attention_heads=112),
    "Falcon-7B": rounded(7.22e9 - 65024 * 4544, 0.01e9,
                         "huggingface.co/ei-grad/falcon-7b-instruct-q4, whose 7.22B count the embedding's matrix as the head's as well", model_type="falcon",
                         vocab_size=65024, hidden_size=4544, num_hidden_layers=32, num_attention_heads=71, multi_query=True, parallel_attn=True, bias=False,
                         new_decoder_architecture=False, alibi=False),
    "Falcon-RW-1B": exactly(1_311_625_216, KERAS + "falcon/falcon_presets.py, falcon_refinedweb_1b_en", model_type="falcon", vocab_size=50304,
                            hidden_size=2048, num_hidden_layers=24, num_attention_heads=32, multi_query=False, parallel_attn=False, bias=True,
                            new_decoder_architecture=False, alibi=True),
    "MPT-7B": rounded(26.59e9 / 4, 0.06e9 / 4, "huggingface.co/Cheng98/mpt-7b, the list of its files: six of float32, each to 0.01 GB",
                      model_type="mpt", vocab_size=50432, d_model=4096, n_layers=32, n_heads=32, max_seq_len=2048, no_bias=True,
                      attn_config={"alibi": True}),
    "StarCoder2-3B": rounded(3.03e9, 0.01e9, "promptlayer.com/models/starcoder2-3b", model_type="starcoder2", vocab_size=49152, hidden_size=3072,
                             intermediate_size=12288, num_hidden_layers=30, num_attention_heads=24, num_key_value_heads=2),
    "StableLM-2-1.6B": exactly(1_644_417_024 + 2 * 24 * 2048,
                               "huggingface.co/stabilityai/stablelm-2-1_6b, its table, too few by what the biases of the 24 layers' norms are, "
                                "which the same card says are there",
                               model_type="stablelm", vocab_size=100352, hidden_size=2048, intermediate_size=5632, num_hidden_layers=24,
                               num_attention_heads=32, num_key_value_heads=32, use_qkv_bias=True),
    "Gemma-2B": exactly(2_506_172_416, KERAS + "gemma/gemma_presets.py, gemma_2b_en", model_type="gemma", vocab_size=256000, hidden_size=2048,
                        intermediate_size=16384, num_hidden_layers=18, num_attention_heads=8, num_key_value_heads=1, head_dim=256),
    "Gemma-2-9B": exactly(9_241_705_984, KERAS + "gemma/gemma_presets.py, gemma2_9b_en", model_type="gemma2", vocab_size=256000, hidden_size=3584,
                          intermediate_size=14336, num_hidden_layers=42, num_attention_heads=16, num_key_value_heads=8, head_dim=256),
    "OLMo-7B": rounded(6.888e9, 0.001e9, LEADERBOARD + "allenai/OLMo-7B-hf_eval_request_False_float32_Original.json", model_type="olmo", vocab_size=50304,
                       hidden_size=4096, intermediate_size=11008, num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=32),
    "Command R": rounded(34.981e9, 0.001e9, LEADERBOARD + "CohereForAI/c4ai-command-r-v01_eval_request_False_float16_Original.json", model_type="cohere",
                         vocab_size=256000, hidden_size=8192, intermediate_size=22528, num_hidden_layers=40, num_attention_heads=64, num_key_value_heads=64),
    "GLM-4-9B": exactly(9_399_951_360, CHATLLM, model_type="glm"),
    "Mixtral-8x7B": exactly(46_702_792_704, KERAS + "mixtral/mixtral_presets.py, mixtral_8_7b_en", model_type="mixtral", vocab_size=32000, hidden_size=4096,
                            intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=8, num_local_experts=8,
                            num_experts_per_tok=2),
    "Qwen1.5-MoE-A2.7B": exactly(14_315_784_192, KERAS + "qwen_moe/qwen_moe_presets.py, qwen1.5_moe_2.7b_en; " + CHATLLM, model_type="qwen2_moe"),
    "Qwen3-30B-A3B": exactly(30_532_122_624, KERAS + "qwen3_moe/qwen3_moe_presets.py, qwen3_moe_30b_a3b_en", model_type="qwen3_moe", vocab_size=151936,
                             hidden_size=2048, intermediate_size=6144, moe_intermediate_size=768, num_hidden_layers=48, num_attention_heads=32,
                             num_key_value_heads=4, head_dim=128, num_experts=128, num_experts_per_tok=8, norm_topk_prob=True),
    "OLMoE-1B-7B": rounded(6.9e9, 0.1e9, "github.com/allenai/OLMoE, README.md", model_type="olmoe", vocab_size=50304, hidden_size=2048,
                           intermediate_size=1024, num_hidden_layers=16, num_attention_heads=16, num_key_value_heads=16, num_experts=64,
                           num_experts_per_tok=8),
    "Granite-3.1-1B-A400M": exactly(5_338_513_408 // 4,
                                    "github.com/jeremieconte/granite-3.1-1b-a400m-instruct: total_size, of float32, in model.safetensors.index.json; "
                                     "its config.json",
                                    model_type="granitemoe", vocab_size=49155, hidden_size=1024, intermediate_size=512, num_hidden_layers=24,
                                    num_attention_heads=16, num_key_value_heads=8, num_local_experts=32, num_experts_per_tok=8, tie_word_embeddings=True),
    "DeepSeek-V2-Lite": exactly(15_706_484_224, CHATLLM + " (DeepSeek-Coder-V2-Lite, which has the same sizes)", model_type="deepseek_v2", vocab_size=102400,
                                hidden_size=2048, intermediate_size=10944, moe_intermediate_size=1408, num_hidden_layers=27, num_attention_heads=16,
                                num_key_value_heads=16, q_lora_rank=None, kv_lora_rank=512, qk_rope_head_dim=64, qk_nope_head_dim=128, v_head_dim=128,
                                n_routed_experts=64, n_shared_experts=2, num_experts_per_tok=6, first_k_dense_replace=1, topk_method="greedy"),
    "DeepSeek-V3": rounded(671e9, 1e9, "github.com/deepseek-ai/DeepSeek-V3, README_WEIGHTS.md: the main model's", model_type="deepseek_v3"),
    "mamba-130m": rounded(517e6 / 4, 1e6 / 4, "huggingface.co/state-spaces/mamba-130m, the list of its files: 517 MB of float32", model_type="mamba",
                          vocab_size=50280, hidden_size=768, num_hidden_layers=24, state_size=16, tie_word_embeddings=True),
    "Jamba-v0.1": rounded(51.57e9, 0.01e9, LEADERBOARD + "ai21labs/Jamba-v0.1_eval_request_False_bfloat16_Original.json", model_type="jamba",
                          vocab_size=65536, hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=8,
                          num_experts=16, num_experts_per_tok=2),
}


def write_config(folder, config: dict):
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.parametrize("name", MODELS)
def test_parameters_are_as_many_as_published(name, mobius, tmp_path):
    told = mobius("info", write_config(tmp_path / "model", MODELS[name].config), "--json")
    assert told.returncode == 0, told.stderr
    count = json.loads(told.stdout)["parameters"]
    assert abs(count - MODELS[name].parameters) <= MODELS[name].within * MODELS[name].parameters, f"{count:,}, published {MODELS[name].parameters:,.0f}"


MEASURED = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime, used.ru_maxrss)
"""


@pytest.mark.parametrize("ep", EPS)
def test_deepseek_v3_takes_a_second_and_little_memory(ep, tmp_path):
    folder, out = write_config(tmp_path / "model", MODELS["DeepSeek-V3"].config), tmp_path / "out"
    # By way of a small process: a child's peak begins with what its parent holds.
    done = subprocess.run([sys.executable, "-c", MEASURED, PROGRAM, "build", folder, out, "--no-weights", "--ep", ep], capture_output=True, text=True, check=True)
    cpu_seconds, peak_kilobytes = map(float, done.stdout.split()[-2:])
    # CPU time, since the clock also shows what else the machine does; three times the aim of one second.
    assert cpu_seconds <= 3
    assert peak_kilobytes <= 200 * 1024
    assert len(onnx.load(out / "model.onnx", load_external_data=False).graph.node) < 61 * 150
