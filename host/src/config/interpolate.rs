//! `${VAR}` and `${VAR:default}` inside strings; `$${` is a literal `${`. Pure: the environment is given.

/// A string after its variables were put in.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Expanded {
    /// The result.
    pub(super) text: String,
    /// The variables that were named, in order.
    pub(super) variables: Vec<String>,
}

/// Why a string cannot be expanded.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The variable is not set, and there is no default.
    Unset(String),
    /// `${` without `}`.
    Unclosed,
    /// What stands between `${` and `}` is no variable's name.
    BadName(String),
}

/// Puts the variables in. What a variable holds is not expanded again.
///
/// # Errors
/// Every fault in the text, not only the first.
pub(super) fn expand(text: &str, lookup: &dyn Fn(&str) -> Option<String>) -> Result<Expanded, Vec<Fault>> {
    let (mut out, mut variables, mut faults) = (String::new(), vec![], vec![]);
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        if at > 0 && rest.as_bytes()[at - 1] == b'$' {
            out.push_str(&rest[..at - 1]);
            out.push_str("${");
            rest = &rest[at + 2..];
            continue;
        }
        out.push_str(&rest[..at]);
        let Some(end) = rest[at..].find('}') else {
            faults.push(Fault::Unclosed);
            rest = "";
            break;
        };
        let inside = &rest[at + 2..at + end];
        rest = &rest[at + end + 1..];
        let (name, default) = inside.split_once(':').map_or((inside, None), |(name, default)| (name, Some(default)));
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            faults.push(Fault::BadName(name.to_owned()));
            continue;
        }
        match lookup(name).or_else(|| default.map(str::to_owned)) {
            Some(value) => out.push_str(&value),
            None => faults.push(Fault::Unset(name.to_owned())),
        }
        variables.push(name.to_owned());
    }
    out.push_str(rest);
    if faults.is_empty() { Ok(Expanded { text: out, variables }) } else { Err(faults) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]
    use super::*;

    fn expand_text(text: &str) -> Result<String, Vec<Fault>> {
        expand(text, &|name| (name == "HOST").then(|| "db${HOST}".to_owned())).map(|expanded| expanded.text)
    }

    #[test]
    fn variables_defaults_and_escapes() {
        assert_eq!(expand_text("plain $ {x} $5").unwrap(), "plain $ {x} $5");
        assert_eq!(expand_text("a ${HOST} b").unwrap(), "a db${HOST} b", "a value is not expanded again");
        assert_eq!(expand_text("${PORT:5432}/${NONE:}").unwrap(), "5432/");
        assert_eq!(expand_text("${URL:http://x:1}").unwrap(), "http://x:1", "only the first colon ends the name");
        assert_eq!(expand_text("$${HOST} ${HOST}").unwrap(), "${HOST} db${HOST}");
    }

    #[test]
    fn every_fault_is_named() {
        assert_eq!(
            expand_text("${A} ${b c} ${D").unwrap_err(),
            [Fault::Unset("A".to_owned()), Fault::BadName("b c".to_owned()), Fault::Unclosed]
        );
    }
}
