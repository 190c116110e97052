#include "cleave/analyze/kernels.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>

#include "cleave/analyze/collisions.h"
#include "cleave/analyze/fused_region.h"
#include "cleave/analyze/library_ops.h"
#include "cleave/analyze/own_kernels.h"
#include "cleave/core/error.h"
#include "cleave/graph/flow.h"
#include "cleave/graph/op_def.h"
#include "cleave/ops/control/trip_count.h"
#include "cleave/ops/convolution/conv_attr.h"
#include "cleave/ops/dot/dot_dims.h"
#include "cleave/ops/elementwise/long_function.h"
#include "cleave/ops/op.h"
#include "cleave/rewrite/simplify.h"

namespace cleave::analyze {
namespace {

// Marks are multiples of the bytes or elements of a tensor; one without elements takes nothing.
double share_of(double part, double whole) { return whole > 0 ? part / whole : 0; }

using Role = KernelRole;
using Reads = KernelReads;

// What the ops of a region add to its kernels.
class KernelCounter {
 public:
  KernelCounter(const FusedRegion& fused, const MachineProfile& profile, const NodeId loop,
                const std::vector<bool>& is_donated, std::vector<KernelUse>& uses)
      : fused_(fused),
        graph_(fused.graph()),
        loop_(loop),
        is_donated_(is_donated),
        profile_(profile),
        executor_(profile.executor),
        uses_(uses),
        kernel_of_(graph_.num_values(), kNone),
        seen_(graph_.num_nodes(), 0) {}

  void run() {
    for (const FusedRegion::Hiding& hiding : fused_.hiding()) {
      uses_[hiding.product.index].attention = hiding.share;
      uses_[hiding.product.index].is_backward = hiding.is_backward;
      uses_[hiding.product.index].launches = static_cast<double>(hiding.kernels);
    }
    count_kernels();
    if (loop_.valid()) count_trip();
  }

 private:
  struct Kernel {
    Reads reads;
    std::vector<NodeId> roots;
  };

  const Node& node(NodeId id) const { return graph_.node(id); }
  double bytes(ValueId value) const { return fused_.bytes(value); }
  double elements(ValueId value) const { return fused_.elements(value); }
  Role role(NodeId id) const { return fused_.role(id); }

  // Kernels of a loop's body are launched together, with what the loop itself does in every trip.
  void count_trip() {
    if (executor_.loop_launch_us <= 0) return;
    // Nothing asks whether a loop goes on that is known to run so many times.
    const LoopRegions parts = *loop_of(node(loop_));
    const bool asks = parts.condition == fused_.region();
    const double share = asks && trip_count(graph_, node(loop_))
                             ? 0
                             : executor_.loop_launch_us / executor_.launch_us;
    const double sooner = profile_.tiles.launch_us / 2 / executor_.launch_us;
    for (NodeId id : fused_.nodes()) {
      uses_[id.index].launches *= share;
      if (uses_[id.index].is_library && !asks) uses_[id.index].launches -= sooner;
    }
    if (parts.body == fused_.region() && !fused_.nodes().empty())
      uses_[fused_.nodes()[0].index].launches += share * executor_.trip_launches;
  }

