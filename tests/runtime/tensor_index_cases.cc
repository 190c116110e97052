#include "tensor_cases.h"

namespace cleave {

std::vector<Case> index_cases() {
  return {
      {"index_numbers",
       {f32({5, 6, 4})},
       [](Args x) {
         return Results{x[0][0],       x[0][-1],           x[0](2, -3),
                        x[0](1, 2, 3), x[0](ellipsis, -1), x[0](0, ellipsis, 1)};
       },
       1000,
       true},
      {"index_slices",
       {f32({7, 6, 4})},
       [](Args x) {
         return Results{x[0](slice(1, 4)),
                        x[0](slice({}, {}, 2), slice(-3)),
                        x[0](slice({}, {}, -1)),
                        x[0](slice(5, 0, -2), all, slice(1, 3)),
                        x[0](slice(4, 2)),
                        x[0](newaxis, slice(-100, 100), 0, newaxis),
                        x[0](ellipsis, newaxis, slice({}, -1))};
       },
       1000,
       true},
      {"index_elements",
       {f32({7, 6, 4}), i32({5}), i32({3, 1})},
       [](Args x) {
         const Tensor i = minimum(x[1], 5), j = minimum(x[2], 3);
         return Results{x[0](i),
                        x[0](-1 - i),
                        x[0](all, i),
                        x[0](i, all, j),
                        x[0](all, i, j),
                        x[0](2, i),
                        x[0](ellipsis, j, newaxis),
                        x[0](i, slice(1, 4), 2)};
       },
       1000,
       true},
  };
}

std::vector<Case> place_cases() {
  return {
      {"at_runs",
       {f32({7, 6}), f32({6}), f32({3, 6}), f32({4, 1})},
       [](Args x) {
         return Results{x[0].at(2).set(x[1]),
                        x[0].at(slice(1, 4)).add(x[2]),
                        x[0].at(slice({}, {}, -2), slice(1, 3)).set(x[3]),
                        x[0].at(slice(4, 1, -1)).mul(x[2]),
                        x[0].at(ellipsis, slice(0, 2)).min(0.25),
                        x[0].at(-1, 0).max(10),
                        x[0].at(slice(3, 3)).set(1),
                        x[0].at(ellipsis).add(1)};
       },
       1000,
       true},
      {"at_elements",
       {f32({9, 6}), i32({4}), f32({4, 6}), f32({4, 2})},
       [](Args x) {
         const Tensor i = arange(4) * 2 + minimum(x[1], 1);
         return Results{x[0].at(i).set(x[2]),
                        x[0].at(-1 - i).add(x[2]),
                        x[0].at(i).mul(x[2]),
                        x[0].at(i, slice(1, 5, 2)).set(x[3]),
                        x[0].at(slice(0, 2), arange(4)).add(0.5),
                        x[0].at(i, arange(4)).set(x[3](all, 0))};
       },
       1000,
       true},
      {"at_twice",
       {f32({9, 6}), i32({5}), f32({5, 6})},
       [](Args x) {
         const Tensor i = minimum(x[1], 8);
         return Results{x[0].at(i).add(x[2]), x[0].at(i).min(x[2]), x[0].at(i).max(x[2])};
       }},
      {"at_mask",
       {f32({7, 6}), b1({7, 6}), b1({7}), f32({6})},
       [](Args x) {
         return Results{x[0].at(x[1]).set(0.5), x[0].at(x[2]).add(x[3]), x[0].at(x[1]).mul(2)};
       },
       1000,
       true},
      {"masked",
       {f32({7, 6}), b1({7}), b1({7, 6})},
       [](Args x) {
         return Results{x[0](x[1]), x[0](x[2])};
       },
       1000,
       false,
       false},
  };
}

std::vector<Case> literal_cases() {
  return {
      {"literals",
       {},
       [](Args) {
         return Results{tensor({{1, 2}, {3, 4}}),
                        tensor({{{{1.5}, {2}}, {{3}, {-4}}}}),
                        tensor({true, false}),
                        tensor(2.5),
                        tensor({1, 2, 3}, DType::F64),
                        tensor({{}, {}}),
                        tensor({std::complex<double>(1, 2), 3})};
       }},
  };
}

}  // namespace cleave
