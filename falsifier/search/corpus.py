"""The corpus: points worth mutating, each with its lineage, as arrays on the device of the problem (paper A, 1 to 5).

Nothing here loops over entries or copies them to the host, and shapes never change: a corpus has as many slots as it is
made with, and one more that takes what is thrown away.

Eviction: when no slot is empty, a new entry takes the place of the entry with the least energy, among entries of about
equal energy the oldest; an eighth of the entries is lined up at a time, by the energies that they have then. Originals
never give way, so every group can always start over.

Axes: c slot, g group (what shares an original: the targets of one instance), f free input, b lane.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from falsifier.arrays import (
    Array,
    Marks,
    Rng,
    arange,
    as_dtype_of,
    as_int64,
    as_wide,
    first_of,
    full,
    is_numpy,
    namespace,
    place_in,
    put_add,
    put_max,
    row_hash,
    stable_order,
    to_host,
    top_k,
    zeros,
)

_AT_ONCE = 8  # the part of a full corpus whose weakest entries are looked up at a time: one in so many
_AGE = 2.0**-40  # how much younger an entry must be to count as one with more energy, in parts of the energy


@dataclass(frozen=True)
class Children:
    """What may enter: points x `[b, f]`, the slot of each one's parent `[b]`, target `[b]`, margin and energy `[b]`."""

    x: Array
    parent: Array
    target: Array
    margin: Array
    energy: Array