  void count_kernels() {
    std::vector<Kernel> kernels;
    std::map<std::pair<uint32_t, double>, size_t> by_operand;
    for (NodeId id : fused_.nodes()) {
      const Node& node = graph_.node(id);
      KernelUse& use = uses_[id.index];
      use.reads.assign(node.operands.size(), 0.0);
      use.writes.assign(node.results.size(), 0.0);
      switch (role(id)) {
        case Role::Library:
          count_product(node, use);
          break;
        case Role::Own:
          count_own(node, use);
          break;
        case Role::Mixing:
          for (size_t i = 0; i < node.operands.size(); ++i)
            use.reads[i] = fused_.is_hidden(node.operands[i]) ? 0 : 1;
          for (size_t i = 0; i < node.results.size(); ++i)
            use.writes[i] = fused_.is_hidden(node.results[i]) ? 0 : 1;
          break;
        case Role::Inside:
        case Role::Reduce:
          if (fused_.is_written(node.results[0])) add_kernel(id, kernels, by_operand);
          break;
        case Role::Known:
        case Role::View:
        case Role::Hidden:
        case Role::End:
          break;
      }
    }
    for (const StorageOrders::Moved& moved : fused_.orders().strided) {
      uses_[moved.node.index].reads[moved.operand] += 2 / executor_.strided_share;
      uses_[moved.node.index].launches += 1;
    }
    for (NodeId id : fused_.nodes())
      if (executor_.row_elements > 0 && is<op::Reduce>(node(id))) count_difference(node(id));
    for (const Kernel& kernel : kernels) count_kernel(kernel);
    if (executor_.collision_us > 0 || executor_.exchange_us > 0)
      for (NodeId id : fused_.nodes())
        if (is<op::Scatter>(node(id)) && role(id) == Role::Reduce) count_collisions(node(id));
    for (NodeId id : fused_.nodes()) count_spills(id);
  }

  // x - mean(x) of columns is written for the kernels that follow, and computed again for the
  // gradient.
  void count_difference(const Node& reduction) {
    if (reduction.results.size() != 1 || fused_.reduces_rows(reduction)) return;
    const ValueId rest = fused_.difference(reduction);
    if (!rest.valid() || fused_.is_written(rest) || fused_.users(rest).size() < 2) return;
    const double wider =
        share_of(std::max(0.0, bytes(rest) - fused_.inside(rest).total()), bytes(rest));
    KernelUse& use = uses_[graph_.value(rest).producer.index];
    use.reads[0] += 1 + wider * static_cast<double>(fused_.users(rest).size());
  }

  // Updates of one place come one after the other. Those of numbers narrower than a word read the
  // word, and exchange it unless it has changed since: the more of them are under way, the more
  // often they begin again. Counted in passes over the updates, so that parts take their share.
  void count_collisions(const Node& scatter) {
    constexpr double kWord = 4;  // bytes
    const ValueId updates = scatter.operands[2];
    const auto width = static_cast<double>(byte_size(graph_.type(updates).dtype));
    const double times = updates_of_one_place(graph_, scatter) * std::max(1.0, kWord / width);
    if (times < 2 || bytes(updates) <= 0) return;
    const double us = width < kWord ? executor_.exchange_us * times * std::log(times)
                                    : executor_.collision_us * times;
    uses_[graph_.value(scatter.results[0]).producer.index].reads[2] +=
        us * 1e-6 / pass_seconds(bytes(updates), profile_);
  }

  double spill_of(ValueId value) const {
    const Value& made = graph_.value(value);
    if (!made.producer.valid() || node(made.producer).parent != fused_.region()) return 0;
    const std::vector<double>& spills = uses_[made.producer.index].spills;
    return made.index < spills.size() ? spills[made.index] : 0;
  }

  // A value that is computed in its users' kernels is written and read instead; a reduction that
  // was inside a kernel makes it read everything twice.
  void count_spills(NodeId id) {
    const Node& node = graph_.node(id);
    KernelUse& use = uses_[id.index];
    use.spills.assign(node.results.size(), 0.0);
    if (role(id) == Role::Known) return;
    for (size_t i = 0; i < node.results.size(); ++i) {
      const ValueId result = node.results[i];
      if (fused_.is_written(result)) continue;
      if (role(id) == Role::View) {  // what the bytes that it shows would take
        use.spills[i] = spill_of(node.operands[std::min(i, node.operands.size() - 1)]);
        continue;
      }
      use.spills[i] = 2 * bytes(result);
      if (role(id) == Role::Reduce) use.spills[i] += fused_.inside(result).total();
    }
  }

