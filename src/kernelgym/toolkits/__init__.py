"""What an evaluation can be, besides a candidate against a reference.

* `simple`: a candidate against given cases, each with its own tolerance;
* `compare`: several candidates against each other, on fresh inputs, without a reference;
* `beat`: a candidate against a kernel that its task carries;
* `configurations`: an accepted kernel on the other configurations of its task.

All phrase their question as ordinary submissions and let an `EvaluationHost` answer them: the code
they are given runs in its jails and nowhere else. Imports no torch.
"""
