//! One operation with all peers of this node: how the data moves between each pair, and how far it has got.

use super::buffers::Buffers;
use super::direction::{Cursor, Direction};
use super::failure::Failure;
use super::program::Program;
use super::remote::RemoteStep;
use super::{CROSS_MEMORY, DIRECT, RING};
use crate::copy::Kernel;
use crate::error::{Error, Result, Status};
use crate::geometry::LoopNest;
use crate::plan::{ExitSync, PeerTransfers, Transfer};
use crate::transport::{Cause, Operation, Pending, Post, Progress, Reach, Reader};

/// The longest copy after which messages are looked after.
const UNATTENDED_BYTES: usize = 4 << 20;

/// Bytes of what stays that are copied at a time between the pieces for others: what a processor fetched for one has
/// then often brought the other, where both are parts of the same rows. Several threads need more to share.
pub fn kept_piece_bytes(threads: u32) -> usize {
    if threads > 1 { UNATTENDED_BYTES } else { 128 << 10 }
}

/// The copies between this rank and one peer of its node.
#[derive(Debug)]
pub struct PeerCopies {
    /// The peer.
    pub rank: usize,
    /// Its place on the node.
    pub member: usize,
    receive: Direction,
    send: Direction,
}

impl PeerCopies {
    /// Chooses kernels and pieces.
    pub fn new(
        peer: &PeerTransfers,
        member: usize,
        piece_bytes: usize,
        kernel: impl Fn(&LoopNest) -> Kernel,
    ) -> PeerCopies {
        let direction = |transfers: &[Transfer]| Direction::new(transfers, piece_bytes, &kernel);
        PeerCopies { rank: peer.rank, member, receive: direction(&peer.receive), send: direction(&peer.send) }
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

impl Method {
    /// Its bit in the mask of [`super::METHODS`].
    fn bit(self) -> u32 {
        match self {
            Method::Pull | Method::Push => DIRECT,
            Method::Ring => RING,
            Method::CrossMemory => CROSS_MEMORY,
        }
    }
}

/// How far the data of one direction has got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Flow {
    /// The peer has not posted.
    #[default]
    Unposted,
    /// In the ring: the piece that comes next.
    Pieces(Cursor),
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
        matches!(self, Flow::Unposted | Flow::Pieces(_))
    }
}

impl Flows {
    /// Whether this rank itself still has to copy, either way.
    fn is_active(&self) -> bool {
        self.receive.is_active() || self.send.is_active()
    }
}

