"""Code written for a GPU, run on the CPU: every usual way to name, ask or use a device."""

from __future__ import annotations

import pytest
import torch

HEAD = """
import torch
import triton

DEVICE = triton.runtime.driver.active.get_active_torch_device()
PROPERTIES = triton.runtime.driver.active.utils.get_device_properties(DEVICE.index)
COUNT = PROPERTIES["multiprocessor_count"]
side = torch.cuda.Stream()


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3, device="cuda"))
        self.register_buffer("table", torch.zeros(2, device=torch.device("cuda:0")))
        self.linear = torch.nn.Linear(4, 4).cuda()

    def forward(self, x, y):
        {body}
        return x + 0
"""
WAYS = {
    "factory": "assert torch.zeros(3, device='cuda').is_cuda",
    "factory index": "torch.ones(3, device='cuda:0') + torch.rand(3, "
    "device=0) + x.to(0) + torch.empty(3, device=torch.device(0))",
    "like": "torch.empty_like(x, device='cuda')",
    "new": "x.new_zeros(3, device='cuda') + x.new_tensor([1, 2, 3], device='cuda')",
    "to": "x.to('cuda') + x.to(device='cuda:0', dtype=torch.float16) + x.to(torch.device('cuda'))",
    "to other": "x.to(y) + x.to(y.device)",
    "cuda": "x.cuda() + x.cuda(non_blocking=True) + x.cuda(0)",
    "cpu and back": "torch.from_numpy(x.cpu().numpy()).to('cuda') + x",
    "tensor": "torch.tensor([1.0], device='cuda') + torch.as_tensor([1.0], device='cuda')",
    "pinned": "assert torch.empty(3, pin_memory=True).pin_memory() is not None",
    "claims": "a"
    "ssert x.is_cuda and not x.is_cpu and x.device.type == 'cuda' and x.get_device() == 0",
    "same device": "assert x.device == y.device == self.weight.device == self.linear.weight.device",
    "name": "assert str(x.device) == 'cuda:0' and torch.device('cuda', 0) == x.device",
    "context": "with torch.device('cuda'): assert torch.zeros(2).is_cuda",
    "default": "torch.set_default_device('cuda'); assert torch.zeros(2).is_cuda",
    "available": "assert torch.cuda.is_available() and torch.cuda.device_count() == 1",
    "properties": "assert torch.cuda.get_device_properties(0).multi_processor_count == COUNT",
    "capability": "assert torch.cuda.get_device_capability() >= (8, 0)",
    "guard": "with torch.cuda.device(x.device): torch.cuda.synchronize()",
    "guard of": "with torch.cuda.device_of(x): torch.cuda.current_device()",
    "stream": "with torch.cuda.stream(side): torch.cuda.current_stream().wait_stream(side)",
    "record": "x.record_stream(side)",
    "event": "e = torch.cuda.Event(enable_timing=True); e.record(); e.synchronize(); "
    "e.elapsed_time(e)",
    "memory": "torch.cuda.empty_cache(); torch.cuda.mem_get_info(); "
    "torch.cuda.max_memory_allocated()",
    "seed": "torch.cuda.manual_seed(1); torch.cuda.manual_seed_all(1); torch.manual_seed(1)",
    "generator": "torch.randn(3, device='cuda', "
    "generator=torch.Generator(device='cuda').manual_seed(3))",
    "generator type": "assert isinstance(torch.Generator('cuda'), torch.Generator)",
    "autocast": "with torch.autocast('cuda', dtype=torch.bfloat16): "
    "assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.bfloat16",
    "autocast by name": "with torch.amp.autocast(device_type='cuda', enabled=False): pass",
    "old autocast": "with torch.cuda.amp.autocast(): pass",
    "module": "torch.nn.Linear(2, 2).to('cuda').half().cuda()(torch.ones(2, 2, "
    "device='cuda').half())",
    "compile": "torch.compile(lambda v: v + 1)(x); "
    "torch.compile(mode='max-autotune')(lambda v: v)(x)",
    "compile module": "torch.compile(self.linear, fullgraph=True)(torch.ones(4))",
    "attention": "q = torch.ones(1, 1, 2, 2, device='cuda'); "
    "torch.nn.functional.scaled_dot_product_attention(q, q, q)",
    "target": "assert triton.runtime.driver.active.get_current_target().backend == 'cuda'",
    "random state": "with torch.random.fork_rng(): torch.rand(3, device='cuda'); "
    "torch.cuda.set_rng_state(torch.cuda.get_rng_state())",
    "ranges": "torch.cuda.nvtx.range_push('a'); torch.cuda.nvtx.range_pop()\n"
    "        with torch.cuda.nvtx.range('b'): pass",
    "benchmark": "triton.testing.do_bench(lambda: x + 1, warmup=1, rep=1)",
    "checkpoint": "from torch.utils.checkpoint import checkpoint; "
    "checkpoint(lambda v: v + 1, x, use_reentrant=False)",
    "deep copy": "import copy; assert copy.deepcopy(self.linear).weight.is_cuda",
}


@pytest.mark.parametrize("way", WAYS)
def test_a_way_to_use_a_gpu_works_on_the_cpu(start, way):
    driver = start(HEAD.replace("{body}", WAYS[way]))
    driver.build()
    x, y = torch.randn(3), torch.randn(3)
    output = driver.call(x, y)
    assert torch.equal(driver.value(output), x)
    assert output.devices == ("cpu",)
    driver.call(x, y)


def test_leaving_out_the_compiler_of_torch_is_said(start):
    driver = start(HEAD.replace("{body}", WAYS["compile"]))
    driver.build()
    driver.call(torch.ones(3), torch.ones(3))
    assert driver.report().notes == ("torch.compile ran eagerly (no GPU)",)


def test_what_cannot_be_done_without_a_gpu_is_not_the_candidates_fault(start):
    from candidate_driver import RequestFailed

    driver = start(HEAD.replace("{body}", "torch.cuda.CUDAGraph()"))
    driver.build()
    with pytest.raises(RequestFailed) as caught:
        driver.call(torch.ones(3), torch.ones(3))
    assert caught.value.failed.unsupported


def test_the_mode_can_be_entered_without_the_candidate():
    from kernelgym.sandbox.redirect import Redirect

    with Redirect():
        inside = torch.zeros(2, device="cuda")
        assert inside.is_cuda
    assert not inside.is_cuda
    assert inside.device.type == "cpu"
