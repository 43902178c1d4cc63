"""CUPTI records from byte strings, the buffer protocol against a library in Python, attribution."""

import ctypes
import os
import struct
from types import SimpleNamespace

import pytest

from kernelgym.sandbox.evidence import EvidenceReader
from kernelgym.trace import cupti as cupti_module
from kernelgym.trace import cupti_layout as layout
from kernelgym.trace.attribution import Tag, Tracer, attribute
from kernelgym.trace.cupti import Cupti, CuptiUnavailable
from kernelgym.trace.cupti_layout import Activity, ActivityKind, Link
from kernelgym.trace.recorder import Recorder

NAMES = {}


def name_address(name):
    NAMES.setdefault(name, ctypes.create_string_buffer(name.encode()))
    return ctypes.addressof(NAMES[name])


def kernel_bytes(name="k", start=10, end=30, correlation=7, node=0, context=1, **more):
    """A record as CUPTI 13.0 lays it out, put together field by field."""
    data = bytearray(216)
    struct.pack_into("<IBBH", data, 0, ActivityKind.CONCURRENT_KERNEL, 0, 0, more.get("regs", 40))
    struct.pack_into("<QQQ", data, 16, start, end, end)
    struct.pack_into("<III", data, 40, 0, context, 13)
    struct.pack_into("<6i", data, 52, *more.get("grid", (2, 3, 4)), *more.get("block", (128, 1, 1)))
    struct.pack_into("<iiII", data, 76, 1024, 512, 16, 999)
    struct.pack_into("<Iq", data, 92, correlation, 5)
    struct.pack_into("<Q", data, 104, name_address(name))
    struct.pack_into("<Q", data, 144, node)
    return bytes(data)


def copy_bytes(kind=ActivityKind.MEMCPY, direction=8, start=0, end=9, correlation=3, node=0):
    data = bytearray(96)
    struct.pack_into("<IBBBB", data, 0, kind, direction, 0, 0, 0)
    struct.pack_into("<QQQ", data, 8, 4096, start, end)
    at = 60 if kind == ActivityKind.MEMCPY2 else 44
    struct.pack_into("<III", data, 32, 0, 1, 7)
    struct.pack_into("<I", data, at, correlation)
    if kind != ActivityKind.MEMCPY2:
        struct.pack_into("<Q", data, 64, node)
    return bytes(data)


def link_bytes(external, correlation):
    return struct.pack("<IIQII", ActivityKind.EXTERNAL_CORRELATION, 3, external, correlation, 0)


def test_a_kernel_record():
    data = kernel_bytes("softmax_kernel", 100, 250, correlation=42, node=9)
    record = layout.decode(10, data[:176], ctypes.string_at)
    assert record == Activity(
        name="softmax_kernel", start_ns=100, end_ns=250, correlation=42, grid=(2, 3, 4),
        block=(128, 1, 1), registers=40, shared_bytes=1536, local_bytes=16, context=1, stream=13,
        graph_node=9,
    )  # fmt: skip


def test_a_kernel_without_a_name_and_one_with_a_broken_name():
    data = bytearray(kernel_bytes())
    struct.pack_into("<Q", data, 104, 0)
    assert layout.decode(3, bytes(data), ctypes.string_at).name == ""
    assert layout.decode(3, kernel_bytes(), lambda _: b"\xff" * 5000).name == "\ufffd" * 1000


@pytest.mark.parametrize(
    ("kind", "name", "node"),
    [(ActivityKind.MEMCPY, "copy DtoD", 4), (ActivityKind.MEMCPY2, "copy PtoP", 0),
     (ActivityKind.MEMSET, "fill", 4)],
)  # fmt: skip
def test_copies_and_fills(kind, name, node):
    record = layout.decode(kind, copy_bytes(kind, start=5, end=25, node=node), ctypes.string_at)
    assert (record.name, record.start_ns, record.end_ns, record.correlation, record.graph_node) == (
        name, 5, 25, 3, node,
    )  # fmt: skip
    assert not record.is_kernel


