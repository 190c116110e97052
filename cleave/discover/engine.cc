#include "cleave/discover/engine.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <thread>

#include "cleave/core/error.h"
#include "cleave/core/shard_layout.h"

namespace cleave {
namespace {

constexpr int kEnoughTests = 6;

// One set of inputs for one number of devices, with the true results.
struct Inputs {
  int w;
  std::vector<Array> operands;
  // [operand][0: replicated, d + 1: split along d][device]
  std::vector<std::vector<std::vector<Array>>> placed;
  std::vector<TrueValue> results;
};

bool all_finite(const std::vector<std::vector<Array>>& devices) {
  for (const auto& operand : devices)
    for (const Array& device : operand)
      for (double x : to_doubles(device))
        if (!std::isfinite(x)) return false;
  return true;
}

AttrMap local_attrs(const Operator& op, const AttrMap& attrs, const Placement& placement, int w,
                    int device) {
  if (op.shape_attr.empty() || !placement.is_shard()) return attrs;
  AttrMap local = attrs;
  auto& shape = std::get<std::vector<int64_t>>(local.at(op.shape_attr));
  if (static_cast<size_t>(placement.dim) >= shape.size()) return attrs;
  shape[placement.dim] = chunk_of(shape[placement.dim], w, device).size;
  return local;
}

std::vector<Placements> one_axis(const std::vector<Placement>& row) {
  std::vector<Placements> operands;
  for (const Placement& placement : row) operands.push_back({placement});
  return operands;
}

// The operator on each device's arrays; `calls` are by device.
DeviceArrays run_calls(const std::vector<ArrayCall>& calls, const DeviceArrays& devices) {
  DeviceArrays outputs;
  std::vector<Array> local(devices.size());
  for (size_t device = 0; device < calls.size(); ++device) {
    for (size_t i = 0; i < devices.size(); ++i) local[i] = devices[i][device];
    std::vector<Array> results = calls[device](local);
    outputs.resize(results.size());
    for (size_t r = 0; r < results.size(); ++r) outputs[r].push_back(std::move(results[r]));
  }
  return outputs;
}

// All devices of one call with these local shapes, result placement and attributes.
DeviceRun prepare_devices(const Operator& op, const AttrMap& attrs, const Placement& placement,
                          const DeviceArrays& devices, int w) {
  std::vector<ArrayCall> calls;
  std::vector<TensorDesc> descs(devices.size());
  for (int device = 0; device < w; ++device) {
    const AttrMap local = local_attrs(op, attrs, placement, w, device);
    if (!op.prepare) {
      calls.push_back(
          [&op, local](std::span<const Array> arrays) { return op.run(local, arrays); });
      continue;
    }
    // Devices with equal shapes share what is made ready.
    bool same = device > 0 && op.shape_attr.empty();
    for (size_t i = 0; i < devices.size(); ++i) {
      descs[i] = {devices[i][device].dtype(), devices[i][device].shape()};
      same = same && devices[i][device].shape() == devices[i][device - 1].shape();
    }
    calls.push_back(same ? calls.back() : op.prepare(local, descs));
  }
  return
      [calls = std::move(calls)](const DeviceArrays& arrays) { return run_calls(calls, arrays); };
}

void place_operands(Inputs& inputs) {
  NumberStream random(0);
  for (const Array& operand : inputs.operands) {
    auto place = [&](const Placement& placement) {
      return *represent(operand, placement, inputs.w, Decomposition::Equal, random);
    };
    inputs.placed.push_back({place(Placement::replicate())});
    for (size_t d = 0; d < operand.rank(); ++d)
      inputs.placed.back().push_back(place(Placement::shard(static_cast<int>(d))));
  }
}

std::vector<Inputs> make_inputs(const Operator& op, const Sample& sample,
                                const DiscoverOptions& options) {
  std::vector<Inputs> all;
  for (size_t wi = 0; wi < options.worlds.size(); ++wi) {
    for (size_t g = 0; g < options.generators.size(); ++g) {
      NumberStream random(options.seed * 1000003 + wi * 101 + g);
      Inputs inputs{options.worlds[wi], {}, {}, {}};
      bool usable = true;
      for (size_t i = 0; i < sample.operands.size(); ++i) {
        const TensorDesc& desc = sample.operands[i];
        // Operands share a generator on even worlds and differ on odd ones.
        const size_t index = wi % 2 == 0 ? g : (g + 3 * i) % options.generators.size();
        const InputGenerator& generator = options.generators[index];
        if (generator.floats_only && !has_fractions(desc.dtype)) usable = i > 0 && usable;
        inputs.operands.push_back(make_input(
            generator.floats_only && !has_fractions(desc.dtype) ? options.generators[0] : generator,
            desc, random));
      }
      if (!usable && sample.operands.size() == 1) continue;
      for (Array& result : op.run(sample.attrs, inputs.operands))
        inputs.results.emplace_back(std::move(result));
      place_operands(inputs);
      all.push_back(std::move(inputs));
    }
  }
  return all;
}

// Whether an operand may join a row of an operator with many operands: all that are not replicated
// are sharded, or all are partial under one reduction.
bool may_join(const std::vector<Placement>& row, const Placement& next) {
  if (next.is_replicate()) return true;
  return std::all_of(row.begin(), row.end(), [&](const Placement& p) {
    return p.is_replicate() || (p.kind == next.kind && (p.is_shard() || p.reduce == next.reduce));
  });
}

// Decides all result placements for one combination of operand placements.
class RowDecider {
 public:
  RowDecider(const Operator& op, const Sample& sample, const std::vector<Inputs>& inputs,
             std::vector<Placement> row, uint64_t seed)
      : op_(op), sample_(sample), inputs_(inputs), row_(std::move(row)), seed_(seed) {
    const std::vector<TrueValue>& results = inputs.front().results;
    for (size_t r = 0; r < results.size(); ++r)
      for (const Placement& placement :
           placements_of({results[r].array.dtype(), results[r].array.shape()}))
        decisions_.push_back({{row_, r, placement}, {}, {}});
  }

