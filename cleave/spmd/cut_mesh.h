#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "cleave/core/sharding.h"

namespace cleave {

// A mesh with axes cut where specs lie by parts of them: frameworks know whole axes alone, and a
// mesh of more axes over the same devices says the same.
//
//   <["data"=2, "model"=8]>, [{"model":(1)2}, {}]   ->   <["data"=2, "model_1"=2, "model_2"=4]>
class CutMesh {
 public:
  CutMesh(MeshPtr mesh, std::span<const ShardingSpec> specs);

  const MeshPtr& mesh() const { return fine_; }
  ShardingSpec refined(const ShardingSpec& spec) const;
  // "model=8 is model_1=2, model_2=4": a line for each axis that was cut.
  std::vector<std::string> notes() const;

 private:
  void note(const AxisList& axes);
  std::string free_name(const std::string& axis, size_t number) const;
  AxisList refined(const AxisList& axes) const;

  MeshPtr mesh_;
  std::vector<std::set<int64_t>> cuts_;  // by axis: where it is cut, 1 and its size included
  std::vector<int32_t> first_;           // by axis: its first part
  MeshPtr fine_;
};

}  // namespace cleave
