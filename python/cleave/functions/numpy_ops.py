"""Functions and ufuncs of NumPy, and any Python function over arrays."""

import numpy as np

from cleave.functions.target import Parameter, Target

# Parameters of NumPy's functions that take arrays by name, beside those of one letter.
ARRAYS = {"a", "b", "x", "y", "v", "m", "arr", "ar", "x1", "x2", "indices", "condition", "ary", "A", "B", "filt", "f", "p", "xp", "fp",
          "bins", "keys", "array", "element", "test_elements"}


class NumpyTarget(Target):
    def parameters(self):
        if isinstance(self.function, np.ufunc):
            return [Parameter(f"x{i + 1}", "tensor") for i in range(self.function.nin)]
        return super().parameters()

    def signature(self):
        if isinstance(self.function, np.ufunc):
            return f"{self.name}({', '.join(p.name for p in self.parameters())})"
        return super().signature()

    def is_tensor(self, parameter):
        module = getattr(self.function, "__module__", "") or ""
        if module.split(".")[0] == "numpy":
            return parameter.name in ARRAYS and parameter.default in (parameter.empty, None)
        return super().is_tensor(parameter)

    def arrays_of(self, answer):
        # What is no array is told by the library, by its type.
        return answer if not isinstance(answer, (tuple, list)) else [one for one in answer if one is not None]
