// MPT (MosaicML 2023; transformers modeling_mpt.py): ALiBi instead of positions, LayerNorm without biases, and none elsewhere.
//
//   score(query, key) = q · k · scale − slope(head) · distance(query, key)
#include "mobius/components/layer_norm_decoder.hpp"
#include "mobius/models/family.hpp"

namespace mobius::models {
namespace mpt {

struct Config : DecoderConfig {
  std::optional<double> scale = {};     // absent: 1/√head_dim
  std::optional<double> clip_qkv = {};  // queries, keys and values within ±clip_qkv
};

struct Attention : Module<Attention, Config> {
  std::int64_t layer;
  Attention(Scope s, const Config& c, std::int64_t layer_index) : Module(std::move(s), c), layer(layer_index) {}

  QKV Wqkv = joined_qkv(scope / "Wqkv", cfg);
  Linear out_proj{scope / "out_proj", cfg.q_size(), cfg.hidden_size};

  Tensor forward(Tensor x, Decode& at, Tensor distances) const {
    auto spec = attention_spec(cfg, layer);
    spec.bias = distances;
    spec.scale = cfg.scale;
    auto [q, k, v] = Wqkv(x);
    if (cfg.clip_qkv)
      for (auto* t : {&q, &k, &v}) *t = clip(*t, -*cfg.clip_qkv, *cfg.clip_qkv);
    return out_proj(at.attend(q, k, v, spec));
  }
};

struct Block : Module<Block, Config> {
  std::int64_t index;
  Block(Scope s, const Config& c, std::int64_t i) : Module(std::move(s), c), index(i) {}

  LayerNorm norm_1{scope / "norm_1", cfg.hidden_size, cfg.rms_norm_eps, LayerNorm::Affine::weight_only};
  Attention attn{scope / "attn", cfg, index};
  LayerNorm norm_2{scope / "norm_2", cfg.hidden_size, cfg.rms_norm_eps, LayerNorm::Affine::weight_only};
  FeedForward ffn{scope / "ffn", {"up_proj", "down_proj"}, cfg};

  Tensor forward(Tensor x, Decode& at, Tensor distances) const {
    const auto h = x + attn(norm_1(x), at, distances);
    return h + ffn(norm_2(h));
  }
};

struct MPT : Module<MPT, Config> {
  using Module::Module;
  Scope transformer = (scope / "transformer").or_left_out();
  Scope head = scope / "lm_head";

  Embedding wte = token_embedding(transformer / "wte", cfg, head);
  std::vector<Block> blocks = layers_of<Block>(transformer / "blocks", cfg);
  LayerNorm norm_f{transformer / "norm_f", cfg.hidden_size, cfg.rms_norm_eps, LayerNorm::Affine::weight_only};
  Linear lm_head = vocabulary_head(head, cfg, wte);

  Tensor forward(Tensor input_ids, Decode& at) const {
    const auto distances = alibi(at, alibi_slopes(cfg.num_attention_heads));
    auto x = wte(input_ids);
    for (const auto& block : blocks) x = block(x, at, distances);
    return lm_head(norm_f(x));
  }
};

// transformers has one MPT: with ALiBi and its usual slopes, whatever the config says. Checkpoints that were trained otherwise are refused.
void read_attention(Config& c, const ConfigReader& r) {
  r.only("alibi", true);
  r.only("alibi_bias_max", 8);
  r.only("attn_type", "multihead_attention");
  r.only("prefix_lm", false);
  r.only("qk_ln", false);
  r.only("attn_uses_sequence_id", false);
  c.scale = r.nullable_positive("softmax_scale", std::nullopt);
  if (r.has("clip_qkv") && r.number("clip_qkv", 0) != 0) c.clip_qkv = r.positive("clip_qkv", 0);
}

Config config(const ConfigReader& r) {
  Config c{read_decoder_without_rope(r, {.vocab_size = 50368,
                                         .hidden_size = 2048,
                                         .num_hidden_layers = 24,
                                         .num_attention_heads = 16,
                                         .rms_norm_eps = 1e-5,
                                         .tie_word_embeddings = true,
                                         .own_names = {{"hidden_size", "d_model"},
                                                       {"num_hidden_layers", "n_layers"},
                                                       {"num_attention_heads", "n_heads"},
                                                       {"max_position_embeddings", "max_seq_len"},
                                                       {"rms_norm_eps", "layer_norm_epsilon"}}})};
  c.intermediate_size = 4 * c.hidden_size;  // expansion_ratio is not asked for
  c.hidden_act = "gelu";
  if (r.has("attn_config")) read_attention(c, r.nested("attn_config"));
  r.only("logit_scale", nullptr);
  return c;
}

}  // namespace mpt

Family family_mpt() { return {.types = {"mpt"}, .build = causal_lm_of<mpt::MPT>(mpt::config)}; }

}  // namespace mobius::models
