"""Says what is missing when the service's packages are not installed."""

from __future__ import annotations

import importlib.util

from kernelgym.errors import UsageError

_PACKAGES = ("fastapi", "uvicorn", "redis", "jinja2", "prometheus_client")


def require_service() -> None:
    """Raise unless everything that the server imports is there."""
    missing = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(
            f"the service needs {', '.join(missing)}", hint="pip install 'drkernel[serve]'"
        )
