//! From a core module of a compiler that knows nothing of components to a component.

use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

use super::{BuildError, WIT};

/// Serves what every compiler's runtime wants of an operating system, inside the component.
const COMMON: &str = include_str!("preview1.wat");
/// What the adapter asks the host for: whoever would answer a clock or randomness itself, with constants, gives equal ids to
/// different events.
const ASKED: &str = include_str!("preview1.wit");

/// Whose runtime is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Served {
    C,
    Go,
}

impl Served {
    /// What is made of the compiler's module depends on these.
    pub(super) const fn parts(self) -> [&'static str; 3] {
        let own = match self {
            Self::C => include_str!("preview1_c.wat"),
            Self::Go => include_str!("preview1_go.wat"),
        };
        [COMMON, own, ASKED]
    }

    /// A module that has the functions of `wasi_snapshot_preview1`.
    fn adapter(self) -> Result<Vec<u8>, String> {
        let [common, own, asked] = self.parts();
        let mut module = wat::parse_str(format!("(module\n{common}{own})")).map_err(|error| error.to_string())?;
        embed(&mut module, "preview1.wit", asked, "adapter")?;
        Ok(module)
    }
}

/// Says what the module's imports and exports mean, and wraps it.
pub(super) fn of_module(name: &str, mut module: Vec<u8>, served: Served) -> Result<Vec<u8>, BuildError> {
    let broken = |error: String| BuildError::NoComponent {
        package: name.to_owned(),
        message: format!("was compiled, but makes no component: {error}"),
    };
    embed(&mut module, "plugin.wit", WIT, "plugin").map_err(broken)?;
    let adapter = served.adapter().map_err(broken)?;
    let encoded = ComponentEncoder::default()
        .module(&module)
        .and_then(|encoder| encoder.adapter("wasi_snapshot_preview1", &adapter))
        .and_then(|encoder| encoder.validate(true).encode());
    encoded.map_err(|error| broken(format!("{error:#}")))
}

/// Notes in the module which world it is for.
fn embed(module: &mut Vec<u8>, file: &str, wit: &str, world: &str) -> Result<(), String> {
    let mut resolve = Resolve::default();
    let package = resolve.push_str(file, wit).map_err(|error| format!("{file} cannot be read: {error:#}"))?;
    let world =
        resolve.select_world(&[package], Some(world)).map_err(|error| format!("{file} cannot be read: {error:#}"))?;
    embed_component_metadata(module, &resolve, world, StringEncoding::UTF8).map_err(|error| format!("{error:#}"))
}
