#include <gtest/gtest.h>

#include <cstring>

#include "cleave/graph/op_def.h"
#include "cleave/runtime/executor.h"
#include "cleave/spmd/partition.h"
#include "cleave/spmd/random_shardings.h"

namespace cleave {
namespace {

Array counting(DType dtype, const Shape& shape) {
  Array array(dtype, shape);
  for (int64_t i = 0; i < array.num_elements(); ++i) {
    if (dtype == DType::I32) array.data<int32_t>()[i] = static_cast<int32_t>(i + 1);
    if (dtype == DType::F32) array.data<float>()[i] = static_cast<float>(i) - 3.5f;
    if (dtype == DType::Bool) array.data<uint8_t>()[i] = i % 3 == 1;
  }
  return array;
}

// main(x) = x, with x given in one layout and asked for in another.
Graph identity_module(const Type& type, const ShardingSpec& from, const ShardingSpec& to) {
  Graph graph;
  Function main;
  main.name = "main";
  main.body = graph.add_region();
  main.arg_types = main.result_types = {type};
  main.arg_attrs.resize(1);
  main.result_attrs.resize(1);
  main.arg_attrs[0].set("sdy.sharding", ShardingAttr{from});
  main.result_attrs[0].set("sdy.sharding", ShardingAttr{to});
  const ValueId x = graph.add_argument(main.body, type, "x");
  graph.append(main.body, graph.add_node("func.return", {x}, {}));
  graph.functions.push_back(std::move(main));
  return graph;
}

TEST(ReshardExecution, every_element_arrives_for_random_specs) {
  RandomSource random(7);
  const char* meshes[] = {"x=2", "x=3", "x=2,y=2", "x=2,y=3", "x=4,y=2", "x=2,y=2,z=2", "x=6"};
  for (int round = 0; round < 400; ++round) {
    const auto mesh = std::make_shared<const Mesh>(parse_mesh(meshes[random.below(7)]));
    Shape shape;
    for (int64_t d = random.below(4); d > 0; --d) shape.push_back(1 + random.below(9));
    const DType dtypes[] = {DType::I32, DType::F32, DType::Bool};
    const Type type = Type::tensor(dtypes[random.below(3)], shape);
    const ShardingSpec from = random_spec(random, mesh, type, true);
    const ShardingSpec to = random_spec(random, mesh, type, true);
    const Executor executor(
        partition(identity_module(type, from, to), {.entry = "main", .mesh = mesh}));
    const Array x = counting(type.dtype, shape);
    const Array y = executor.run(std::vector{x})[0];
    ASSERT_TRUE(identical(x, y)) << to_string(*mesh) << " " << to_string(shape) << " "
                                 << to_string(from) << " -> " << to_string(to);
  }
}

TEST(ReshardExecution, counts_bytes) {
  const auto mesh = std::make_shared<const Mesh>(parse_mesh("x=2,y=4"));
  const Type type = Type::tensor(DType::F32, {1024, 1024});
  auto bytes = [&](const char* from, const char* to) {
    const Executor executor(
        partition(identity_module(type, parse_sharding(from, mesh), parse_sharding(to, mesh)),
                  {.entry = "main", .mesh = mesh}));
    CommLog log;
    executor.run(std::vector{counting(DType::F32, {1024, 1024})}, {.log = &log});
    return log.bytes();
  };
  EXPECT_EQ(bytes(R"([{"x"}, {}])", R"([{"x"}, {}])"), 0);
  EXPECT_EQ(bytes(R"([{}, {}])", R"([{"x"}, {"y"}])"), 0);
  EXPECT_EQ(bytes(R"([{"x"}, {}])", R"([{}, {}])"), 1024 * 1024 * 4 / 2);
  EXPECT_EQ(bytes(R"([{"y"}, {}])", R"([{}, {}])"), 1024 * 1024 * 4 * 3 / 4);
  EXPECT_EQ(bytes(R"([{"y"}, {}])", R"([{}, {"y"}])"), 1024 * 1024 * 4 / 4 * 3 / 4);
}

}  // namespace
}  // namespace cleave
