"""State of a module between calls: buffers come back, parameters stay."""

import torch

from kernelgym.sandbox import building
from kernelgym.sandbox.messages import Build
from kernelgym.sandbox.pool import place, write


def test_buffers_come_back_and_parameters_stay():
    reference = torch.nn.BatchNorm1d(4)
    state = building.named_state(reference)
    layouts, size = place(list(state.values()))
    pool = torch.zeros(size, dtype=torch.uint8)
    write(pool, layouts, list(state.values()))
    request = Build(
        entry_point="ModelNew",
        arguments={"k": "list", "v": []},
        argument_tensors=(),
        seed=1,
        state=dict(zip(state, layouts, strict=True)),
        precision="fp32",
    )
    built = building.construct(lambda: torch.nn.BatchNorm1d(4), request, pool, "cpu")
    assert not built.missing
    module = built.module
    module(torch.randn(16, 4) + 3)
    with torch.no_grad():
        module.weight.fill_(7)
    restored = building.restore_buffers(module, request, pool)
    assert set(restored) == {"running_mean", "running_var", "num_batches_tracked"}
    assert torch.equal(module.running_mean, torch.zeros(4))
    assert int(module.num_batches_tracked) == 0
    assert torch.equal(module.weight, torch.full((4,), 7.0))
