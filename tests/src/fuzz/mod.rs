//! What somebody else may hand in, whatever it is: each function takes any bytes, makes an input of them, and panics where a
//! promise does not hold. `cargo fuzz` looks for such bytes (fuzz/README.md); the tests here try random ones, and every file
//! of fuzz/corpus for ever.

mod bytes;
mod configuration;
mod headers;
mod ids;
#[cfg(test)]
mod tests;
mod values;
mod verdicts;

pub use configuration::configuration;
pub use headers::headers;
pub use ids::ids;
pub use values::values;
pub use verdicts::verdicts;

/// A function that takes any bytes.
pub type Target = fn(&[u8]);

/// All of them, by the name of their corpus.
pub const TARGETS: [(&str, Target); 5] =
    [("configuration", configuration), ("verdicts", verdicts), ("headers", headers), ("ids", ids), ("values", values)];
