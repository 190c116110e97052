#include <filesystem>
#include <map>
#include <memory>
#include <thread>

#include "cleave/cli/commands.h"
#include "cleave/cli/files.h"
#include "cleave/cli/modules.h"
#include "cleave/cli/ranks.h"
#include "cleave/cli/sharded_run.h"
#include "cleave/cli/xla_run.h"
#include "cleave/core/available_memory.h"
#include "cleave/core/error.h"
#include "cleave/core/number_text.h"
#include "cleave/core/output_file.h"
#include "cleave/graph/text/text.h"
#include "cleave/kernels/array_text.h"
#include "cleave/models/registry.h"
#include "cleave/pjrt/engine.h"
#include "cleave/runtime/agreement.h"
#include "cleave/runtime/fill.h"
#include "cleave/runtime/interpreter.h"
#include "cleave/runtime/npy.h"
#include "cleave/runtime/recorder.h"
#include "cleave/runtime/run_partitions.h"
#include "cleave/runtime/world.h"

namespace cleave::cli {
namespace {

struct RunOptions {
  std::string file;
  std::string entry;
  std::vector<std::string> args;
  std::string out;
  std::string timeline;
  std::string plan;
  std::string coordinator;
  int64_t process = -1, processes = 0;
  ShardingOptions sharding;
  bool split = false, stats = false, timing = false, trace = false, quiet = false;
};

// main, or the only function with a body.
std::string find_entry(const Graph& graph, const std::string& asked) {
  if (!asked.empty() || graph.find_function("main")) return asked.empty() ? "main" : asked;
  std::string only, all;
  for (const Function& function : graph.functions) {
    if (!function.body.valid()) continue;
    if (function.visibility != "private") only = function.name;
    all += " @" + function.name;
  }
  const auto is_public = [](const Function& f) {
    return f.body.valid() && f.visibility != "private";
  };
  if (std::count_if(graph.functions.begin(), graph.functions.end(), is_public) != 1)
    throw_user("the module has no @main; say which function to run with --entry:{}", all);
  return only;
}

// --arg I=WHAT, or --arg '*=WHAT' for all that are not listed; else what is `given`.
std::vector<Array> make_arguments(const Graph& graph, const std::string& entry,
                                  const std::vector<std::string>& texts,
                                  const std::vector<Tensor>& given) {
  const Function* function = graph.find_function(entry);
  if (!function) throw_user("there is no function @{} in the module", entry);
  std::map<std::string, std::string> what;
  for (const std::string& text : texts) {
    const size_t at = text.find('=');
    if (at == std::string::npos) throw_user("--arg {}: write INDEX=WHAT, such as 0=random:1", text);
    const std::string key = text.substr(0, at);
    const auto index = number_of<size_t>(key);
    const size_t count = function->arg_types.size();
    if (key != "*" && (!index || *index >= count))
      throw_user("--arg {}: @{} has no argument '{}'; it takes {}", text, entry, key,
                 count == 0   ? "none"
                 : count == 1 ? "one, 0"
                              : fmt::format("{}, 0 to {}", count, count - 1));
    if (!what.emplace(index ? std::to_string(*index) : key, text.substr(at + 1)).second)
      throw_user("--arg {}: '{}' is given twice", text, key);
  }
  double bytes = 0;  // of those that are made here
  for (size_t i = given.size(); i < function->arg_types.size(); ++i)
    bytes += static_cast<double>(function->arg_types[i].byte_count());
  check_fits(static_cast<int64_t>(std::min(bytes, 9e18)),
             fmt::format("the arguments of @{}", entry));
  std::vector<Array> args;
  for (size_t i = 0; i < function->arg_types.size(); ++i) {
    const Type& type = function->arg_types[i];
    auto it = what.find(std::to_string(i));
    if (it == what.end()) it = what.find("*");
    if (it == what.end() && i < given.size()) {
      args.push_back(given[i].to_host());
      continue;
    }
    if (it == what.end())
      throw_user(
          "argument {} of @{}, {}, is not given; say --arg {}=FILE.npy or random:1, or "
          "--arg '*=random:1' for all",
          i, entry, to_string(type), i);
    args.push_back(type.is_tensor() ? make_array(type, it->second) : Array(DType::Bool, {0}));
  }
  return args;
}

void listen(Recorder& recorder, const RunOptions& options) {
  recorder.record_ops = options.stats || !options.timeline.empty();
  recorder.on_print = [](std::string_view text) { fmt::print("{}", text); };
  if (options.trace)
    recorder.on_trace = [](std::string_view line) { fmt::print(stderr, "{}\n", line); };
  if (!options.out.empty() && speaks())
    recorder.on_probe = [dir = std::filesystem::path(options.out)](
                            std::string_view name, int64_t iteration, const Array& value) {
      std::string file(name);
      for (char& c : file)
        if (c == '/' || c == '\\') c = '_';
      file += fmt::format("_{}.npy", iteration);
      save_npy(dir / file, value);
      append_file(
          dir / "index.csv",
          fmt::format("{},{},{}\n", name, to_string(Type::tensor(value.dtype(), value.shape())),
                      (dir / file).string()));
    };
}

// What `cleave report --run` asks of a timeline.
void tell_of_plan(const plan::Plan& plan, Recorder& recorder) {
  for (const plan::PlannedOp& op : plan.ops) recorder.planned_ops.push_back(op.name);
  recorder.about = {
      {"fingerprint", plan.fingerprint},
      {"entry", plan.entry},
      {"mesh", to_string(*plan.mesh)},
      {"planned_for", plan.machine},
      {"host", fmt::format("a host with {} cores", std::thread::hardware_concurrency())}};
}

// Ranks that were given different files, options or arguments would compute nonsense together.
void require_same_run(World& world, const Graph& graph, const RunOptions& options,
                      const std::string& entry, const std::vector<Array>& args) {
  const ShardingOptions& s = options.sharding;
  const auto yes = [](bool flag) { return std::string(flag ? "given" : "not given"); };
  require_same_facts(world, {{"--mesh", s.mesh},
                             {"--shard", s.shard},
                             {"--entry", entry},
                             {"--plan", s.plan ? s.plan->fingerprint : ""},
                             {"--passes", s.passes},
                             {"--narrow-sums", yes(!s.wide_sums)},
                             {"--no-compile", yes(!s.compile)},
                             {"--stats", yes(options.stats)},
                             {"--timing", yes(options.timing)},
                             {"--communication", yes(s.communication)},
                             {"--timeline", yes(!options.timeline.empty())}});
  require_same_graph(world, graph, "modules");
  require_same_arguments(world, args);
}

// The function of a module for several partitions as its caller sees it: the arrays of all devices,
// stacked along a new first dimension.
Graph stacked_signature(const Graph& graph, const std::string& entry) {
  const Function* function = graph.find_function(entry);
  if (!function) throw_user("there is no function @{} in the module", entry);
  Graph signature;
  signature.functions.emplace_back().name = function->name;
  for (Type type : function->arg_types) {
    if (type.is_tensor()) type.shape.insert(type.shape.begin(), num_partitions(graph, entry));
    signature.functions.back().arg_types.push_back(std::move(type));
  }
  return signature;
}

std::vector<Array> run_stacked(const Graph& graph, const std::string& entry,
                               const std::vector<Array>& args, const std::string& engine,
                               Observer* observer) {
  const auto devices = static_cast<size_t>(num_partitions(graph, entry));
  std::vector<std::vector<Array>> by_device(devices);
  for (const Array& arg : args)
    for (size_t d = 0; d < devices; ++d) {
      Shape start(arg.rank()), size = arg.shape();
      start[0] = static_cast<int64_t>(d);
      size[0] = 1;
      by_device[d].push_back(
          arg.slice(start, size).contiguous().reshape({size.begin() + 1, size.end()}));
    }
  const auto results =
      pjrt::is_xla_engine(engine)
          ? run_partitions_on_xla(graph, entry, num_partitions(graph, entry), by_device, engine)
          : run_partitions(graph, entry, by_device, observer);
  std::vector<Array> stacked;
  for (size_t i = 0; i < results[0].size(); ++i) {
    Shape shape = results[0][i].shape(), one = shape;
    one.insert(one.begin(), 1);
    shape.insert(shape.begin(), static_cast<int64_t>(devices));
    stacked.emplace_back(results[0][i].dtype(), shape);
    for (size_t d = 0; d < devices; ++d) {
      Shape start(shape.size());
      start[0] = static_cast<int64_t>(d);
      copy_elements(results[d][i].contiguous().reshape(one), stacked[i].slice(start, one));
    }
  }
  return stacked;
}

// `given`: the arguments of a model, which --arg may replace.
void run_module(const Graph& graph, const RunOptions& options,
                const std::vector<Tensor>& given = {}) {
  const plan::Plan* plan = options.sharding.plan.get();
  const std::string entry =
      plan && options.entry.empty() ? plan->entry : find_entry(graph, options.entry);
  if (plan && entry != plan->entry)
    throw_user("--entry {}: the plan {} is of @{}", entry, options.plan, plan->entry);
  const bool partitioned = num_partitions(graph, entry) > 1 && !options.sharding.wanted();
  if (partitioned && World::of_process() && !options.sharding.uses_xla())
    throw_user(
        "a module for {} partitions runs in one process; leave out the ranks, or say --engine xla",
        num_partitions(graph, entry));
  const std::vector<Array> args = make_arguments(
      partitioned ? stacked_signature(graph, entry) : graph, entry, options.args, given);
  if (World* world = World::of_process()) require_same_run(*world, graph, options, entry, args);
  Recorder recorder;
  listen(recorder, options);
  if (plan) tell_of_plan(*plan, recorder);
  ShardingOptions sharding = options.sharding;
  sharding.communication |= sharding.wanted() && options.stats;
  sharding.stats = options.stats;
  sharding.describe = options.stats || options.timing;
  // On one device --verify alone compares XLA with Cleave's own engine.
  const bool sharded =
      sharding.uses_xla() ? !sharding.mesh.empty() || !sharding.shard.empty() : sharding.wanted();
  const std::vector<Array> results =
      partitioned ? run_stacked(graph, entry, args, sharding.engine, &recorder)
      : sharded   ? run_sharded(graph, entry, args, sharding, &recorder)
                  : run_whole(graph, entry, args, sharding, &recorder);
  if (World* world = World::of_process(); world && recorder.record_ops) recorder.merge(*world);
  if (!speaks()) return;
  const Function& function = *graph.find_function(entry);
  for (size_t i = 0; i < results.size(); ++i) {
    if (!function.result_types[i].is_tensor()) continue;
    if (!options.quiet)
      fmt::print("{}\n", to_text(results[i], results[i].num_elements() > 1000 ? 8 : 1000));
    if (!options.out.empty())
      save_npy(std::filesystem::path(options.out) / fmt::format("result_{}.npy", i), results[i]);
  }
  if (options.stats && !sharding.uses_xla()) fmt::print(stderr, "{}", recorder.stats());
  if (!options.timeline.empty()) write_file(options.timeline, recorder.timeline());
}

// What only Cleave's own engine can do is refused, so that nobody takes it for done.
void check_engine(const RunOptions& options) {
  const std::string& engine = options.sharding.engine;
  if (!pjrt::is_xla_engine(engine)) {
    if (options.sharding.repeat > 0) throw_user("--repeat: it is for --engine xla");
    if (!options.coordinator.empty())
      throw_user(
          "--coordinator: it is for --engine xla; cleave launch starts ranks of both engines");
    return;
  }
  const std::pair<bool, const char*> own[] = {
      {!options.plan.empty(), "--plan"},
      {!options.timeline.empty(), "--timeline"},
      {options.trace, "--trace"},
      {!options.sharding.compile, "--no-compile"},
      {options.sharding.passes != CompileOptions().passes, "--passes"}};
  for (const auto& [given, option] : own)
    if (given)
      throw_user("{}: it is about Cleave's own engine; leave out --engine {}", option, engine);
}

// Processes that were started by hand: told of each other as by the environment.
void join_by_hand(const RunOptions& options) {
  if (options.coordinator.empty()) return;
  setenv("CLEAVE_COORDINATOR", options.coordinator.c_str(), 1);
  if (!World::is_rank()) {
    setenv("CLEAVE_PROCESS", std::to_string(options.process).c_str(), 1);
    setenv("CLEAVE_PROCESSES", std::to_string(options.processes).c_str(), 1);
  }
}

void run(RunOptions options) {
  World::of_process();  // joins the ranks, before anything is timed
  if (!options.plan.empty()) {
    if (options.split) throw_user("--split-input-file: the plan {} is of one module", options.plan);
    options.sharding.plan = std::make_shared<const plan::Plan>(plan::read_plan(options.plan));
  }
  if (!options.out.empty()) {
    std::error_code error;
    std::filesystem::create_directories(options.out, error);
    if (error) throw_user("--out {}: {}", options.out, error.message());
  }
  if (!options.timeline.empty() && speaks()) check_writable(options.timeline);
  if (!options.sharding.wide_sums && !options.sharding.wanted())
    throw_user("--narrow-sums: it is for sums over devices; give --mesh as well");
  check_engine(options);
  join_by_hand(options);
  if (models::is_model_name(options.file)) {
    if (options.split) throw_user("--split-input-file: {} is one module", options.file);
    std::optional<Mesh> mesh;
    if (!options.sharding.mesh.empty()) mesh = parse_mesh(options.sharding.mesh);
    const models::BuiltModel model = models::build_model(options.file, mesh ? &*mesh : nullptr);
    return run_module(model.graph, options, model.arguments);
  }
  const std::string text = read_text(options.file);
  if (!options.split) return run_module(module_of_text(text, options.file), options);
  for (const SourceChunk& chunk : split_input(text)) {
    const Graph graph = module_of_text(chunk.text, options.file, chunk.first_line);
    if (!graph.functions.empty()) run_module(graph, options);
  }
}

}  // namespace

void add_run_command(CLI::App& app) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* command = app.add_subcommand(
      "run",
      "Run a function of a StableHLO module; check.* ops that do not hold give exit status 1");
  command
      ->add_option(
          "file", options->file,
          "the module, - for standard input, or a model: model:gpt?layers=2 (cleave trace --list)")
      ->required();
  command->add_option("--entry", options->entry, "the function (default: main, or the only one)");
  command->add_option(
      "--arg", options->args,
      "I=FILE.npy, I=random:SEED, I=uniform:SEED, I=zeros, I=ones or I=iota; *=... for the rest");
  command->add_option("--out", options->out,
                      "write results and probes as .npy into this directory");
  command->add_option("--timeline", options->timeline, "write a Chrome/Perfetto timeline");
  command->add_option("--mesh", options->sharding.mesh,
                      "run sharded over a mesh of virtual devices, such as \"x=2,y=4\"");
  command->add_option("--plan", options->plan,
                      "run as this plan says, op by op, on the devices of its mesh; with "
                      "--timeline, cleave report --run shows it beside what was predicted");
  command->add_option("--shard", options->sharding.shard,
                      "annotations (and what follows from them), replicated or random:SEED");
  command->add_option("--engine", options->sharding.engine,
                      "cleave (default), or xla[:PLUGIN]: XLA through PJRT; cleave devices lists "
                      "plugins");
  command
      ->add_option(
          "--repeat", options->sharding.repeat,
          "with --engine xla: run it so often again, arrays on the devices, and print times")
      ->check(CLI::Range(1, 1000000));
  CLI::Option* coordinator = command->add_option(
      "--coordinator", options->coordinator,
      "with --engine xla: HOST:PORT at which process 0 is found by others that were started by "
      "hand");
  command->add_option("--process", options->process, "which of them this is, from 0")
      ->needs(coordinator);
  command->add_option("--processes", options->processes, "how many they are")->needs(coordinator);
  command->add_flag("--communication", options->sharding.communication,
                    "what devices send each other, and for which ops");
  command->add_flag("!--narrow-sums", options->sharding.wide_sums,
                    "reduce 16-bit floats in 16 bits: half the bytes, parts rounded first");
  command->add_flag("!--no-compile", options->sharding.compile, "run op by op");
  command->add_option("--passes", options->sharding.passes,
                      "what the compiler does (default: " + CompileOptions().passes + ")");
  command->add_flag("--timing", options->timing, "times of the compiler's passes, and its plan");
  command->add_flag("--verify", options->sharding.verify,
                    "also run on one device, and compare; what is beyond the tolerance must be no "
                    "farther than random roundings move it");
  command->add_flag("--split-input-file", options->split, "run each module between // ----- lines");
  command->add_flag("--stats", options->stats,
                    "times by op; of a sharded run also what was sent, and the memory of a device");
  command->add_flag("--trace", options->trace, "a line for every op that runs");
  command->add_flag("--quiet", options->quiet, "do not print results");
  for (const char* compiled : {"--passes", "--timing"})
    command->get_option("--no-compile")->excludes(command->get_option(compiled));
  for (const char* other : {"--mesh", "--shard", "--passes", "--timing", "--narrow-sums"})
    command->get_option("--plan")->excludes(command->get_option(other));
  command->callback([options] { run(*options); });
}

}  // namespace cleave::cli
