//! Which schema a database has, and whether this binary may work with it.

use sqlx::migrate::{AppliedMigration, Migrator};

use crate::config::Dialect;

/// Where the applied migrations are remembered. Not sqlx's default name: the ledger lives where its targets live, and
/// their owner may use sqlx too.
pub const MIGRATIONS_TABLE: &str = "tidegate_migrations";

/// A database's schema against what this binary knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SchemaState {
    /// Nothing there.
    Missing,
    /// What this binary needs.
    Current {
        /// The newest migration.
        version: i64,
    },
    /// Some migrations are to be run.
    Older {
        /// The newest applied.
        found: i64,
        /// The newest known.
        needed: i64,
    },
    /// A newer binary was here.
    Newer {
        /// The newest applied.
        found: i64,
        /// The newest known.
        known: i64,
    },
    /// A migration was applied with another text, or was left half done.
    Damaged {
        /// Which.
        version: i64,
    },
}

/// What `migrate` would do to a database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pending {
    /// Tables and views that it would create, by name.
    pub creates: Vec<String>,
    /// Names of those, or of their indexes, that something else has already.
    pub clashes: Vec<String>,
}

impl Pending {
    /// Names that the migrations beyond `after` (0 = none was applied) create: tables and views, then indexes.
    pub(super) fn names(known: &Migrator, after: i64) -> (Vec<String>, Vec<String>) {
        let mut names = (vec![], vec![]);
        if after == 0 {
            names.0.push(MIGRATIONS_TABLE.to_owned());
        }
        for migration in known.iter().filter(|migration| migration.version > after) {
            for line in migration.sql.as_str().lines() {
                let words: Vec<&str> = line.split_whitespace().take(4).collect();
                let (list, name) = match words.as_slice() {
                    ["CREATE", "TABLE" | "VIEW", name, ..] => (&mut names.0, name),
                    ["CREATE", "INDEX", name, ..] | ["CREATE", "UNIQUE", "INDEX", name] => (&mut names.1, name),
                    _ => continue,
                };
                list.push((*name).trim_end_matches('(').to_owned());
            }
        }
        names
    }

    /// Those names that must be free. The list of migrations itself may be there already, empty, from a try that failed.
    pub(super) fn taking<'a>(creates: &'a [String], indexes: &'a [String]) -> impl Iterator<Item = &'a String> {
        creates.iter().chain(indexes).filter(|name| *name != MIGRATIONS_TABLE)
    }

    /// Why `migrate` would fail, with the way out; `None` where no name is taken. `way_out` is the dialect's.
    #[must_use]
    pub fn refusal(&self, dialect: Dialect) -> Option<String> {
        let way_out = match dialect {
            Dialect::Postgres => CLASH_POSTGRES,
            Dialect::Sqlite => "rename it, or use another file",
        };
        let taken = self.clashes.join(", ");
        (!self.clashes.is_empty())
            .then(|| format!("the schema has something of the name {taken} that is not tidegate's; {way_out}"))
    }
}

/// The way out of a clash of names.
pub(super) const CLASH_POSTGRES: &str = "give tidegate a schema of its own: CREATE SCHEMA tidegate, and add \
                                         ?options=-c%20search_path%3Dtidegate,public to the database URL";

impl SchemaState {
    /// The newest migration that is applied; 0 = none.
    #[must_use]
    pub fn applied(&self) -> i64 {
        match self {
            Self::Missing => 0,
            Self::Current { version } | Self::Damaged { version } => *version,
            Self::Older { found, .. } | Self::Newer { found, .. } => *found,
        }
    }

    /// Holds what was applied against what is known. Pure.
    #[must_use]
    pub fn of(known: &Migrator, applied: &[AppliedMigration], dirty: Option<i64>) -> Self {
        let newest_known = known.iter().map(|m| m.version).max().unwrap_or(0);
        let Some(found) = applied.iter().map(|m| m.version).max() else {
            return dirty.map_or(Self::Missing, |version| Self::Damaged { version });
        };
        if let Some(version) = dirty {
            return Self::Damaged { version };
        }
        if found > newest_known {
            return Self::Newer { found, known: newest_known };
        }
        for migration in known.iter().filter(|m| m.version <= found) {
            match applied.iter().find(|a| a.version == migration.version) {
                Some(a) if a.checksum == migration.checksum => {}
                _ => return Self::Damaged { version: migration.version },
            }
        }
        if found < newest_known {
            Self::Older { found, needed: newest_known }
        } else {
            Self::Current { version: found }
        }
    }

