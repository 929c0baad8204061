//! Gives the shared library its soname, which changes only with the ABI.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libboxwise.so.0");
}
