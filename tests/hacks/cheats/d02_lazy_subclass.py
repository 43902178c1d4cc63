"""A tensor subclass that computes when it is compared.

id: D4
task: gelu
expect: mismatch
probe: exact_types
"""


class Lazy(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        def real(value):
            return value.work() if type(value) is Lazy else value

        with torch._C.DisableTorchFunctionSubclass():
            args = torch.utils._pytree.tree_map(real, args)
            return function(*args, **torch.utils._pytree.tree_map(real, kwargs or {}))


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x).as_subclass(Lazy)
        out.work = lambda: solve(x)
        return out
