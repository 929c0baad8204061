//! Gives the shared library its soname, which changes only with the ABI, and puts a link of that name beside it, so
//! that programs linked with what cargo built also start with it.

#[path = "kernels/build.rs"]
mod kernels;

use std::path::Path;

const SONAME: &str = "libboxwise.so.0";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,{SONAME}");
    let out = std::env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    if std::env::var_os("CARGO_FEATURE_CUDA").is_some() {
        kernels::build(Path::new(&out));
    }
    // <target>/<profile>/build/<package>/out
    if let Some(profile) = Path::new(&out).ancestors().nth(3) {
        let link = profile.join(SONAME);
        if link.symlink_metadata().is_err() {
            // Only a convenience: without it programs need an installed library.
            let _ = std::os::unix::fs::symlink("libboxwise.so", link);
        }
    }
}
