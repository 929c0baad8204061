//! The rooms of the crate: which may use which, where `unsafe` and the C interface may be, what files look like.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// What each room may use of the others. `docs/architecture.md` shows the same table.
const ROOMS: [(&str, &[&str]); 11] = [
    ("geometry", &[]),
    ("error", &["config", "log"]),
    ("config", &["error", "log"]),
    ("log", &["error", "config"]),
    ("plan", &["geometry", "error"]),
    ("copy", &["geometry"]),
    ("transport", &["error", "config"]),
    ("exec", &["plan", "copy", "transport", "geometry", "error"]),
    ("reshape", ALL),
    ("capi", ALL),
    ("bin", ALL),
];
const ALL: &[&str] = &["geometry", "error", "config", "log", "plan", "copy", "transport", "exec", "reshape", "capi"];

/// Rooms that may hold `unsafe` code. `reshape` may pass on an `unsafe fn` of its own, nothing more; the launcher
/// makes system calls of its own.
const UNSAFE_ROOMS: [&str; 5] = ["bin", "capi", "copy", "exec", "transport"];
const MOST_LINES: usize = 450;

/// A piece of Rust source that matters here.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    Mark(char),
    /// `::`
    Path,
    Text,
}

/// The tokens of a source file with their lines, without comments.
fn tokens(source: &str) -> Vec<(usize, Token)> {
    let chars: Vec<char> = source.chars().collect();
    let at = |i: usize| chars.get(i).copied().unwrap_or('\0');
    let (mut i, mut line, mut all) = (0, 1, Vec::new());
    while i < chars.len() {
        let begin = i;
        let token = match at(i) {
            '/' if at(i + 1) == '/' => {
                while i < chars.len() && at(i) != '\n' {
                    i += 1;
                }
                None
            }
            '/' if at(i + 1) == '*' => {
                let mut depth = 0;
                loop {
                    match (at(i), at(i + 1)) {
                        ('/', '*') => (depth, i) = (depth + 1, i + 2),
                        ('*', '/') => (depth, i) = (depth - 1, i + 2),
                        _ => i += 1,
                    }
                    if depth == 0 || i >= chars.len() {
                        break None;
                    }
                }
            }
            '"' => {
                i = end_of_text(&chars, i + 1);
                Some(Token::Text)
            }
            // A raw text: any number of # around it, and no escapes.
            'r' if raw_marks(&chars, i + 1).is_some() => {
                let marks = raw_marks(&chars, i + 1).expect("just seen");
                let close: String = std::iter::once('"').chain((0..marks).map(|_| '#')).collect();
                let rest: String = chars[i + marks + 2..].iter().collect();
                let length = rest.find(&close).map_or(rest.chars().count(), |bytes| rest[..bytes].chars().count());
                i += marks + 2 + length + close.len();
                Some(Token::Text)
            }
            // A character, not a lifetime.
            '\'' if at(i + 1) == '\\' || at(i + 2) == '\'' => {
                i += if at(i + 1) == '\\' { 3 } else { 2 };
                while i < chars.len() && at(i) != '\'' {
                    i += 1;
                }
                i += 1;
                Some(Token::Text)
            }
            ':' if at(i + 1) == ':' => {
                i += 2;
                Some(Token::Path)
            }
            c if c.is_alphanumeric() || c == '_' => {
                while at(i).is_alphanumeric() || at(i) == '_' {
                    i += 1;
                }
                Some(Token::Word(chars[begin..i].iter().collect()))
            }
            c => {
                i += 1;
                (!c.is_whitespace()).then_some(Token::Mark(c))
            }
        };
        all.extend(token.map(|token| (line, token)));
        line += chars[begin..i.min(chars.len())].iter().filter(|c| **c == '\n').count();
    }
    all
}

fn end_of_text(chars: &[char], mut i: usize) -> usize {
    while i < chars.len() && chars[i] != '"' {
        i += if chars[i] == '\\' { 2 } else { 1 };
    }
    i + 1
}

