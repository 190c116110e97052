#pragma once

#include <functional>
#include <span>
#include <vector>

#include "cleave/runtime/tensor.h"

// Loops and branches as ops: bodies are traced once, and may use tensors from outside.
namespace cleave {

using TensorFunction = std::function<std::vector<Tensor>(std::span<const Tensor>)>;

// body(body(...(init))) while condition holds; condition gives a bool scalar, body values of the
// same types as it takes.
std::vector<Tensor> while_loop(const std::vector<Tensor>& init,
                               const std::function<Tensor(std::span<const Tensor>)>& condition,
                               const TensorFunction& body);
// body(i, values) for i in [begin, end); i is an i32 scalar.
std::vector<Tensor> fori_loop(
    int64_t begin, int64_t end, const std::vector<Tensor>& init,
    const std::function<std::vector<Tensor>(const Tensor& i, std::span<const Tensor>)>& body);
// One of two branches, which give values of the same types.
std::vector<Tensor> cond(const Tensor& predicate,
                         const std::function<std::vector<Tensor>()>& then_branch,
                         const std::function<std::vector<Tensor>()>& else_branch);
// The branch of the index; the last one where it is out of range.
std::vector<Tensor> switch_case(const Tensor& index,
                                const std::vector<std::function<std::vector<Tensor>()>>& branches);

}  // namespace cleave
