#include "cleave/plan/layouts.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "cleave/core/parallel.h"
#include "cleave/core/shard_layout.h"

namespace cleave::plan {
namespace {

void put(std::string& key, int64_t number) {
  key.append(reinterpret_cast<const char*>(&number), sizeof number);
}

void put(std::string& key, const AxisList& axes) {
  for (const AxisRef& ref : axes) {
    key += static_cast<char>(ref.axis + 1);
    put(key, int64_t{ref.pre} << 32 | ref.size);
  }
  key += '\0';
}

void put_shape(std::string& key, const Shape& shape) {
  for (int64_t n : shape) put(key, n);
}

int num_split_axes(const Mesh& mesh) {
  int count = 0;
  for (const MeshAxis& axis : mesh.axes) count += axis.size > 1;
  return count;
}

}  // namespace

bool splits_well(int64_t n, int64_t shards) {
  if (shards == 1) return true;
  const int64_t chunk = (n + shards - 1) / shards;
  return n >= shards && chunk * shards * 4 <= n * 5;
}

namespace {

class Placer {
 public:
  using Fits = std::function<bool(size_t, int64_t)>;
  Placer(const Mesh& mesh, size_t bins, const LayoutChoice& choice, const Fits& fits)
      : mesh_(mesh), choice_(choice), fits_(fits), now_(bins) {
    for (size_t a = 0; a < mesh.axes.size(); ++a)
      if (mesh.axes[a].size > 1) axes_.push_back(static_cast<int>(a));
  }

  std::vector<std::vector<AxisList>> run() {
    place(axes_.size(), -1, false);
    return std::move(all_);
  }

 private:
  // From the last axis to the first; `next` is where the axis after this one went, `in_parts`
  // whether one of those went in parts.
  void place(size_t left, int next, bool in_parts) {
    if (left == 0) return add();
    place(left - 1, -1, in_parts);
    const int axis = axes_[left - 1];
    const AxisRef ref = whole_axis(mesh_, axis);
    const bool follows = !choice_.every && left + 2 <= axes_.size();
    for (size_t b = 0; b < now_.size(); ++b) {
      const bool room_for_both = follows && fits_(b, ref.size * mesh_.axes[axes_[left]].size);
      if (room_for_both && static_cast<int>(b) != next) continue;
      if (!fits_(b, total_size(now_[b]) * ref.size)) continue;
      now_[b].insert(now_[b].begin(), ref);
      place(left - 1, static_cast<int>(b), in_parts);
      now_[b].erase(now_[b].begin());
    }
    if (static_cast<size_t>(axis) >= choice_.parts.size() || follows) return;
    const AxisList& parts = choice_.parts[axis];
    if (parts.size() < 2 || (in_parts && !choice_.every)) return;
    std::vector<int> bins(parts.size(), -1);
    place_parts(parts, bins, parts.size(), left);
  }

  // The parts of an axis, from the last to the first; not all in one bin, and not all in none.
  void place_parts(const AxisList& parts, std::vector<int>& bins, size_t to_go, size_t left) {
    if (to_go == 0) {
      if (std::all_of(bins.begin(), bins.end(), [&](int b) { return b == bins[0]; })) return;
      return place(left - 1, *std::max_element(bins.begin(), bins.end()), true);
    }
    const AxisRef& part = parts[to_go - 1];
    bins[to_go - 1] = -1;
    place_parts(parts, bins, to_go - 1, left);
    for (size_t b = 0; b < now_.size(); ++b) {
      if (!fits_(b, total_size(now_[b]) * part.size)) continue;
      const AxisList before = now_[b];
      now_[b].insert(now_[b].begin(), part);
      merge_neighbours(now_[b]);
      bins[to_go - 1] = static_cast<int>(b);
      place_parts(parts, bins, to_go - 1, left);
      now_[b] = before;
    }
  }

  void add() {
    all_.push_back(now_);
    if (axes_.size() != 2 || !choice_.parts.empty()) return;
    for (size_t b = 0; b < now_.size(); ++b) {
      if (now_[b].size() != 2) continue;
      all_.push_back(now_);
      std::swap(all_.back()[b][0], all_.back()[b][1]);
    }
  }

