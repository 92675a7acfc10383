// Writes a model and its data files: places first, then the model's bytes, then the weights in chunks on all threads.
#include "mobius/formats/onnx_writer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <system_error>
#include <tuple>

#include "mobius/base/error.hpp"
#include "mobius/base/parallel.hpp"
#include "mobius/formats/onnx_layout.hpp"
#include "mobius/formats/onnx_serializer.hpp"
#include "mobius/ir/unbound.hpp"

namespace mobius::formats {

namespace {

constexpr std::uint64_t chunk_size = 4 << 20;  // a multiple of every element's size

std::string model_bytes(const ir::Model& model, const onnx::Layout& layout, const WriteOptions& options, bool read_values) {
  const auto external = [&](const ir::Value& v) { return layout.place(v); };
  return onnx::serialize(model, {.external = external, .value_info = options.value_info, .read_values = read_values});
}

// ── files that appear when all of them are complete ──────────────────────────────────────────────────────────────────────

class PendingFiles {
 public:
  explicit PendingFiles(fs::path folder) : folder_(std::move(folder)) {}
  ~PendingFiles() {
    std::error_code ignored;
    for (const auto& [temporary, name] : files_) fs::remove(temporary, ignored);
  }
  PendingFiles(const PendingFiles&) = delete;
  PendingFiles& operator=(const PendingFiles&) = delete;

  const fs::path& add(const std::string& name) { return files_.emplace_back(temporary_sibling(folder_ / name), name).first; }

  // In the order they were added: the model last, when its data is there.
  void commit() {
    for (const auto& [temporary, name] : files_) replace_path(temporary, folder_ / name);
    files_.clear();
  }

 private:
  fs::path folder_;
  std::vector<std::pair<fs::path, std::string>> files_;
};

// ── the weights ──────────────────────────────────────────────────────────────────────────────────────────────────────────

// Buffers are handed from chunk to chunk, so there are as many as threads.
class BufferPool {
 public:
  using Buffer = std::vector<std::byte>;

  Buffer take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return {};
    Buffer buffer = std::move(free_.back());
    free_.pop_back();
    return buffer;
  }
  void give_back(Buffer buffer) {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(buffer));
  }

 private:
  std::mutex mutex_;
  std::vector<Buffer> free_;
};

class DataWriter {
 public:
  DataWriter(const onnx::Layout& layout, const WriteOptions& options) : layout_(layout), options_(options) {}

  void write(PendingFiles& pending) {
    for (const onnx::Layout::File& file : layout_.files) {
      files_.push_back(std::make_unique<OutputFile>(pending.add(file.name), file.size));
      files_.back()->write_at(0, std::as_bytes(std::span(file.header)));
    }
    plan_chunks();
    report(0);
    parallel_for(chunks_.size(), [&](std::size_t i) { write_chunk(chunks_[i]); });
    for (const auto& file : files_) file->close();
  }

 private:
  struct Source {
    const onnx::Layout::Blob* blob;
    std::span<const std::byte> memory;
    std::optional<std::vector<ir::FileRange>> ranges;
  };
  struct Chunk {
    std::size_t source;
    std::uint64_t begin, length;  // of the tensor's bytes
  };

  // All chunks in the order of the files, so that sources are read and files are filled from front to back.
  void plan_chunks() {
    for (const onnx::Layout::Blob& blob : layout_.blobs) {
      if (!blob.in_place.empty()) continue;
      sources_.push_back({&blob, blob.data->in_memory(), blob.data->in_files()});
      total_ += blob.length;
    }
    std::sort(sources_.begin(), sources_.end(),
              [](const Source& a, const Source& b) { return std::tie(a.blob->file, a.blob->offset) < std::tie(b.blob->file, b.blob->offset); });
    for (std::size_t i = 0; i < sources_.size(); ++i) {
      const std::uint64_t length = sources_[i].blob->length;
      const std::uint64_t step = sources_[i].ranges ? chunk_size : chunk_length(*sources_[i].blob->data);
      for (std::uint64_t begin = 0; begin < length; begin += step) chunks_.push_back({i, begin, std::min(step, length - begin)});
    }
  }

  // Whole rows of the last axis where possible: some recipes compute by rows.
  static std::uint64_t chunk_length(const ir::TensorData& tensor) {
    const auto bits = static_cast<std::uint64_t>(ir::bit_width(tensor.dtype()));
    const std::uint64_t row_bits = tensor.dims().empty() ? bits : static_cast<std::uint64_t>(tensor.dims().back()) * bits;
    const std::uint64_t row = row_bits / 8;
    return row_bits % 8 == 0 && row > 0 && row <= chunk_size ? chunk_size / row * row : chunk_size;
  }

