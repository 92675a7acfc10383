// One table row per tensor role, one list of roles per architecture.
#include "mobius/weights/gguf_names.hpp"

#include <algorithm>
#include <optional>

#include "mobius/base/error.hpp"
#include "mobius/ir/recipe.hpp"

namespace mobius::weights {
namespace {

using formats::GgufFile;
using formats::GgufTensorInfo;

// What is special about a role, apart from its name.
enum class Role {
  plain,
  query,  // rows may be paired
  key,
  norm,     // may be stored as 1 + w
  experts,  // [experts, out, in] -> one matrix per expert; the name has a second {}
  heads,    // [heads, n] -> one vector per head
  row,      // [n] -> [1, n]
};

struct Row {
  std::string_view gguf;  // without ".weight" or ".bias", and without "blk.N." when in a layer
  std::string_view name;  // {} is the layer, then the expert or head
  Role role = Role::plain;
};

struct Architecture {
  std::string_view name;
  std::vector<Row> layer;
  bool paired_rows = false;     // rope on adjacent pairs: rows of q and k were interleaved
  bool norms_plus_one = false;  // norms hold 1 + w
};

constexpr Row globals[] = {
    {"token_embd", "model.embed_tokens"},
    {"output_norm", "model.norm", Role::norm},
    {"output", "lm_head"},
};

constexpr Row input_norm{"attn_norm", "model.layers.{}.input_layernorm", Role::norm};
constexpr Row post_attention{"ffn_norm", "model.layers.{}.post_attention_layernorm", Role::norm};
constexpr Row q{"attn_q", "model.layers.{}.self_attn.q_proj", Role::query};
constexpr Row k{"attn_k", "model.layers.{}.self_attn.k_proj", Role::key};
constexpr Row v{"attn_v", "model.layers.{}.self_attn.v_proj"};
constexpr Row o{"attn_output", "model.layers.{}.self_attn.o_proj"};
constexpr Row q_norm{"attn_q_norm", "model.layers.{}.self_attn.q_norm", Role::norm};
constexpr Row k_norm{"attn_k_norm", "model.layers.{}.self_attn.k_norm", Role::norm};
constexpr Row gate{"ffn_gate", "model.layers.{}.mlp.gate_proj"};
constexpr Row up{"ffn_up", "model.layers.{}.mlp.up_proj"};
constexpr Row down{"ffn_down", "model.layers.{}.mlp.down_proj"};
// Gemma 2 and later, OLMo 2: norms after the blocks, and Gemma's before the MLP.
constexpr Row after_attention{"post_attention_norm", "model.layers.{}.post_attention_layernorm", Role::norm};
constexpr Row before_mlp{"ffn_norm", "model.layers.{}.pre_feedforward_layernorm", Role::norm};
constexpr Row after_mlp{"post_ffw_norm", "model.layers.{}.post_feedforward_layernorm", Role::norm};
// Mixtures of experts in the style of Qwen.
constexpr Row router{"ffn_gate_inp", "model.layers.{}.mlp.gate"};
constexpr Row expert_gate{"ffn_gate_exps", "model.layers.{}.mlp.experts.{}.gate_proj", Role::experts};
constexpr Row expert_up{"ffn_up_exps", "model.layers.{}.mlp.experts.{}.up_proj", Role::experts};
constexpr Row expert_down{"ffn_down_exps", "model.layers.{}.mlp.experts.{}.down_proj", Role::experts};

const std::vector<Architecture>& architectures() {
  static const std::vector<Architecture> table = {
      {"gemma", {input_norm, q, k, v, o, post_attention, gate, up, down}, false, true},
      {"gemma2", {input_norm, q, k, v, o, after_attention, before_mlp, after_mlp, gate, up, down}, false, true},
      {"gemma3", {input_norm, q, k, v, o, q_norm, k_norm, after_attention, before_mlp, after_mlp, gate, up, down}, false, true},
      {"granite", {input_norm, q, k, v, o, post_attention, gate, up, down}, true},
      {"llama",  // also Mistral, and Mixtral with its experts
       {input_norm,
        q,
        k,
        v,
        o,
        post_attention,
        gate,
        up,
        down,
        {"ffn_gate_inp", "model.layers.{}.block_sparse_moe.gate"},
        {"ffn_gate_exps", "model.layers.{}.block_sparse_moe.experts.{}.w1", Role::experts},
        {"ffn_down_exps", "model.layers.{}.block_sparse_moe.experts.{}.w2", Role::experts},
        {"ffn_up_exps", "model.layers.{}.block_sparse_moe.experts.{}.w3", Role::experts}},
       true},
      {"olmo2", {q, k, v, o, q_norm, k_norm, after_attention, after_mlp, gate, up, down}},  // also OLMo 3
      {"phi3", {input_norm, {"attn_qkv", "model.layers.{}.self_attn.qkv_proj"}, o, post_attention, {"ffn_up", "model.layers.{}.mlp.gate_up_proj"}, down}},
      {"qwen2", {input_norm, q, k, v, o, post_attention, gate, up, down}},
      {"qwen2moe",
       {input_norm,
        q,
        k,
        v,
        o,
        post_attention,
        router,
        expert_gate,
        expert_up,
        expert_down,
        {"ffn_gate_inp_shexp", "model.layers.{}.mlp.shared_expert_gate", Role::row},
        {"ffn_gate_shexp", "model.layers.{}.mlp.shared_expert.gate_proj"},
        {"ffn_up_shexp", "model.layers.{}.mlp.shared_expert.up_proj"},
        {"ffn_down_shexp", "model.layers.{}.mlp.shared_expert.down_proj"}}},
      {"qwen3", {input_norm, q, k, v, o, q_norm, k_norm, post_attention, gate, up, down}},
      {"qwen3moe", {input_norm, q, k, v, o, q_norm, k_norm, post_attention, router, expert_gate, expert_up, expert_down}},
      {"smollm3", {input_norm, q, k, v, o, post_attention, gate, up, down}, true},
      {"stablelm",
       {input_norm,
        q,
        k,
        v,
        o,
        post_attention,
        gate,
        up,
        down,
        {"attn_q_norm", "model.layers.{}.self_attn.q_layernorm.norms.{}", Role::heads},
        {"attn_k_norm", "model.layers.{}.self_attn.k_layernorm.norms.{}", Role::heads}}},
      {"starcoder2", {input_norm, q, k, v, o, post_attention, {"ffn_up", "model.layers.{}.mlp.c_fc"}, {"ffn_down", "model.layers.{}.mlp.c_proj"}}},
  };
  return table;
}

const Architecture* find_architecture(std::string_view name) {
  for (const Architecture& a : architectures()) {
    if (a.name == name) return &a;
  }
  return nullptr;
}

bool is_rope_table(std::string_view name) {
  return name.starts_with("rope_freqs") || name.starts_with("rope_factors_") || name.find(".attn_rot_embd") != name.npos;
}

// "model.layers.{}.x.{}" with the numbers put in.
std::string fill(std::string_view pattern, std::initializer_list<std::int64_t> numbers) {
  std::string out;
  auto number = numbers.begin();
  for (std::size_t at = 0; at < pattern.size();) {
    if (pattern.substr(at, 2) == "{}" && number != numbers.end()) {
      out += std::to_string(*number++);
      at += 2;
    } else {
      out += pattern[at++];
    }
  }
  return out;
}

struct Place {
  std::int64_t layer = -1;  // -1 outside the layers
  std::string_view role;
  std::string_view suffix;  // ".weight", ".bias"
};

// "blk.12.attn_q.weight" -> 12, "attn_q", ".weight"; nullopt for names of another form.
std::optional<Place> place_of(std::string_view name) {
  Place place;
  if (name.starts_with("blk.")) {
    name.remove_prefix(4);
    const std::size_t dot = name.find('.');
    if (dot == name.npos || dot == 0 || dot > 6) return std::nullopt;
    place.layer = 0;
    for (char c : name.substr(0, dot)) {
      if (c < '0' || c > '9') return std::nullopt;
      place.layer = place.layer * 10 + (c - '0');
    }
    name.remove_prefix(dot + 1);
  }
  const std::size_t dot = name.rfind('.');
  if (dot == name.npos) return std::nullopt;
  place.role = name.substr(0, dot);
  place.suffix = name.substr(dot);
  if (place.suffix != ".weight" && place.suffix != ".bias") return std::nullopt;
  return place;
}

class Mapper {
 public:
  Mapper(const GgufFile& gguf, const Architecture& architecture) : gguf_(gguf), architecture_(architecture) {}

