//! The boot table: the few collective calls of a foreign runtime from which a communicator can be formed.

use crate::error::Result;

/// What a runtime must offer so that its processes (or threads) can become a communicator.
///
/// The calls are collective over the ranks of the table, block until done, and are made only while the
/// communicator is formed.
pub trait Boot {
    /// This rank, 0 to `size() - 1`.
    fn rank(&self) -> usize;
    /// The number of ranks.
    fn size(&self) -> usize;
    /// Gathers `mine` of every rank, in the order of the ranks, into `all`, which is `size()` times as long.
    fn allgather(&self, mine: &[u8], all: &mut [u8]) -> Result<()>;
    /// Returns after every rank has called it.
    fn barrier(&self) -> Result<()>;
}
