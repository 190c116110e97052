#include "cleave/analyze/kernels.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "cleave/analyze/attention.h"
#include "cleave/analyze/own_kernels.h"
#include "cleave/analyze/storage_order.h"
#include "cleave/core/error.h"
#include "cleave/core/kernel_classes.h"
#include "cleave/graph/flow.h"
#include "cleave/graph/op_def.h"
#include "cleave/ops/cost.h"
#include "cleave/ops/dot/dot_dims.h"
#include "cleave/ops/op.h"
#include "cleave/rewrite/simplify.h"

namespace cleave::analyze {
namespace {

// What an op is to a compiler that fuses.
enum class Role : uint8_t {
  Known,    // a constant: written into the kernels that use it
  View,     // other names for the same bytes
  Inside,   // can be computed in the kernel of whatever uses it
  Reduce,   // ends a kernel; a reduction of rows may be inside
  Library,  // products and convolutions: operands and results in memory
  Own,      // a kernel or several of its own: operands and results in memory
  Mixing,   // a product of a kernel of attention
  Hidden,   // inside a kernel of attention
  End,
};

// Bytes that a kernel reads of written values.
using Reads = std::map<ValueId, double>;

double total(const Reads& reads) {
  double bytes = 0;
  for (const auto& [value, each] : reads) bytes += each;
  return bytes;
}

class Fuser {
 public:
  Fuser(const Graph& graph, const MachineProfile& profile, const std::vector<bool>& is_donated,
        std::vector<KernelUse>& uses)
      : graph_(graph),
        is_donated_(is_donated),
        profile_(profile),
        executor_(profile.executor),
        uses_(uses),
        roles_(graph.num_nodes()),
        users_(graph.num_values()),
        forced_(graph.num_values()),
        written_(graph.num_values()),
        inside_(graph.num_values()) {}

  void region(RegionId id) {
    region_ = id;
    orders_ = storage_orders(graph_, id, executor_);
    nodes_ = graph_.region(id).nodes;
    for (NodeId node : nodes_) {
      roles_[node.index] = role(graph_.node(node));
      for (ValueId operand : graph_.node(node).operands)
        if (users_[operand.index].empty() || users_[operand.index].back() != node)
          users_[operand.index].push_back(node);
    }
    for (ValueId arg : graph_.region(id).args) written_[arg.index] = true;
    if (executor_.flash_attention) hide_attention();
    force();
    for (int sweep = 0; sweep < 3; ++sweep) decide();
    count_kernels();
  }

 private:
  struct Kernel {
    Reads reads;
    std::vector<NodeId> roots;
  };

  // Kernels of attention: what is between their products is computed for no memory at all.
  void hide_attention() {
    for (const Attention& attention : find_attention(graph_, region_)) {
      for (NodeId id : attention.inner) roles_[id.index] = Role::Hidden;
      for (const AttentionProduct& product : attention.products) {
        roles_[product.node.index] = Role::Mixing;
        uses_[product.node.index].attention = product.share;
      }
      for (ValueId value : attention.unwritten) hidden_.insert(value);
      for (ValueId value : attention.reads) forced_[behind(value).index] = true;
      // One kernel forward; backward there is another.
      const size_t kernels = attention.has_forward() && attention.has_backward() ? 2 : 1;
      uses_[attention.products.back().node.index].launches = static_cast<double>(kernels);
    }
  }

  const Node& node(NodeId id) const { return graph_.node(id); }
  double bytes(ValueId value) const {
    const Type& type = graph_.type(value);
    return type.is_tensor() && type.has_static_shape() ? static_cast<double>(type.byte_count()) : 0;
  }
  double elements(ValueId value) const {
    const Type& type = graph_.type(value);
    return type.is_tensor() && type.has_static_shape()
               ? static_cast<double>(num_elements(type.shape))
               : 0;
  }

