#pragma once

#include <complex>
#include <concepts>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <ranges>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <typeindex>
#include <variant>
#include <vector>

#include "cleave/runtime/partition_spec.h"
#include "cleave/runtime/promotion.h"
#include "cleave/transforms/fields.h"
#include "cleave/transforms/tree.h"

// Everything about the arguments of a call that a trace of the function may depend on, except for
// the types and layouts of its Tensors: the types of the arguments, the structure of trees (lengths
// of vectors, names in maps, which optionals are empty), and every plain value.
//
//   CallKey::of(x, 0.1) == CallKey::of(y, 0.1)
//   CallKey::of(x, 0.0) != CallKey::of(x, -0.0)             floats by their bits; NaN equals NaN
//   CallKey::of(pair, single) != CallKey::of(single, pair)  vectors of 2 and 1, and of 1 and 2
//
// Values are compared by content: numbers, enums, strings, standard containers of those, what a
// smart pointer points to, and all members of an aggregate, whether `visit` shows them or not. A
// class with private members or constructors has `operator==`, or shows what counts:
//
//   auto compile_key() const { return std::tie(heads_, epsilon_); }
//
// Anything else (pointers, std::function, lambdas with captures) does not compile.
namespace cleave {

namespace key_detail {

// A value that only its operator== can compare.
struct Object {
  virtual ~Object() = default;
  virtual bool equals(const Object& other) const = 0;
};
template <typename T>
struct ObjectOf : Object {
  T value;
  explicit ObjectOf(const T& value) : value(value) {}
  bool equals(const Object& other) const override {
    const auto* same = dynamic_cast<const ObjectOf*>(&other);
    return same && static_cast<bool>(same->value == value);
  }
};

struct ArgumentKey {
  std::string bytes;
  std::vector<std::shared_ptr<const Object>> objects;
  size_t tensors = 0;
  std::string text;  // of a plain value, for messages