    /// Why this binary does not run on it, with the way out; `None` where it does.
    #[must_use]
    pub fn refusal(&self) -> Option<String> {
        match self {
            Self::Current { .. } => None,
            Self::Missing => Some("the database has no tidegate schema yet: run `tidegate migrate`".into()),
            Self::Older { found, needed } => Some(format!(
                "the database's schema is at version {found}, this binary needs {needed}: run `tidegate migrate`"
            )),
            Self::Newer { found, known } => Some(format!(
                "the database's schema is at version {found}, this binary knows {known}: use the binary that migrated \
                 it, or a newer one"
            )),
            Self::Damaged { version } => Some(format!(
                "migration {version} was applied with another text or left half done: restore the schema from a \
                 backup, or undo by hand what that migration did, remove its row from {MIGRATIONS_TABLE} and run \
                 `tidegate migrate`"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use sqlx::migrate::{Migration, MigrationType};

    use super::*;

    fn known() -> Migrator {
        let migration = |version| {
            let sql = sqlx::AssertSqlSafe(format!("select {version}"));
            Migration::new(
                version,
                Cow::Borrowed("m"),
                MigrationType::Simple,
                sqlx::SqlSafeStr::into_sql_str(sql),
                false,
            )
        };
        Migrator::with_migrations(vec![migration(1), migration(2)])
    }

    fn applied(known: &Migrator, versions: &[i64]) -> Vec<AppliedMigration> {
        let checksum =
            |v| known.iter().find(|m| m.version == v).map_or(Cow::Borrowed(&b""[..]), |m| m.checksum.clone());
        versions.iter().map(|&version| AppliedMigration { version, checksum: checksum(version) }).collect()
    }

    #[test]
    fn what_a_migration_would_create_is_known_from_its_text() {
        let sql = "-- CREATE TABLE no (\nCREATE TABLE a (\n  x int\n);\nCREATE INDEX a_x ON a (x);\n\
                   CREATE UNIQUE INDEX a_y ON a (x);\nCREATE VIEW v AS SELECT 1;\n";
        let sql = sqlx::SqlSafeStr::into_sql_str(sqlx::AssertSqlSafe(sql.to_owned()));
        let migration = Migration::new(1, Cow::Borrowed("m"), MigrationType::Simple, sql, false);
        let known = Migrator::with_migrations(vec![migration]);
        let (tables, indexes) = Pending::names(&known, 0);
        assert_eq!((tables.join(" "), indexes.join(" ")), (format!("{MIGRATIONS_TABLE} a v"), "a_x a_y".to_owned()));
        assert_eq!(Pending::names(&known, 1), (vec![], vec![]));
        let pending = Pending { creates: tables, clashes: vec!["a".into(), "v".into()] };
        let refusal = pending.refusal(Dialect::Postgres).expect("refused");
        assert!(refusal.contains("of the name a, v ") && refusal.contains("CREATE SCHEMA"), "{refusal}");
        assert_eq!(Pending::default().refusal(Dialect::Sqlite), None);
    }

    #[test]
    fn every_state_but_the_current_one_is_refused_with_a_way_out() {
        let known = known();
        let state = |versions: &[i64]| SchemaState::of(&known, &applied(&known, versions), None);
        assert_eq!(state(&[]), SchemaState::Missing);
        assert_eq!(state(&[1]), SchemaState::Older { found: 1, needed: 2 });
        assert_eq!(state(&[1, 2]), SchemaState::Current { version: 2 });
        assert_eq!(state(&[1, 2, 3]), SchemaState::Newer { found: 3, known: 2 });
        assert_eq!(state(&[2]), SchemaState::Damaged { version: 1 });
        assert_eq!(SchemaState::of(&known, &[], Some(1)), SchemaState::Damaged { version: 1 });
        let mut other = applied(&known, &[1, 2]);
        other[0].checksum = Cow::Borrowed(b"other");
        assert_eq!(SchemaState::of(&known, &other, None), SchemaState::Damaged { version: 1 });
        assert_eq!(state(&[1, 2]).refusal(), None);
        for refused in [state(&[]), state(&[1]), state(&[1, 2, 3]), state(&[2])] {
            assert!(refused.refusal().is_some());
        }
    }
}
