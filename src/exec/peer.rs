//! One operation with all peers: how the data moves between each pair, and how far it has got.

use super::program::{Buffers, Failure, Program};
use crate::copy::Kernel;
use crate::error::{Error, Result, Status};
use crate::geometry::{LoopNest, Piece};
use crate::plan::{ExitSync, PeerTransfers, Transfer};
use crate::transport::{Cause, Operation, Pending, Post, Progress, Reach, Reader};

/// Where the kernel's cross-memory copy beats a ring: long runs, each of which costs it a look-up, of a transfer that
/// stays in the cache; beyond that the ring's streaming stores win (measured: 1.3 times faster at 1 MiB in runs of
/// 32 KiB, .85 times at 64 MiB in runs of 512 KiB).
const CROSS_MEMORY_RUN_BYTES: usize = 4 << 10;
const CROSS_MEMORY_MOST_BYTES: usize = 8 << 20;

/// The copies between this rank and one peer.
#[derive(Debug)]
pub struct PeerCopies {
    /// The peer.
    pub rank: usize,
    receive: Direction,
    send: Direction,
}

/// All copies of one direction.
#[derive(Debug)]
struct Direction {
    moves: Vec<Move>,
    /// Whether cross-memory attach, where it works, is faster than a ring. Both ends see the same nests.
    suits_cross_memory: bool,
}

#[derive(Debug)]
struct Move {
    kernel: Kernel,
    piece: Piece,
    pieces: usize,
}

impl PeerCopies {
    /// Chooses kernels and pieces.
    pub fn new(peer: &PeerTransfers, piece_bytes: usize, kernel: impl Fn(&LoopNest) -> Kernel) -> PeerCopies {
        let direction = |transfers: &[Transfer]| {
            let moves = transfers.iter().map(|transfer| {
                let piece = transfer.nest.cut(piece_bytes);
                Move { kernel: kernel(&transfer.nest), piece, pieces: transfer.nest.piece_count(&piece) }
            });
            let (bytes, runs) =
                transfers.iter().fold((0, 0), |(bytes, runs), t| (bytes + t.nest.bytes(), runs + t.nest.runs()));
            let long_runs = runs > 0 && bytes / runs >= CROSS_MEMORY_RUN_BYTES;
            Direction { moves: moves.collect(), suits_cross_memory: long_runs && bytes <= CROSS_MEMORY_MOST_BYTES }
        };
        PeerCopies { rank: peer.rank, receive: direction(&peer.receive), send: direction(&peer.send) }
    }
}

/// How data moves from a sender to a receiver. Each end derives it from the posts of both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// The receiver reads the sender's memory, which it has mapped.
    Pull,
    /// The sender writes the receiver's memory, which it has mapped.
    Push,
    /// The receiver reads the sender's memory through the kernel.
    CrossMemory,
    /// Both copy, through a ring in shared memory.
    Ring,
}

/// The methods as callers see them: bits of a mask, and words.
pub const METHODS: [(u32, &str); 3] = [(1, "shared memory"), (2, "rings"), (4, "cross-memory attach")];

impl Method {
    /// Its bit in the mask.
    fn bit(self) -> u32 {
        let (bit, _) = match self {
            Method::Pull | Method::Push => METHODS[0],
            Method::Ring => METHODS[1],
            Method::CrossMemory => METHODS[2],
        };
        bit
    }
}

/// How far the data of one direction has got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Flow {
    /// The peer has not posted.
    #[default]
    Unposted,
    /// In the ring: the next piece of the next move.
    Pieces { next_move: usize, next_piece: usize },
    /// The peer does the work, or still reads.
    AwaitDone,
    /// Nothing left to do or wait for.
    Finished,
}

/// Both directions of one peer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Flows {
    receive: Flow,
    send: Flow,
}

impl Flow {
    /// Whether this rank itself still has to copy.
    fn is_active(self) -> bool {
        matches!(self, Flow::Unposted | Flow::Pieces { .. })
    }
}

/// One operation under way.
pub struct Step<'a> {
    program: &'a Program,
    operation: Operation,
    own: Post,
    buffers: Buffers,
    flows: &'a mut [Flows],
    /// What this rank keeps has been copied.
    kept: bool,
    /// The peers have been told that this rank touches nothing of theirs any more.
    done: bool,
    failure: Option<Failure>,
    /// Something was done since the last look.
    moved: bool,
    methods: u32,
}