  bool operator==(const ArgumentKey& other) const;
  void add_word(uint64_t word);
  void add_text(std::string_view text);
  void add_real(long double value);
};

template <typename T>
concept HasCompileKey = requires(const T& t) {
  t.compile_key();
};
template <typename T>
struct IsVariant : std::false_type {};
template <typename... T>
struct IsVariant<std::variant<T...>> : std::true_type {};
template <typename T>
struct IsComplex : std::false_type {};
template <typename T>
struct IsComplex<std::complex<T>> : std::true_type {};
template <typename T>
struct Pointee {
  using Type = void;
};
template <typename T>
struct Pointee<std::shared_ptr<T>> {
  using Type = T;
};
template <typename T, typename D>
struct Pointee<std::unique_ptr<T, D>> {
  using Type = T;
};
template <typename T>
struct IsReference : std::false_type {};
template <typename T>
struct IsReference<std::reference_wrapper<T>> : std::true_type {};
template <typename T>
concept Elements = std::ranges::input_range<const T> &&
    !std::is_same_v<std::remove_cvref_t<std::ranges::range_reference_t<const T>>, T>;
template <typename T>
inline constexpr bool kNever = false;

// `walked`: for_each_leaf comes here too, so that a Tensor here is an argument of the trace.
template <bool walked, typename T>
void add(ArgumentKey& key, const T& value);

template <bool walked, typename T>
void add_members(ArgumentKey& key, const T& tuple) {
  std::apply([&](const auto&... members) { (add<walked>(key, members), ...); }, tuple);
}

template <bool walked, typename T>
void add_elements(ArgumentKey& key, const T& range) {
  key.add_word(static_cast<uint64_t>(std::ranges::distance(range)));
  for (const auto& element : range) add<walked>(key, element);
}

template <bool walked, typename T>
void add_class(ArgumentKey& key, const T& value) {
  if constexpr (HasCompileKey<T>) {
    if constexpr (tree_detail::Shown<T>)
      const_cast<T&>(value).visit([&](const char*, auto& member) { add<walked>(key, member); });
    add<false>(key, value.compile_key());
  } else if constexpr (std::is_aggregate_v<T>) {
    static_assert(count_fields<T>() != kUnknownFields,
                  "compile: the members of this struct can not be seen (one has no default value, "
                  "or there are more than 24); give it `auto compile_key() const`, a tuple of all "
                  "that is not a Tensor");
    add_members<walked && tree_detail::Shown<T>>(key, fields(value));
  } else if constexpr (tree_detail::Shown<T>) {
    static_assert(kNever<T>,
                  "compile: this class shows its Tensors, and may hold other values that nobody "
                  "sees; give it `auto compile_key() const`, a tuple of all that is not a Tensor");
  } else if constexpr (std::equality_comparable<T> && std::copy_constructible<T> &&
                       !std::input_or_output_iterator<T>) {
    key.objects.push_back(std::make_shared<const ObjectOf<T>>(value));
  } else {
    static_assert(
        kNever<T>,
        "compile: an argument, or a member of one, can not be compared with that of "
        "another call, so that a compiled function could not tell them apart; give its "
        "class `operator==` or `auto compile_key() const`, or let the function capture it");
  }
}

template <bool walked, typename T>
void add(ArgumentKey& key, const T& value) {
  using namespace tree_detail;
  if constexpr (std::is_same_v<T, Tensor>) {
    static_assert(walked,
                  "compile: a Tensor stands where transforms do not find it: in a struct without "
                  "`visit`, a variant, or a container other than vector, array, optional, pair, "
                  "tuple and map from std::string");
    ++key.tensors;
  } else if constexpr (std::is_floating_point_v<T>) {
    key.add_real(value);
  } else if constexpr (std::is_arithmetic_v<T>) {
    key.add_word(static_cast<uint64_t>(value));
  } else if constexpr (std::is_enum_v<T>) {
    key.add_word(static_cast<uint64_t>(static_cast<std::underlying_type_t<T>>(value)));
  } else if constexpr (std::is_same_v<T, std::string> || std::is_same_v<T, std::string_view>) {
    key.add_text(value);
  } else if constexpr (std::is_same_v<T, const char*> || std::is_same_v<T, char*>) {
    key.add_word(value != nullptr);
    if (value) key.add_text(value);
  } else if constexpr (std::is_pointer_v<T> && std::is_function_v<std::remove_pointer_t<T>>) {
    key.add_word(reinterpret_cast<uintptr_t>(value));
  } else if constexpr (std::is_pointer_v<T> || std::is_member_pointer_v<T>) {
    static_assert(kNever<T>,
                  "compile: a pointer says nothing about what it points to; pass the value");
  } else if constexpr (IsComplex<T>::value) {
    key.add_real(value.real());
    key.add_real(value.imag());
  } else if constexpr (std::is_same_v<T, Scalar>) {
    key.add_word(static_cast<uint64_t>(value.kind));
    key.add_word(static_cast<uint64_t>(value.integer));
    add<false>(key, value.number);
  } else if constexpr (std::is_same_v<T, SpecEntry>) {
    add<false>(key, value.axes);
    key.add_word(value.is_open);
    add<false>(key, value.importance);
  } else if constexpr (IsSequence<T>::value || IsMap<T>::value) {
    add_elements<walked>(key, value);
  } else if constexpr (IsOptional<T>::value) {
    key.add_word(value.has_value());
    if (value) add<walked>(key, *value);
  } else if constexpr (IsTuple<T>::value) {
    add_members<walked>(key, value);
  } else if constexpr (IsVariant<T>::value) {
    key.add_word(value.index());
    if (!value.valueless_by_exception())
      std::visit([&](const auto& held) { add<false>(key, held); }, value);
  } else if constexpr (IsReference<T>::value) {
    add<false>(key, value.get());
  } else if constexpr (!std::is_void_v<typename Pointee<T>::Type>) {
    using U = std::remove_cv_t<typename Pointee<T>::Type>;
    static_assert(!std::is_polymorphic_v<U> && !std::is_array_v<U> && !std::is_void_v<U>,
                  "compile: what this pointer points to can not be compared; pass the value");
    key.add_word(value != nullptr);
    if (value) add<false>(key, static_cast<const U&>(*value));
  } else if constexpr (Elements<T> && !Shown<T> && !HasCompileKey<T>) {
    add_elements<false>(key, value);
  } else if constexpr (std::is_empty_v<T> && !Shown<T>) {
    // Its type says everything.
  } else {
    add_class<walked>(key, value);
  }
}

template <typename T>
std::string plain_text(const T& value) {
  if constexpr (std::is_arithmetic_v<T>)
    return fmt::format("{}", value);
  else if constexpr (std::is_same_v<T, std::string>)
    return "\"" + value + "\"";
  else
    return {};
}

// Throws UserError if a tree holds Tensors that its `visit` does not show.
void check_shown(size_t argument, size_t tensors, size_t leaves);

}  // namespace key_detail

class CallKey {
 public:
  template <typename... Args>
  static CallKey of(const Args&... args) {
    CallKey key(typeid(std::tuple<Args...>));
    auto one = [&](const auto& arg) {
      key_detail::ArgumentKey& made = key.arguments_.emplace_back();
      key_detail::add<true>(made, arg);
      made.text = key_detail::plain_text(arg);
      size_t leaves = 0;
      for_each_leaf(arg, [&](const std::string&, const Tensor&) { ++leaves; });
      key_detail::check_shown(key.arguments_.size() - 1, made.tensors, leaves);
    };
    (one(args), ...);
    return key;
  }

  bool operator==(const CallKey& other) const {
    return types_ == other.types_ && arguments_ == other.arguments_;
  }
  // "argument 1 was 0.1, and is 0.2": the first difference.
  std::string difference(const CallKey& before) const;

 private:
  explicit CallKey(std::type_index types) : types_(types) {}

  std::type_index types_;
  std::vector<key_detail::ArgumentKey> arguments_;
};

}  // namespace cleave
