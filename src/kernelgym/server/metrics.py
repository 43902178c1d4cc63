"""Prometheus metrics. Labels are bounded: no ids, no client names, no paths with ids in them.

What this server saw itself is counted as it happens; the queue's numbers are read from the broker
at each scrape, so every server of a gym reports the same ones.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from kernelgym.api import WorkerStatus
from kernelgym.broker.protocol import QueueStats
from kernelgym.schema import EvalResult

_SECONDS = (0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800)
_OTHER = "other"
_BACKENDS = ("triton", "cuda", "torch")
_DEVICE_STATES = ("ready", "starting", "quarantined", "stopped")
_MOST_STAGES = 40


class Metrics:
    """The metrics of one server."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._stages: set[str] = set()
        self.requests = self._histogram(
            "http", "HTTP requests, long polls included", ["method", "route", "status"]
        )
        self.waited = self._histogram("queue_wait", "Submission to claim", [])
        self.stage = self._histogram("stage", "Stages, as workers measured them", ["stage"])
        self.outcomes = Counter(
            "kernelgym_outcomes",
            "Verdicts that workers delivered to this server",
            ["outcome", "backend"],
            registry=self.registry,
        )
        self.answers = Counter(
            "kernelgym_settlements",
            "Tasks that workers gave back to this server, by kind and by the broker's answer",
            ["kind", "answer"],
            registry=self.registry,
        )
        self._states = self._gauge("tasks", "Stored evaluations by state", ["state"])
        self._waiting = self._gauge("waiting", "Queued evaluations", ["device_class"])
        self._oldest = self._gauge("oldest_seconds", "Age of the oldest queued", ["device_class"])
        self._events = self._gauge("events", "Counts since the broker's data began", ["event"])
        self._workers = self._gauge("workers", "Workers by state", ["state"])
        self._devices = self._gauge("devices", "Devices by state", ["state"])
        self._stored = self._gauge("stored_bytes", "Sources and results in the broker", [])

    def _histogram(self, name: str, text: str, labels: list[str]) -> Histogram:
        full = f"kernelgym_{name}_seconds"
        return Histogram(full, text, labels, registry=self.registry, buckets=_SECONDS)

    def _gauge(self, name: str, text: str, labels: list[str]) -> Gauge:
        return Gauge(f"kernelgym_{name}", text, labels, registry=self.registry)

    def verdict(self, result: EvalResult) -> None:
        """Count a worker's result."""
        backend = result.backend if result.backend in _BACKENDS else _OTHER
        self.outcomes.labels(result.outcome.value, backend).inc()
        for stage, seconds in result.provenance.stage_seconds.items():
            self.stage.labels(self._known_stage(stage)).observe(seconds)

    def _known_stage(self, stage: str) -> str:
        if len(self._stages) < _MOST_STAGES:
            self._stages.add(stage)
        return stage if stage in self._stages else _OTHER

    def render(self, stats: QueueStats, workers: list[WorkerStatus]) -> bytes:
        """The text of a scrape."""
        for state, number in stats.states.items():
            self._states.labels(state).set(number)
        for name, clients in stats.waiting.items():
            self._waiting.labels(name).set(sum(clients.values()))
            self._oldest.labels(name).set(stats.oldest_ms.get(name, 0) / 1000)
        for name, number in stats.counters.items():
            self._events.labels(name).set(number)
        self._stored.set(stats.stored_bytes)
        alive = [worker for worker in workers if worker.alive]
        self._workers.labels("alive").set(len(alive))
        self._workers.labels("silent").set(len(workers) - len(alive))
        devices: list[str] = [device.state for worker in alive for device in worker.info.devices]
        for state in _DEVICE_STATES:
            self._devices.labels(state).set(devices.count(state))
        return generate_latest(self.registry)
