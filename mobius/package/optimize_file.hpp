// optimize_file: a model file that anybody wrote, optimised for one execution provider and written beside it or elsewhere.
//
//   optimize_file("model.onnx", "model_cuda.onnx", {.optimize = {.ep = "cuda"}});
//
// In the folder of the input, weights that stay as they are stay where they are: the new model refers to the same data files, and its
// own holds only what changed. In another folder, all weights are copied beside the new model. They are streamed in both cases.
// Names, metadata, functions and the opset stay, as far as the target allows.
#pragma once
#include <functional>
#include <vector>

#include "mobius/package/package.hpp"
#include "mobius/passes/pipeline.hpp"

namespace mobius {

struct OptimizeFileOptions {
  OptimizeOptions optimize = {};
  bool force = false;                                                          // the output may be the input
  std::function<void(std::uint64_t done, std::uint64_t total)> progress = {};  // bytes of weights; may throw Error cancelled
};

struct OptimizedFile {
  OptimizeReport report;
  std::size_t nodes_before = 0, nodes_after = 0;
  std::vector<WrittenFile> files;      // the model, then its data
  std::vector<std::string> refers_to;  // data files of the input that the output needs too
};

// Errors: those of reading and of optimize_model; invalid_argument (the output is the input, one of its data files, or a folder); io.
// Nothing is left half-written.
OptimizedFile optimize_file(const fs::path& in, const fs::path& out, const OptimizeFileOptions& options = {});

}  // namespace mobius
