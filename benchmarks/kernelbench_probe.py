"""Try reduced versions of references, one after the other, in forked children with limits.

Reads JSON lines ``{"id": ..., "versions": [[name, source], ...]}`` and answers each with the first
version that works: it builds, runs, its outputs vary, and they change with the inputs. Where none
does all of that, the first that runs at all. torch is imported once, here; children are forked.

This runs reference code without a jail: for references that you trust, such as KernelBench's.
"""

import importlib.util
import json
import os
import resource
import select
import signal
import sys
import tempfile
import time

import torch

_MEMORY_BYTES = 6 << 30
_LIMIT_S = 90.0


def leaves(value: object) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value.detach()]
    items = value.values() if isinstance(value, dict) else value
    return [leaf for item in items for leaf in leaves(item)] if hasattr(items, "__iter__") else []


def differ(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Whether one would be refused for the other, by the standard protocol's rule for fp32."""
    a, b = first.double(), second.double()
    allowed = 1e-2 * b.abs() + 1e-2 * b.pow(2).mean().sqrt()
    return bool(((a - b).abs() > allowed).any())


def look(path: str) -> dict[str, object]:
    """Run a reference twice on different inputs."""
    spec = importlib.util.spec_from_file_location("reference", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    torch.manual_seed(0)
    model = module.Model(*module.get_init_inputs()).eval()
    results = []
    started = time.monotonic()
    for seed in (1, 2):
        torch.manual_seed(seed)
        with torch.no_grad():
            results.append(leaves(model(*module.get_inputs())))
    first, second = results
    return {
        "forward_s": round((time.monotonic() - started) / 2, 3),
        "shapes": [list(leaf.shape) for leaf in first],
        "varies": any(leaf.numel() == 1 or leaf.double().std() > 0 for leaf in first),
        "depends_on_inputs": any(differ(a, b) for a, b in zip(first, second, strict=True)),
        "parameters": sum(p.numel() for p in model.parameters()),
    }


def in_child(path: str) -> dict[str, object]:
    """`look`, in a child with limits of memory and time."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read_end)
        resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY_BYTES, _MEMORY_BYTES))
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        try:
            answer = look(path)
        except BaseException as error:  # noqa: BLE001 - whatever a reference raises is its answer
            answer = {"error": f"{type(error).__name__}: {error}"[:300]}
        os.write(write_end, json.dumps(answer).encode()[:60_000])
        os._exit(0)
    os.close(write_end)
    ready, _, _ = select.select([read_end], [], [], _LIMIT_S)
    data = os.read(read_end, 1 << 16) if ready else b""
    os.close(read_end)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return json.loads(data) if data else {"error": "too slow" if not ready else "died"}


def choose(versions: list[list[str]]) -> dict[str, object]:
    """The first version that is a problem, else the first that runs."""
    tried, fallback = [], None
    for name, source in versions:
        with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
            file.write(source)
            file.flush()
            facts = in_child(file.name)
        if "error" in facts:
            tried.append(f"{name}: {facts['error']}")
            continue
        found = {"reduction": name, "source": source, **facts, "tried": list(tried)}
        if facts["varies"] and facts["depends_on_inputs"]:
            return found
        fallback = fallback or found
        tried.append(f"{name}: runs, but its outputs do not change with its inputs")
    return fallback or {"reduction": None, "tried": tried}


def main() -> None:
    torch.set_num_threads(1)
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps({"id": request["id"], **choose(request["versions"])}), flush=True)


if __name__ == "__main__":
    main()
