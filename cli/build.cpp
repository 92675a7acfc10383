// mobius build and build-gguf: a model becomes a package on disk.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>

#include "cli/cancel.hpp"
#include "cli/choices.hpp"
#include "cli/command.hpp"
#include "cli/format.hpp"
#include "cli/output.hpp"
#include "cli/progress.hpp"
#include "cli/target.hpp"
#include "mobius/base/error.hpp"
#include "mobius/base/parallel.hpp"
#include "mobius/package/build.hpp"

namespace mobius::cli {
namespace {

struct Flags {
  std::string first, second;  // values without a flag
  std::string output, model_id, config;
  TargetFlags target;
  std::string task, as_type, revision;
  std::string external_data = "onnx", max_shard_size, runtime;
  std::vector<std::string> ignore_extra;
  std::size_t threads = 0, context_length = 0;
  bool no_weights = false, dry_run = false, force = false;
  bool quiet = false, json = false;
};

struct Job {
  std::string model;
  std::string output;  // may be empty in a dry run
};

// MODEL [OUT], and the original's --model ID OUT and --config DIR OUT.
Job job_of(const Flags& flags) {
  const std::string named = !flags.model_id.empty() ? flags.model_id : flags.config;
  if (!flags.model_id.empty() && !flags.config.empty()) throw UsageError("--model and --config both name the model; give one of them");
  Job job{named, flags.first};
  if (named.empty()) {
    job = {flags.first, flags.second};
    if (job.model.empty()) throw UsageError("MODEL is missing: a folder, a .gguf file or a model id");
  } else if (!flags.second.empty()) {
    throw UsageError("found '" + flags.second + "', but the model (" + named + ") and the output folder (" + flags.first + ") are given already");
  }
  if (!flags.output.empty()) {
    if (!job.output.empty()) throw UsageError("the output folder is given twice: " + job.output + " and " + flags.output);
    job.output = flags.output;
  }
  return job;
}

SaveOptions save_options(const Flags& flags) {
  SaveOptions options{.external_data = flags.external_data, .runtime = flags.runtime, .force = flags.force};
  if (!flags.max_shard_size.empty()) {
    const auto size = parse_size(flags.max_shard_size);
    if (!size) throw UsageError("--max-shard-size: found '" + flags.max_shard_size + "', expected a size like 5GB, 500MB or 1GiB");
    options.max_shard_size = *size;
  }
  if (options.max_shard_size != 0 && flags.external_data != "safetensors") throw UsageError("--max-shard-size needs --external-data safetensors");
  if (flags.context_length != 0 && flags.runtime.empty()) throw UsageError("--context-length needs --runtime");
  options.context_length = static_cast<std::int64_t>(flags.context_length);
  return options;
}

BuildOptions build_options(const Flags& flags) {
  return {.execution_provider = chosen_ep(flags.target),
          .dtype = chosen_dtype(flags.target),
          .task = flags.task,
          .load_weights = !flags.no_weights,
          .trace_optimization = flags.target.trace,
          .opset = chosen_opset(flags.target),
          .padding = chosen_padding(flags.target),
          .as_type = flags.as_type,
          .ignore_extra = flags.ignore_extra,
          .revision = flags.revision};
}

// "llama, text-generation, in f32 for default; from HuggingFaceTB/SmolLM2-135M (revision 1a2b...)"
std::string title_of(const ModelPackage& package) {
  const auto& facts = package.components().front().model.metadata;
  const auto get = [&](const char* key) { return facts.at("mobius." + std::string(key)); };
  return fmt::format("{}, {}, in {} for {}{}; from {} ({})", get("model_type"), get("task"), get("dtype"), get("ep"),
                     package.has_weights ? "" : ", without weights", get("source"), get("source_id"));
}

int dry_run(const ModelPackage& package, const Job& job, const Flags& flags, const SaveOptions& options) {
  const auto files = package.plan(options);
  const fs::path where = job.output.empty() ? fs::path(".") : fs::path(job.output);
  const auto free = free_disk_space(where);
  if (flags.json) {
    Json result = Json::Object{{"output", job.output.empty() ? Json() : Json(job.output)}, {"files", files_json(files)}, {"total_size", total_size(files)}};
    result.set("free_disk_space", free ? Json(*free) : Json());
    fmt::print("{}\n", result.dump(2));
  } else if (!flags.quiet) {
    fmt::print("{}\nwould write{}:\n", title_of(package), job.output.empty() ? "" : " " + job.output);
    print_table(files);
    if (free) fmt::print("free disk space: {} bytes ({})\n", with_separators(*free), human_size(*free));
  }
  if (!job.output.empty()) package.check_target(job.output, options);
  return 0;
}

std::vector<WrittenFile> save(const ModelPackage& package, const Job& job, const Flags& flags, SaveOptions options) {
  std::optional<Progress> progress;
  if (!flags.quiet) progress.emplace();
  options.progress = [&](std::uint64_t done, std::uint64_t total) {
    stop_if_cancelled();
    if (progress) progress->show(done, total);
  };
  return package.save(job.output, options);
}

int build_package(const Flags& flags, const Job& job) {
  const auto options = save_options(flags);
  if (job.output.empty() && !flags.dry_run) throw UsageError("the output folder is missing: OUT or -o OUT");
  check_trace_file(flags.target);
  set_thread_count(flags.threads);
  send_log_to_stderr(flags.target.trace || !flags.quiet);

  const auto start = std::chrono::steady_clock::now();
  auto building = build_options(flags);
  Json reports = Json::Object{};
  building.on_report = [&](const Component& component, const OptimizeReport& report) { reports.set(component.name, to_json(report)); };
  const auto package = build(job.model, building);
  stop_if_cancelled();
  write_trace(flags.target, reports);
  if (flags.dry_run) return dry_run(package, job, flags, options);
  const auto files = save(package, job, flags, options);
  if (flags.json) {
    fmt::print("{}\n", Json(Json::Object{{"output", job.output}, {"files", files_json(files)}, {"total_size", total_size(files)}}).dump(2));
  } else if (!flags.quiet) {
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    fmt::print("{}\nwrote {} in {}:\n", title_of(package), job.output, exact_time(seconds));
    print_table(files);
  }
  return 0;
}

std::vector<Option> options_of(const std::shared_ptr<Flags>& flags) {
  std::vector<Option> options = {{"-o,--output", "OUT", "the folder to write", &flags->output, {}, {}, Completes::folders}};
  for (auto& option : target_options(flags->target)) {
    if (option.names == "--dtype") option.help = "of weights and computation; otherwise the checkpoint's where the execution provider runs it";
    options.push_back(std::move(option));
  }
  const std::vector<Option> others = {
      {"--task", "TASK", "what the graph is for; otherwise the model type's own", &flags->task, task_names()},
      {"--external-data", "FORMAT", "how weights are stored; otherwise onnx", &flags->external_data, {"onnx", "safetensors"}},
      {"--runtime", "NAME", "write what this runtime needs beside the graph: genai_config.json for ONNX Runtime GenAI", &flags->runtime, runtime_names()},
      {"--context-length", "N", "with --runtime: the most tokens of prompt and answer; otherwise the model's", &flags->context_length},
      {"--max-shard-size", "SIZE", "of safetensors files, for instance 5GB", &flags->max_shard_size},
      {"--no-weights", "", "write the graph alone; the offsets of weights are in it", &flags->no_weights},
      {"--dry-run", "", "write nothing, show the files with their sizes, and the free disk space", &flags->dry_run},
      {"--force", "", "replace OUT even if it is no package", &flags->force},
      {"--as",
       "MODEL_TYPE",
       "build as this model type, whatever config.json says",
       &flags->as_type,
       model_types(),
       {},
       Completes::nothing,
       "mobius list models"},
      {"--ignore-extra", "GLOB", "allow tensors of the checkpoint to stay unused; may be repeated", &flags->ignore_extra},
      {"--revision", "REVISION", "of a model id: a branch, a tag or a commit", &flags->revision},
      {"--threads", "N", "how many threads to use; 0 or absent: all cores", &flags->threads},
      {"--quiet", "", "show nothing but warnings and errors", &flags->quiet},
      {"--json", "", "show the list of files as JSON", &flags->json},
  };
  options.insert(options.end(), others.begin(), others.end());
  return options;
}

constexpr const char* replaces =
    "The package is written beside OUT and put in its place at the end, in one step: after a failure or an interruption OUT is as it was. An OUT that exists "
    "is replaced if it is empty or a package; --force replaces any folder with all its files.";

}  // namespace

Command build_command() {
  auto flags = std::make_shared<Flags>();
  auto options = options_of(flags);
  options.insert(options.begin() + 1, {{"--model", "ID", "the model, in place of MODEL", &flags->model_id},
                                       {"--config", "FOLDER", "a local model, in place of MODEL", &flags->config, {}, {}, Completes::folders}});
  return {.name = "build",
          .summary = "Build a package from a model",
          .details = std::string("MODEL is a folder in the Hugging Face layout (config.json, safetensors), a .gguf file, or a model id that is in the local "
                                 "Hugging Face cache, as ORG/NAME or ORG/NAME@REVISION.\n\n") +
                     replaces,
          .arguments = {{.name = "MODEL", .help = "what to build", .into = &flags->first, .completes = Completes::files, .required = false},
                        {.name = "OUT", .help = "the folder to write", .into = &flags->second, .completes = Completes::folders, .required = false}},
          .options = std::move(options),
          .examples = {"mobius build Qwen/Qwen2.5-0.5B-Instruct out --ep cuda --dtype f16", "mobius build models/SmolLM2-135M -o out",
                       "mobius build models/SmolLM2-135M --dry-run", "mobius build model.Q8_0.gguf out --dtype f16"},
          .run = [flags] { return build_package(*flags, job_of(*flags)); }};
}

Command build_gguf_command() {
  auto flags = std::make_shared<Flags>();
  return {.name = "build-gguf",
          .summary = "Build a package from a GGUF file",
          .details = std::string("The same as build with a .gguf file; without OUT, the folder is called as the file without .gguf.\n\n") + replaces,
          .arguments = {{.name = "FILE", .help = "the GGUF file; the first one of a split model", .into = &flags->first, .completes = Completes::files},
                        {.name = "OUT", .help = "the folder to write", .into = &flags->second, .completes = Completes::folders, .required = false}},
          .options = options_of(flags),
          .examples = {"mobius build-gguf model.Q4_K_M.gguf -o out --dtype f16"},
          .run = [flags] {
            Job job = job_of(*flags);
            if (fs::path(job.model).extension() != ".gguf") fail(ErrorKind::invalid_argument, "{} is not a .gguf file", job.model);
            if (job.output.empty()) job.output = fs::path(job.model).stem().string();
            return build_package(*flags, job);
          }};
}

}  // namespace mobius::cli