def test_links_and_kinds_that_are_not_read():
    assert layout.decode(39, link_bytes(1 << 60, 8), ctypes.string_at) == Link(1 << 60, 8)
    assert layout.decode(ActivityKind.RUNTIME, bytes(40), ctypes.string_at) is None


@pytest.mark.parametrize(
    ("version", "known"),
    [(18, False), (26, True), (28, True), (130001, True), (130401, True), (140000, False)],
)
def test_versions(version, known):
    assert layout.is_known(version) is known


class Library:
    """CUPTI in Python: records are put into the buffers it is lent when it is flushed."""

    def __init__(self, version=130001):
        self.version = version
        self.pending, self.enabled, self.stack, self.calls = [], set(), [], []
        self.dropped = 0
        self.kept = []

    def cuptiGetVersion(self, where):
        where._obj.value = self.version
        return 0

    def cuptiActivityRegisterCallbacks(self, lend, take_back):
        self.lend, self.take_back = lend, take_back
        return 0

    def cuptiActivityEnable(self, kind):
        self.enabled.add(kind)
        return 0

    def cuptiActivityDisable(self, kind):
        self.enabled.discard(kind)
        return 0

    def cuptiActivityFlushAll(self, flag):
        assert flag == 1
        while self.pending:
            batch, self.pending = self.pending[:3], self.pending[3:]
            buffer, size, most = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_size_t(9)
            self.lend(ctypes.pointer(buffer), ctypes.pointer(size), ctypes.pointer(most))
            assert buffer.value % 8 == 0
            assert most.value == 0
            data = b"".join(batch)
            ctypes.memmove(buffer.value, data, len(data))
            self.lengths = {buffer.value: [len(record) for record in batch]}
            self.kept.append((buffer.value, [len(record) for record in batch]))
            self.take_back(None, 0, buffer.value, size.value, len(data))
        return 0

    def cuptiActivityGetNextRecord(self, buffer, valid, record):
        lengths = dict(self.kept)[buffer.value]
        record = record._obj
        offset = 0 if record.value is None else record.value - buffer.value
        if record.value is not None:
            index = [sum(lengths[:i]) for i in range(len(lengths))].index(offset)
            offset += lengths[index]
        if offset >= valid.value:
            return 13
        record.value = buffer.value + offset
        return 0

    def cuptiActivityGetNumDroppedRecords(self, context, stream, where):
        where._obj.value = self.dropped
        return 0

    def cuptiActivityPushExternalCorrelationId(self, kind, external):
        assert kind == 3
        self.stack.append(external.value)
        return 0

    def cuptiActivityPopExternalCorrelationId(self, kind, where):
        where._obj.value = self.stack.pop()
        return 0

    def note(self, correlation):
        """An API call that leaves nothing on the device."""
        if self.enabled and self.stack:
            self.pending.append(link_bytes(self.stack[-1], correlation))

    def launch(self, name, correlation, **more):
        if self.enabled:
            self.pending.append(kernel_bytes(name, correlation=correlation, **more))
            if self.stack:
                self.pending.append(link_bytes(self.stack[-1], correlation))


def test_records_come_out_of_several_buffers_which_are_used_again():
    library = Library()
    cupti = Cupti(library)
    cupti.start()
    assert library.enabled >= {10, 1, 2, 39, 4, 5}
    for round_ in range(3):
        library.pending += [kernel_bytes(f"k{i}", correlation=i) for i in range(7)]
        library.pending.append(struct.pack("<I", ActivityKind.RUNTIME) + bytes(36))
        names = [record.name for record in cupti.take()]
        assert names == [f"k{i}" for i in range(7)], round_
    assert not cupti._lent
    assert not cupti.lost
    library.dropped = 2
    cupti.take()
    assert cupti.lost
    cupti.stop()
    assert not library.enabled