impl<'a> Step<'a> {
    /// An operation that this rank has posted.
    pub fn new(
        program: &'a Program,
        operation: Operation,
        own: Post,
        buffers: Buffers,
        flows: &'a mut [Flows],
    ) -> Step<'a> {
        Step {
            program,
            operation,
            own,
            buffers,
            flows,
            kept: false,
            done: false,
            failure: None,
            moved: false,
            methods: 0,
        }
    }

    /// That a peer could not take part.
    pub fn failure(&self) -> Option<Failure> {
        self.failure
    }

    /// How data moved: a mask of [`Method::bit`].
    pub fn methods(&self) -> u32 {
        self.methods
    }

    fn visit_peers(&mut self) -> Result<bool> {
        let mut finished = true;
        for index in 0..self.flows.len() {
            let mut flows = self.flows[index];
            if flows.receive == Flow::Finished && flows.send == Flow::Finished {
                continue;
            }
            let peer = &self.program.peers[index];
            if flows.receive == Flow::Unposted {
                let Some(theirs) = self.program.segment.slot(peer.rank).read(self.operation) else {
                    finished = false;
                    continue;
                };
                flows = self.begin(peer, &theirs)?;
                self.moved = true;
            }
            self.move_pieces(peer, &mut flows);
            if self.program.segment.slot(peer.rank).is_done(self.operation) {
                for flow in [&mut flows.receive, &mut flows.send] {
                    if *flow == Flow::AwaitDone {
                        *flow = Flow::Finished;
                    }
                }
            }
            self.flows[index] = flows;
            finished &= flows.receive == Flow::Finished && flows.send == Flow::Finished;
        }
        Ok(finished)
    }

    /// The peer has posted: settles how data moves both ways, and does what can be done in one go.
    fn begin(&mut self, peer: &PeerCopies, theirs: &Post) -> Result<Flows> {
        if let Some(failure) = Failure::posted(peer.rank, theirs.fault) {
            self.failure.get_or_insert(failure);
            return Ok(Flows { receive: Flow::Finished, send: Flow::Finished });
        }
        let send_method = self.method(peer, &peer.send, &self.own, theirs);
        let receive_method = self.method(peer, &peer.receive, theirs, &self.own);
        for method in [send_method, receive_method].into_iter().flatten() {
            self.methods |= method.bit();
        }
        let send = match send_method {
            None => Flow::Finished,
            Some(Method::Push) => {
                let dst = self.place(peer, theirs.target)?;
                // SAFETY: the peer posted where its output lies, and waits until this rank is done.
                unsafe { self.copy(&peer.send, dst, self.program.own_source(&self.buffers)) };
                Flow::Finished
            }
            Some(Method::Pull | Method::CrossMemory) if self.program.exit_sync == ExitSync::Output => Flow::Finished,
            Some(Method::Pull | Method::CrossMemory) => Flow::AwaitDone,
            Some(Method::Ring) => Flow::Pieces { next_move: 0, next_piece: 0 },
        };
        let receive = match receive_method {
            None => Flow::Finished,
            Some(Method::Pull) => {
                let src = self.place(peer, theirs.source)?;
                // SAFETY: the peer posted where its input lies, and leaves it alone until this rank is done.
                unsafe { self.copy(&peer.receive, self.buffers.output, src) };
                Flow::Finished
            }
            Some(Method::Push) => Flow::AwaitDone,
            Some(Method::CrossMemory) => {
                self.read(peer, theirs.source.address)?;
                Flow::Finished
            }
            Some(Method::Ring) => Flow::Pieces { next_move: 0, next_piece: 0 },
        };
        Ok(Flows { receive, send })
    }

    /// How data moves in one direction; `None` when there is nothing to move.
    fn method(&self, peer: &PeerCopies, direction: &Direction, sender: &Post, receiver: &Post) -> Option<Method> {
        let inner = &*self.program.communicator.0;
        if direction.moves.is_empty() {
            None
        } else if sender.source.segment != 0 || inner.is_same_process(peer.rank) {
            Some(Method::Pull)
        } else if receiver.target.segment != 0 {
            Some(Method::Push)
        } else if inner.cross_memory && direction.suits_cross_memory {
            Some(Method::CrossMemory)
        } else {
            Some(Method::Ring)
        }
    }

    /// Where this rank has the peer's buffer.
    fn place(&self, peer: &PeerCopies, reach: Reach) -> Result<*mut u8> {
        let inner = &*self.program.communicator.0;
        if reach.segment == 0 {
            return Ok(std::ptr::with_exposed_provenance_mut(reach.address as usize));
        }
        inner.segments.place(reach).ok_or_else(|| {
            inner.give_up(Cause::Failed, inner.rank);
            Error::invalid_state(format!(
                "rank {} has freed the shared memory that rank {} still uses; the communicator is out of use",
                inner.rank, peer.rank
            ))
        })
    }

    /// # Safety
    /// Both pointers are the first elements of the boxes that the direction's nests were made for.
    unsafe fn copy(&self, direction: &Direction, dst: *mut u8, src: *const u8) {
        for step in &direction.moves {
            // SAFETY: passed on to the caller.
            unsafe { self.program.team.run(&step.kernel, self.program.bytes_in_all, dst, src) };
        }
    }

    /// Reads the peer's plain memory.
    fn read(&self, peer: &PeerCopies, source: u64) -> Result<()> {
        let inner = &*self.program.communicator.0;
        for step in &peer.receive.moves {
            let nest = step.kernel.nest();
            let mut reader = Reader::new(inner.pid(peer.rank), nest.run_bytes);
            let mut result = Ok(());
            nest.for_each_run(|src, dst| {
                if result.is_ok() {
                    let dst = self.buffers.output.wrapping_offset(dst);
                    // SAFETY: the nest stays inside the output box, for which the caller of exec vouches.
                    result = unsafe { reader.read(dst, source.wrapping_add_signed(src as i64)) };
                }
            });
            result.and_then(|()| reader.flush()).map_err(|error| {
                // A rank that has given up may be gone, or its memory.
                if let Some(broken) = inner.control.broken() {
                    return broken;
                }
                if error.status == Status::PeerLost || inner.has_died(peer.rank) {
                    return inner.give_up(Cause::Died, peer.rank);
                }
                inner.give_up(Cause::Failed, inner.rank);
                error.context(format_args!("rank {} cannot read the input of rank {}", inner.rank, peer.rank))
            })?;
        }
        // Another process may have got its number, and what was read is then anything.
        if inner.has_died(peer.rank) { Err(inner.give_up(Cause::Died, peer.rank)) } else { Ok(()) }
    }

    /// Moves as many pieces through the rings as there are, or as there is room for.
    fn move_pieces(&mut self, peer: &PeerCopies, flows: &mut Flows) {
        let (segment, rank) = (&self.program.segment, self.program.communicator.rank());
        if let Flow::Pieces { .. } = flows.receive {
            let ring = segment.ring(peer.rank, rank);
            while let (Some(nest), Some(src)) = (next_piece(&peer.receive, flows.receive), ring.front()) {
                // SAFETY: the piece is in the ring until it is popped; the nest stays inside the output box.
                unsafe { Kernel::new(nest.unpack(), self.program.bytes_in_all).run(self.buffers.output, src) };
                ring.pop();
                segment.bell(peer.rank).ring();
                flows.receive = advance(&peer.receive, flows.receive);
                self.moved = true;
            }
        }
        if let Flow::Pieces { .. } = flows.send {
            let ring = segment.ring(rank, peer.rank);
            while let (Some(nest), Some(dst)) = (next_piece(&peer.send, flows.send), ring.room()) {
                let src = self.program.own_source(&self.buffers);
                // SAFETY: the room is ours until it is pushed; the nest stays inside the input box. Pieces are read
                // again at once, so they are never worth streaming past the cache.
                unsafe { Kernel::new(nest.pack(), 0).run(dst, src) };
                ring.push();
                segment.bell(peer.rank).ring();
                flows.send = advance(&peer.send, flows.send);
                self.moved = true;
            }
        }
    }
}

