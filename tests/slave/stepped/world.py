"""A scheduler for threads that run one at a time, each as far as a test says, and a clock that the test moves.

The product's modules use ``threading``, ``time`` and ``random``. :meth:`World.installed` replaces these three names in
the modules by objects of this file. A thread of the product is then an :class:`Actor`: a greenlet that gives up control
at each lock, wait and write of a file (a pause). Everything that a schedule of pauses leads to happens again when
the test replays the schedule.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import greenlet

START = 1_700_000_000.0
"""The Unix time at which each world begins, seconds."""

_MOST_ROUNDS = 20_000
"""The number of rounds after which a world that does not become quiet counts as hanging."""

_PACKAGES = (
    "dumpfilter.slave.",
    "dumpfilter.base.waiting",
    "dumpfilter.filter.channels",
    "dumpfilter.master.dump",
)
"""The beginnings of the names of modules in which the names are replaced."""


class Killed(BaseException):
    """The exception that unwinds the threads of a killed process."""


class Hangs(AssertionError):
    """The error of a world in which a wait never ends."""


class Actor:
    """A thread of the product."""

    def __init__(self, world: World, name: str, process: str, run: Callable[[], object]) -> None:
        self.name = name
        self.process = process
        self.ready: Callable[[], bool] | None = None
        """The condition that the actor waits for; None while it does not wait."""
        self.deadline: float | None = None
        self.error: BaseException | None = None
        self.where = ""
        self._world = world
        self._greenlet = greenlet.greenlet(self._main, parent=world.hub)
        self._body = run

    def _main(self) -> None:
        try:
            self._body()
        except Killed:
            pass
        except BaseException as error:
            self.error = error

    @property
    def alive(self) -> bool:
        return not self._greenlet.dead

    @property
    def can_run(self) -> bool:
        if self._greenlet.dead:
            return False
        if self.ready is None or self.ready():
            return True
        return self.deadline is not None and self.deadline <= self._world.now

    def switch(self) -> None:
        self._greenlet.switch()

    def kill(self) -> None:
        """Unwind the actor. It may meet more pauses while it unwinds, and each of them raises Killed again."""
        while self._greenlet and not self._greenlet.dead:
            self._greenlet.throw(Killed)
        if not self._greenlet.dead:
            self._greenlet.throw(greenlet.GreenletExit)

    def is_current(self) -> bool:
        return greenlet.getcurrent() is self._greenlet


class World:
    """All actors of a test, and their clock. The test itself runs in the hub, outside all actors."""

    def __init__(self) -> None:
        self.hub = greenlet.getcurrent()
        self.now = 0.0
        self.pace = 0.0
        """The time that passes at each look at the clock, seconds."""
        self.pauses = 0
        """The number of pauses so far. Two runs of one schedule have the same number."""
        self.actors: list[Actor] = []
        self.current: Actor | None = None
        self._judging = False
        self.on_end: Callable[[Actor], None] = lambda actor: None
        """A function that the hub calls as soon as an actor has ended."""
        self.threading = _threading(self)
        self.time = SimpleNamespace(
            monotonic=self._read_clock, time=lambda: START + self._read_clock(), sleep=self._sleep
        )

    def spawn(self, name: str, run: Callable[[], object], process: str = "") -> Actor:
        """Make an actor. It belongs to the process of the actor that makes it, unless ``process`` names another."""
        actor = Actor(self, name, process or (self.current.process if self.current else ""), run)
        self.actors.append(actor)
        return actor

    def pause(self, where: str) -> None:
        """Give up control. The actor goes on when the test says so."""
        if self.current is not None:
            self.current.where = where
            self.pauses += 1
            self._to_hub()

    def block(self, ready: Callable[[], bool], timeout: float | None = None, where: str = "") -> bool:
        """Wait for a condition, and return whether it is true.

        In the hub the other actors run meanwhile.
        """
        if ready():
            return True
        deadline = None if timeout is None else self.now + max(timeout, 0.0)
        actor = self.current
        if actor is None:
            assert not self._judging, f"the judge waits: {where}"
            self.settle(lambda: ready() or (deadline is not None and self.now >= deadline))
            return ready()
        actor.where = where
        actor.ready, actor.deadline = ready, deadline
        try:
            self._to_hub()
        finally:
            actor.ready = actor.deadline = None
        return ready()

    def _to_hub(self) -> None:
        self.hub.switch()

    def run(self, actor: Actor, pauses: int) -> int:
        """Let an actor run up to a number of pauses, and return the pauses that it took before a wait or its end."""
        taken = 0
        while taken < pauses and actor.can_run:
            self.current = actor
            try:
                actor.switch()
            finally:
                self.current = None
            taken += 1
            if not actor.alive:
                self.actors.remove(actor)
                self._judging = True
                try:
                    self.on_end(actor)
                finally:
                    self._judging = False
                if actor.error is not None:
                    raise actor.error
        return taken

    def round(self, pauses: int) -> bool:
        """Let each actor run once, and return whether any of them could."""
        taken = [self.run(actor, pauses) for actor in list(self.actors) if actor in self.actors]
        return any(taken)

    def settle(self, done: Callable[[], bool], pauses: int = 50) -> None:
        """Let all actors run in turn, and the time pass, until a condition is true. Raises Hangs."""
        for _ in range(_MOST_ROUNDS):
            if done():
                return
            if not self.round(pauses):
                waits = [one.deadline for one in self.actors if one.deadline is not None]
                if not waits:
                    break
                self.now = max(self.now, min(waits))
        if not done():
            raise Hangs("; ".join(f"{one.name}: {one.where}" for one in self.actors) or "no thread is left")

    def kill(self, process: str) -> None:
        """End all actors of a process at the places where they stand."""
        for actor in [one for one in self.actors if one.process == process]:
            self.actors.remove(actor)
            self.current = actor
            try:
                actor.kill()
            finally:
                self.current = None

    def _read_clock(self) -> float:
        self.now += self.pace
        return self.now

    def _sleep(self, seconds: float) -> None:
        self.block(lambda: False, seconds, "sleep")

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Replace the names ``threading``, ``time`` and ``random`` in the product's modules inside of the block."""
        instead = {
            "threading": self.threading,
            "time": self.time,
            "random": SimpleNamespace(Random=lambda: random.Random(0), uniform=random.Random(0).uniform),
        }
        kept = [
            (module, name, getattr(module, name))
            for module in list(sys.modules.values())
            if getattr(module, "__name__", "").startswith(_PACKAGES)
            for name in instead
            if getattr(getattr(module, name, None), "__name__", None) == name
        ]
        for module, name, _ in kept:
            setattr(module, name, instead[name])
        clocks = [*_clocks()]
        for defaults, name in clocks:
            defaults[name] = self._read_clock
        try:
            yield
        finally:
            for actor in self.actors:
                actor.kill()
            self.actors.clear()
            for module, name, value in kept:
                setattr(module, name, value)
            for defaults, name in clocks:
                defaults[name] = time.monotonic


