#include "oracle.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "cleave/compile/executable.h"
#include "cleave/core/error.h"
#include "cleave/core/mesh_text.h"
#include "cleave/graph/text/text.h"
#include "cleave/graph/verify.h"
#include "cleave/kernels/difference.h"
#include "cleave/kernels/elementwise.h"
#include "cleave/rules/export/export_passes.h"
#include "cleave/runtime/executor.h"
#include "cleave/runtime/fill.h"
#include "cleave/runtime/interpreter.h"
#include "cleave/runtime/run_partitions.h"
#include "cleave/spmd/partition.h"
#include "cleave/spmd/program.h"
#include "cleave/spmd/program_module.h"

namespace cleave::soak {
namespace {

struct Fault {
  std::string text;
};

// Numbers must be equal, but for the last bits of what has fractions: oneDNN's functions after a
// product are its own. Whole numbers differ by one at least, and so by more than is allowed.
std::optional<Difference> difference_of(const Array& actual, const Array& expected) {
  const auto unequal = first_unequal(actual, expected);
  if (!unequal || !is_float(expected.dtype())) return unequal;
  const double relative = expected.dtype() == DType::F64   ? 1e-14
                          : expected.dtype() == DType::F32 ? 1e-6
                                                           : 0x1p-7;
  const auto far = first_not_near(actual, expected, 0, relative);
  return far ? far : first_not_near(actual, expected, 0.5);
}

void compare(const std::vector<Array>& actual, const std::vector<Array>& expected,
             const std::string& how) {
  if (actual.size() != expected.size()) throw Fault{how + ": another number of results"};
  for (size_t i = 0; i < actual.size(); ++i) {
    if (actual[i].dtype() != expected[i].dtype() || actual[i].shape() != expected[i].shape())
      throw Fault{fmt::format("{}: result {} has another type", how, i)};
    if (const auto difference = difference_of(actual[i], expected[i]))
      throw Fault{fmt::format("{}: result {}[{}] is {}, not {}", how, i,
                              to_string(difference->index), difference->actual,
                              difference->expected)};
  }
}

template <typename Run>
void expect(const std::vector<Array>& expected, const std::string& how, const Run& run) {
  std::vector<Array> results;
  try {
    results = run();
  } catch (const std::exception& error) {
    throw Fault{fmt::format("{}: {}", how, error.what())};
  }
  compare(results, expected, how);
}

// The text of the program that is the same for all devices.
void expect_devices(const Program& program, const std::vector<Array>& args,
                    const std::vector<Array>& expected, const std::string& how) {
  std::vector<std::vector<Array>> results;
  SingleProgram single;
  try {
    single = single_program(program);
    const Graph graph = parse_module(print_module(spmd_module(single)), "single");
    verify_graph(graph);
    const int64_t devices = program.mesh->num_devices();
    std::vector<std::vector<Array>> by_device(static_cast<size_t>(devices));
    for (size_t i = 0; i < args.size(); ++i) {
      const std::vector<Array> shards = padded_shards(single.arguments[i], args[i], devices);
      for (size_t d = 0; d < shards.size(); ++d) by_device[d].push_back(shards[d]);
    }
    results = run_partitions(graph, single.entry, by_device);
  } catch (const std::exception& error) {
    throw Fault{fmt::format("{}: {}", how, error.what())};
  }
  for (size_t i = 0; i < expected.size(); ++i) {
    const SingleProgram::Port& port = single.results[i];
    std::vector<Array> padded;
    for (const std::vector<Array>& own : results) padded.push_back(own[i]);
    compare({joined_shards(port, padded)}, {expected[i]}, fmt::format("{}, result {}", how, i));
    for (size_t d = 0; !port.layout.spec.is_partial() && d < results.size(); ++d) {
      const auto device = static_cast<int64_t>(d);
      const ShardSlice box = port.layout.box(port.whole.shape, device);
      compare({true_shard(port, padded[d], device)},
              {expected[i].slice(box.offset, box.size).contiguous()},
              fmt::format("{}, result {} of device {}", how, i, d));
    }
  }
}

void run_sharded(const Graph& graph, const std::vector<Array>& args,
                 const std::vector<Array>& expected, const char* mesh_text, uint64_t seed) {
  const std::string how = fmt::format("--mesh {} --shard random:{}", mesh_text, seed);
  Program program;
  try {
    Mesh mesh = parse_mesh(mesh_text);
    mesh.name = "mesh";
    const MeshPtr pointer = std::make_shared<const Mesh>(std::move(mesh));
    Graph sharded = graph;
    drop_shardings_and_meshes(sharded);
    sharded.meshes = {pointer};
    shard_randomly(sharded, "main", pointer, seed);
    verify_graph(sharded);
    program = partition(sharded, {.entry = "main", .mesh = pointer});
    for (int64_t device = 0; device < pointer->num_devices(); ++device)
      verify_graph(instantiate(program, device).graph);
  } catch (const std::exception& error) {
    throw Fault{fmt::format("{}, prepared: {}", how, error.what())};
  }
  expect(expected, how + " --no-compile", [&] { return Executor(program).run(args); });
  // Each device is compared, whether or not others hold the same.
  expect_devices(program, args, expected, how + ", one program");
  expect(expected, how, [&] { return Executable(std::move(program)).run(args); });
}

// Another program has other shardings under the same seed: more of them are tried.
bool fails(const RandomProgram& program, uint64_t seed) {
  return !program.results.empty() && fault_of(program.text(), seed, 8).has_value();
}

// Drops what no result needs.
void drop_unused(RandomProgram& program) {
  std::set<std::string> used;
  for (const Value& result : program.results) used.insert(result.name);
  for (size_t i = program.steps.size(); i-- > 0;) {
    const Step& step = program.steps[i];
    if (used.contains(step.result.name))
      used.insert(step.operands.begin(), step.operands.end());
    else
      program.steps.erase(program.steps.begin() + static_cast<std::ptrdiff_t>(i));
  }
  std::erase_if(program.args, [&](const Value& arg) { return !used.contains(arg.name); });
}

}  // namespace

std::vector<Array> random_arguments(const Graph& graph, uint64_t seed) {
  std::vector<Array> args;
  for (const Type& type : graph.find_function("main")->arg_types) {
    const std::string fill = fmt::format("random:{}", (seed + args.size()) % 1000000);
    if (!is_float(type.dtype)) {
      args.push_back(make_array(type, fill));
      continue;
    }
    const Array numbers = make_array(Type::tensor(DType::I32, type.shape), fill);
    Array moved(DType::I32, type.shape);
    for (int64_t i = 0; i < numbers.num_elements(); ++i)
      moved.data<int32_t>()[i] = numbers.data<int32_t>()[i] - 4;
    args.push_back(convert(moved, type.dtype));
  }
  return args;
}

std::optional<std::string> fault_of(const std::string& module, uint64_t seed, int shardings) {
  static const char* const kMeshes[] = {"x=2",     "x=3",         "x=4",     "x=2,y=2",
                                        "x=2,y=3", "x=2,y=2,z=2", "x=4,y=2", "x=5"};
  try {
    Graph graph;
    std::vector<Array> args, expected;
    try {
      graph = parse_module(module, "soak");
      verify_graph(graph);
      args = random_arguments(graph, seed);
      expected = run_function(graph, "main", args);
    } catch (const std::exception& error) {
      throw Fault{fmt::format("op by op on one device: {}", error.what())};
    }
    expect(expected, "printed and read", [&] {
      return run_function(parse_module(print_module(graph), "printed"), "main", args);
    });
    expect(expected, "compiled", [&] { return Executable(graph, "main").run(args); });
    RandomSource random(seed);
    for (int i = 0; i < shardings; ++i) {
      const char* mesh = kMeshes[random.below(std::size(kMeshes))];
      run_sharded(graph, args, expected, mesh, random.next() % 100000);
    }
  } catch (const Fault& fault) {
    return fault.text;
  }
  return {};
}

RandomProgram shrink(RandomProgram program, uint64_t seed) {
  auto keep_if_fails = [&](RandomProgram smaller) {
    drop_unused(smaller);
    if (!fails(smaller, seed)) return false;
    program = std::move(smaller);
    return true;
  };
  const std::vector<Value> results = program.results;
  for (const Value& result : results) {
    RandomProgram one = program;
    one.results = {result};
    if (keep_if_fails(one)) break;
  }
  for (bool changed = true; changed;) {
    changed = false;
    // An earlier value as the result.
    for (size_t i = 0; i + 1 < program.steps.size(); ++i) {
      RandomProgram earlier = program;
      earlier.results = {program.steps[i].result};
      if (keep_if_fails(earlier)) {
        changed = true;
        break;
      }
    }
    // A step as an argument.
    for (size_t i = program.steps.size(); i-- > 0;) {
      if (i >= program.steps.size() || program.results[0].name == program.steps[i].result.name)
        continue;
      RandomProgram given = program;
      given.args.push_back(program.steps[i].result);
      given.steps.erase(given.steps.begin() + static_cast<std::ptrdiff_t>(i));
      changed |= keep_if_fails(given);
    }
  }
  return program;
}

}  // namespace cleave::soak
