//! An OCI registry: Debian's `docker-registry`, on a loopback port, its storage in a folder. Open to all, or behind TLS and a
//! password.

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

/// Who may use a guarded registry.
pub const USER: &str = "releases";
/// That one's password.
pub const PASSWORD: &str = "open sesame";
/// User and password as `docker login` writes them: `USER:PASSWORD` in base64.
pub const LOGIN: &str = "cmVsZWFzZXM6b3BlbiBzZXNhbWU=";
/// The same for the registry: bcrypt, which is all that it takes, and for this test alone.
const HTPASSWD: &str = "releases:$2b$04$abcdefghijklmnopqrstuu/LVz6MZlItEy42I2juLihZ66HnQx/cy\n";
/// This machine by an address that nobody speaks to without TLS.
const GUARDED: &str = "127.0.0.2";

/// A running registry. Stopped on drop.
#[derive(Debug)]
pub struct Registry {
    address: &'static str,
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
        Self::start_at("127.0.0.1", folder)
    }

    /// Starts one behind TLS, for [`USER`] with [`PASSWORD`]. Its certificate is from an authority that nobody knows, and that
    /// is made for it: [`Registry::ca_file`].
    ///
    /// # Errors
    /// As [`Registry::start`].
    pub fn start_guarded(folder: &Path) -> Result<Self, ServiceError> {
        let failed = |error: rcgen::Error| ServiceError::failed("making a certificate", error.to_string());
        let write = |name: &str, text: &str| {
            fs::write(folder.join(name), text).map_err(ServiceError::io(format!("writing {name}")))
        };
        let (ca, own) = authority_and(GUARDED).map_err(failed)?;
        write("ca.pem", &ca)?;
        write("registry.pem", &own.0)?;
        write("registry.key", &own.1)?;
        write("htpasswd", HTPASSWD)?;
        Self::start_at(GUARDED, folder)
    }

    fn start_at(address: &'static str, folder: &Path) -> Result<Self, ServiceError> {
        let port = free_port().map_err(ServiceError::io("a port for the registry"))?;
        let mut registry = Self { address, port, folder: folder.to_owned(), server: None };
        registry.resume()?;
        Ok(registry)
    }

    /// `host:port`.
    #[must_use]
    pub fn host(&self) -> String {
        format!("{}:{}", self.address, self.port)
    }

    /// The certificate of a guarded registry's authority, in PEM.
    #[must_use]
    pub fn ca_file(&self) -> PathBuf {
        self.folder.join("ca.pem")
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
        let mut text = format!(
            "version: 0.1\nlog:\n  level: warn\nstorage:\n  filesystem:\n    rootdirectory: {}\nhttp:\n  addr: {}\n",
            self.folder.join("registry").display(),
            self.host()
        );
        if self.address == GUARDED {
            let file = |name: &str| self.folder.join(name).display().to_string();
            text += &format!(
                "  tls:\n    certificate: {}\n    key: {}\nauth:\n  htpasswd:\n    realm: tests\n    path: {}\n",
                file("registry.pem"),
                file("registry.key"),
                file("htpasswd")
            );
        }
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
    // Behind TLS it says that this was none.
    ask().is_ok_and(|answer| answer.contains(" 200 ") || answer.contains(" 400 "))
}

/// The certificate of a new authority, and a certificate of its for this address with the key.
fn authority_and(address: &str) -> Result<(String, (String, String)), rcgen::Error> {
    use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};

    let mut params = CertificateParams::new(Vec::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    params.distinguished_name.push(DnType::CommonName, "an authority of our own");
    let key = KeyPair::generate()?;
    let authority = params.self_signed(&key)?.pem();
    let issuer = Issuer::new(params, key);
    let key = KeyPair::generate()?;
    let certificate = CertificateParams::new(vec![address.to_owned()])?.signed_by(&key, &issuer)?;
    Ok((authority, (certificate.pem(), key.serialize_pem())))
}
