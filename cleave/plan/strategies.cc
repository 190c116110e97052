#include "cleave/plan/strategies.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <optional>

#include "cleave/core/error.h"
#include "cleave/core/parallel.h"
#include "cleave/graph/op_def.h"
#include "cleave/graph/op_rule.h"
#include "cleave/graph/text/text.h"
#include "cleave/plan/op_price.h"
#include "cleave/spmd/op_layouts.h"
#include "cleave/spmd/partition.h"

namespace cleave::plan {
namespace {

// Keys are bytes, not text: there is one for every op of the module, and printing would take longer
// than everything else that is done with most of them.
void put(std::string& key, int64_t number) {
  key.append(reinterpret_cast<const char*>(&number), sizeof number);
}

void put(std::string& key, std::string_view text) {
  put(key, static_cast<int64_t>(text.size()));
  key += text;
}

void put(std::string& key, const Type& type) {
  key += static_cast<char>(type.kind);
  if (!type.is_tensor() || type.unranked || !type.text.empty() || !type.encoding.empty())
    return put(key, std::string_view(to_string(type)));
  key += static_cast<char>(type.dtype);
  put(key, static_cast<int64_t>(type.rank()));
  for (int64_t n : type.shape) put(key, n);
}

void put(std::string& key, const Attribute& value) {
  put(key, static_cast<int64_t>(value.storage().index()));
  if (const auto* integer = value.as<IntegerAttr>()) {
    put(key, integer->value);
    put(key, integer->type);
  } else if (const auto* number = value.as<FloatAttr>()) {
    put(key, std::bit_cast<int64_t>(number->value));
    put(key, number->type);
  } else if (const auto* dense = value.as<DenseArrayAttr>()) {
    key += static_cast<char>(dense->dtype);
    put(key, static_cast<int64_t>(dense->ints.size()));
    for (int64_t n : dense->ints) put(key, n);
    put(key, static_cast<int64_t>(dense->floats.size()));
    for (double n : dense->floats) put(key, std::bit_cast<int64_t>(n));
  } else if (const auto* text = value.as<EnumAttr>()) {
    put(key, std::string_view(text->name));
    put(key, std::string_view(text->value));
  } else if (const auto* fields = value.as<StructAttr>()) {
    put(key, std::string_view(fields->name));
    put(key, static_cast<int64_t>(fields->fields.size()));
    for (const NamedAttribute& field : fields->fields) {
      put(key, std::string_view(field.name));
      put(key, field.value);
    }
  } else if (const auto* list = value.as<ArrayAttr>()) {
    put(key, static_cast<int64_t>(list->elements.size()));
    for (const Attribute& element : list->elements) put(key, element);
  } else {
    put(key, std::string_view(to_string(value)));
  }
}

void describe(const Graph& graph, const Node& node, std::string& key) {
  put(key, std::string_view(node.name()));
  const bool constant = node.def->has(kConstantLike);
  for (const NamedAttribute& attr : node.attrs.entries()) {
    if (attr.name == "sdy.sharding" || (constant && attr.name == "value")) continue;
    put(key, std::string_view(attr.name));
    put(key, attr.value);
  }
  put(key, static_cast<int64_t>(node.operands.size()));
  for (ValueId operand : node.operands) put(key, graph.type(operand));
  for (ValueId result : node.results) put(key, graph.type(result));
  for (RegionId region : node.regions)
    for (NodeId inner : graph.region(region).nodes) describe(graph, graph.node(inner), key);
}

// What a strategy is made of, before it is a list of specs.
struct Draft {
  FactorAxes axes;
  AxisList carried;  // pending sums
  int row = -1;      // of the partial transfer
};

class Enumerator {
 public:
  Enumerator(const Graph& graph, const Node& node, const OpShardingRule& rule,
             const Layouts& layouts, const std::vector<bool>& trivial)
      : graph_(graph), node_(node), rule_(rule), layouts_(layouts), chooser_(graph, node, rule) {
    for (size_t f = 0; f < rule.factors.size(); ++f) {
      const auto factor = static_cast<FactorIndex>(f);
      if (rule.factors[f].size > 1 && chooser_.runs_apart(factor)) factors_.push_back(factor);
    }
    if (node.def->partial) transfer_ = node.def->partial(graph, node);
    for (size_t r = 0; r < transfer_.size(); ++r)
      if (is_useful(transfer_[r], trivial)) rows_.push_back(static_cast<int>(r));
  }