  void add(const GgufTensorInfo& t) {
    const std::optional<Place> place = place_of(t.name);
    const Row* row = place ? find_row(*place) : nullptr;
    if (!row) fail(ErrorKind::unsupported, "tensor {} has no place in a model of architecture {}", t.name, architecture_.name);
    GgufWeight w{.name = fill(row->name, {place->layer}) + std::string(place->suffix), .source = t.name};
    switch (row->role) {
      case Role::plain: break;
      case Role::query: pair_rows(w, t, "attention.head_count"); break;
      case Role::key: pair_rows(w, t, gguf_.find(key("attention.head_count_kv")) ? "attention.head_count_kv" : "attention.head_count"); break;
      case Role::norm:
        if (architecture_.norms_plus_one && place->suffix == ".weight") w.step = GgufStep::minus_one;
        break;
      case Role::experts:
      case Role::heads: return add_slices(*row, *place, t);
      case Role::row:
        if (t.dims.size() == 1) w.step = GgufStep::leading_axis;
        break;
    }
    weights.push_back(std::move(w));
  }

  std::vector<GgufWeight> weights;

 private:
  std::string key(std::string_view name) const { return fmt::format("{}.{}", architecture_.name, name); }

  const Row* find_row(const Place& place) const {
    if (place.layer < 0) {
      for (const Row& row : globals) {
        if (row.gguf == place.role) return &row;
      }
      return nullptr;
    }
    for (const Row& row : architecture_.layer) {
      if (row.gguf == place.role) return &row;
    }
    return nullptr;
  }

