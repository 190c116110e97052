#include <nlohmann/json.hpp>

#include "cleave/core/error.h"
#include "cleave/core/input_file.h"
#include "cleave/train/tensor_store.h"

namespace cleave::train {
namespace {

using nlohmann::json;

constexpr const char* kFormat = "cleave checkpoint 1";

json sizes_json(const Shape& sizes) { return std::vector<int64_t>(sizes.begin(), sizes.end()); }

Shape sizes_of(const json& list) {
  Shape sizes;
  for (const json& size : list) {
    if (!size.is_number_unsigned()) throw json::other_error::create(500, "a size", nullptr);
    sizes.push_back(size.get<int64_t>());
  }
  return sizes;
}

DType dtype_named(const std::string& text) {
  const auto dtype = dtype_from_name(text);
  if (!dtype) throw json::other_error::create(500, "a dtype", nullptr);
  return *dtype;
}

PlainValue plain_value(const json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number_integer()) return value.get<int64_t>();
  if (value.is_number()) return value.get<double>();
  return value.get<std::string>();
}

StoredWhole parse_whole(const std::string& name, const json& entry, size_t files) {
  StoredWhole whole{
      dtype_named(entry.at("dtype").get<std::string>()), sizes_of(entry.at("shape")), {}};
  for (const json& piece : entry.at("pieces")) {
    StoredPiece one{piece.at("file").get<size_t>(),
                    {},
                    {sizes_of(piece.at("offset")), sizes_of(piece.at("size"))}};
    bool fits = one.file < files && one.place.offset.size() == whole.shape.size() &&
                one.place.size.size() == whole.shape.size();
    for (size_t d = 0; fits && d < whole.shape.size(); ++d)
      fits = one.place.offset[d] + one.place.size[d] <= whole.shape[d];
    if (!fits) throw json::other_error::create(500, "a piece", nullptr);
    one.key = piece_key(name, whole.shape, one.place);
    whole.pieces.push_back(std::move(one));
  }
  return whole;
}

template <typename T>
const T& value_as(const PlainValues& values, const std::string& name, const char* kind) {
  const auto found = values.find(name);
  if (found == values.end()) throw_user("the checkpoint has no value '{}'", name);
  if (const T* value = std::get_if<T>(&found->second)) return *value;
  throw_user("the value '{}' of the checkpoint is not {}", name, kind);
}

}  // namespace

std::string piece_key(const std::string& name, const Shape& shape, const ShardSlice& place) {
  if (place.size == shape) return name;
  std::string key = name + "@";
  for (size_t d = 0; d < place.offset.size(); ++d)
    key += (d ? "," : "") + std::to_string(place.offset[d]);
  return key;
}

std::string to_json(const CheckpointIndex& index) {
  json values = json::object(), tensors = json::object();
  for (const auto& [name, value] : index.values)
    std::visit([&](const auto& plain) { values[name] = plain; }, value);
  for (const auto& [name, whole] : index.tensors) {
    json pieces = json::array();
    for (const StoredPiece& piece : whole.pieces)
      pieces.push_back({{"file", piece.file},
                        {"offset", sizes_json(piece.place.offset)},
                        {"size", sizes_json(piece.place.size)}});
    tensors[name] = {{"dtype", std::string(cleave::name(whole.dtype))},
                     {"shape", sizes_json(whole.shape)},
                     {"pieces", std::move(pieces)}};
  }
  return json{{"format", kFormat},
              {"step", index.step},
              {"files", index.files},
              {"values", std::move(values)},
              {"tensors", std::move(tensors)}}
      .dump(1);
}

CheckpointIndex read_index(const std::filesystem::path& path) {
  const json text = json::parse(read_input_file(path.string()), nullptr, false);
  if (!text.is_object() || text.value("format", json()) != kFormat)
    throw_user("{}: not the index of a checkpoint: its format is not '{}'", path.string(), kFormat);
  try {
    CheckpointIndex index;
    index.step = text.at("step").get<int64_t>();
    index.files = text.at("files").get<std::vector<std::string>>();
    for (const auto& [name, value] : text.at("values").items())
      index.values[name] = plain_value(value);
    for (const auto& [name, entry] : text.at("tensors").items())
      index.tensors[name] = parse_whole(name, entry, index.files.size());
    return index;
  } catch (const json::exception& error) {
    throw_user("{}: the index of this checkpoint is damaged: {}", path.string(), error.what());
  }
}

int64_t integer_of(const PlainValues& values, const std::string& name) {
  return value_as<int64_t>(values, name, "an integer");
}
double number_of(const PlainValues& values, const std::string& name) {
  const auto found = values.find(name);
  if (found != values.end() && std::holds_alternative<int64_t>(found->second))
    return static_cast<double>(std::get<int64_t>(found->second));
  return value_as<double>(values, name, "a number");
}
const std::string& text_of(const PlainValues& values, const std::string& name) {
  return value_as<std::string>(values, name, "text");
}

}  // namespace cleave::train
