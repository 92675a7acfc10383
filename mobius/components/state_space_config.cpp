// Checked sizes of state-space mixers.
#include "mobius/components/state_space_config.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "mobius/base/error.hpp"
#include "mobius/components/state_space_lm.hpp"

namespace mobius {

void read_step_limits(Mamba2Shape& mixer, const ConfigReader& reader, std::string_view key) {
  const auto* limits = reader.find(key);
  if (!limits) return;
  const bool pair = limits->is_array() && limits->as_array().size() == 2 && std::ranges::all_of(limits->as_array(), &Json::is_number);
  if (!pair || !(limits->as_array()[0].as_double() <= limits->as_array()[1].as_double()))
    reader.refuse(key, limits->dump(), "two numbers, the lower one first");
  mixer.min_step = limits->as_array()[0].as_double();
  mixer.max_step = limits->as_array()[1].as_double();
}

void check_inner_size(const Mamba2Shape& mixer, const ConfigReader& reader, std::int64_t inner) {
  if (mixer.inner() != inner)
    fail(ErrorKind::invalid_argument, "{}: {} state-space heads of {} are not the {} channels of the mixer", reader.where(), mixer.heads, mixer.head_dim,
         inner);
  if (mixer.heads % mixer.groups != 0)
    fail(ErrorKind::invalid_argument, "{}: {} state-space heads are not a multiple of {} groups", reader.where(), mixer.heads, mixer.groups);
}

Mamba2Shape read_hybrid_mixer(const ConfigReader& r, std::int64_t hidden_size, std::int64_t inner, double norm_eps) {
  Mamba2Shape m;
  m.hidden = hidden_size;
  m.heads = r.size("mamba_n_heads", 128);
  const auto* dim = r.find("mamba_d_head");
  const bool automatic = !dim || (dim->is_string() && dim->as_string() == "auto");
  m.head_dim = automatic ? std::max<std::int64_t>(inner / m.heads, 1) : r.size("mamba_d_head");
  m.groups = r.size("mamba_n_groups", 1);
  m.state = r.size("mamba_d_state", 256);
  m.kernel = r.size("mamba_d_conv", 4);
  m.conv_bias = r.boolean("mamba_conv_bias", true);
  m.proj_bias = r.boolean("mamba_proj_bias", false);
  m.activation = r.text("hidden_act", "silu");
  m.norm_eps = norm_eps;
  read_step_limits(m, r, "time_step_limit");
  check_inner_size(m, r, inner);
  return m;
}

std::vector<std::string> read_layer_kinds(const ConfigReader& r, std::string_view key, std::initializer_list<std::string_view> known,
                                          std::vector<std::string> otherwise) {
  const auto stated = r.texts(key);
  if (!stated) return otherwise;
  if (stated->empty()) r.refuse(key, "[]", "a kind for each layer");
  if (stated->size() != otherwise.size())
    fail(ErrorKind::invalid_argument, "{}: {} has {} entries, expected {} (num_hidden_layers)", r.where(), key, stated->size(), otherwise.size());
  auto kinds = *stated;
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    if (kinds[i] == "mamba") kinds[i] = "linear_attention";
    if (kinds[i] == "attention") kinds[i] = "full_attention";
    if (std::ranges::find(known, kinds[i]) == known.end())
      r.unsupported(fmt::format("{}[{}] = '{}' is not supported; known: {}", key, i, kinds[i], fmt::join(known, ", ")));
  }
  return kinds;
}

SelectiveConfig read_selective(const ConfigReader& r) {
  SelectiveConfig c;
  c.vocab_size = r.size("vocab_size", 50280);
  c.hidden_size = r.size("hidden_size", 768);
  c.num_hidden_layers = r.size("num_hidden_layers", 32);
  if (c.num_hidden_layers > 4096) r.refuse("num_hidden_layers", std::to_string(c.num_hidden_layers), "at most 4096");
  c.layer_norm_epsilon = r.positive("layer_norm_epsilon", 1e-5);
  c.tie_word_embeddings = r.boolean("tie_word_embeddings", true);
  c.mixer = {.hidden = c.hidden_size,
             .inner = r.optional_size("intermediate_size").value_or(r.size("expand", 2) * c.hidden_size),  // what is stated wins
             .state = r.size("state_size", 16),
             .step_rank = read_step_rank(r, "time_step_rank", c.hidden_size),
             .kernel = r.size("conv_kernel", 4),
             .conv_bias = r.boolean("use_conv_bias", true),
             .proj_bias = r.boolean("use_bias", false),
             .activation = r.text("hidden_act", "silu")};
  return c;
}

}  // namespace mobius
