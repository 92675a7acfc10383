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
#include <map>
#include <optional>
#include <string>
#include <string_view>
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
  std::optional<nn::Parameter> sink = {};      // [heads]: one more score in each row's softmax, which attends to nothing; not with a softcap
};

// What a mask adds where a query must not see: the lowest number, rather than −∞, so that no runtime makes NaN of it. For bfloat16 too.
double lowest_score(ir::DataType dtype);

// A recurrence over a state S [key_dim, value_dim] of each head, token by token:
//   S ← exp(decay)·S;   S ← S + k ⊗ β(v − Sᵀk)  (with β),  or  S + k ⊗ v  (without);   o = scale · Sᵀq
struct RecurrenceSpec {
  std::int64_t query_heads = 0, heads = 0;  // heads: of values and states; queries and keys of query_heads serve equally many each
  std::int64_t key_dim = 0, value_dim = 0;
  double scale = 1;
  std::string_view state = "recurrent_state";  // its name in the cache
  bool flat = false;                           // the cache leaves value_dim out, which is 1
};

class Decode {
 public:
  // input_ids [B, S], attention_mask [B, P + S] (1 = a token, 0 = padding, on either side), position_ids [B, S]; all int64.
  Decode(Tensor input_ids, Tensor attention_mask, Tensor position_ids);
  // Of a model that has neither mask nor positions: states only, past_states.{i}.*, and no padding.
  explicit Decode(Tensor input_ids);

  const Tensor& position_ids() const { return position_ids_; }
  const Tensor& attention_mask() const { return attention_mask_; }

  // The caches that follow are layer i's and are named after it. A model that says so says it in each layer.
  void enter_layer(std::int64_t i) { layer_ = i; }

  // Rotates the first rotary_dim elements of every head of x [B, S, heads·dim].
  Tensor rope(Tensor x, std::int64_t heads, const RopeConfig& rope);
  // The same where some layers have no positions: x itself in those.
  Tensor rope(Tensor x, std::int64_t heads, const std::optional<RopeConfig>& rope) { return rope ? this->rope(x, heads, *rope) : x; }

  // Causal attention of q [B, S, heads·dim] over the cache and k, v [B, S, kv_heads·dim]; the result is [B, S, heads·value_dim].
  // Each call has a cache of its own: past_key_values.{i}.key and .value, i the layer that was entered; else i counts the calls.
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

  // x [B, S, ...] with zeros where there is padding.
  Tensor only_tokens(Tensor x);

  // y_t = activation(Σ_j w[:, j] · x_{t − k + 1 + j} + b), channel by channel: x [B, S, C], weight [C, 1, k], bias [C]. Padding counts as
  // zeros, and the cache past_key_values.{i}.conv_state [B, C, k − 1] keeps each row's last k − 1 steps up to its last token, so padding on either side
  // of a call's tokens changes nothing. Within a call a row's tokens stand together, and padding left of them belongs before the first call.
  Tensor causal_conv(Tensor x, const nn::Parameter& weight, const std::optional<nn::Parameter>& bias, std::string_view activation = {});

  // The recurrence of q, k [B, S, query_heads·key_dim], v [B, S, heads·value_dim], decay (log; [B, S, heads] or [B, S, heads·key_dim];
  // absent: none) and beta [B, S, heads] (absent: no delta rule); the result is [B, S, heads·value_dim]. Its cache is past_key_values.{i}.{spec.state}
  // [B, heads, key_dim, value_dim]. Padding has to be neutral: zero decay, and zero values or beta (only_tokens).
  Tensor recur(Tensor q, Tensor k, Tensor v, const std::optional<Tensor>& decay, const std::optional<Tensor>& beta, const RecurrenceSpec& spec);

  // Declares the caches' new values as graph outputs, layer by layer: present.{i}.key, present.{i}.value, ...
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
    std::int64_t number;        // in its names
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

  struct State {
    std::int64_t number;
    std::string name;
    Tensor value;
  };
  std::int64_t next_number() const { return layer_.value_or(static_cast<std::int64_t>(caches_.size())); }
  Tensor past(std::int64_t number, const std::string& name, ir::Shape shape);
  Tensor conv_steps(std::int64_t channels, std::int64_t kept);

  Tensor input_ids_, attention_mask_, position_ids_;
  bool has_mask_ = true;
  std::string past_prefix_ = "past_key_values.";
  std::optional<std::int64_t> layer_;
  std::optional<Tensor> token_weights_;  // [B, S, 1]: 1 for tokens, 0 for padding
  std::map<std::pair<std::int64_t, std::int64_t>, Tensor> conv_steps_;
  std::vector<State> states_;
  std::optional<Ordinals> ordinals_;
  std::vector<Mask> masks_;
  std::vector<Biased> biased_;
  std::vector<Rotary> rotaries_;
  std::vector<Cache> caches_;
};

}  // namespace mobius
