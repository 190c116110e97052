#include <fmt/format.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <tuple>

#include "algebra.h"
#include "arrays.h"
#include "cleave/compile/executable.h"
#include "cleave/core/error.h"
#include "cleave/core/number_text.h"
#include "cleave/plan/apply.h"
#include "cleave/rules/pipelines.h"
#include "cleave/runtime/compare_runs.h"
#include "cleave/spmd/annotated_mesh.h"
#include "cleave/spmd/partition.h"
#include "cleave/spmd/random_shardings.h"

namespace cleave::python {

using namespace nb::literals;

Array array_of_object(nb::handle object) {
  using Bytes = nb::ndarray<const uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
  const auto parts = nb::module_::import_("cleave.layouts").attr("array_parts")(object);
  const auto [name, shape, bytes] = nb::cast<std::tuple<std::string, Shape, Bytes>>(parts);
  const std::optional<DType> dtype = dtype_from_name(name);
  if (!dtype) throw_user("an array of dtype {} cannot be taken", name);
  if (bytes.size() != static_cast<size_t>(num_elements(shape)) * byte_size(*dtype))
    throw_internal("{} bytes for an array of {} of {}", bytes.size(), to_string(shape), name);
  return Array::from_bytes(*dtype, shape, bytes.data());
}

nb::object object_of_array(const Array& array) {
  auto held = std::make_unique<Array>(array.contiguous());
  const size_t size = held->num_bytes();
  std::byte* data = held->raw();
  nb::capsule owner(held.release(), [](void* kept) noexcept { delete static_cast<Array*>(kept); });
  nb::ndarray<nb::numpy, uint8_t, nb::ndim<1>> bytes(data, {size}, owner);
  return nb::module_::import_("cleave.layouts")
      .attr("array_of_parts")(std::string(name(array.dtype())), nb::tuple(nb::cast(array.shape())),
                              bytes);
}

namespace {

// How a module is laid out over virtual devices.
struct RunRequest {
  std::string entry;
  MeshPtr mesh;
  std::string shard;  // annotations, replicated or random:SEED
  std::string plan;   // JSON; empty: none
  bool compile, verify, wide_sums;
};

uint64_t seed_of_shard(const std::string& shard) {
  const auto seed = number_of<uint64_t>(shard.substr(std::string("random:").size()));
  if (!seed) throw_user("shard='{}': the seed must be a number, such as random:1", shard);
  return *seed;
}

MeshPtr mesh_to_run(const Graph& graph, const RunRequest& request) {
  constexpr int64_t kMostDevices = 4096;  // every device is made, with its own code
  if (request.mesh) {
    if (request.mesh->num_devices() > kMostDevices)
      throw_user("run: {} devices; at most {} are run, and cleave.plan takes larger meshes",
                 request.mesh->num_devices(), kMostDevices);
    Mesh mesh = *request.mesh;
    if (mesh.name.empty()) mesh.name = "mesh";
    return std::make_shared<const Mesh>(std::move(mesh));
  }
  for (const MeshPtr& mesh : graph.meshes)
    if (!mesh->axes.empty()) return mesh;
  throw_user("run: the module has no mesh; give one, such as mesh=cleave.Mesh(x=2, y=4)");
}

Program program_of(const Graph& graph, const RunRequest& request) {
  if (!request.plan.empty()) {
    const plan::Plan plan = plan::plan_from_json(request.plan);
    return plan::partition_planned(plan, graph, load_profile(plan.machine));
  }
  Graph sharded = graph;
  MeshPtr mesh;
  if (request.shard == "annotations") {
    if (request.mesh || graph.meshes.empty()) mesh = mesh_to_run(graph, request);
    if (mesh)
      require_annotated_mesh(
          graph, [&](const Mesh& own) { return own.same_devices(*mesh); },
          "mesh " + to_string(*mesh),
          "leave mesh out, or say shard='replicated' or 'random:SEED' to drop them");
    run_propagation_pipeline(sharded, {.runs_along = runs_along, .verified = true});
  } else if (request.shard == "replicated" || request.shard.starts_with("random:")) {
    mesh = mesh_to_run(graph, request);
    drop_annotations(sharded, *mesh);
    sharded.meshes = {mesh};
    if (request.shard != "replicated")
      shard_randomly(sharded, request.entry, mesh, seed_of_shard(request.shard));
  } else {
    throw_user("shard='{}': say annotations, replicated or random:SEED, or give shardings",
               request.shard);
  }
  return partition(
      sharded,
      {.entry = request.entry, .mesh = mesh, .wide_sums = request.wide_sums, .verified = true});
}

std::vector<Array> run_whole(const Graph& graph, const RunRequest& request,
                             const std::vector<Array>& args) {
  if (!request.compile) return run_verified(graph, request.entry, args);
  check_arguments(graph, request.entry, args);
  return Executable(graph, request.entry, {.verified = true}).run(args);
}

std::vector<Array> run_request(const Graph& graph, const RunRequest& request,
                               const std::vector<Array>& args, CommLog& log) {
  if (!request.mesh && request.shard.empty() && request.plan.empty())
    return run_whole(graph, request, args);
  check_arguments(graph, request.entry, args);
  Program program = program_of(graph, request);
  std::vector<Array> results = request.compile
                                   ? Executable(std::move(program)).run(args, {.log = &log})
                                   : Executor(std::move(program)).run(args, {.log = &log});
  if (!request.verify) return results;
  const RunComparison comparison =
      compare_runs(graph, request.entry, args, run_verified(graph, request.entry, args), results,
                   {.narrow_sums = !request.wide_sums});
  if (!comparison.same())
    throw_user("the sharded run gives other numbers than one device: {}",
               fmt::join(comparison.differences, "; "));
  return results;
}

nb::list run(const PyModule& module, const std::vector<nb::object>& arrays, nb::object mesh,
             nb::object shard, const std::string& plan, const std::string& entry, bool compile,
             bool verify, bool wide_sums) {
  RunRequest request{
      entry, mesh.is_none() ? nullptr : mesh_of_object(mesh), "", plan, compile, verify, wide_sums};
  std::shared_ptr<const Graph> graph = module.graph;
  if (nb::isinstance<nb::str>(shard)) {
    request.shard = nb::cast<std::string>(shard);
  } else if (!shard.is_none()) {
    graph = std::make_shared<const Graph>(with_shardings(*graph, entry, mesh, shard));
    request.shard = "annotations";
  } else if (request.mesh) {
    request.shard = "annotations";
  }
  std::vector<Array> args;
  for (const nb::object& array : arrays) args.push_back(array_of_object(array));
  CommLog log{CommLog::Unheard()};
  const std::vector<Array> results =
      interruptible([&](std::stop_token) { return run_request(*graph, request, args, log); });
  CommLog::tell_listeners(log.events());
  nb::list made;
  for (const Array& result : results) made.append(object_of_array(result));
  return made;
}

}  // namespace

void bind_running(nb::module_& m) {
  m.def("run", &run, "module"_a, "arrays"_a, "mesh"_a.none(), "shard"_a.none(), "plan"_a, "entry"_a,
        "compile"_a, "verify"_a, "wide_sums"_a);
}

}  // namespace cleave::python
