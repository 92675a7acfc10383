// A language model whose layers are mixers alone: x + mixer(norm(x)), under the names of the state-spaces checkpoints.
//
//   using Mamba = StateSpaceLM<Mixer, MambaConfig>;             // Mixer(Scope, MambaConfig), called as mixer(x, at)
#pragma once
#include <vector>

#include "mobius/components/selective_mixer.hpp"
#include "mobius/nn/layers.hpp"

namespace mobius {

// What state-space language models have in common; a mixer's own sizes are added by its family.
struct StateSpaceConfig {
  ir::DataType dtype = ir::DataType::float32;
  std::int64_t vocab_size = 0, hidden_size = 0, num_hidden_layers = 0;
  double layer_norm_epsilon = 1e-5;
  bool tie_word_embeddings = true;
};

struct SelectiveConfig : StateSpaceConfig {
  SelectiveShape mixer;
};
SelectiveConfig read_selective(const ConfigReader& reader);

template <class Mixer, class Config>
struct StateSpaceLM : nn::Module<StateSpaceLM<Mixer, Config>, Config> {
  using Base = nn::Module<StateSpaceLM, Config>;
  using Base::cfg, Base::scope;

  struct Layer : nn::Module<Layer, Config> {
    using Block = nn::Module<Layer, Config>;
    using Block::Block, Block::cfg, Block::scope;
    nn::RMSNorm norm{scope / "norm", cfg.hidden_size, cfg.layer_norm_epsilon};
    Mixer mixer{scope / "mixer", cfg};
    Tensor forward(Tensor x, Decode& at) const { return x + mixer(norm(x), at); }
  };

  nn::Scope backbone = (scope / "backbone").or_left_out();
  nn::Scope head = scope / "lm_head";
  nn::Embedding embeddings{backbone / "embeddings", cfg.vocab_size, cfg.hidden_size, other_names()};
  std::vector<Layer> layers = nn::repeat<Layer>(cfg.num_hidden_layers, backbone / "layers", cfg);
  nn::RMSNorm norm_f{backbone / "norm_f", cfg.hidden_size, cfg.layer_norm_epsilon};
  nn::Linear lm_head = cfg.tie_word_embeddings ? nn::Linear(head, embeddings.weight()) : nn::Linear(head, cfg.hidden_size, cfg.vocab_size);

  StateSpaceLM(nn::Scope s, const Config& c) : Base(std::move(s), c) {}

  // input_ids [B, S] -> logits [B, S, vocab_size]
  Tensor forward(Tensor input_ids, Decode& at) const {
    auto x = embeddings(input_ids);
    for (std::size_t i = 0; i < layers.size(); ++i) {
      at.enter_layer(static_cast<std::int64_t>(i));
      x = layers[i](x, at);
    }
    return lm_head(norm_f(x));
  }

 private:
  // The first checkpoints said "embedding".
  std::vector<std::string> other_names() const {
    const auto first = backbone / "embedding" / "weight";
    std::vector<std::string> names{first.path(), first.short_path()};
    if (cfg.tie_word_embeddings) names.push_back((head / "weight").path());
    return names;
  }
};

}  // namespace mobius
