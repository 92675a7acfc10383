// Applies rules: finds matches, places the replacement legally, redirects users, removes what died.
#include <algorithm>
#include <set>

#include "mobius/base/error.hpp"
#include "mobius/rewrite/body.hpp"
#include "mobius/rewrite/matcher.hpp"
#include "mobius/rewrite/operators.hpp"
#include "mobius/rewrite/screening.hpp"

namespace mobius::rewrite {

namespace {

// ── placing ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

bool contains(const ir::Graph& graph, const ir::Node* node) {
  for (const auto* n : graph.nodes()) {
    if (n == node) return true;
    for (const auto* g : n->subgraphs())
      if (contains(*g, node)) return true;
  }
  return false;
}

// The node of `graph` that is `user`, or whose subgraphs hold it.
ir::Node* ancestor_in(const ir::Graph& graph, ir::Node* user) {
  if (&user->graph() == &graph) return user;
  for (auto* n : graph.nodes())
    for (const auto* g : n->subgraphs())
      if (contains(*g, user)) return n;
  return nullptr;
}

// Where the replacement of `root` goes. All of the pattern's inputs are defined before the root; but a second result of the
// pattern may be read before it. Then the place is before that reader, or the readers (and what depends on them) move behind
// the root. nullptr: neither is possible, since an input depends on such a reader.
class Placement {
 public:
  Placement(const Match& match, const std::vector<ir::Value*>& exposed, ir::Node* root) : match_(match), root_(root), graph_(root->graph()) {
    for (const auto& [p, n] : match.nodes) matched_.insert(n);
    for (const auto* v : exposed)
      for (const auto& use : v->uses())
        if (auto* user = ancestor_in(graph_, use.node); user && !matched_.contains(user) && graph_.precedes(user, root)) readers_.insert(user);
  }

  ir::Node* find() {
    if (readers_.empty()) return root_;
    auto* first = *std::ranges::min_element(readers_, [&](auto* a, auto* b) { return graph_.precedes(a, b); });
    bool defined = true;
    for (const auto& [p, v] : match_.variables)
      if (v->producer() && v->graph() == &graph_ && !graph_.precedes(v->producer(), first)) defined = false;
    return defined ? first : move_readers(first);
  }

 private:
  ir::Node* move_readers(ir::Node* first) {
    std::vector<ir::Node*> moving;
    std::set<ir::Node*> marked = readers_;
    for (auto* n = first; n != root_; n = n->next()) {
      for (const auto* v : n->inputs())
        if (v && v->producer() && marked.contains(v->producer())) marked.insert(n);
      if (!n->subgraphs().empty() && !marked.contains(n)) return nullptr;  // what it captures is not worth finding out
      if (marked.contains(n)) moving.push_back(n);
    }
    for (const auto& [p, v] : match_.variables)
      if (v->producer() && marked.contains(v->producer())) return nullptr;
    for (auto* n : matched_)
      if (marked.contains(n)) return nullptr;
    auto* behind = root_->next();
    for (auto* n : moving) graph_.move_before(n, behind);
    return root_;
  }

  const Match& match_;
  ir::Node* root_;
  ir::Graph& graph_;
  std::set<ir::Node*> matched_, readers_;  // looked up, or reduced by graph order
};

// ── one application ──────────────────────────────────────────────────────────────────────────────────────────────────────

std::string scope_of(const ir::Node& node) {
  const auto slash = node.name.rfind('/');
  return slash == std::string::npos ? std::string{} : node.name.substr(0, slash);
}

class Application {
 public:
  Application(const Rule& rule, ir::Graph& graph, const Match& match, const Target& target, RuleReport& report)
      : rule_(rule), graph_(graph), match_(match), target_(target), report_(report) {}

  // `anchor`: a node that goes on to the one before it should it be erased.
  bool run(Miss& miss, ir::Node*& anchor) {
    auto* root = match_.node(rule_.from[0]);
    std::vector<ir::Value*> exposed;
    for (const auto& p : rule_.from) exposed.push_back(match_[p]);
    std::vector<ir::Value*> present;
    std::ranges::copy_if(exposed, std::back_inserter(present), [](auto* v) { return v != nullptr; });
    auto* place = Placement(match_, present, root).find();
    if (!place) {
      miss = {match_.nodes.size(), scope_of_call(*root) + ": an operand depends on a reader of the result"};
      return false;
    }

    Inserter at(graph_, place, scope_of(*root));
    const auto results = replacement(rule_, at, match_, target_);
    for (std::size_t i = 0; i < exposed.size(); ++i)
      if (exposed[i] && results[i]) at.redirect(exposed[i], results[i]);
    for (auto* n : at.added()) {
      n->metadata.insert(root->metadata.begin(), root->metadata.end());
      for (std::size_t i = keeps_all_results(n->op) ? 0 : n->outputs().size(); i-- > 0;)
        if (n->output(i) && !n->output(i)->is_used() && n->outputs().size() > 1) n->drop_output(i);
      count(*n, +1);
    }
    report_.added += at.added().size();
    erase_dead(anchor);
    ++report_.applied;
    return true;
  }

 private:
  // What was matched, and what only that needed: a node that nothing reads would count as another user of its operands.
  void erase_dead(ir::Node*& anchor) {
    std::vector<ir::Node*> open;
    for (const auto& [p, n] : match_.nodes) open.push_back(n);
    std::ranges::sort(open, [&](auto* a, auto* b) { return graph_.precedes(a, b); });  // users are taken before producers
    std::set<const ir::Node*> erased;
    while (!open.empty()) {
      auto* n = open.back();
      open.pop_back();
      if (erased.contains(n) || !std::ranges::all_of(n->outputs(), [](auto* o) { return !o || !o->is_used(); })) continue;
      std::vector<ir::Node*> producers;
      for (const auto* v : n->inputs())
        if (v && v->producer() && v->graph() == &graph_) producers.push_back(v->producer());
      count(*n, -1);
      ++report_.removed;
      if (anchor == n) anchor = n->previous();
      graph_.erase(n);
      erased.insert(n);
      open.insert(open.end(), producers.begin(), producers.end());
    }
  }

