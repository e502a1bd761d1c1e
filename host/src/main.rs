//! tidegate.
fn main() {}
