#include "cleave/discover/mesh_check.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "cleave/core/error.h"
#include "cleave/core/shard_layout.h"

namespace cleave {
namespace {

// A layout without its pending reductions, and which part of the reduction a device holds.
class MeshLayout {
 public:
  MeshLayout(const Placements& placements, MeshPtr mesh, size_t rank)
      : placements_(placements), mesh_(std::move(mesh)) {
    Placements whole = placements;
    for (Placement& p : whole)
      if (p.is_partial()) {
        reduce_ = p.reduce;
        p = Placement::replicate();
      }
    spec_ = from_placements(whole, mesh_, rank);
    for (size_t a = 0; a < placements.size(); ++a)
      if (placements[a].is_partial()) parts_ *= static_cast<int>(size(a));
  }

  std::optional<ReduceOp> reduce() const { return reduce_; }
  int parts() const { return parts_; }
  int64_t devices() const { return mesh_->num_devices(); }

  // Which part of a pending reduction the device holds, and which devices share a shard with it.
  int part_of(int64_t device) const { return index(device, true); }
  int group_of(int64_t device) const { return index(device, false); }

  Array shard(const Array& whole, int64_t device) const {
    const ShardSlice slice = shard_slice(spec_, whole.shape(), device);
    return whole.slice(slice.offset, slice.size).contiguous();
  }
  Shape shape(const Shape& whole, int64_t device) const {
    return shard_slice(spec_, whole, device).size;
  }

 private:
  int64_t size(size_t axis) const { return mesh_->axes[axis].size; }
  int index(int64_t device, bool partial) const {
    int64_t index = 0, stride = 1;
    for (size_t a = placements_.size(); a-- > 0;) {
      const int64_t coordinate = device % size(a);
      device /= size(a);
      if (placements_[a].is_partial() != partial) continue;
      index += coordinate * stride;
      stride *= size(a);
    }
    return static_cast<int>(index);
  }

  Placements placements_;
  MeshPtr mesh_;
  ShardingSpec spec_;
  std::optional<ReduceOp> reduce_;
  int parts_ = 1;
};

// Both placements of a tensor; nothing if no layout has both.
std::optional<Placements> join(const Placement& x, const Placement& y, bool y_major, int y_size) {
  if (x.is_partial() && y.is_partial() && x.reduce != y.reduce) return std::nullopt;
  if (y_major && x.is_shard() && y.is_shard() && x.dim == y.dim)
    return Placements{Placement::strided(x.dim, y_size), y};
  return Placements{x, y};
}

bool splits_twice(const Placement& x, const Placement& y) {
  return x.is_shard() && y.is_shard() && x.dim == y.dim;
}

std::optional<MeshDecision> pair_up(const Combination& x, const Combination& y, AxisOrder order,
                                    int y_size) {
  MeshDecision pair;
  pair.result = x.result;
  pair.order = order;
  bool first = true;
  auto add = [&](const Placement& a, const Placement& b) {
    bool y_major = order == AxisOrder::Strided;
    if (order == AxisOrder::Mixed && splits_twice(a, b)) y_major = !std::exchange(first, false);
    return join(a, b, y_major, y_size);
  };
  for (size_t i = 0; i < x.operands.size(); ++i) {
    auto joined = add(x.operands[i], y.operands[i]);
    if (!joined) return std::nullopt;
    pair.operands.push_back(std::move(*joined));
  }
  auto result = add(x.placement, y.placement);
  if (!result) return std::nullopt;
  pair.placement = std::move(*result);
  return pair;
}

int twice_split(const Combination& x, const Combination& y) {
  int count = splits_twice(x.placement, y.placement);
  for (size_t i = 0; i < x.operands.size(); ++i)
    count += splits_twice(x.operands[i], y.operands[i]);
  return count;
}

class MeshTester {
 public:
  MeshTester(const Operator& op, const Sample& sample, const std::vector<int>& sizes,
             const DiscoverOptions& options)
      : op_(op), sample_(sample), sizes_(sizes), mesh_(mesh_of_sizes(sizes)), options_(options) {
    for (size_t g = 0; g < options.generators.size(); ++g) {
      NumberStream random(options.seed * 1000003 + g);
      std::vector<Array> operands;
      for (size_t i = 0; i < sample.operands.size(); ++i) {
        const TensorDesc& desc = sample.operands[i];
        const InputGenerator& any = options.generators[(g + 3 * i) % options.generators.size()];
        const bool fits = !any.floats_only || has_fractions(desc.dtype);
        operands.push_back(make_input(fits ? any : options.generators[0], desc, random, i));
      }
      results_.push_back(op.run(sample.attrs, operands));
      inputs_.push_back(std::move(operands));
    }
  }

