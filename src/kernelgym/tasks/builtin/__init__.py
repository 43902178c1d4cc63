"""Built-in tasks in KernelBench's format, one a file; listed by `kernelgym.tasks.registry`.

Module constants hold sizes that Triton's interpreter runs in a second; ``GPU_SIZES`` holds what the
same constants are in the ``:gpu`` variant. ``CATEGORY`` and the docstring's first line are shown by
``kernelgym tasks list``.
"""