def test_more_records_than_are_kept_is_said(monkeypatch):
    monkeypatch.setattr(cupti_module, "MAX_RECORDS", 2)
    library = Library()
    cupti = Cupti(library)
    library.pending += [kernel_bytes()] * 3
    assert len(cupti.take()) == 2
    assert cupti.lost


def test_what_fails_says_which_call(monkeypatch):
    library = Library()
    cupti = Cupti(library)
    library.cuptiActivityEnable = lambda kind: 15
    with pytest.raises(CuptiUnavailable, match="cuptiActivityEnable returned 15"):
        cupti.start()


def test_an_unknown_version_or_no_library_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(cupti_module.ctypes, "CDLL", lambda path: Library(version=150000))
    with pytest.raises(CuptiUnavailable, match="150000 is not known"):
        cupti_module.load_library(["x"])
    monkeypatch.undo()
    with pytest.raises(CuptiUnavailable, match="no CUPTI"):
        cupti_module.load_library([str(tmp_path / "libcupti.so.99")])


def test_the_library_of_this_triton_is_found_where_there_is_one():
    triton = pytest.importorskip("triton")
    there = os.path.join(os.path.dirname(triton.__file__), "backends/nvidia/lib/cupti")
    found = cupti_module.library_paths()
    assert found[-2:] == ["libcupti.so.13", "libcupti.so.12"]
    if os.path.isdir(there):
        assert any(path.startswith(there) for path in found)


@pytest.fixture
def tagging():
    from triton import knobs

    read, write = os.pipe()
    reader = EvidenceReader(read)
    recorder = Recorder(write)
    library = Library()
    tags = Tracer(Cupti(library), recorder)
    yield SimpleNamespace(library=library, recorder=recorder, tags=tags)
    knobs.runtime.launch_enter_hook.remove(tags.enter)
    knobs.runtime.launch_exit_hook.remove(tags.leave)
    reader.close()
    os.close(write)


def launch(case, function, name, correlation, **more):
    """What happens when Triton launches: the recorder, the hooks around the API call."""
    case.recorder.launch(function, (1,), 4)
    case.tags.enter(None)
    case.library.launch(name, correlation, **more)
    case.tags.leave(None)


def functions(recorder):
    text = "def own():\n    pass\n"
    code = compile(text, "candidate.py", "exec")
    recorder.own.register(text, code)
    space = {}
    exec(code, space)

    def foreign():
        pass

    return space["own"], foreign


def test_records_are_own_by_the_launch_that_caused_them_not_by_name(tagging):
    own, foreign = functions(tagging.recorder)
    launch(tagging, own, "before", 1)  # not traced
    tagging.tags.start()
    launch(tagging, own, "same_name", 2, start=1)
    launch(tagging, foreign, "same_name", 3, start=2)
    tagging.library.launch("torch_kernel", 4, start=3)  # no launch of Triton's
    found = tagging.tags.stop()
    assert [(item.activity.correlation, item.own, item.how) for item in found] == [
        (2, True, "launch"),
        (3, False, ""),
        (4, False, ""),
    ]
    assert not tagging.library.stack
    launch(tagging, own, "after", 5)
    assert not tagging.library.stack


def test_what_the_harness_does_is_left_out(tagging):
    own, _ = functions(tagging.recorder)
    with tagging.tags.ours():
        assert not tagging.library.stack  # nothing is traced yet
    tagging.tags.start()
    launch(tagging, own, "mine", 1)
    with tagging.tags.ours():
        tagging.library.launch("copy of the outputs", 2)
    tagging.library.launch("candidate's side stream", 3)
    names = [item.activity.name for item in tagging.tags.stop()]
    assert names == ["mine", "candidate's side stream"]


