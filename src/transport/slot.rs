//! What a rank tells its peers about the current operation of one plan: a few cache lines it alone writes.
//!
//! Operations are numbered from 1 and wrap. A slot keeps the posts of two operations, so that a rank may post the
//! next one while a slow peer still reads the last; before it posts operation `n` it waits until every peer is
//! done with `n - 2`. `tests/loom.rs` checks that rule.

use super::sync::{AtomicU32, AtomicU64, Ordering, fence};

/// The number of an operation of a plan; wraps, and is compared by distance.
pub type Operation = u32;

/// How to reach a buffer: inside a shared segment, or plain memory of its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach {
    /// The number of the segment, 0 for plain memory.
    pub segment: u64,
    /// The offset in the segment, or the address in the owner's process.
    pub address: u64,
}

/// What a rank posts for one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Post {
    /// 0, or the status with which this rank failed: then nobody may touch its buffers.
    pub fault: i32,
    /// Where peers read what this rank sends.
    pub source: Reach,
    /// Where this rank's output lies.
    pub target: Reach,
}

#[repr(C, align(64))]
struct PostWords {
    fault: AtomicU64,
    source: [AtomicU64; 2],
    target: [AtomicU64; 2],
}

/// One rank's slot of one plan.
#[repr(C, align(64))]
pub struct Slot {
    posted: AtomicU32,
    done: AtomicU32,
    complete: AtomicU32,
    /// How the two last operations ended here.
    outcomes: [AtomicU64; 2],
    posts: [PostWords; 2],
}

/// Whether a counter that shows `counter` has come to `operation`.
fn reached(counter: u32, operation: Operation) -> bool {
    counter.wrapping_sub(operation) as i32 >= 0
}

impl Slot {
    /// A slot before the first operation. In shared memory, zeroed bytes are one.
    #[cfg(loom)]
    pub fn new() -> Slot {
        let words = || PostWords {
            fault: AtomicU64::new(0),
            source: [AtomicU64::new(0), AtomicU64::new(0)],
            target: [AtomicU64::new(0), AtomicU64::new(0)],
        };
        Slot {
            posted: AtomicU32::new(0),
            done: AtomicU32::new(0),
            complete: AtomicU32::new(0),
            outcomes: [AtomicU64::new(0), AtomicU64::new(0)],
            posts: [words(), words()],
        }
    }

    /// Owner: posts an operation. Every peer must be done with the last but one.
    pub fn post(&self, operation: Operation, post: &Post) {
        let words = &self.posts[operation as usize & 1];
        words.fault.store(post.fault as u64, Ordering::Relaxed);
        for (pair, reach) in [(&words.source, post.source), (&words.target, post.target)] {
            pair[0].store(reach.segment, Ordering::Relaxed);
            pair[1].store(reach.address, Ordering::Relaxed);
        }
        self.posted.store(operation, Ordering::Release);
        // Between this and reading a peer's post lies a fence, and so it does in `withdraw`.
        fence(Ordering::SeqCst);
    }

    /// Owner: no peer that has not read the post yet may use it; those that have posted themselves may have read it.
    pub fn withdraw(&self, operation: Operation, fault: i32) {
        self.posts[operation as usize & 1].fault.store(fault as u64, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Peer: whether the owner has posted the operation.
    pub fn has_posted(&self, operation: Operation) -> bool {
        reached(self.posted.load(Ordering::Acquire), operation)
    }

    /// Peer: what the owner posted for an operation this peer is not done with, once it has.
    pub fn read(&self, operation: Operation) -> Option<Post> {
        if !self.has_posted(operation) {
            return None;
        }
        let words = &self.posts[operation as usize & 1];
        let reach = |pair: &[AtomicU64; 2]| Reach {
            segment: pair[0].load(Ordering::Relaxed),
            address: pair[1].load(Ordering::Relaxed),
        };
        Some(Post {
            fault: words.fault.load(Ordering::Relaxed) as i32,
            source: reach(&words.source),
            target: reach(&words.target),
        })
    }

    /// Owner: it will touch no peer's memory and read no peer's post of this operation any more.
    pub fn set_done(&self, operation: Operation) {
        self.done.store(operation, Ordering::Release);
    }

    /// Peer: whether the owner is done with the operation.
    pub fn is_done(&self, operation: Operation) -> bool {
        reached(self.done.load(Ordering::Acquire), operation)
    }

    /// Owner: its output is whole and its input may be reused, or `outcome`, which is not 0, says why not. All ranks
    /// must have seen the owner complete the last operation.
    pub fn set_complete(&self, operation: Operation, outcome: u64) {
        self.outcomes[operation as usize & 1].store(outcome, Ordering::Relaxed);
        self.complete.store(operation, Ordering::Release);
    }

    /// Peer: the outcome of an operation that this rank has not completed, once it is complete on the owner.
    pub fn outcome(&self, operation: Operation) -> Option<u64> {
        let is_complete = reached(self.complete.load(Ordering::Acquire), operation);
        is_complete.then(|| self.outcomes[operation as usize & 1].load(Ordering::Relaxed))
    }
}
