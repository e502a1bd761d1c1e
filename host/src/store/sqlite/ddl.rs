//! What SQLite's pragmas do not say of a table stands only in its CREATE TABLE: CHECKs, collations, deferred keys.

/// A piece of a statement's text.
#[derive(Debug, PartialEq, Eq)]
enum Token<'a> {
    /// A name or keyword, unquoted.
    Word(&'a str),
    /// A quoted name.
    Quoted(String),
    /// Anything else, one character; literals and comments leave nothing.
    Mark(char),
}

fn tokens(sql: &str) -> Vec<Token<'_>> {
    let mut found = Vec::new();
    let mut rest = sql;
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        match c {
            '-' if after.starts_with('-') => rest = after.find('\n').map_or("", |end| &after[end..]),
            '/' if after.starts_with('*') => rest = after.find("*/").map_or("", |end| &after[end + 2..]),
            '\'' => rest = quoted(after, '\'').1,
            '"' | '`' => {
                let (name, end) = quoted(after, c);
                found.push(Token::Quoted(name));
                rest = end;
            }
            '[' => {
                let end = after.find(']').unwrap_or(after.len());
                found.push(Token::Quoted(after[..end].to_owned()));
                rest = after.get(end + 1..).unwrap_or("");
            }
            c if c.is_alphanumeric() || c == '_' => {
                let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_' && c != '$').unwrap_or(rest.len());
                found.push(Token::Word(&rest[..end]));
                rest = &rest[end..];
            }
            c => {
                if !c.is_whitespace() {
                    found.push(Token::Mark(c));
                }
                rest = after;
            }
        }
    }
    found
}

/// Up to the closing quote; a doubled one stands for itself.
fn quoted(text: &str, quote: char) -> (String, &str) {
    let mut name = String::new();
    let mut rest = text;
    while let Some(end) = rest.find(quote) {
        name.push_str(&rest[..end]);
        rest = &rest[end + quote.len_utf8()..];
        if !rest.starts_with(quote) {
            return (name, rest);
        }
        name.push(quote);
        rest = &rest[quote.len_utf8()..];
    }
    (name, "")
}

fn is_word(token: Option<&Token<'_>>, word: &str) -> bool {
    matches!(token, Some(Token::Word(w)) if w.eq_ignore_ascii_case(word))
}

/// The columns that each CHECK names.
pub(super) fn checks(sql: &str, columns: &[&str]) -> Vec<Vec<String>> {
    let tokens = tokens(sql);
    let mut found = Vec::new();
    for (at, _) in tokens.iter().enumerate().filter(|(_, token)| is_word(Some(token), "check")) {
        if tokens.get(at + 1) != Some(&Token::Mark('(')) {
            continue;
        }
        let mut depth = 0;
        let mut named = Vec::new();
        for token in &tokens[at + 1..] {
            let name = match token {
                Token::Mark('(') => {
                    depth += 1;
                    continue;
                }
                Token::Mark(')') => {
                    depth -= 1;
                    if depth == 0 {
                        break;
                    }
                    continue;
                }
                Token::Word(word) => word,
                Token::Quoted(name) => name.as_str(),
                Token::Mark(_) => continue,
            };
            if let Some(column) = columns.iter().find(|column| column.eq_ignore_ascii_case(name))
                && !named.iter().any(|n| n == column)
            {
                named.push((*column).to_owned());
            }
        }
        found.push(named);
    }
    found
}

/// Whether any column has a collation of its own.
pub(super) fn collates(sql: &str) -> bool {
    tokens(sql).iter().any(|token| is_word(Some(token), "collate"))
}

/// Whether a foreign key is checked at COMMIT only.
pub(super) fn defers(sql: &str) -> bool {
    let tokens = tokens(sql);
    (0..tokens.len()).any(|at| is_word(tokens.get(at), "initially") && is_word(tokens.get(at + 1), "deferred"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SQL: &str = r#"CREATE TABLE t (
        id TEXT NOT NULL PRIMARY KEY, -- CHECK (comment)
        amount INTEGER CHECK (amount >= 0 AND note <> 'CHECK (status)'),
        note TEXT /* COLLATE NOCASE */ DEFAULT 'COLLATE',
        "the status" TEXT, status TEXT,
        CHECK (length("the status") < 9), CHECK (1)
    ) STRICT"#;

    #[test]
    fn checks_name_their_columns() {
        let columns = ["id", "amount", "note", "the status", "status"];
        let found = checks(SQL, &columns);
        assert_eq!(found, [vec!["amount".to_owned(), "note".into()], vec!["the status".into()], vec![]]);
    }

    #[test]
    fn literals_and_comments_say_nothing() {
        assert!(!collates(SQL));
        assert!(collates("CREATE TABLE t (id TEXT collate nocase)"));
        assert!(!defers(SQL));
        assert!(defers("REFERENCES p (id) DEFERRABLE INITIALLY\n DEFERRED"));
        assert!(!defers("REFERENCES p (id) DEFERRABLE INITIALLY IMMEDIATE"));
    }
}
