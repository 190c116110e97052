#include "cleave/runtime/run_partitions.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "cleave/core/error.h"
#include "cleave/kernels/array.h"
#include "cleave/runtime/executor.h"
#include "cleave/runtime/local_transport.h"
#include "cleave/runtime/run_devices.h"
#include "cleave/spmd/collective_writer.h"
#include "cleave/spmd/op_layouts.h"

namespace cleave {

int64_t num_partitions(const Graph& graph, std::string_view entry) {
  const Function* function = graph.find_function(entry);
  if (!function || !graph.attrs.has("mhlo.num_partitions")) return 1;
  auto is_manual = [](const AttrDict& attrs) {
    const Attribute* sharding = attrs.find("mhlo.sharding");
    const auto* text = sharding ? sharding->as<StringAttr>() : nullptr;
    return text && text->value == "{manual}";
  };
  const bool all = std::ranges::all_of(function->arg_attrs, is_manual) &&
                   std::ranges::all_of(function->result_attrs, is_manual) &&
                   !(function->arg_attrs.empty() && function->result_attrs.empty());
  return all ? graph.attrs.get_int("mhlo.num_partitions") : 1;
}

std::vector<std::vector<Array>> run_partitions(const Graph& graph, std::string_view entry,
                                               const std::vector<std::vector<Array>>& args,
                                               Observer* observer) {
  const auto count = static_cast<int64_t>(args.size());
  for (const std::vector<Array>& own : args) check_arguments(graph, entry, own);
  const auto schedule = std::make_shared<const Schedule>(graph);
  const auto transport = make_local_transport(count);
  std::vector<int64_t> devices(args.size());
  std::iota(devices.begin(), devices.end(), 0);
  std::vector<std::vector<Array>> results(args.size());
  run_devices(*transport, devices, [&](int64_t device) {
    Interpreter interpreter(
        graph, schedule,
        {.transport = transport.get(), .device = device, .grid = {1, count}, .observer = observer});
    results[static_cast<size_t>(device)] =
        interpreter.call(entry, args[static_cast<size_t>(device)]);
  });
  return results;
}

Array padded_to(const Array& part, const Shape& shape) {
  if (part.shape() == shape) return part;
  Array array(part.dtype(), shape);
  const int byte = part.dtype() == DType::Bool ? 1 : bit_width(part.dtype()) < 8 ? 0 : 0xff;
  std::memset(array.raw(), byte, array.num_bytes());
  copy_elements(part, array.slice(Shape(shape.size()), part.shape()));
  return array;
}

Array leading_corner(const Array& array, const Shape& shape) {
  if (array.shape() == shape) return array;
  return array.slice(Shape(shape.size()), shape).contiguous();
}

std::vector<Array> padded_shards(const SingleProgram::Port& port, const Array& whole,
                                 int64_t devices) {
  if (!is_ranked_tensor(port.whole)) return {static_cast<size_t>(devices), whole};
  const Shape padded = padded_shape(port.layout, port.whole.shape, devices);
  std::vector<Array> shards;
  for (int64_t device = 0; device < devices; ++device)
    shards.push_back(padded_to(shard_of(whole, port.layout, device), padded));
  return shards;
}

Array true_shard(const SingleProgram::Port& port, const Array& padded, int64_t device) {
  if (!is_ranked_tensor(port.whole)) return padded;
  return leading_corner(padded, port.layout.box(port.whole.shape, device).size);
}

Array joined_shards(const SingleProgram::Port& port, const std::vector<Array>& padded) {
  if (!is_ranked_tensor(port.whole)) return padded[0];
  std::vector<Array> shards;
  for (size_t device = 0; device < padded.size(); ++device)
    shards.push_back(true_shard(port, padded[device], static_cast<int64_t>(device)));
  return assemble(shards, port.layout, port.whole.shape);
}

}  // namespace cleave
