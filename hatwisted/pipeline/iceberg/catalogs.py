"""A table's name, its catalog and its schema: made, widened (columntypes.py), or refused by a column that doesn't
fit.

    iceberg:lake.rocketmq.messages     catalog `lake`, namespace `rocketmq`, table `messages`

Catalogs are configured as everybody's are who uses pyiceberg: in `.pyiceberg.yaml` in the home folder or where
PYICEBERG_HOME says, or by variables such as PYICEBERG_CATALOG__LAKE__URI.

A new table is partitioned by topic and by the day (UTC) of the store time, the column `store_date`, as landed
Delta tables are, so that queries are the same. Hidden partitioning by `day(store_timestamp)` was rejected for
new tables: a message that a broker with a broken clock stored outside the years 1 to 9999 has no such day, and
pyiceberg fails. A table that is there keeps its partitioning, whatever it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from hatwisted.pipeline.delta.deadletters import SUFFIX
from hatwisted.pipeline.delta.errors import WrongTable
from hatwisted.pipeline.delta.fulldisk import telling_full
from hatwisted.pipeline.delta.landedrows import PARTITION_BY
from hatwisted.pipeline.errors import PipelineError, WrongSchema, said
from hatwisted.pipeline.iceberg.arrowtypes import plain_schema
from hatwisted.pipeline.iceberg.columntypes import fitting

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

PREFIX: Final = "iceberg:"
MAX_AGE: Final = "history.expire.max-snapshot-age-ms"
NEWEST_FORMAT: Final = 2
"""Of tables that pyiceberg writes."""
NEW_TABLE: Final = {
    "format-version": str(NEWEST_FORMAT),
    "write.parquet.compression-codec": "zstd",
    "write.parquet.compression-level": "1",
    MAX_AGE: str(5 * 86_400_000),
    "write.metadata.delete-after-commit.enabled": "true",
}
"""Properties of tables that are made here; each commit writes a new metadata file, which lists all snapshots."""


def is_iceberg(table: str) -> bool:
    """Does a landing's table name one in a catalog?"""
    return table.startswith(PREFIX)


