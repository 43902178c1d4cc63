"""Which device classes have a worker, and what to say to whoever submits to another one."""

from __future__ import annotations

from kernelgym.server.service import Service

SILENT_LEASES = 2.0
"""A worker not heard of for so many leases counts as silent."""


async def connected(service: Service) -> tuple[str, ...]:
    """Device classes of which a worker was heard lately, sorted."""
    limit_ms = service.settings.lease_s * SILENT_LEASES * 1000
    served = await service.broker.served_ms()
    return tuple(sorted(name for name, age_ms in served.items() if age_ms < limit_ms))


async def absences(service: Service, classes: set[str]) -> tuple[str, ...]:
    """One sentence for each of ``classes`` that nobody serves at this moment.

    The evaluations are accepted all the same: workers come and go.
    """
    there = await connected(service)
    others = f"workers of {', '.join(there)} are" if there else "no worker at all is"
    return tuple(
        f"no worker of class {name} is connected; {others}. The evaluations wait for one until"
        " their deadline: start one (kernelgym worker), or submit to a class that is served"
        for name in sorted(classes.difference(there))
    )
