//! PTX as words and marks.

use crate::fault::{Fault, Kind};

/// A piece of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Token {
    /// A name, directive, instruction, register or number.
    Word(String),
    /// What is between quotes.
    Text(String),
    /// Any other character.
    Mark(char),
}

/// The tokens with their lines.
pub fn tokens(source: &str) -> Result<Vec<(u32, Token)>, Fault> {
    let mut all = Vec::new();
    let mut in_comment = false;
    for (index, text) in source.lines().enumerate() {
        let line = index as u32 + 1;
        let mut rest = text;
        while !rest.is_empty() {
            if in_comment {
                let Some(end) = rest.find("*/") else { break };
                (in_comment, rest) = (false, &rest[end + 2..]);
                continue;
            }
            let first = rest.chars().next().expect("it is not empty");
            let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '%' | '.');
            if rest.starts_with("//") {
                break;
            } else if rest.starts_with("/*") {
                (in_comment, rest) = (true, &rest[2..]);
            } else if is_word(first) {
                let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
                // The scope operator in the names of instructions, as in `ld.global.L1::no_allocate`.
                let end = match rest[end..].strip_prefix("::") {
                    Some(more) => end + 2 + more.find(|c| !is_word(c)).unwrap_or(more.len()),
                    None => end,
                };
                all.push((line, Token::Word(rest[..end].to_owned())));
                rest = &rest[end..];
            } else if first == '"' {
                let end = rest[1..].find('"').ok_or_else(|| {
                    Fault::new(Kind::Syntax, format!("line {line}: a text that does not end: {text}"))
                })?;
                all.push((line, Token::Text(rest[1..=end].to_owned())));
                rest = &rest[end + 2..];
            } else {
                if !first.is_whitespace() && first != '\0' {
                    all.push((line, Token::Mark(first)));
                }
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    Ok(all)
}