@dataclass(frozen=True)
class IcebergName:
    """Where a table is."""

    catalog: str
    table: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> IcebergName:
        """From `iceberg:CATALOG.NAMESPACE.TABLE`; WrongTable for another one."""
        catalog, *table = text.removeprefix(PREFIX).split(".")
        if len(table) < 2 or not all((catalog, *table)):
            raise WrongTable(f"{text}: doesn't name a table: give {PREFIX}CATALOG.NAMESPACE.TABLE")
        return cls(catalog, tuple(table))

    @property
    def beside(self) -> IcebergName:
        """The table of its dead letters."""
        return IcebergName(self.catalog, (*self.table[:-1], self.table[-1] + SUFFIX))

    def __str__(self) -> str:
        return PREFIX + ".".join((self.catalog, *self.table))

    def open_catalog(self) -> Catalog:
        """Raises PipelineError if pyiceberg isn't there, WrongTable if the catalog isn't configured."""
        try:
            from pyiceberg.catalog import load_catalog
        except ImportError:
            raise PipelineError(
                f"{self}: Iceberg tables need pyiceberg: pip install 'hatwisted[iceberg]'"
            ) from None
        try:
            with plainly(str(self), but=(ValueError,)):
                return load_catalog(self.catalog)
        except ValueError as error:
            raise WrongTable(
                f"{self}: the catalog {self.catalog} isn't configured: {said(error)}; say where it is in"
                f" ~/.pyiceberg.yaml, or by PYICEBERG_CATALOG__{self.catalog.upper()}__URI"
            ) from error

    def load(self) -> Table:
        """The table as it is now."""
        with plainly(str(self)):
            return self.open_catalog().load_table(self.table)

    def load_if_any(self) -> Table | None:
        """The same; None: there's none."""
        from pyiceberg.exceptions import NoSuchTableError

        with plainly(str(self)):
            try:
                return self.open_catalog().load_table(self.table)
            except NoSuchTableError:
                return None

    def prepare(
        self,
        rows: pa.Schema,
        partition_by: Sequence[str] = PARTITION_BY,
        properties: Mapping[str, str] | None = None,
    ) -> Table:
        """Make the table, or widen it so that these rows fit. Raises WrongSchema, WrongTable.

        - rows: their columns
        - partition_by: a new table is
        - properties: that a new table has besides
        """
        from pyiceberg.exceptions import NoSuchTableError, TableAlreadyExistsError

        catalog = self.open_catalog()
        with plainly(str(self)):
            try:
                table = catalog.load_table(self.table)
            except NoSuchTableError:
                catalog.create_namespace_if_not_exists(self.table[:-1])
                try:
                    return self._make(catalog, rows, partition_by, properties or {})
                except TableAlreadyExistsError:
                    table = catalog.load_table(self.table)  # another run has just made it
            if table.format_version > NEWEST_FORMAT:
                raise WrongTable(
                    f"{self}: has format version {table.format_version}, which pyiceberg doesn't write yet: land"
                    f" into a table of version {NEWEST_FORMAT}"
                )
            return self._widened(table, rows)

    def _make(
        self, catalog: Catalog, rows: pa.Schema, partition_by: Sequence[str], properties: Mapping[str, str]
    ) -> Table:
        making = catalog.create_table_transaction(self.table, rows, properties={**NEW_TABLE, **properties})
        with making.update_spec() as spec:
            for column in partition_by:
                spec.add_identity(column)
        making.commit_transaction()
        return catalog.load_table(self.table)

    def _widened(self, table: Table, rows: pa.Schema) -> Table:
        there = table.schema()
        types = plain_schema(there)
        wider = []
        for item in rows:
            kind = item.type
            if item.name not in types.names:
                _check_renamed(table, item.name, str(self))
            else:
                kind = fitting(types.field(item.name).type, item.type, f"{self}: column {item.name}")
                if kind.equals(types.field(item.name).type):
                    continue
            wider.append(pa.field(item.name, kind))
        if wider:
            with table.update_schema() as change:
                change.union_by_name(pa.schema(wider))
        for item in there.fields:
            if item.required and item.name not in rows.names:
                raise WrongSchema(
                    f"{self}: column {item.name} may not be null, and the log has nothing for it"
                )
        return table


def _check_renamed(table: Table, column: str, name: str) -> None:
    """Raises WrongSchema if a column that isn't there has another name now: it would go on as two.

    - table: as it was loaded
    - column: which
    - name: of the table, for errors
    """
    names = {item.field_id: item.name for item in table.schema().fields}
    for schema in table.schemas().values():
        for item in schema.fields:
            if item.name == column and item.field_id in names:
                raise WrongSchema(
                    f"{name}: column {column} was renamed to {names[item.field_id]}: name it {column} again, or"
                    " land columns without it"
                )


@contextmanager
def plainly(name: str, but: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """What goes wrong in a catalog or where its files are, as WrongTable in one line, or NoRoom.

    - name: of the table
    - but: errors that are left as they are
    """
    from pyiceberg.exceptions import (
        CommitFailedException,
        CommitStateUnknownException,
        NoSuchNamespaceError,
        NoSuchTableError,
        NotInstalledError,
        RESTError,
    )

    try:
        with telling_full(name):
            yield
    except but:
        raise
    except (NoSuchTableError, NoSuchNamespaceError, RESTError, CommitStateUnknownException) as error:
        raise WrongTable(f"{name}: {said(error)}") from error
    except CommitFailedException as error:
        raise WrongTable(f"{name}: another writer was quicker: {said(error)}; try again") from error
    except (
        NotInstalledError,
        NotImplementedError,
        pa.ArrowException,
        OSError,
        OverflowError,
        ValueError,
    ) as error:
        raise WrongTable(f"{name}: {said(error)}") from error
    except Exception as error:
        # A catalog's database fails in ways of its own library, which pyiceberg passes on.
        if type(error).__module__.partition(".")[0] != "sqlalchemy":
            raise
        raise WrongTable(f"{name}: its catalog can't be used: {said(error)}") from error