  Role role(const Node& node) const {
    const OpDef& def = *node.def;
    if (def.has(kTerminator)) return Role::End;
    if (def.has(kConstantLike)) return Role::Known;
    if (flow_of(node) == Flow::Barrier || def.has(kSameValue)) return Role::View;
    if (flow_of(node) != Flow::None) return Role::Own;
    if (is_same_bytes(node)) return Role::View;
    if (is<op::Reduce>(node) || (is<op::Scatter>(node) && node.results.size() == 1))
      return Role::Reduce;
    const KernelClass kernel = op_cost(graph_, node).kernel;
    if (kernel == KernelClass::Matmul || kernel == kConvolutionClass)
      return is_product_with_vector(node) ? Role::Reduce : Role::Library;
    if (is<op::Reshape, op::BitcastConvert>(node)) return Role::View;
    if (def.has(kElementwise) || def.has(kViewLike) || def.has(kRepeats) || def.has(kWindow) ||
        def.has(kAssembles) || is<op::Gather>(node))
      return node.results.size() == 1 ? Role::Inside : Role::Own;
    return Role::Own;
  }

  // A reduction over dimensions of size 1, a conversion to the type that the value has.
  bool is_same_bytes(const Node& node) const {
    if (node.results.size() != 1 || node.operands.empty()) return false;
    if (is<op::Convert>(node))
      return graph_.operand_type(node, 0).dtype == graph_.result_type(node).dtype;
    return is<op::Reduce>(node) && elements(node.operands[0]) == elements(node.results[0]);
  }

  // A compiler writes it as a multiplication and a sum.
  bool is_product_with_vector(const Node& node) const {
    const std::optional<DotDims> dims = dot_dims_of(graph_, node);
    if (!dims) return false;
    double shared = 1;
    for (int64_t dim : dims->lhs_batch)
      shared *= static_cast<double>(graph_.operand_type(node, 0).shape[dim]);
    for (int64_t dim : dims->lhs_contract)
      shared *= static_cast<double>(graph_.operand_type(node, 0).shape[dim]);
    return elements(node.operands[0]) == shared || elements(node.operands[1]) == shared;
  }

