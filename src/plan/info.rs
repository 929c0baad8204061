//! The figures of one rank's schedule: how much moves, to and from how many.

use super::descriptor::Request;
use super::schedule::{PeerTransfers, Transfer};
use serde::Serialize;

/// The figures of one rank's schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Info {
    /// The number of dimensions.
    pub ndims: usize,
    /// Bytes of one element.
    pub element_size: usize,
    /// This rank.
    pub rank: usize,
    /// The number of ranks.
    pub size: usize,
    /// Bytes that go from this rank's input to its own output.
    pub bytes_kept: u64,
    /// Bytes that this rank sends to others.
    pub bytes_sent: u64,
    /// Bytes that it receives from others.
    pub bytes_received: u64,
    /// The number of ranks that it sends to.
    pub peers_sent_to: usize,
    /// The number of ranks that it receives from.
    pub peers_received_from: usize,
    /// The strided copies that fill this rank's output: what is kept and what is received.
    pub copies: u64,
    /// Bytes of workspace that an execution needs.
    pub workspace_bytes: u64,
}

impl Info {
    pub(super) fn new(
        rank: usize,
        size: usize,
        request: &Request,
        keep: &[Transfer],
        peers: &[PeerTransfers],
        workspace_bytes: usize,
    ) -> Info {
        // For one receiver it is part of its output; for very many it can be more than 64 bits, on paper.
        let bytes = |transfers: &[Transfer]| transfers.iter().map(Transfer::bytes).sum::<u64>();
        let sum = |bytes_of: &dyn Fn(&PeerTransfers) -> u64| peers.iter().map(bytes_of).fold(0, u64::saturating_add);
        let received = peers.iter().map(|peer| peer.receive.len()).sum::<usize>();
        Info {
            ndims: request.input.index_box().ndims(),
            element_size: request.input.element_size(),
            rank,
            size,
            bytes_kept: bytes(keep),
            bytes_sent: sum(&|peer| bytes(&peer.send)),
            bytes_received: sum(&|peer| bytes(&peer.receive)),
            peers_sent_to: peers.iter().filter(|peer| !peer.send.is_empty()).count(),
            peers_received_from: peers.iter().filter(|peer| !peer.receive.is_empty()).count(),
            copies: (keep.len() + received) as u64,
            workspace_bytes: workspace_bytes as u64,
        }
    }
}