  void test(MeshDecision& d) {
    try {
      DeviceRun prepared;
      if (op_.localize) prepared = op_.localize(sample_, d.operands, d.placement, sizes_);
      for (size_t g = 0; g < inputs_.size(); ++g)
        for (int repeat = 0; repeat < 3; ++repeat)
          if (!run(d, prepared, g, repeat)) return;
    } catch (const UserError& error) {
      d.verdict = VerdictKind::Rejected;
      d.reason = error.what();
      return;
    }
    d.verdict = d.tests > 0 ? VerdictKind::Tested : VerdictKind::Untestable;
  }

 private:
  bool run(MeshDecision& d, const DeviceRun& prepared, size_t g, int repeat) {
    NumberStream random(options_.seed * 31 + g * 7 + static_cast<uint64_t>(repeat) * 104729);
    DeviceArrays devices;
    for (size_t i = 0; i < inputs_[g].size(); ++i) {
      auto arrays =
          represent_on_mesh(inputs_[g][i], d.operands[i], mesh_,
                            static_cast<Decomposition>(random.below(kNumDecompositions)), random);
      if (!arrays) return true;
      devices.push_back(std::move(*arrays));
    }
    const Array& truth = results_[g][d.result];
    const DeviceArrays outputs = prepared ? prepared(devices) : run_plainly(d, truth, devices);
    const MatchResult match = judge(represents_on_mesh(outputs[d.result], truth, d.placement, mesh_,
                                                       tolerance_for(devices, truth)),
                                    devices, outputs[d.result], true, true);
    if (match.match == Match::No || match.match == Match::Shape) {
      d.verdict = VerdictKind::Refuted;
      d.reason = match.match == Match::Shape
                     ? "the shards have another shape"
                     : fmt::format(
                           "({}) with {} inputs: element {}: expected {:.6g}, the devices "
                           "give {:.6g}",
                           to_string(sample_), options_.generators[g].name, match.element,
                           match.expected, match.actual);
      return false;
    }
    d.tests += match.match == Match::Yes && magnitude(truth) > 0;
    return true;
  }

  DeviceArrays run_plainly(const MeshDecision& d, const Array& truth, const DeviceArrays& devices) {
    const MeshLayout layout(d.placement, mesh_, truth.rank());
    DeviceArrays outputs;
    std::vector<Array> local(devices.size());
    for (int64_t device = 0; device < mesh_->num_devices(); ++device) {
      for (size_t i = 0; i < devices.size(); ++i) local[i] = devices[i][device];
      AttrMap attrs = sample_.attrs;
      if (!op_.shape_attr.empty()) attrs[op_.shape_attr] = layout.shape(truth.shape(), device);
      std::vector<Array> results = op_.run(attrs, local);
      outputs.resize(results.size());
      for (size_t r = 0; r < results.size(); ++r) outputs[r].push_back(std::move(results[r]));
    }
    return outputs;
  }

