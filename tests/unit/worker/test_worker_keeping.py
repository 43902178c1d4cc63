"""Judges that wait: who is taken, who is ended, who is left."""

import asyncio

from kernelgym.schema import Submission, Task
from kernelgym.worker.keeping import JudgeKey, JudgeShelf


class FakeJudge:
    def __init__(self) -> None:
        self.closed = False
        self.alive = True

    def is_alive(self) -> bool:
        return self.alive

    async def close(self) -> None:
        self.closed = True


def key(name: str = "t", **options) -> JudgeKey:
    task = Task(name="n", reference=name)
    return JudgeKey.of(Submission(task=task, source="s", **options), "cpu")


def test_a_key_holds_what_changes_the_expected_outputs():
    assert key() == key(trials=7, timeout_s=3.0, backend="torch")
    others = [
        key("other"),
        key(protocol="strict"),
        key(precision="bf16"),
        key(baseline="torch_compile"),
    ]
    assert len({key(), *others}) == 5


async def test_a_judge_serves_its_task_and_is_gone_while_it_does():
    shelf, judge = JudgeShelf(60.0), FakeJudge()
    assert await shelf.take(key()) is None
    await shelf.put(key(), judge)
    assert await shelf.take(key("other")) is None
    assert await shelf.take(key()) is judge
    assert await shelf.take(key()) is None
    await shelf.close()
    assert not judge.closed


async def test_dead_judges_are_passed_over():
    shelf, dead, living = JudgeShelf(60.0), FakeJudge(), FakeJudge()
    await shelf.put(key(), living)
    await shelf.put(key(), dead)
    dead.alive = False
    assert await shelf.take(key()) is living
    assert dead.closed
    await shelf.close()


async def test_the_longest_unused_makes_room():
    shelf, judges = JudgeShelf(60.0, most=2), [FakeJudge() for _ in range(3)]
    for number, judge in enumerate(judges):
        await shelf.put(key(str(number)), judge)
    assert [judge.closed for judge in judges] == [True, False, False]
    await shelf.close()
    assert all(judge.closed for judge in judges)


async def test_idle_judges_are_ended_in_time():
    shelf, judge = JudgeShelf(0.01), FakeJudge()
    await shelf.put(key(), judge)
    for _ in range(1000):
        if judge.closed:
            break
        await asyncio.sleep(0.01)
    assert judge.closed
    assert await shelf.take(key()) is None
    await shelf.close()


async def test_nothing_is_kept_after_the_end_or_without_a_limit():
    judge = FakeJudge()
    shelf = JudgeShelf(0.0)
    await shelf.put(key(), judge)
    assert judge.closed
    closed, late = JudgeShelf(60.0), FakeJudge()
    await closed.close()
    await closed.put(key(), late)
    assert late.closed
