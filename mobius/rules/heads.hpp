// Tensors by heads, and what they were made from. Internal to rules/.
//
//   if (const auto q = find_source(query, {.heads = 4, .size = 16}))     // query: [batch, 4, length, 16]
//     flat(at, *q);                                                      // [batch, length, 64]
//
// How a graph cuts, repeats and turns its tensors does not matter: what matters is where the elements end up (ops/layout.hpp).
#pragma once
#include <optional>

#include "mobius/ops/layout.hpp"
#include "mobius/rewrite/rule.hpp"

namespace mobius::rules {

// How a tensor is laid out: [B, L, heads * size], [B, L, heads, size] or [B, heads, L, size].
enum class HeadForm { flat, by_token, by_head };

struct HeadSource {
  ir::Value* value = nullptr;
  HeadForm form = HeadForm::by_head;
  std::int64_t heads = 0, size = 0;
  double factor = 1;  // what was asked about is this times the value
};

struct HeadsWanted {
  std::int64_t heads = 0, size = 0;  // of the value asked about
  bool grouped = false;              // each head of the source may be repeated, copies side by side
  bool scaled = false;               // the source may be scaled
};

// The furthest ancestor of `value` [batch, heads, length, size] that it holds the elements of; nullopt: not even the value itself will do,
// since its sizes are not known.
std::optional<HeadSource> find_source(ir::Value* value, const HeadsWanted& wanted);
// Whether this ancestor is a source, in this form.
std::optional<HeadSource> as_source(const ops::History& history, std::size_t ancestor, HeadForm form, const HeadsWanted& wanted);

// As [batch, length, heads * size], without the factor.
ir::Value* flat(rewrite::Inserter& at, const HeadSource& source);
// From [batch, length, heads * size] to [batch, heads, length, size].
ir::Value* by_head(rewrite::Inserter& at, ir::Value* flat, std::int64_t heads, std::int64_t size);

}  // namespace mobius::rules
