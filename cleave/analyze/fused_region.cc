#include "cleave/analyze/fused_region.h"

#include <algorithm>

#include "cleave/analyze/attention.h"
#include "cleave/analyze/kernels.h"
#include "cleave/analyze/library_ops.h"
#include "cleave/core/kernel_classes.h"
#include "cleave/graph/flow.h"
#include "cleave/graph/op_def.h"
#include "cleave/ops/cost.h"
#include "cleave/ops/dot/dot_dims.h"
#include "cleave/ops/elementwise/long_function.h"
#include "cleave/ops/op.h"

namespace cleave::analyze {

using Role = KernelRole;
using Reads = KernelReads;

bool is_in_place(const Node& node) { return is<op::Scatter, op::DynamicUpdateSlice>(node); }

FusedRegion::FusedRegion(const Graph& graph, RegionId region, const MachineProfile& profile,
                         const std::vector<bool>& is_donated)
    : graph_(graph),
      sizes_(sizes_of(graph)),
      executor_(profile.executor),
      bytes_per_op_(executor_.vector_tops > 0
                        ? profile.memory_gbps * 1e9 / (executor_.vector_tops * 1e12)
                        : 0),
      region_(region),
      orders_(storage_orders(graph, region, executor_)),
      nodes_(graph.region(region).nodes),
      roles_(graph.num_nodes()),
      users_(graph.num_values()),
      forced_(graph.num_values()),
      written_(graph.num_values()),
      remade_(graph.num_values()),
      inside_(graph.num_values()),
      copies_(graph.num_values()) {
  for (NodeId node : nodes_) {
    roles_[node.index] = role_of(graph_.node(node));
    for (ValueId operand : graph_.node(node).operands)
      if (users_[operand.index].empty() || users_[operand.index].back() != node)
        users_[operand.index].push_back(node);
  }
  for (ValueId arg : graph_.region(region).args) written_[arg.index] = true;
  if (executor_.flash_attention) hide_attention();
  if (executor_.updates_together) find_updates(is_donated);
  force();
  force_reordered();
  if (executor_.runs_library_ops) force_library_ops();
  if (executor_.row_elements > 0) force_uneven_rows();
  if (executor_.row_elements > 0) force_sources();
  constexpr int kSweeps = 3;
  is_changed_ = true;
  for (int sweep = 0; sweep < kSweeps && is_changed_; ++sweep) decide();
}

// One kernel forward; backward there are three: products of rows come first, and sums are rounded
// at the end.
void FusedRegion::hide_attention() {
  for (const Attention& attention : find_attention(graph_, region_)) {
    for (NodeId id : attention.inner) roles_[id.index] = Role::Hidden;
    for (const AttentionProduct& product : attention.products) {
      roles_[product.node.index] = Role::Mixing;
      hiding_.push_back({product.node, product.share * share_of_tiles(graph_, attention),
                         !attention.has_forward() || !is_forward(product.role)});
    }
    for (ValueId value : attention.unwritten) hidden_.insert(value);
    for (ValueId value : attention.reads) forced_[behind(value).index] = true;
    hiding_.back().kernels = (attention.has_forward() ? 1 : 0) + (attention.has_backward() ? 3 : 0);
  }
}

std::vector<FusedRegion::Size> FusedRegion::sizes_of(const Graph& graph) {
  std::vector<Size> sizes(graph.num_values());
  for (uint32_t v = 0; v < sizes.size(); ++v) {
    const Type& type = graph.type({v});
    if (type.is_tensor() && type.has_static_shape())
      sizes[v] = {static_cast<double>(type.byte_count()),
                  static_cast<double>(num_elements(type.shape))};
  }
  return sizes;
}

Role FusedRegion::role_of(const Node& node) const {
  const OpDef& def = *node.def;
  if (def.has(kTerminator)) return Role::End;
  if (def.has(kConstantLike)) return Role::Known;
  if (flow_of(node) == Flow::Barrier || def.has(kSameValue)) return Role::View;
  if (flow_of(node) != Flow::None) return Role::Own;
  if (is_same_bytes(node)) return Role::View;
  if (executor_.adds_bias && is_bias_of_product(graph_, node)) return Role::View;
  if (is<op::Reduce>(node) || (is<op::Scatter>(node) && node.results.size() == 1))
    return Role::Reduce;
  const KernelClass kernel = op_cost(graph_, node).kernel;
  if (kernel == KernelClass::Matmul || kernel == kConvolutionClass)
    return is_outer_product(node)         ? Role::Inside
           : is_product_with_vector(node) ? Role::Reduce
                                          : Role::Library;
  if (is<op::Reshape, op::BitcastConvert>(node)) return Role::View;
  if (def.has(kElementwise) || def.has(kViewLike) || def.has(kRepeats) || def.has(kWindow) ||
      def.has(kAssembles) || is<op::Gather>(node))
    return node.results.size() == 1 ? Role::Inside : Role::Own;
  return Role::Own;
}

// A reduction over dimensions of size 1, a conversion to the type that the value has.
bool FusedRegion::is_same_bytes(const Node& node) const {
  if (node.results.size() != 1 || node.operands.empty()) return false;
  if (is<op::Convert>(node))
    return graph_.operand_type(node, 0).dtype == graph_.result_type(node).dtype;
  return is<op::Reduce>(node) && elements(node.operands[0]) == elements(node.results[0]);
}

// A compiler writes it as a multiplication.
bool FusedRegion::is_outer_product(const Node& node) const {
  const std::optional<DotDims> dims = dot_dims_of(graph_, node);
  if (!dims) return false;
  return std::all_of(dims->lhs_contract.begin(), dims->lhs_contract.end(),
                     [&](int64_t dim) { return graph_.operand_type(node, 0).shape[dim] == 1; });
}

// A compiler writes it as a multiplication and a sum.
bool FusedRegion::is_product_with_vector(const Node& node) const {
  const std::optional<DotDims> dims = dot_dims_of(graph_, node);
  if (!dims) return false;
  double shared = 1;
  for (int64_t dim : dims->lhs_batch)
    shared *= static_cast<double>(graph_.operand_type(node, 0).shape[dim]);
  for (int64_t dim : dims->lhs_contract)
    shared *= static_cast<double>(graph_.operand_type(node, 0).shape[dim]);
  return elements(node.operands[0]) == shared || elements(node.operands[1]) == shared;
}

int64_t FusedRegion::reduced_elements(const Node& node) const {
  int64_t count = 1;
  for (int64_t dim : node.attrs.get_ints_or_empty("dimensions"))
    count *= graph_.operand_type(node, 0).shape[dim];
  return count;
}

bool FusedRegion::reduces_rows(const Node& node) const {
  if (!is<op::Reduce>(node)) return false;
  const ValueId operand = node.operands[0];
  const std::vector<int> dims = real_dims(graph_.type(operand), orders_.of[operand.index]);
  int64_t row = 1;
  size_t count = 0;
  for (int64_t dim : node.attrs.get_ints_or_empty("dimensions")) {
    const int64_t size = graph_.type(operand).shape[dim];
    if (size == 1) continue;
    ++count;
    row *= size;
  }
  if (count == 0 || count > dims.size()) return false;
  const std::vector<int64_t> reduced = node.attrs.get_ints_or_empty("dimensions");
  return row <= executor_.longest_row &&
         std::all_of(dims.end() - static_cast<ptrdiff_t>(count), dims.end(), [&](int dim) {
           return std::find(reduced.begin(), reduced.end(), dim) != reduced.end();
         });
}

// The value whose bytes these are, behind views and transposes, which products read as they lie.
ValueId FusedRegion::behind(ValueId value) const {
  for (;;) {
    const NodeId producer = graph_.value(value).producer;
    if (!producer.valid()) return value;
    const Node& maker = node(producer);
    const bool passes = roles_[producer.index] == Role::View || is<op::Transpose>(maker);
    if (!passes) return value;
    value = maker.operands[flow_of(maker) == Flow::Barrier ? graph_.value(value).index : 0];
  }
}

// Values that must be in memory.
void FusedRegion::force() {
  for (NodeId id : nodes_) {
    const Role role = roles_[id.index];
    for (ValueId operand : node(id).operands) {
      if (role == Role::Library || role == Role::End) forced_[behind(operand).index] = true;
      if (role == Role::Own) forced_[operand.index] = true;
    }
    if (is_in_place(node(id))) forced_[behind(node(id).operands[0]).index] = true;
    for (ValueId captured : captured_values(graph_, node(id).regions))
      forced_[captured.index] = true;
  }
}

// A kernel either reduces or reorders.
void FusedRegion::force_reordered() {
  std::vector<bool> reorders(graph_.num_values());
  for (NodeId id : nodes_) {
    const Role role = roles_[id.index];
    if (role != Role::Inside && role != Role::View && role != Role::Reduce) continue;
    bool has = orders_.mixed[id.index];
    for (ValueId operand : node(id).operands)
      has = has || (reorders[operand.index] && !forced_[operand.index]);
    if (!has) continue;
    if (role == Role::Reduce)
      forced_[node(id).operands[0].index] = true;
    else
      for (ValueId result : node(id).results) reorders[result.index] = true;
  }
}

// Rows that loads of 16 bytes do not fit are not reduced inside kernels with their users. Of
// x - max(x) and x - mean(x) the difference is written, and the reduction is inside its kernel.
void FusedRegion::force_uneven_rows() {
  for (NodeId id : nodes_) {
    const Node& node = graph_.node(id);
    if (!is<op::Reduce>(node) || node.results.size() != 1 || roles_[id.index] != Role::Reduce)
      continue;
    const ValueId rest = difference(node);
    if (rest.valid() && !reduces_rows(node) && reduces_one_load(node)) {
      forced_[rest.index] = true;
      kept_.insert(rest);
    }
    if (!reduces_rows(node)) continue;
    if (rest.valid() && is_of_loss(rest)) forced_[rest.index] = true;
    if (!is_uneven_row(node)) continue;
    forced_[(rest.valid() ? last_alone(rest) : node.results[0]).index] = true;
  }
}

// Behind elementwise ops that nothing else shares: the exponential of a difference.
ValueId FusedRegion::last_alone(ValueId value) const {
  while (users_[value.index].size() == 1) {
    const Node& user = graph_.node(users_[value.index][0]);
    if (!user.def->has(kElementwise) || user.operands.size() != 1) break;
    value = user.results[0];
  }
  return value;
}

// Of x - max(x) - log(sum(exp(x - max(x)))) a loss reads only some elements, at indices. There is
// no kernel that ends in the whole of it, and that with the maximum ends in the difference.
bool FusedRegion::is_of_loss(ValueId rest) const {
  const std::vector<NodeId>& users = users_[rest.index];
  return std::any_of(users.begin(), users.end(), [&](NodeId user) {
    const Node& whole = node(user);
    if (!is<op::Subtract>(whole) || whole.operands[0] != rest) return false;
    const NodeId repeated = graph_.value(whole.operands[1]).producer;
    if (!repeated.valid() || !node(repeated).def->has(kRepeats)) return false;
    const std::vector<NodeId>& reads = users_[whole.results[0].index];
    return std::all_of(reads.begin(), reads.end(),
                       [&](NodeId read) { return is<op::Gather>(node(read)); });
  });
}

// Of columns, and of what lies together there as much as one load of 16 bytes has: the groups of
// four channels of a norm. Of such, x - mean(x) is written in f32.
bool FusedRegion::reduces_one_load(const Node& reduction) const {
  constexpr int64_t kLoad = 4;
  const Type& operand = graph_.operand_type(reduction, 0);
  const std::vector<int64_t> reduced = reduction.attrs.get_ints_or_empty("dimensions");
  return operand.rank() > 0 && operand.shape.back() == kLoad && reduced.size() > 1 &&
         std::find(reduced.begin(), reduced.end(), operand.rank() - 1) != reduced.end() &&
         std::find(reduced.begin(), reduced.end(), operand.rank() - 2) == reduced.end();
}

bool FusedRegion::is_uneven_row(const Node& node) const {
  return reduced_elements(node) % executor_.row_elements != 0;
}

ValueId FusedRegion::difference(const Node& reduction) const {
  const ValueId whole = reduction.operands[0];
  ValueId value = reduction.results[0];
  for (int step = 0; step < 6; ++step) {
    NodeId next;
    for (NodeId user : users_[value.index]) {
      const Node& found = graph_.node(user);
      if (is<op::Subtract>(found) && found.operands[0] == whole) return found.results[0];
      const bool passes = roles_[user.index] == Role::View || found.def->has(kRepeats) ||
                          found.def->has(kElementwise);
      if (!next.valid() && passes && found.results.size() == 1) next = user;
    }
    if (!next.valid()) break;
    value = graph_.node(next).results[0];
  }
  return {};
}

bool FusedRegion::is_small(ValueId value) const {
  const NodeId producer = graph_.value(value).producer;
  return bytes(value) <= 64 || (producer.valid() && roles_[producer.index] == Role::Known);
}

// Memory is read in pieces of 32 bytes, also if only some of their elements are asked for.
double FusedRegion::stride(const Node& node) const {
  double most = 1;
  for (int64_t stride : node.attrs.get_ints_or_empty("strides"))
    most = std::max(most, static_cast<double>(stride));
  return std::min(most, 8.0);
}

KernelReads FusedRegion::needs(const Node& node) const {
  Reads reads;
  const bool part = node.def->has(kWindow) || is<op::Gather>(node);
  const double most = part ? bytes(node.results[0]) * stride(node) : 0;
  auto add = [&](ValueId value, double count) {
    double& have = reads[value];
    have = std::max(have, part ? std::min(count, most) : count);
  };
  for (ValueId operand : node.operands) {
    if (is_small(operand) || (is_in_place(node) && operand == node.operands[0])) continue;
    if (written_[operand.index])
      add(operand, bytes(operand));
    else
      for (const auto& [value, count] : inside_[operand.index]) add(value, count);
  }
  return reads;
}

void FusedRegion::write(ValueId value, bool is_written, const Reads& reads) {
  is_changed_ = is_changed_ || written_[value.index] != is_written ||
                (!is_written && inside_[value.index] != reads);
  written_[value.index] = is_written;
  inside_[value.index] = is_written ? Reads{} : reads;
}

void FusedRegion::decide() {
  is_changed_ = false;
  for (NodeId id : nodes_) {
    const Node& node = graph_.node(id);
    const Role role = roles_[id.index];
    if (role == Role::End) continue;
    if (role == Role::Hidden || role == Role::Mixing) {
      for (ValueId result : node.results) write(result, !hidden_.contains(result), {});
      continue;
    }
    if (role == Role::Library || role == Role::Own ||
        (role == Role::Reduce && (node.results.size() > 1 || !reduces_rows(node)))) {
      for (ValueId result : node.results) write(result, true, {});
      continue;
    }
    if (flow_of(node) == Flow::Barrier) {
      for (size_t i = 0; i < node.results.size(); ++i) {
        const ValueId operand = node.operands[i];
        write(node.results[i], false,
              written_[operand.index] ? Reads{{operand, bytes(operand)}} : inside_[operand.index]);
      }
      continue;
    }
    const ValueId result = node.results[0];
    if (role == Role::Known || (is_small(result) && !forced_[result.index])) {
      write(result, false, {});
      continue;
    }
    const Reads mine = needs(node);
    count_copies(node);
    const bool is_long = executor_.most_copies > 0 &&
                         copies_[result.index].count > static_cast<double>(executor_.most_copies);
    const bool is_last = executor_.runs_library_ops && !is_update(result)
                             ? ends_library_op(node, mine)
                             : is_cheaper_written(node, mine);
    if (role == Role::View)
      write(result, false, mine);
    else
      write(result,
            !is_made_again(node, mine) && !remade_[result.index] &&
                (forced_[result.index] || is_long || is_last),
            mine);
  }
}

// What computing the node takes once more, as bytes that are moved meanwhile: of long functions,
// and of long chains of ops such as random numbers are made by.
double FusedRegion::work_bytes(const Node& node) const {
  const ValueId result = node.results[0];
  double ops = is_long_function(node) ? executor_.long_function : 0;
  // Integers of a random number only make the next ones.
  const double chain = copies_[result.index].ops;
  if (executor_.long_chain > 0 && chain > static_cast<double>(executor_.long_chain) &&
      !is_integer(graph_.type(result).dtype))
    ops = chain;
  return elements(result) * ops * bytes_per_op_;
}

// A few elementwise ops on what is there anyway, such as a rectifier, are computed again for each
// product that reads them: a compiler tries kernels for the product that do so.
bool FusedRegion::is_made_again(const Node& node, const Reads& mine) const {
  constexpr double kFewOps = 4;
  const ValueId result = node.results[0];
  if (executor_.row_elements == 0 || !node.def->has(kElementwise) || is_long_function(node) ||
      users_[result.index].size() < 2 || copies_[result.index].ops > kFewOps)
    return false;
  for (NodeId user : users_[result.index])
    if (roles_[user.index] != Role::Library || !is_dot(graph_.node(user))) return false;
  if (mine.empty()) return false;
  const auto large = std::max_element(
      mine.begin(), mine.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  if (large->second < 0.9 * bytes(result)) return false;
  bool is_shared = false;  // up to what is read, something else must use it too
  for (ValueId value = result; value != large->first;) {
    const Node& maker = graph_.node(graph_.value(value).producer);
    const auto next = std::find_if(maker.operands.begin(), maker.operands.end(), [&](ValueId each) {
      return each == large->first || inside_[each.index].contains(large->first);
    });
    if (next == maker.operands.end() || !takes_numbers(maker, *next)) return false;
    value = *next;
    is_shared =
        is_shared || users_[value.index].size() > 1 || !graph_.value(value).producer.valid();
  }
  return is_shared;
}

// The same of what several operands are added up to, if something else reads the sum as well: the
// sum is what kernels of products read, and it is in memory for them.
void FusedRegion::force_sources() {
  constexpr int kFewOps = 4;
  for (NodeId id : nodes_) {
    if (node(id).results.size() != 1) continue;
    const ValueId result = node(id).results[0];
    const std::vector<NodeId>& users = users_[result.index];
    const auto products = std::count_if(users.begin(), users.end(), [&](NodeId user) {
      return roles_[user.index] == Role::Library && is_dot(node(user));
    });
    if (products < 2) continue;
    ValueId value = result;
    for (int step = 0; step < kFewOps; ++step) {
      const NodeId maker = graph_.value(value).producer;
      if (!maker.valid() || !node(maker).def->has(kElementwise) || is_long_function(node(maker)))
        break;
      const std::vector<ValueId>& operands = node(maker).operands;
      const auto one = std::find_if(operands.begin(), operands.end(),
                                    [&](ValueId each) { return takes_numbers(node(maker), each); });
      if (one != operands.end()) {
        value = *one;
        continue;
      }
      if (value == result || users_[value.index].size() < 2 || bytes(value) > bytes(result)) break;
      forced_[value.index] = true;
      remade_[result.index] = true;
      break;
    }
  }
}

// Of its operands all but one are the same number everywhere, or the bias of a product.
bool FusedRegion::takes_numbers(const Node& node, ValueId but) const {
  const NodeId from = graph_.value(but).producer;
  const bool is_product = from.valid() && roles_[from.index] == Role::Library;
  return std::all_of(node.operands.begin(), node.operands.end(), [&](ValueId operand) {
    if (operand == but || is_small(operand)) return true;
    const NodeId producer = graph_.value(operand).producer;
    if (!producer.valid() || !graph_.node(producer).def->has(kRepeats)) return false;
    const Type& repeated = graph_.operand_type(graph_.node(producer), 0);
    return num_elements(repeated.shape) == 1 || (is_product && real_dims(repeated, {}).size() == 1);
  });
}

// A difference that is written is all that is read: what follows from it is computed again.
bool FusedRegion::is_of_kept(const Reads& mine) const {
  constexpr double kNearly = 0.9;
  return std::any_of(mine.begin(), mine.end(), [&](const auto& read) {
    return kept_.contains(read.first) && read.second > kNearly * mine.total();
  });
}

// Whether writing a value once moves fewer bytes than reading its inputs again in every user.
bool FusedRegion::is_cheaper_written(const Node& node, const Reads& mine) const {
  const ValueId result = node.results[0];
  const std::vector<NodeId>& users = users_[result.index];
  if (is_update(result)) return false;
  if (is_of_kept(mine) && !is_long_function(node) && !is<op::Reduce>(node)) return false;
  if (static_cast<int64_t>(mine.size()) > executor_.most_reads) return true;
  if (users.size() <= 1 && !is<op::Reduce>(node)) return false;
  if (!executor_.recomputes) return users.size() > 1;
  if (executor_.rows_tops > 0 && users.size() > 1 && is_long_function(node)) return true;
  const double once = mine.total() + bytes(result) * (1.0 + static_cast<double>(users.size()));
  double again = work_bytes(node) * static_cast<double>(users.size());
  for (NodeId user : users) {
    if (once <= again) break;
    for (const auto& [value, count] : mine) {
      bool reads_anyway = false;
      for (ValueId operand : graph_.node(user).operands) {
        if (operand == result) continue;
        reads_anyway = reads_anyway || operand == value || inside_[operand.index].contains(value);
      }
      if (!reads_anyway) again += count;
    }
  }
  return once <= again;
}

// The same element of an operand is computed once in a kernel; elements at other places, which
// windows ask for, are computed by code of their own.
void FusedRegion::count_copies(const Node& node) {
  const bool moves = node.def->has(kWindow) || node.def->has(kAssembles) || is<op::Gather>(node);
  Copies& mine = copies_[node.results[0].index];
  mine = {};
  double count = 0;
  constexpr double kMostOps = 1000;
  mine.ops = node.def->has(kElementwise) ? 1 : 0;
  std::vector<uint64_t> places;
  for (ValueId operand : node.operands) {
    if (written_[operand.index] || is_small(operand)) continue;
    const Copies& its = copies_[operand.index];
    if (elements(operand) == elements(node.results[0])) mine.ops += its.ops;
    if (!moves && std::find(places.begin(), places.end(), its.place) != places.end()) {
      count = std::max(count, its.count);
      continue;
    }
    places.push_back(its.place);
    count += its.count;
    mine.place = mine.place * 31 + its.place;
  }
  if (places.empty()) return;
  mine.count = std::max(1.0, count);
  mine.ops = std::min(mine.ops, kMostOps);
  if (moves) mine.place = mine.place * 31 + node.results[0].index + 1;
}

}  // namespace cleave::analyze
