"""Runs Shardy's passes inside jaxlib on many modules; in a process of its own, because some modules crash it.

  run_shardy(texts, pipeline) -> a list of texts, None where Shardy refused the module or crashed
"""

import json
import subprocess
import sys


def run_shardy(texts, pipeline):
    results = []
    while len(results) < len(texts):
        request = json.dumps({"pipeline": pipeline, "texts": texts[len(results):]})
        run = subprocess.run([sys.executable, __file__], input=request, capture_output=True, text=True)
        answers = [json.loads(line) for line in run.stdout.splitlines()]
        results += answers
        if run.returncode != 0:
            if not answers and "ModuleNotFoundError" in run.stderr:
                raise RuntimeError(run.stderr)
            results.append(None)
    return results[:len(texts)]


def main():
    from jax._src.interpreters import mlir
    from jaxlib.mlir import ir, passmanager

    request = json.load(sys.stdin)
    with mlir.make_ir_context():
        for text in request["texts"]:
            try:
                module = ir.Module.parse(text)
                passmanager.PassManager.parse(request["pipeline"]).run(module.operation)
                answer = module.operation.get_asm(enable_debug_info=False)
            except Exception:
                answer = None
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
