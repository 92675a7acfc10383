// Reading, optimising and writing one model file.
#include "mobius/package/optimize_file.hpp"

#include <algorithm>

#include "mobius/base/error.hpp"
#include "mobius/base/option_name.hpp"
#include "mobius/formats/onnx_reader.hpp"
#include "mobius/formats/onnx_writer.hpp"
#include "mobius/package/least_runtime.hpp"
#include "mobius/package/metadata.hpp"

namespace mobius {
namespace {

constexpr std::uint64_t small_model = 64 << 20;  // bytes of weights that a model may hold itself

fs::path folder_of(const fs::path& file) { return file.has_parent_path() ? file.parent_path() : fs::path("."); }

void check_target(const fs::path& in, const fs::path& out, bool force) {
  std::error_code error;
  if (!out.has_filename()) fail(ErrorKind::invalid_argument, "{}: expected the name of a file", out.string());
  if (fs::is_directory(out, error)) fail(ErrorKind::invalid_argument, "{}: this is a folder, expected the name of a file", out.string());
  if (same_file(in, out) && !force) fail(ErrorKind::invalid_argument, "{}: this is the model to optimise; {} replaces it", out.string(), option_name("force"));
}

// A model without data files gets none while it is small.
bool holds_its_weights(const ir::Model& model, const formats::ExternalFiles& files) {
  std::uint64_t size = 0;
  for (const auto* v : model.graph->initializers()) size += v->data()->byte_size();
  return files.empty() && size <= small_model;
}

// A name for the data that no file in use has.
std::string data_name(const fs::path& out, const formats::ExternalFiles& files) {
  const auto name = out.filename().string();
  std::string data = name + ".data";
  const auto in_use = [&] {
    return std::ranges::any_of(files, [&](const auto& entry) { return entry.first == data || same_file(entry.second->path(), folder_of(out) / data); });
  };
  for (int i = 1; in_use(); ++i) data = fmt::format("{}.{}.data", name, i);
  return data;
}

void describe(ir::Model& model, const OptimizeReport& report) {
  const auto found = model.opset_imports.find("");
  const auto opset = found == model.opset_imports.end() ? 0 : found->second;
  model.metadata["mobius.ep"] = report.ep;
  model.metadata["mobius.role"] = report.role;
  model.metadata["mobius.padding"] = package::padding_of(*model.graph);
  model.metadata["mobius.opset"] = std::to_string(opset);
  model.metadata["mobius.min_onnxruntime"] = package::least_onnxruntime(model);
}

}  // namespace

OptimizedFile optimize_file(const fs::path& in, const fs::path& out, const OptimizeFileOptions& options) {
  check_target(in, out, options.force);
  formats::ExternalFiles files;
  auto model = formats::read_onnx(in, formats::ExternalData::read, &files);
  for (const auto& [location, file] : files) {
    if (same_file(file->path(), out)) fail(ErrorKind::invalid_argument, "{}: this file holds weights of {}", out.string(), in.string());
  }

  OptimizedFile result;
  result.nodes_before = model.graph->node_count();
  const bool inside = holds_its_weights(model, files);
  try {
    result.report = optimize_model(model, options.optimize);
  } catch (const Error& e) {
    throw e.kind() == ErrorKind::cancelled ? e : e.within(in.string());
  }
  result.nodes_after = model.graph->node_count();
  describe(model, result.report);

  formats::WriteOptions write{.data_name = data_name(out, files), .progress = options.progress};
  if (inside) write.inline_limit = UINT64_MAX;
  if (same_file(folder_of(in), folder_of(out))) write.in_place = files;
  const auto name = out.filename().string();
  const auto plan = formats::plan_onnx(model, write, name);
  for (const auto& file : plan.files) result.files.push_back({file.name, file.size});
  result.refers_to = plan.refers_to;
  formats::write_onnx(model, folder_of(out), name, write);
  return result;
}

}  // namespace mobius
