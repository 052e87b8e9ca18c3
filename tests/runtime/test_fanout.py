"""Bounded, lazy, complete: every item is handled once, children before the next item of the list."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel
import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metricsbridge.runtime._fanout import FanOut

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Tree = list["Tree"]
TREES = st.recursive(st.just([]), lambda inner: st.lists(inner, max_size=4), max_leaves=30)


def count(trees: Iterable[Tree]) -> int:
    return sum(1 + count(tree) for tree in trees)


@given(trees=st.lists(TREES, max_size=8), workers=st.integers(1, 6))
async def test_every_item_is_handled_once_and_never_more_at_once_than_workers(trees: list[Tree], workers: int) -> None:
    handled = busy = most = 0

    async def handle(tree: Tree) -> Iterable[Tree]:
        nonlocal handled, busy, most
        busy += 1
        most = max(most, busy)
        await anyio.lowlevel.checkpoint()
        busy -= 1
        handled += 1
        return iter(tree)

    async with anyio.create_task_group() as tasks:
        FanOut(iter(trees), handle, workers=workers).start(tasks)
    assert handled == count(trees)
    assert most <= workers


async def test_the_list_is_read_only_as_fast_as_work_gets_done() -> None:
    read = done = 0

    def items() -> Iterable[int]:
        nonlocal read
        for number in range(1000):
            read += 1
            assert read - done <= 5
            yield number

    async def handle(item: int) -> Iterable[int]:
        nonlocal done
        await anyio.lowlevel.checkpoint()
        done += 1
        return ()

    async with anyio.create_task_group() as tasks:
        FanOut(iter(items()), handle, workers=4).start(tasks)
    assert done == 1000


async def test_children_come_before_the_next_item() -> None:
    order: list[str] = []

    async def handle(item: str) -> Iterable[str]:
        order.append(item)
        return [item + "x", item + "y"] if len(item) == 1 else ()

    async with anyio.create_task_group() as tasks:
        FanOut(iter("ab"), handle, workers=1).start(tasks)
    assert order == ["a", "ax", "ay", "b", "bx", "by"]


async def test_a_waiting_worker_takes_up_the_children_of_another() -> None:
    running = anyio.Event()

    async def handle(item: int) -> Iterable[int]:
        if item == 0:
            await anyio.wait_all_tasks_blocked()
            return [1, 2]
        if item == 1:
            await running.wait()
        else:
            running.set()
        return ()

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            FanOut(iter([0]), handle, workers=2).start(tasks)
    assert running.is_set()


async def test_what_is_left_is_asked_for_until_there_is_nothing() -> None:
    left = [["c"], ["b"], ["a"]]
    handled: list[str] = []

    async def handle(item: str) -> Iterable[str]:
        handled.append(item)
        return ()

    async with anyio.create_task_group() as tasks:
        FanOut(iter("x"), handle, workers=3, last=lambda: left.pop() if left else ()).start(tasks)
    assert handled == ["x", "a", "b", "c"]


async def test_what_is_left_does_not_wait_for_what_hangs_but_for_the_items_of_the_list() -> None:
    slow, left, handled = anyio.Event(), ["z"], list[str]()

    async def handle(item: str) -> Iterable[str]:
        if item == "ax":
            await anyio.sleep_forever()
        if item == "b":
            await slow.wait()
            left.append("y")
        handled.append(item)
        return ["ax"] if item == "a" else ()

    def last() -> Iterable[str]:
        given = left[:]
        left.clear()
        return given

    async with anyio.create_task_group() as tasks:
        FanOut(iter("ab"), handle, workers=3, last=last).start(tasks)
        await anyio.wait_all_tasks_blocked()
        assert handled == ["a"]
        slow.set()
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    assert handled == ["a", "b", "z", "y"]


@pytest.mark.parametrize("workers", [1, 3])
async def test_after_a_cancellation_every_item_is_done_or_unfinished(workers: int) -> None:
    done: list[int] = []

    async def handle(item: int) -> Iterable[int]:
        if item == 5:
            scope.cancel()
        await anyio.lowlevel.checkpoint()
        done.append(item)
        return [item + 100] if item < 100 else ()

    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as tasks:
            fan = FanOut(iter(range(10)), handle, workers=workers)
            fan.start(tasks)
    unfinished = list(fan.unfinished())
    assert 5 in unfinished
    expected = {*range(10), *(item + 100 for item in done if item < 100)}
    assert sorted(done + unfinished) == sorted(expected)


@pytest.mark.parametrize(
    ("workers", "shares"), [(1, [1]), (2, [1, 1]), (16, [8, 4, 2, 1, 1]), (64, [32, 16, 8, 4, 2, 1, 1])]
)
async def test_while_there_is_other_work_no_item_s_children_take_more_places_than_are_free(
    workers: int, shares: list[int]
) -> None:
    """Children that hang: of the first item half of the places, of the next a quarter, and so on."""
    under_way: dict[str, int] = {}

    async def handle(item: str) -> Iterable[str]:
        if len(item) == 1:
            return [item + "x"] * workers
        under_way[item[0]] = under_way.get(item[0], 0) + 1
        await anyio.sleep_forever()
        raise AssertionError

    async with anyio.create_task_group() as tasks:
        FanOut(iter("abcdefghijk"), handle, workers=workers).start(tasks)
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    assert list(under_way.values()) == shares
    assert list(under_way) == list("abcdefghijk"[: len(shares)])


@pytest.mark.parametrize(("workers", "most"), [(1, 1), (2, 2), (16, 5), (64, 7)])
async def test_few_items_are_half_done_however_long_it_goes_on(workers: int, most: int) -> None:
    """Children take some turns each and end in any order."""
    dice = random.Random(7)
    left: dict[int, int] = {}
    half_done = []

    async def handle(item: tuple[int, int]) -> Iterable[tuple[int, int]]:
        parent, number = item
        for _ in range(dice.randrange(1, 4)):
            await anyio.lowlevel.checkpoint()
        if number < 0:
            left[parent] = 50
            return [(parent, child) for child in range(50)]
        left[parent] -= 1
        half_done.append(sum(0 < count < 50 for count in left.values()))
        return ()

    async with anyio.create_task_group() as tasks:
        FanOut(iter([(parent, -1) for parent in range(100)]), handle, workers=workers).start(tasks)
    assert not any(left.values())
    assert len(half_done) == 100 * 50
    # The last calls of a few may still be under way when all of theirs have begun.
    assert max(half_done) <= most + 2
    assert sum(half_done) / len(half_done) <= most


async def test_where_there_is_nothing_else_one_item_s_children_take_all_places() -> None:
    under_way = 0

    async def handle(item: str) -> Iterable[str]:
        nonlocal under_way
        if item == "a":
            return ["x"] * 100
        under_way += 1
        await anyio.sleep_forever()
        raise AssertionError

    async with anyio.create_task_group() as tasks:
        FanOut(iter("a"), handle, workers=16).start(tasks)
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    assert under_way == 16


async def test_places_that_are_left_over_go_to_whose_children_have_the_fewest() -> None:
    """The first item's children hang, the second one's do not: those are done all the same."""
    done = 0

    async def handle(item: str) -> Iterable[str]:
        nonlocal done
        if len(item) == 1:
            return [item + "x"] * 50
        if item == "ax":
            await anyio.sleep_forever()
        await anyio.lowlevel.checkpoint()
        done += 1
        return ()

    async with anyio.create_task_group() as tasks:
        FanOut(iter("ab"), handle, workers=16).start(tasks)
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    assert done == 50


@attrs.frozen
class Node:
    """An item, how many turns it takes, whether it hangs, and what it brings forth."""

    turns: int
    hangs: bool
    children: tuple[Node, ...] = ()


LEAVES = st.builds(Node, st.integers(0, 5), st.booleans())
NODES = st.recursive(
    LEAVES,
    lambda inner: st.builds(Node, st.integers(0, 5), st.booleans(), st.lists(inner, max_size=6).map(tuple)),
    max_leaves=40,
)


def reached(nodes: Iterable[Node], path: tuple[int, ...] = ()) -> dict[tuple[int, ...], Node]:
    """Give by its path each item that must be begun: those below one that hangs are never heard of."""
    found = {}
    for number, node in enumerate(nodes):
        place = (*path, number)
        found[place] = node
        if not node.hangs:
            found |= reached(node.children, place)
    return found


async def run_until_nothing_moves(nodes: Sequence[Node], workers: int) -> Counter[tuple[int, ...]]:
    """Give how often each item was done, and hold what is left against what hangs."""
    done: Counter[tuple[int, ...]] = Counter()
    begun = reached(nodes)
    steps = quiet = 0

    async def handle(path: tuple[int, ...]) -> Iterable[tuple[int, ...]]:
        nonlocal steps
        node = begun[path]
        for _ in range(node.turns + 1):
            steps += 1
            await anyio.lowlevel.checkpoint()
        if node.hangs:
            await anyio.sleep_forever()
        done[path] += 1
        return ((*path, number) for number in range(len(node.children)))

    async with anyio.create_task_group() as tasks:
        fan = FanOut(iter([(number,) for number in range(len(nodes))]), handle, workers=workers)
        fan.start(tasks)
        while quiet < 20:
            before = steps
            await anyio.lowlevel.checkpoint()
            quiet = 0 if steps > before else quiet + 1
        tasks.cancel_scope.cancel()
    left = Counter(fan.unfinished())
    assert done + left == Counter({path: 1 for path in begun if path in done or path in left})
    assert all(path in done or path in left or path[:-1] not in done for path in begun if len(path) > 1)
    return done


@given(nodes=st.lists(NODES, max_size=8), more=st.integers(1, 4))
async def test_what_hangs_starves_nobody_while_there_is_a_place_left(nodes: list[Node], more: int) -> None:
    begun = reached(nodes)
    hanging = {path for path, node in begun.items() if node.hangs}
    done = await run_until_nothing_moves(nodes, len(hanging) + more)
    assert set(done) == set(begun) - hanging


@given(nodes=st.lists(NODES, max_size=8), workers=st.integers(1, 4))
async def test_nothing_is_lost_or_done_twice_however_much_hangs(nodes: list[Node], workers: int) -> None:
    await run_until_nothing_moves(nodes, workers)


@given(
    others=st.lists(st.lists(st.integers(0, 5), max_size=30), max_size=12), place=st.integers(0, 12),
    hanging=st.integers(0, 80), turns=st.integers(0, 5), workers=st.integers(2, 20),
)  # fmt: skip
async def test_one_item_of_whose_children_all_hang_starves_no_other(
    others: list[list[int]], place: int, hanging: int, turns: int, workers: int
) -> None:
    nodes = [Node(turns, False, tuple([Node(turns, False) for turns in own])) for turns, own in enumerate(others)]
    bad = min(place, len(nodes))
    nodes.insert(bad, Node(turns, False, (Node(0, True),) * hanging))
    done = await run_until_nothing_moves(nodes, workers)
    assert set(done) == {path for path in reached(nodes) if path[0] != bad or len(path) == 1}
