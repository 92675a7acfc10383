//   x · Wᵀ           ⟶   Reshape(Gemm(Reshape(x), W; transB))           W: a weight that is also read as it is, as tied embeddings are
//   Gather(W, ids)   ⟶   Transpose(Gather(Wᵀ, ids; axis = 1))          where the graph must not compute shapes
//
// For EPs without FusedMatMul. Elsewhere the Transpose of a weight is folded into its recipe; of a weight with another reader that would
// store it twice, and transposing it at run time takes as long as many products. Gemm reads it transposed, but multiplies matrices only,
// and the Reshape behind it needs the shape of x. Where that is not to be had, the weight is stored once all the same, transposed like the
// other weights of that EP, and the embedding gathers its columns.
#include <algorithm>
#include <numeric>

#include "mobius/rules/conditions.hpp"
#include "mobius/rules/rules.hpp"

namespace mobius::rules {
using namespace rewrite;

namespace {

bool has_no_kernel(const Target& t) { return !t.ep.supports_fused_matmul || !t.ep.fused_matmul_dtypes.contains(t.dtype); }
bool has_no_shapes(const Target& t) { return has_no_kernel(t) && t.ep.requires_graph_capture_rewrite; }

Rule gemm_head() {
  const auto [x, w] = vars("x", "w");
  const auto make = [=](Inserter& at, const Match& m, const Target&) -> std::vector<ir::Value*> {
    auto *in = m[x], *weight = m[w];
    const auto dims = weight->data()->dims();  // [out, in]
    const auto rank = static_cast<std::int64_t>(*in->rank());
    auto* rows = rank == 2 ? in : at.add({"", "Reshape"}, {in, at.integers({-1, dims[1]})})[0];
    auto* product = at.add({"", "Gemm"}, {rows, weight}, {{"transB", std::int64_t{1}}})[0];
    if (rank == 2) return {product};
    auto* outer = at.shared({"", "Shape"}, {in}, {{"end", rank - 1}, {"start", std::int64_t{0}}});
    auto* shape = at.add({"", "Concat"}, {outer, at.integers({dims[0]})}, {{"axis", std::int64_t{0}}})[0];
    return at.add({"", "Reshape"}, {product, shape});
  };
  return {.name = "TiedHead",
          .from = {matmul(x, transpose(w, {1, 0}))},
          .where = {is_constant(w), has_rank_in(x, 2, 8), is_one_of(x, any_float),
                    require("the weight has no other reader: its Transpose is folded into it", [=](const Match& m) { return m[w]->uses().size() > 1; })},
          .when = has_no_kernel,
          .make = make};
}

// A reader of a weight: a Transpose for products; gathered columns of it are what this rule made before.
bool is_for_products(const ir::Use& use) {
  const std::vector<std::int64_t> swapped = {1, 0};
  if (!use.node->is("Transpose") || use.node->ints_attribute("perm").value_or(swapped) != swapped || use.node->output()->is_graph_output()) return false;
  return std::ranges::all_of(use.node->output()->uses(), [](const ir::Use& u) {
    return (u.node->is("MatMul") && u.index == 1) || (u.node->is("Gather") && u.index == 0 && u.node->int_attribute("axis", 0) == 1);
  });
}
bool is_for_rows(const ir::Use& use) { return use.node->is("Gather") && use.index == 0 && use.node->int_attribute("axis", 0) == 0; }

Rule embedding_of_columns() {
  const auto [w, ids] = vars("w", "ids");
  const auto rows = gather(w, ids);
  const auto is_tied = [=](const Match& m) {
    const auto& readers = m[w]->uses();
    return std::ranges::any_of(readers, is_for_products) &&
           std::ranges::all_of(readers, [&](const ir::Use& u) { return is_for_products(u) || is_for_rows(u); }) &&
           std::ranges::all_of(readers, [&](const ir::Use& u) { return &u.node->graph() == &m.node(rows)->graph(); });
  };
  const auto make = [=](Inserter& at, const Match& m, const Target&) -> std::vector<ir::Value*> {
    auto* root = m.node(rows);
    auto* transposed = std::ranges::find_if(m[w]->uses(), is_for_products)->node;
    if (at.graph().precedes(root, transposed)) at.graph().move_before(transposed, root);
    auto* columns = at.add({"", "Gather"}, {transposed->output(), m[ids]}, {{"axis", std::int64_t{1}}})[0];
    std::vector<std::int64_t> perm(*m[ids]->rank() + 1);  // [in, ids...] -> [ids..., in]
    std::iota(perm.begin(), perm.end() - 1, 1);
    return at.add({"", "Transpose"}, {columns}, {{"perm", std::move(perm)}});
  };
  return {.name = "TiedEmbedding",
          .from = {rows},
          .where = {is_constant(w), has_rank(w, 2), has_rank_in(ids, 1, 7), require("the weight is not one of an embedding and a product alone", is_tied)},
          .when = has_no_shapes,
          .make = make};
}

}  // namespace

RuleGroup tied_head() { return {"TiedHead", {embedding_of_columns(), gemm_head()}}; }

}  // namespace mobius::rules
