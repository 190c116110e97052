#include "cleave/train/rank_agreement.h"

#include <numeric>
#include <string>

#include "cleave/core/error.h"
#include "cleave/kernels/array.h"
#include "cleave/runtime/world.h"

namespace cleave::train {
namespace {

Array array_of(const std::string& text) {
  return Array::from_bytes(DType::U8, {static_cast<int64_t>(text.size())}, text.data());
}
std::string text_in(const Array& array) {
  const Array packed = array.contiguous();
  return {packed.data<char>(), packed.num_bytes()};
}

}  // namespace

void together(std::string_view what, const std::function<void(int rank)>& f) {
  World* world = World::of_process();
  if (!world) return f(0);
  std::string error;
  try {
    f(world->rank());
  } catch (const UserError& failed) {
    error = failed.what();
    if (error.empty()) error = "it failed";
  }
  const auto all = world->gather({array_of(error)}, what);
  for (size_t rank = 0; rank < all.size(); ++rank)
    if (all[rank][0].num_elements() > 0) throw_user("rank {}: {}", rank, text_in(all[rank][0]));
}

int number_of_ranks() {
  const World* world = World::of_process();
  return world ? world->size() : 1;
}

std::vector<int64_t> own_devices(const Mesh& mesh) {
  if (const World* world = World::of_process()) return world->devices_of(mesh);
  std::vector<int64_t> all(static_cast<size_t>(mesh.num_devices()));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

}  // namespace cleave::train
