//! Gives the stand-in the library's soname.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libnvshmem_host.so.3");
}
