//! How registries know this host: the credentials that `docker login` and Kubernetes write, `config.json`.

use std::{collections::BTreeMap, env, fs, path::PathBuf};

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use oci_client::secrets::RegistryAuth;
use serde::Deserialize;

#[derive(Deserialize)]
struct Config {
    #[serde(default)]
    auths: BTreeMap<String, Auth>,
}

#[derive(Deserialize)]
struct Auth {
    /// base64 of `user:password`.
    auth: Option<String>,
}

/// What to say to this registry: what `$DOCKER_CONFIG/config.json` (else `~/.docker/config.json`) has for it, or nothing.
pub(super) fn of(host: &str) -> RegistryAuth {
    let folder = env::var_os("DOCKER_CONFIG").map(PathBuf::from);
    let folder = folder.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".docker")));
    let text = folder.and_then(|folder| fs::read_to_string(folder.join("config.json")).ok()).unwrap_or_default();
    in_config(&text, host).map_or(RegistryAuth::Anonymous, |(user, password)| RegistryAuth::Basic(user, password))
}

fn in_config(text: &str, host: &str) -> Option<(String, String)> {
    let config: Config = serde_json::from_str(text).ok()?;
    // Some write the address instead of the host.
    let names =
        [host.to_owned(), format!("https://{host}"), format!("https://{host}/v1/"), format!("https://{host}/v2/")];
    let auth = names.iter().find_map(|name| config.auths.get(name))?.auth.as_ref()?;
    let plain = String::from_utf8(BASE64.decode(auth).ok()?).ok()?;
    plain.split_once(':').map(|(user, password)| (user.to_owned(), password.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registry_gets_its_own_credentials_and_no_others() {
        let auth = BASE64.encode("me:pass:word");
        let text =
            format!(r#"{{"auths":{{"a.example":{{"auth":"{auth}"}},"https://b.example/v2/":{{"auth":"{auth}"}}}}}}"#);
        let known = Some(("me".to_owned(), "pass:word".to_owned()));
        assert_eq!(in_config(&text, "a.example"), known);
        assert_eq!(in_config(&text, "b.example"), known);
        assert_eq!(in_config(&text, "c.example"), None);
        assert_eq!(in_config("", "a.example"), None);
        assert_eq!(in_config(r#"{"auths":{"a.example":{}}}"#, "a.example"), None);
    }
}
