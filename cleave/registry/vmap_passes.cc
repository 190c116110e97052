#include "cleave/core/error.h"
#include "cleave/graph/op_def.h"
#include "cleave/registry/pass_families.h"
#include "cleave/transforms/vmap.h"

namespace cleave {
namespace {

// "0,none,-1" -> {0, nothing, -1}; one entry stands for all
std::vector<VmapOptions::Dim> parse_dims(const std::string& text, size_t count, const char* what) {
  std::vector<VmapOptions::Dim> dims;
  for (size_t at = 0; at <= text.size() && !text.empty();) {
    const size_t end = std::min(text.find(',', at), text.size());
    const std::string word = text.substr(at, end - at);
    size_t used = 0;
    try {
      if (word == "none") {
        dims.emplace_back();
        used = word.size();
      } else {
        dims.emplace_back(std::stoll(word, &used));
      }
    } catch (const std::exception&) {
      used = std::string::npos;
    }
    if (used != word.size())
      throw_user("cleave-vmap: '{}' in {}={} is neither a dimension nor 'none'", word, what, text);
    at = end + 1;
  }
  if (dims.size() == 1) dims.resize(count, dims[0]);
  return dims;
}

bool is_called(const Graph& graph, const std::string& name) {
  bool called = false;
  graph.walk([&](NodeId id) {
    const Node& node = graph.node(id);
    for (const char* attr : {"callee", "decomposition"})
      called |= node.def->has(kCall) && node.attrs.has(attr) && node.attrs.get_string(attr) == name;
  });
  return called;
}

// The batched function takes the place and the name of the function.
void run_vmap(Graph& graph, const PassOptions& options, PassContext&) {
  const std::string name = options.get("function", "main");
  const Function* function = graph.find_function(name);
  if (!function) throw_user("cleave-vmap: there is no function @{}", name);
  if (!options.has("size")) throw_user("cleave-vmap: give the number of examples, as in size=4");
  if (is_called(graph, name))
    throw_user("cleave-vmap: @{} is called by another function; batch that one", name);
  VmapOptions vmap_options;
  vmap_options.in_dims = parse_dims(options.get("in", "0"), function->arg_types.size(), "in");
  vmap_options.out_dims = parse_dims(options.get("out", "0"), function->result_types.size(), "out");
  vmap_options.size = options.get_int("size");
  vmap_options.spmd_axis = options.get("spmd-axis");
  vmap_options.verified = true;
  const std::string made = vmap(graph, name, vmap_options);
  Function batched = *graph.find_function(made);
  std::erase_if(graph.functions, [&](const Function& f) { return f.name == made; });
  batched.name = name;
  *graph.find_function(name) = std::move(batched);
}

}  // namespace

void register_vmap_passes(PassRegistry& registry) {
  registry.add({"cleave-vmap", {"function", "in", "out", "size", "spmd-axis"}, run_vmap});
}

}  // namespace cleave
