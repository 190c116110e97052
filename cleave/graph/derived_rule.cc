#include "cleave/graph/derived_rule.h"

#include <algorithm>
#include <map>
#include <optional>

#include "cleave/graph/op_def.h"
#include "cleave/graph/op_rule.h"

namespace cleave {
namespace {

// What happens along an atom in the ops of the body.
struct AtomUse {
  bool need_replication = false;
  bool permutation = false;
  bool blocked = false;

  void add(const AtomUse& other) {
    need_replication |= other.need_replication;
    permutation |= other.permutation;
    blocked |= other.blocked;
  }
};

using Atoms = std::vector<int>;  // major to minor

// Parts of dimensions that are found to be the same, or to be products of smaller ones.
class AtomTable {
 public:
  int fresh(int64_t size) {
    atoms_.push_back({.size = size, .same_as = static_cast<int>(atoms_.size())});
    return static_cast<int>(atoms_.size()) - 1;
  }
  int64_t size(int atom) const { return atoms_[atom].size; }
  AtomUse& use(int atom) { return atoms_[atom].use; }

  // The smallest parts of a list, each by its representative.
  Atoms leaves(const Atoms& list) const {
    Atoms out;
    for (int atom : list) append_leaves(atom, out);
    return out;
  }

  // Two lists that stand for the same elements. Where they can't be cut at common places, both need
  // to be whole.
  void unify(const Atoms& a, const Atoms& b) {
    Atoms left = leaves(a), right = leaves(b);
    while (!left.empty() && !right.empty()) {
      const int x = left.back(), y = right.back();
      const int64_t m = size(x), n = size(y);
      left.pop_back();
      right.pop_back();
      if (m == n)
        join(x, y);
      else if (m > 0 && n > m && n % m == 0)
        push_rest(split(y, m), x, right);
      else if (n > 0 && m > n && m % n == 0)
        push_rest(split(x, n), y, left);
      else {
        left.push_back(x);
        right.push_back(y);
        break;
      }
    }
    for (const Atoms& rest : {left, right})
      for (int atom : rest)
        if (size(atom) != 1) use(atom).need_replication = true;
  }

 private:
  struct Atom {
    int64_t size;
    int same_as;
    int major = -1, minor = -1;  // where it was cut
    AtomUse use = {};
  };

  int find(int atom) const {
    while (atoms_[atom].same_as != atom) atom = atoms_[atom].same_as;
    return atom;
  }
  void append_leaves(int atom, Atoms& out) const {
    atom = find(atom);
    if (atoms_[atom].major < 0) return out.push_back(atom);
    append_leaves(atoms_[atom].major, out);
    append_leaves(atoms_[atom].minor, out);
  }
  void join(int a, int b) {
    if (a == b) return;
    atoms_[a].use.add(atoms_[b].use);
    atoms_[b].same_as = a;
  }
  int split(int atom, int64_t minor) {
    const int high = fresh(size(atom) / minor), low = fresh(minor);
    atoms_[high].use = atoms_[low].use = atoms_[atom].use;
    atoms_[atom].major = high;
    atoms_[atom].minor = low;
    return atom;
  }
  void push_rest(int parent, int same_as_minor, Atoms& rest) {
    join(find(atoms_[parent].minor), same_as_minor);
    rest.push_back(atoms_[parent].major);
  }

  std::vector<Atom> atoms_;
};

class Deriver {
 public:
  Deriver(const Graph& graph, RegionId body) : graph_(graph), body_(body) {}

  OpShardingRule run() {
    for (ValueId arg : graph_.region(body_).args) dims_of(arg);
    for (NodeId id : graph_.region(body_).nodes)
      if (id != graph_.terminator(body_)) visit(graph_.node(id));
    return build();
  }

 private:
  struct Reduction {
    NodeId node;
    int atom;
    Factor factor;
  };

  std::vector<Atoms>& dims_of(ValueId value) {
    auto [it, fresh] = dims_.try_emplace(value);
    if (fresh && graph_.type(value).is_tensor())
      for (int64_t size : graph_.type(value).shape) it->second.push_back({table_.fresh(size)});
    return it->second;
  }

  void visit(const Node& node) {
    const auto rule = op_rule(graph_, node).propagation;
    if (!rule) {
      // Constants can be made in any layout; other ops without a rule see everything.
      for (ValueId operand : node.operands) need_whole(operand);
      for (ValueId result : node.results)
        node.operands.empty() ? static_cast<void>(dims_of(result)) : need_whole(result);
      return;
    }
    Atoms factors;
    for (const Factor& factor : rule->factors) {
      factors.push_back(table_.fresh(factor.size));
      AtomUse& use = table_.use(factors.back());
      use.need_replication = factor.kind == FactorKind::NeedReplication || factor.unknown_reduce;
      use.permutation = factor.kind == FactorKind::Permutation;
      use.blocked = factor.blocked;
      if (factor.kind == FactorKind::Reduction)
        reductions_.push_back({node_id(node), factors.back(), factor});
    }
    for (size_t t = 0; t < rule->num_tensors(); ++t) {
      const bool operand = t < node.operands.size();
      const ValueId value = operand ? node.operands[t] : node.results[t - node.operands.size()];
      std::vector<Atoms>& dims = dims_of(value);
      for (size_t d = 0; d < dims.size(); ++d) {
        Atoms list;
        for (FactorIndex factor : rule->tensor(t)[d]) list.push_back(factors[factor]);
        table_.unify(dims[d], list);
      }
    }
  }