  std::vector<Draft> drafts() const {
    std::vector<Draft> drafts;
    auto fits = [&](size_t bin, int64_t shards) {
      return layouts_.splits(rule_.factors[factors_[bin]].size, shards);
    };
    for (const std::vector<AxisList>& bins :
         place_axes(*layouts_.mesh(), factors_.size(), layouts_.choice(), fits)) {
      Draft draft;
      draft.axes.resize(rule_.factors.size());
      AxisList used;
      for (size_t b = 0; b < bins.size(); ++b) {
        draft.axes[factors_[b]] = bins[b];
        used.insert(used.end(), bins[b].begin(), bins[b].end());
      }
      if (!chooser_.is_aligned(draft.axes) || !dims_split_well(draft.axes)) continue;
      drafts.push_back(draft);
      const std::optional<ReduceOp> reduction = own_partials(rule_, draft.axes).reduction;
      if (reduction && *reduction != ReduceOp::Sum) continue;
      const AxisList idle = idle_axes(used);
      // On large meshes, sums of several tensors carry axes one at a time.
      const bool one_at_a_time =
          !layouts_.choice().every && layouts_.mesh()->axes.size() > 2 && node_.operands.size() > 1;
      for (int row : rows_)
        for (size_t mask = 1; mask < size_t{1} << idle.size(); ++mask) {
          if (one_at_a_time && (mask & (mask - 1))) continue;
          Draft carrying = draft;
          carrying.row = row;
          for (size_t i = 0; i < idle.size(); ++i)
            if (mask >> i & 1) carrying.carried.push_back(idle[i]);
          drafts.push_back(std::move(carrying));
        }
    }
    return drafts;
  }

  OpLayouts layouts(const Draft& draft) const {
    if (draft.row < 0)
      return layouts_for(graph_, node_, layouts_.mesh(), rule_, draft.axes, nullptr);
    CarriedPartials carried;
    carried.axes = draft.carried;
    carried.in.resize(node_.operands.size(), ReduceOp::Sum);
    for (bool carries : transfer_[draft.row].operands)
      carried.operands.push_back(carries ? draft.carried : AxisList());
    return layouts_for(graph_, node_, layouts_.mesh(), rule_, draft.axes, &carried);
  }

 private:
  // Sums of all operands that are neither scalars nor made of constants.
  bool is_useful(const PartialRow& row, const std::vector<bool>& trivial) const {
    if (row.in != ReduceOp::Sum || row.out != ReduceOp::Sum) return false;
    if (row.operands.size() != node_.operands.size()) return false;
    bool any = false;
    for (size_t i = 0; i < row.operands.size(); ++i) {
      const bool small = trivial[i] || graph_.operand_type(node_, i).rank() == 0;
      if (row.operands[i] == small) return false;
      any = any || row.operands[i];
    }
    return any;
  }

  // The axes that split nothing, and the parts of those that are split in part.
  AxisList idle_axes(const AxisList& used) const {
    AxisList idle;
    const Mesh& mesh = *layouts_.mesh();
    const std::vector<AxisList>& parts = layouts_.choice().parts;
    for (size_t axis = 0; axis < mesh.axes.size(); ++axis) {
      const AxisRef whole = whole_axis(mesh, static_cast<int>(axis));
      if (whole.size == 1) continue;
      if (!overlaps_any(whole, used)) {
        idle.push_back(whole);
        continue;
      }
      if (axis >= parts.size()) continue;
      for (const AxisRef& part : parts[axis])
        if (!overlaps_any(part, used)) append_axis(idle, part);
    }
    return idle;
  }

