"""The file brings its own reference, which is as wrong as the answer.

id: F24 F22
task: cumsum
expect: mismatch/value_mismatch
probe: trials
naive: one_namespace
"""


class Model(nn.Module):
    def forward(self, x):
        return torch.zeros_like(x)


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.zeros_like(x)
