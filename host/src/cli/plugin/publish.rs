//! `tidegate plugin sign` and `tidegate plugin push`.

use std::{fs, path::Path};

use sha2::{Digest, Sha256};

use super::super::{
    Exit,
    console::{answer, complain},
};
use crate::plugin::distribution::{self, KeyError, PrivateKey, Reference};

pub(super) fn sign(file: &Path, key: &Path) -> Exit {
    let fail = |exit: Exit, why: String| {
        complain(&format!("tidegate plugin sign: {why}"));
        exit
    };
    let content = match fs::read(file) {
        Ok(content) => content,
        Err(error) => return fail(Exit::Environment, format!("{}: {error}", file.display())),
    };
    let key = match PrivateKey::read(key) {
        Ok(key) => key,
        Err(error @ KeyError::Io { .. }) => return fail(Exit::Environment, error.to_string()),
        Err(error @ KeyError::NoKey(_)) => return fail(Exit::Invalid, error.to_string()),
    };
    match key.sign(&Sha256::digest(content).into()).write_beside(file) {
        Ok(path) => {
            answer(&format!("{}\nsigned_by = [\"{}\"]", path.display(), key.public()));
            Exit::Fine
        }
        Err(why) => fail(Exit::Environment, why),
    }
}

pub(super) fn push(file: &Path, reference: &str) -> Exit {
    let fail = |exit: Exit, why: String| {
        complain(&format!("tidegate plugin push: {why}"));
        exit
    };
    let reference = match Reference::parse(reference) {
        Ok(Some(reference)) if reference.digest().is_none() => reference,
        Ok(_) => return fail(Exit::Invalid, format!("{reference:?} is no place to push to: give oci://HOST/NAME:TAG")),
        Err(why) => return fail(Exit::Invalid, format!("{reference:?} {why}")),
    };
    match distribution::push(file, &reference) {
        Ok(digest) => {
            answer(&format!("path = \"{}\"", reference.pinned(digest)));
            Exit::Fine
        }
        Err(why) => fail(Exit::Environment, why),
    }
}
