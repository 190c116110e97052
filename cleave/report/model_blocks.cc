#include "cleave/report/model_blocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "cleave/core/kernel_classes.h"
#include "cleave/graph/flow.h"
#include "cleave/graph/op_def.h"
#include "cleave/ops/cost.h"

namespace cleave::report {
namespace {

constexpr int kNone = -1, kMixed = -2;

bool is_number(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(),
                                      [](unsigned char c) { return std::isdigit(c) != 0; });
}

// Blocks by their paths. A number belongs to the name before it: layers, 3 -> layers[3].
class BlockTree {
 public:
  BlockTree() { blocks_.push_back({"step"}); }

  int at(const std::vector<std::string>& path) {
    int block = 0;
    for (size_t i = 0; i < path.size(); ++i) {
      std::string name = path[i];
      while (i + 1 < path.size() && is_number(path[i + 1])) name += "[" + path[++i] + "]";
      const auto [it, is_new] = known_.try_emplace({block, name}, static_cast<int>(blocks_.size()));
      if (is_new) blocks_.push_back({name, block});
      block = it->second;
    }
    return block;
  }

  // The smallest block that has both.
  int common(int a, int b) const {
    std::set<int> around;
    for (int at = a; at >= 0; at = blocks_[static_cast<size_t>(at)].parent) around.insert(at);
    while (!around.contains(b)) b = blocks_[static_cast<size_t>(b)].parent;
    return b;
  }

  std::vector<ModelBlocks::Block>& blocks() { return blocks_; }

 private:
  std::vector<ModelBlocks::Block> blocks_;
  std::map<std::pair<int, std::string>, int> known_;
};

class BlockFinder {
 public:
  BlockFinder(const plan::BoundPlan& bound, const std::vector<std::string>& roles)
      : bound_(bound),
        flat_(bound.flat),
        roles_(roles),
        args_(flat_.region(bound.body()).args),
        uses_(flat_),
        of_arg_(args_.size(), kNone),
        of_op_(bound.ops.size(), kNone),
        behind_(flat_.num_values(), kNone) {}

  ModelBlocks run() {
    if (!name_by_scopes() && !name_by_paths()) name_by_repetition();
    find_what_arguments_become();
    seed();
    follow_updates();
    follow_operands();
    follow_users();
    place_arguments();
    ModelBlocks result{std::move(tree_.blocks()), std::move(of_op_), std::move(of_arg_)};
    return result;
  }

 private:
  const Node& node(size_t op) const { return flat_.node(bound_.ops[op].node); }
  int op_of(ValueId value) const {
    const NodeId producer = flat_.value(value).producer;
    return producer.valid() ? bound_.op_index[producer.index] : kNone;
  }

  bool has_role(size_t arg, std::string_view role) const {
    return arg < roles_.size() && roles_[arg] == role;
  }

  // Parameters; all arguments if nothing is trained.
  std::vector<size_t> weights() const {
    std::vector<size_t> found, all;
    for (size_t i = 0; i < args_.size(); ++i) {
      all.push_back(i);
      if (has_role(i, "parameters")) found.push_back(i);
    }
    return found.empty() ? all : found;
  }

  bool is_product(size_t op) const {
    const KernelClass kernel = op_cost(flat_, node(op)).kernel;
    return kernel == KernelClass::Matmul || kernel == kConvolutionClass;
  }

  // If most products have scopes.
  bool name_by_scopes() {
    size_t products = 0, named = 0;
    for (size_t i = 0; i < of_op_.size(); ++i) {
      if (!is_product(i)) continue;
      ++products;
      named += !scopes_of(node(i).location).empty();
    }
    if (named == 0 || 2 * named < products) return false;
    for (size_t i = 0; i < of_op_.size(); ++i)
      if (const auto path = scopes_of(node(i).location); !path.empty()) of_op_[i] = tree_.at(path);
    return true;
  }

