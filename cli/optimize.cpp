// mobius optimize: one model file, for one execution provider.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>

#include "cli/cancel.hpp"
#include "cli/command.hpp"
#include "cli/format.hpp"
#include "cli/output.hpp"
#include "cli/progress.hpp"
#include "cli/target.hpp"
#include "mobius/base/error.hpp"
#include "mobius/base/log.hpp"
#include "mobius/base/parallel.hpp"
#include "mobius/package/optimize_file.hpp"

namespace mobius::cli {
namespace {

struct Flags {
  TargetFlags target;
  std::string in, out, role = "decoder", print_after;
  std::vector<std::string> skip;
  std::size_t threads = 0;
  bool force = false, quiet = false, json = false;
};

OptimizeFileOptions options_of(const Flags& flags, std::optional<Progress>& progress) {
  OptimizeFileOptions options{.optimize = {.ep = chosen_ep(flags.target),
                                           .dtype = chosen_dtype(flags.target),
                                           .model_role = flags.role,
                                           .padding = chosen_padding(flags.target),
                                           .opset = chosen_opset(flags.target),
                                           .trace = flags.target.trace,
                                           .skip = flags.skip,
                                           .print_after = flags.print_after},
                              .force = flags.force};
  options.optimize.print = [](std::string_view name, std::string_view text) { fmt::print("// after {}\n{}\n", name, text); };
  options.progress = [&](std::uint64_t done, std::uint64_t total) {
    stop_if_cancelled();
    if (progress) progress->show(done, total);
  };
  return options;
}

bool ran(const OptimizeReport& report, const std::string& step) {
  return std::ranges::any_of(report.steps, [&](const StepReport& s) { return s.name == step; });
}

int optimize(const Flags& flags) {
  check_trace_file(flags.target);
  set_thread_count(flags.threads);
  send_log_to_stderr(flags.target.trace || !flags.quiet);
  const auto start = std::chrono::steady_clock::now();
  std::optional<Progress> progress;
  if (!flags.quiet) progress.emplace();
  const auto done = optimize_file(flags.in, flags.out, options_of(flags, progress));
  progress.reset();
  write_trace(flags.target, to_json(done.report));
  if (!flags.print_after.empty() && !ran(done.report, flags.print_after))
    logging::warning("--print-after: {} is not run for {} with these options", flags.print_after, done.report.ep);
  if (flags.json) {
    Json result = Json::Object{{"output", flags.out}, {"nodes_before", done.nodes_before}, {"nodes_after", done.nodes_after}};
    result.set("files", files_json(done.files));
    result.set("total_size", total_size(done.files));
    Json others = Json::Array{};
    for (const auto& name : done.refers_to) others.push_back(Json(name));
    result.set("refers_to", std::move(others));
    fmt::print("{}\n", result.dump(2));
  } else if (!flags.quiet) {
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    fmt::print("{} for {}, as {}: {} → {} nodes\nwrote {} in {}:\n", flags.in, done.report.ep, done.report.role, done.nodes_before, done.nodes_after, flags.out,
               exact_time(seconds));
    print_table(done.files);
    if (!done.refers_to.empty()) fmt::print("it needs beside it, for weights that stayed as they were: {}\n", fmt::join(done.refers_to, ", "));
  }
  return 0;
}

}  // namespace

Command optimize_command() {
  auto flags = std::make_shared<Flags>();
  auto options = target_options(flags->target);
  for (auto& option : options) {
    if (option.names == "--dtype") option.help = "the float type that it computes in, where its weights do not tell; nothing is converted";
  }
  options.insert(
      options.end(),
      {{"--role", "ROLE", "what the graph is; otherwise decoder, which some fusions are for", &flags->role, {"decoder", "vision", "embedding", "encoder"}},
       {"--skip", "NAME", "leave this pass or group of rules out; may be repeated", &flags->skip, optimization_steps()},
       {"--print-after",
        "NAME",
        "show the graph as text after this one of them",
        &flags->print_after,
        optimization_steps(),
        {},
        Completes::nothing,
        "see --skip"},
       {"--force", "", "OUT may be IN", &flags->force},
       {"--threads", "N", "how many threads to use; 0 or absent: all cores", &flags->threads},
       {"--quiet", "", "show nothing but warnings and errors", &flags->quiet},
       {"--json", "", "show the result as JSON", &flags->json}});
  return {
      .name = "optimize",
      .summary = "Optimise an ONNX model for an execution provider",
      .details =
          "IN is any ONNX model, with or without data files. In IN's folder, weights that stay as they are stay in the files they are in, and OUT refers to "
          "them; in another folder, all are copied beside OUT. Names, metadata and functions are kept. OUT appears when it is complete, or not at all.",
      .arguments = {{.name = "IN", .help = "the model", .into = &flags->in, .completes = Completes::files},
                    {.name = "OUT", .help = "the model to write", .into = &flags->out, .completes = Completes::files}},
      .options = std::move(options),
      .examples = {"mobius optimize model.onnx model_cuda.onnx --ep cuda --trace", "mobius optimize model.onnx portable.onnx --ep onnx-standard --opset 21"},
      .run = [flags] { return optimize(*flags); }};
}

}  // namespace mobius::cli
