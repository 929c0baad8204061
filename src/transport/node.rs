//! The ranks of one node: they share a control segment, watch each other's processes, and hand out shared memory.
//!
//! Here a rank goes by its place among them, its member number; elsewhere by its rank in the communicator.

use super::control::{Cause, Control};
use super::cross_memory;
use super::liveness::Watch;
use super::star::Star;
use super::sync::Ordering;
use crate::config;
use crate::error::Result;
use std::sync::Arc;

/// One rank's view of its node.
#[derive(Debug)]
pub struct Node {
    /// This rank's place.
    pub member: usize,
    /// The ranks, in ascending order.
    pub ranks: Vec<usize>,
    pub control: Control,
    /// Whether the kernel lets every rank read its peers' plain memory.
    pub cross_memory: bool,
    /// How often to look before sleeping.
    pub spins: u32,
    /// The other ranks' processes; `None` where the rank is a thread of this one.
    pub watches: Vec<Option<Arc<Watch>>>,
    pub star: Star,
}

impl Node {
    /// A node whose processes are not watched yet.
    pub fn new(member: usize, ranks: Vec<usize>, control: Control, star: Star) -> Node {
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        // With a core for everyone a peer answers within microseconds; without, spinning only keeps it waiting.
        let spins = if ranks.len() <= cores { 4000 } else { 50 };
        Node { member, ranks, control, cross_memory: false, spins, watches: Vec::new(), star }
    }

    /// The place of a rank, `None` when it is on another node.
    pub fn member_of(&self, rank: usize) -> Option<usize> {
        self.ranks.binary_search(&rank).ok()
    }

    /// Whether that member is a thread of this process.
    pub fn is_same_process(&self, member: usize) -> bool {
        member == self.member || self.watches[member].is_none()
    }

    /// That member's process.
    pub fn pid(&self, member: usize) -> u32 {
        self.watches[member].as_ref().map_or_else(std::process::id, |watch| watch.pid())
    }

    /// Whether that member's process has ended.
    pub fn has_died(&self, member: usize) -> bool {
        let has_ended = self.watches.get(member).and_then(Option::as_ref).is_some_and(|watch| watch.has_ended());
        has_ended || self.star.has_hung_up(member)
    }

    /// Why nothing more can be expected of that member, if so.
    pub fn is_lost(&self, member: usize) -> Option<Cause> {
        if self.control.member(member).left.load(Ordering::Acquire) != 0 {
            return Some(Cause::Left);
        }
        self.has_died(member).then_some(Cause::Died)
    }

    /// Opens the watches: from then on the loss of a process is noticed.
    pub fn watch_others(&mut self) -> Result<()> {
        let own = std::process::id();
        let pids = self.control.members().map(|member| member.pid.load(Ordering::Relaxed));
        self.watches =
            pids.map(|pid| if pid == own { Ok(None) } else { Watch::on(pid).map(Some) }).collect::<Result<_>>()?;
        Ok(())
    }

    /// Whether this rank can read the plain memory of the next member that is another process.
    pub fn probe_next(&self) -> bool {
        if config::CMA.get().is_some_and(|value| value == "0") {
            return false;
        }
        let count = self.ranks.len();
        let mut others = (1..count).map(|step| (self.member + step) % count);
        others.find(|&member| !self.is_same_process(member)).is_none_or(|member| {
            let address = self.control.member(member).probe_address.load(Ordering::Relaxed);
            cross_memory::probe(self.pid(member), address)
        })
    }
}