  const Mesh& mesh_;
  const LayoutChoice& choice_;
  const Fits& fits_;
  std::vector<int> axes_;
  std::vector<AxisList> now_;
  std::vector<std::vector<AxisList>> all_;
};

}  // namespace

std::vector<std::vector<AxisList>> place_axes(const Mesh& mesh, size_t bins,
                                              const LayoutChoice& choice,
                                              const std::function<bool(size_t, int64_t)>& fits) {
  return Placer(mesh, bins, choice, fits).run();
}

ReshardOptions reshard_options(const Mesh& mesh, const std::vector<AxisList>& parts) {
  ReshardOptions options;
  for (const AxisList& of_axis : parts)
    options.parts.insert(options.parts.end(), of_axis.begin(), of_axis.end());
  options.whole_axes = num_split_axes(mesh) > 2 || !options.parts.empty();
  return options;
}

Layouts::Layouts(MeshPtr mesh, const MachineProfile& profile, LayoutChoice choice)
    : mesh_(std::move(mesh)), choice_(std::move(choice)) {
  const MachineProfile shared = shared_by(profile, mesh_->num_devices());
  for (int i = 0; i < kPricers; ++i)
    pricers_.push_back({Resharder(shared, reshard_options(*mesh_, choice_.parts)), {}});
}

bool Layouts::splits(int64_t n, int64_t shards) const {
  if (!splits_well(n, shards)) return false;
  if (choice_.every || n % shards == 0 || num_split_axes(*mesh_) < 4) return true;
  return std::any_of(mesh_->axes.begin(), mesh_->axes.end(),
                     [&](const MeshAxis& axis) { return axis.size == shards; });
}

SpecId Layouts::intern(const ShardingSpec& spec) {
  if (!spec.mesh) return kNoSpec;
  key_.clear();
  key_ += static_cast<char>(spec.rank());
  for (const DimSpec& dim : spec.dims) put(key_, dim.axes);
  put(key_, spec.partial);
  if (spec.is_partial()) key_ += static_cast<char>(spec.partial_op);
  auto [it, is_new] = ids_.try_emplace(key_, static_cast<SpecId>(specs_.size()));
  if (is_new) {
    ShardingSpec copy = spec;
    copy.mesh = mesh_;
    copy.replicated.clear();
    for (DimSpec& dim : copy.dims) {
      dim.open = false;
      dim.priority.reset();
    }
    specs_.push_back(std::move(copy));
  }
  return it->second;
}

SpecId Layouts::replicated(size_t rank) {
  return intern(ShardingSpec::closed_replicated(mesh_, rank));
}

const std::vector<SpecId>& Layouts::candidates(const Shape& shape) {
  std::string key;
  put_shape(key, shape);
  auto [it, is_new] = candidates_.try_emplace(key);
  if (!is_new) return it->second;
  for (const ShardingSpec& spec : candidate_specs(shape)) it->second.push_back(intern(spec));
  return it->second;
}

std::vector<ShardingSpec> Layouts::candidate_specs(const Shape& shape) const {
  std::vector<ShardingSpec> specs;
  auto fits = [&](size_t d, int64_t shards) { return splits(shape[d], shards); };
  for (const std::vector<AxisList>& dims : place_axes(*mesh_, shape.size(), choice_, fits)) {
    specs.push_back(ShardingSpec::closed_replicated(mesh_, shape.size()));
    for (size_t d = 0; d < shape.size(); ++d) specs.back().dims[d].axes = dims[d];
  }
  return specs;
}

int64_t Layouts::bytes(SpecId id, const Type& type) const {
  if (!type.is_tensor() || !type.has_static_shape()) return 0;
  if (id == kNoSpec) return type.byte_count();
  int64_t elements = 1;
  for (size_t d = 0; d < type.shape.size(); ++d) {
    const int64_t shards = total_size(specs_[id].dims[d].axes);
    elements *= (type.shape[d] + shards - 1) / shards;
  }
  return elements * byte_size(type.dtype);
}

int64_t Layouts::shards(SpecId id) const {
  int64_t shards = 1;
  if (id == kNoSpec) return 1;
  for (const DimSpec& dim : specs_[id].dims) shards *= total_size(dim.axes);
  return shards;
}

int Layouts::number(const Type& type) {
  key_.clear();
  put_shape(key_, type.shape);
  key_ += static_cast<char>(type.dtype);
  const int next = static_cast<int>(types_.size());
  const int number = types_.try_emplace(key_, next).first->second;
  if (number < next) return number;
  known_.emplace_back();
  const int turn = static_cast<int>(pricer_of_size_.size()) % kPricers;
  pricer_of_.push_back(pricer_of_size_.try_emplace(type.byte_count(), turn).first->second);
  return number;
}

ReshardPrice& Layouts::known(int type, SpecId from, SpecId to) {
  Known& of = known_[type];
  if (of.place.size() < specs_.size()) of.place.resize(specs_.size(), -1);
  for (SpecId spec : {from, to})
    if (of.place[spec] < 0) of.place[spec] = of.count++;
  const auto a = static_cast<size_t>(of.place[from]), b = static_cast<size_t>(of.place[to]);
  if (of.prices.size() <= a) of.prices.resize(of.count);
  std::vector<ReshardPrice>& row = of.prices[a];
  if (row.size() <= b) {
    ReshardPrice unknown;
    unknown.seconds = std::numeric_limits<double>::quiet_NaN();
    row.resize(of.count, unknown);
  }
  return row[b];
}

ReshardPrice Layouts::price(SpecId from, SpecId to, const Type& type) {
  if (from == to || from == kNoSpec || to == kNoSpec) return {};
  const int t = number(type);
  ReshardPrice& price = known(t, from, to);
  if (std::isnan(price.seconds)) price = search(pricer(t), from, to, type);
  return price;
}

void Layouts::prepare(const std::vector<Reshard>& reshards, int threads) {
  if (!reshard_options(*mesh_, choice_.parts).whole_axes) return;
  // Others are searched one by one, when they are asked for.
  const auto is_even = [](const ShardingSpec& spec, const Shape& shape) {
    bool divides = spec.mesh && spec.dims.size() == shape.size();
    for (size_t d = 0; divides && d < shape.size(); ++d)
      divides = shape[d] % total_size(spec.dims[d].axes) == 0;
    return divides;
  };
  std::vector<int> types;
  for (const Reshard& reshard : reshards) types.push_back(number(*reshard.type));
  run_parallel(kPricers, threads, [&](int p) {
    for (size_t i = 0; i < reshards.size(); ++i) {
      const Reshard& each = reshards[i];
      const Shape& shape = each.type->shape;
      if (pricer_of_[types[i]] == p && is_even(*each.from, shape) && is_even(*each.to, shape))
        pricers_[p].resharder.price(*each.from, *each.to, shape, each.type->dtype);
    }
  });
}

ReshardPlan Layouts::plan(SpecId from, SpecId to, const Type& type) {
  return pricer(number(type)).resharder.plan(specs_[from], specs_[to], type.shape, type.dtype);
}

std::vector<std::vector<ReshardPrice>> Layouts::tables(const std::vector<TableRequest>& requests,
                                                       int threads,
                                                       const std::function<bool()>& stop) {
  std::vector<std::vector<ReshardPrice>> tables(requests.size());
  std::vector<int> types;
  for (const TableRequest& request : requests) types.push_back(number(*request.type));
  run_parallel(kPricers, threads, [&](int p) {
    for (size_t i = 0; i < requests.size(); ++i) {
      if (pricer_of_[types[i]] != p) continue;
      if (stop && stop()) return;
      tables[i] = table(requests[i], types[i]);
    }
  });
  return tables;
}

std::vector<ReshardPrice> Layouts::table(const TableRequest& request, int type) {
  const std::vector<SpecId>&from = *request.from, &to = *request.to;
  std::vector<ReshardPrice> prices;
  if (from[0] == kNoSpec || to[0] == kNoSpec) {
    prices.resize(from.size() * to.size());
    return prices;
  }
  if (reshard_options(*mesh_, choice_.parts).whole_axes) {
    std::vector<const ShardingSpec*> rows, columns;
    for (SpecId id : from) rows.push_back(&specs_[id]);
    for (SpecId id : to) columns.push_back(&specs_[id]);
    return pricer(type).resharder.table(rows, columns, request.type->shape, request.type->dtype);
  }
  prices.reserve(from.size() * to.size());
  for (SpecId a : from)
    for (SpecId b : to) {
      ReshardPrice& price = known(type, a, b);
      if (std::isnan(price.seconds))
        price = a == b ? ReshardPrice{} : search(pricer(type), a, b, *request.type);
      prices.push_back(price);
    }
  return prices;
}

ReshardPrice Layouts::search(Pricer& pricer, SpecId from, SpecId to, const Type& type) const {
  const ShardingSpec &a = specs_[from], &b = specs_[to];
  const int64_t devices = mesh_->num_devices();
  std::vector<std::string> dims;
  for (size_t d = 0; d < type.shape.size(); ++d) {
    if (a.dims[d].axes.empty() && b.dims[d].axes.empty()) continue;
    std::string dim;
    put(dim, a.dims[d].axes);
    put(dim, b.dims[d].axes);
    put(dim, type.shape[d] % devices == 0 ? 0 : type.shape[d]);
    dims.push_back(std::move(dim));
  }
  std::sort(dims.begin(), dims.end());
  std::string key;
  if (dims.empty())
    put(key, type.shape.empty() ? 0 : *std::max_element(type.shape.begin(), type.shape.end()));
  for (const std::string& dim : dims) key += dim;
  put(key, a.partial);
  put(key, b.partial);
  key += static_cast<char>(a.is_partial() ? static_cast<int>(a.partial_op) + 1 : 0);
  key += static_cast<char>(b.is_partial() ? static_cast<int>(b.partial_op) + 1 : 0);
  put(key, type.byte_count());
  auto [it, is_new] = pricer.prices.try_emplace(std::move(key));
  if (is_new) it->second = pricer.resharder.price(a, b, type.shape, type.dtype);
  return it->second;
}

}  // namespace cleave::plan