fn raw_marks(chars: &[char], begin: usize) -> Option<usize> {
    let marks = chars[begin..].iter().take_while(|c| **c == '#').count();
    (chars.get(begin + marks) == Some(&'"')).then_some(marks)
}

/// A source file: its path below `src`, and its text.
struct Source {
    path: PathBuf,
    text: String,
}

impl Source {
    /// `plan` for `plan/mod.rs` and all else in `plan/`, `error` for `error.rs`.
    fn room(&self) -> String {
        let first = self.path.iter().next().expect("a file has a name");
        Path::new(first).file_stem().expect("a file has a name").to_string_lossy().into_owned()
    }

    /// How many `super` lead from the file to the crate.
    fn depth(&self) -> usize {
        let folders = self.path.iter().count() - 1;
        if self.path.file_name().is_some_and(|name| name == "mod.rs") { folders } else { folders + 1 }
    }

    /// The names of the crate's root that the file uses, with their lines.
    fn root_names(&self) -> Vec<(usize, String)> {
        let all = tokens(&self.text);
        let mut names = Vec::new();
        // Depth of braces, and at which of them inner modules began.
        let (mut braces, mut modules) = (0, Vec::new());
        let word = |i: usize| match all.get(i) {
            Some((_, Token::Word(word))) => word.as_str(),
            _ => "",
        };
        let mark = |i: usize, c: char| matches!(all.get(i), Some((_, Token::Mark(m))) if *m == c);
        let path = |i: usize| matches!(all.get(i), Some((_, Token::Path)));
        let mut i = 0;
        while i < all.len() {
            match &all[i].1 {
                Token::Mark('{') => braces += 1,
                Token::Mark('}') => {
                    braces -= 1;
                    modules.retain(|depth| *depth <= braces);
                }
                Token::Word(w) if w == "mod" && mark(i + 2, '{') => modules.push(braces + 1),
                Token::Word(w) if (w == "crate" || w == "super") && !(i > 0 && path(i - 1)) => {
                    let mut up = usize::from(w == "super");
                    let mut next = i + 1;
                    while path(next) && word(next + 1) == "super" {
                        (up, next) = (up + 1, next + 2);
                    }
                    if (w == "crate" || up >= self.depth() + modules.len()) && path(next) {
                        names.extend(first_names(&all, next + 1));
                    }
                }
                _ => {}
            }
            i += 1;
        }
        names
    }
}

