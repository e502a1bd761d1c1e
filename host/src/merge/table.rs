//! What a catalog says of a table, the same for every dialect.
//!
//! A dialect fills it in from its catalog; [`super::resolve`] judges it. What is not asked about here is neither
//! checked nor relied on.

use super::{ColumnType, TableName};

/// A table as the catalog describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableInfo {
    /// The name as the catalog spells it, with its schema where the dialect has schemas.
    pub table: TableName,
    /// What it is.
    pub kind: TableKind,
    /// All columns, in the table's order.
    pub columns: Vec<ColumnInfo>,
    /// Unique and exclusion indexes, the primary key's included.
    pub unique: Vec<UniqueIndex>,
    /// The columns that each CHECK constraint looks at (empty: none in particular).
    pub checks: Vec<Vec<String>>,
    /// Tables that rows of this one refer to.
    pub references: Vec<TableName>,
    /// Whether rows of other tables refer to this one's.
    pub referenced: bool,
    /// Names of the user's triggers and rules on the table: they may observe or refuse a row.
    pub triggers: Vec<String>,
}

/// What a table is. Only permanent tables commit together with the ledger (Invariant 2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableKind {
    /// A permanent, logged table. SQLite: a STRICT one in the main database.
    Ordinary,
    /// A partitioned table.
    Partitioned,
    /// Anything else, named with its article: "a view", "an unlogged table".
    Other(String),
}

/// A column as the catalog describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnInfo {
    /// The column's name.
    pub name: String,
    /// Its type (a domain's base type), or the name of a type that no value is bound to.
    pub column_type: Result<ColumnType, String>,
    /// The type's name for a cast, without length or scale, quoted where it must be. Dialects without casts: the
    /// declared type.
    pub sql_type: String,
    /// Whether it takes NULL.
    pub nullable: bool,
    /// Whether an insert that leaves it out gets a value (a default, an identity).
    pub has_default: bool,
    /// `GENERATED ALWAYS AS (expression)`.
    pub generated: bool,
    /// `GENERATED ALWAYS AS IDENTITY`.
    pub identity_always: bool,
    /// Whether its type is a domain: its constraints see every intermediate row.
    pub domain: bool,
    /// How its text compares. [`Collation::Bytes`] for what is not text.
    pub collation: Collation,
}

/// How text compares, as far as it matters to the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collation {
    /// By bytes, as the host does: "C", SQLite's BINARY.
    Bytes,
    /// By a language's rules; equal only if the bytes are.
    Language,
    /// Texts of other bytes may be equal (case-insensitive, NOCASE): not for keys.
    Folding,
}

/// An index that forbids rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UniqueIndex {
    /// The index's name.
    pub name: String,
    /// Its columns; expressions leave it shorter than it is, and not `complete`.
    pub columns: Vec<String>,
    /// Not deferrable.
    pub immediate: bool,
    /// Valid and ready.
    pub valid: bool,
    /// Neither a predicate nor expressions, and every column under its own collation.
    pub complete: bool,
    /// An exclusion constraint's.
    pub exclusion: bool,
}

impl TableInfo {
    /// The column of this name.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<&ColumnInfo> {
        self.columns.iter().find(|c| c.name == name)
    }

    /// Whether a CHECK (the table's, or a domain's) looks at this column.
    #[must_use]
    pub fn is_checked(&self, column: &str) -> bool {
        self.checks.iter().any(|c| c.iter().any(|name| name == column)) || self.column(column).is_some_and(|c| c.domain)
    }
}