  // Names of parameters without what all of them begin with and without their last part.
  bool name_by_paths() {
    std::vector<std::vector<std::string>> paths;
    const std::vector<size_t> weights = this->weights();
    for (size_t arg : weights) paths.push_back(path_of_name(bound_.plan.values[arg].name));
    size_t shared = 0;
    for (bool same = !paths.empty(); same; shared += same)
      for (const auto& path : paths)
        same = same && shared + 1 < path.size() && path[shared] == paths[0][shared];
    std::map<std::vector<std::string>, int> by_path;
    std::set<int> found;
    bool deep = false;
    for (size_t i = 0; i < weights.size(); ++i) {
      std::vector<std::string> own(paths[i].begin() + static_cast<ptrdiff_t>(shared),
                                   paths[i].end());
      std::vector<std::string> path = own;
      deep |= path.size() > 1;
      if (path.size() > 1) path.pop_back();
      if (path.size() == 1 && is_plain(path[0])) path.clear();
      by_path[own] = of_arg_[weights[i]] = tree_.at(path);
      found.insert(of_arg_[weights[i]]);
    }
    if (!deep || found.size() < 2) {
      tree_ = BlockTree();
      of_arg_.assign(args_.size(), kNone);
      return false;
    }
    // What an optimizer keeps has the same name with another beginning.
    for (size_t i = 0; i < args_.size(); ++i) {
      std::vector<std::string> path = path_of_name(bound_.plan.values[i].name);
      while (of_arg_[i] == kNone && !path.empty()) {
        if (const auto known = by_path.find(path); known != by_path.end())
          of_arg_[i] = known->second;
        path.erase(path.begin());
      }
    }
    return true;
  }

  // arg12: a name that nobody gave.
  static bool is_plain(const std::string& name) {
    return name.starts_with("arg") && is_number(name.substr(3));
  }

  void name_by_repetition() {
    std::vector<size_t> order;  // weights by their first use
    std::vector<bool> is_weight(flat_.num_values());
    for (size_t arg : weights()) is_weight[args_[arg].index] = true;
    for (size_t op = 0; op < of_op_.size(); ++op)
      for (ValueId operand : node(op).operands)
        if (is_weight[operand.index]) {
          order.push_back(flat_.value(operand).index);
          is_weight[operand.index] = false;
        }
    std::map<std::string, int> types;
    std::vector<int> list;
    for (size_t arg : order)
      list.push_back(
          types.try_emplace(to_string(flat_.type(args_[arg])), static_cast<int>(types.size()))
              .first->second);
    const std::optional<Repetition> again = find_repetition(list);
    if (!again) return;
    for (size_t layer = 0; layer < again->times; ++layer)
      for (size_t i = 0; i < again->length; ++i)
        of_arg_[order[again->begin + layer * again->length + i]] =
            tree_.at({"layers", std::to_string(layer)});
    // The embedding and the head are of no layer, and so is what reads them.
    for (size_t arg : weights())
      if (of_arg_[arg] == kNone && has_role(arg, "parameters")) of_arg_[arg] = 0;
  }

  // Of values that are an argument but for precision, layout and shape: the argument.
  void find_what_arguments_become() {
    for (size_t i = 0; i < args_.size(); ++i) behind_[args_[i].index] = static_cast<int>(i);
    for (size_t op = 0; op < of_op_.size(); ++op) {
      const Node& node = this->node(op);
      for (RegionId region : node.regions) {
        const std::vector<ValueId>& inner = flat_.region(region).args;
        if (flow_of(node) == Flow::None) continue;
        for (size_t i = 0; i < inner.size() && i < node.operands.size(); ++i)
          behind_[inner[i].index] = behind_[node.operands[i].index];
      }
      if (renames(node)) behind_[node.results[0].index] = behind_[node.operands[0].index];
    }
  }

  static bool renames(const Node& node) {
    return node.results.size() == 1 && !node.operands.empty() &&
           (node.def->has(kSameValue) || node.def->has(kRelabels) || node.def->has(kWindow));
  }