  std::vector<Decision> run() {
    // Every way to split a partial operand; of several operands, each also in a way of its own.
    const auto partial =
        std::count_if(row_.begin(), row_.end(), [](const Placement& p) { return p.is_partial(); });
    const int repeats = partial == 0 ? 1 : kNumDecompositions + (partial > 1 ? 2 : 0);
    for (int repeat = 0; repeat < repeats && open(); ++repeat)
      for (size_t i = 0; i < inputs_.size() && open(); ++i) test(inputs_[i], i, repeat);
    for (Decision& decision : decisions_) conclude(decision.verdict);
    return std::move(decisions_);
  }

 private:
  static bool is_open(const Verdict& verdict) {
    return verdict.kind != VerdictKind::Refuted && verdict.kind != VerdictKind::Rejected;
  }
  bool open() const {
    return std::any_of(decisions_.begin(), decisions_.end(),
                       [](const Decision& d) { return is_open(d.verdict); });
  }

  void test(const Inputs& inputs, size_t index, int repeat) {
    NumberStream random(seed_ + index * 7919 + static_cast<uint64_t>(repeat) * 104729);
    DeviceArrays devices;
    // Beyond the pure ones, every operand gets a decomposition of its own.
    for (size_t i = 0; i < row_.size(); ++i) {
      const auto how = static_cast<Decomposition>(
          repeat < kNumDecompositions ? (repeat + static_cast<int>(i)) % kNumDecompositions
                                      : random.below(kNumDecompositions));
      if (!row_[i].is_partial()) {
        devices.push_back(inputs.placed[i][row_[i].is_shard() ? row_[i].dim + 1 : 0]);
        continue;
      }
      auto parts = represent(inputs.operands[i], row_[i], inputs.w, how, random);
      if (!parts) return;
      devices.push_back(std::move(*parts));
    }
    if (op_.shape_attr.empty() && !op_.localize) {
      evaluate(inputs, devices, Placement::replicate(), [](const Placement&) { return true; });
      return;
    }
    if (op_.localize) {
      evaluate(inputs, devices, Placement::replicate(),
               [](const Placement& p) { return p.is_replicate(); });
      // In an average every device counts what enters once; in the others one does.
      evaluate(inputs, devices, Placement::partial(ReduceOp::Sum),
               [](const Placement& p) { return p.is_partial() && p.reduce != ReduceOp::Avg; });
      evaluate(inputs, devices, Placement::partial(ReduceOp::Avg),
               [](const Placement& p) { return p.is_partial() && p.reduce == ReduceOp::Avg; });
    } else {
      evaluate(inputs, devices, Placement::replicate(),
               [](const Placement& p) { return !p.is_shard(); });
    }
    for (int d = 0; d < max_rank(inputs.results); ++d)
      evaluate(inputs, devices, Placement::shard(d),
               [d](const Placement& p) { return p.is_shard() && p.dim == d; });
  }

