// Speed of optimize_model: a Llama graph (hidden 2048, 32/8 heads, feed-forward 8192, vocabulary 128256, tied) for cuda in float16, in
// process, with weights that nobody has loaded.
//
//   build/bin/optimize [--steps]
//
// Prints the processor time for 16, 80 and 160 layers, each beside what is allowed, and with --steps what each pass and rule took of it. Fails when
// 160 layers take more than 2.3 x the time of 80 (growth must be linear), or when a time is above 3 x its bound (machines differ).
// Wants a machine that does nothing else: 160 layers do not fit the nearest cache, and neighbours that fill it make them look worse.
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <map>
#include <string_view>

#include "mobius/ep/context.hpp"
#include "mobius/ep/registry.hpp"
#include "mobius/models/family.hpp"
#include "mobius/passes/pipeline.hpp"

namespace mobius {
namespace {

constexpr int rounds = 80;
constexpr auto dtype = ir::DataType::float16;

Component llama(int layers) {
  const auto config = fmt::format(
      R"({{"model_type": "llama", "hidden_size": 2048, "intermediate_size": 8192, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64,
          "vocab_size": 128256, "tie_word_embeddings": true, "max_position_embeddings": 8192, "rms_norm_eps": 1e-5, "rope_theta": 500000.0,
          "hidden_act": "silu", "num_hidden_layers": {}}})",
      layers);
  const BuildContext context(get_ep("cuda"), dtype);
  return std::move(require_family("llama").build(ConfigReader(Json::parse(config)), dtype).front());
}

struct Sample {
  double seconds = 0;
  OptimizeReport report = {};
};

Sample measure(int layers) {
  auto component = llama(layers);
  const auto start = std::clock();  // of the processor, as optimize_model uses one thread: what else the machine does counts less
  auto report = optimize_model(component.model, {.ep = "cuda", .dtype = dtype});
  return {static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC, std::move(report)};
}

// Sizes take turns, so that a busy moment of the machine does not meet one of them alone. The fastest round counts.
std::map<int, Sample> fastest(std::initializer_list<int> sizes) {
  std::map<int, Sample> best;
  for (int round = 0; round < rounds; ++round)
    for (const int layers : sizes) {
      auto sample = measure(layers);
      auto& kept = best[layers];
      if (kept.report.steps.empty() || sample.seconds < kept.seconds) kept = std::move(sample);
    }
  return best;
}

void print_steps(const OptimizeReport& report) {
  for (const auto& step : report.steps) fmt::print("    {:<32} {:>8.2f} ms\n", step.name, step.seconds * 1e3);
}

int run(bool with_steps) {
  const std::map<int, double> bounds = {{16, 0.020}, {80, 0.100}};
  const auto best = fastest({16, 80, 160});
  bool failed = false;
  for (const auto& [layers, sample] : best) {
    const auto bound = bounds.find(layers);
    const bool slow = bound != bounds.end() && sample.seconds > 3 * bound->second;
    failed |= slow;
    const auto allowed = bound == bounds.end() ? "" : fmt::format("<= {:.0f} ms{}", bound->second * 1e3, slow ? ", FAILED: more than 3 x" : "");
    fmt::print("{:>4} layers: {:>8.1f} ms   {}\n", layers, sample.seconds * 1e3, allowed);
    if (with_steps) print_steps(sample.report);
  }
  const double ratio = best.at(160).seconds / best.at(80).seconds;
  failed |= ratio > 2.3;
  fmt::print("160 to 80 layers: {:>5.2f} x   <= 2.3 x{}\n", ratio, ratio > 2.3 ? ", FAILED" : "");
  return failed ? 1 : 0;
}

}  // namespace
}  // namespace mobius

int main(int count, char** words) { return mobius::run(count > 1 && std::string_view(words[1]) == "--steps"); }