def _clocks() -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the defaults of the product's functions that are the real clock, with the parameter's name."""
    for module in list(sys.modules.values()):
        if getattr(module, "__name__", "").startswith(_PACKAGES):
            for made in list(vars(module).values()):
                defaults = getattr(getattr(made, "__init__", None), "__kwdefaults__", None) or {}
                for name, value in defaults.items():
                    if value is time.monotonic:
                        yield defaults, name


def _threading(world: World) -> Any:
    """Return an object with the part of the module ``threading`` that the product uses."""

    class Lock:
        def __init__(self) -> None:
            self._depth = 0
            self._owner: Actor | None = None

        def _free(self) -> bool:
            return self._owner is None and not self._depth

        def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
            world.pause("lock")
            if not blocking:
                if not self._free():
                    return False
            elif not world.block(self._free, None if timeout < 0 else timeout, "lock"):
                return False
            self._depth, self._owner = 1, world.current
            return True

        def release(self) -> None:
            self._depth, self._owner = 0, None

        def locked(self) -> bool:
            return not self._free()

        def __enter__(self) -> None:
            self.acquire()

        def __exit__(self, *_: object) -> None:
            self.release()

    class RLock(Lock):
        def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
            if self._depth and self._owner is world.current:
                self._depth += 1
                return True
            return super().acquire(blocking, timeout)

        def release(self) -> None:
            self._depth -= 1
            if not self._depth:
                self._owner = None

    class Condition:
        def __init__(self, lock: Any = None) -> None:
            self._lock = lock or RLock()
            self._generation = 0

        def __enter__(self) -> None:
            self._lock.acquire()

        def __exit__(self, *_: object) -> None:
            self._lock.release()

        def wait(self, timeout: float | None = None) -> bool:
            seen = self._generation
            self._lock.release()
            try:
                return world.block(lambda: self._generation != seen, timeout, "condition")
            finally:
                self._lock.acquire()

        def wait_for(self, predicate: Callable[[], bool], timeout: float | None = None) -> bool:
            end = None if timeout is None else world.now + timeout
            while not predicate():
                if end is not None and world.now >= end:
                    return predicate()
                self.wait(None if end is None else end - world.now)
            return True

        def notify_all(self) -> None:
            self._generation += 1

        notify = notify_all

    class Event:
        def __init__(self) -> None:
            self._is_set = False

        def is_set(self) -> bool:
            return self._is_set

        def set(self) -> None:
            self._is_set = True

        def clear(self) -> None:
            self._is_set = False

        def wait(self, timeout: float | None = None) -> bool:
            return world.block(self.is_set, timeout, "event")

    class Thread:
        def __init__(
            self,
            target: Callable[..., object],
            args: tuple[Any, ...] = (),
            name: str = "",
            daemon: bool = False,
        ) -> None:
            self.name = name
            self.native_id = self.ident = 1
            self._target, self._args = target, args
            self._actor: Actor | None = None

        def start(self) -> None:
            self._actor = world.spawn(self.name, lambda: self._target(*self._args))

        def is_alive(self) -> bool:
            return self._actor is not None and self._actor.alive

        def join(self, timeout: float | None = None) -> None:
            world.block(lambda: not self.is_alive(), timeout, "join")

    return SimpleNamespace(
        Lock=Lock, RLock=RLock, Condition=Condition, Event=Event, Thread=Thread, __name__="threading"
    )