/// The first names after `crate::`: one, or those of a group.
fn first_names(all: &[(usize, Token)], begin: usize) -> Vec<(usize, String)> {
    let mut names = Vec::new();
    let (mut depth, mut first) = (0, true);
    for (line, token) in &all[begin..] {
        match token {
            Token::Word(word) if first => {
                names.push((*line, word.clone()));
                first = false;
            }
            Token::Mark('{') => depth += 1,
            Token::Mark('}') => depth -= 1,
            Token::Mark(',') if depth == 1 => first = true,
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    names
}

/// Which room a name of the root comes from: rooms themselves, and what `lib.rs` takes out of them.
fn origins(lib: &str) -> HashMap<String, String> {
    let all = tokens(lib);
    let mut origins: HashMap<String, String> = ALL.iter().map(|room| (room.to_string(), room.to_string())).collect();
    for (i, (_, token)) in all.iter().enumerate() {
        let (Token::Word(word), Some((_, Token::Word(room)))) = (token, all.get(i + 1)) else { continue };
        if word == "use" && ALL.contains(&room.as_str()) {
            let end = all[i..].iter().position(|(_, t)| *t == Token::Mark(';')).map_or(all.len(), |n| i + n);
            for (_, token) in &all[i + 2..end] {
                if let Token::Word(name) = token {
                    origins.insert(name.clone(), room.clone());
                }
            }
        }
    }
    origins
}

/// Everything that is not as it should be.
fn violations(sources: &[Source], lib: &str) -> Vec<String> {
    let origins = origins(lib);
    let mut wrong = Vec::new();
    for source in sources {
        let (room, path) = (source.room(), source.path.display());
        let mut tell = |line: usize, what: String| wrong.push(format!("{path}:{line}: {what}"));
        if !source.text.starts_with("//! ") {
            tell(1, "the first line must say what the file is for (//!)".into());
        }
        let lines = source.text.lines().count();
        if lines > MOST_LINES {
            tell(lines, format!("{lines} lines, more than {MOST_LINES}"));
        }
        let all = tokens(&source.text);
        check_unsafe(&room, &all, &mut tell);
        check_output(&room, &all, &mut tell);
        if room == "lib" {
            continue;
        }
        let Some((_, may_use)) = ROOMS.iter().find(|(name, _)| *name == room) else {
            tell(1, format!("{room} is not in the table of rooms"));
            continue;
        };
        for (line, name) in source.root_names() {
            match origins.get(&name) {
                Some(used) if *used == room || may_use.contains(&used.as_str()) => {}
                Some(used) => tell(line, format!("{room} uses {used} ({name})")),
                None => tell(line, format!("{room} uses {name}, which is of no room")),
            }
        }
    }
    wrong
}

/// `unsafe` and definitions of C functions stay in their rooms.
fn check_unsafe(room: &str, all: &[(usize, Token)], tell: &mut impl FnMut(usize, String)) {
    let is = |i: usize, text: &str| matches!(all.get(i), Some((_, Token::Word(word))) if word == text);
    let mut blocks = 0;
    for (i, (line, token)) in all.iter().enumerate() {
        match token {
            Token::Word(word) if word == "unsafe" && !UNSAFE_ROOMS.contains(&room) => {
                blocks += usize::from(!is(i + 1, "fn"));
                if room != "reshape" || !is(i + 1, "fn") && blocks > 1 {
                    tell(*line, format!("{room} holds no unsafe code"));
                }
            }
            Token::Word(word) if word == "extern" && room != "capi" => {
                let next = i + 1 + usize::from(matches!(all.get(i + 1), Some((_, Token::Text))));
                if is(next, "fn") && matches!(all.get(next + 1), Some((_, Token::Word(_)))) {
                    tell(*line, format!("{room} defines a C function"));
                }
            }
            _ => {}
        }
    }
}

/// The library neither prints nor ends the process. The log writes what it was asked to; programs may do both.
fn check_output(room: &str, all: &[(usize, Token)], tell: &mut impl FnMut(usize, String)) {
    for (i, (line, token)) in all.iter().enumerate() {
        let Token::Word(word) = token else { continue };
        let prints = matches!(word.as_str(), "print" | "println" | "eprint" | "eprintln" | "dbg")
            && matches!(all.get(i + 1), Some((_, Token::Mark('!'))));
        let ends = matches!(word.as_str(), "exit" | "_exit" | "abort")
            && i > 1
            && matches!(&all[i - 1].1, Token::Path)
            && matches!(&all[i - 2].1, Token::Word(of) if of == "process" || of == "libc");
        if (prints && room != "log" || ends) && room != "bin" {
            tell(*line, format!("{room} prints or ends the process ({word})"));
        }
    }
}

fn read_sources(folder: &Path, below: &Path, all: &mut Vec<Source>) {
    for entry in std::fs::read_dir(folder).expect("sources can be listed").flatten() {
        let path = entry.path();
        let name = below.join(entry.file_name());
        if path.is_dir() {
            read_sources(&path, &name, all);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).expect("sources can be read");
            all.push(Source { path: name, text });
        }
    }
}

#[test]
fn rooms_use_only_what_they_may() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let lib = std::fs::read_to_string(folder.join("lib.rs")).expect("the crate has a root");
    let mut sources = Vec::new();
    read_sources(&folder, Path::new(""), &mut sources);
    assert!(sources.len() > 20, "{} sources", sources.len());
    let wrong = violations(&sources, &lib);
    assert!(wrong.is_empty(), "{} violations:\n{}", wrong.len(), wrong.join("\n"));
}

const LIB: &str = "//! x\npub use error::{Error, Result as Outcome};\npub use transport::Communicator;\n";

fn told(path: &str, text: &str) -> Vec<String> {
    violations(&[Source { path: path.into(), text: format!("//! One idea.\n{text}") }], LIB)
}