  bool dims_split_well(const FactorAxes& axes) const {
    for (size_t t = 0; t < rule_.num_tensors(); ++t) {
      const size_t operands = node_.operands.size();
      const ValueId value = t < operands ? node_.operands[t] : node_.results[t - operands];
      const Shape& shape = graph_.type(value).shape;
      for (size_t d = 0; d < rule_.tensor(t).size(); ++d) {
        int64_t shards = 1;
        for (FactorIndex f : rule_.tensor(t)[d]) shards *= total_size(axes[f]);
        if (!layouts_.splits(shape[d], shards)) return false;
      }
    }
    return true;
  }

  const Graph& graph_;
  const Node& node_;
  const OpShardingRule& rule_;
  const Layouts& layouts_;
  FactorChooser chooser_;
  std::vector<FactorIndex> factors_;
  PartialTransfer transfer_;
  std::vector<int> rows_;
};

// Whether `more` is `less` with further axes put to factors.
bool extends(const Draft& less, const Draft& more) {
  if (less.carried != more.carried || less.row != more.row) return false;
  bool longer = false;
  for (size_t f = 0; f < less.axes.size(); ++f) {
    if (!is_prefix_of(less.axes[f], more.axes[f])) return false;
    longer = longer || total_size(more.axes[f]) > total_size(less.axes[f]);
  }
  return longer;
}

}  // namespace

int StrategySet::find(size_t tensor, SpecId spec) const {
  int best = -1;
  for (size_t s = 0; s < list.size(); ++s) {
    const Strategy& strategy = list[s];
    const SpecId has = tensor < strategy.operands.size()
                           ? strategy.operands[tensor]
                           : strategy.results[tensor - strategy.operands.size()];
    if (has == spec && (best < 0 || strategy.seconds < list[best].seconds))
      best = static_cast<int>(s);
  }
  return best;
}

// An op and its strategies on their way: as specs first, which threads can make side by side.
struct StrategyBook::Entry {
  NodeId node;
  std::vector<bool> trivial;
  bool is_drafted = false, is_settled = false;
  std::vector<Draft> drafts;  // empty: there is no rule
  std::vector<std::vector<ShardingSpec>> operands, results;
  std::vector<double> seconds;
  // Pairs of drafts of which the second may dominate the first: it splits further, and is quicker.
  std::vector<std::pair<size_t, size_t>> rivals;
  StrategySet set;

