//! Which schema a database has, and whether this binary may work with it.

use sqlx::migrate::{AppliedMigration, Migrator};

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

impl SchemaState {
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
