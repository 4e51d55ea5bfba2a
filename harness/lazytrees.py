"""Sequences of trees that are read when they are asked for: memory holds one tree for each worker, never the set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, overload

from harness import treefile
from harness.errors import InputError
from harness.tree import Tree

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.store import Store
    from harness.treefile import TreeFile


class TreeFiles(Sequence[Tree]):
    """Trees of files."""

    def __init__(self, files: Sequence[TreeFile]) -> None:
        self._files = files

    def __len__(self) -> int:
        return len(self._files)

    @overload
    def __getitem__(self, place: int) -> Tree: ...
    @overload
    def __getitem__(self, place: slice) -> TreeFiles: ...
    def __getitem__(self, place: int | slice) -> Tree | TreeFiles:
        if isinstance(place, slice):
            return TreeFiles(self._files[place])
        return treefile.read(self._files[place])


class FoundTrees(Sequence[Tree]):
    """Trees by digest, those of `files` from there, all others from the store; a file that has changed since is refused."""

    def __init__(self, digests: Sequence[str], files: Mapping[str, TreeFile], store: Store | None) -> None:
        self._digests = digests
        self._files = files
        self._store = store

    def __len__(self) -> int:
        return len(self._digests)

    @overload
    def __getitem__(self, place: int) -> Tree: ...
    @overload
    def __getitem__(self, place: slice) -> FoundTrees: ...
    def __getitem__(self, place: int | slice) -> Tree | FoundTrees:
        if isinstance(place, slice):
            return FoundTrees(self._digests[place], self._files, self._store)
        digest = self._digests[place]
        file = self._files.get(digest)
        if file is None:
            if self._store is None:
                raise InputError(f"tree {digest[:12]}: is in no file and no store; expected it in one of them")
            return self._store.tree(digest)
        tree = treefile.read(file)
        if tree.digest != digest:
            raise InputError(f"{file}: the file has changed since it was looked at; run the command again")
        return tree
