#include "cleave/graph/attribute.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "cleave/core/error.h"

namespace cleave {
namespace {

const std::shared_ptr<const Attribute::Storage>& unit_storage() {
  static const auto unit = std::make_shared<const Attribute::Storage>(UnitAttr{});
  return unit;
}

int64_t element_as_int(const Literal& literal, int64_t i) {
  const std::byte* data = literal.data();
  auto read = [&](auto sample) {
    decltype(sample) value;
    std::memcpy(&value, data + i * sizeof(value), sizeof(value));
    return static_cast<int64_t>(value);
  };
  switch (literal.type.dtype) {
    case DType::I64:
    case DType::U64:
    case DType::Index:
      return read(int64_t{});
    case DType::I32:
      return read(int32_t{});
    case DType::U32:
      return read(uint32_t{});
    case DType::I16:
      return read(int16_t{});
    case DType::U16:
      return read(uint16_t{});
    case DType::U8:
      return read(uint8_t{});
    default:
      return read(int8_t{});
  }
}

// A list of integers says something for each dimension or device, so a longer one is a mistake. A
// splat such as dense<0> : tensor<4294967294x2xi64> takes a line of text and 64 GiB as a list.
constexpr int64_t kMostListed = int64_t{1} << 22;

// `what` names the attribute in an error.
std::optional<std::vector<int64_t>> as_ints(const Attribute& attribute, const std::string& what) {
  if (auto* dense = attribute.as<DenseArrayAttr>()) return dense->ints;
  if (auto* elements = attribute.as<ElementsAttr>()) {
    const Literal& literal = elements->literal;
    if (is_float(literal.type.dtype) || is_complex(literal.type.dtype) || !literal.bytes)
      return std::nullopt;
    if (literal.num_elements() > kMostListed)
      throw_user("{}, {}, has more elements than the {} that a list of integers may have", what,
                 to_string(literal.type), kMostListed);
    std::vector<int64_t> values(literal.num_elements());
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = element_as_int(literal, literal.splat ? 0 : static_cast<int64_t>(i));
    return values;
  }
  if (auto* array = attribute.as<ArrayAttr>()) {
    std::vector<int64_t> values;
    for (const Attribute& element : array->elements) {
      auto* integer = element.as<IntegerAttr>();
      if (!integer) return std::nullopt;
      values.push_back(integer->value);
    }
    return values;
  }
  return std::nullopt;
}

}  // namespace

bool Literal::operator==(const Literal& other) const {
  if (type != other.type || splat != other.splat || resource != other.resource) return false;
  if (bytes == other.bytes) return true;
  return bytes && other.bytes && *bytes == *other.bytes;
}

AttrDict::AttrDict() = default;
AttrDict::AttrDict(const AttrDict&) = default;
AttrDict::AttrDict(AttrDict&&) noexcept = default;
AttrDict& AttrDict::operator=(const AttrDict&) = default;
AttrDict& AttrDict::operator=(AttrDict&&) noexcept = default;
AttrDict::~AttrDict() = default;

size_t AttrDict::size() const { return entries_.size(); }

const Attribute* AttrDict::find(std::string_view name) const {
  for (const NamedAttribute& entry : entries_)
    if (entry.name == name) return &entry.value;
  return nullptr;
}

void AttrDict::set(std::string_view name, Attribute value) {
  auto it =
      std::lower_bound(entries_.begin(), entries_.end(), name,
                       [](const NamedAttribute& a, std::string_view b) { return a.name < b; });
  if (it != entries_.end() && it->name == name) {
    it->value = std::move(value);
  } else {
    entries_.insert(it, {std::string(name), std::move(value)});
  }
}

void AttrDict::erase(std::string_view name) {
  std::erase_if(entries_, [&](const NamedAttribute& entry) { return entry.name == name; });
}

int64_t AttrDict::get_int(std::string_view name) const {
  const Attribute* attribute = find(name);
  if (!attribute) throw_user("attribute '{}' is missing", name);
  if (auto* integer = attribute->as<IntegerAttr>()) return integer->value;
  throw_user("attribute '{}' must be an integer", name);
}

int64_t AttrDict::get_int(std::string_view name, int64_t fallback) const {
  return has(name) ? get_int(name) : fallback;
}

double AttrDict::get_float(std::string_view name) const {
  const Attribute* attribute = find(name);
  if (!attribute) throw_user("attribute '{}' is missing", name);
  if (auto* number = attribute->as<FloatAttr>()) return number->value;
  throw_user("attribute '{}' must be a float", name);
}

bool AttrDict::get_bool(std::string_view name, bool fallback) const {
  const Attribute* attribute = find(name);
  if (!attribute) return fallback;
  if (auto* value = attribute->as<bool>()) return *value;
  if (attribute->as<UnitAttr>()) return true;
  throw_user("attribute '{}' must be a bool", name);
}

std::string_view AttrDict::get_string(std::string_view name) const {
  const Attribute* attribute = find(name);
  if (!attribute) throw_user("attribute '{}' is missing", name);
  if (auto* text = attribute->as<StringAttr>()) return text->value;
  if (auto* value = attribute->as<EnumAttr>()) return value->value;
  if (auto* symbol = attribute->as<SymbolRefAttr>()) return symbol->root;
  throw_user("attribute '{}' must be a string, an enum or a symbol", name);
}

std::vector<int64_t> AttrDict::get_ints(std::string_view name) const {
  const Attribute* attribute = find(name);
  if (!attribute) throw_user("attribute '{}' is missing", name);
  const std::string what = fmt::format("attribute '{}'", name);
  if (auto values = as_ints(*attribute, what)) return *values;
  throw_user("{} must be a list of integers", what);
}

std::vector<int64_t> AttrDict::get_ints_or_empty(std::string_view name) const {
  return has(name) ? get_ints(name) : std::vector<int64_t>{};
}

const Literal& AttrDict::get_literal(std::string_view name) const {
  const Attribute* attribute = find(name);
  if (!attribute) throw_user("attribute '{}' is missing", name);
  if (auto* elements = attribute->as<ElementsAttr>()) return elements->literal;
  throw_user("attribute '{}' must be a dense constant", name);
}

bool AttrDict::operator==(const AttrDict& other) const { return entries_ == other.entries_; }

bool FloatAttr::operator==(const FloatAttr& other) const {
  return std::memcmp(&value, &other.value, sizeof(value)) == 0 && type == other.type;
}

bool ArrayAttr::operator==(const ArrayAttr& other) const { return elements == other.elements; }

const Attribute* StructAttr::find(std::string_view field) const {
  for (const NamedAttribute& entry : fields)
    if (entry.name == field) return &entry.value;
  return nullptr;
}

std::vector<int64_t> StructAttr::get_ints_or_empty(std::string_view field) const {
  const Attribute* attribute = find(field);
  if (!attribute) return {};
  const std::string what = fmt::format("#{}: field '{}'", name, field);
  if (auto values = as_ints(*attribute, what)) return *values;
  throw_user("{} must be a list of integers", what);
}

int64_t StructAttr::get_int(std::string_view field, int64_t fallback) const {
  const Attribute* attribute = find(field);
  if (!attribute) return fallback;
  if (auto* integer = attribute->as<IntegerAttr>()) return integer->value;
  throw_user("#{}: field '{}' must be an integer", name, field);
}

bool StructAttr::operator==(const StructAttr& other) const {
  return name == other.name && fields == other.fields;
}

bool AxisListsAttr::operator==(const AxisListsAttr& other) const {
  return name == other.name && lists == other.lists &&
         (mesh == other.mesh || (mesh && other.mesh && *mesh == *other.mesh));
}

bool AllToAllAttr::operator==(const AllToAllAttr& other) const {
  return moves == other.moves &&
         (mesh == other.mesh || (mesh && other.mesh && *mesh == *other.mesh));
}

Attribute::Attribute() : storage_(unit_storage()) {}

bool Attribute::operator==(const Attribute& other) const {
  return storage_ == other.storage_ || *storage_ == *other.storage_;
}

Attribute int_attr(int64_t value, DType type) { return IntegerAttr{value, Type::scalar(type)}; }
Attribute string_attr(std::string value) { return StringAttr{std::move(value)}; }
Attribute ints_attr(std::vector<int64_t> values) {
  return DenseArrayAttr{DType::I64, std::move(values), {}};
}
Attribute literal_attr(Literal literal) { return ElementsAttr{std::move(literal)}; }

}  // namespace cleave
