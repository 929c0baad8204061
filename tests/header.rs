//! The C header says what the library exports: it compiles alone, is the one generated from the sources, and its
//! functions are the symbols of the shared library.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// The sources of the header, in the order in which a reader wants their contents.
const SOURCES: [&str; 7] = ["version", "status", "comm", "boot", "stream", "reshape", "report"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn blessing() -> bool {
    env::var_os("BOXWISE_BLESS").is_some()
}

/// The text of the file, or after a blessing the new text.
fn committed(path: &str, current: &str) -> String {
    let path = root().join(path);
    if blessing() {
        fs::write(&path, current).unwrap();
    }
    fs::read_to_string(&path).unwrap_or_default()
}

fn generated() -> String {
    let config = cbindgen::Config::from_file(root().join("cbindgen.toml")).unwrap();
    let mut builder = cbindgen::Builder::new().with_config(config);
    for source in SOURCES {
        builder = builder.with_src(root().join(format!("src/capi/{source}.rs")));
    }
    let mut header = Vec::new();
    builder.generate().unwrap().write(&mut header);
    String::from_utf8(header).unwrap()
}

fn output_of(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{out}{err}", output.status);
    out.into_owned()
}

/// The shared library that cargo built together with this test, or builds now if it did not. `cargo test` leaves it
/// in `deps` only; a copy above that may be older.
fn library() -> PathBuf {
    let test = env::current_exe().unwrap();
    let profile = test.parent().and_then(Path::parent).expect("tests run in target/<profile>/deps");
    let places = [profile.join("deps/libboxwise.so"), profile.join("libboxwise.so")];
    if let Some(found) = places.iter().find(|place| place.exists()) {
        return found.clone();
    }
    let target = profile.parent().expect("a profile has a folder of its own in target");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--lib", "--target-dir"]).arg(target).current_dir(root());
    if profile.ends_with("release") {
        cargo.arg("--release");
    }
    output_of(&mut cargo);
    places[1].clone()
}

#[test]
fn header_is_the_one_generated_from_the_sources() {
    let generated = generated();
    assert!(
        committed("include/boxwise.h", &generated) == generated,
        "include/boxwise.h is not what src/capi/ gives; run BOXWISE_BLESS=1 cargo test --test header"
    );
}

#[test]
fn header_is_mostly_explanation() {
    let header = generated();
    let lines: Vec<&str> = header.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let comments = lines.iter().filter(|line| line.starts_with('/') || line.starts_with('*')).count();
    let percent = comments * 100 / lines.len();
    assert!((60..=75).contains(&percent), "{percent} % of the lines are comments");
}

#[test]
fn headers_compile_alone() {
    let dir = env::temp_dir().join(format!("boxwise-header-{}", std::process::id()));
    fs::create_dir_all(&dir).unwrap();
    let check = |compiler: &str, standard: &str, file: &str, header: &str| {
        let source = dir.join(file);
        fs::write(&source, format!("#include <{header}>\nint main(void) {{ return 0; }}\n")).unwrap();
        let mut command = Command::new(compiler);
        command.arg(format!("-std={standard}")).args(["-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only"]);
        output_of(command.arg("-I").arg(root().join("include")).arg(source));
    };
    for standard in ["c99", "c11"] {
        check("gcc", standard, "alone.c", "boxwise.h");
    }
    for standard in ["c++11", "c++17"] {
        check("g++", standard, "alone.cpp", "boxwise.h");
    }
    check("g++", "c++17", "alone.cpp", "boxwise.hpp");
    fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn library_exports_what_the_header_declares() {
    let library = library();
    let defined = output_of(Command::new("nm").args(["-D", "--defined-only"]).arg(&library));
    let exported: BTreeSet<&str> = defined.lines().filter_map(|line| line.split_whitespace().nth(2)).collect();
    let listed: String = exported.iter().map(|symbol| format!("{symbol}\n")).collect();
    assert_eq!(committed("include/symbols.txt", &listed), listed, "include/symbols.txt differs from {library:?}");

    let header = generated();
    let declared: BTreeSet<&str> = header
        .lines()
        .filter(|line| line.starts_with(|c: char| c.is_ascii_alphabetic()) && !line.starts_with("typedef"))
        .filter_map(|line| line.split_once('('))
        .filter_map(|(before, _)| before.rsplit([' ', '*']).next())
        .collect();
    assert_eq!(declared, exported);
}

#[test]
fn library_has_the_soname_of_its_abi() {
    let dynamic = output_of(Command::new("readelf").arg("-d").arg(library()));
    assert!(dynamic.contains("Library soname: [libboxwise.so.0]"), "{dynamic}");
}