  void pair_rows(GgufWeight& w, const GgufTensorInfo& t, std::string_view heads_key) const {
    if (!architecture_.paired_rows) return;
    const std::optional<std::int64_t> heads = gguf_.integer(key(heads_key));
    if (!heads) fail(ErrorKind::corrupt_file, "metadata {} is absent", key(heads_key));
    const std::int64_t rows = t.dims.empty() ? 0 : t.dims.front();
    if (*heads <= 0 || rows % *heads != 0 || rows / *heads % 2 != 0) {
      fail(ErrorKind::corrupt_file, "tensor {} has {} rows, which {} heads can't share", t.name, rows, *heads);
    }
    w.step = GgufStep::split_pairs;
    w.count = *heads;
  }

  void add_slices(const Row& row, const Place& place, const GgufTensorInfo& t) {
    if (t.dims.size() < 2 || t.dims.front() > 4096) {
      fail(ErrorKind::corrupt_file, "tensor {} has {} dimensions{}", t.name, t.dims.size(), t.dims.size() < 2 ? ", expected more" : " and too many slices");
    }
    for (std::int64_t i = 0; i < t.dims.front(); ++i) {
      weights.push_back({.name = fill(row.name, {place.layer, i}) + std::string(place.suffix), .source = t.name, .step = GgufStep::slice, .index = i});
    }
  }

  const GgufFile& gguf_;
  const Architecture& architecture_;
};

// Undoes reshape(heads, 2, n, ...).swapaxes(1, 2): row (h, half, i) comes from row (h, i, half).
ir::TensorPtr split_pairs(ir::TensorPtr x, std::int64_t heads) {
  const std::int64_t rows = x->dims().front(), size = rows / heads, n = size / 2;
  std::vector<std::int64_t> order;
  order.reserve(static_cast<std::size_t>(rows));
  for (std::int64_t h = 0; h < heads; ++h) {
    for (std::int64_t half = 0; half < 2; ++half) {
      for (std::int64_t i = 0; i < n; ++i) order.push_back(h * size + i * 2 + half);
    }
  }
  return ir::take(std::move(x), 0, std::move(order));
}

ir::Dims without_first(const ir::Dims& dims) { return ir::Dims(dims.begin() + 1, dims.end()); }

}  // namespace

std::vector<GgufWeight> hugging_face_weights(const GgufFile& gguf) {
  const Architecture* architecture = find_architecture(gguf.architecture());
  if (!architecture) {
    fail(ErrorKind::unsupported, "a GGUF file of architecture {} is not supported; these are: {}", gguf.architecture().empty() ? "(none)" : gguf.architecture(),
         known_gguf_architectures());
  }
  Mapper mapper(gguf, *architecture);
  for (const GgufTensorInfo& t : gguf.tensors()) {
    if (!is_rope_table(t.name)) mapper.add(t);
  }
  std::sort(mapper.weights.begin(), mapper.weights.end(), [](const GgufWeight& a, const GgufWeight& b) { return a.name < b.name; });
  return std::move(mapper.weights);
}

ir::TensorPtr load(const GgufFile& gguf, const GgufWeight& weight) {
  ir::TensorPtr x = gguf.tensor(weight.source);
  expect(x != nullptr, "a weight whose GGUF tensor is gone");
  switch (weight.step) {
    case GgufStep::as_is: return x;
    case GgufStep::split_pairs: return split_pairs(std::move(x), weight.count);
    case GgufStep::minus_one: return ir::affine(std::move(x), 1, -1);
    case GgufStep::leading_axis: return ir::reshape(x, {1, x->dims().front()});
    case GgufStep::slice: {
      ir::Dims dims = without_first(x->dims());
      return ir::reshape(ir::slice(std::move(x), 0, weight.index, weight.index + 1), std::move(dims));
    }
  }
  return x;
}

bool is_known_gguf_architecture(std::string_view architecture) { return find_architecture(architecture) != nullptr; }

std::string known_gguf_architectures() {
  std::string names;
  for (const Architecture& a : architectures()) names += fmt::format("{}{}", names.empty() ? "" : ", ", a.name);
  return names;
}

}  // namespace mobius::weights