  template <typename Filter>
  void evaluate(const Inputs& inputs, const DeviceArrays& devices, const Placement& placement,
                Filter filter) {
    auto concerns = [&](const Decision& d) {
      return filter(d.combination.placement) && is_open(d.verdict);
    };
    if (std::none_of(decisions_.begin(), decisions_.end(), concerns)) return;
    DeviceArrays outputs;
    try {
      outputs = prepared(placement, inputs.w, devices)(devices);
    } catch (const UserError& error) {
      for (Decision& d : decisions_)
        if (concerns(d)) reject(d.verdict, error.what());
      return;
    }
    // Decisions are in the order of results.
    size_t result = outputs.size();
    std::optional<OutputMatcher> matcher;
    Tolerance tolerance;
    for (Decision& d : decisions_) {
      if (!concerns(d)) continue;
      const TrueValue& truth = inputs.results[d.combination.result];
      const std::vector<Array>& output = outputs[d.combination.result];
      if (result != d.combination.result) {
        result = d.combination.result;
        tolerance = op_.exact ? Tolerance{} : tolerance_for(devices, truth.array);
        matcher.emplace(output, truth);
      }
      const MatchResult match =
          judge(matcher->match(d.combination.placement, tolerance), devices, output);
      switch (match.match) {
        case Match::Shape:
          reject(d.verdict, "the shards have another shape");
          break;
        case Match::No:
          d.verdict.kind = VerdictKind::Refuted;
          d.verdict.witness = Witness{sample_, d.combination, inputs.w,       inputs.operands,
                                      devices, match.element, match.expected, match.actual};
          break;
        case Match::NonFinite:
          break;
        case Match::Yes:
          if (truth.informative) ++d.verdict.tests;
          break;
      }
    }
  }

  // Made once per result placement and number of devices, and kept for all inputs: the local shapes
  // are the same.
  const DeviceRun& prepared(const Placement& placement, int w, const DeviceArrays& devices) {
    for (const auto& [of, world, run] : prepared_)
      if (of == placement && world == w) return run;
    prepared_.emplace_back(placement, w,
                           op_.localize
                               ? op_.localize(sample_, one_axis(row_), {placement}, {w})
                               : prepare_devices(op_, sample_.attrs, placement, devices, w));
    return std::get<2>(prepared_.back());
  }

  static int max_rank(const std::vector<TrueValue>& results) {
    size_t rank = 0;
    for (const TrueValue& result : results) rank = std::max(rank, result.array.rank());
    return static_cast<int>(rank);
  }

  static void reject(Verdict& verdict, const std::string& reason) {
    verdict.kind = VerdictKind::Rejected;
    verdict.reason = reason;
  }

  static void conclude(Verdict& verdict) {
    if (!is_open(verdict)) return;
    verdict.kind = verdict.tests >= kEnoughTests ? VerdictKind::Tested : VerdictKind::Untestable;
    if (verdict.kind == VerdictKind::Untestable)
      verdict.reason = fmt::format(
          "{} informative tests: results were zero or not finite, or no operand could be "
          "decomposed",
          verdict.tests);
  }

