//! One operation with the peers of other nodes: pieces packed into messages, and unpacked as they arrive.

use super::MESSAGE;
use super::buffers::Buffers;
use super::direction::{Cursor, Direction};
use super::failure::Failure;
use super::program::Program;
use crate::copy::Kernel;
use crate::error::{Result, Status};
use crate::geometry::LoopNest;
use crate::plan::{PeerTransfers, Transfer};
use crate::transport::{Arrival, Communicator, Lane, Pending, PlanTags, Progress, lane_piece_bytes};

/// The copies between this rank and one peer of another node.
#[derive(Debug)]
pub struct RemoteCopies {
    /// The peer.
    pub rank: usize,
    receive: Direction,
    send: Direction,
    /// How many pieces come in an operation.
    pieces_received: usize,
}

impl RemoteCopies {
    /// Chooses kernels and pieces for messages among `size` ranks.
    pub fn new(peer: &PeerTransfers, size: usize, kernel: impl Fn(&LoopNest) -> Kernel) -> RemoteCopies {
        let direction = |transfers: &[Transfer]| Direction::new(transfers, lane_piece_bytes(size), &kernel);
        let (receive, send) = (direction(&peer.receive), direction(&peer.send));
        RemoteCopies { rank: peer.rank, pieces_received: receive.load().0, receive, send }
    }

    /// The lane for them.
    pub fn lay_lane(&self, communicator: &Communicator, tags: &PlanTags) -> Result<RemoteFlow> {
        let lane = Lane::new(communicator, self.rank, tags.data(), self.send.load(), self.receive.load())?;
        Ok(RemoteFlow { lane, receive: None, send: None, flushed: true })
    }
}

/// A lane, and how far the data has got on it.
#[derive(Debug)]
pub struct RemoteFlow {
    lane: Lane,
    /// What comes next, each way.
    receive: Option<Cursor>,
    send: Option<Cursor>,
    /// Everything sent has left.
    flushed: bool,
}

impl RemoteFlow {
    fn is_finished(&self) -> bool {
        self.receive.is_none() && self.send.is_none() && self.flushed
    }

    /// Ends the lane, whatever is under way on it.
    pub fn abandon(&mut self) {
        self.lane.abandon();
    }
}

/// The part of an operation that goes to and comes from other nodes.
pub struct RemoteStep<'a> {
    program: &'a Program,
    /// With `Err` this rank cannot take part: its peers are told, and what they send is not looked at.
    buffers: std::result::Result<Buffers, Status>,
    flows: &'a mut [RemoteFlow],
    failure: Option<Failure>,
    finished: bool,
}

impl<'a> RemoteStep<'a> {
    /// Posts all receives.
    pub fn start(
        program: &'a Program,
        buffers: std::result::Result<Buffers, Status>,
        flows: &'a mut [RemoteFlow],
    ) -> Result<RemoteStep<'a>> {
        for (peer, flow) in program.remotes.iter().zip(&mut *flows) {
            (flow.receive, flow.send, flow.flushed) = (peer.receive.first(), peer.send.first(), false);
            flow.lane.start(peer.pieces_received)?;
        }
        let finished = flows.is_empty();
        Ok(RemoteStep { program, buffers, flows, failure: None, finished })
    }

    /// That a peer could not take part.
    pub fn failure(&self) -> Option<Failure> {
        self.failure
    }

    /// How data moved: the bit of messages where there are any.
    pub fn methods(&self) -> u32 {
        if self.flows.is_empty() { 0 } else { MESSAGE }
    }

    /// Whether nothing is left to do or wait for.
    pub fn is_finished(&self) -> bool {
        self.finished
    }

    /// Does what can be done now; whether that was anything.
    pub fn visit(&mut self) -> Result<bool> {
        let (mut moved, mut finished) = (false, true);
        if self.finished {
            return Ok(false);
        }
        for index in 0..self.flows.len() {
            if !self.flows[index].is_finished() {
                moved |= self.unpack_arrived(index)? | self.pack_next(index)?;
                finished &= self.flows[index].is_finished();
            }
        }
        self.finished = finished;
        Ok(moved)
    }

    fn unpack_arrived(&mut self, index: usize) -> Result<bool> {
        let (peer, flow) = (&self.program.remotes[index], &mut self.flows[index]);
        let mut moved = false;
        while let Some(cursor) = flow.receive {
            let nest = peer.receive.piece(cursor);
            let src = match flow.lane.arrival(nest.bytes())? {
                None => break,
                Some(Arrival::Piece(src)) => src,
                Some(Arrival::Fault(fault)) => {
                    self.failure = self.failure.or(Failure::posted(peer.rank, fault));
                    flow.receive = None;
                    return Ok(true);
                }
            };
            if let Ok(buffers) = &self.buffers {
                // SAFETY: the piece is there until it is popped; the nest stays inside the output box.
                unsafe { Kernel::new(nest.unpack(), self.program.bytes_in_all).run(buffers.output, src) };
            }
            flow.lane.pop()?;
            flow.receive = peer.receive.after(cursor);
            moved = true;
        }
        Ok(moved)
    }

    fn pack_next(&mut self, index: usize) -> Result<bool> {
        let (peer, flow) = (&self.program.remotes[index], &mut self.flows[index]);
        let mut moved = false;
        while let Some(cursor) = flow.send
            && let Some(dst) = flow.lane.room()?
        {
            let nest = peer.send.piece(cursor);
            match &self.buffers {
                Ok(buffers) => {
                    let src = self.program.own_source(buffers);
                    // SAFETY: the room is ours until it is pushed; the nest stays inside the input box. What is packed
                    // is read again at once, so it is never worth streaming past the cache.
                    unsafe { Kernel::new(nest.pack(), 0).run(dst, src) };
                    flow.lane.push(nest.bytes())?;
                    flow.send = peer.send.after(cursor);
                }
                Err(status) => {
                    flow.lane.push_fault(*status as i32, nest.bytes())?;
                    flow.send = None;
                }
            }
            moved = true;
        }
        if flow.send.is_none() && !flow.flushed {
            flow.flushed = flow.lane.is_flushed()?;
            moved |= flow.flushed;
        }
        Ok(moved)
    }
}

impl Pending for RemoteStep<'_> {
    fn progress(&mut self) -> Result<Progress> {
        let moved = self.visit()?;
        Ok(match self.finished {
            true => Progress::Finished,
            false if moved => Progress::Moved,
            false => Progress::Idle,
        })
    }

    fn awaited(&self, visit: &mut dyn FnMut(usize)) {
        let unfinished = self.program.remotes.iter().zip(&*self.flows).filter(|(_, flow)| !flow.is_finished());
        unfinished.for_each(|(peer, _)| visit(peer.rank));
    }

    fn needs_polling(&self) -> bool {
        !self.finished
    }
}