/// One operation under way.
pub struct Step<'a> {
    program: &'a Program,
    operation: Operation,
    own: Post,
    buffers: Buffers,
    flows: &'a mut [Flows],
    remote: RemoteStep<'a>,
    /// What comes next of what this rank keeps.
    keep: Option<Cursor>,
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
        remote: RemoteStep<'a>,
    ) -> Step<'a> {
        Step {
            program,
            operation,
            own,
            buffers,
            flows,
            remote,
            keep: program.keep.first(),
            done: false,
            failure: None,
            moved: false,
            methods: 0,
        }
    }

    /// That a peer could not take part.
    pub fn failure(&self) -> Option<Failure> {
        self.failure.or(self.remote.failure())
    }

    /// How data moved: a mask of the bits of [`super::METHODS`].
    pub fn methods(&self) -> u32 {
        self.methods | self.remote.methods()
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
                let Some(theirs) = self.program.segment.slot(peer.member).read(self.operation) else {
                    finished = false;
                    continue;
                };
                flows = self.begin(peer, &theirs)?;
                self.moved = true;
            }
            self.move_pieces(peer, &mut flows);
            if self.program.segment.slot(peer.member).is_done(self.operation) {
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
                unsafe { self.copy_all(&peer.send, dst, self.program.own_source(&self.buffers)) }?;
                Flow::Finished
            }
            Some(Method::Pull | Method::CrossMemory) if self.program.exit_sync == ExitSync::Output => Flow::Finished,
            Some(Method::Pull | Method::CrossMemory) => Flow::AwaitDone,
            Some(Method::Ring) => Flow::Pieces(Cursor::default()),
        };
        let receive = match receive_method {
            None => Flow::Finished,
            Some(Method::Pull) => {
                let src = self.place(peer, theirs.source)?;
                // SAFETY: the peer posted where its input lies, and leaves it alone until this rank is done.
                unsafe { self.copy_all(&peer.receive, self.buffers.output, src) }?;
                Flow::Finished
            }
            Some(Method::Push) => Flow::AwaitDone,
            Some(Method::CrossMemory) => {
                self.read(peer, theirs.source.address)?;
                Flow::Finished
            }
            Some(Method::Ring) => Flow::Pieces(Cursor::default()),
        };
        Ok(Flows { receive, send })
    }

    /// How data moves in one direction; `None` when there is nothing to move.
    fn method(&self, peer: &PeerCopies, direction: &Direction, sender: &Post, receiver: &Post) -> Option<Method> {
        let inner = &*self.program.communicator.0;
        if direction.moves.is_empty() {
            None
        } else if sender.source.segment != 0 || inner.node.is_same_process(peer.member) {
            Some(Method::Pull)
        } else if receiver.target.segment != 0 {
            Some(Method::Push)
        } else if inner.node.cross_memory && direction.suits_cross_memory {
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
    unsafe fn copy_all(&mut self, direction: &Direction, dst: *mut u8, src: *const u8) -> Result<()> {
        for step in &direction.moves {
            // SAFETY: passed on to the caller.
            unsafe { self.copy(&step.kernel, dst, src) }?;
        }
        Ok(())
    }

    /// Copies what stays: a piece of it, or all that is left when there is nothing to do for others.
    fn copy_kept(&mut self) {
        let Program { keep, team, bytes_in_all, .. } = self.program;
        let is_busy = !self.remote.is_finished() || self.flows.iter().any(Flows::is_active);
        while let Some(cursor) = self.keep {
            let kernel = Kernel::new(keep.piece(cursor), *bytes_in_all);
            let src = self.program.own_source(&self.buffers);
            // SAFETY: `check` saw that both buffers are there and apart; the caller vouches for their lengths.
            unsafe { team.run(&kernel, *bytes_in_all, self.buffers.output, src) };
            self.keep = keep.after(cursor);
            if is_busy {
                break;
            }
        }
        self.moved = true;
    }

    /// Copies, and looks after the messages meanwhile: they move only while they are asked for.
    ///
    /// # Safety
    /// Both pointers are the first elements of the boxes that the kernel's nest was made for.
    unsafe fn copy(&mut self, kernel: &Kernel, dst: *mut u8, src: *const u8) -> Result<()> {
        let Program { team, bytes_in_all, .. } = self.program;
        let parts = if self.remote.is_finished() { 1 } else { kernel.nest().bytes().div_ceil(UNATTENDED_BYTES) };
        for part in 0..parts {
            let Some(nest) = kernel.nest().part(part, parts) else { continue };
            let kernel = if parts == 1 { *kernel } else { Kernel::new(nest, *bytes_in_all) };
            // SAFETY: passed on to the caller; a part touches only bytes of the whole.
            unsafe { team.run(&kernel, *bytes_in_all, dst, src) };
            self.moved |= self.remote.visit()?;
        }
        Ok(())
    }

    /// Reads the peer's plain memory.
    fn read(&self, peer: &PeerCopies, source: u64) -> Result<()> {
        let inner = &*self.program.communicator.0;
        for step in &peer.receive.moves {
            let nest = step.kernel.nest();
            let mut reader = Reader::new(inner.node.pid(peer.member), nest.run_bytes);
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
                if let Some(broken) = inner.broken() {
                    return broken;
                }
                if error.status == Status::PeerLost || inner.node.has_died(peer.member) {
                    return inner.give_up(Cause::Died, peer.rank);
                }
                inner.give_up(Cause::Failed, inner.rank);
                error.context(format_args!("rank {} cannot read the input of rank {}", inner.rank, peer.rank))
            })?;
        }
        // Another process may have got its number, and what was read is then anything.
        if inner.node.has_died(peer.member) { Err(inner.give_up(Cause::Died, peer.rank)) } else { Ok(()) }
    }

    /// Moves as many pieces through the rings as there are, or as there is room for.
    fn move_pieces(&mut self, peer: &PeerCopies, flows: &mut Flows) {
        let (segment, own) = (&self.program.segment, self.program.communicator.0.node.member);
        let ring = segment.ring(peer.member, own);
        while let Flow::Pieces(cursor) = flows.receive
            && let Some(src) = ring.front()
        {
            let nest = peer.receive.piece(cursor);
            // SAFETY: the piece is in the ring until it is popped; the nest stays inside the output box.
            unsafe { Kernel::new(nest.unpack(), self.program.bytes_in_all).run(self.buffers.output, src) };
            ring.pop();
            segment.bell(peer.member).ring();
            flows.receive = peer.receive.after(cursor).map_or(Flow::Finished, Flow::Pieces);
            self.moved = true;
        }
        let ring = segment.ring(own, peer.member);
        while let Flow::Pieces(cursor) = flows.send
            && let Some(dst) = ring.room()
        {
            let nest = peer.send.piece(cursor);
            let src = self.program.own_source(&self.buffers);
            // SAFETY: the room is ours until it is pushed; the nest stays inside the input box. Pieces are read
            // again at once, so they are never worth streaming past the cache.
            unsafe { Kernel::new(nest.pack(), 0).run(dst, src) };
            ring.push();
            segment.bell(peer.member).ring();
            flows.send = peer.send.after(cursor).map_or(Flow::Finished, Flow::Pieces);
            self.moved = true;
        }
    }
}

impl Pending for Step<'_> {
    fn progress(&mut self) -> Result<Progress> {
        // Messages first: they are under way while this rank copies.
        self.moved = self.remote.visit()?;
        let mut finished = self.visit_peers()?;
        if self.keep.is_some() {
            self.copy_kept();
            finished = false;
        }
        if !self.done && !self.flows.iter().any(Flows::is_active) {
            self.done = true;
            let own = self.program.communicator.0.node.member;
            self.program.segment.slot(own).set_done(self.operation);
            self.program.ring_peers();
        }
        Ok(match finished && self.remote.is_finished() {
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
        self.remote.awaited(visit);
    }

    fn needs_polling(&self) -> bool {
        !self.remote.is_finished()
    }
}
