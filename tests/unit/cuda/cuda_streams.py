"""Status codes of the stand-in driver, and streams: threads that work off a queue."""

from __future__ import annotations

import enum
import queue
import threading


class CUresult(enum.IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_INVALID_VALUE = 1
    CUDA_ERROR_OUT_OF_MEMORY = 2
    CUDA_ERROR_NOT_FOUND = 500
    CUDA_ERROR_NOT_READY = 600


OK = CUresult.CUDA_SUCCESS


class Refused(Exception):
    def __init__(self, code=CUresult.CUDA_ERROR_INVALID_VALUE):
        self.code = code


class Stream:
    def __init__(self):
        self._work = queue.SimpleQueue()
        self._busy = 0
        self._lock = threading.Condition()
        threading.Thread(target=self._run, daemon=True).start()

    def push(self, job):
        with self._lock:
            self._busy += 1
        self._work.put(job)

    def _run(self):
        while True:
            self._work.get()()
            with self._lock:
                self._busy -= 1
                self._lock.notify_all()

    def idle(self):
        return self._busy == 0

    def drain(self):
        with self._lock:
            self._lock.wait_for(lambda: self._busy == 0)
