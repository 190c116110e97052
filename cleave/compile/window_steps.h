#pragma once

#include <memory>

#include "cleave/compile/device_code.h"

// Steps that move windows of elements to or from places that other tensors name.
namespace cleave {

// `operands` are those of a stablehlo.gather.
std::unique_ptr<CodeStep> make_gather_step(const Node& node, const std::vector<CodeView>& operands,
                                           const CodeView& result);

// A stablehlo.scatter of one tensor that overwrites or combines by an operator. Null if the kernel
// is needed, because the body is another one or there are no updates.
std::unique_ptr<CodeStep> make_scatter_step(const Graph& graph, const Node& node,
                                            const std::vector<CodeView>& operands,
                                            const CodeView& result);

// Fills `result` with the scalar `value`, and copies `operand` to `inside`, a part of it.
std::unique_ptr<CodeStep> make_pad_step(const CodeView& operand, const CodeView& value,
                                        const CodeView& result, const CodeView& inside);

}  // namespace cleave
