"""An import that may fail, with a fallback for it.

task: layer_norm
"""

try:
    from triton.language.extra import libdevice  # noqa: F401
except ImportError:
    libdevice = None
try:
    import no_such_accelerator_library
except ImportError:
    no_such_accelerator_library = None