  // Ops that read what is of one block.
  void seed() {
    for (size_t op = 0; op < of_op_.size(); ++op) {
      if (of_op_[op] != kNone || flow_of(node(op)) != Flow::None) continue;
      for (ValueId operand : node(op).operands) {
        const int arg = behind_[operand.index];
        const int block = arg < 0 ? kNone : of_arg_[static_cast<size_t>(arg)];
        if (block == kNone) continue;
        of_op_[op] = of_op_[op] == kNone ? block : tree_.common(of_op_[op], block);
      }
    }
  }

  // Elementwise ops between a gradient and the new value of a parameter, and the op that makes the
  // gradient.
  void follow_updates() {
    std::vector<bool> is_update(of_op_.size());
    for (size_t op = of_op_.size(); op-- > 0;) {
      const Node& node = this->node(op);
      if (node.results.size() != 1 || flow_of(node) != Flow::None) continue;
      const bool moves = node.def->has(kElementwise) || renames(node) || node.def->has(kRepeats);
      if (of_op_[op] != kNone) {
        is_update[op] = moves && updates_an_argument(node);
        continue;
      }
      int block = kNone;
      for (const Use& use : uses_.uses(node.results[0])) {
        const int user = bound_.op_index[use.node.index];
        if (user < 0 || !is_update[static_cast<size_t>(user)]) continue;
        const int theirs = of_op_[static_cast<size_t>(user)];
        block = block == kNone || block == theirs ? theirs : kMixed;
      }
      if (block < 0) continue;
      of_op_[op] = block;
      is_update[op] = moves;
    }
  }

  bool updates_an_argument(const Node& node) const {
    return std::any_of(node.operands.begin(), node.operands.end(), [&](ValueId operand) {
      const int arg = behind_[operand.index];
      return arg >= 0 &&
             (has_role(static_cast<size_t>(arg), "parameters") ||
              has_role(static_cast<size_t>(arg), "optimizer state")) &&
             flat_.type(operand).shape == flat_.result_type(node).shape;
    });
  }

  // What is left follows the latest of its operands.
  void follow_operands() {
    for (size_t op = 0; op < of_op_.size(); ++op) {
      if (of_op_[op] != kNone) continue;
      int latest = kNone;
      for (ValueId operand : node(op).operands) {
        const int maker = op_of(operand);
        if (maker >= 0 && of_op_[static_cast<size_t>(maker)] != kNone &&
            !node(static_cast<size_t>(maker)).def->has(kConstantLike))
          latest = std::max(latest, maker);
      }
      if (latest >= 0) of_op_[op] = of_op_[static_cast<size_t>(latest)];
    }
  }

  // Constants and what is computed before all: the smallest block that has all users.
  void follow_users() {
    for (size_t op = of_op_.size(); op-- > 0;) {
      if (of_op_[op] != kNone) continue;
      int block = kNone;
      for (ValueId result : node(op).results)
        for (const Use& use : uses_.uses(result)) {
          const int user = bound_.op_index[use.node.index];
          if (user < 0 || of_op_[static_cast<size_t>(user)] < 0) continue;
          const int theirs = of_op_[static_cast<size_t>(user)];
          block = block == kNone ? theirs : tree_.common(block, theirs);
        }
      of_op_[op] = std::max(block, 0);
    }
  }

  void place_arguments() {
    for (size_t arg = 0; arg < args_.size(); ++arg) {
      if (of_arg_[arg] != kNone) continue;
      int block = kNone;
      for (const Use& use : uses_.uses(args_[arg])) {
        const int user = bound_.op_index[use.node.index];
        if (user < 0 || node(static_cast<size_t>(user)).def->has(kTerminator)) continue;
        const int theirs = of_op_[static_cast<size_t>(user)];
        block = block == kNone ? theirs : tree_.common(block, theirs);
      }
      of_arg_[arg] = std::max(block, 0);
    }
  }