def in_calls(tagging, *calls, copy=(100, 110)):
    """Traces calls, each some spans; the copies of outputs come after them. A span that starts
    at None has no time."""
    tagging.tags.start()
    number = 0
    for spans in calls:
        with tagging.tags.begins():
            tagging.library.note(number := number + 1)
        for start, end in spans:
            begin = 0 if start is None else 1_000 + start
            tagging.library.launch("k", number := number + 1, start=begin, end=1_000 + end)
    with tagging.tags.ours():
        tagging.library.launch("copy", number + 1, start=1_000 + copy[0], end=1_000 + copy[1])
    tagging.tags.stop()
    return tagging.tags.overlap_us * 1e3


def test_work_has_its_place_between_calls(tagging):
    assert in_calls(tagging, [(0, 40), (10, 50)], [(50, 90)]) == 0  # beside one another within one
    assert in_calls(tagging, [(0, 40)], [(35, 90)]) == pytest.approx(5)
    assert in_calls(tagging, [(0, 40), (0, 95)], [(50, 60)]) == pytest.approx(45)
    assert in_calls(tagging, [(0, 40)], [(50, 103)]) == pytest.approx(3)
    assert in_calls(tagging, [], []) == 0
    assert in_calls(tagging, [(0, 40)], [(None, 90)]) == 0  # no time is known of it


def test_graph_nodes_are_own_when_they_equal_a_traced_record(tagging):
    own, _ = functions(tagging.recorder)
    tagging.tags.start()
    launch(tagging, own, "mine", 1)
    assert tagging.tags.stop()[0].how == "launch"
    tagging.tags.start()
    for node, (name, regs) in enumerate([("mine", 40), ("mine", 41), ("theirs", 40)], 1):
        tagging.library.launch(name, 9, node=node, regs=regs, start=node)
    found = tagging.tags.stop()
    assert [item.how for item in found] == ["graph", "", ""]


def test_a_graph_captured_before_tracing_is_own_by_the_kernel_that_was_compiled(tagging):
    own, foreign = functions(tagging.recorder)
    named = SimpleNamespace(name="mine", num_warps=4)
    tagging.recorder.compiled(own, SimpleNamespace(metadata=named, n_regs=40))
    tagging.recorder.compiled(foreign, SimpleNamespace(metadata=named, n_regs=50))
    tagging.recorder.compiled(own, SimpleNamespace(metadata=named))  # never loaded
    tagging.tags.start()
    for node, (name, regs) in enumerate([("mine", 40), ("mine", 50), ("theirs", 40)], 1):
        tagging.library.launch(name, 9, node=node, regs=regs, start=node)
    found = tagging.tags.stop()
    assert [item.how for item in found] == ["graph", "", ""]


def test_a_launch_is_one_kernel_whatever_else_runs_under_its_id(tagging):
    own, _ = functions(tagging.recorder)
    named = SimpleNamespace(name="mine", num_warps=4)
    tagging.recorder.compiled(own, SimpleNamespace(metadata=named, n_regs=40))
    tagging.tags.start()
    tagging.recorder.launch(own, (1,), 4)
    tagging.tags.enter(None)
    tagging.library.launch("product", 1, start=1)  # of a hook, or of an argument
    tagging.library.launch("mine", 2, regs=40, start=2)
    tagging.tags.leave(None)
    found = tagging.tags.stop()
    assert [(item.activity.name, item.own) for item in found] == [
        ("product", False),
        ("mine", True),
    ]


def test_a_stray_id_of_the_candidates_own_making_names_nothing():
    records = [Activity("k", 0, 1, correlation=5), Link(12345, 5), Link((1 << 63) + 9, 5)]
    assert not attribute(records, base=1 << 63, tags=[Tag.OWN] * 9, identities=set())[0].own


def test_a_profiler_that_was_taken_away_is_no_error_but_no_records(tagging):
    tagging.tags.start()
    tagging.library.launch("kernel", 1)
    assert len(tagging.tags.stop()) == 1
    tagging.library.cuptiActivityFlushAll = lambda flag: 15
    tagging.tags.start()
    assert tagging.tags.stop() == []
    fresh = Tracer(Cupti(tagging.library))
    with pytest.raises(CuptiUnavailable):
        fresh.start()