  bool reduces_rows(const Node& node) const {
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
  ValueId behind(ValueId value) const {
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
  void force() {
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
    // A kernel either reduces or reorders.
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

  bool is_small(ValueId value) const {
    const NodeId producer = graph_.value(value).producer;
    return bytes(value) <= 64 || (producer.valid() && roles_[producer.index] == Role::Known);
  }

  // What a kernel that computes the node reads from memory.
  Reads needs(const Node& node) const {
    Reads reads;
    const bool part = node.def->has(kWindow) || is<op::Gather>(node);
    const double most = part ? bytes(node.results[0]) : 0;
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

  void write(ValueId value, bool is_written, const Reads& reads) {
    written_[value.index] = is_written;
    inside_[value.index] = is_written ? Reads{} : reads;
  }

  void decide() {
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
          write(
              node.results[i], false,
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
      if (role == Role::View)
        write(result, false, mine);
      else
        write(result, forced_[result.index] || is_cheaper_written(node, mine), mine);
    }
  }

  // Whether writing a value once moves fewer bytes than reading its inputs again in every user.
  bool is_cheaper_written(const Node& node, const Reads& mine) const {
    const ValueId result = node.results[0];
    const std::vector<NodeId>& users = users_[result.index];
    if (static_cast<int64_t>(mine.size()) > executor_.most_reads) return true;
    if (users.size() <= 1 && !is<op::Reduce>(node)) return false;
    if (!executor_.recomputes) return users.size() > 1;
    double again = 0;
    for (NodeId user : users) {
      for (const auto& [value, count] : mine) {
        bool reads_anyway = false;
        for (ValueId operand : graph_.node(user).operands) {
          if (operand == result) continue;
          reads_anyway = reads_anyway || operand == value || inside_[operand.index].contains(value);
        }
        if (!reads_anyway) again += count;
      }
    }
    const double once = total(mine) + bytes(result) * (1.0 + static_cast<double>(users.size()));
    return once < again;
  }

  void count_kernels() {
    std::vector<Kernel> kernels;
    std::map<std::pair<uint32_t, double>, size_t> by_operand;
    for (NodeId id : nodes_) {
      const Node& node = graph_.node(id);
      KernelUse& use = uses_[id.index];
      use.reads.assign(node.operands.size(), 0.0);
      use.writes.assign(node.results.size(), 0.0);
      switch (roles_[id.index]) {
        case Role::Library:
          count_product(node, use);
          break;
        case Role::Own:
          count_own(node, use);
          break;
        case Role::Mixing:
          for (size_t i = 0; i < node.operands.size(); ++i)
            use.reads[i] = hidden_.contains(node.operands[i]) ? 0 : 1;
          for (size_t i = 0; i < node.results.size(); ++i)
            use.writes[i] = hidden_.contains(node.results[i]) ? 0 : 1;
          break;
        case Role::Inside:
        case Role::Reduce:
          if (written_[node.results[0].index]) add_kernel(id, kernels, by_operand);
          break;
        case Role::Known:
        case Role::View:
        case Role::Hidden:
        case Role::End:
          break;
      }
    }
    for (const StorageOrders::Moved& moved : orders_.strided) {
      uses_[moved.node.index].reads[moved.operand] += 2 / executor_.strided_share;
      uses_[moved.node.index].launches += 1;
    }
    for (const Kernel& kernel : kernels) count_kernel(kernel);
    for (NodeId id : nodes_) count_spills(id);
  }

  double spill_of(ValueId value) const {
    const Value& made = graph_.value(value);
    if (!made.producer.valid() || node(made.producer).parent != region_) return 0;
    const std::vector<double>& spills = uses_[made.producer.index].spills;
    return made.index < spills.size() ? spills[made.index] : 0;
  }

  // A value that is computed in its users' kernels is written and read instead; a reduction that
  // was inside a kernel makes it read everything twice.
  void count_spills(NodeId id) {
    const Node& node = graph_.node(id);
    KernelUse& use = uses_[id.index];
    use.spills.assign(node.results.size(), 0.0);
    if (roles_[id.index] == Role::Known) return;
    for (size_t i = 0; i < node.results.size(); ++i) {
      const ValueId result = node.results[i];
      if (written_[result.index]) continue;
      if (roles_[id.index] == Role::View) {  // what the bytes that it shows would take
        use.spills[i] = spill_of(node.operands[std::min(i, node.operands.size() - 1)]);
        continue;
      }
      use.spills[i] = 2 * bytes(result);
      if (roles_[id.index] == Role::Reduce) use.spills[i] += total(inside_[result.index]);
    }
  }

  void count_product(const Node& node, KernelUse& use) const {
    use.is_library = true;
    for (double& writes : use.writes) writes = 1;
    const std::optional<DotDims> dims = dot_dims_of(graph_, node);
    if (!dims) return;
    for (size_t i = 0; i < 2; ++i) {
      const ValueId operand = node.operands[i];
      if (bytes(operand) < 1e6 || !needs_copy(operand, i == 0 ? dims->lhs_batch : dims->rhs_batch,
                                              i == 0 ? dims->lhs_contract : dims->rhs_contract))
        continue;
      use.reads[i] += 2 / executor_.transpose_share;
      use.launches += 1;
      const ValueId source = behind(operand);
      const NodeId producer = graph_.value(source).producer;
      if (!producer.valid() || !is_in_place(this->node(producer))) continue;
      // What is updated in place, such as a cache of keys, is kept in the product's order: it is
      // copied for the update, and if it is returned, put back in order.
      use.reads[i] += is_returned(source) ? 2 + 2 / executor_.transpose_share : 2;
      use.launches += is_returned(source) ? 2 : 1;
    }
  }

  bool is_returned(ValueId value) const {
    return std::any_of(users_[value.index].begin(), users_[value.index].end(),
                       [&](NodeId user) { return roles_[user.index] == Role::End; });
  }

  // Products take operands whose batch dimensions come first, and whose others lie together.
  template <typename Dims>
  bool needs_copy(ValueId operand, const Dims& batch, const Dims& contract) const {
    std::string groups;
    for (int dim : real_dims(graph_.type(operand), orders_.of[operand.index])) {
      auto in = [&](const Dims& dims) {
        return std::find(dims.begin(), dims.end(), dim) != dims.end();
      };
      const char group = in(batch) ? 'b' : in(contract) ? 'c' : 'f';
      if (groups.empty() || groups.back() != group) groups.push_back(group);
    }
    for (char group : {'b', 'c', 'f'})
      if (std::count(groups.begin(), groups.end(), group) > 1) return true;
    return groups.find('b') != std::string::npos && groups[0] != 'b';
  }

  bool node_is_free(NodeId id) const {
    return roles_[id.index] == Role::Known || node(id).def->has(kRepeats);
  }

  void count_own(const Node& node, KernelUse& use) const {
    if (flow_of(node) != Flow::None) {
      for (double& writes : use.writes) writes = 1;
      return;
    }
    use.launches = 1;
    for (size_t i = 0; i < node.operands.size(); ++i)
      use.reads[i] = is_small(node.operands[i]) ? 0 : 1;
    for (double& writes : use.writes) writes = 1;
    if (is<op::SelectAndScatter>(node)) {  // four indices of every window are written and read
      use.launches = 3;
      use.reads = {3, 20, 0};
    }
  }

  void add_kernel(NodeId id, std::vector<Kernel>& kernels,
                  std::map<std::pair<uint32_t, double>, size_t>& by_operand) {
    const Node& node = graph_.node(id);
    Reads reads = needs(node);
    auto largest = std::max_element(reads.begin(), reads.end(), [](const auto& a, const auto& b) {
      return a.second < b.second;
    });
    if (executor_.merges_siblings && largest != reads.end()) {
      const auto [it, is_new] =
          by_operand.try_emplace({largest->first.index, elements(node.results[0])}, kernels.size());
      if (!is_new) {
        Kernel& kernel = kernels[it->second];
        const bool depends =
            std::any_of(kernel.roots.begin(), kernel.roots.end(),
                        [&](NodeId root) { return reads.contains(graph_.node(root).results[0]); });
        if (!depends) {
          for (const auto& [value, count] : reads)
            kernel.reads[value] = std::max(kernel.reads[value], count);
          kernel.roots.push_back(id);
          return;
        }
        it->second = kernels.size();
      }
    }
    kernels.push_back({std::move(reads), {id}});
  }

  // The ops that a kernel computes.
  std::vector<NodeId> members(const Kernel& kernel) const {
    std::vector<NodeId> list = kernel.roots;
    std::vector<bool> seen(graph_.num_nodes());
    for (NodeId root : list) seen[root.index] = true;
    for (size_t i = 0; i < list.size(); ++i)
      for (ValueId operand : node(list[i]).operands) {
        const NodeId producer = graph_.value(operand).producer;
        if (!producer.valid() || written_[operand.index] || seen[producer.index] ||
            node(producer).parent != region_)
          continue;
        seen[producer.index] = true;
        list.push_back(producer);
      }
    return list;
  }

  // Over the result. Updates of a scatter are read and written back where they belong; what they go
  // into is written first if it was a constant, and copied if it is an argument that must stay.
  double passes_to_write(const Node& node) const {
    if (!is_in_place(node)) return 1;
    const bool scatters = is<op::Scatter>(node);
    const NodeId producer = graph_.value(node.operands[0]).producer;
    const bool copies = !producer.valid() && !is_donated_[node.operands[0].index];
    const double first = copies ? 2 : producer.valid() && node_is_free(producer) ? 1 : 0;
    return first +
           (scatters ? 2 : 1) * bytes(node.operands[scatters ? 2 : 1]) / bytes(node.results[0]);
  }

  bool computes(NodeId id) const {
    return roles_[id.index] == Role::Inside && !node(id).def->has(kRepeats);
  }

  void count_kernel(const Kernel& kernel) {
    const std::vector<NodeId> list = members(kernel);
    const Node& first = node(kernel.roots[0]);
    bool mixed = false, rows = false;
    double ops = 0;
    for (NodeId id : list) {
      mixed = mixed || orders_.mixed[id.index];
      rows = rows || (roles_[id.index] == Role::Reduce && id != kernel.roots[0]);
      if (computes(id)) ops += elements(node(id).results[0]);
    }
    const bool reduces = is<op::Reduce>(first);
    double share = reduces ? executor_.reduction_share : rows ? executor_.rows_share : 1;
    if (mixed) share = std::min(share, executor_.transpose_share);
    double moved = total(kernel.reads);
    for (NodeId root : kernel.roots) moved += bytes(node(root).results[0]);
    const bool is_large_column_sum = reduces && moved > 4e6 && !reduces_rows(first);
    uses_[kernel.roots[0].index].launches += is_large_column_sum ? 2 : 1;
    const bool works =
        executor_.vector_tops > 0 &&
        ops / (executor_.vector_tops * 1e12) > moved / (profile_.memory_gbps * 1e9 * share);
    for (NodeId root : kernel.roots) {
      const Node& last = node(root);
      uses_[root.index].writes[0] = std::max(1e-9, works ? 1e-9 : passes_to_write(last) / share);
    }
    if (works) {
      for (NodeId id : list)
        if (computes(id)) uses_[id.index].works += 1;
      return;
    }
    std::unordered_map<uint32_t, bool> done;
    for (NodeId id : list)
      for (size_t i = 0; i < node(id).operands.size(); ++i) {
        const ValueId operand = node(id).operands[i];
        const auto read = kernel.reads.find(operand);
        if (read == kernel.reads.end() || !done.try_emplace(operand.index, true).second) continue;
        uses_[id.index].reads[i] += read->second / bytes(operand) / share;
      }
  }

  const Graph& graph_;
  const std::vector<bool>& is_donated_;  // by value: its memory may be written
  const MachineProfile& profile_;
  const ExecutorProfile& executor_;
  std::vector<KernelUse>& uses_;
  RegionId region_;
  StorageOrders orders_;
  std::vector<NodeId> nodes_;
  std::vector<Role> roles_;
  std::vector<std::vector<NodeId>> users_;  // by value, each once
  std::vector<bool> forced_, written_;      // by value
  std::set<ValueId> hidden_;                // in kernels of attention
  std::vector<Reads> inside_;               // by value that is not written: what its kernel reads
};

void mark_region(const Graph& graph, RegionId region, const MachineProfile& profile,
                 const std::vector<bool>& is_donated, std::vector<KernelUse>& uses) {
  Fuser(graph, profile, is_donated, uses).region(region);
  for (NodeId id : graph.region(region).nodes)
    if (flow_of(graph.node(id)) != Flow::None)
      for (RegionId inner : graph.node(id).regions)
        mark_region(graph, inner, profile, is_donated, uses);
}

}  // namespace

bool is_donated_argument(const AttrDict& attrs) {
  return attrs.has("tf.aliasing_output") || attrs.has("jax.buffer_donor");
}

void mark_kernels(Graph& graph, std::string_view entry, const MachineProfile& profile) {
  if (profile.executor.name.empty()) return;
  const Function* function = graph.find_function(entry);
  if (!function) throw_user("there is no function @{}", entry);
  std::vector<KernelUse> uses(graph.num_nodes());
  // What is computed twice is computed once; the ops that are left keep their numbers.
  Graph merged = graph;
  if (profile.executor.fuses) merge_common(merged);
  // What a loop carries may be written as well: only arguments that are not donated must stay.
  std::vector<bool> is_donated(graph.num_values(), true);
  const std::vector<ValueId>& arguments = graph.region(function->body).args;
  for (size_t i = 0; i < arguments.size(); ++i)
    is_donated[arguments[i].index] =
        i < function->arg_attrs.size() && is_donated_argument(function->arg_attrs[i]);
  if (is_this_library(profile.executor))
    mark_own_kernels(merged, entry, uses);
  else
    mark_region(merged, function->body, profile, is_donated, uses);
  graph.walk(function->body, [&](NodeId id) {
    KernelUse& use = uses[id.index];
    Node& node = graph.node(id);
    use.reads.resize(node.operands.size());
    use.writes.resize(node.results.size());
    use.spills.resize(node.results.size());
    DenseArrayAttr array{
        DType::F64, {}, {use.launches, use.works, use.is_library ? 1.0 : 0.0, use.attention}};
    for (const std::vector<double>* list : {&use.reads, &use.writes, &use.spills})
      array.floats.insert(array.floats.end(), list->begin(), list->end());
    node.attrs.set(kKernelAttr, std::move(array));
  });
}

bool is_in_place(const Node& node) { return is<op::Scatter, op::DynamicUpdateSlice>(node); }

}  // namespace cleave::analyze
