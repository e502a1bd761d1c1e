//! How registries know this host: the credentials that `docker login` and Kubernetes write, `config.json`.

use std::{collections::BTreeMap, env, io, path::PathBuf};

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use oci_client::secrets::RegistryAuth;
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Config {
    #[serde(default)]
    auths: BTreeMap<String, Auth>,
    /// The program that keeps all passwords.
    creds_store: Option<String>,
    /// Those that keep a registry's.
    #[serde(default)]
    cred_helpers: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Auth {
    /// base64 of `user:password`.
    auth: Option<String>,
    /// As people write secrets for Kubernetes.
    username: Option<String>,
    password: Option<String>,
}

/// What to say to a registry.
pub(super) struct Login {
    auth: RegistryAuth,
    /// Whose it is, or why there is none. No secret.
    about: String,
}

impl Default for Login {
    fn default() -> Self {
        Self { auth: RegistryAuth::Anonymous, about: "nobody has said any".to_owned() }
    }
}

impl Login {
    /// What `$DOCKER_CONFIG/config.json` (else `~/.docker/config.json`) has for this registry, or nothing: that may do.
    pub(super) fn of(host: &str) -> Self {
        let variable = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let folder = variable("DOCKER_CONFIG").or_else(|| Some(variable("HOME")?.join(".docker")));
        let Some(file) = folder.map(|folder| folder.join("config.json")) else {
            return Self::none("neither DOCKER_CONFIG nor HOME says where to look for one".to_owned());
        };
        let place = file.display();
        match crate::regular_file::read_text(&file) {
            Ok(text) => match in_config(&text, host) {
                Ok((user, password)) => {
                    Self { about: format!("{user:?} in {place}"), auth: RegistryAuth::Basic(user, password) }
                }
                Err(why) => Self::none(format!("{place} {why}")),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::none(format!("there is no {place}")),
            Err(error) => Self::none(format!("{place} cannot be read: {error}")),
        }
    }

    fn none(about: String) -> Self {
        Self { auth: RegistryAuth::Anonymous, about }
    }

    /// For the client.
    pub(super) fn auth(&self) -> &RegistryAuth {
        &self.auth
    }

    /// That the registry wants another one, and how to come by it.
    pub(super) fn refused_by(&self, host: &str) -> String {
        let about = &self.about;
        let way = format!(
            "`docker login {host}` as the user that runs tidegate writes one, or set DOCKER_CONFIG to the folder of \
                           a config.json that has it"
        );
        match self.auth {
            RegistryAuth::Anonymous => format!("{host} wants a login, and there is none: {about}; {way}"),
            _ => format!("{host} refuses the login of {about}, or that user may not do this: {way}"),
        }
    }
}

/// User and password, or why there are none.
fn in_config(text: &str, host: &str) -> Result<(String, String), String> {
    // Where it is wrong, not what stands there.
    let config: Config =
        serde_json::from_str(text).map_err(|error| format!("cannot be understood, in line {}", error.line()))?;
    // Some write the address instead of the host.
    let names =
        [host.to_owned(), format!("https://{host}"), format!("https://{host}/v1/"), format!("https://{host}/v2/")];
    let auth = names.iter().find_map(|name| config.auths.get(name));
    let helper = names.iter().find_map(|name| config.cred_helpers.get(name)).or(config.creds_store.as_ref());
    let written = auth.and_then(|auth| match (&auth.auth, &auth.username, &auth.password) {
        (Some(auth), ..) if !auth.is_empty() => {
            let plain = String::from_utf8(BASE64.decode(auth).ok()?).ok()?;
            plain.split_once(':').map(|(user, password)| (user.to_owned(), password.to_owned()))
        }
        (_, Some(user), Some(password)) => Some((user.clone(), password.clone())),
        _ => None,
    });
    match (written, auth, helper) {
        (Some(written), ..) => Ok(written),
        (None, _, Some(helper)) => Err(format!(
            "leaves its passwords to docker-credential-{helper}, which is not asked: give this one in `auths`"
        )),
        (None, Some(_), None) => Err(format!("has an entry for {host} with neither `auth` nor user and password")),
        (None, None, None) => Err(format!("has none for {host}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registry_gets_its_own_credentials_and_no_others() {
        let auth = BASE64.encode("me:pass:word");
        let text = format!(
            r#"{{"auths":{{"a.example":{{"auth":"{auth}"}},"https://b.example/v2/":{{"auth":"{auth}"}},"d.example":{{}},
            "e.example":{{"username":"me","password":"pass:word"}}}}}}"#
        );
        let known = Ok(("me".to_owned(), "pass:word".to_owned()));
        for host in ["a.example", "b.example", "e.example"] {
            assert_eq!(in_config(&text, host), known, "{host}");
        }
        assert_eq!(in_config(&text, "c.example"), Err("has none for c.example".to_owned()));
        assert_eq!(in_config("{}", "a.example"), Err("has none for a.example".to_owned()));
        assert!(in_config(&text, "d.example").is_err_and(|why| why.contains("neither `auth`")));
        let kept =
            text.replace(r#"{"auths""#, r#"{"credsStore":"desktop","credHelpers":{"c.example":"ecr-login"},"auths""#);
        assert_eq!(in_config(&kept, "a.example"), known);
        assert!(in_config(&kept, "c.example").is_err_and(|why| why.contains("docker-credential-ecr-login")));
        assert!(in_config(&kept, "d.example").is_err_and(|why| why.contains("docker-credential-desktop")));
    }

    #[test]
    fn what_is_no_configuration_is_told_without_a_word_of_it() {
        for text in ["", "{\n\"auths\": {\"a\": \"secret\"}}", "secret"] {
            let why = in_config(text, "a").expect_err("broken");
            assert!(why.contains("cannot be understood, in line") && !why.contains("secret"), "{why}");
        }
        let login = Login { auth: RegistryAuth::Basic("me".into(), "secret".into()), about: "\"me\" in f".into() };
        let why = login.refused_by("a.example");
        assert!(why.contains("a.example refuses the login of \"me\" in f") && why.contains("docker login a.example"));
        assert!(!why.contains("secret"));
        assert!(Login::default().refused_by("a.example").contains("wants a login"));
    }
}
