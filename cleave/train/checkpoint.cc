#include "cleave/train/checkpoint.h"

#include <algorithm>
#include <set>

#include "cleave/core/error.h"
#include "cleave/core/near_names.h"
#include "cleave/kernels/elementwise.h"
#include "cleave/runtime/world.h"
#include "cleave/spmd/transfer.h"
#include "cleave/train/rank_agreement.h"
#include "cleave/train/tensor_store.h"

namespace cleave::train {
namespace {

// A leaf and the tensor of a file that it is, or is a part of.
struct Found {
  ForeignName how;
  const StoredWhole* stored = nullptr;
};

ShardSlice reversed(ShardSlice slice) {
  std::reverse(slice.offset.begin(), slice.offset.end());
  std::reverse(slice.size.begin(), slice.size.end());
  return slice;
}

// The shape that the file must have for a leaf.
Shape stored_shape(const Shape& leaf, const ForeignName& how) {
  Shape shape = leaf;
  if (how.parts > 1 && !shape.empty()) shape.back() *= how.parts;
  if (how.transpose) std::reverse(shape.begin(), shape.end());
  return shape;
}

class Loader {
 public:
  Loader(const std::filesystem::path& path, const LoadOptions& options)
      : store_(path), options_(options) {}

  std::vector<Tensor> load(const NamedLeaves& like, LoadReport& report) {
    std::vector<Found> found;
    for (size_t i = 0; i < like.size(); ++i)
      found.push_back(find(like.names[i], like.values[i], report));
    check_missing(report);
    note_extra(found, report);
    std::vector<Tensor> loaded;
    for (size_t i = 0; i < like.size(); ++i)
      loaded.push_back(found[i].stored ? read(found[i], like.values[i]) : like.values[i]);
    report.bytes = bytes_;
    return loaded;
  }

 private:
  Found find(const std::string& ours, const Tensor& leaf, LoadReport& report) const {
    const auto how = foreign_name(options_.names, ours);
    if (!how) {
      if (!options_.allow_missing)
        throw_user("{}: no rule says what '{}' is called there", store_.path().string(), ours);
      report.missing.push_back(ours);
      return {};
    }
    const auto stored = store_.tensors().find(how->name);
    if (stored == store_.tensors().end()) {
      report.missing.push_back(how->name);
      return {};
    }
    check_type(ours, *how, leaf, stored->second);
    return {*how, &stored->second};
  }

  void check_type(const std::string& ours, const ForeignName& how, const Tensor& leaf,
                  const StoredWhole& stored) const {
    const Shape expected = stored_shape(leaf.shape(), how);
    if (stored.shape != expected)
      throw_user("{}: '{}' is a tensor<{}x{}>; '{}' takes tensor<{}x{}>{}", store_.path().string(),
                 how.name, to_string(stored.shape), name(stored.dtype), ours, to_string(expected),
                 name(leaf.dtype()), hint(how, stored.shape, expected));
    if (stored.dtype != leaf.dtype() && !options_.convert)
      throw_user("{}: '{}' is of {}, and '{}' of {}; load it with .convert = true",
                 store_.path().string(), how.name, name(stored.dtype), ours, name(leaf.dtype()));
  }

  static std::string hint(const ForeignName& how, Shape stored, const Shape& expected) {
    std::reverse(stored.begin(), stored.end());
    if (stored != expected) return {};
    return how.transpose ? "; without .transpose it fits" : "; with .transpose it fits";
  }

  void check_missing(const LoadReport& report) const {
    if (report.missing.empty() || options_.allow_missing) return;
    std::vector<std::string> names;
    for (const auto& [name, stored] : store_.tensors()) names.push_back(name);
    const auto near = near_names(report.missing[0], names, 1);
    throw_user(
        "{}: there is no tensor '{}'{}{}; load with .allow_missing = true to keep what is "
        "there",
        store_.path().string(), report.missing[0],
        report.missing.size() == 1 ? std::string()
                                   : fmt::format(", nor {} others", report.missing.size() - 1),
        near.empty() ? std::string() : fmt::format("; the nearest is '{}'", near[0]));
  }

