// Zamba2 (arXiv 2411.15242): a line of Mamba-2 layers, some of which get the result of one of a few transformer blocks, shared by all of them, as well.
//
//   t = linear(block([x, embedding]));   y = x + Mamba2(RMSNorm(x + t))
//
// What sets the uses of a block apart are low-rank adapters of its projections, one for each use.
#include <cmath>

#include "mobius/components/decoder.hpp"
#include "mobius/components/state_space.hpp"
#include "mobius/components/state_space_config.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace zamba2 {

struct Config : DecoderConfig {
  Mamba2Shape mamba = {};
  std::vector<std::int64_t> hybrid_layers = {};  // those that use a block
  std::int64_t blocks = 1, adapter_rank = 128;
  bool mlp_linear_bias = false, attention_adapters = false, rotates = false;

  std::int64_t attention_size() const { return 2 * hidden_size; }
};

// The u-th use of a block, which is use u mod blocks: its weights may be stored with any of the layers that use it.
struct Use {
  const Config& cfg;
  Scope layers;  // model.layers
  std::int64_t index;

  Parameter parameter(const std::string& name, ir::Dims dims) const {
    std::vector<std::string> others;
    const auto at = [&](std::size_t use) { return layers / cfg.hybrid_layers[use] / "shared_transformer" / name; };
    const auto first = static_cast<std::size_t>(index % cfg.blocks);
    for (auto u = first + static_cast<std::size_t>(cfg.blocks); u < cfg.hybrid_layers.size(); u += static_cast<std::size_t>(cfg.blocks)) {
      others.push_back(at(u).path());
      others.push_back(at(u).short_path());
    }
    return {at(first), std::move(dims), std::move(others)};
  }
  Linear linear(const std::string& name, std::int64_t in, std::int64_t out, bool bias = false) const {
    return {own() / name, parameter(name + ".weight", {out, in}), bias ? std::optional(parameter(name + ".bias", {out})) : std::nullopt};
  }
  RMSNorm norm(const std::string& name, std::int64_t dim) const { return {own() / name, parameter(name + ".weight", {dim}), cfg.rms_norm_eps}; }
  Scope own() const { return layers / cfg.hybrid_layers[static_cast<std::size_t>(index)] / "shared_transformer"; }
};

// A projection and the low-rank addition that this use has to it:  W·x + B·(A·x)
struct Adapted {
  Linear base;
  std::optional<Linear> down, up;

  Adapted(const Use& use, const std::string& name, const std::string& adapters, bool adapted, std::int64_t in, std::int64_t out, bool bias = false)
      : base(use.linear(name, in, out, bias)) {
    if (!adapted) return;
    const auto list = adapters + "." + std::to_string(use.index);
    down = use.linear(list + ".0", in, use.cfg.adapter_rank);
    up = use.linear(list + ".1", use.cfg.adapter_rank, out);
  }
  Tensor operator()(Tensor x) const {
    const auto y = base(x);
    return down ? y + (*up)((*down)(x)) : y;
  }
};

// Attention and an MLP over the current state and the embedding side by side; heads are twice as wide as the state's, and the scores as high.
struct Block {
  const Config& cfg;
  RMSNorm input_layernorm, pre_ff_layernorm;
  Adapted q_proj, k_proj, v_proj, gate_up_proj;
  Linear o_proj, down_proj;

