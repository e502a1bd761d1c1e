//! Cuts the line of a mistake out of its file: secrets masked, the marked part measured. Pure.

use std::ops::Range;

use super::diagnostic::Excerpt;

/// A line of a text, by a position in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line<'t> {
    /// Without its end.
    pub(super) text: &'t str,
    /// From 1.
    pub(super) number: usize,
    /// The position's, from 1, in characters.
    pub(super) column: usize,
    /// Where the line begins, in bytes.
    start: usize,
}

/// The line at a position, which may lie beyond the text or inside a character.
pub(super) fn line_at(text: &str, position: usize) -> Line<'_> {
    let at = (0..=position.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let start = text[..at].rfind('\n').map_or(0, |at| at + 1);
    let end = text[at..].find('\n').map_or(text.len(), |length| at + length);
    Line {
        text: text[start..end].trim_end(),
        number: text[..start].matches('\n').count() + 1,
        column: text[start..at].chars().count() + 1,
        start,
    }
}

/// The line that `marked` begins in. What lies in a mask is shown as `***`.
pub(super) fn cut(text: &str, marked: &Range<usize>, masks: &[Range<usize>]) -> Excerpt {
    let line = line_at(text, marked.start);
    let (mut shown, mut from, mut to) = (String::new(), None, 0);
    let mut mask: Option<&Range<usize>> = None;
    for (offset, c) in line.text.char_indices() {
        let at = line.start + offset;
        let before = shown.chars().count();
        let covered = masks.iter().find(|mask| mask.contains(&at));
        match covered {
            // The whole mask was shown with its first character.
            Some(_) if mask.is_some() => {}
            Some(_) => shown.push_str("***"),
            None => shown.push(if c.is_control() { ' ' } else { c }),
        }
        if marked.contains(&at) {
            let start = if mask.is_some() && covered.is_some() { before.saturating_sub(3) } else { before };
            from.get_or_insert(start);
            to = shown.chars().count();
        }
        mask = covered;
    }
    let start = from.unwrap_or_else(|| shown.chars().count());
    Excerpt { line: shown, start, length: to.saturating_sub(start).max(1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, marked: &str, masked: &[&str]) -> String {
        let find = |part: &str| {
            let start = text.find(part).unwrap_or(text.len());
            start..start + part.len()
        };
        let masks: Vec<_> = masked.iter().map(|part| find(part)).collect();
        let Excerpt { line, start, length } = cut(text, &find(marked), &masks);
        format!("{line}\n{}{}", " ".repeat(start), "^".repeat(length))
    }

    #[test]
    fn the_caret_stands_below_what_is_marked() {
        assert_eq!(shown("a = 1\nbc = 22\n", "22", &[]), "bc = 22\n     ^^");
        assert_eq!(shown("\tü = 'ö'", "'ö'", &[]), " ü = 'ö'\n     ^^^", "characters, not bytes; tabs are one");
        assert_eq!(shown("a = [\n1]", "[\n1]", &[]), "a = [\n    ^", "only the first line");
        assert_eq!(shown("a = 1", "absent", &[]), "a = 1\n     ^", "the end of the text");
    }

    #[test]
    fn secrets_are_masked_wherever_they_stand() {
        assert_eq!(shown("u = 'pw', x = 1", "x", &["'pw'"]), "u = ***, x = 1\n         ^");
        assert_eq!(shown("u = 'pw'", "'pw'", &["'pw'"]), "u = ***\n    ^^^");
        assert_eq!(shown("u = 'a\nb' # c", "b'", &["'a\nb'"]), "*** # c\n^^^", "a later line of it too");
    }

    #[test]
    fn positions_are_counted_as_people_count() {
        let line = line_at("a\nüb\n", 4);
        assert_eq!((line.text, line.number, line.column), ("üb", 2, 2));
        assert_eq!(line_at("ü", 1).column, 1, "inside a character");
        assert_eq!(line_at("", 9).number, 1);
    }
}