  void count_product(const Node& product, KernelUse& use) const {
    use.is_library = true;
    for (double& writes : use.writes) writes = 1;
    const std::optional<DotDims> dims = dot_dims_of(graph_, product);
    if (!dims) return count_convolution(product, use);
    // No more than it reads and writes: small products run without.
    use.workspace = std::min(
        executor_.workspace_bytes,
        bytes(product.operands[0]) + bytes(product.operands[1]) + bytes(product.results[0]));
    for (size_t i = 0; i < 2; ++i) {
      const ValueId operand = product.operands[i];
      const NodeId maker = graph_.value(operand).producer;
      if (maker.valid() && role(maker) == Role::Inside && node(maker).def->has(kElementwise) &&
          !fused_.is_written(operand)) {
        use.reads[i] += 2;  // it is made for this product
        use.launches += 1;
        use.workspace += bytes(operand);
      }
      if (bytes(operand) < 1e6 || !needs_copy(operand, i == 0 ? dims->lhs_batch : dims->rhs_batch,
                                              i == 0 ? dims->lhs_contract : dims->rhs_contract))
        continue;
      use.reads[i] += 2 / executor_.transpose_share;
      use.launches += 1;
      const ValueId source = fused_.behind(operand);
      const NodeId producer = graph_.value(source).producer;
      if (!producer.valid() || !is_in_place(node(producer))) continue;
      // What is updated in place, such as a cache of keys, is kept in the product's order: it is
      // copied for the update, and if it is returned, put back in order. A loop that carries it
      // does so once, before the first trip and after the last.
      const double back = is_returned(source) ? 2 / executor_.transpose_share : 0;
      if (loop_.valid()) {
        const double trips =
            static_cast<double>(std::max<int64_t>(1, trip_count(graph_, node(loop_)).value_or(1)));
        use.reads[i] = (2 / executor_.transpose_share + back) / trips;
        use.launches += 2 / trips - 1;
        continue;
      }
      use.reads[i] += 2 + back;
      use.launches += is_returned(source) ? 2 : 1;
    }
  }

  // The gradient by a kernel: the library has kernels in another order than the program, so that
  // what an optimizer keeps for them is copied there and back.
  bool makes_kernel(const Node& convolution) const {
    const Type& result = graph_.result_type(convolution);
    const ConvDims dims = conv_dims(convolution);
    return dims.output_batch != 0 &&
           std::any_of(dims.output_spatial.begin(), dims.output_spatial.end(),
                       [&](int64_t dim) { return result.shape[dim] > 1; });
  }

  // Arguments of the gradient's shape, for each such gradient.
  double arrays_like(const Node& gradient) const {
    const Shape& shape = graph_.result_type(gradient).shape;
    double arrays = 0, gradients = 0;
    for (ValueId argument : graph_.region(fused_.region()).args)
      arrays += graph_.type(argument).is_tensor() && graph_.type(argument).shape == shape;
    for (NodeId id : fused_.nodes())
      gradients += role(id) == Role::Library && graph_.result_type(node(id)).shape == shape;
    return std::clamp(arrays / std::max(1.0, gradients), 1.0, 3.0);
  }

  // A library knows the gradient of a convolution by its input, whose kernel is reversed. Of others
  // the gaps of a dilated input are filled with zeros first.
  void count_convolution(const Node& product, KernelUse& use) const {
    if (executor_.reorder_bytes > 0 && makes_kernel(product)) {
      // There and back for each array that is kept for the parameter, which takes less itself.
      const double arrays = arrays_like(product);
      use.reorders = true;
      use.launches += 2 * arrays - 1;
      use.reads[0] += executor_.reorder_bytes * (arrays - 0.6) * elements(product.results[0]) /
                      bytes(product.operands[0]);
    }
    double dilation = 1;
    for (int64_t d : product.attrs.get_ints_or_empty("lhs_dilation"))
      dilation *= static_cast<double>(d);
    const NodeId kernel = graph_.value(fused_.behind(product.operands[1])).producer;
    if (dilation == 1 || !executor_.fuses || (kernel.valid() && is<op::Reverse>(node(kernel))))
      return;
    use.gaps = dilation;
    use.workspace = dilation * bytes(product.operands[0]);
    use.reads[0] += 1 + dilation;
    use.launches += 1;
  }

  bool is_returned(ValueId value) const {
    return std::any_of(fused_.users(value).begin(), fused_.users(value).end(),
                       [&](NodeId user) { return role(user) == Role::End; });
  }

