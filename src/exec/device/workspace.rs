//! Where staged and packed data lie in a rank's workspace.

use super::tiles::{Packed, pack};
use crate::plan::Schedule;

/// Everything in the workspace begins at a multiple of this.
const ALIGNMENT: usize = 256;

/// The packed tiles that leave for one peer, or come from it.
#[derive(Debug)]
pub struct Lane {
    /// Its place in the schedule's list of peers.
    pub peer: usize,
    /// Where its packed data begins in this rank's workspace.
    pub offset: usize,
    pub packed: Packed,
}

/// The workspace: the staged input, what is packed for peers that cannot be reached, and what comes from them.
#[derive(Debug)]
pub struct Layout {
    /// The size of it all.
    pub workspace_bytes: usize,
    pub outgoing: Vec<Lane>,
    pub incoming: Vec<Lane>,
}

impl Layout {
    /// For peers of which some can be reached through mapped memory.
    pub fn new(schedule: &Schedule, is_reachable: impl Fn(usize) -> bool) -> Layout {
        let staged_bytes = schedule.staging.as_ref().map_or(0, |_| schedule.request.input.bytes());
        let mut layout = Layout { workspace_bytes: staged_bytes, outgoing: Vec::new(), incoming: Vec::new() };
        for (peer, transfers) in schedule.peers.iter().enumerate().filter(|(_, peer)| !is_reachable(peer.rank)) {
            for (list, lanes) in [(&transfers.send, &mut layout.outgoing), (&transfers.receive, &mut layout.incoming)] {
                if list.is_empty() {
                    continue;
                }
                let packed = pack(list.iter().map(|transfer| &transfer.nest));
                let offset = layout.workspace_bytes.next_multiple_of(ALIGNMENT);
                layout.workspace_bytes = offset + packed.bytes;
                lanes.push(Lane { peer, offset, packed });
            }
        }
        layout
    }
}