  void count(const ir::Node& node, std::int64_t delta) { report_.change_per_op[std::string(node.op.type)] += delta; }

  const Rule& rule_;
  ir::Graph& graph_;
  const Match& match_;
  const Target& target_;
  RuleReport& report_;
};

void remember(RuleReport& report, const Miss& miss) {
  if (miss.reason.empty() || (!report.nearest_miss.empty() && miss.depth <= report.nearest_depth)) return;
  report.nearest_miss = miss.reason;
  report.nearest_depth = miss.depth;
}

// One rule on one graph.
class Walk {
 public:
  // A rule whose result is again its pattern would never end; no sensible one is applied `most` times.
  Walk(const Rule& rule, const Target& target, bool has_subgraphs, std::size_t most, RuleReport& report)
      : rule_(rule), target_(target), roots_(root_operators(rule)), has_subgraphs_(has_subgraphs), most_(most), report_(report) {}

  // Over all of the graph; true when something was applied.
  bool run(ir::Graph& graph) {
    bool any = false;
    for (auto* node = graph.first(); node;) {
      if (has_subgraphs_)
        for (auto* g : node->subgraphs()) any |= run(*g);
      auto* anchor = node->previous();  // the nearest node before that outlives the rewrite
      const bool applied = can_be_root(*node) && apply_at(graph, *node, anchor);
      any |= applied;
      node = !applied ? node->next() : anchor ? anchor->next() : graph.first();
    }
    return any;
  }

 private:
  bool can_be_root(const ir::Node& node) const { return roots_.empty() || std::ranges::find(roots_, node.op) != roots_.end(); }

  bool apply_at(ir::Graph& graph, ir::Node& node, ir::Node*& anchor) {
    auto* value = node.output(rule_.from[0].output);
    if (!value) return false;
    Miss miss;
    const auto found = match(rule_, value, target_, miss);
    bool applied = false;
    if (found) {
      const auto matched = [&](const ir::Node* n) { return std::ranges::any_of(found->nodes, [&](const auto& e) { return e.second == n; }); };
      while (anchor && matched(anchor)) anchor = anchor->previous();
      applied = Application(rule_, graph, *found, target_, report_).run(miss, anchor);
      expect(report_.applied < most_, "rule " + rule_.name + " does not come to an end");
    }
    if (!applied) remember(report_, miss);
    return applied;
  }

  const Rule& rule_;
  const Target& target_;
  const std::vector<ir::OpName> roots_;
  const bool has_subgraphs_;
  const std::size_t most_;
  RuleReport& report_;
};

RuleReport apply_to(const Rule& rule, ir::Graph& graph, const Target& target, bool has_subgraphs) {
  RuleReport report;
  report.rule = rule.name;
  Target remembering = target;
  remembering.memory = std::make_shared<std::map<const ir::Value*, std::any>>();
  Walk walk(rule, remembering, has_subgraphs, 10'000 + 10 * graph.node_count(), report);
  // Only what the last walk missed is still there.
  while (walk.run(graph)) {
    report.nearest_miss.clear();
    report.nearest_depth = 0;
  }
  std::erase_if(report.change_per_op, [](const auto& e) { return e.second == 0; });
  return report;
}

bool is_for(const Rule& rule, const Target& target) { return !rule.when || rule.when(target); }

std::string lack_of(const std::vector<ir::OpName>& ops) {
  std::string text = "the graph has no ";
  for (const auto op : ops) text += (op == ops.front() ? "" : ", ") + ir::to_string(op);
  return text;
}

}  // namespace

RuleReport apply(const Rule& rule, ir::Graph& graph, const Target& target) { return apply(RuleGroup{rule.name, {rule}}, graph, target); }

// ── groups ───────────────────────────────────────────────────────────────────────────────────────────────────────────────

bool RuleGroup::applies_to(const Target& target) const {
  return std::ranges::any_of(rules, [&](const Rule& r) { return is_for(r, target); });
}

RuleReport apply(const RuleGroup& group, ir::Graph& graph, const Target& target) {
  RuleReport sum;
  sum.rule = group.name;
  std::optional<OperatorSet> present(graph);
  std::vector<ir::OpName> lacking;  // what is missing for the rule for which the least is
  const auto run = [&](const Rule& rule) -> std::size_t {
    if (!is_for(rule, target)) return 0;
    if (auto missing = present->missing(rule); !missing.empty()) {
      if (lacking.empty() || missing.size() < lacking.size()) lacking = std::move(missing);
      return 0;
    }
    const auto part = apply_to(rule, graph, target, present->has_subgraphs());
    sum.added += part.added;
    sum.removed += part.removed;
    for (const auto& [op, change] : part.change_per_op) sum.change_per_op[op] += change;
    if (part.applied != 0) present.emplace(graph);
    remember(sum, {part.nearest_depth, part.nearest_miss});
    return part.applied;
  };
  for (const auto& rule : group.rules) sum.applied += run(rule);
  auto nearest = sum.applied == 0 && sum.nearest_miss.empty() && !lacking.empty() ? lack_of(lacking) : std::move(sum.nearest_miss);
  for (const auto& rule : group.then) run(rule);
  sum.nearest_miss = std::move(nearest);
  std::erase_if(sum.change_per_op, [](const auto& e) { return e.second == 0; });
  return sum;
}

}  // namespace mobius::rewrite