  void note_extra(const std::vector<Found>& found, LoadReport& report) const {
    std::set<std::string> taken;
    for (const Found& one : found) taken.insert(one.how.name);
    for (const auto& [name, stored] : store_.tensors())
      if (!taken.contains(name)) report.extra.push_back(name);
    if (report.extra.empty() || options_.allow_extra) return;
    throw_user(
        "{}: nothing takes the tensor '{}'{}; load with .allow_extra = true to leave such "
        "tensors alone",
        store_.path().string(), report.extra[0],
        report.extra.size() == 1 ? std::string()
                                 : fmt::format(", nor {} others", report.extra.size() - 1));
  }

  // A box of a leaf.
  Array read_box(const Found& found, const Tensor& leaf, ShardSlice box) {
    if (found.how.parts > 1) box.offset.back() += found.how.part * leaf.shape().back();
    if (found.how.transpose) box = reversed(std::move(box));
    Array array = store_.read(found.how.name, box);
    bytes_ += static_cast<int64_t>(array.num_bytes());
    if (found.how.transpose) {
      Shape order;
      for (size_t d = array.rank(); d > 0; --d) order.push_back(static_cast<int64_t>(d) - 1);
      array = array.transpose(order).copy();
    }
    return array.dtype() == leaf.dtype() ? array : convert(array, leaf.dtype());
  }

  Tensor read(const Found& found, const Tensor& leaf) {
    if (!leaf.mesh())
      return Tensor::from(read_box(found, leaf, {Shape(leaf.shape().size(), 0), leaf.shape()}));
    ShardingSpec spec = leaf.sharding();
    spec.partial.clear();
    const Layout layout{spec, nullptr};
    const auto devices = static_cast<size_t>(spec.mesh->num_devices());
    std::vector<Array> shards(devices);
    std::vector<std::pair<ShardSlice, size_t>> done;  // replicas are copied, not read again
    for (const int64_t device : own_devices(*spec.mesh)) {
      const auto place = static_cast<size_t>(device);
      const ShardSlice box = layout.box(leaf.shape(), device);
      const auto same = std::find_if(done.begin(), done.end(),
                                     [&](const auto& before) { return before.first == box; });
      shards[place] = same != done.end() ? shards[same->second].copy() : read_box(found, leaf, box);
      if (same == done.end()) done.emplace_back(box, place);
    }
    return Tensor::from_shards(std::move(shards), leaf.shape(), spec);
  }

  TensorStore store_;
  const LoadOptions& options_;
  int64_t bytes_ = 0;
};

}  // namespace

void save_leaves(const std::filesystem::path& path, const NamedLeaves& leaves,
                 const SaveOptions& options) {
  std::map<std::string, Array> arrays;
  evaluate(leaves.values);
  for (size_t i = 0; i < leaves.size(); ++i) {
    const auto how = foreign_name(options.names, leaves.names[i]);
    if (!how)
      throw_user("{}: no rule says what '{}' is to be called there", path.string(),
                 leaves.names[i]);
    if (how->parts > 1)
      throw_user("{}: '{}' is a part of '{}'; parts can be loaded, but not saved", path.string(),
                 leaves.names[i], how->name);
    Array whole = leaves.values[i].to_host();
    if (how->transpose) {
      Shape order;
      for (size_t d = whole.rank(); d > 0; --d) order.push_back(static_cast<int64_t>(d) - 1);
      whole = whole.transpose(order).contiguous();
    }
    if (!arrays.emplace(how->name, std::move(whole)).second)
      throw_user("{}: two leaves are called '{}', the second is '{}'", path.string(), how->name,
                 leaves.names[i]);
  }
  together("the saving of tensors", [&](int rank) {
    if (rank == 0) write_safetensors(path, arrays, options.metadata);
  });
}

std::vector<Tensor> load_leaves(const std::filesystem::path& path, const NamedLeaves& like,
                                const LoadOptions& options, LoadReport* report) {
  LoadReport own;
  LoadReport& told = report ? *report : own;
  told = {};
  std::vector<Tensor> loaded;
  together("the loading of tensors", [&](int) { loaded = Loader(path, options).load(like, told); });
  return loaded;
}

}  // namespace cleave::train