  explicit Block(const Use& use)
      : cfg(use.cfg),
        input_layernorm(use.norm("input_layernorm", cfg.attention_size())),
        pre_ff_layernorm(use.norm("pre_ff_layernorm", cfg.hidden_size)),
        q_proj(use, "self_attn.q_proj", "self_attn.linear_q_adapter_list", cfg.attention_adapters, cfg.attention_size(), cfg.q_size()),
        k_proj(use, "self_attn.k_proj", "self_attn.linear_k_adapter_list", cfg.attention_adapters, cfg.attention_size(), cfg.kv_size()),
        v_proj(use, "self_attn.v_proj", "self_attn.linear_v_adapter_list", cfg.attention_adapters, cfg.attention_size(), cfg.kv_size()),
        gate_up_proj(use, "feed_forward.gate_up_proj", "feed_forward.gate_up_proj_adapter_list", true, cfg.hidden_size, 2 * cfg.intermediate_size,
                     cfg.mlp_linear_bias),
        o_proj(use.linear("self_attn.o_proj", cfg.q_size(), cfg.hidden_size)),
        down_proj(use.linear("feed_forward.down_proj", cfg.intermediate_size, cfg.hidden_size, cfg.mlp_linear_bias)) {}

  Tensor operator()(Tensor x, Tensor embedded, Decode& at) const {
    const auto u = input_layernorm(concat<Tensor>({x, embedded}, -1));
    auto q = q_proj(u), k = k_proj(u);
    if (cfg.rotates) {
      q = at.rope(q, cfg.num_attention_heads, cfg.rope);
      k = at.rope(k, cfg.num_key_value_heads, cfg.rope);
    }
    auto spec = attention_spec(cfg, 0);
    spec.scale = 1 / std::sqrt(static_cast<double>(cfg.head_dim) / 2);
    const auto h = o_proj(at.attend(q, k, v_proj(u), spec));
    const auto [gate, up] = split<2>(gate_up_proj(pre_ff_layernorm(h)), {cfg.intermediate_size, cfg.intermediate_size}, -1);
    return down_proj(nn::activation(cfg.hidden_act, gate) * up);
  }
};

struct MambaLayer : Module<MambaLayer, Config> {
  using Module::Module;

  RMSNorm input_layernorm{scope / "input_layernorm", cfg.hidden_size, cfg.rms_norm_eps};
  Mamba2Mixer mamba{scope / "mamba", cfg.mamba};

  Tensor forward(Tensor x, const std::optional<Tensor>& addition, Decode& at) const { return x + mamba(input_layernorm(addition ? x + *addition : x), at); }
};

struct Layer {
  std::optional<Block> block;
  std::optional<Linear> linear;
  MambaLayer mamba;

  Layer(const Scope& layers, const Config& cfg, std::int64_t index) : Layer(layers, cfg, index, use_of(cfg, index)) {}

  Tensor operator()(Tensor x, Tensor embedded, Decode& at) const {
    if (!block) return mamba(x, std::nullopt, at);
    return mamba(x, std::optional((*linear)((*block)(x, embedded, at))), at);
  }

 private:
  Layer(const Scope& layers, const Config& cfg, std::int64_t index, std::optional<std::int64_t> use)
      : block(use ? std::optional<Block>(Block(Use{cfg, layers, *use})) : std::nullopt),
        linear(use ? std::optional(Linear(layers / index / "linear", cfg.hidden_size, cfg.hidden_size)) : std::nullopt),
        mamba(use ? layers / index / "mamba_decoder" : layers / index, cfg) {}

  static std::optional<std::int64_t> use_of(const Config& cfg, std::int64_t index) {
    for (std::size_t u = 0; u < cfg.hybrid_layers.size(); ++u)
      if (cfg.hybrid_layers[u] == index) return static_cast<std::int64_t>(u);
    return std::nullopt;
  }
};

struct Zamba2 : Module<Zamba2, Config> {
  Scope model = (scope / "model").or_left_out(), head = scope / "lm_head";
  Embedding embed_tokens = token_embedding(model / "embed_tokens", cfg, head);
  std::vector<Layer> layers = {};
  RMSNorm final_layernorm{model / "final_layernorm", cfg.hidden_size, cfg.rms_norm_eps};
  Linear lm_head = vocabulary_head(head, cfg, embed_tokens);

  Zamba2(Scope s, const Config& c) : Module(std::move(s), c) {
    for (std::int64_t i = 0; i < cfg.num_hidden_layers; ++i) layers.emplace_back(model / "layers", cfg, i);
  }

