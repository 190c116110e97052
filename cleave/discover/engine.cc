#include "cleave/discover/engine.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <thread>

#include "cleave/core/error.h"
#include "cleave/core/shard_layout.h"
#include "cleave/discover/worlds.h"

namespace cleave {
namespace {

constexpr int kEnoughTests = 6;

// One set of inputs for one number of devices, with the true results.
struct Inputs {
  int w;
  size_t world;    // the index of w
  bool one_place;  // for operands that are not partial
  std::vector<Array> operands;
  // [operand][0: replicated, d + 1: split along d][device]
  std::vector<std::vector<std::vector<Array>>> placed;
  std::vector<TrueValue> results;
};

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
    if (device > 0 && results.size() != outputs.size())
      throw_user("{} results on a device, {} on another", results.size(), outputs.size());
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

// Placements speak of one shape, whatever the numbers are.
void require_same_shapes(const Operator& op, const Sample& sample, const Inputs& first,
                         const Inputs& next) {
  auto fail = [&](const std::string& what) {
    throw_user("discover {}: {} of ({}) depends on the operands' numbers; no placement says that",
               op.name, what, to_string(sample));
  };
  if (first.results.size() != next.results.size()) fail("the number of results");
  for (size_t r = 0; r < first.results.size(); ++r) {
    const Array &a = first.results[r].array, &b = next.results[r].array;
    if (a.shape() != b.shape())
      fail(fmt::format("the shape of result {} (<{}> and <{}>)", r, to_string(a.shape()),
                       to_string(b.shape())));
    if (a.dtype() != b.dtype()) fail(fmt::format("the dtype of result {}", r));
  }
}

std::vector<Inputs> make_inputs(const Operator& op, const Sample& sample,
                                const std::vector<int>& worlds, const DiscoverOptions& options) {
  std::vector<Inputs> all;
  std::string refusal;
  for (size_t wi = 0; wi < worlds.size(); ++wi) {
    for (size_t g = 0; g < options.generators.size(); ++g) {
      NumberStream random(options.seed * 1000003 + wi * 101 + g);
      Inputs inputs{worlds[wi], wi, options.generators[g].one_place, {}, {}, {}};
      bool usable = true;
      for (size_t i = 0; i < sample.operands.size(); ++i) {
        const TensorDesc& desc = sample.operands[i];
        // Operands share a generator on even worlds and differ on odd ones.
        const size_t index = wi % 2 == 0 ? g : (g + 3 * i) % options.generators.size();
        const InputGenerator& generator = options.generators[index];
        inputs.one_place |= generator.one_place;
        if (generator.floats_only && !has_fractions(desc.dtype)) usable = i > 0 && usable;
        inputs.operands.push_back(make_input(
            generator.floats_only && !has_fractions(desc.dtype) ? options.generators[0] : generator,
            desc, random, i));
      }
      if (!usable && sample.operands.size() == 1) continue;
      // Numbers that the operator refuses as a whole, such as NaN, are none of its operands.
      try {
        for (Array& result : op.run(sample.attrs, inputs.operands))
          inputs.results.emplace_back(std::move(result));
      } catch (const BrokenOperator&) {
        throw;
      } catch (const UserError& error) {
        if (refusal.empty()) refusal = error.what();
        continue;
      }
      if (!all.empty()) require_same_shapes(op, sample, all.front(), inputs);
      place_operands(inputs);
      all.push_back(std::move(inputs));
    }
    if (all.empty()) throw UserError(refusal);  // whatever the numbers are
  }
  if (all.front().results.empty()) throw_user("discover {}: it has no results", op.name);
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
             const std::vector<int>& worlds, size_t asked, std::vector<Placement> row,
             uint64_t seed)
      : op_(op),
        sample_(sample),
        inputs_(inputs),
        worlds_(worlds),
        row_(std::move(row)),
        partial_(has_partial(row_)),
        seed_(seed) {
    const bool sharded =
        std::any_of(row_.begin(), row_.end(), [](const Placement& p) { return p.is_shard(); });
    // The others tell about shards alone.
    num_worlds_ = partial_ && !sharded ? asked : worlds.size();
    const std::vector<TrueValue>& results = inputs.front().results;
    for (size_t r = 0; r < results.size(); ++r)
      for (const Placement& placement :
           placements_of({results[r].array.dtype(), results[r].array.shape()})) {
        State state{{{row_, r, placement}, {}, {}, {}}, sharded || placement.is_shard(), {}};
        state.verdicts.resize(worlds.size());
        states_.push_back(std::move(state));
      }
  }