  void add(OpPrice& price, OpLayouts layouts) {
    seconds.push_back(price.seconds(layouts.operands, layouts.results));
    operands.push_back(std::move(layouts.operands));
    results.push_back(std::move(layouts.results));
  }
  // The first strategy is that of no axes at all, which is always there; it is kept so that there
  // is a way under every pin.
  void find_rivals() {
    for (size_t s = 1; s < drafts.size(); ++s)
      for (size_t t = 0; t < drafts.size(); ++t)
        if (s != t && seconds[t] < seconds[s] && extends(drafts[s], drafts[t]))
          rivals.emplace_back(s, t);
  }
  void drop_drafts() {
    drafts.clear();
    rivals.clear();
    operands.clear();
    results.clear();
    seconds.clear();
  }
};

StrategyBook::StrategyBook(const Graph& graph, Layouts& layouts)
    : graph_(graph), layouts_(layouts) {}
StrategyBook::~StrategyBook() = default;

int StrategyBook::number(NodeId id, const std::vector<bool>& trivial) {
  key_.clear();
  const Node& node = graph_.node(id);
  describe(graph_, node, key_);
  for (bool t : trivial) key_ += t ? '1' : '0';
  // What an op carries may depend on where its operands come from: a pending sum is divided by a
  // number that is known not to be 0, and by no other.
  if (node.def->partial)
    for (const PartialRow& row : node.def->partial(graph_, node)) {
      put(key_, 100 * static_cast<int>(row.in) + static_cast<int>(row.out));
      for (bool operand : row.operands) key_ += operand ? '1' : '0';
    }
  const auto [it, is_new] = numbers_.try_emplace(key_, static_cast<int>(entries_.size()));
  if (is_new) {
    entries_.push_back(std::make_unique<Entry>());
    entries_.back()->node = id;
    entries_.back()->trivial = trivial;
  }
  return it->second;
}

void StrategyBook::prepare(int threads) {
  std::atomic<size_t> next = 0;
  run_parallel(threads, threads, [&](int) {
    for (size_t i = next++; i < entries_.size(); i = next++) try {
        if (!entries_[i]->is_drafted) draft(*entries_[i]);
      } catch (const std::exception&) {
        // Thrown again where the op is asked for.
      }
  });
  std::vector<Layouts::Reshard> asked;  // first, of all that is asked to find what is dominated
  for (const std::unique_ptr<Entry>& entry : entries_) {
    const Node& node = graph_.node(entry->node);
    if (entry->is_settled || node.results.empty()) continue;
    for (const auto& [s, t] : entry->rivals)
      asked.push_back({&entry->results[t][0], &entry->results[s][0], &graph_.result_type(node, 0)});
  }
  layouts_.prepare(asked, threads);
}

const StrategySet& StrategyBook::strategies(int number) {
  Entry& entry = *entries_[number];
  if (!entry.is_settled) {
    if (!entry.is_drafted) draft(entry);
    settle(entry);
  }
  return entry.set;
}

void StrategyBook::draft(Entry& entry) const {
  entry.drop_drafts();
  const Node& node = graph_.node(entry.node);
  OpPrice price(graph_, node, layouts_.mesh(), layouts_.profile());
  // A constant is as any layout wants it.
  if (node.def->has(kConstantLike) && node.def->localize && node.results.size() == 1 &&
      is_ranked_tensor(graph_.result_type(node))) {
    for (ShardingSpec& spec : layouts_.candidate_specs(graph_.result_type(node).shape))
      entry.add(price, {{}, {std::move(spec)}});
    entry.is_drafted = true;
    return;
  }
  const OpRule rules = op_rule(graph_, node);
  const OpShardingRule* rule = rules.to_run(node);
  if (!rule) {
    entry.add(price, whole_layouts(graph_, node, layouts_.mesh()));
    entry.is_drafted = true;
    return;
  }
  const Enumerator enumerator(graph_, node, *rule, layouts_, entry.trivial);
  entry.drafts = enumerator.drafts();
  for (const Draft& draft : entry.drafts) entry.add(price, enumerator.layouts(draft));
  entry.find_rivals();
  entry.is_drafted = true;
}

void StrategyBook::settle(Entry& entry) {
  for (size_t s = 0; s < entry.seconds.size(); ++s) {
    Strategy strategy;
    for (const ShardingSpec& spec : entry.operands[s])
      strategy.operands.push_back(layouts_.intern(spec));
    for (const ShardingSpec& spec : entry.results[s])
      strategy.results.push_back(layouts_.intern(spec));
    strategy.seconds = entry.seconds[s];
    entry.set.list.push_back(std::move(strategy));
  }
  const std::vector<bool> is_dominated = dominated(entry);
  std::vector<Strategy> kept;
  for (size_t s = 0; s < is_dominated.size(); ++s)
    if (!is_dominated[s]) kept.push_back(std::move(entry.set.list[s]));
  entry.set.list = std::move(kept);
  entry.is_settled = true;
  entry.drop_drafts();
}

std::vector<bool> StrategyBook::dominated(const Entry& entry) {
  const Node& node = graph_.node(entry.node);
  std::vector<bool> dominated(entry.set.list.size());
  for (const auto& [s, t] : entry.rivals) {
    if (dominated[s] || dominated[t]) continue;
    const Strategy &less = entry.set.list[s], &more = entry.set.list[t];
    // Results first: gathering what is split further costs most, and few go on from there.
    double seconds = more.seconds;
    bool fits = true;
    for (size_t i = 0; i < node.results.size() && fits && seconds < less.seconds; ++i) {
      const Type& type = graph_.result_type(node, i);
      fits = layouts_.bytes(more.results[i], type) <= layouts_.bytes(less.results[i], type);
      if (fits) seconds += layouts_.seconds(more.results[i], less.results[i], type);
    }
    for (size_t i = 0; i < node.operands.size() && fits && seconds < less.seconds; ++i)
      seconds += layouts_.seconds(less.operands[i], more.operands[i], graph_.operand_type(node, i));
    dominated[s] = fits && seconds < less.seconds;
  }
  return dominated;
}

}  // namespace cleave::plan
