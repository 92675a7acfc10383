// Decode: what a decoder layer needs besides its input: the attention mask, rotary positions and the key/value cache.
//
//   Tensor forward(Tensor x, Decode& at) const {
//     auto q = at.rope(q_proj(x), cfg.num_attention_heads, cfg.rope);
//     auto k = at.rope(k_proj(x), cfg.num_key_value_heads, cfg.rope);
//     return o_proj(at.attend(q, k, v_proj(x), {.num_heads = 32, .num_kv_heads = 8, .head_dim = 128}));
//   }
//
// It alone knows how the cache is laid out, so that no model file has to. What several layers share (a mask per distinct window, a
// table per distinct rope) is made once, when first asked for.
#pragma once
#include <array>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "mobius/config/rope.hpp"
#include "mobius/nn/tensor.hpp"

namespace mobius {

using nn::Builder;
using nn::Tensor;

struct AttentionSpec {
  std::int64_t num_heads = 0, num_kv_heads = 0, head_dim = 0;
  std::optional<std::int64_t> value_dim = {};  // of a value head; absent: head_dim
  std::optional<std::int64_t> window = {};     // tokens a query sees, itself included; absent: all before it
  std::optional<std::int64_t> chunk = {};      // tokens of a chunk: a query sees those of its own, up to itself; instead of a window
  std::optional<double> scale = {};            // absent: 1/√head_dim
  double softcap = 0;                          // softcap · tanh(score / softcap); 0: none
  std::optional<Tensor> bias = {};             // [B or 1, heads or 1, S, P + S], added to the scores: ALiBi and its like
  std::optional<nn::Parameter> sink = {};      // [heads]: one more score in each row's softmax, which attends to nothing
};

// What a mask adds where a query must not see: the lowest number, rather than −∞, so that no runtime makes NaN of it. For bfloat16 too.
double lowest_score(ir::DataType dtype);

class Decode {
 public:
  // input_ids [B, S], attention_mask [B, P + S] (1 = a token, 0 = padding, on either side), position_ids [B, S]; all int64.
  Decode(Tensor input_ids, Tensor attention_mask, Tensor position_ids);

  const Tensor& position_ids() const { return position_ids_; }
  const Tensor& attention_mask() const { return attention_mask_; }

  // Rotates the first rotary_dim elements of every head of x [B, S, heads·dim].
  Tensor rope(Tensor x, std::int64_t heads, const RopeConfig& rope);
  // The same where some layers have no positions: x itself in those.
  Tensor rope(Tensor x, std::int64_t heads, const std::optional<RopeConfig>& rope) { return rope ? this->rope(x, heads, *rope) : x; }

  // Causal attention of q [B, S, heads·dim] over the cache and k, v [B, S, kv_heads·dim]; the result is [B, S, heads·value_dim].
  // Each call has a cache of its own: past_key_values.{i}.key and .value, i counting the calls.
  Tensor attend(Tensor q, Tensor k, Tensor v, const AttentionSpec& spec);
  // Attention of q over what call number `cache` of attend had: layers that share keys and values. It has no cache of its own.
  Tensor attend_again(Tensor q, std::size_t cache, const AttentionSpec& spec);
  // As attend with a mask of its own, which may depend on the values of all tokens: `mask` takes those [B, kv_heads, P + S, value_dim] and
  // gives numbers to add to the scores, [B, heads, S, P + S], very low where a query must not see.
  using MaskOf = std::function<Tensor(Tensor values)>;
  Tensor attend_masked(Tensor q, Tensor k, Tensor v, const AttentionSpec& spec, const MaskOf& mask);

  // bool [B, 1, S, P + S]: what each query sees. Distances count tokens, not cache slots, so both paddings are right.
  Tensor mask(std::optional<std::int64_t> window);

  // The same for chunks of so many tokens (the chunked attention of Llama 4): (query − 1) / chunk = (key − 1) / chunk.
  Tensor chunk_mask(std::int64_t chunk);

  // The same with a bias: its numbers where a query sees the key, the lowest number elsewhere.
  Tensor mask(std::optional<std::int64_t> window, Tensor bias);

  // int64 [B, 1, 1, P + S] and [B, 1, S, 1]: how many tokens there are up to and including this one, so that the distance of a key is
  // query − key whatever the padding. A key that is padding has a number beyond all tokens'.
  Tensor key_ordinals() { return ordinals().key; }
  Tensor query_ordinals() { return ordinals().query; }

  // The cache's new key and value of the latest attend.
  std::pair<Tensor, Tensor> last_present() const { return {*caches_.back().key, *caches_.back().value}; }

  // Declares the caches' new values as graph outputs: present.{i}.key, present.{i}.value.
  void output_caches();

 private:
  struct Rotary {
    RopeConfig config;
    Tensor cos, sin;
    std::optional<Tensor> positions;  // rows of the tables; absent: cos and sin are per token already
  };
  const Rotary& rotary(const RopeConfig& rope);
  Rotary table(const RopeConfig& rope);
  Rotary computed_in_graph(const RopeConfig& rope);
  std::string name_suffix() const;  // of the next rope's parameters

  struct Mask {
    std::optional<std::int64_t> window, chunk;
    Tensor visible;
  };
  struct Biased {
    std::optional<std::int64_t> window;
    const ir::Value* bias;
    Tensor mask;
  };
  struct Ordinals {
    Tensor key, query;  // [B, 1, 1, T], [B, 1, S, 1]: how many tokens up to and including this one
  };
  const Ordinals& ordinals();

  struct Cache {
    Tensor new_key, new_value;  // of this call's tokens, [B, S, kv_heads·dim]
    Tensor past_key, past_value;
    std::optional<Tensor> key, value;  // of all tokens
    Tensor keep(std::array<Tensor, 3> attended) {
      key = attended[1], value = attended[2];
      return attended[0];
    }
  };
  std::array<Tensor, 3> attention_over(const Cache& cache, Tensor q, Tensor mask, const AttentionSpec& spec);
  std::array<Tensor, 3> attention_with_sink(const Cache& cache, Tensor q, Tensor mask, const AttentionSpec& spec);
  Tensor mask_of(const AttentionSpec& spec);
  std::size_t add_cache(Tensor k, Tensor v, const AttentionSpec& spec);

  Tensor input_ids_, attention_mask_, position_ids_;
  std::optional<Ordinals> ordinals_;
  std::vector<Mask> masks_;
  std::vector<Biased> biased_;
  std::vector<Rotary> rotaries_;
  std::vector<Cache> caches_;
};

}  // namespace mobius