  const Operator& op_;
  const Sample& sample_;
  std::vector<int> sizes_;
  MeshPtr mesh_;
  const DiscoverOptions& options_;
  std::vector<std::vector<Array>> inputs_, results_;
};

std::string bracketed(const Placements& placements) { return "[" + to_string(placements) + "]"; }

}  // namespace

MeshPtr mesh_of_sizes(const std::vector<int>& sizes) {
  std::vector<MeshAxis> axes;
  for (size_t a = 0; a < sizes.size(); ++a)
    axes.push_back({std::string(1, static_cast<char>('x' + a)), sizes[a]});
  return std::make_shared<const Mesh>(Mesh(axes, {}, "mesh"));
}

std::optional<std::vector<Array>> represent_on_mesh(const Array& value,
                                                    const Placements& placements,
                                                    const MeshPtr& mesh, Decomposition how,
                                                    NumberStream& random) {
  const MeshLayout layout(placements, mesh, value.rank());
  std::vector<Array> parts = {value};
  if (layout.reduce()) {
    auto split =
        represent(value, Placement::partial(*layout.reduce()), layout.parts(), how, random);
    if (!split) return std::nullopt;
    parts = std::move(*split);
  }
  std::vector<Array> devices;
  for (int64_t device = 0; device < layout.devices(); ++device)
    devices.push_back(layout.shard(parts[layout.part_of(device)], device));
  return devices;
}

MatchResult represents_on_mesh(const std::vector<Array>& devices, const Array& value,
                               const Placements& placements, const MeshPtr& mesh,
                               Tolerance tolerance) {
  const MeshLayout layout(placements, mesh, value.rank());
  MatchResult worst;
  std::vector<bool> seen(devices.size(), false);
  for (int64_t first = 0; first < layout.devices(); ++first) {
    if (seen[layout.group_of(first)]) continue;
    seen[layout.group_of(first)] = true;
    std::vector<Array> group;
    for (int64_t device = 0; device < layout.devices(); ++device)
      if (layout.group_of(device) == layout.group_of(first)) group.push_back(devices[device]);
    const Placement placement =
        layout.reduce() ? Placement::partial(*layout.reduce()) : Placement::replicate();
    const MatchResult match = represents(group, layout.shard(value, first), placement, tolerance);
    if (match.match == Match::No || match.match == Match::Shape) return match;
    if (match.match == Match::NonFinite) worst = match;
  }
  return worst;
}

std::string_view name(AxisOrder order) {
  constexpr std::string_view names[] = {"straight", "strided", "mixed orders"};
  return names[static_cast<size_t>(order)];
}

std::string to_string(const MeshDecision& d) {
  std::string text;
  for (const Placements& operand : d.operands)
    text += (text.empty() ? "" : ", ") + bracketed(operand);
  return text + " -> " + bracketed(d.placement);
}

MeshReport check_mesh(const Operator& op, const Discovery& discovery, const std::vector<int>& mesh,
                      const DiscoverOptions& options) {
  if (mesh.size() != 2) throw_user("check_mesh: a mesh of two axes, such as 2x2");
  MeshReport report{discovery.op, mesh, 0, 0, {}, {}, {}, 0};
  const int all = mesh[0] * mesh[1];
  for (const SampleDecisions& decided : discovery.samples) {
    MeshTester tester(op, decided.sample, mesh, options);
    // Where both axes split one dimension it has as many shards as there are devices.
    auto valid = [&](const Decision& d, int w) {
      return d.verdict.valid() || std::find(d.worlds.begin(), d.worlds.end(), w) != d.worlds.end();
    };
    for (const Decision& x : decided.decisions)
      for (const Decision& y : decided.decisions) {
        if (x.combination.result != y.combination.result) continue;
        const int twice = twice_split(x.combination, y.combination);
        if (twice ? !valid(x, all) || !valid(y, all) : !valid(x, mesh[0]) || !valid(y, mesh[1]))
          continue;
        for (AxisOrder order : {AxisOrder::Straight, AxisOrder::Strided, AxisOrder::Mixed}) {
          if ((order == AxisOrder::Strided && twice < 1) ||
              (order == AxisOrder::Mixed && twice < 2))
            continue;
          auto pair = pair_up(x.combination, y.combination, order, mesh[1]);
          if (!pair) continue;
          report.pairs += order == AxisOrder::Straight;
          report.strided += order == AxisOrder::Strided;
          tester.test(*pair);
          const bool wrong =
              pair->verdict == VerdictKind::Refuted || pair->verdict == VerdictKind::Rejected;
          report.untestable += pair->verdict == VerdictKind::Untestable;
          if (order == AxisOrder::Mixed && pair->verdict != VerdictKind::Untestable) {
            (wrong ? report.mixed_refuted : report.mixed_valid).push_back(std::move(*pair));
          } else if (wrong) {
            report.refuted.push_back(std::move(*pair));
          }
        }
      }
  }
  return report;
}

std::string report_mesh(const MeshReport& report) {
  std::string text = fmt::format(
      "{} on a mesh of {}: {} pairs of valid combinations, {} of them strided too: {} refuted, {} "
      "untestable\n",
      report.op, fmt::join(report.mesh, "x"), report.pairs, report.strided, report.refuted.size(),
      report.untestable);
  for (const MeshDecision& d : report.refuted)
    text += fmt::format("  refuted, {}: {}: {}\n", name(d.order), to_string(d), d.reason);
  if (!report.mixed_refuted.empty() || !report.mixed_valid.empty())
    text +=
        fmt::format("  Where tensors disagree about the order of the axes: {} refuted, {} valid.\n",
                    report.mixed_refuted.size(), report.mixed_valid.size());
  if (!report.mixed_refuted.empty())
    text += fmt::format("  such as {}: {}\n", to_string(report.mixed_refuted.front()),
                        report.mixed_refuted.front().reason);
  return text;
}

}  // namespace cleave
