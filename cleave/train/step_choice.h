#pragma once

#include "cleave/train/optimizer.h"

namespace cleave::train {

// A step of `inner` if the condition holds; otherwise its state stays, and updates are zero.
// `names` are its slots in the whole.
std::vector<Tensor> step_if(const Tensor& condition, const Transformation& inner,
                            const std::map<std::string, std::string>& names,
                            std::vector<Tensor> grads, const NamedLeaves& params,
                            StateSlots& state);

}  // namespace cleave::train
