#include "cleave/compile/executable.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <thread>
#include <utility>

#include "cleave/compile/code_device.h"
#include "cleave/compile/compile_instance.h"
#include "cleave/compile/one_library_thread.h"
#include "cleave/compile/overlap.h"
#include "cleave/compile/rank_program.h"
#include "cleave/compile/steps.h"
#include "cleave/core/error.h"
#include "cleave/graph/verify.h"
#include "cleave/runtime/agreement.h"
#include "cleave/runtime/local_transport.h"
#include "cleave/runtime/one_at_a_time.h"

namespace cleave {
namespace {

Instance whole_instance(const Graph& graph, const std::string& entry) {
  Instance instance;
  instance.graph = graph;
  instance.entry = entry;
  return instance;
}

}  // namespace

struct Executable::Impl {
  std::optional<Program> program;
  std::unique_ptr<Executor> executor;  // where it is not compiled
  std::optional<Graph> plain;          // the same for a function without a program
  std::string entry;
  World* world = nullptr;    // where devices are spread over ranks
  std::vector<int64_t> own;  // the devices of this process
  int64_t count = 1;         // of all devices
  std::optional<RankProgram> ranks;
  Meetings meetings;
  std::vector<std::unique_ptr<CodeDevice>> devices;  // by place in `own`
  std::vector<size_t> donate;                        // arguments
  int threads = 1, op_threads = 1;
  std::unique_ptr<Team> team;  // of a single device
  std::vector<PassCall> passes;
  std::vector<PassTiming> timings;
  std::unique_ptr<Transport> transport;
  Observer* observer = nullptr;
  std::mutex running;

  static constexpr int kMostThreads = 4096;
  void choose_threads(const CompileOptions& options) {
    int cores = static_cast<int>(std::thread::hardware_concurrency());
    if (world && world->one_host()) cores /= world->size();
    if (options.threads < 0 || options.threads > kMostThreads)
      throw_user("compile: {} threads; give 0 (one per core) to {}", options.threads, kMostThreads);
    if (options.threads > 0) cores = options.threads;
    cores = std::max(1, cores);
    op_threads = own.size() == 1 ? cores : 1;
    threads = std::min(static_cast<int>(own.size()), cores);
  }

  // How transfers run beside other work; nothing where they do not.
  std::optional<OverlapOptions> choose_passes(const CompileOptions& options) {
    passes = parse_pipeline(options.passes);
    donate = options.donate;
    std::optional<OverlapOptions> overlap;
    const auto overlaps = [](const PassCall& call) { return call.name == "cleave-overlap"; };
    for (const PassCall& call : passes)
      if (world && overlaps(call)) overlap = overlap_options(call.options);
    if (!world) std::erase_if(passes, overlaps);
    return overlap;
  }

  size_t index_of(int64_t device) const {
    if (device < 0) return 0;
    const auto it = std::find(own.begin(), own.end(), device);
    internal_check(it != own.end(), "the code of another rank's device");
    return static_cast<size_t>(it - own.begin());
  }

  // False where the device's graph cannot be compiled.
  bool add(Instance instance) {
    LowerOptions options{.threads = op_threads, .device = own[devices.size()]};
    if (ranks) options.ranks = &ranks->view();
    auto code = compile_instance(std::move(instance), passes, donate, options, timings);
    if (!code) return false;
    devices.push_back(std::make_unique<CodeDevice>(std::move(*code)));
    return true;
  }

  void finish() {
    if (op_threads > 1) team = std::make_unique<Team>(op_threads);
    for (size_t d = 0; d < devices.size(); ++d) {
      if (devices[d]->code.needs_threads) threads = static_cast<int>(devices.size());
      devices[d]->prepare(own[d], team.get(), &meetings, [this, device = own[d]] {
        return Interpreter::Options{.transport = transport.get(),
                                    .device = device,
                                    .grid = {1, count},
                                    .observer = observer};
      });
    }
    if (ranks) {
      std::vector<DeviceCode*> codes;
      for (auto& device : devices) codes.push_back(&device->code);
      ranks->link(codes);
      return;
    }
    for (size_t d = 0; d < devices.size(); ++d) {
      std::map<uint32_t, int64_t> times;
      link(devices[d]->code.main, *devices[d], times);
    }
  }

  // Transfers find their meetings: by where they stand in the Program, in the order of the code.
  void link(CodeBlock& block, CodeDevice& device, std::map<uint32_t, int64_t>& times) {
    for (auto& step : block.steps) {
      if (auto* transfer = dynamic_cast<TransferStep*>(step.get())) {
        const NodeId origin = device.code.origin[transfer->node.index];
        const int64_t n = times[origin.index]++;
        if (transfer->plan.group.size() <= 1) continue;
        const std::vector<int64_t>& group = transfer->plan.group;
        transfer->meeting = meetings.find(origin.index, n, group);
        transfer->place = transfer->plan.place_of(device.frame.device);
        Meetings::Member& member = meetings.meeting(transfer->meeting).members[transfer->place];
        member.plan = &transfer->plan;
        member.shape = transfer->operand.type.shape;
      } else if (auto* loop = dynamic_cast<WhileStep*>(step.get())) {
        link(loop->condition, device, times);
        link(loop->body, device, times);
      } else if (auto* branch = dynamic_cast<CaseStep*>(step.get())) {
        for (CodeBlock& inner : branch->branches) link(inner, device, times);
      }
    }
  }