class Corpus:
    """Entries over `capacity` slots.

    x `[c, f]`; group, target, depth (mutations since the original), number (of the entry, ascending; -1: empty), parent
    (the number of the entry it was mutated from, -1: none), drawn (how often it was a parent) `[c]` int64; energy
    `[c]` float64, 0 in empty slots; margin `[c]`. originals `[g, f]` and label `[g]` int64 (-1: none) never change.
    """

    def __init__(self, originals: Array, label: Array, target: Array, margin: Array, capacity: int) -> None:
        """One entry for each original, of energy 1. target `[g]`, margin `[g]`: what an original aims at, and gets."""
        self.originals, self.label = originals + 0, label
        groups = int(originals.shape[0])
        self.groups = groups
        self.capacity = capacity = max(capacity, groups)
        whole = arange(capacity + 1, originals) * 0
        self.x = zeros((capacity + 1, int(originals.shape[1])), originals)
        self.group, self.target, self.depth, self.drawn = whole + groups, whole + 0, whole + 0, whole + 0
        self.number, self.parent, self.hash = whole - 1, whole - 1, whole + 0
        self.energy = as_wide(whole) * 0.0
        self.margin = full((capacity + 1,), -float("inf"), originals)
        self.x[:groups] = originals
        self.group[:groups] = self.number[:groups] = arange(groups, originals)
        self.target[:groups], self.margin[:groups] = target, margin
        self.hash[:groups] = row_hash(originals)
        self.energy[:groups] = 1.0
        self.next_number = whole[:1] + groups  # an array, so that nobody has to wait for the count
        self._reach = groups  # slots from here on are empty
        self._queue: Array | None = None
        self._served = 0  # of the queue
        self._marks = Marks(self.hash[:groups], capacity)
        self._order: tuple[Array, Array] | None = None

    @property
    def size(self) -> int:
        """How many entries there are (a device waits for the answer)."""
        return int((self.number >= 0).sum())

    def draw(self, rng: Rng, count: int) -> Array:
        """Slots `[b]` of `count` entries drawn with replacement, with probability energy over the sum of energies."""
        total = self.energy[: self._reach].cumsum(0)
        draws = rng.uniform((count,), total) * total[-1]
        return namespace(draws).clip(place_in(total, draws), 0, self._reach - 1)

    def draw_within(self, rng: Rng, group: Array) -> Array:
        """Slots `[b]`: for each lane an entry of its group `[b]`, drawn by energy within the group."""
        xp = namespace(self.x)
        if self._order is None:
            order = stable_order(self.group[: self._reach])
            self._order = order, place_in(self.group[order], arange(self.groups + 1, self.x) - 1)
        order, starts = self._order
        energy = self.energy[order]
        total = energy.cumsum(0)
        first, last = starts[group], starts[group + 1] - 1
        low, high = total[first] - energy[first], total[last]
        draws = low + rng.uniform(tuple(group.shape), total) * (high - low)
        place = as_int64(place_in(total, draws))
        return order[xp.minimum(xp.maximum(place, first), last)]

    def note_drawn(self, slots: Array) -> None:
        """Count parents."""
        put_add(self.drawn, slots, slots * 0 + 1)

    def renew_energy(self, slots: Array, energy: Array) -> None:
        """Give parents `slots` `[b]` new energies `[b]`; of a parent drawn several times the greatest counts."""
        self.energy[slots] = -1.0
        put_max(self.energy, slots, as_wide(energy))

    def close(self, closed: Array) -> None:
        """Let groups end: closed `[g]` bool. Their entries are drawn no more, and give way first."""
        xp = namespace(closed)
        gone = xp.concat([closed, closed[:1] & False])[self.group]
        self.energy = xp.where(gone, 0 * self.energy, self.energy)

    def admit(self, children: Children, wanted: Array) -> Array:
        """Let the `wanted` `[b]` children enter that are not there yet; returns which did, `[b]`."""
        if is_numpy(wanted) and not wanted.any():
            return wanted
        xp = namespace(wanted)
        marks = row_hash(children.x)
        # what is not wanted must not hide a twin that is
        kept = wanted & first_of(xp.where(wanted, marks, ~marks)) & ~self._marks.has(marks)
        slots = self._next_slots(int(marks.shape[0]))
        rank = as_int64(kept).cumsum(0) - 1
        kept = kept & (rank < int(slots.shape[0]))
        slot = slots[xp.clip(rank, 0, int(slots.shape[0]) - 1)]
        original = (self.depth[slot] == 0) & (self.number[slot] >= 0)
        kept = kept & ~original
        self._marks.add(marks, kept)
        slot = xp.where(kept, slot, self.capacity + 0 * slot)
        number = self.next_number + as_int64(kept).cumsum(0) - 1
        self.next_number = self.next_number + as_int64(kept).sum()
        if is_numpy(kept):
            rows = np.flatnonzero(kept)
            slot, number = slot[rows], number[rows]
            children = Children(
                *(a[rows] for a in (children.x, children.parent, children.target)),
                *(a[rows] for a in (children.margin, children.energy)),
            )
            marks = marks[rows]
        self._filled(int(slot.shape[0]))
        self._write(slot, number, marks, children)
        return kept

    def _filled(self, count: int) -> None:
        """Note that the first `count` of the next slots are taken (on a device: may be)."""
        if self._reach < self.capacity:
            self._reach += count
        else:
            self._served += count

    def _next_slots(self, count: int) -> Array:
        """The slots to be filled next: empty ones in order; then a queue of the weakest, made anew when it runs out."""
        if self._reach + count <= self.capacity:
            return arange(count, self.number) + self._reach
        self._reach = self.capacity
        if self._queue is None or int(self._queue.shape[0]) - self._served < count:
            self._queue, self._served = self._weakest(max(count, self.capacity // _AT_ONCE)), 0
        return self._queue[self._served : self._served + count]

    def _weakest(self, count: int) -> Array:
        """Slots: empty ones in order, then by energy and age; originals last."""
        xp = namespace(self.energy)
        number, depth = self.number[:-1], self.depth[:-1]
        key = self.energy[:-1] * (1 + as_wide(number) * _AGE)
        key = xp.where(number < 0, as_wide(arange(self.capacity, number)) - (self.capacity + 1.0), key)
        key = xp.where((depth == 0) & (number >= 0), key * 0 + np.inf, key)
        return top_k(key, count, largest=False)[1]

    def _write(self, slot: Array, number: Array, marks: Array, children: Children) -> None:
        parent = children.parent
        before = {name: getattr(self, name)[parent] for name in ("number", "depth", "group")}
        self.x[slot] = children.x
        self.number[slot], self.parent[slot] = number, before["number"]
        self.depth[slot], self.group[slot] = before["depth"] + 1, before["group"]
        self.target[slot], self.hash[slot] = children.target, marks
        self.margin[slot] = as_dtype_of(children.margin, self.margin)
        self.energy[slot] = as_wide(children.energy)
        self.drawn[slot] = 0
        for name, blank in (("energy", 0.0), ("number", -1), ("group", self.groups), ("hash", 0)):
            getattr(self, name)[self.capacity :] = blank
        self._order = None

    def refill(self, count: int) -> None:
        """Say that the first `count` slots were filled from outside."""
        self._reach, self._order = max(count, self.groups), None
        self._marks = Marks(self.hash[:count], self.capacity)

    def host(self) -> dict[str, Any]:
        """The entries as host arrays, without empty slots; what `corpus_file.save` writes."""
        used = to_host(self.number) >= 0
        names = ("x", "group", "target", "depth", "number", "parent", "drawn", "energy", "margin", "hash")
        parts = {name: to_host(getattr(self, name))[used] for name in names}
        shared = {name: to_host(getattr(self, name)) for name in ("originals", "label", "next_number")}
        return parts | shared
