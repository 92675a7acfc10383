// What an inference function sees: one node, what is known of its inputs, and a place for what it finds out. Internal to ops/.
//
//   void infer_transpose(InferContext& c) {
//     if (!c.shape(0)) return c.output(0, c.dtype(0));
//     ...
//     c.output(0, c.dtype(0), std::move(result));
//   }
#pragma once
#include <fmt/core.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "mobius/base/error.hpp"
#include "mobius/ops/infer.hpp"

namespace mobius::ops {

class InferContext {
 public:
  InferContext(TypeInference& inference, ir::Node& node) : node_(node), inference_(inference) {}

  ir::Node& node() const { return node_; }
  TypeInference& inference() const { return inference_; }

  // Inputs. Absent ones have no type; index may be beyond the last.
  std::size_t inputs() const { return node_.inputs().size(); }
  bool has(std::size_t i) const { return node_.input(i) != nullptr; }
  const ir::Value* input(std::size_t i) const { return node_.input(i); }
  ir::DataType dtype(std::size_t i) const { return has(i) ? node_.input(i)->dtype() : ir::DataType::undefined; }
  const std::optional<ir::Shape>& shape(std::size_t i) const;
  std::optional<std::size_t> rank(std::size_t i) const;
  ir::Dim dim(std::size_t i, std::size_t axis) const;                      // unknown when the shape is
  std::optional<ir::Shape> contents(std::size_t i) const;                  // of a small integer tensor
  std::optional<std::vector<std::int64_t>> integers(std::size_t i) const;  // the same, when each element is a number
  std::optional<std::int64_t> integer(std::size_t i) const;                // of a tensor with one element

  // Attributes.
  std::int64_t int_attribute(std::string_view name, std::int64_t otherwise) const { return node_.int_attribute(name, otherwise); }
  std::int64_t required_int(std::string_view name) const;
  std::int64_t heads(std::string_view name) const;  // a required attribute above 0
  std::optional<std::vector<std::int64_t>> ints(std::string_view name) const { return node_.ints_attribute(name); }
  // `dtype`-valued attributes; fails for numbers that are no data type.
  ir::DataType dtype_attribute(std::string_view name, ir::DataType otherwise) const;

  // Axes: a number in [-rank, rank) becomes one in [0, rank).
  std::size_t axis(std::int64_t value, std::size_t rank) const;
  // Axes from input `i` if present, else from attribute "axes". nullopt: they exist but aren't known. Empty: none are given.
  std::optional<std::vector<std::int64_t>> axes(std::size_t i) const;

  // Outputs. Absent outputs are skipped.
  std::size_t outputs() const { return node_.outputs().size(); }
  void output(std::size_t i, ir::DataType dtype, std::optional<ir::Shape> shape = std::nullopt);
  void output_type(std::size_t i, ir::Type type);
  void output_contents(std::size_t i, ir::Shape elements);
  void same_as_input(std::size_t i = 0) { output(0, dtype(i), shape(i)); }

  // Checks. Each fails only where certain.
  std::optional<ir::Shape> broadcast(std::initializer_list<std::size_t> inputs) const;
  void want_rank(std::size_t i, std::size_t rank) const;
  void want_rank_in(std::size_t i, std::size_t low, std::size_t high) const;
  void want_equal(const ir::Dim& a, const ir::Dim& b, std::string_view what) const;
  void want_same_dtype(std::size_t a, std::size_t b) const;

  // "name: message", with the operator's name where the node's name does not tell it.
  template <class... Args>
  [[noreturn]] void error(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorKind::invalid_argument, "{}: {}", place(), fmt::vformat(format, fmt::make_format_args(args...)));
  }
  std::string place() const;
  std::string show(std::size_t i) const;  // the shape of an input, for messages

 private:
  ir::Node& node_;
  TypeInference& inference_;
};

// For operators that change numbers alone: the output is like the first input.
inline void infer_same(InferContext& c) { c.same_as_input(); }

// The smaller of two descriptions is lost: the inferred type, with what only the declared one knows. A declared symbol
// stays only where `keep_symbols`: the names of a graph's outputs are its interface.
ir::Type merge_types(ir::Type inferred, const ir::Type& declared, bool keep_symbols);

// What two possible shapes have in common (branches of If, iterations of Loop).
std::optional<ir::Shape> common_shape(const std::optional<ir::Shape>& a, const std::optional<ir::Shape>& b);

// A bound below a dimension, when every symbol stands for 0 or more and a sum of symbols for 1 or more; nullopt when it has none.
std::optional<std::int64_t> lower_bound(const ir::Dim& dim);

bool known_to_differ(const ir::Dim& a, const ir::Dim& b);
ir::Dim product(const ir::Shape& shape, std::size_t begin, std::size_t end);
ir::Shape unknown_shape(std::size_t rank);
ir::Dim divide_exactly(const ir::Dim& a, std::int64_t b);  // unknown when it leaves a rest

struct InferEntry {
  void (*infer)(InferContext&);
  std::size_t min_inputs = 0;
};
struct InferTable {
  std::unordered_map<std::string_view, InferEntry> onnx, microsoft;
};
void add_infer_math(InferTable& table);
void add_infer_reduce(InferTable& table);
void add_infer_shape_ops(InferTable& table);
void add_infer_index_ops(InferTable& table);
void add_infer_nn(InferTable& table);
void add_infer_conv(InferTable& table);
void add_infer_attention(InferTable& table);
void add_infer_contrib(InferTable& table);
void add_infer_control(InferTable& table);

}  // namespace mobius::ops