/// The piece that comes next.
fn next_piece(direction: &Direction, flow: Flow) -> Option<LoopNest> {
    let Flow::Pieces { next_move, next_piece } = flow else { return None };
    let step = &direction.moves[next_move];
    Some(step.kernel.nest().piece(&step.piece, next_piece))
}

/// Where a flow is after its next piece.
fn advance(direction: &Direction, flow: Flow) -> Flow {
    let Flow::Pieces { next_move, next_piece } = flow else { return flow };
    if next_piece + 1 < direction.moves[next_move].pieces {
        Flow::Pieces { next_move, next_piece: next_piece + 1 }
    } else if next_move + 1 < direction.moves.len() {
        Flow::Pieces { next_move: next_move + 1, next_piece: 0 }
    } else {
        Flow::Finished
    }
}

impl Pending for Step<'_> {
    fn progress(&mut self) -> Result<Progress> {
        self.moved = false;
        let mut finished = self.visit_peers()?;
        if !self.kept {
            self.kept = true;
            for kernel in &self.program.keep {
                let src = self.program.own_source(&self.buffers);
                // SAFETY: `check` saw that both buffers are there and apart; the caller vouches for their lengths.
                unsafe { self.program.team.run(kernel, self.program.bytes_in_all, self.buffers.output, src) };
            }
            finished = self.visit_peers()?;
        }
        let active = |flows: &Flows| flows.receive.is_active() || flows.send.is_active();
        if !self.done && !self.flows.iter().any(active) {
            self.done = true;
            let rank = self.program.communicator.rank();
            self.program.segment.slot(rank).set_done(self.operation);
            self.program.ring_peers();
        }
        Ok(match finished {
            true => Progress::Finished,
            false if self.moved => Progress::Moved,
            false => Progress::Idle,
        })
    }

    fn awaited(&self, visit: &mut dyn FnMut(usize)) {
        for (peer, flows) in self.program.peers.iter().zip(&*self.flows) {
            if flows.receive != Flow::Finished || flows.send != Flow::Finished {
                visit(peer.rank);
            }
        }
    }
}
