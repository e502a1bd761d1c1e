//! From a core module of a compiler that knows nothing of components to a component.

use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

use super::{BuildError, WIT};

/// Serves what a compiler's own runtime wants of an operating system, inside the component: nothing of it reaches the host.
const ADAPTER: &str = include_str!("preview1.wat");

/// Says what the module's imports and exports mean, and wraps it.
pub(super) fn of_module(name: &str, mut module: Vec<u8>) -> Result<Vec<u8>, BuildError> {
    let broken = |error: String| BuildError::NoComponent {
        package: name.to_owned(),
        message: format!("was compiled, but makes no component: {error}"),
    };
    let contract = |error| broken(format!("the contract cannot be read: {error:#}"));
    let mut resolve = Resolve::default();
    let package = resolve.push_str("plugin.wit", WIT).map_err(contract)?;
    let world = resolve.select_world(&[package], Some("plugin")).map_err(contract)?;
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8)
        .map_err(|e| broken(format!("{e:#}")))?;
    let adapter = wat::parse_str(ADAPTER).map_err(|error| broken(error.to_string()))?;
    let encoded = ComponentEncoder::default()
        .module(&module)
        .and_then(|encoder| encoder.adapter("wasi_snapshot_preview1", &adapter))
        .and_then(|encoder| encoder.validate(true).encode());
    encoded.map_err(|error| broken(format!("{error:#}")))
}
