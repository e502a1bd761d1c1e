//! An OCI registry: Debian's `docker-registry`, on a loopback port, its storage in a folder.

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use super::{
    ServiceError, free_port,
    process::{self, Server},
};

/// A running registry. Stopped on drop.
#[derive(Debug)]
pub struct Registry {
    port: u16,
    folder: PathBuf,
    server: Option<Server>,
}

impl Registry {
    /// Starts one.
    ///
    /// # Errors
    /// Where it is not installed or does not start.
    pub fn start(folder: &Path) -> Result<Self, ServiceError> {
        let port = free_port().map_err(ServiceError::io("a port for the registry"))?;
        let mut registry = Self { port, folder: folder.to_owned(), server: None };
        registry.resume()?;
        Ok(registry)
    }

    /// `host:port`.
    #[must_use]
    pub fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Stops it, so that nobody answers.
    pub fn stop(&mut self) {
        self.server = None;
    }

    /// Starts it again, on the same port, with what it holds.
    ///
    /// # Errors
    /// Where it is not installed or does not start.
    pub fn resume(&mut self) -> Result<(), ServiceError> {
        let program = process::find("docker-registry", []).ok_or(ServiceError::Missing {
            program: "docker-registry",
            advice: "on Debian and Ubuntu: apt-get install docker-registry",
        })?;
        let config = self.folder.join("registry.yml");
        let text = format!(
            "version: 0.1\nlog:\n  level: warn\nstorage:\n  filesystem:\n    rootdirectory: {}\nhttp:\n  addr: {}\n",
            self.folder.join("registry").display(),
            self.host()
        );
        fs::write(&config, text).map_err(ServiceError::io(format!("writing {}", config.display())))?;
        let mut command = Command::new(program);
        command.arg("serve").arg(&config);
        let (log, host) = (self.folder.join("registry.log"), self.host());
        self.server = Some(Server::start("docker-registry", command, &log, "TERM", || answers(&host))?);
        Ok(())
    }
}

/// Whether it speaks, and not only listens.
fn answers(host: &str) -> bool {
    let ask = || {
        let mut connection = TcpStream::connect(host)?;
        connection.set_read_timeout(Some(Duration::from_secs(2)))?;
        write!(connection, "GET /v2/ HTTP/1.0\r\nHost: {host}\r\n\r\n")?;
        let mut answer = String::new();
        connection.read_to_string(&mut answer)?;
        Ok::<_, std::io::Error>(answer)
    };
    ask().is_ok_and(|answer| answer.contains(" 200 "))
}
