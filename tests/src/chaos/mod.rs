//! The fault harness: random walks over everything that can go wrong around a group of hosts, and the verdict after each.
//!
//! A *walk* has a broker, a database and hosts of its own, and a producer outside of the product that remembers what it
//! published. By its seed, every *actor* goes through a *course* of faults of its own, beside the others. When the walk is
//! over everything is healed, the consumers catch up, and the *verdict* compares the database with what was published: an
//! adding column shows what was applied twice or not at all, the ledger must agree, and the checkpoint chains must tile.
//!
//! `fault`, `schedule`, `story` and `figures` are pure; `world`, `hosts` and `traffic` are what it happens to; `actors`,
//! `operator` and `recreate` carry faults out; `watch` looks on; `walk` puts it together. `measure` has the same hosts and
//! one fault at a time.

pub mod actors;
pub mod chronicle;
pub mod fault;
pub mod figures;
pub mod hosts;
pub mod measure;
pub mod operator;
pub mod parts;
mod recreate;
pub mod report;
pub mod running;
pub mod schedule;
pub mod story;
pub mod traffic;
pub mod verdict;
pub mod walk;
pub mod watch;
pub mod world;
