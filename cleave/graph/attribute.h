#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "cleave/core/all_to_all.h"
#include "cleave/core/sharding.h"
#include "cleave/core/sharding_rule.h"
#include "cleave/graph/literal.h"
#include "cleave/graph/type.h"

namespace cleave {

class Attribute;
struct NamedAttribute;

// Named attributes sorted by name, as MLIR keeps them.
class AttrDict {
 public:
  AttrDict();
  AttrDict(const AttrDict&);
  AttrDict(AttrDict&&) noexcept;
  AttrDict& operator=(const AttrDict&);
  AttrDict& operator=(AttrDict&&) noexcept;
  ~AttrDict();

  const Attribute* find(std::string_view name) const;  // null if absent
  bool has(std::string_view name) const { return find(name) != nullptr; }
  void set(std::string_view name, Attribute value);
  void erase(std::string_view name);
  bool empty() const { return entries_.empty(); }
  size_t size() const;
  const std::vector<NamedAttribute>& entries() const { return entries_; }

  // Typed access. Without a fallback, each throws UserError that names the attribute if it is
  // absent or of another kind.
  int64_t get_int(std::string_view name) const;
  int64_t get_int(std::string_view name, int64_t fallback) const;
  double get_float(std::string_view name) const;
  bool get_bool(std::string_view name, bool fallback) const;
  std::string_view get_string(std::string_view name) const;    // string, enum or symbol
  std::vector<int64_t> get_ints(std::string_view name) const;  // array<i64: 1>, dense<1> or [1, 2]
  std::vector<int64_t> get_ints_or_empty(std::string_view name) const;
  const Literal& get_literal(std::string_view name) const;
  bool operator==(const AttrDict&) const;

 private:
  std::vector<NamedAttribute> entries_;
};

struct UnitAttr {
  bool operator==(const UnitAttr&) const = default;
};
struct IntegerAttr {
  int64_t value;
  Type type;
  bool operator==(const IntegerAttr&) const = default;
};
struct FloatAttr {
  double value;
  Type type;
  bool operator==(const FloatAttr& other) const;  // NaN equals itself
};
struct StringAttr {
  std::string value;
  bool operator==(const StringAttr&) const = default;
};
struct TypeAttr {
  Type type;
  bool operator==(const TypeAttr&) const = default;
};
// @a or @a::@b
struct SymbolRefAttr {
  std::string root;
  std::vector<std::string> nested;
  bool operator==(const SymbolRefAttr&) const = default;
};
struct ArrayAttr {
  std::vector<Attribute> elements;
  bool operator==(const ArrayAttr& other) const;
};
// array<i64: 1, 2>, array<i1: true>; `floats` if the dtype is a float
struct DenseArrayAttr {
  DType dtype;
  std::vector<int64_t> ints;
  std::vector<double> floats;
  bool operator==(const DenseArrayAttr&) const = default;
};
struct ElementsAttr {
  Literal literal;
  bool operator==(const ElementsAttr&) const = default;
};
struct DictAttr {
  AttrDict dict;
  bool operator==(const DictAttr&) const = default;
};
// #stablehlo.gather<offset_dims = [0], index_vector_dim = 1>: name "stablehlo.gather", fields in
// the order of the text
struct StructAttr {
  std::string name;
  std::vector<NamedAttribute> fields;
  const Attribute* find(std::string_view field) const;
  std::vector<int64_t> get_ints_or_empty(std::string_view field) const;
  int64_t get_int(std::string_view field, int64_t fallback) const;
  bool operator==(const StructAttr& other) const;
};
// #stablehlo<comparison_direction EQ>: name "stablehlo.comparison_direction", value "EQ"
struct EnumAttr {
  std::string name;
  std::string value;
  bool operator==(const EnumAttr&) const = default;
};
struct MeshAttr {
  Mesh mesh;
  bool operator==(const MeshAttr&) const = default;
};
struct ShardingAttr {
  ShardingSpec spec;
  bool operator==(const ShardingAttr&) const = default;
};
// #sdy.sharding_per_value<[<@mesh, [...]>, ...]>
struct ShardingsAttr {
  std::vector<ShardingSpec> specs;
  bool operator==(const ShardingsAttr&) const = default;
};
// #sdy<manual_axes{"a", "b"}>
struct ManualAxesAttr {
  std::vector<std::string> axes;
  bool operator==(const ManualAxesAttr&) const = default;
};
// The axes of a collective, per dimension or as one list: [{"x"}, {}] or {"x", "y"}. The mesh is
// that of the op's sharding attribute.
struct AxisListsAttr {
  std::string name;  // "sdy.list_of_axis_ref_lists" or "sdy.axis_ref_list"
  std::vector<AxisList> lists;
  MeshPtr mesh;
  bool operator==(const AxisListsAttr& other) const;
};
// The moves of an sdy.all_to_all:  [{"x"}: 0->2, {"y"}: 1->3]
struct AllToAllAttr {
  std::vector<AllToAllMove> moves;
  MeshPtr mesh;
  bool operator==(const AllToAllAttr& other) const;
};
struct ShardingRuleAttr {
  std::shared_ptr<const OpShardingRule> rule;
  bool operator==(const ShardingRuleAttr& other) const { return *rule == *other.rule; }
};
// Anything else, as balanced text that prints as it was read.
struct OpaqueAttr {
  std::string text;
  bool operator==(const OpaqueAttr&) const = default;
};

// An immutable attribute value; copies share it.
class Attribute {
 public:
  using Storage =
      std::variant<UnitAttr, bool, IntegerAttr, FloatAttr, StringAttr, TypeAttr, SymbolRefAttr,
                   ArrayAttr, DenseArrayAttr, ElementsAttr, DictAttr, StructAttr, EnumAttr,
                   MeshAttr, ShardingAttr, ShardingsAttr, ManualAxesAttr, AxisListsAttr,
                   AllToAllAttr, ShardingRuleAttr, OpaqueAttr>;

  Attribute();  // unit
  template <typename T>
  requires(!std::is_same_v<std::decay_t<T>, Attribute>) Attribute(T&& value)
      : storage_(std::make_shared<const Storage>(std::in_place_type<std::decay_t<T>>,
                                                 std::forward<T>(value))) {}

  // The value as a T, or null.
  template <typename T>
  const T* as() const {
    return std::get_if<T>(storage_.get());
  }
  const Storage& storage() const { return *storage_; }
  bool operator==(const Attribute& other) const;

 private:
  std::shared_ptr<const Storage> storage_;
};

struct NamedAttribute {
  std::string name;
  Attribute value;
  bool operator==(const NamedAttribute&) const = default;
};

// Attributes that code writes often.
Attribute int_attr(int64_t value, DType type = DType::I64);
Attribute string_attr(std::string value);
Attribute ints_attr(std::vector<int64_t> values);  // array<i64: ...>
Attribute literal_attr(Literal literal);

}  // namespace cleave
