"""Parts of files that one rank of a group reads and all others get from it, by ``torch.distributed``."""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Iterator
from typing import Any

from ._job import Ahead, Filled, Job
from ._pieces import Part
from ._progress import Teller
from ._shards import Shard
from ._views import TorchViews
from .errors import BadInput, PeerlaneError


class Group:
    """Ranks that share the reading."""

    def __init__(self, group: Any, views: Any) -> None:
        if not isinstance(views, TorchViews):
            raise BadInput(["group: tensors of PyTorch are needed; hint: framework='torch'"])
        self._views = views
        self._all: Any = importlib.import_module("torch.distributed")
        if not self._all.is_initialized():
            raise BadInput(
                ["group: torch.distributed is not initialised"],
                hint="torch.distributed.init_process_group(...)",
            )
        self._group = self._all.group.WORLD if group is True or group is self._all else group
        self.rank: int = self._all.get_rank(self._group)
        self.size: int = self._all.get_world_size(self._group)
        if self.rank < 0:
            raise BadInput(["group: this process is none of its ranks"])

    def check(self, job: Job, shards: list[Shard]) -> None:
        """Refuses ranks that ask for different things: they would wait for each other forever."""
        words = repr(([(one.start, one.size) for one in shards], job.parts)).encode()
        digest = hashlib.sha256(words).hexdigest()
        found: list[Any] = [None] * self.size
        self._all.all_gather_object(found, digest, group=self._group)
        other = next((rank for rank, one in enumerate(found) if one != found[0]), None)
        if other is not None:
            problem = f"group: rank {other} asks for other tensors or files than rank 0"
            raise BadInput([problem], hint="give all ranks the same names, slices, memory= and dtype=")

    def filled(self, job: Job, memory: int, teller: Teller) -> Iterator[tuple[Ahead, Filled, bool]]:
        """All parts in their order, each read by one rank; the last word says whether by this one."""
        owners = self._owners(job.parts)
        own = [part for part, owner in zip(job.parts, owners, strict=True) if owner == self.rank]
        # The other half is that of parts which others read.
        ahead = Ahead(job, own, memory // 2, teller)
        try:
            for part, owner in zip(job.parts, owners, strict=True):
                filled, error = None, None
                if owner == self.rank:
                    try:
                        filled = ahead.next()
                    except BaseException as problem:
                        error = problem
                self._agree(owner, error)
                if filled is None:
                    filled = job.place(part)
                if part.length:
                    flat = self._views.flat(filled.memory)[filled.at : filled.at + part.length]
                    self._broadcast(flat, owner)
                    if owner != self.rank:
                        job.tally.count_route("broadcast", part.bytes)
                        job.tally.rise(part.length)
                        teller.add(part.read)
                # Popped as it is handed out: nothing here may hold what the caller drops.
                found = [(ahead, filled, owner == self.rank)]
                del filled
                yield found.pop()
        finally:
            ahead.close()

    def _owners(self, parts: list[Part]) -> list[int]:
        """The rank that reads each part: the one with the fewest bytes so far."""
        sizes, owners = [0] * self.size, []
        for part in parts:
            owner = sizes.index(min(sizes))
            sizes[owner] += part.length
            owners.append(owner)
        return owners

    def _agree(self, owner: int, error: BaseException | None) -> None:
        """Has all ranks raise the error of the one that reads."""
        words = "" if error is None else str(error)
        text = words.encode()
        length = self._numbers(len(text))
        self._broadcast(length, owner)
        if error is not None and not text:
            raise error
        if int(length.item()):
            torch = importlib.import_module("torch")
            content = self._numbers(0).new_zeros(int(length.item()), dtype=torch.uint8)
            if error is not None:
                content.copy_(torch.frombuffer(bytearray(text), dtype=torch.uint8))
            self._broadcast(content, owner)
            if error is not None:
                raise error
            raise PeerlaneError([f"rank {owner} could not read its part", bytes(content.tolist()).decode()])

    def _numbers(self, value: int) -> Any:
        return importlib.import_module("torch").tensor([value], device=self._views.device)

    def _broadcast(self, tensor: Any, owner: int) -> None:
        source = self._all.get_global_rank(self._group, owner)
        self._all.broadcast(tensor, source, group=self._group)
