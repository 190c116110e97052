#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cleave/graph/graph.h"

namespace cleave {

// Derivatives of functions of a graph. Each reads one function and adds another; the arguments that
// are differentiated are those listed, or all of floats and complex numbers if none is. Zeros
// that are not needed are never written; those that are results are constants.
//
//   f(x, w) -> y
//   jvp   f_jvp(x, w, x', w') -> y, y'
//   vjp   f_vjp(x, w, y^)     -> y, x^, w^        y^ is the cotangent of y
//   grad  f_grad(x, w)        -> x^, w^           y must be one real number
//   value_and_grad            -> y, x^, w^        further results of f come after y as they are
//
// A cotangent has the sharding of the argument that it belongs to. If something
// flows through an op without a rule, a UserError names the op.
struct DiffOptions {
  std::vector<size_t> args;  // empty: all that can be differentiated
  std::string name;          // of the new function; empty: f_jvp and so on, made unique
  bool verified = false;     // it was verified, or recorded op by op; else it is verified first
};

std::string jvp(Graph& graph, std::string_view function, const DiffOptions& options = {});
std::string vjp(Graph& graph, std::string_view function, const DiffOptions& options = {});
std::string grad(Graph& graph, std::string_view function, const DiffOptions& options = {});
std::string value_and_grad(Graph& graph, std::string_view function,
                           const DiffOptions& options = {});

// Which arguments a derivative of the function is by: the options' or all that are differentiable.
std::vector<size_t> differentiated_args(const Graph& graph, std::string_view function,
                                        const DiffOptions& options = {});

}  // namespace cleave