  // Products take operands whose batch dimensions come first, and whose others lie together.
  template <typename Dims>
  bool needs_copy(ValueId operand, const Dims& batch, const Dims& contract) const {
    std::string groups;
    for (int dim : real_dims(graph_.type(operand), fused_.orders().of[operand.index])) {
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
    return role(id) == Role::Known || node(id).def->has(kRepeats);
  }

  void count_own(const Node& node, KernelUse& use) const {
    if (flow_of(node) != Flow::None) {
      for (double& writes : use.writes) writes = 1;
      return;
    }
    use.launches = 1;
    for (size_t i = 0; i < node.operands.size(); ++i)
      use.reads[i] = fused_.is_small(node.operands[i]) ? 0 : 1;
    for (double& writes : use.writes) writes = 1;
    if (is<op::SelectAndScatter>(node)) {  // four indices of every window are written and read
      use.launches = 3;
      use.reads = {3, 20, 0};
      use.workspace = 16 * elements(node.operands[1]);
    }
  }

  // A kernel also computes what reads its results where they are made, and what reads the same
  // large operand.
  void add_kernel(NodeId id, std::vector<Kernel>& kernels,
                  std::map<std::pair<uint32_t, double>, size_t>& by_operand) {
    const Node& node = graph_.node(id);
    Reads reads = fused_.needs(node);
    if (fused_.is_update(node.results[0])) return add_update(id, std::move(reads), kernels);
    if (executor_.runs_library_ops && is<op::Reduce>(node)) {
      // Statistics of the same tensors are computed in one pass.
      const auto [it, is_new] = sums_.try_emplace(fused_.tensors_in(reads), kernels.size());
      if (!is_new) {
        join(id, reads, it->second, kernels);
        return;
      }
    }
    if (executor_.merges_siblings &&
        (join_maker(id, reads, kernels) || join_sibling(id, reads, kernels, by_operand)))
      return;
    kernel_of_[node.results[0].index] = static_cast<uint32_t>(kernels.size());
    kernels.push_back({std::move(reads), {id}});
  }

  // All updates are one kernel: what it makes it does not read, and a gradient is read once.
  void add_update(NodeId id, Reads reads, std::vector<Kernel>& kernels) {
    reads.erase_if([&](const auto& read) { return fused_.is_update(read.first); });
    size_t at = kernels.size();
    for (const auto& [value, count] : reads)
      if (const auto known = updated_with_.find(value); known != updated_with_.end())
        at = std::min(at, known->second);
    for (const auto& [value, count] : reads) updated_with_.try_emplace(value, at);
    if (at < kernels.size())
      join(id, reads, at, kernels);
    else
      kernels.push_back({std::move(reads), {id}});
  }

  // Operands of at least half the size of the largest.
  bool join_sibling(NodeId id, const Reads& reads, std::vector<Kernel>& kernels,
                    std::map<std::pair<uint32_t, double>, size_t>& by_operand) {
    double largest = 0;
    for (const auto& [value, count] : reads) largest = std::max(largest, count);
    const double count = elements(node(id).results[0]);
    for (const auto& [value, moved] : reads) {
      const auto known = by_operand.find({value.index, count});
      if (2 * moved < largest || known == by_operand.end()) continue;
      const std::vector<NodeId>& roots = kernels[known->second].roots;
      const bool depends = std::any_of(roots.begin(), roots.end(), [&](NodeId root) {
        return reads.contains(node(root).results[0]);
      });
      if (!depends) return join(id, reads, known->second, kernels);
    }
    for (const auto& [value, moved] : reads)
      if (2 * moved >= largest) by_operand[{value.index, count}] = kernels.size();
    return false;
  }

  // If the op reads whole results of a kernel over as many elements, and nothing that was computed
  // since from them.
  bool join_maker(NodeId id, const Reads& reads, std::vector<Kernel>& kernels) {
    for (const auto& [value, count] : reads) {
      const uint32_t at = kernel_of_[value.index];
      if (at == kNone || count < bytes(value)) continue;
      const Kernel& maker = kernels[at];
      if (!is_plain(graph_.value(value).producer) || !is_plain(id)) continue;
      const ValueId whole = is<op::Reduce>(node(id)) ? node(id).operands[0] : node(id).results[0];
      if (elements(whole) != elements(value) || is<op::Reduce>(node(maker.roots[0]))) continue;
      const bool is_later = std::any_of(reads.begin(), reads.end(), [&](const auto& read) {
        const NodeId producer = graph_.value(read.first).producer;
        return kernel_of_[read.first.index] != at && producer.valid() && maker.roots[0] < producer;
      });
      if (is_later) continue;
      return join(id, reads, at, kernels);
    }
    return false;
  }

  bool join(NodeId id, const Reads& reads, size_t at, std::vector<Kernel>& kernels) {
    Kernel& kernel = kernels[at];
    for (const auto& [value, count] : reads)
      if (kernel_of_[value.index] != at) kernel.reads[value] = std::max(kernel.reads[value], count);
    kernel.roots.push_back(id);
    kernel_of_[node(id).results[0].index] = static_cast<uint32_t>(at);
    return true;
  }

  // No reduction inside, and no change of order.
  bool is_plain(NodeId id) const {
    if (is_in_place(node(id))) return false;
    const std::vector<NodeId> list = members({{}, {id}});
    return std::none_of(list.begin(), list.end(), [&](NodeId member) {
      return (member != id && role(member) == Role::Reduce) || fused_.orders().mixed[member.index];
    });
  }

  // The ops that a kernel computes.
  std::vector<NodeId> members(const Kernel& kernel) const {
    std::vector<NodeId> list = kernel.roots;
    const uint32_t turn = ++turn_;
    for (NodeId root : list) seen_[root.index] = turn;
    for (size_t i = 0; i < list.size(); ++i)
      for (ValueId operand : node(list[i]).operands) {
        const NodeId producer = graph_.value(operand).producer;
        if (!producer.valid() || fused_.is_written(operand) || seen_[producer.index] == turn ||
            node(producer).parent != fused_.region())
          continue;
        seen_[producer.index] = turn;
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
    return first + (scatters ? 2 : 1) *
                       share_of(bytes(node.operands[scatters ? 2 : 1]), bytes(node.results[0]));
  }

  bool computes(NodeId id) const {
    return role(id) == Role::Inside && !node(id).def->has(kRepeats);
  }

  // How often a library runs an op: it fills what a pad is put into first, and converts activations
  // for each product by itself.
  double times_of(NodeId id) const {
    const Node& op = node(id);
    if (is<op::Pad>(op)) return 2;
    if (!is<op::Convert>(op) || !graph_.value(fused_.behind(op.operands[0])).producer.valid())
      return 1;
    const std::vector<NodeId>& users = fused_.users(op.results[0]);
    const auto products =
        std::count_if(users.begin(), users.end(), [&](NodeId user) { return is_dot(node(user)); });
    // Half of them are those of the derivative, which finds the converted one.
    return std::max(1.0, static_cast<double>(products) / 2);
  }

  // A compiler that computes tables of positions in the loops of what uses them computes their
  // functions for every element.
  double work_of(NodeId id, const Kernel& kernel) const {
    const ValueId result = node(id).results[0];
    if (is_in_place(node(id)))
      return elements(node(id).operands[is<op::Scatter>(node(id)) ? 2 : 1]);
    if (executor_.function_ops <= 1 || !is_long_function(node(id)) ||
        !is_made_of_positions(graph_, result))
      return work(id) * elements(result);
    return executor_.function_ops * elements(node(kernel.roots[0]).results[0]);
  }

  // Rows inside a kernel are held in tiles whose sizes are powers of two.
  double padding(const Node& reduction) const {
    const auto row =
        static_cast<uint64_t>(std::max<int64_t>(1, fused_.reduced_elements(reduction)));
    return static_cast<double>(std::bit_ceil(row)) / static_cast<double>(row);
  }

  // Instructions: shifts and logic of integers, which random numbers are made of, become fewer.
  // Pads, concatenations and slices with strides take indices apart and ask on which side of a
  // border they are; other slices only begin elsewhere.
  double work(NodeId id) const {
    const std::vector<int64_t> strides = node(id).attrs.get_ints_or_empty("strides");
    const bool skips = node(id).def->has(kWindow) &&
                       std::any_of(strides.begin(), strides.end(), [](int64_t s) { return s > 1; });
    if (skips || node(id).def->has(kAssembles)) return executor_.window_work;
    return is_integer(graph_.result_type(node(id)).dtype) ? executor_.integer_work : 1;
  }

  // Kernels after the first: a large sum over columns has parts, and dimensions that do not lie
  // together are summed one after the other.
  int further_sums(const Node& reduction, double moved) const {
    constexpr double kLarge = 4e6;
    const ValueId operand = reduction.operands[0];
    const std::vector<int64_t> reduced = reduction.attrs.get_ints_or_empty("dimensions");
    int runs = 0;
    bool is_in_run = false;
    for (int dim : real_dims(graph_.type(operand), fused_.orders().of[operand.index])) {
      const bool sums = std::find(reduced.begin(), reduced.end(), dim) != reduced.end();
      runs += sums && !is_in_run;
      is_in_run = sums;
    }
    return std::max(0, runs - 1) + (moved > kLarge ? 1 : 0);
  }

  void count_kernel(const Kernel& kernel) {
    const std::vector<NodeId> list = members(kernel);
    bool mixed = false, rows = false;
    double ops = 0, padded = 1;
    for (NodeId id : list) {
      mixed = mixed || fused_.orders().mixed[id.index];
      if (computes(id)) ops += work_of(id, kernel);
      if (role(id) != Role::Reduce || fused_.is_written(node(id).results[0])) continue;
      rows = true;
      if (is<op::Reduce>(node(id))) padded = std::max(padded, padding(node(id)));
    }
    const bool reduces = std::any_of(kernel.roots.begin(), kernel.roots.end(),
                                     [&](NodeId root) { return is<op::Reduce>(node(root)); });
    const bool updates = fused_.is_update(node(kernel.roots[0]).results[0]);
    double share = updates   ? executor_.update_share
                   : reduces ? executor_.reduction_share
                   : rows    ? executor_.rows_share
                             : executor_.elementwise_share;
    if (mixed) share = std::min(share, executor_.transpose_share);
    double moved = kernel.reads.total();
    for (NodeId root : kernel.roots) moved += bytes(node(root).results[0]);
    const double times = executor_.runs_library_ops ? times_of(kernel.roots[0]) : 1;
    share /= times;
    if (!updates) uses_[kernel.roots[0].index].launches += times;
    for (NodeId root : kernel.roots)
      if (!executor_.runs_library_ops && is<op::Reduce>(node(root)) &&
          !fused_.reduces_rows(node(root)))
        uses_[root.index].launches += static_cast<double>(further_sums(node(root), moved));
    const bool tiles = rows && executor_.rows_tops > 0;
    const double slower = tiles ? padded * executor_.vector_tops / executor_.rows_tops : 1;
    const bool works =
        executor_.vector_tops > 0 && ops * slower / (executor_.vector_tops * 1e12) >
                                         moved / (profile_.memory_gbps * 1e9 * share);
    for (NodeId root : kernel.roots) {
      const Node& last = node(root);
      uses_[root.index].writes[0] = std::max(1e-9, works ? 1e-9 : passes_to_write(last) / share);
    }
    if (works) {
      for (NodeId id : list)
        if (computes(id))
          uses_[id.index].works +=
              slower * share_of(work_of(id, kernel), elements(node(id).results[0]));
      return;
    }
    // Each read counts with the first op that asks for it.
    std::vector<bool> done(kernel.reads.size());
    for (NodeId id : list)
      for (size_t i = 0; i < node(id).operands.size(); ++i) {
        const ValueId operand = node(id).operands[i];
        const auto read = kernel.reads.find(operand);
        if (read == kernel.reads.end()) continue;
        const auto place = static_cast<size_t>(read - kernel.reads.begin());
        if (done[place]) continue;
        done[place] = true;
        uses_[id.index].reads[i] += share_of(read->second, bytes(operand)) / share;
      }
  }

  const FusedRegion& fused_;
  const Graph& graph_;
  const NodeId loop_;                    // whose body or condition this is
  const std::vector<bool>& is_donated_;  // by value: its memory may be written
  const MachineProfile& profile_;
  const ExecutorProfile& executor_;
  std::vector<KernelUse>& uses_;
  static constexpr uint32_t kNone = ~uint32_t{0};
  std::vector<uint32_t> kernel_of_;              // by value: the kernel that writes it
  std::map<std::vector<ValueId>, size_t> sums_;  // kernels of statistics, by tensors
  std::map<ValueId, size_t> updated_with_;       // kernels of updates, by what they read
  mutable std::vector<uint32_t> seen_;           // by node: the last turn of `members` that saw it
  mutable uint32_t turn_ = 0;
};

void mark_region(const Graph& graph, RegionId region, NodeId loop, const MachineProfile& profile,
                 const std::vector<bool>& is_donated, std::vector<KernelUse>& uses) {
  const FusedRegion fused(graph, region, profile, is_donated);
  KernelCounter(fused, profile, loop, is_donated, uses).run();
  for (NodeId id : graph.region(region).nodes) {
    const Flow flow = flow_of(graph.node(id));
    if (flow == Flow::None) continue;
    for (RegionId inner : graph.node(id).regions)
      mark_region(graph, inner, flow == Flow::Loop ? id : loop, profile, is_donated, uses);
  }
}

}  // namespace

bool is_donated_argument(const AttrDict& attrs) {
  return attrs.has("tf.aliasing_output") || attrs.has("jax.buffer_donor");
}

std::vector<KernelUse> find_kernels(const Graph& graph, std::string_view entry,
                                    const MachineProfile& profile) {
  if (profile.executor.name.empty()) return {};
  const Function* function = graph.find_function(entry);
  if (!function) throw_user("there is no function @{}", entry);
  std::vector<KernelUse> uses(graph.num_nodes());
  // What is computed twice is computed once; the ops that are left keep their numbers.
  Graph merged = graph;
  if (profile.executor.fuses && !profile.executor.runs_library_ops) merge_common(merged);
  std::vector<std::pair<NodeId, size_t>> clamped;
  if (profile.executor.updates_together) clamped = read_clamped(merged);
  // What a loop carries may be written as well: only arguments that are not donated must stay.
  std::vector<bool> is_donated(graph.num_values(), true);
  const std::vector<ValueId>& arguments = graph.region(function->body).args;
  for (size_t i = 0; i < arguments.size(); ++i)
    is_donated[arguments[i].index] =
        i < function->arg_attrs.size() && is_donated_argument(function->arg_attrs[i]);
  if (is_this_library(profile.executor))
    mark_own_kernels(merged, entry, uses);
  else
    mark_region(merged, function->body, {}, profile, is_donated, uses);
  graph.walk(function->body, [&](NodeId id) {
    KernelUse& use = uses[id.index];
    use.reads.resize(graph.node(id).operands.size());
    use.writes.resize(graph.node(id).results.size());
    use.spills.resize(graph.node(id).results.size());
  });
  if (profile.executor.host_us > 0) wait_for_host(graph, function->body, profile, uses);
  for (const auto& [id, operand] : clamped) uses[id.index].clamped = static_cast<double>(operand);
  // A framework that takes derivatives op by op computes those of a product by its two operands one
  // after the other. A module may have that by the weight where the optimizer asks for it.
  for (KernelUse& use : uses) use.is_early = profile.executor.updates_together && use.is_library;
  return uses;
}

void set_kernel_uses(Graph& graph, std::string_view entry, const std::vector<KernelUse>& uses) {
  if (uses.empty()) return;
  graph.walk(graph.find_function(entry)->body,
             [&](NodeId id) { set_kernel_use(graph.node(id), uses[id.index]); });
}

void mark_kernels(Graph& graph, std::string_view entry, const MachineProfile& profile) {
  set_kernel_uses(graph, entry, find_kernels(graph, entry, profile));
}

}  // namespace cleave::analyze