  const Operator& op_;
  const Sample& sample_;
  const std::vector<Inputs>& inputs_;
  std::vector<Placement> row_;
  uint64_t seed_;
  std::vector<Decision> decisions_;
  std::vector<std::tuple<Placement, int, DeviceRun>> prepared_;
};

}  // namespace

Tolerance tolerance_for(const std::vector<std::vector<Array>>& devices, const Array& result) {
  Tolerance tolerance{tolerance_of(result.dtype()), 0};
  if (tolerance.relative == 0) return tolerance;
  double largest = 0;
  for (const auto& operand : devices) {
    tolerance.relative = std::max(tolerance.relative, tolerance_of(operand.front().dtype()));
    for (const Array& device : operand) largest = std::max(largest, magnitude(device));
  }
  tolerance.slack = tolerance.relative * largest;
  return tolerance;
}

MatchResult judge(MatchResult match, const std::vector<std::vector<Array>>& devices,
                  const std::vector<Array>& outputs) {
  if (match.match != Match::NonFinite || !std::isfinite(match.expected) || !all_finite(devices))
    return match;
  for (const Array& output : outputs)
    for (double x : to_doubles(output))
      if (std::isnan(x)) match.match = Match::No;
  return match;
}

std::string_view name(VerdictKind kind) {
  constexpr std::string_view names[] = {"proved", "tested", "refuted", "rejected", "untestable"};
  return names[static_cast<size_t>(kind)];
}

std::vector<Placement> placements_of(const TensorDesc& desc) {
  std::vector<Placement> placements = {Placement::replicate()};
  for (size_t d = 0; d < desc.shape.size(); ++d)
    placements.push_back(Placement::shard(static_cast<int>(d)));
  if (desc.dtype != DType::Bool)
    for (ReduceOp op : {ReduceOp::Sum, ReduceOp::Avg}) placements.push_back(Placement::partial(op));
  if (is_complex(desc.dtype)) return placements;  // no order, and products of pairs are not pairs
  for (ReduceOp op : {ReduceOp::Max, ReduceOp::Min}) placements.push_back(Placement::partial(op));
  if (desc.dtype != DType::Bool) placements.push_back(Placement::partial(ReduceOp::Prod));
  return placements;
}

std::vector<std::vector<Placement>> operand_rows(
    const std::vector<TensorDesc>& operands,
    const std::function<std::vector<Placement>(const TensorDesc&)>& placements) {
  std::vector<std::vector<Placement>> rows = {{}};
  for (const TensorDesc& desc : operands) {
    std::vector<std::vector<Placement>> longer;
    for (const auto& row : rows)
      for (const Placement& placement : placements(desc)) {
        if (operands.size() > kMaxFreeOperands && !may_join(row, placement)) continue;
        longer.push_back(row);
        longer.back().push_back(placement);
      }
    rows = std::move(longer);
  }
  return rows;
}

// A reshape of 12 to 3x4 goes along the first dimension on 3 devices, not on 2: what depends on the
// number of devices is decided for each.
std::vector<Decision> decide_by_world(const Operator& op, const Sample& sample,
                                      const DiscoverOptions& options) {
  std::vector<Decision> all;
  for (int w : options.worlds) {
    DiscoverOptions one = options;
    one.worlds = {w};
    std::vector<Decision> decided = decide(op, sample, one);
    for (Decision& d : decided)
      if (d.verdict.valid()) d.worlds = {w};
    if (all.empty()) {
      all = std::move(decided);
      continue;
    }
    for (size_t i = 0; i < all.size(); ++i) {
      Verdict &total = all[i].verdict, &next = decided[i].verdict;
      all[i].worlds.insert(all[i].worlds.end(), decided[i].worlds.begin(), decided[i].worlds.end());
      const int tests = total.tests + next.tests;
      // Wrong somewhere is wrong, and wrong numbers say more than a rejection.
      auto weight = [](const Verdict& v) {
        return v.kind == VerdictKind::Refuted      ? 3
               : v.kind == VerdictKind::Rejected   ? 2
               : v.kind == VerdictKind::Untestable ? 1
                                                   : 0;
      };
      if (weight(next) > weight(total)) total = std::move(next);
      total.tests = tests;
    }
  }
  return all;
}

std::vector<Decision> decide(const Operator& op, const Sample& sample,
                             const DiscoverOptions& options) {
  if (!op.shape_attr.empty() && options.worlds.size() > 1)
    return decide_by_world(op, sample, options);
  const std::vector<Inputs> inputs = make_inputs(op, sample, options);
  const auto rows = operand_rows(sample.operands);
  std::vector<std::vector<Decision>> decided(rows.size());
  std::atomic<size_t> next = 0;
  std::vector<std::exception_ptr> errors(rows.size());
  const std::thread::id caller = std::this_thread::get_id();
  auto work = [&] {
    for (size_t i = next++; i < rows.size(); i = next++) {
      try {
        decided[i] =
            RowDecider(op, sample, inputs, rows[i], options.seed * 7368787 + i * 15485863).run();
      } catch (...) {
        errors[i] = std::current_exception();
      }
      // One thread speaks for all.
      if (options.progress && std::this_thread::get_id() == caller)
        options.progress(op.name, static_cast<double>(std::min(next.load(), rows.size())) /
                                      static_cast<double>(rows.size()));
    }
  };
  std::vector<std::thread> threads;
  const int count = std::min<int>(options.threads, static_cast<int>(rows.size() / 16) + 1);
  for (int t = 1; t < count; ++t) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
  std::vector<Decision> all;
  for (auto& part : decided) std::move(part.begin(), part.end(), std::back_inserter(all));
  return all;
}

TrialResult run_trial(const Operator& op, const Sample& sample, const Combination& combination,
                      const Trial& trial, TrialOutputs* keep) {
  TrialResult result;
  try {
    const std::vector<Array> truth = op.run(sample.attrs, trial.operands);
    if (combination.result >= truth.size())
      throw_user("{} has no result {}", op.name, combination.result);
    const DeviceArrays outputs =
        op.localize ? op.localize(sample, one_axis(combination.operands), {combination.placement},
                                  {trial.w})(trial.devices)
                    : prepare_devices(op, sample.attrs, combination.placement, trial.devices,
                                      trial.w)(trial.devices);
    result.detail =
        judge(represents(
                  outputs[combination.result], truth[combination.result], combination.placement,
                  op.exact ? Tolerance{} : tolerance_for(trial.devices, truth[combination.result])),
              trial.devices, outputs[combination.result]);
    result.match = result.detail.match;
    if (keep) *keep = {truth[combination.result], outputs[combination.result]};
    result.informative = magnitude(truth[combination.result]) > 0;
  } catch (const UserError& error) {
    result.rejected = true;
    result.error = error.what();
  }
  return result;
}

}  // namespace cleave