  const plan::BoundPlan& bound_;
  const Graph& flat_;
  const std::vector<std::string>& roles_;
  const std::vector<ValueId>& args_;
  const UseMap uses_;
  BlockTree tree_;
  std::vector<int> of_arg_, of_op_;
  std::vector<int> behind_;  // by value: the argument that it is, in another form
};

// Blocks in the order in which the step comes to them, parents first.
void sort_blocks(ModelBlocks& model) {
  const size_t count = model.blocks.size();
  constexpr size_t kNever = static_cast<size_t>(-1);
  std::vector<size_t> first(count, kNever);
  for (size_t op = 0; op < model.ops.size(); ++op)
    for (int at = model.ops[op]; at >= 0; at = model.blocks[static_cast<size_t>(at)].parent)
      first[static_cast<size_t>(at)] = std::min(first[static_cast<size_t>(at)], op);
  std::vector<std::vector<size_t>> parts(count);
  for (size_t b = 1; b < count; ++b)
    parts[static_cast<size_t>(model.blocks[b].parent)].push_back(b);
  std::vector<int> place(count);
  std::vector<ModelBlocks::Block> sorted;
  const auto visit = [&](auto&& self, size_t block) -> void {
    place[block] = static_cast<int>(sorted.size());
    sorted.push_back(model.blocks[block]);
    if (sorted.back().parent >= 0)
      sorted.back().parent = place[static_cast<size_t>(sorted.back().parent)];
    std::stable_sort(parts[block].begin(), parts[block].end(),
                     [&](size_t a, size_t b) { return first[a] < first[b]; });
    for (size_t part : parts[block]) self(self, part);
  };
  visit(visit, 0);
  model.blocks = std::move(sorted);
  for (std::vector<int>* list : {&model.ops, &model.arguments})
    for (int& block : *list) block = place[static_cast<size_t>(block)];
}

// Two blocks are alike if their parameters lie alike, their products run alike, and their parts are
// alike.
void find_like_blocks(ModelBlocks& model, const plan::BoundPlan& bound) {
  const Graph& flat = bound.flat;
  const std::vector<ValueId>& args = flat.region(bound.body()).args;
  std::vector<std::string> looks(model.blocks.size());
  auto text = [](const ShardingSpec& spec) { return spec.mesh ? to_string(spec) : "-"; };
  for (size_t i = 0; i < model.arguments.size(); ++i) {
    const auto& [name, spec] = bound.plan.values[i];
    const std::vector<std::string> path = path_of_name(name);
    const std::string leaf = path.empty() || path.size() == 1 ? "" : path.back();
    looks[static_cast<size_t>(model.arguments[i])] +=
        fmt::format("{} {} {}|", leaf, to_string(flat.type(args[i])), text(spec));
  }
  for (size_t i = 0; i < model.ops.size(); ++i) {
    const Node& node = flat.node(bound.ops[i].node);
    const plan::PlannedOp& op = bound.plan.ops[i];
    const KernelClass kernel = op_cost(flat, node).kernel;
    if (op.seconds <= 0 || (kernel != KernelClass::Matmul && kernel != kConvolutionClass)) continue;
    std::string& look = looks[static_cast<size_t>(model.ops[i])];
    look += op.op + " " + to_string(flat.result_type(node));
    for (const plan::PlannedOperand& operand : op.operands) look += " " + text(operand.spec);
    look += " > " + text(op.results[0]) + "|";
  }
  std::map<std::tuple<int, std::string>, int> known;
  for (size_t b = model.blocks.size(); b-- > 1;)
    looks[static_cast<size_t>(model.blocks[b].parent)] += "(" + looks[b] + ")";
  for (size_t b = 0; b < model.blocks.size(); ++b) {
    ModelBlocks::Block& block = model.blocks[b];
    std::string family;  // the name without numbers
    for (char c : block.name)
      if (!std::isdigit(static_cast<unsigned char>(c))) family += c;
    const auto [it, is_new] =
        known.try_emplace({block.parent, family + "|" + looks[b]}, static_cast<int>(b));
    if (!is_new) block.like = it->second;
    ++model.blocks[static_cast<size_t>(it->second)].count;
  }
}

}  // namespace

ModelBlocks model_blocks(const plan::BoundPlan& bound, const std::vector<std::string>& roles) {
  ModelBlocks model = BlockFinder(bound, roles).run();
  sort_blocks(model);
  find_like_blocks(model, bound);
  return model;
}

}  // namespace cleave::report
