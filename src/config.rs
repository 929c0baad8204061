//! The one table of environment variables: what the code reads, `boxwise-info` prints and the guide explains.

use crate::error::{Error, Result};
use std::time::Duration;

/// One environment variable.
#[derive(Clone, Copy, Debug)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// What holds when it is not set.
    pub default: &'static str,
    /// What it does, in one line.
    pub meaning: &'static str,
}

impl Variable {
    /// Its value, if it is set to something.
    pub fn get(&self) -> Option<String> {
        get(self.name)
    }
}

/// [`BOOT_TIMEOUT_MS`] as a time.
pub(crate) fn boot_timeout() -> Result<Duration> {
    let milliseconds = match BOOT_TIMEOUT_MS.get() {
        None => BOOT_TIMEOUT_MS.default.parse().expect("the default is a number"),
        Some(text) => text
            .trim()
            .parse()
            .map_err(|_| Error::invalid_argument(format!("{}={text} is not a number", BOOT_TIMEOUT_MS.name)))?,
    };
    Ok(Duration::from_millis(milliseconds))
}

/// What [`NODE`] says of a rank: nodes are then apart although they are not.
pub(crate) fn pretended_node(rank: usize) -> String {
    let list = NODE.get().unwrap_or_default();
    let names: Vec<&str> = list.split(',').collect();
    names[rank % names.len()].trim().to_owned()
}

/// The value of any variable, if it is set to something.
pub(crate) fn get(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// This process's rank in its job.
pub const RANK: Variable =
    Variable { name: "BOXWISE_RANK", default: "the launcher's", meaning: "rank of this process, set by boxwise-run" };
/// The number of ranks of the job.
pub const SIZE: Variable =
    Variable { name: "BOXWISE_SIZE", default: "the launcher's", meaning: "number of ranks, set by boxwise-run" };
/// The name that the ranks of one job share.
pub const JOB: Variable =
    Variable { name: "BOXWISE_JOB", default: "the launcher's", meaning: "name shared by the ranks of a job" };
/// Where `boxwise-run` notes which ranks have ended.
pub const BOARD: Variable =
    Variable { name: "BOXWISE_BOARD", default: "none", meaning: "list of ended ranks, kept by boxwise-run" };
/// Log level.
pub const LOG: Variable =
    Variable { name: "BOXWISE_LOG", default: "off", meaning: "log to stderr: error, warn, info, debug or trace" };
/// Cross-memory attach.
pub const CMA: Variable = Variable {
    name: "BOXWISE_CMA",
    default: "1",
    meaning: "0: never read another process's plain memory with process_vm_readv, use shared rings",
};
/// Pretended nodes.
pub const NODE: Variable = Variable {
    name: "BOXWISE_NODE",
    default: "none",
    meaning: "for tests: the name of a pretended node, or a list of which rank r takes entry r modulo its length",
};
/// The MPI plugin.
pub const MPI_PLUGIN: Variable = Variable {
    name: "BOXWISE_MPI_PLUGIN",
    default: "searched for",
    meaning: "file of the plugin for MPI communicators, instead of one beside the library or in the loader's path",
};
/// NVSHMEM's library.
pub const NVSHMEM_LIB: Variable = Variable {
    name: "BOXWISE_NVSHMEM_LIB",
    default: "searched for",
    meaning: "file of NVSHMEM's host library, where nothing in the process has loaded it",
};
/// Where NVSHMEM is installed.
pub const NVSHMEM_HOME: Variable = Variable {
    name: "NVSHMEM_HOME",
    default: "none",
    meaning: "folder of NVSHMEM, with its library in lib, unless BOXWISE_NVSHMEM_LIB names that",
};
/// How long to wait for the other ranks to start.
pub const BOOT_TIMEOUT_MS: Variable = Variable {
    name: "BOXWISE_BOOT_TIMEOUT_MS",
    default: "120000",
    meaning: "milliseconds to wait for all ranks of the job to appear",
};

/// Every variable.
pub const VARIABLES: [Variable; 11] =
    [RANK, SIZE, JOB, BOARD, LOG, CMA, NODE, MPI_PLUGIN, NVSHMEM_LIB, NVSHMEM_HOME, BOOT_TIMEOUT_MS];
