//! The boot table: what a foreign runtime offers so that its ranks can become a communicator.

use crate::config;
use crate::error::Result;
use std::fmt::Debug;

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
    /// The name of this rank's node: ranks with different names share no memory, even where they could.
    fn node(&self) -> String {
        config::pretended_node(self.rank())
    }
    /// The largest tag of its messages, at least 32767; `None` without messages: all ranks must then be on one node.
    fn most_tag(&self) -> Option<i32> {
        None
    }
    /// Messages between single ranks, kept by the communicator.
    fn into_messages(self: Box<Self>) -> Option<Box<dyn Messages>> {
        None
    }
}

/// A message under way, as the runtime knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message(pub u64);

/// Messages between single ranks. Those with one tag from one rank to another arrive in the order in which they were
/// sent. No call blocks. One thread calls at a time, unless [`Messages::any_thread`].
///
/// Its end, by drop, tells the runtime that the communicator is gone.
pub trait Messages: Debug + Send + Sync {
    /// Starts to send `bytes` bytes, at most 1 GiB, to a rank. Tags are 0 to [`Boot::most_tag`].
    ///
    /// # Safety
    /// The bytes stay there, unchanged, until the message is complete.
    unsafe fn send(&self, peer: usize, tag: i32, data: *const u8, bytes: usize) -> Result<Message>;
    /// Starts to receive a message of at most `bytes` bytes from a rank.
    ///
    /// # Safety
    /// Nobody else uses the bytes until the message is complete or cancelled.
    unsafe fn receive(&self, peer: usize, tag: i32, data: *mut u8, bytes: usize) -> Result<Message>;
    /// The length of the message once it is complete; the request is then gone. With `Err`, `message` is what
    /// [`Messages::cancel`] takes.
    fn test(&self, message: &mut Message) -> Result<Option<usize>>;
    /// Ends a receive that `test` has not called complete: its memory is not touched any more.
    fn cancel(&self, message: Message) -> Result<()>;
    /// A rank from which a message with this tag waits to be received, if there is one.
    fn probe(&self, tag: i32) -> Result<Option<usize>>;
    /// Whether any thread may call, at any time.
    fn any_thread(&self) -> bool;
}

impl dyn Messages + '_ {
    /// The length of the message in the slot once it is complete; the slot is then empty.
    pub fn take_complete(&self, slot: &mut Option<Message>) -> Result<Option<usize>> {
        let Some(message) = slot else { return Ok(None) };
        let length = self.test(message)?;
        if length.is_some() {
            *slot = None;
        }
        Ok(length)
    }
}