  void run(std::vector<std::vector<Array>>& args, std::vector<std::vector<Array>>& results,
           const ExecuteOptions& options) {
    std::lock_guard lock(running);
    OneAtATime serial(options.observer);
    observer = options.observer ? &serial : nullptr;
    const bool blocks = count > 1 && devices[0]->code.needs_threads;
    transport = nullptr;
    if (blocks && ranks)
      transport = std::make_unique<RankTransport>(*world, count);
    else if (blocks)
      transport = make_local_transport(count);
    results.resize(static_cast<size_t>(count));
    if (ranks)
      for (auto& each : results) each.resize(devices[0]->code.results.size());
    for (size_t d = 0; d < devices.size(); ++d) {
      CodeDevice& device = *devices[d];
      const auto at = static_cast<size_t>(own[d]);
      device.bind(entry, args[at], results[at]);
      device.frame.observer = observer && observer->wants_ops() ? observer : nullptr;
      device.frame.done = options.log ? &device.done : nullptr;
    }
    const auto run_device = [&](size_t d) {
      const OneLibraryThread library;
      try {
        const bool ended = advance(devices[d]->frame);
        if (ended && transport) transport->leave(own[d]);
        return ended;
      } catch (const std::exception& error) {
        if (transport) transport->fail(own[d], error.what());
        throw;
      }
    };
    if (ranks) {
      try {
        ranks->run(threads, blocks, run_device);
      } catch (...) {
        keep(args, results);
        throw;
      }
    } else if (count == 1) {
      run_device(0);
    } else {
      meetings.run(count, threads, [&](int64_t d) { return run_device(static_cast<size_t>(d)); });
    }
    if (options.memory) measure(args, results, *options.memory);
    for (size_t d = 0; d < devices.size(); ++d) {
      const auto at = static_cast<size_t>(own[d]);
      devices[d]->collect(args[at], results[at]);
    }
    if (options.log) log(*options.log);
  }

  void measure(const std::vector<std::vector<Array>>& args,
               const std::vector<std::vector<Array>>& results, MemoryUse& memory) const {
    memory.peaks.assign(args.size(), 0);
    memory.peak_at.assign(args.size(), NodeId{});
    for (size_t d = 0; d < devices.size(); ++d) {
      const auto at = static_cast<size_t>(own[d]);
      memory.peaks[at] = bytes_held(devices[d]->frame, args[at], results[at]);
    }
  }

  // Messages of a run that failed may still come.
  void keep(const std::vector<std::vector<Array>>& args,
            const std::vector<std::vector<Array>>& results) {
    for (auto& device : devices) {
      world->keep(device->arena);
      for (const auto& [origin, transfer] : device->code.rank_transfers) world->keep(transfer);
    }
    world->keep(std::make_shared<std::vector<std::vector<Array>>>(args));
    world->keep(std::make_shared<std::vector<std::vector<Array>>>(results));
  }

