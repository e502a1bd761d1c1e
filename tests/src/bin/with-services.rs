//! Runs a command with `KAFKA_BOOTSTRAP` and `DATABASE_URL` set, starting what is not running yet and stopping what it
//! started. Without a command it prints the two lines to export and waits to be interrupted.
//!
//! `with-services [--no-fsync] [COMMAND [ARGUMENT…]]`

use std::process::{Command, ExitCode};

use tidegate_tests::services::{Durability, Folder, Kafka, Postgres, ServiceError};

fn main() -> ExitCode {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let durability = match arguments.first().map(String::as_str) {
        Some("--no-fsync") => {
            arguments.remove(0);
            Durability::None
        }
        _ => Durability::Fsync,
    };
    match run(&arguments, durability) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("with-services: {error}");
            // As everywhere in this project: 3 = the environment.
            ExitCode::from(3)
        }
    }
}

fn run(command: &[String], durability: Durability) -> Result<ExitCode, ServiceError> {
    let given = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let mut folder = Folder::new()?;
    let (kafka, bootstrap) = match given("KAFKA_BOOTSTRAP") {
        Some(bootstrap) => (None, bootstrap),
        None => {
            let kafka = Kafka::start(folder.path()).inspect_err(|_| folder.keep())?;
            let bootstrap = kafka.bootstrap();
            (Some(kafka), bootstrap)
        }
    };
    let (postgres, url) = match given("DATABASE_URL") {
        Some(url) => (None, url),
        None => {
            let postgres = Postgres::start(folder.path(), durability).inspect_err(|_| folder.keep())?;
            let url = postgres.url();
            (Some(postgres), url)
        }
    };

    let Some((program, arguments)) = command.split_first() else {
        println!("export KAFKA_BOOTSTRAP={bootstrap}");
        println!("export DATABASE_URL={url}");
        eprintln!("running until interrupted; logs in {}", folder.path().display());
        loop {
            // An interrupt ends this process, and the services with it.
            std::thread::park();
        }
    };
    let mut child = Command::new(program);
    child.args(arguments).env("KAFKA_BOOTSTRAP", &bootstrap).env("DATABASE_URL", &url);
    let status = child.status().map_err(|source| ServiceError::Io { what: format!("running {program}"), source })?;
    drop((kafka, postgres));
    if status.success() {
        return Ok(ExitCode::SUCCESS);
    }
    folder.keep();
    eprintln!("{program}: {status}; the services' logs are kept in {}", folder.path().display());
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
}
