//! What a plugin's file is made of, without compiling or running it.

use sha2::{Digest, Sha256};
use wit_parser::decoding::{DecodedWasm, decode};

use super::wasm::component::component_in;

/// The package of the contract.
const CONTRACT: &str = "tidegate:plugin";

/// A file, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anatomy {
    /// Bytes of the file.
    pub size: usize,
    /// SHA-256 of the file: for `[consumer.plugin] sha256`.
    pub sha256: [u8; 32],
    /// A component, or a core module that the host wraps into one.
    pub component: bool,
    /// The version of the contract that it is built for, such as "0.1.0"; `None` where it is no plugin.
    pub contract: Option<String>,
    /// What it wants from the host, by name.
    pub imports: Vec<String>,
}

impl Anatomy {
    /// Takes a file's content apart.
    ///
    /// # Errors
    /// What the file is instead, and what to do.
    pub fn of(bytes: &[u8]) -> Result<Self, String> {
        let component = component_in(bytes)?;
        let decoded = decode(&component).map_err(|error| format!("is a component that cannot be read: {error:#}"))?;
        let DecodedWasm::Component(resolve, world) = &decoded else {
            return Err("is a package of interfaces, no component: build a plugin against it".to_owned());
        };
        let world = &resolve.worlds[*world];
        let names = |keys: Vec<_>| keys.into_iter().map(|key| resolve.name_world_key(key)).collect::<Vec<String>>();
        let imports = names(world.imports.keys().collect());
        let exports = names(world.exports.keys().collect());
        let contract = exports.iter().find_map(|name| {
            let (interface, version) = name.split_once('@')?;
            (interface == format!("{CONTRACT}/processor")).then(|| version.to_owned())
        });
        let as_is = matches!(component, std::borrow::Cow::Borrowed(_));
        Ok(Self { size: bytes.len(), sha256: Sha256::digest(bytes).into(), component: as_is, contract, imports })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_plugin_is_told() {
        assert_eq!(Anatomy::of(b"hello"), Err("is no WebAssembly file".to_owned()));
        let empty = wat::parse_str("(component)").unwrap_or_default();
        let anatomy = Anatomy::of(&empty).unwrap_or_else(|error| unreachable!("{error}"));
        assert_eq!((anatomy.contract, anatomy.component), (None, true));
        let wasi = wat::parse_str(
            r#"(component (import "wasi:clocks/wall-clock@0.2.6" (instance (export "now" (func (result u64))))))"#,
        );
        let anatomy = Anatomy::of(&wasi.unwrap_or_default()).unwrap_or_else(|error| unreachable!("{error}"));
        assert_eq!(anatomy.imports, ["wasi:clocks/wall-clock@0.2.6"]);
    }
}
