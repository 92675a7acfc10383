// References: matrix products and Einsum.
#include <algorithm>
#include <map>
#include <string>

#include "mobius/ops/interpreter_call.hpp"

namespace mobius::ops {

using ir::DataType;
using ir::Dims;
using Results = std::vector<Array>;

Array matmul(const OpCall& c, const Array& left, const Array& right) {
  Array a = left, b = right;
  if (a.dims.empty() || b.dims.empty()) c.error("{} x {}: operands need rank 1 or more", show(a.dims), show(b.dims));
  bool row = a.dims.size() == 1, column = b.dims.size() == 1;
  if (row) a.dims.insert(a.dims.begin(), 1);
  if (column) b.dims.push_back(1);
  auto m = a.dims[a.dims.size() - 2], k = a.dims.back(), n = b.dims.back();
  if (b.dims[b.dims.size() - 2] != k) c.error("{} x {}: inner dimensions differ", show(left.dims), show(right.dims));
  Dims batch_a(a.dims.begin(), a.dims.end() - 2), batch_b(b.dims.begin(), b.dims.end() - 2);
  Dims batch = broadcast_dims(c, batch_a, batch_b), dims = batch;
  dims.push_back(m);
  dims.push_back(n);
  Array y = zeros(a.dtype, dims);
  walk<2>(batch, {broadcast_strides(batch_a, batch), broadcast_strides(batch_b, batch)}, [&](std::int64_t i, const std::array<std::int64_t, 2>& o) {
    const double *pa = a.values.data() + o[0] * m * k, *pb = b.values.data() + o[1] * k * n;
    double* py = y.values.data() + i * m * n;
    for (std::int64_t r = 0; r < m; ++r) {
      for (std::int64_t x = 0; x < k; ++x) {
        for (std::int64_t s = 0; s < n; ++s) py[r * n + s] += pa[r * k + x] * pb[x * n + s];
      }
    }
  });
  Dims final_dims = batch;
  if (!row) final_dims.push_back(m);
  if (!column) final_dims.push_back(n);
  return reshaped(std::move(y), std::move(final_dims));
}

namespace {

Results matmul_op(const OpCall& c) { return {matmul(c, c.in(0), c.in(1))}; }

// The last two axes are exchanged by trans; transBatch reads [r, b..., c] as [b..., r, c].
Array fused_operand(const OpCall& c, std::size_t i, std::string_view letter) {
  bool trans = c.integer("trans" + std::string(letter), 0) != 0, trans_batch = c.integer("transBatch" + std::string(letter), 0) != 0;
  const Array& x = c.in(i);
  auto rank = x.dims.size();
  if ((!trans && !trans_batch) || rank < 2) return x;
  std::vector<std::size_t> perm(rank);
  for (std::size_t k = 0; k < rank; ++k) perm[k] = k;
  if (trans_batch) std::rotate(perm.begin(), perm.begin() + 1, perm.end() - 1);
  if (trans) std::swap(perm[rank - 1], perm[rank - 2]);
  return transposed(x, perm);
}

Results fused_matmul(const OpCall& c) {
  double alpha = c.number("alpha", 1);
  return {map(matmul(c, fused_operand(c, 0, "A"), fused_operand(c, 1, "B")), [&](double v) { return alpha * v; })};
}

Results gemm(const OpCall& c) {
  if (c.in(0).dims.size() != 2 || c.in(1).dims.size() != 2) c.error("{} x {}: expected rank 2", show(c.in(0).dims), show(c.in(1).dims));
  double alpha = c.number("alpha", 1), beta = c.number("beta", 1);
  Array y = map(matmul(c, fused_operand(c, 0, "A"), fused_operand(c, 1, "B")), [&](double v) { return alpha * v; });
  if (c.has(2)) {
    auto dims = y.dims;
    y = map2(c, y.dtype, y, c.in(2), [&](double v, double bias) { return v + beta * bias; });
    if (y.dims != dims) c.error("C is {}, which can't be broadcast to {}", show(c.in(2).dims), show(dims));
  }
  return {std::move(y)};
}

Results matmul_integer(const OpCall& c) {
  auto shifted = [&](std::size_t i, bool rows) {
    if (!c.has(i + 2)) return c.in(i);
    Array zero = c.in(i + 2);
    if (rows && zero.dims.size() == 1) zero.dims.push_back(1);
    return map2(c, DataType::int32, c.in(i), zero, [](double x, double z) { return x - z; });
  };
  Array y = matmul(c, shifted(0, true), shifted(1, false));
  y.dtype = DataType::int32;
  return {std::move(y)};
}

// ── Einsum ───────────────────────────────────────────────────────────────────────────────────────────────────────────────

// Axes of an operand as letters; those under "..." are numbered from the right, so that they broadcast.
std::vector<int> read_term(const OpCall& c, std::string_view term, std::size_t rank) {
  std::vector<int> axes;
  auto dots = term.find("...");
  auto named = term.size() - (dots == std::string_view::npos ? 0 : 3);
  if (rank < named || (dots == std::string_view::npos && rank != named)) c.error("term '{}' does not fit rank {}", term, rank);
  for (std::size_t i = 0; i < term.size(); ++i) {
    if (i == dots) {
      for (auto k = rank - named; k > 0; --k) axes.push_back(-static_cast<int>(k));
      i += 2;
    } else {
      axes.push_back(term[i]);
    }
  }
  return axes;
}

Results einsum(const OpCall& c) {
  std::string equation;
  for (char ch : c.text("equation", "")) {
    if (ch != ' ') equation.push_back(ch);
  }
  auto arrow = equation.find("->");
  std::string_view left = std::string_view(equation).substr(0, arrow);
  std::vector<std::vector<int>> terms;
  std::map<int, std::int64_t> sizes;
  std::map<int, int> uses;
  int dots = 0;
  for (std::size_t i = 0;; ++i) {
    auto comma = left.find(',');
    terms.push_back(read_term(c, left.substr(0, comma), c.in(i).dims.size()));
    for (std::size_t k = 0; k < terms[i].size(); ++k) {
      auto [found, added] = sizes.try_emplace(terms[i][k], c.in(i).dims[k]);
      if (!added && found->second == 1) found->second = c.in(i).dims[k];
      if (found->second != c.in(i).dims[k] && c.in(i).dims[k] != 1) c.error("sizes of one letter of '{}' differ", equation);
      ++uses[terms[i][k]];
      dots = std::min(dots, terms[i][k]);
    }
    if (comma == std::string_view::npos) break;
    left.remove_prefix(comma + 1);
  }
  std::vector<int> out;
  if (arrow != std::string::npos) {
    auto right = std::string_view(equation).substr(arrow + 2);
    auto named = right.size() - (right.find("...") == std::string_view::npos ? 0 : 3);
    out = read_term(c, right, named + (right.size() == named ? 0 : static_cast<std::size_t>(-dots)));
  } else {
    for (int k = dots; k < 0; ++k) out.push_back(k);
    for (auto [letter, n] : uses) {
      if (letter > 0 && n == 1) out.push_back(letter);
    }
  }
  // All letters: those of the output first, then the summed ones.
  std::vector<int> letters = out;
  for (auto [letter, n] : sizes) {
    if (std::find(out.begin(), out.end(), letter) == out.end()) letters.push_back(letter);
  }
  Dims all, out_dims;
  for (int letter : letters) {
    if (!sizes.contains(letter)) c.error("an output letter of '{}' is in no term", equation);
    all.push_back(sizes[letter]);
  }
  out_dims.assign(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(out.size()));
  std::vector<Dims> steps;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    Dims own = strides_of(c.in(i).dims), stride(letters.size(), 0);
    for (std::size_t k = 0; k < terms[i].size(); ++k) {
      if (c.in(i).dims[k] == 1) continue;
      stride[at(std::find(letters.begin(), letters.end(), terms[i][k]) - letters.begin())] += own[k];
    }
    steps.push_back(std::move(stride));
  }
  Array y = zeros(c.in(0).dtype, out_dims);
  Dims out_stride = strides_of(out_dims);
  out_stride.resize(letters.size(), 0);
  Dims index_of_all = strides_of(all);
  walk<1>(all, {out_stride}, [&](std::int64_t n, const std::array<std::int64_t, 1>& o) {
    double term = 1;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      std::int64_t offset = 0, rest = n;
      for (std::size_t k = 0; k < all.size(); ++k) {
        offset += rest / index_of_all[k] * steps[i][k];
        rest %= index_of_all[k];
      }
      term *= c.in(i).values[at(offset)];
    }
    y.values[at(o[0])] += term;
  });
  return {std::move(y)};
}

}  // namespace

void add_reference_linear(ReferenceTable& table) {
  table.onnx["MatMul"] = matmul_op;
  table.onnx["Gemm"] = gemm;
  table.onnx["MatMulInteger"] = matmul_integer;
  table.onnx["Einsum"] = einsum;
  table.microsoft["FusedMatMul"] = fused_matmul;
}

}  // namespace mobius::ops
