//! The C interface: the only `extern "C"` functions of the crate, one file per C object.
//!
//! A thin shell: every function turns its arguments into the crate's own types, calls them inside the panic
//! boundary ([`boundary`]) and hands the outcome back as a status. What C programs hold are numbers of a table
//! ([`handle`]), never addresses, so that a stale or foreign handle is told and not followed.
//!
//! `include/boxwise.h` is generated from these files (`tests/header.rs`); their doc comments are its comments.

#![allow(non_camel_case_types)] // the names are those of C

mod boot;
mod boundary;
mod comm;
mod handle;
mod mpi;
mod report;
mod reshape;
mod status;
mod stream;
mod version;
