"""What an installed package must do on any machine: python smoke.py, without pytest and without a checkout."""

import os
import subprocess
import sys

MODULE = """
module {
  func.func @main(%x: tensor<64x32xf32>, %w: tensor<32x128xf32>) -> tensor<64x128xf32> {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<64x32xf32>, tensor<32x128xf32>) -> tensor<64x128xf32>
    %1 = stablehlo.tanh %0 : tensor<64x128xf32>
    return %1 : tensor<64x128xf32>
  }
}
"""


def import_seconds():
    """The time of `import cleave` in a new process, without the start of Python: the best of five."""
    code = "import time; t = time.perf_counter(); import cleave; print(time.perf_counter() - t)"
    return min(float(subprocess.check_output([sys.executable, "-c", code])) for _ in range(5))


def main():
    import cleave

    print(f"cleave {cleave.__version__} of {os.path.dirname(cleave.__file__)}, Python {sys.version.split()[0]}")
    print(f"import cleave: {import_seconds() * 1e3:.0f} ms")
    mesh = cleave.Mesh(data=2, model=2)
    plan = cleave.plan(MODULE, mesh=mesh, machine="h100")
    print(repr(plan))
    print(plan.verify().splitlines()[-1])
    print(cleave.show(cleave.Sharding(mesh, '[{"data"}, {}], unreduced={"model"}'), (5, 4)))
    command = os.path.join(os.path.dirname(sys.executable), "cleave")
    print(subprocess.check_output([command, "--version"], text=True).strip())
    subprocess.check_output([command, "plan", "model:mlp?step=train", "--mesh", "data=2,model=2"])
    try:
        import numpy as np
    except ImportError:
        print("without NumPy: well")
        return
    x, w = np.ones((64, 32), np.float32), np.full((32, 128), 0.01, np.float32)
    (result,) = cleave.run(MODULE, x, w)
    assert np.allclose(result, np.tanh(x @ w)), "one device"
    (result,) = cleave.run(MODULE, x, w, mesh=mesh, shard="random:1")
    assert np.allclose(result, np.tanh(x @ w)), "four devices"
    if hasattr(cleave, "asarray"):
        assert np.allclose(np.asarray(cleave.asarray(x) * 2), 2 * x), "a Tensor"
    print("with NumPy: well")


if __name__ == "__main__":
    main()
