"""What runs on a node of a Ray cluster: an actor that keeps one worker process, as `processes` has them.

A crash, a leak or a hang ends that process and not the actor, which tells of it. Only what ends the node is Ray's.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from falsifier.campaign.executors.child import Child
from falsifier.campaign.executors.machine import cores_of, environment, memory_of, threads_of
from falsifier.campaign.executors.messages import Decided, Improved, Message, Setup, Warned
from falsifier.campaign.executors.node_folder import NodeFolder
from falsifier.campaign.executors.parcels import moved
from falsifier.campaign.units import Unit
from falsifier.machine import free_cores


@dataclass(frozen=True)
class Heard:
    """What there was to hear: messages, how the worker ended if it has, and whether it is worn out."""

    messages: list[Message]
    ended: str | None
    worn: bool


class Host:
    """One worker process on one core of a node, and the files that its units need."""

    def __init__(self, campaign: str, name: str, setup: Setup, memory: int | None) -> None:
        """memory: bytes that the worker may hold; None for its share of the node."""
        import ray

        self._folder = NodeFolder(campaign, ray.get_runtime_context().get_node_id()[:12])
        self._names: dict[str, str] = {}  # where a file lies here, and what the campaign calls it
        self._seats = NodeFolder("seats", str(os.getuid()))  # other campaigns run here too
        seats = free_cores()
        seat = self._seats.seat() % seats
        cores, threads = cores_of(seat, seats), threads_of(seat, seats)
        memory = memory_of(seats) if memory is None else memory
        made = environment(seat, threads, setup.settings.device)
        self._child = Child(name, replace(setup, cores=cores, threads=threads), made, memory)

    def give(self, unit: Unit, places: Mapping[Path, str], files: Mapping[str, Any]) -> bool:
        """Let the worker run a unit; False where it has ended already. places: of each path the parcel that it is the
        first file of; files: references to what is in the parcels, fetched where this node has not had them.
        """
        import ray

        missing = [key for key in files if not self._folder.holds(key)]
        for key, held in zip(missing, ray.get([files[key] for key in missing]), strict=True):
            self._folder.put(key, held)
        here = {path: self._folder.path / key / path.name for path, key in places.items()}
        self._names = {str(there): str(path) for path, there in here.items()}
        alive = self._child.alive
        self._child.give(moved(unit, here))
        return alive

    def hear(self, seconds: float) -> Heard:
        """What the worker has told; waits so long for something."""
        wait([self._child.connection], seconds)
        told = [self._translated(message) for message in self._child.hear()]
        return Heard(told, self._child.ended(), self._child.worn)

    def kill(self, why: str) -> None:
        """End the worker."""
        self._child.kill(why)

    def close(self) -> None:
        """End the worker and the actor, and leave nothing on the node."""
        import ray

        self._child.close()
        self._folder.leave()
        self._seats.leave()
        end: Any = ray.actor.exit_actor
        end()

    def _translated(self, message: Message) -> Message:
        """With the names that the campaign gives to its files."""
        match message:
            case Decided() | Improved():
                decision = message.decision
                return replace(message, decision=replace(decision, reason=self._named(decision.reason)))
            case Warned(text):
                return Warned(self._named(text))
        return message

    def _named(self, text: str) -> str:
        if str(self._folder.path) in text:
            for there, name in self._names.items():
                text = text.replace(there, name)
        return text
