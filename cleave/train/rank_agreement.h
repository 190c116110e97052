#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "cleave/core/mesh.h"

namespace cleave::train {

// Runs f(rank) on every rank, and returns when all have finished; alone, f(0). If it throws on one,
// all throw a UserError that names the rank.
void together(std::string_view what, const std::function<void(int rank)>& f);

int number_of_ranks();
// The devices of a mesh that this process has.
std::vector<int64_t> own_devices(const Mesh& mesh);

}  // namespace cleave::train