  NodeId node_id(const Node& node) const {
    return node.results.empty() ? NodeId{} : graph_.value(node.results[0]).producer;
  }

  void need_whole(ValueId value) {
    for (const Atoms& dim : dims_of(value))
      for (int atom : table_.leaves(dim)) table_.use(atom).need_replication = true;
  }

  // Whether a pending reduction of a node's results reaches the body's results through ops that
  // carry it, unchanged in kind.
  bool carried(const Reduction& reduction) const {
    std::map<ValueId, ReduceOp> pending;
    for (ValueId result : graph_.node(reduction.node).results)
      pending[result] = reduction.factor.reduce;
    const NodeId last = graph_.terminator(body_);
    for (NodeId id : graph_.region(body_).nodes) {
      if (id == last || id == reduction.node) continue;
      const Node& node = graph_.node(id);
      std::vector<bool> partial;
      std::optional<ReduceOp> in;
      for (ValueId operand : node.operands) {
        const auto it = pending.find(operand);
        partial.push_back(it != pending.end());
        if (it == pending.end()) continue;
        if (in && *in != it->second) return false;
        in = it->second;
      }
      if (!in) continue;
      if (!node.def->partial) return false;
      const PartialTransfer rows = node.def->partial(graph_, node);
      const auto row = std::find_if(rows.begin(), rows.end(), [&](const PartialRow& r) {
        return r.in == *in && r.operands == partial;
      });
      if (row == rows.end()) return false;
      for (ValueId result : node.results) pending[result] = row->out;
    }
    for (ValueId result : graph_.node(last).operands) {
      const auto it = pending.find(result);
      if (it == pending.end() || it->second != reduction.factor.reduce) return false;
    }
    return true;
  }

  OpShardingRule build() {
    OpShardingRule rule;
    std::map<int, FactorIndex> number;
    auto factors_of = [&](ValueId value) {
      TensorFactors tensor;
      for (const Atoms& dim : dims_of(value)) {
        Atoms atoms = table_.leaves(dim);
        if (atoms.size() > 1) std::erase_if(atoms, [&](int a) { return table_.size(a) == 1; });
        if (atoms.empty()) atoms.push_back(table_.fresh(1));
        DimFactors factors;
        for (int atom : atoms) {
          const auto [it, fresh] =
              number.try_emplace(atom, static_cast<FactorIndex>(rule.factors.size()));
          if (fresh) rule.factors.push_back({.size = table_.size(atom)});
          factors.push_back(it->second);
        }
        tensor.push_back(std::move(factors));
      }
      return tensor;
    };
    for (ValueId arg : graph_.region(body_).args) rule.operands.push_back(factors_of(arg));
    for (ValueId result : graph_.node(graph_.terminator(body_)).operands)
      rule.results.push_back(factors_of(result));
    std::vector<bool> in_result(rule.factors.size());
    for (const TensorFactors& tensor : rule.results)
      for (const DimFactors& dim : tensor)
        for (FactorIndex factor : dim) in_result[factor] = true;
    for (const auto& [atom, f] : number) {
      const AtomUse& use = table_.use(atom);
      rule.factors[f].blocked = use.blocked;
      if (use.permutation) rule.factors[f].kind = FactorKind::Permutation;
      if (use.need_replication) rule.factors[f].kind = FactorKind::NeedReplication;
    }
    for (const Reduction& reduction : reductions_) {
      const bool fits = carried(reduction);
      for (int atom : table_.leaves({reduction.atom})) {
        const auto it = number.find(atom);
        if (it == number.end()) continue;
        Factor& factor = rule.factors[it->second];
        const bool first = factor.kind == FactorKind::PassThrough;
        const bool again =
            factor.kind == FactorKind::Reduction && factor.reduce == reduction.factor.reduce;
        if (fits && !in_result[it->second] && (first || again)) {
          factor.kind = FactorKind::Reduction;
          factor.reduce = reduction.factor.reduce;
        } else {
          factor.kind = FactorKind::NeedReplication;
        }
      }
    }
    return rule;
  }

  const Graph& graph_;
  RegionId body_;
  AtomTable table_;
  std::map<ValueId, std::vector<Atoms>> dims_;
  std::vector<Reduction> reductions_;
};

}  // namespace

OpShardingRule derive_rule(const Graph& graph, RegionId body) { return Deriver(graph, body).run(); }

}  // namespace cleave
