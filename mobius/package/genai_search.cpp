// The keys, their kinds and ranges.
#include "mobius/package/genai_search.hpp"

#include <limits>
#include <string_view>

#include "mobius/base/error.hpp"
#include "mobius/base/log.hpp"

namespace mobius::package {
namespace {

constexpr double no_limit = std::numeric_limits<std::int32_t>::max();

struct SearchKey {
  std::string_view name;
  enum class Kind { flag, integer, number } kind;
  double otherwise;
  double least = 0, most = no_limit;
  bool above_least = false;  // `least` itself is none
};
using enum SearchKey::Kind;

constexpr SearchKey keys[] = {{"do_sample", flag, 0},
                              {"early_stopping", flag, 1},
                              {"num_beams", integer, 1, 1},
                              {"num_return_sequences", integer, 1, 1},
                              {"min_length", integer, 0},
                              {"no_repeat_ngram_size", integer, 0},
                              {"top_k", integer, 50},
                              {"top_p", number, 1, 0, 1},
                              {"temperature", number, 1},
                              {"repetition_penalty", number, 1, 0, no_limit, true},
                              {"length_penalty", number, 1, -no_limit},
                              {"diversity_penalty", number, 0}};

Json value_of(const SearchKey& key, double value) {
  if (key.kind == flag) return value != 0;
  if (key.kind == integer) return static_cast<std::int64_t>(value);
  return value;
}

Json checked(const SearchKey& key, const Json& value) {
  constexpr std::string_view file = "generation_config.json";
  if (key.kind == flag) {
    // early_stopping may also be "never".
    if (value.is_bool() || value.is_string()) return value.is_bool() && value.as_bool();
    fail(ErrorKind::invalid_argument, "{}: {} is {}, expected true or false", file, key.name, value.kind());
  }
  const bool is_right_kind = key.kind == integer ? value.is_int() : value.is_number();
  if (!is_right_kind)
    fail(ErrorKind::invalid_argument, "{}: {} is {}, expected {}", file, key.name, value.kind(), key.kind == integer ? "an integer" : "a number");
  if (const double v = value.as_double(); !(v >= key.least && v <= key.most) || (key.above_least && v == key.least))
    fail(ErrorKind::invalid_argument, "{}: {} is {}, expected {}{} to {}", file, key.name, value.dump(), key.above_least ? "above " : "", key.least, key.most);
  return value_of(key, value.as_double());
}

}  // namespace

Json search_defaults(const Json* generation_config, std::int64_t vocab_size, bool has_beams) {
  Json search = Json::Object{};
  for (const auto& key : keys) {
    const auto* value = generation_config ? generation_config->find(key.name) : nullptr;
    search.set(key.name, value && !value->is_null() ? checked(key, *value) : value_of(key, key.otherwise));
  }
  const bool samples = search.at("do_sample").as_bool();
  // No limit at all: the runtime would take the likeliest token there.
  if (samples && search.at("top_k").as_int() == 0 && search.at("top_p").as_double() == 1) search.set("top_k", vocab_size);
  // Nothing but the likeliest token: the runtime takes 0 for no limit.
  if (samples && search.at("top_p").as_double() == 0) {
    search.set("top_p", 1.0);
    search.set("top_k", 1);
  }
  if ((samples || !has_beams) && search.at("num_beams").as_int() > 1) {
    logging::warning("generation_config.json: ONNX Runtime GenAI {}; num_beams is 1 there",
                     has_beams ? "can't sample with beams" : "has no beams with recurrent states");
    search.set("num_beams", 1);
  }
  if (const auto beams = search.at("num_beams").as_int(); search.at("num_return_sequences").as_int() > beams) {
    logging::warning("generation_config.json: ONNX Runtime GenAI returns no more sequences than it has beams; num_return_sequences is {} there", beams);
    search.set("num_return_sequences", beams);
  }
  return search;
}

}  // namespace mobius::package
