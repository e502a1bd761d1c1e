"""Where the rows of an event go."""

from typing import Any, Mapping, Sequence

from wit_world.imports.types import Change, Operation, Shape

from .values import value


class Rows:
    """Gathers the rows of an event; they apply in this order. Heads are said once per batch, and found again by their
    columns."""

    def __init__(self, writes: Mapping[str, Sequence[str]]):
        self._writes = writes
        self._known: dict[tuple, int] = {}
        self.shapes: list[Shape] = []
        self._changes: list[Change] = []

    def upsert(self, target: str, /, **row: Any) -> None:
        """Insert the row, or merge into the one that is there, as the target's configuration says."""
        self._push(Operation.UPSERT, target, row)

    def update(self, target: str, /, **row: Any) -> None:
        """Merge into the row that is there; does nothing where there is none."""
        self._push(Operation.UPDATE, target, row)

    def delete(self, target: str, /, **row: Any) -> None:
        """Take the row away. The columns are the target's key, and the column of its guard where it has one."""
        self._push(Operation.DELETE, target, row)

    def _push(self, operation: Operation, target: str, row: dict[str, Any]) -> None:
        values = [value(of, column) for column, of in row.items()]
        head = (operation, target, *row)
        shape = self._known.get(head)
        if shape is None:
            shape = self._new_shape(operation, target, list(row))
            self._known[head] = shape
        self._changes.append(Change(shape, values))

    def _new_shape(self, operation: Operation, target: str, columns: list[str]) -> int:
        granted = self._writes.get(target)
        if granted is None:
            raise TypeError(f"{target} is none of the targets that this plugin says it writes")
        for column in columns:
            if column not in granted:
                raise TypeError(f"{column} is no column that this plugin says it writes to {target}")
        self.shapes.append(Shape(operation, target, columns))
        return len(self.shapes) - 1

    def take(self) -> list[Change]:
        """The rows since the last call."""
        changes, self._changes = self._changes, []
        return changes
