//! The integration tests, in one binary: one module a subject. `make test` starts the Kafka and the PostgreSQL that they
//! ask for; without them they fail and say so.
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod accounts;
mod admin;
mod apart;
mod bad_guests;
mod brokers;
mod chaos;
mod check_online;
mod compile_limits;
mod crash;
mod cuts;
mod database_restart;
mod database_roles;
mod dead_threads;
mod demo;
mod disk_full;
mod documented_commands;
mod documents;
mod fail_points;
mod faults;
mod faulty;
mod fence;
mod guarded_kafka;
mod harness;
mod health;
mod kafka_churn;
mod kafka_duplicates;
mod kafka_growth;
mod kafka_hung_broker;
mod kafka_json;
mod kafka_logs;
mod kafka_members;
mod kafka_rebalance;
mod kafka_scene;
mod kafka_slow_database;
mod key_gate;
mod languages;
mod licences;
mod merge_property;
mod no_connections;
mod path_property;
mod plugin_commands;
mod plugin_registry;
mod postgres_store;
mod promotion;
mod recovery;
mod reload;
mod reload_load;
mod run_command;
mod secrets;
mod seek;
mod store;
mod volume;

use tidegate_tests::payments;