  Tensor forward(Tensor input_ids, Decode& at) const {
    const auto embedded = embed_tokens(input_ids);
    auto x = embedded;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      at.enter_layer(static_cast<std::int64_t>(i));
      x = layers[i](x, embedded, at);
    }
    return lm_head(final_layernorm(x));
  }
};

// The first release's layers.
std::vector<std::string> published_kinds() {
  std::vector<std::string> kinds;
  const auto add = [&](int plain, bool hybrid) {
    kinds.insert(kinds.end(), static_cast<std::size_t>(plain), "linear_attention");
    if (hybrid) kinds.emplace_back("hybrid");
  };
  add(1, false);
  for (int i = 0; i < 7; ++i) add(5, true);
  add(4, true);
  add(3, true);
  add(2, false);
  return kinds;
}

Config config(const ConfigReader& r) {
  Config c{read_decoder_without_rope(r, {.hidden_size = 2560,
                                         .intermediate_size = {},
                                         .num_hidden_layers = 54,
                                         .max_position_embeddings = 4096,
                                         .rms_norm_eps = 1e-5,
                                         .hidden_act = "gelu",
                                         .tie_word_embeddings = true})};
  c.intermediate_size = r.optional_size("intermediate_size").value_or(4 * c.hidden_size);
  const auto own_head_dim = r.optional_size("attention_head_dim");
  if (!own_head_dim && c.attention_size() % c.num_attention_heads != 0)
    r.refuse("num_attention_heads", std::to_string(c.num_attention_heads), "a divisor of " + std::to_string(c.attention_size()) + ", twice hidden_size");
  c.head_dim = own_head_dim.value_or(c.attention_size() / c.num_attention_heads);
  if (r.boolean("use_long_context", false)) c.max_position_embeddings = 16384;
  c.rotates = r.boolean("use_mem_rope", false);
  if (c.rotates) c.rope = read_rope(r, c.rope_shape(), {});
  c.attention_adapters = r.boolean("use_shared_attention_adapter", false);
  if (c.attention_adapters && c.num_key_value_heads != c.num_attention_heads)
    r.unsupported("use_shared_attention_adapter needs as many key heads as query heads");
  c.adapter_rank = r.size("adapter_rank", 128);
  c.mlp_linear_bias = r.boolean("add_bias_linear", false);
  c.blocks = r.size("num_mem_blocks", 1);

  const auto key = r.has("layers_block_type") ? "layers_block_type" : "layer_types";
  auto kinds = published_kinds();
  if (const auto stated = r.texts(key)) kinds.resize(stated->size());
  kinds = read_layer_kinds(r, key, {"linear_attention", "hybrid"}, std::move(kinds));
  c.num_hidden_layers = static_cast<std::int64_t>(kinds.size());
  for (std::int64_t i = 0; i < c.num_hidden_layers; ++i)
    if (kinds[static_cast<std::size_t>(i)] == "hybrid") c.hybrid_layers.push_back(i);

  const auto inner = r.size("mamba_expand", 2) * c.hidden_size;
  auto& m = c.mamba;
  m.hidden = c.hidden_size;
  m.heads = r.size("n_mamba_heads", 8);
  m.head_dim = inner / m.heads;
  m.groups = r.size("mamba_ngroups", 1);
  m.state = r.size("mamba_d_state", 64);
  m.kernel = r.size("mamba_d_conv", 4);
  m.proj_bias = c.mlp_linear_bias;
  m.min_step = r.number("time_step_min", 0.001);
  check_inner_size(m, r, inner);
  return c;
}

}  // namespace zamba2

Family family_zamba2() { return {.types = {"zamba2"}, .task = "hybrid-text-generation", .build = causal_lm_of<zamba2::Zamba2>(zamba2::config)}; }

}  // namespace mobius::models