  void write_chunk(const Chunk& chunk) {
    const Source& source = sources_[chunk.source];
    OutputFile& out = *files_[source.blob->file];
    const std::uint64_t at = source.blob->offset + chunk.begin;
    if (source.memory.size() == source.blob->length) {
      out.write_at(at, source.memory.subspan(static_cast<std::size_t>(chunk.begin), static_cast<std::size_t>(chunk.length)));
    } else if (source.ranges) {
      copy_ranges(*source.ranges, chunk, out, at);
    } else {
      compute(source, chunk, out, at);
    }
    report(chunk.length);
  }

  static void copy_ranges(const std::vector<ir::FileRange>& ranges, const Chunk& chunk, OutputFile& out, std::uint64_t at) {
    std::uint64_t skip = chunk.begin, left = chunk.length;
    for (const ir::FileRange& range : ranges) {
      if (skip >= range.length) {
        skip -= range.length;
        continue;
      }
      const std::uint64_t length = std::min(left, range.length - skip);
      out.copy_at(at, *range.file, range.offset + skip, length);
      at += length;
      left -= length;
      skip = 0;
      if (left == 0) return;
    }
    expect(left == 0, "the file ranges of a tensor are shorter than the tensor");
  }

  void compute(const Source& source, const Chunk& chunk, OutputFile& out, std::uint64_t at) {
    BufferPool::Buffer buffer = buffers_.take();
    buffer.resize(static_cast<std::size_t>(chunk.length));
    try {
      source.blob->data->read(chunk.begin, buffer);
    } catch (const Error& e) {
      throw e.within(source.blob->name);
    }
    out.write_at(at, buffer);
    buffers_.give_back(std::move(buffer));
  }

  void report(std::uint64_t length) {
    const std::lock_guard lock(mutex_);
    done_ += length;
    if (options_.progress) options_.progress(done_, total_);
  }

  const onnx::Layout& layout_;
  const WriteOptions& options_;
  std::vector<std::unique_ptr<OutputFile>> files_;
  std::vector<Source> sources_;
  std::vector<Chunk> chunks_;
  BufferPool buffers_;
  std::mutex mutex_;
  std::uint64_t done_ = 0, total_ = 0;
};

void find_unbound(const ir::Graph& graph, std::vector<std::string>& names) {
  for (const ir::Value* v : graph.initializers())
    if (ir::unbound_leaf(*v->data())) names.push_back(v->name);
  for (const ir::Node* n : graph.nodes())
    for (const ir::Graph* g : n->subgraphs()) find_unbound(*g, names);
}

// Before hours of work: every weight must have its data.
void check_bound(const ir::Model& model) {
  std::vector<std::string> names;
  find_unbound(*model.graph, names);
  for (const ir::Function& f : model.functions) find_unbound(*f.body, names);
  if (names.empty()) return;
  const std::size_t shown = std::min<std::size_t>(names.size(), 3);
  const std::string list = fmt::format("{}", fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
  fail(ErrorKind::not_found, "{} initializers have no data: {}{}", names.size(), list, names.size() > shown ? ", ..." : "");
}

}  // namespace

std::uint64_t OnnxPlan::total_size() const {
  std::uint64_t total = 0;
  for (const File& file : files) total += file.size;
  return total;
}

OnnxPlan plan_onnx(const ir::Model& model, const WriteOptions& options, std::string_view file_name) {
  const onnx::Layout layout = onnx::make_layout(model, file_name, options);
  OnnxPlan plan;
  plan.files.push_back({std::string(file_name), model_bytes(model, layout, options, false).size()});
  std::set<std::string> others;
  for (const onnx::Layout::Blob& blob : layout.blobs) {
    if (!blob.in_place.empty()) others.insert(blob.in_place);
  }
  plan.refers_to.assign(others.begin(), others.end());
  if (!options.write_data) return plan;
  for (const onnx::Layout::File& file : layout.files) plan.files.push_back({file.name, file.size});
  if (!layout.index.empty()) plan.files.push_back({layout.index_name, layout.index.size()});
  return plan;
}

void write_onnx(const ir::Model& model, const fs::path& folder, std::string_view file_name, const WriteOptions& options) {
  const onnx::Layout layout = onnx::make_layout(model, file_name, options);
  if (options.write_data) check_bound(model);
  const std::string bytes = model_bytes(model, layout, options, true);
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) fail(ErrorKind::io, "{}: cannot make this folder: {}", folder.string(), error.message());

  PendingFiles pending(folder);
  if (options.write_data) {
    DataWriter(layout, options).write(pending);
    if (!layout.index.empty()) write_text_file(pending.add(layout.index_name), layout.index);
  }
  write_text_file(pending.add(std::string(file_name)), bytes);
  pending.commit();
}

std::string serialize_onnx(const ir::Model& model, bool value_info) { return onnx::serialize(model, {.value_info = value_info}); }

}  // namespace mobius::formats
