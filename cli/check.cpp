// mobius check: does a package load and run in ONNX Runtime?
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "cli/command.hpp"
#include "cli/format.hpp"
#include "mobius/base/error.hpp"
#include "mobius/base/json.hpp"
#include "mobius/formats/onnx_reader.hpp"
#include "mobius/package/package.hpp"
#include "mobius/runtime/onnxruntime.hpp"

namespace mobius::cli {
namespace {

using runtime::Port;
using runtime::Tensor;

struct Flags {
  std::string package, onnxruntime;
  std::string provider = "CPU";
  bool json = false;
};

// Sizes for the symbols of a graph's inputs, by how exporters call them.
struct Sizes {
  std::int64_t length, past;

  std::int64_t operator()(const ir::Dim& dim) const {
    if (dim.is_static()) return dim.value();
    if (!dim.is_symbolic()) return 1;
    std::int64_t sum = 0;
    for (const auto& term : *dim.sum()) {
      auto product = term.coefficient;
      for (const auto& symbol : term.symbols) product *= of(symbol);
      sum += product;
    }
    return sum;
  }
  std::int64_t of(const std::string& symbol) const {
    if (symbol.starts_with("batch")) return 1;
    if (symbol.starts_with("total")) return past + length;
    return symbol.find("past") != std::string::npos ? past : length;
  }
};

void set_integer(Tensor& tensor, std::size_t i, std::int64_t value) {
  const auto size = static_cast<std::size_t>(ir::byte_size(tensor.dtype, 1));
  std::memcpy(tensor.bytes.data() + i * size, &value, size);
}

// Tokens 1, 2, 3, ..., a mask of ones, positions that go on; everything else is zero.
Tensor made_up(const Port& port, const Sizes& sizes) {
  Tensor tensor{port.dtype, {}, {}};
  for (const auto& dim : port.shape) tensor.dims.push_back(sizes(dim));
  const auto count = static_cast<std::size_t>(ir::element_count(tensor.dims));
  tensor.bytes.resize(static_cast<std::size_t>(ir::byte_size(port.dtype, count)));
  if (port.dtype != ir::DataType::int64 && port.dtype != ir::DataType::int32) return tensor;
  for (std::size_t i = 0; i < count; ++i) {
    const auto place = static_cast<std::int64_t>(i);
    if (port.name.find("mask") != std::string::npos) set_integer(tensor, i, 1);
    else if (port.name.find("position") != std::string::npos) set_integer(tensor, i, sizes.past + place);
    else if (port.name.ends_with("input_ids")) set_integer(tensor, i, place + 1);
  }
  return tensor;
}

bool is_finite(const Tensor& tensor) {
  if (!ir::is_floating_point(tensor.dtype)) return true;
  const auto size = static_cast<std::size_t>(ir::byte_size(tensor.dtype, 1));
  const std::span bytes(tensor.bytes);
  for (std::size_t at = 0; at < bytes.size(); at += 1024 * size) {
    const auto part = bytes.subspan(at, std::min(1024 * size, bytes.size() - at));
    const auto values = ir::as_doubles(*ir::make_tensor(tensor.dtype, {static_cast<std::int64_t>(part.size() / size)}, {part.begin(), part.end()}));
    if (!values || !std::ranges::all_of(*values, [](double v) { return std::isfinite(v); })) return false;
  }
  return true;
}

// "present.0.key" goes on as "past_key_values.0.key", or "past_states.0.…": whichever the graph has.
std::string cache_of(const std::string& output, const std::vector<Port>& inputs) {
  if (!output.starts_with("present.")) return {};
  for (const char* past : {"past_key_values", "past_states"}) {
    auto name = past + output.substr(7);
    if (std::ranges::any_of(inputs, [&](const Port& p) { return p.name == name; })) return name;
  }
  return {};
}

// Of a package all inputs are known; those of another model may be called otherwise.
std::map<std::string, Tensor> run(const runtime::Session& session, const std::map<std::string, Tensor>& inputs, bool is_package) {
  try {
    return session.run(inputs);
  } catch (const Error& e) {
    if (is_package) throw;
    fail(e.kind(), "{} (the inputs were made up by their names and the names of their sizes; this model may mean others)", e.what());
  }
}

struct Outcome {
  double load_seconds = 0, run_seconds = 0;
  int steps = 0;
  std::vector<std::string> problems;
};

Outcome try_model(const std::shared_ptr<runtime::Runtime>& library, const fs::path& path, const std::string& provider, bool is_package) {
  using Clock = std::chrono::steady_clock;
  const auto seconds = [](Clock::time_point since) { return std::chrono::duration<double>(Clock::now() - since).count(); };
  Outcome outcome;
  auto start = Clock::now();
  const runtime::Session session(library, path, {.provider = provider});
  outcome.load_seconds = seconds(start);

  start = Clock::now();
  std::map<std::string, Tensor> caches;
  for (const Sizes sizes : {Sizes{3, 0}, Sizes{1, 3}}) {  // a prompt, then one more token
    std::map<std::string, Tensor> inputs;
    for (const auto& port : session.inputs()) {
      const auto known = caches.find(port.name);
      inputs.emplace(port.name, known != caches.end() ? known->second : made_up(port, sizes));
    }
    auto outputs = run(session, inputs, is_package);
    ++outcome.steps;
    for (auto& [name, tensor] : outputs) {
      if (!is_finite(tensor))
        outcome.problems.push_back(fmt::format("{} has values that are not finite{}", name, sizes.past == 0 ? "" : " in the second step"));
      if (auto cache = cache_of(name, session.inputs()); !cache.empty()) caches.insert_or_assign(std::move(cache), std::move(tensor));
    }
    if (caches.empty()) break;
  }
  outcome.run_seconds = seconds(start);
  return outcome;
}

std::vector<PackagedModel> models_to_run(const std::string& package) {
  const fs::path path(package);
  if (!fs::exists(path)) fail(ErrorKind::io, "{} does not exist", package);
  auto models = path.extension() == ".onnx" && fs::is_regular_file(path) ? std::vector<PackagedModel>{{path.stem().string(), path}} : packaged_models(path);
  if (const auto model = path / "model.onnx"; models.empty() && fs::exists(model)) {
    formats::read_onnx(model, formats::ExternalData::skip);  // says what is wrong with it
    fail(ErrorKind::invalid_argument, "{} was not built by this program, or has lost its metadata; name the file itself to run it", model.string());
  }
  if (models.empty()) fail(ErrorKind::invalid_argument, "{} is no package: found no model.onnx, nor folders that hold one", package);
  for (const auto& [component, file] : models) {
    const auto facts = formats::read_onnx(file, formats::ExternalData::skip).metadata;
    if (const auto weights = facts.find("mobius.weights"); weights != facts.end() && weights->second == "none")
      fail(ErrorKind::invalid_argument, "{} was built with --no-weights: there is nothing to run", package);
  }
  return models;
}

int check(const Flags& flags) {
  const auto models = models_to_run(flags.package);
  const auto library = runtime::Runtime::open(flags.onnxruntime);
  bool all_well = true;
  Json list = Json::Array{};
  for (const auto& [component, path] : models) {
    const auto outcome = try_model(library, path, flags.provider, fs::is_directory(flags.package));
    all_well &= outcome.problems.empty();
    if (flags.json) {
      Json problems = Json::Array{};
      for (const auto& p : outcome.problems) problems.push_back(Json(p));
      list.push_back(Json::Object{
          {"component", component}, {"load_seconds", outcome.load_seconds}, {"run_seconds", outcome.run_seconds}, {"problems", std::move(problems)}});
      continue;
    }
    fmt::print("{}: loads in {} and runs {} in {} in ONNX Runtime {} on {}\n", component, exact_time(outcome.load_seconds),
               outcome.steps == 1 ? "one step" : "two steps", exact_time(outcome.run_seconds), library->version(), flags.provider);
    for (const auto& p : outcome.problems) fmt::print("  {}\n", p);
  }
  if (flags.json)
    fmt::print("{}\n", Json(Json::Object{{"onnxruntime", library->version()}, {"provider", flags.provider}, {"components", std::move(list)}}).dump(2));
  return all_well ? 0 : 1;
}

}  // namespace

Command check_command() {
  auto flags = std::make_shared<Flags>();
  return {.name = "check",
          .summary = "Load a package in ONNX Runtime and run it",
          .details =
              "Each model runs a prompt of three made-up tokens, and one token more where it has a cache; all numbers that come out must be finite. ONNX "
              "Runtime's library is found beside an installed Python wheel, in the loader's path, or is given by --onnxruntime or the environment "
              "variable MOBIUS_ONNXRUNTIME. Nothing else in mobius needs it.",
          .arguments = {{.name = "PACKAGE", .help = "a package's folder, or an .onnx file", .into = &flags->package, .completes = Completes::files}},
          .options = {{.names = "--onnxruntime",
                       .value = "PATH",
                       .help = "the library, or a folder that holds it",
                       .into = &flags->onnxruntime,
                       .completes = Completes::files},
                      {.names = "--provider", .value = "NAME", .help = "of ONNX Runtime: CPU, CUDA, WebGPU, ...; otherwise CPU", .into = &flags->provider},
                      {.names = "--json", .value = "", .help = "as JSON", .into = &flags->json}},
          .examples = {"mobius check out"},
          .run = [flags] { return check(*flags); }};
}

}  // namespace mobius::cli
