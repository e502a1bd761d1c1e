//! The database file: which it is, and that one process writes to it.

use std::{
    collections::HashMap,
    fs::{File, TryLockError},
    io::{Read, Seek, Write},
    path::{Path, PathBuf},
    str::FromStr,
    sync::{Arc, LazyLock, Mutex, PoisonError, Weak},
    time::Duration,
};

use sqlx::{
    ConnectOptions, SqliteConnection,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous},
};

use super::{
    super::{Statement, StoreError},
    error::store_error,
};

/// How long a writer waits for another lane of this process.
pub(super) const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// A database file, shared by all that this process does with it.
#[derive(Debug)]
pub(super) struct DatabaseFile {
    path: PathBuf,
    options: SqliteConnectOptions,
    /// Held while this process may write; the operating system lets go of it when the process ends, however it ends.
    process_lock: Mutex<Option<File>>,
    /// Whose turn it is to write. SQLite's own waiting is by polling, and not fair.
    pub(super) turn: Arc<tokio::sync::Mutex<()>>,
}

/// Several stores of one process (one per consumer) are one writer.
static OPEN: LazyLock<Mutex<HashMap<PathBuf, Weak<DatabaseFile>>>> = LazyLock::new(Mutex::default);

impl DatabaseFile {
    pub(super) fn open(url: &str) -> Result<Arc<Self>, StoreError> {
        let context = "open the SQLite database";
        let options = SqliteConnectOptions::from_str(url)
            .map_err(|error| StoreError::fatal(Statement::Connect, context, format!("{error}; use sqlite://FILE")))?;
        let path = options.get_filename().to_owned();
        if path.as_os_str().is_empty() || url.contains(":memory:") || url.contains("mode=memory") {
            let message = "a database in memory forgets what Kafka remembers as done; name a file: sqlite://FILE";
            return Err(StoreError::fatal(Statement::Connect, context, message));
        }
        let options = options
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .foreign_keys(true)
            .busy_timeout(LOCK_TIMEOUT)
            .disable_statement_logging();
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|_, file| file.strong_count() > 0);
        let key = absolute(&path);
        if let Some(file) = open.get(&key).and_then(Weak::upgrade) {
            return Ok(file);
        }
        let file = Arc::new(Self { path, options, process_lock: Mutex::default(), turn: Arc::default() });
        open.insert(key, Arc::downgrade(&file));
        Ok(file)
    }

    /// The file's path, for people.
    pub(super) fn place(&self) -> String {
        self.path.display().to_string()
    }

    /// Makes this process the one that writes.
    pub(super) fn lock(&self) -> Result<(), StoreError> {
        let mut held = self.process_lock.lock().unwrap_or_else(PoisonError::into_inner);
        if held.is_some() {
            return Ok(());
        }
        let lock_path = self.lock_path();
        let context = format!("lock {}", lock_path.display());
        let failed = |error: std::io::Error| StoreError::fatal(Statement::Connect, context.clone(), error.to_string());
        let mut file =
            File::options().read(true).write(true).create(true).truncate(false).open(&lock_path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut owner = String::new();
                // The number is only a hint; without it the message still holds.
                let _ = file.read_to_string(&mut owner);
                let owner = if owner.is_empty() { String::new() } else { format!(" ({})", owner.trim()) };
                return Err(StoreError::fatal(
                    Statement::Connect,
                    context,
                    format!(
                        "another process{owner} works on {}; one process at a time may write to a SQLite database: \
                         stop the other one, or use PostgreSQL for several hosts",
                        self.place()
                    ),
                ));
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        file.set_len(0).and_then(|()| file.rewind()).map_err(failed)?;
        writeln!(file, "process {}", std::process::id()).map_err(failed)?;
        *held = Some(file);
        Ok(())
    }

    fn lock_path(&self) -> PathBuf {
        let mut path = self.path.clone().into_os_string();
        path.push(".lock");
        path.into()
    }

    /// A connection. `create`: make the file where there is none.
    pub(super) async fn connect(&self, create: bool) -> Result<SqliteConnection, StoreError> {
        if !create && !self.path.exists() {
            let message = "there is no such file; run `tidegate migrate` to create it";
            return Err(StoreError::fatal(Statement::Connect, format!("open {}", self.place()), message));
        }
        self.options
            .clone()
            .create_if_missing(create)
            .connect()
            .await
            .map_err(|error| store_error(Statement::Connect, format!("open {}", self.place()), error))
    }

    pub(super) fn exists(&self) -> bool {
        self.path.exists()
    }
}

/// One name per file, whether it is there yet or not.
fn absolute(path: &Path) -> PathBuf {
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    match (whole.parent().and_then(|folder| folder.canonicalize().ok()), whole.file_name()) {
        (Some(folder), Some(name)) => folder.join(name),
        _ => whole,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn a_database_in_memory_is_refused() {
        for url in ["sqlite::memory:", "sqlite://:memory:", "sqlite://x?mode=memory", "sqlite://"] {
            assert!(DatabaseFile::open(url).is_err(), "{url}");
        }
    }

    #[test]
    fn one_process_writes() {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}", folder.path().join("db").display());
        let file = DatabaseFile::open(&url).unwrap();
        assert!(Arc::ptr_eq(&file, &DatabaseFile::open(&url).unwrap()), "one process, one writer");
        // Another process's lock, as the operating system sees it.
        let other = File::create(file.lock_path()).unwrap();
        other.try_lock().unwrap();
        let refused = file.lock().unwrap_err();
        assert!(refused.message.contains("another process"), "{refused}");
        drop(other);
        file.lock().unwrap();
        file.lock().unwrap();
    }
}
