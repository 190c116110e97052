#include "cleave/runtime/agreement.h"

#include <algorithm>
#include <cstring>

#include "cleave/core/error.h"
#include "cleave/graph/text/text.h"

namespace cleave {
namespace {

// A number that tells texts and bytes apart, eight bytes at a time.
class Digest {
 public:
  void add(const void* data, size_t size) {
    const auto* bytes = static_cast<const unsigned char*>(data);
    add(size);
    for (; size >= 8; bytes += 8, size -= 8) {
      uint64_t word;
      std::memcpy(&word, bytes, 8);
      add(word);
    }
    uint64_t rest = 0;
    if (size > 0) std::memcpy(&rest, bytes, size);
    add(rest);
  }
  void add(std::string_view text) { add(text.data(), text.size()); }
  void add(uint64_t word) {
    hash_ = (hash_ ^ word) * 0x9E3779B97F4A7C15u;
    hash_ ^= hash_ >> 29;
  }
  uint64_t value() const { return hash_; }

 private:
  uint64_t hash_ = 1469598103934665603u;
};

void add_attributes(Digest& digest, const AttrDict& attrs) {
  for (const NamedAttribute& attr : attrs.entries()) {
    digest.add(attr.name);
    const auto* elements = attr.value.as<ElementsAttr>();
    if (elements && elements->literal.bytes) {
      const Literal& literal = elements->literal;
      digest.add(to_string(literal.type));
      digest.add(literal.bytes->data(), literal.bytes->size());
    } else {
      digest.add(to_string(attr.value));
    }
  }
}

std::vector<uint64_t> node_digests(const Graph& graph, std::vector<NodeId>& nodes) {
  Digest meshes;
  for (const MeshPtr& mesh : graph.meshes) meshes.add(to_string(*mesh));
  std::vector<uint64_t> digests{meshes.value()};
  nodes.push_back({});
  for (const Function& function : graph.functions) {
    Digest head;
    head.add(function.name);
    for (const Type& type : function.arg_types) head.add(to_string(type));
    for (const AttrDict& attrs : function.arg_attrs) add_attributes(head, attrs);
    for (const AttrDict& attrs : function.result_attrs) add_attributes(head, attrs);
    nodes.push_back({});
    digests.push_back(head.value());
    if (!function.body.valid()) continue;
    graph.walk(function.body, [&](NodeId id) {
      const Node& node = graph.node(id);
      Digest digest;
      digest.add(node.name());
      for (ValueId operand : node.operands) digest.add(operand.index);
      for (ValueId result : node.results) digest.add(to_string(graph.type(result)));
      add_attributes(digest, node.attrs);
      nodes.push_back(id);
      digests.push_back(digest.value());
    });
  }
  return digests;
}

Array numbers(const std::vector<uint64_t>& values) {
  return Array::from_bytes(DType::U64, {static_cast<int64_t>(values.size())}, values.data());
}
Array text_array(const std::string& text) {
  return Array::from_bytes(DType::U8, {static_cast<int64_t>(text.size())}, text.data());
}
std::string text_in(const Array& array) {
  return {reinterpret_cast<const char*>(array.raw()), array.num_bytes()};
}

// The ranks whose arrays are not those of rank 0: rank 2; ranks 1, 2 and 5.
std::vector<int> others(const std::vector<std::vector<Array>>& all, size_t index) {
  std::vector<int> ranks;
  for (size_t rank = 1; rank < all.size(); ++rank)
    if (all[rank].size() != all[0].size() || !identical(all[rank][index], all[0][index]))
      ranks.push_back(static_cast<int>(rank));
  return ranks;
}
std::string names_of(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  constexpr size_t kMost = 8;
  for (size_t i = 0; i < ranks.size() && i < kMost; ++i)
    text += fmt::format("{}{}", i == 0 ? "" : i + 1 == ranks.size() ? " and " : ", ", ranks[i]);
  return text + (ranks.size() > kMost ? " and others" : "");
}

// An op in a message: its name and attributes, not too long.
std::string text_of(const Graph& graph, NodeId id) {
  if (!id.valid()) return "a mesh, or the type of a function";
  const Node& node = graph.node(id);
  std::string text = node.name();
  for (const NamedAttribute& attr : node.attrs.entries())
    text += fmt::format(" {} = {}", attr.name, to_string(attr.value));
  constexpr size_t kMost = 120;
  return text.size() > kMost ? text.substr(0, kMost) + " ..." : text;
}

}  // namespace

void require_same_facts(World& world, const std::vector<RankFact>& facts) {
  std::vector<Array> own;
  for (const RankFact& fact : facts) own.push_back(text_array(fact.value));
  const auto all = world.gather(std::move(own), "comparing what the ranks were given");
  for (size_t i = 0; i < facts.size(); ++i)
    if (const std::vector<int> ranks = others(all, i); !ranks.empty())
      throw_user("the ranks were not given the same: {} is '{}' on rank 0 and '{}' on {}",
                 facts[i].name, text_in(all[0][i]), text_in(all[static_cast<size_t>(ranks[0])][i]),
                 names_of(ranks));
}

void require_same_graph(World& world, const Graph& graph, std::string_view what) {
  std::vector<NodeId> nodes;
  const std::vector<uint64_t> own = node_digests(graph, nodes);
  Digest whole;
  for (uint64_t digest : own) whole.add(digest);
  const auto all = world.gather({numbers({whole.value()})}, "comparing the ranks' programs");
  if (others(all, 0).empty()) return;
  // Where? All ranks know that they differ, and look closer.
  const auto closer = world.gather({numbers(own)}, "finding where the ranks' programs differ");
  size_t place = SIZE_MAX;
  std::vector<int> ranks;
  for (size_t rank = 1; rank < closer.size(); ++rank) {
    const Array &first = closer[0][0], &other = closer[rank][0];
    const int64_t n = std::min(first.num_elements(), other.num_elements());
    const auto* a = first.data<uint64_t>();
    const auto* b = other.data<uint64_t>();
    const auto at = static_cast<size_t>(std::mismatch(a, a + n, b).first - a);
    if (at == static_cast<size_t>(n) && first.num_elements() == other.num_elements()) continue;
    if (at < place) ranks.clear();
    place = std::min(place, at);
    if (at == place) ranks.push_back(static_cast<int>(rank));
  }
  internal_check(!ranks.empty(), "ranks that differ nowhere");
  const std::string here = place < nodes.size() ? text_of(graph, nodes[place]) : "not there";
  const auto texts = world.gather({text_array(here)}, "saying where the ranks' programs differ");
  throw_user("the ranks run different {}: op {} is [{}] on rank 0 and [{}] on {}", what, place,
             text_in(texts[0][0]), text_in(texts[static_cast<size_t>(ranks[0])][0]),
             names_of(ranks));
}

void require_same_arguments(World& world, std::span<const Array> arguments) {
  std::vector<uint64_t> own;
  for (const Array& argument : arguments) {
    const Array packed = argument.contiguous();
    Digest digest;
    digest.add(to_string(Type::tensor(packed.dtype(), packed.shape())));
    digest.add(packed.raw(), packed.num_bytes());
    own.push_back(digest.value());
  }
  const auto all = world.gather({numbers(own)}, "comparing the ranks' arguments");
  const std::vector<int> ranks = others(all, 0);
  if (ranks.empty()) return;
  const Array &first = all[0][0], &other = all[static_cast<size_t>(ranks[0])][0];
  int64_t i = 0;
  while (i < std::min(first.num_elements(), other.num_elements()) &&
         first.data<uint64_t>()[i] == other.data<uint64_t>()[i])
    ++i;
  throw_user(
      "the ranks were given different arguments: argument {} is another on {} than on rank 0", i,
      names_of(ranks));
}

}  // namespace cleave
