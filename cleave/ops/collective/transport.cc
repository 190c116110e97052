#include "cleave/ops/collective/transport.h"

#include <algorithm>

#include "cleave/core/error.h"
#include "cleave/kernels/combine.h"

namespace cleave {
namespace {

Array piece(const Array& array, int64_t dim, int64_t offset, int64_t size) {
  Shape start(array.rank(), 0), extent = array.shape();
  start[dim] = offset;
  extent[dim] = size;
  return array.slice(start, extent);
}

size_t place_in(const Meeting& meeting, int64_t device) {
  const auto it = std::find(meeting.group.begin(), meeting.group.end(), device);
  internal_check(it != meeting.group.end(),
                 "a device in a collective of a group that it is not in");
  return static_cast<size_t>(it - meeting.group.begin());
}

}  // namespace

Array join(std::span<const Array> parts, int64_t dim) {
  if (parts.size() == 1) return parts[0];
  Shape shape = parts[0].shape();
  shape[dim] = 0;
  for (const Array& part : parts) shape[dim] += part.shape()[dim];
  Array result(parts[0].dtype(), shape);
  int64_t offset = 0;
  for (const Array& part : parts) {
    const int64_t size = part.shape()[dim];
    copy_elements(part, piece(result, dim, offset, size));
    offset += size;
  }
  return result;
}

Array combine(std::span<const Array> parts, const PartReducer& reducer) {
  if (reducer.combine) {
    Array result = parts[0];
    for (size_t i = 1; i < parts.size(); ++i) result = reducer.combine(result, parts[i]);
    return result;
  }
  if (parts.size() == 1) return parts[0];
  std::vector<Array> packed;
  std::vector<const std::byte*> bytes;
  for (const Array& part : parts) bytes.push_back(packed.emplace_back(part.contiguous()).raw());
  Array result(parts[0].dtype(), parts[0].shape());
  combine_parts(reducer.op, result.dtype(), bytes, result.raw(), 0, result.num_elements());
  return result;
}

Array Transport::all_gather(const Meeting& meeting, const Array& part, int64_t dim) {
  return join(gather(meeting, part), dim);
}

Array Transport::all_reduce(const Meeting& meeting, const Array& part, const PartReducer& reducer) {
  return combine(gather(meeting, part), reducer);
}

Array Transport::reduce_scatter(const Meeting& meeting, const Array& part, int64_t dim,
                                std::span<const int64_t> sizes, const PartReducer& reducer) {
  std::vector<Array> outgoing;
  int64_t offset = 0;
  for (int64_t size : sizes) {
    outgoing.push_back(piece(part, dim, offset, size));
    offset += size;
  }
  return combine(exchange(meeting, std::move(outgoing)), reducer);
}

Array Transport::all_to_all(const Meeting& meeting, const Array& part, int64_t split_dim,
                            int64_t concat_dim, std::span<const int64_t> sizes) {
  std::vector<Array> outgoing;
  int64_t offset = 0;
  for (int64_t size : sizes) {
    outgoing.push_back(piece(part, split_dim, offset, size));
    offset += size;
  }
  return join(exchange(meeting, std::move(outgoing)), concat_dim);
}

Array Transport::permute(const Meeting& meeting, const Array& part,
                         std::span<const std::pair<int64_t, int64_t>> pairs) {
  std::vector<Array> outgoing(meeting.group.size());
  for (const auto& [source, target] : pairs)
    if (source == meeting.device) outgoing[place_in(meeting, target)] = part;
  std::vector<bool> comes(meeting.group.size(), false);
  for (const auto& [source, target] : pairs)
    if (target == meeting.device) comes[place_in(meeting, source)] = true;
  const std::vector<Array> incoming = exchange(meeting, std::move(outgoing), comes);
  for (const auto& [source, target] : pairs)
    if (target == meeting.device) return incoming[place_in(meeting, source)];
  return {};
}

Array Transport::broadcast(const Meeting& meeting, const Array& part, int64_t root) {
  std::vector<Array> outgoing(meeting.group.size());
  if (meeting.device == root) outgoing.assign(meeting.group.size(), part);
  std::vector<bool> comes(meeting.group.size(), false);
  comes[place_in(meeting, root)] = true;
  return exchange(meeting, std::move(outgoing), comes)[place_in(meeting, root)];
}

}  // namespace cleave