#[test]
fn planted_violations_are_found() {
    for (path, text, what) in [
        ("geometry/a.rs", "use crate::error::Error;", "geometry uses error"),
        ("geometry/mod.rs", "use super::plan::Schedule;", "geometry uses plan"),
        ("geometry/a.rs", "use super::super::plan;", "geometry uses plan"),
        ("geometry/a.rs", "mod tests {\n use super::super::super::exec::Stream;\n}", "geometry uses exec"),
        ("plan/a.rs", "fn f(c: &crate::Communicator) {}", "plan uses transport (Communicator)"),
        ("plan/a.rs", "use crate::{error::Error, geometry::{IndexBox, Layout}, transport::Bell};", "uses transport"),
        ("copy/run.rs", "use crate::error::Result;", "copy uses error"),
        ("copy/run.rs", "use crate::Outcome;", "copy uses error (Outcome)"),
        ("transport/a/b.rs", "fn f() { crate::geometry::f() }", "transport uses geometry"),
        ("transport/a.rs", "pub(super) use super::super::plan::f;", "transport uses plan"),
        ("exec/mod.rs", "use crate::capi;", "exec uses capi"),
        ("exec/mod.rs", "use crate::config;", "exec uses config"),
        ("error.rs", "use super::geometry;", "error uses geometry"),
        ("attic.rs", "", "attic is not in the table"),
        ("plan/a.rs", "fn f() { unsafe { g() } }", "plan holds no unsafe"),
        ("lib.rs", "unsafe impl Send for X {}", "lib holds no unsafe"),
        ("reshape.rs", "fn f() { unsafe { g() }; unsafe { g() } }", "reshape holds no unsafe"),
        ("exec/a.rs", "pub extern \"C\" fn boxwise_f() {}", "exec defines a C function"),
        ("exec/a.rs", "extern fn f() {}", "exec defines a C function"),
        ("exec/a.rs", "fn f() { println!(\"x\") }", "exec prints or ends"),
        ("capi/a.rs", "fn f() { std::process::exit(1) }", "capi prints or ends"),
    ] {
        let wrong = told(path, text);
        assert!(wrong.len() == 1 && wrong[0].contains(what), "{path} {text:?}: {wrong:?}");
    }
    let long = "\n".repeat(MOST_LINES);
    assert!(told("plan/a.rs", &long)[0].contains("more than"));
    let undocumented = Source { path: "plan/a.rs".into(), text: "use std::fmt;\n".into() };
    assert!(violations(&[undocumented], LIB)[0].contains("first line"));
}

#[test]
fn what_is_allowed_is_not_told() {
    for (path, text) in [
        ("plan/a.rs", "use crate::{error::{Error, Status}, geometry::IndexBox}; use super::options::Options;"),
        ("plan/mod.rs", "mod a; pub(crate) use a::f; use super::geometry::IndexBox;"),
        ("plan/a.rs", "mod tests { use super::super::samples::f; use super::*; }"),
        (
            "plan/a.rs",
            "// crate::transport, unsafe\n/* crate::exec /* */ unsafe */ const X: &str = \"crate::capi unsafe\";",
        ),
        ("plan/a.rs", "const X: &str = r#\"unsafe \" crate::exec\"#; const Y: char = '\"'; fn f<'a>(x: &'a str) {}"),
        ("plan/a.rs", "fn f() -> crate::Outcome<()> { exit(abort) }"),
        ("exec/a.rs", "use crate::{plan, copy, transport, Communicator, Error}; fn f(g: extern \"C\" fn(i32)) {}"),
        ("exec/a.rs", "unsafe extern \"C\" { fn memcpy(); }"),
        ("reshape.rs", "pub unsafe fn exec() { unsafe { g() } } use crate::exec::f;"),
        ("capi/a.rs", "pub unsafe extern \"C\" fn boxwise_f() { crate::reshape::f() }"),
        ("bin/a.rs", "fn main() { println!(\"x\"); std::process::exit(1) }"),
    ] {
        assert_eq!(told(path, text), [""; 0], "{path} {text:?}");
    }
}