  void log(CommLog& log) {
    // Where transfers run beside other ops, devices come to the local ones in different orders.
    if (ranks)
      for (auto& device : devices)
        std::stable_sort(device->done.begin(), device->done.end(), [&](NodeId a, NodeId b) {
          return device->code.origin[a.index] < device->code.origin[b.index];
        });
    std::vector<CommEvent> events;
    for (size_t i = 0; i < devices[0]->done.size(); ++i) {
      const NodeId first = devices[0]->done[i];
      const AttrDict& attrs = program->graph.node(devices[0]->code.origin[first.index]).attrs;
      CommEvent event;
      event.kind = attrs.get_string("cleave.step");
      event.axes = attrs.get_string("cleave.axes");
      event.asked_by = attrs.get_string("cleave.for");
      for (const auto& device : devices) {
        const int64_t bytes = device->code.transfers[device->done[i].index]->bytes_received;
        event.bytes = std::max(event.bytes, bytes);
        event.total_bytes += bytes;
      }
      events.push_back(std::move(event));
    }
    if (ranks) ranks->share(events);
    for (CommEvent& event : events) log.add(std::move(event));
  }
};

Executable::Executable(Program program, const CompileOptions& options, World* world)
    : impl_(std::make_unique<Impl>()) {
  impl_->entry = program.entry;
  impl_->count = program.mesh->num_devices();
  impl_->own.resize(static_cast<size_t>(impl_->count));
  std::iota(impl_->own.begin(), impl_->own.end(), 0);
  bool compiled = true;
  if (world && impl_->count > 1) {
    impl_->world = world;
    impl_->own = world->devices_of(*program.mesh);
    impl_->choose_threads(options);
    if (const auto overlap = impl_->choose_passes(options)) order_transfers(program, *overlap);
    impl_->ranks.emplace(*world, program);
    for (Instance& instance : impl_->ranks->take_instances())
      compiled = compiled && impl_->add(std::move(instance));
    for (const auto& device : impl_->devices)
      compiled = compiled && impl_->ranks->has_tags_for(device->code);
    compiled = impl_->ranks->agree(program, options.passes, compiled);
  } else {
    impl_->choose_threads(options);
    impl_->choose_passes(options);
    TransferPlanners planners;
    for (int64_t device = 0; compiled && device < impl_->count; ++device)
      compiled = impl_->add(instantiate(program, device, &planners));
  }
  if (compiled) {
    impl_->program = std::move(program);
    impl_->finish();
  } else {
    impl_->ranks.reset();
    impl_->devices.clear();
    impl_->executor = std::make_unique<Executor>(std::move(program), world);
  }
}

Executable::Executable(const Graph& graph, const std::string& entry, const CompileOptions& options)
    : impl_(std::make_unique<Impl>()) {
  if (!options.verified) verify_graph(graph);
  impl_->entry = entry;
  impl_->own = {0};
  impl_->choose_threads(options);
  impl_->choose_passes(options);
  if (impl_->add(whole_instance(graph, entry)))
    impl_->finish();
  else
    impl_->plain = graph;
}

Executable::~Executable() = default;

bool Executable::is_compiled() const { return !impl_->devices.empty(); }

int64_t Executable::num_devices() const { return impl_->count; }

const std::vector<int64_t>& Executable::own_devices() const { return impl_->own; }

const Program* Executable::program() const {
  if (impl_->executor) return &impl_->executor->program();
  return impl_->program ? &*impl_->program : nullptr;
}

void Executable::run_shards_into(std::vector<std::vector<Array>>& args,
                                 std::vector<std::vector<Array>>& results,
                                 const ExecuteOptions& options) {
  if (args.size() != static_cast<size_t>(num_devices()))
    throw_user("@{} runs on {} devices, shards of {} are given", impl_->entry, num_devices(),
               args.size());
  if (impl_->executor) {
    results = impl_->executor->run_shards(args, options);
  } else if (impl_->plain) {
    results = {run_verified(*impl_->plain, impl_->entry, args[0], options.observer)};
  } else {
    impl_->run(args, results, options);
  }
}

std::vector<std::vector<Array>> Executable::run_shards(std::vector<std::vector<Array>> args,
                                                       const ExecuteOptions& options) {
  std::vector<std::vector<Array>> results;
  run_shards_into(args, results, options);
  return results;
}

std::vector<Array> Executable::run(std::span<const Array> args, const ExecuteOptions& options) {
  if (impl_->executor) return impl_->executor->run(args, options);
  const Program* whole = program();
  if (!whole) return run_shards({std::vector<Array>(args.begin(), args.end())}, options)[0];
  const Function& entry = whole->entry_function();
  const std::vector<ValueId>& values = whole->graph.region(entry.body).args;
  if (args.size() != values.size())
    throw_user("@{} takes {} arguments, {} are given", entry.name, values.size(), args.size());
  if (impl_->ranks) require_same_arguments(*impl_->world, args);
  std::vector<std::vector<Array>> shards(static_cast<size_t>(num_devices()));
  for (int64_t device : impl_->own)
    for (size_t i = 0; i < args.size(); ++i)
      shards[static_cast<size_t>(device)].push_back(
          shard_of(args[i], whole->layout(values[i]), device));
  std::vector<std::vector<Array>> parts = run_shards(std::move(shards), options);
  if (impl_->ranks) impl_->ranks->share(*whole, parts);
  const Node& end = whole->graph.node(whole->graph.terminator(entry.body));
  std::vector<Array> results;
  for (size_t i = 0; i < end.operands.size(); ++i) {
    std::vector<Array> pieces;
    for (const auto& part : parts) pieces.push_back(part[i]);
    results.push_back(
        assemble(pieces, whole->layout(end.operands[i]), whole->graph.operand_type(end, i).shape));
  }
  return results;
}

const std::vector<PassTiming>& Executable::pass_timings() const { return impl_->timings; }

CodeStats Executable::stats(int64_t device) const {
  return is_compiled() ? impl_->devices[impl_->index_of(device)]->code.stats : CodeStats();
}

int64_t Executable::memory_bytes(int64_t device) const {
  return is_compiled() ? bytes_needed(impl_->devices[impl_->index_of(device)]->code) : 0;
}

const Graph& Executable::graph(int64_t device) const {
  if (impl_->plain) return *impl_->plain;
  if (impl_->executor) return impl_->executor->instance(impl_->own[impl_->index_of(device)]).graph;
  return impl_->devices[impl_->index_of(device)]->code.graph;
}

}  // namespace cleave
