//! The version, at compile time and at run time.

use std::ffi::c_char;

/// Version of this header: major number.
pub const BOXWISE_VERSION_MAJOR: i32 = 0;
/// Version of this header: minor number.
pub const BOXWISE_VERSION_MINOR: i32 = 1;
/// Version of this header: patch number.
pub const BOXWISE_VERSION_PATCH: i32 = 0;
/// Version of this header as one number: major * 10000 + minor * 100 + patch.
pub const BOXWISE_VERSION: i32 = BOXWISE_VERSION_MAJOR * 10000 + BOXWISE_VERSION_MINOR * 100 + BOXWISE_VERSION_PATCH;

/// The version of the library that runs, as major * 10000 + minor * 100 + patch.
/// Compare it with BOXWISE_VERSION, the version of the header that was compiled against.
///
/// Any thread, at any time; not collective.
#[unsafe(no_mangle)]
pub extern "C" fn boxwise_version() -> i32 {
    BOXWISE_VERSION
}

/// The version of the library that runs, as text: "major.minor.patch".
///
/// - Returns a constant, NUL-terminated text; do not free it.
///
/// Any thread, at any time; not collective.
#[unsafe(no_mangle)]
pub extern "C" fn boxwise_version_string() -> *const c_char {
    const TEXT: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    TEXT.as_ptr().cast()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_and_package_agree() {
        let header = format!("{BOXWISE_VERSION_MAJOR}.{BOXWISE_VERSION_MINOR}.{BOXWISE_VERSION_PATCH}");
        assert_eq!(header, env!("CARGO_PKG_VERSION"));
    }
}
