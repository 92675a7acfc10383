// Decoder layers some of which have experts in place of the MLP.
//
//   struct SparseMLP : Module<SparseMLP, MoeConfig> { ... };
//   using Qwen3Moe = CausalLM<MoeLayer<Attention, SparseMLP>, MoeConfig>;
#pragma once
#include <variant>
#include <vector>

#include "mobius/components/decoder.hpp"
#include "mobius/components/experts.hpp"

namespace mobius {

struct MoeConfig : DecoderConfig {
  std::int64_t num_experts = 0, experts_per_token = 0;
  std::int64_t expert_size = 0;  // the width of an expert
  std::int64_t shared_size = 0;  // the width of the expert that every token goes to; 0: there is none
  bool normalise = false;        // the chosen experts' weights sum to 1
  double routed_scale = 1;
  std::vector<bool> sparse = {};  // one per layer: experts, else an MLP

  ExpertSizes expert_sizes() const { return {.experts = num_experts, .hidden = hidden_size, .inner = expert_size}; }
};

// Errors: invalid_argument for more experts per token than there are.
void check_experts(const MoeConfig& config, const ConfigReader& reader);

// Which layers have experts: from layer `first` on; or, as Qwen has it, each "decoder_sparse_step"-th but those in "mlp_only_layers".
std::vector<bool> sparse_from(std::int64_t first, std::int64_t layers);
std::vector<bool> sparse_by_step(const ConfigReader& reader, std::int64_t layers);

// A gated MLP of a width of its own: an expert that all tokens share.
struct SharedExpert : Module<SharedExpert, DecoderConfig> {
  std::int64_t width;
  SharedExpert(Scope s, const DecoderConfig& c, std::int64_t inner) : Module(std::move(s), c), width(inner) {}

  Linear gate_proj{scope / "gate_proj", cfg.hidden_size, width, cfg.mlp_bias};
  Linear up_proj{scope / "up_proj", cfg.hidden_size, width, cfg.mlp_bias};
  Linear down_proj{scope / "down_proj", width, cfg.hidden_size, cfg.mlp_bias};

  Tensor forward(Tensor x) const {
    const auto gate = nn::activation(cfg.hidden_act, gate_proj(x));
    return down_proj(gate * up_proj(x));
  }
};

// Experts see tokens, whatever sequence these are of: f [tokens, hidden] -> [tokens, hidden], applied to x [B, S, hidden].
template <class F>
Tensor over_tokens(Tensor x, std::int64_t hidden, F&& f) {
  return reshape(f(reshape(x, {-1, hidden})), shape(x));
}

// The usual experts: y = Σ softmax(x·Wg)ᵢ · SwiGLUᵢ(x) over the k best, whose weights may be made to sum to 1.
struct SoftmaxExperts : Module<SoftmaxExperts, MoeConfig> {
  using Module::Module;

  Linear gate{scope / "gate", cfg.hidden_size, cfg.num_experts};
  GatedExperts experts{scope / "experts", cfg.expert_sizes(), cfg.hidden_act};

  Tensor forward(Tensor x) const {
    return over_tokens(x, cfg.hidden_size, [&](Tensor tokens) {
      const auto routing = choose_by_softmax(gate(tokens), cfg.experts_per_token);
      return experts(tokens, cfg.normalise ? normalised(routing) : routing);
    });
  }
};

// The same and an expert for every token, behind a gate of its own (arXiv 2407.10671): + σ(x·ws) · SwiGLU(x).
struct GatedShareExperts : Module<GatedShareExperts, MoeConfig> {
  using Module::Module;

  SoftmaxExperts routed{scope, cfg};
  SharedExpert shared_expert{scope / "shared_expert", cfg, cfg.shared_size};
  Linear shared_expert_gate{scope / "shared_expert_gate", cfg.hidden_size, 1};

  Tensor forward(Tensor x) const {
    const auto chosen = routed(x);
    const auto share = sigmoid(shared_expert_gate(x));
    return chosen + share * shared_expert(x);
  }
};

// The k best of a few experts, whose weights sum to 1 (arXiv 2401.04088):  y = Σ softmax(topk(x·Wg))ᵢ · SwiGLUᵢ(x)
struct MixtralExperts : Module<MixtralExperts, MoeConfig> {
  using Module::Module;

  Linear gate{scope / "gate", cfg.hidden_size, cfg.num_experts};
  GatedExperts experts{scope / "experts", cfg.expert_sizes(), cfg.hidden_act, {.gate = "w1", .up = "w3", .down = "w2"}};

  Tensor forward(Tensor x) const {
    return over_tokens(x, cfg.hidden_size, [&](Tensor tokens) { return experts(tokens, normalised(choose_by_softmax(gate(tokens), cfg.experts_per_token))); });
  }
};

// MLP where `sparse` says no.
template <class Sparse, class Dense = GatedMLP>
struct DenseOrSparse {
  std::variant<Dense, Sparse> part;

  template <class Config>
  DenseOrSparse(const Scope& s, const Config& c, std::int64_t layer) : part(make(s, c, layer)) {}

  Tensor operator()(Tensor x) const {
    return std::visit([&](const auto& p) { return p(x); }, part);
  }

 private:
  template <class Config>
  static std::variant<Dense, Sparse> make(const Scope& s, const Config& c, std::int64_t layer) {
    if (c.sparse[static_cast<std::size_t>(layer)]) return Sparse(s, c);
    return Dense(s, c);
  }
};

// h = x + Attention(RMSNorm(x));   y = h + MLP or experts(RMSNorm(h))
template <class Attention, class Sparse, class Config = MoeConfig>
using MoeLayer = PreNormLayer<Attention, DenseOrSparse<Sparse>, Config>;

// The same with experts in every layer, under the name that Mixtral gave them.
struct MixtralLayerNames : LayerNames {
  static constexpr std::string_view mlp = "block_sparse_moe";
};
template <class Attention, class Sparse, class Config = MoeConfig, class Norm = RMSNorm>
using BlockSparseLayer = PreNormLayer<Attention, Sparse, Config, Norm, MixtralLayerNames>;

}  // namespace mobius