  std::vector<Decision> run() {
    // Every way to split a partial operand; of several operands, each also in a way of its own.
    const auto partial =
        std::count_if(row_.begin(), row_.end(), [](const Placement& p) { return p.is_partial(); });
    const int repeats = partial == 0 ? 1 : kNumDecompositions + (partial > 1 ? 2 : 0);
    for (int repeat = 0; repeat < repeats; ++repeat)
      for (size_t i = 0; i < inputs_.size(); ++i)
        if (!(partial_ && inputs_[i].one_place) && inputs_[i].world < num_worlds_ &&
            open(inputs_[i].world))
          test(inputs_[i], i, repeat);
    std::vector<Decision> decisions;
    for (State& state : states_) decisions.push_back(conclude(state));
    return decisions;
  }

 private:
  // One decision, and what each number of devices says. Without a shard all numbers of devices are
  // alike, and what is wrong for one is wrong.
  struct State {
    Decision decision;
    bool by_world = false;
    std::vector<Verdict> verdicts;
  };

  static bool is_open(const State& state, size_t world) {
    auto closed = [](const Verdict& v) {
      return v.kind == VerdictKind::Refuted || v.kind == VerdictKind::Rejected;
    };
    return state.by_world ? !closed(state.verdicts[world])
                          : std::none_of(state.verdicts.begin(), state.verdicts.end(), closed);
  }
  bool open(size_t world) const {
    return std::any_of(states_.begin(), states_.end(),
                       [&](const State& state) { return is_open(state, world); });
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
    auto concerns = [&](const State& s) {
      return filter(s.decision.combination.placement) && is_open(s, inputs.world);
    };
    auto reject_all = [&](const std::string& reason) {
      for (State& s : states_)
        if (concerns(s)) reject(s.verdicts[inputs.world], reason);
    };
    if (std::none_of(states_.begin(), states_.end(), concerns)) return;
    DeviceArrays outputs;
    try {
      outputs = prepared(placement, inputs.w, devices)(devices);
    } catch (const BrokenOperator&) {
      throw;
    } catch (const UserError& error) {
      return reject_all(error.what());
    }
    if (outputs.size() != inputs.results.size())
      return reject_all(fmt::format("{} results on a device, {} of the whole call", outputs.size(),
                                    inputs.results.size()));
    // Decisions are in the order of results.
    size_t result = outputs.size();
    std::optional<OutputMatcher> matcher;
    Tolerance tolerance;
    for (State& s : states_) {
      if (!concerns(s)) continue;
      const Combination& combination = s.decision.combination;
      Verdict& verdict = s.verdicts[inputs.world];
      const TrueValue& truth = inputs.results[combination.result];
      const std::vector<Array>& output = outputs[combination.result];
      if (result != combination.result) {
        result = combination.result;
        tolerance = op_.exact ? Tolerance{} : tolerance_for(devices, truth.array, partial_);
        matcher.emplace(output, truth);
      }
      const MatchResult match = judge(matcher->match(combination.placement, tolerance), devices,
                                      output, partial_, combination.placement.is_partial());
      switch (match.match) {
        case Match::Shape:
          reject(verdict, "the shards have another shape");
          break;
        case Match::No:
          verdict.kind = VerdictKind::Refuted;
          verdict.witness = Witness{sample_, combination,   inputs.w,       inputs.operands,
                                    devices, match.element, match.expected, match.actual};
          break;
        case Match::NonFinite:
          break;
        case Match::Yes:
          if (truth.informative) ++verdict.tests;
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

  // Wrong somewhere is wrong, and wrong numbers say more than a rejection.
  Decision conclude(State& state) const {
    Verdict total;
    for (size_t i = 0; i < state.verdicts.size(); ++i) {
      Verdict& verdict = state.verdicts[i];
      const int tests = total.tests + verdict.tests;
      if (verdict.kind == VerdictKind::Untestable && verdict.tests >= kEnoughTests)
        verdict.kind = VerdictKind::Tested;
      if (state.by_world) {
        state.decision.by_world.push_back({worlds_[i], verdict.kind});
        if (verdict.kind == VerdictKind::Tested) state.decision.worlds.push_back(worlds_[i]);
      }
      const bool worse = verdict.kind == VerdictKind::Refuted ||
                         (verdict.kind == VerdictKind::Rejected && is_unknown(total));
      if (worse && total.kind != VerdictKind::Refuted) total = std::move(verdict);
      total.tests = tests;
    }
    if (is_unknown(total)) {
      total.kind = total.tests >= kEnoughTests ? VerdictKind::Tested : VerdictKind::Untestable;
      if (total.kind == VerdictKind::Untestable)
        total.reason = fmt::format(
            "{} informative tests: results were zero or not finite, or no operand could be "
            "decomposed",
            total.tests);
    }
    state.decision.verdict = std::move(total);
    return std::move(state.decision);
  }
  static bool is_unknown(const Verdict& v) { return v.kind == VerdictKind::Untestable; }

  const Operator& op_;
  const Sample& sample_;
  const std::vector<Inputs>& inputs_;
  const std::vector<int>& worlds_;
  std::vector<Placement> row_;
  bool partial_;
  uint64_t seed_;
  size_t num_worlds_ = 0;
  std::vector<State> states_;
  std::vector<std::tuple<Placement, int, DeviceRun>> prepared_;
};

}  // namespace

bool has_partial(const std::vector<Placement>& placements) {
  return std::any_of(placements.begin(), placements.end(),
                     [](const Placement& p) { return p.is_partial(); });
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

namespace {

// Right on some numbers of devices, and wrong numbers on others.
bool wavers(const Decision& decision) {
  auto any = [&](VerdictKind kind) {
    return std::any_of(decision.by_world.begin(), decision.by_world.end(),
                       [&](const WorldVerdict& v) { return v.kind == kind; });
  };
  return any(VerdictKind::Refuted) && any(VerdictKind::Tested);
}

// The operands that show it, on all numbers of devices.
std::vector<Inputs> witnessed(const Operator& op, const Sample& sample,
                              const std::vector<int>& worlds,
                              const std::vector<Decision>& decisions) {
  std::vector<Inputs> all;
  for (const Decision& decision : decisions) {
    if (!wavers(decision) || !decision.verdict.witness) continue;
    for (size_t wi = 0; wi < worlds.size(); ++wi) {
      Inputs inputs{worlds[wi], wi, false, decision.verdict.witness->operands, {}, {}};
      for (Array& result : op.run(sample.attrs, inputs.operands))
        inputs.results.emplace_back(std::move(result));
      place_operands(inputs);
      all.push_back(std::move(inputs));
    }
  }
  return all;
}

// The sizes of shards may be the reason, or luck: such rows are tried on more numbers before a
// condition is made of it.
void try_again(const Operator& op, const Sample& sample, const std::vector<int>& worlds,
               const std::vector<std::vector<Placement>>& rows, const DiscoverOptions& options,
               std::vector<std::vector<Decision>>& decided) {
  constexpr uint64_t kRounds = 4;
  for (uint64_t round = 0; round <= kRounds; ++round) {
    std::vector<Inputs> inputs;
    for (size_t i = 0; i < rows.size(); ++i) {
      if (std::none_of(decided[i].begin(), decided[i].end(), wavers)) continue;
      if (round == 0) {
        inputs = witnessed(op, sample, worlds, decided[i]);
        if (inputs.empty()) continue;
      } else if (inputs.empty()) {
        DiscoverOptions other = options;
        other.seed = options.seed + round * 7919;
        inputs = make_inputs(op, sample, worlds, other);
      }
      const std::vector<Decision> again =
          RowDecider(op, sample, inputs, worlds, options.worlds.size(), rows[i],
                     options.seed * 7368787 + i * 15485863 + round)
              .run();
      for (size_t k = 0; k < again.size(); ++k)
        for (size_t w = 0; w < again[k].by_world.size(); ++w)
          if (again[k].by_world[w].kind == VerdictKind::Refuted) {
            decided[i][k].by_world[w].kind = VerdictKind::Refuted;
            std::erase(decided[i][k].worlds, worlds[w]);
          }
    }
  }
}

}  // namespace

std::vector<Decision> decide(const Operator& op, const Sample& sample,
                             const DiscoverOptions& options) {
  const std::vector<int> worlds = worlds_of(op, sample, options);
  const std::vector<Inputs> inputs = make_inputs(op, sample, worlds, options);
  const auto rows = operand_rows(sample.operands);
  std::vector<std::vector<Decision>> decided(rows.size());
  std::atomic<size_t> next = 0;
  std::vector<std::exception_ptr> errors(rows.size());
  const std::thread::id caller = std::this_thread::get_id();
  auto work = [&] {
    for (size_t i = next++; i < rows.size() && !options.stop.stop_requested(); i = next++) {
      try {
        decided[i] = RowDecider(op, sample, inputs, worlds, options.worlds.size(), rows[i],
                                options.seed * 7368787 + i * 15485863)
                         .run();
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
  if (options.stop.stop_requested()) throw_user("discover {}: stopped", op.name);
  try_again(op, sample, worlds, rows, options, decided);
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
    if (outputs.size() != truth.size())
      throw_user("{} results on a device, {} of the whole call", outputs.size(), truth.size());
    const bool partial = has_partial(combination.operands);
    const Array& value = truth[combination.result];
    const Tolerance tolerance =
        op.exact ? Tolerance{} : tolerance_for(trial.devices, value, partial);
    result.detail = judge(
        represents(outputs[combination.result], value, combination.placement, tolerance),
        trial.devices, outputs[combination.result], partial, combination.placement.is_partial());
    result.match = result.detail.match;
    if (keep) *keep = {truth[combination.result], outputs[combination.result]};
    result.informative = magnitude(truth[combination.result]) > 0;
  } catch (const BrokenOperator&) {
    throw;
  } catch (const UserError& error) {
    result.rejected = true;
    result.error = error.what();
  }
  return result;
}

}  // namespace cleave
