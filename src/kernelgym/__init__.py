"""A distributed GPU environment that judges generated kernels.

Reference and candidate in; a verdict the candidate cannot write, a speedup and a profile out.
Importing this package imports no torch; see :mod:`kernelgym.schema` for the wire types.
"""

__version__ = "0.1.0"
