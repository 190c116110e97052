// A Megatron-style MLP on eight virtual devices: what is recorded, what runs, what is communicated.
#include "cleave/cleave.h"
using namespace cleave;

int main() {
  Mesh mesh{{"data", 2}, {"model", 4}};
  Tensor x = randn({64, 512}).shard(mesh, P("data", {}));
  Tensor w = randn({512, 2048}).shard(mesh, P({}, "model"));
  Tensor v = randn({2048, 512}).shard(mesh, P("model", {}));
  CommLog log;
  Tensor y = matmul(gelu(matmul(x, w)), v);
  print("y is {}\n", to_string(y.sharding()));
  print("{}\n{}\n", relu(y), log);
}
